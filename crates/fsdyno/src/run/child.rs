//! The phase runner seen from its parent: a child of the same binary that gets one spec on its
//! standard input and answers with records on its standard output.

mod phase_budget;

use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use fsdyno_lab::memory_limit::MemoryLimit;
use fsdyno_model::activity::Activity;
use fsdyno_model::age::AgeRecord;
use fsdyno_model::record::{PhaseRecord, VerifyRecord, Warning};
use fsdyno_model::wire::{self, Manifest, Message, Reply, Spec};
use fsdyno_sys::child::KILL_GRACE;
use fsdyno_sys::process::ProcessIdentity;
use fsdyno_sys::{idle_loop, process, waiting};

use phase_budget::PhaseBudget;

/// How often the parent looks for an interruption and the deadline.
const TICK: Duration = Duration::from_millis(50);
/// How long a runner that was asked to stop may take before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Name of the hidden verb that is the runner.
pub const RUNNER_VERB: &str = "runner";

/// How a runner ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It did all that was asked.
    Finished,
    /// It said what failed.
    Failed {
        /// Phase.
        stage: String,
        /// What failed, on what, and what to try.
        error: String,
    },
    /// It lacked something that the workload needs.
    Skipped {
        /// What is missing, and what to try.
        reason: String,
    },
    /// It was stopped because the user or the system wanted so.
    Interrupted,
    /// It was stopped at the deadline.
    TimedOut,
    /// It was stopped because a phase took longer than it may.
    PhaseTimedOut {
        /// How long it may take, and how much of the trial was done.
        error: String,
    },
    /// It was killed for either reason and does not end: it waits for a device that does not answer.
    Stuck {
        /// Its processes, and what they are doing.
        found: String,
    },
}

/// All that a runner said.
#[derive(Debug)]
pub struct Answer {
    /// How it ended.
    pub end: End,
    /// Phase that it reported last.
    pub last_phase: String,
    /// Finished phases.
    pub phases: Vec<PhaseRecord>,
    /// Time of the harness itself per operation, in nanoseconds.
    pub floor_ns: Option<f64>,
    /// Remarks.
    pub warnings: Vec<Warning>,
    /// What the machine did meanwhile.
    pub activity: Option<Activity>,
    /// Files to be read back.
    pub manifest: Option<Manifest>,
    /// What reading back found, or what the workload compared during the run.
    pub verified: Option<VerifyRecord>,
    /// What aging did.
    pub aged: Option<AgeRecord>,
}

/// What a runner may ask for, and who wants to know how far it is.
pub struct Attendance<'a> {
    /// How long each of its phases may take; `None` for as long as the trial.
    pub phase_limit: Option<Duration>,
    /// Hears the phase and the share done.
    pub progress: &'a mut dyn FnMut(&str, f64),
    /// Holds its memory, and that of its programs.
    pub memory_limit: Option<&'a MemoryLimit>,
    /// Unmounts the target and mounts it again.
    pub remount: &'a mut dyn FnMut() -> Result<(), String>,
}

/// Runs `spec` in a child, attends to it and waits for its end.
///
/// # Errors
/// When the child cannot be started; everything later is an [`End`].
pub fn run(
    spec: &Spec,
    deadline: Instant,
    mut attendance: Attendance<'_>,
) -> anyhow::Result<Answer> {
    // By its path, which names the process in every list; by the kernel's link where the file was
    // replaced meanwhile.
    let program = std::env::current_exe().ok().filter(|path| path.exists());
    let program = program.unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    let mut command = Command::new(program);
    command
        .arg(RUNNER_VERB)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env("RUST_BACKTRACE", "0");
    // Its own group: a Ctrl-C goes to the parent alone, which then stops the runner in good order.
    process::own_process_group(&mut command);
    idle_loop::tell(&mut command);
    process::die_with_parent(&mut command);
    let mut child = command.spawn().context("cannot start the phase runner")?;
    if let Some(Err(error)) = attendance.memory_limit.map(|limit| limit.admit(child.id())) {
        // It waits for its errand; without one it ends.
        drop(child.stdin.take());
        let _ = child.wait();
        anyhow::bail!(error);
    }
    let mut input = child.stdin.take().context("the phase runner has no standard input")?;
    let output = child.stdout.take().context("the phase runner has no standard output")?;
    let mut errors = child.stderr.take().context("the phase runner has no standard error")?;
    let stderr = std::thread::spawn(move || {
        let mut text = Vec::new();
        // Bounded: what it prints besides its answer is only for the text of an error.
        let _ = errors.by_ref().take(64 << 10).read_to_end(&mut text);
        let _ = std::io::copy(&mut errors, &mut std::io::sink());
        String::from_utf8_lossy(&text).trim().to_owned()
    });
    let messages = listen(output);
    // A runner that died at once closes the pipe; its end tells more than the error of writing.
    let _ = wire::write_frame(&mut input, spec);
    let mut answer = Answer {
        end: End::Finished,
        last_phase: "start".to_owned(),
        phases: Vec::new(),
        floor_ns: None,
        warnings: Vec::new(),
        activity: None,
        manifest: None,
        verified: None,
        aged: None,
    };
    let runner = Runner { child: &mut child, input, messages };
    let heard = hear(runner, deadline, &mut attendance, &mut answer);
    if let Some(stuck @ End::Stuck { .. }) = heard {
        // Nobody waits for it any more: that would last as long as the device pleases.
        answer.end = stuck;
        return Ok(answer);
    }
    let status = child.wait().context("cannot wait for the phase runner")?;
    let stderr = stderr.join().unwrap_or_default();
    answer.end = heard.unwrap_or_else(|| End::Failed {
        stage: answer.last_phase.clone(),
        error: format!("the phase runner ended early ({status}){}", after_colon(&stderr)),
    });
    Ok(answer)
}

/// A child with its two ends of the conversation.
struct Runner<'a> {
    child: &'a mut Child,
    input: ChildStdin,
    messages: Receiver<std::io::Result<Message>>,
}

/// Takes in messages until the end; `None` when the stream ended without one that says so.
fn hear(
    runner: Runner<'_>,
    deadline: Instant,
    attendance: &mut Attendance<'_>,
    answer: &mut Answer,
) -> Option<End> {
    let Runner { child, mut input, messages } = runner;
    let mut stopping: Option<Stopping> = None;
    let mut end = None;
    let mut budget = PhaseBudget::new(attendance.phase_limit);
    loop {
        match messages.recv_timeout(TICK) {
            Ok(Ok(message)) => match message {
                Message::Hello { .. } => {}
                Message::Progress { phase, done } => {
                    (attendance.progress)(&phase, done);
                    budget.heard(&phase, done);
                    answer.last_phase = phase;
                }
                Message::Floor { ns_per_operation } => answer.floor_ns = Some(ns_per_operation),
                Message::Remount => {
                    let reply = match (attendance.remount)() {
                        Ok(()) => Reply::Remounted,
                        Err(error) => Reply::Failed { error },
                    };
                    // A runner that died meanwhile is noticed by the end of its stream.
                    let _ = wire::write_frame(&mut input, &reply);
                }
                Message::Phase(phase) => answer.phases.push(*phase),
                Message::Warning(warning) => answer.warnings.push(warning),
                Message::Manifest(manifest) => answer.manifest = Some(manifest),
                Message::Activity(activity) => answer.activity = Some(*activity),
                Message::Verified(record) => answer.verified = Some(record),
                Message::Aged(record) => answer.aged = Some(*record),
                Message::Finished => end = Some(End::Finished),
                Message::Skipped { reason } => end = Some(End::Skipped { reason }),
                Message::Failed { stage, error } => end = Some(End::Failed { stage, error }),
            },
            Ok(Err(error)) => {
                let (stage, error) = (answer.last_phase.clone(), error.to_string());
                let error = format!("answer of the phase runner: {error}");
                end = Some(End::Failed { stage, error });
                let _ = child.kill();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        match &stopping {
            None => {
                let why = reason_to_stop(deadline).or_else(|| budget.end());
                stopping = why.map(|why| Stopping::begin(why, child.id()));
            }
            Some(it) if it.since.elapsed() > GRACE + KILL_GRACE => {
                return Some(End::Stuck { found: waiting::describe(child.id()) });
            }
            Some(it) if it.since.elapsed() > GRACE => {
                let _ = process::kill_group(child.id(), process::Signal::KILL);
            }
            Some(_) => {}
        }
    }
    match stopping {
        // It may have finished in the moment in which it was asked to stop.
        Some(_) if end == Some(End::Finished) => end,
        Some(stopping) => Some(stopping.end()),
        None => end,
    }
}

/// A runner that was asked to stop.
struct Stopping {
    why: End,
    since: Instant,
    /// It and the programs that it had started.
    family: Vec<ProcessIdentity>,
}

impl Stopping {
    /// Asks the runner and its programs to end.
    fn begin(why: End, runner: u32) -> Stopping {
        let family = waiting::family(runner);
        let _ = process::kill_group(runner, process::Signal::TERM);
        Stopping { why, since: Instant::now(), family }
    }

    /// Waits until its programs are gone as well: it kills them itself, but may have been killed before it
    /// could; and one that waits for a device that does not answer stays, and holds the target.
    fn end(self) -> End {
        let since = Instant::now();
        loop {
            if since.elapsed() > Duration::from_secs(1) {
                // Those that may not be signalled are told below.
                self.family.iter().for_each(|it| drop(process::kill(it)));
            }
            match waiting::describe_living(&self.family) {
                None => return self.why,
                Some(found) if since.elapsed() > KILL_GRACE => return End::Stuck { found },
                Some(_) => std::thread::sleep(TICK),
            }
        }
    }
}

/// Why a runner must be stopped now, if it must.
fn reason_to_stop(deadline: Instant) -> Option<End> {
    if process::interrupted() {
        Some(End::Interrupted)
    } else if Instant::now() >= deadline {
        Some(End::TimedOut)
    } else {
        None
    }
}

fn listen(mut output: ChildStdout) -> Receiver<std::io::Result<Message>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        loop {
            match wire::read_frame::<Message>(&mut output) {
                Ok(Some(message)) => {
                    if sender.send(Ok(message)).is_err() {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    let _ = sender.send(Err(error));
                    return;
                }
            }
        }
    });
    receiver
}

fn after_colon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}
