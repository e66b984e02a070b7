//! External programs under supervision: found, started in a group of their own, drained, timed, and
//! killed when the user interrupts, time is up or this process dies. What is run, and what an exit
//! code means, is left to the callers.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::descriptors;
use crate::process::{self, Signal};
use crate::waiting;

/// Searched after `PATH`: ordinary users often lack them there.
pub const SYSTEM_DIRECTORIES: [&str; 6] =
    ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin"];
/// Lines of output that [`last_words`] quotes.
const QUOTED_LINES: usize = 4;
/// How often an interrupt is looked for while a program runs.
const POLL: Duration = Duration::from_millis(20);
/// How long a killed program may take to die: one in the middle of device I/O cannot at once.
pub const KILL_GRACE: Duration = Duration::from_secs(30);
/// How long what a program left running in its group may take to end by itself.
const REMAINS_GRACE: Duration = Duration::from_millis(250);
/// How long the rest of an output is waited for once all of the group is gone: on a busy machine the
/// thread that reads it may be late, while a daemon outside of the group may hold it open for ever.
const OUTPUT_GRACE: Duration = Duration::from_millis(500);

/// Which part of an output stream is kept, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// That much from its start.
    Start(usize),
    /// That much from its end.
    End(usize),
}

/// The bounds of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Kept of standard output.
    pub stdout: Keep,
    /// Kept of standard error.
    pub stderr: Keep,
    /// The program is killed when it takes longer; `None`: it may take as long as it likes.
    pub duration: Option<Duration>,
}

/// What was kept of an output stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The text, with U+FFFD where it is not UTF-8.
    pub text: String,
    /// Whether there was more.
    pub cut: bool,
}

/// A program that has ended by itself.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: Output,
    /// What it wrote to standard error.
    pub stderr: Output,
    /// From before its start to its end, which is timed by a thread that does nothing but wait for it.
    pub elapsed: Duration,
    /// Whether processes of its group were still running a quarter of a second after its end; they were
    /// killed then.
    pub left_running: bool,
}

/// Why a program has not ended by itself.
#[derive(Debug)]
pub enum ChildError {
    /// It could not be started.
    NotStarted(io::Error),
    /// It could not be waited for.
    NotWaited(io::Error),
    /// It took longer than allowed; its group was killed.
    TimedOut {
        /// What it was doing until then, as [`waiting::describe`] tells.
        found: String,
    },
    /// A signal asked us to stop ([`process::interrupted`]); its group was killed.
    Interrupted,
    /// It was killed for either reason and has not ended since, for [`KILL_GRACE`]: it waits for a device
    /// that does not answer. It is still there, and nobody waits for it any more.
    Stuck {
        /// What it is doing, as [`waiting::describe`] tells.
        found: String,
        /// How long it has been running.
        elapsed: Duration,
    },
}

/// Runs `command` to its end, whatever its exit code: standard input is empty, both outputs are read
/// and the rest of `command` is left as it is. The program leads a process group of its own, so that
/// signals of the terminal reach only us. Call it from a thread that lives as long as the program
/// should: the kernel kills the program with that thread.
///
/// Processor time: `RUSAGE_CHILDREN` of this process counts the program once it has ended, and those
/// of its children that it has waited for itself.
///
/// # Errors
/// All of [`ChildError`].
pub fn run(command: &mut Command, limits: &Limits) -> Result<Ended, ChildError> {
    run_while(command, limits, process::interrupted)
}

/// As [`run`], but no signal keeps it from being done: for taking down what was made.
///
/// # Errors
/// All of [`ChildError`] but `Interrupted`.
pub fn run_regardless(command: &mut Command, limits: &Limits) -> Result<Ended, ChildError> {
    run_while(command, limits, || false)
}

fn run_while(
    command: &mut Command,
    limits: &Limits,
    is_unwanted: fn() -> bool,
) -> Result<Ended, ChildError> {
    if is_unwanted() {
        return Err(ChildError::Interrupted);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    process::own_process_group(process::die_with_parent(command));
    descriptors::give_back_limit(command);
    let start = Instant::now();
    let mut child = command.spawn().map_err(ChildError::NotStarted)?;
    let pid = child.id();
    let stdout = Drain::start(child.stdout.take(), limits.stdout);
    let stderr = Drain::start(child.stderr.take(), limits.stderr);
    let ended = wait_aside(child, start);
    let (status, elapsed) = await_end(&ended, pid, start, limits.duration, is_unwanted)?;
    let left_running = end_remains(pid);
    Ok(Ended { status, stdout: stdout.finish(), stderr: stderr.finish(), elapsed, left_running })
}

/// `exit code 1` or `ended by signal 9`.
#[must_use]
pub fn how_ended(exit_code: Option<i32>, signal: Option<i32>) -> String {
    match (exit_code, signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended in an unknown way".to_owned(),
    }
}

/// The last lines that a program said, for an error message: those of `stderr`, or else of `stdout`;
/// empty where it said nothing.
#[must_use]
pub fn last_words(stdout: &str, stderr: &str) -> String {
    let said = if stderr.trim().is_empty() { stdout } else { stderr };
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let first = lines.len().saturating_sub(QUOTED_LINES);
    let words = lines[first..].join("; ").escape_debug().to_string();
    words.replace("\\\"", "\"").replace("\\'", "'")
}

impl Ended {
    /// Exit code; `None` where a signal ended it.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }
}

/// The path of the program `name` (no path), from `PATH` or the system's usual directories.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    let executable = |path: &PathBuf| {
        std::fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if name.is_empty() || name.contains('/') {
        return None;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    search_directories(&path).into_iter().map(|directory| directory.join(name)).find(executable)
}

/// `path` (as `PATH` has it) and the system's usual directories behind it, each once: what programs
/// that call others need too.
#[must_use]
pub fn search_directories(path: &OsStr) -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> = Vec::new();
    // Relative entries would mean another program in another directory.
    let listed = std::env::split_paths(path).filter(|directory| directory.is_absolute());
    for directory in listed.chain(SYSTEM_DIRECTORIES.iter().map(PathBuf::from)) {
        if !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    directories
}

type End = (io::Result<ExitStatus>, Duration);

/// Waits in a thread of its own, so that the end is timed exactly while the caller looks for
/// interrupts.
fn wait_aside(mut child: Child, start: Instant) -> Receiver<End> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let status = child.wait();
        // Nobody listens any more where the program outlived its grace.
        let _ = sender.send((status, start.elapsed()));
    });
    receiver
}

fn await_end(
    ended: &Receiver<End>,
    pid: u32,
    start: Instant,
    limit: Option<Duration>,
    is_unwanted: fn() -> bool,
) -> Result<(ExitStatus, Duration), ChildError> {
    let is_late = || limit.is_some_and(|limit| start.elapsed() > limit);
    let reason = loop {
        match ended.recv_timeout(POLL) {
            Ok((Ok(status), elapsed)) => return Ok((status, elapsed)),
            Ok((Err(error), _)) => return Err(ChildError::NotWaited(error)),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(ChildError::NotWaited(io::Error::other(
                    "the thread that waited for it is gone",
                )));
            }
            Err(RecvTimeoutError::Timeout) if is_unwanted() => break ChildError::Interrupted,
            Err(RecvTimeoutError::Timeout) if is_late() => {
                break ChildError::TimedOut { found: waiting::describe(pid) };
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    };
    // The group may end at this very moment; then there is nothing to kill.
    let _ = process::kill_group(pid, Signal::KILL);
    match ended.recv_timeout(KILL_GRACE) {
        Err(RecvTimeoutError::Timeout) => {
            Err(ChildError::Stuck { found: waiting::describe(pid), elapsed: start.elapsed() })
        }
        _ => Err(reason),
    }
}

/// Gives what still runs of the group `pid`, whose leader has ended, a moment to end as well, and kills
/// the rest; true where there was a rest. What left the group (a daemon) is not touched.
fn end_remains(pid: u32) -> bool {
    let start = Instant::now();
    while process::group_is_alive(pid) {
        if start.elapsed() > REMAINS_GRACE {
            return process::kill_group(pid, Signal::KILL).is_ok();
        }
        std::thread::sleep(POLL / 4);
    }
    false
}

/// What is kept of a stream so far.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    cut: bool,
}

impl Kept {
    fn add(&mut self, bytes: &[u8], keep: Keep) {
        self.bytes.extend_from_slice(bytes);
        match keep {
            Keep::Start(limit) if self.bytes.len() > limit => {
                self.cut = true;
                self.bytes.truncate(limit);
            }
            // Moved only once in a while: each move copies `limit` bytes.
            Keep::End(limit) if self.bytes.len() > limit.saturating_mul(2) => {
                self.cut = true;
                self.bytes.drain(..self.bytes.len() - limit);
            }
            _ => {}
        }
    }

    fn output(mut self, keep: Keep) -> Output {
        if let Keep::End(limit) = keep
            && self.bytes.len() > limit
        {
            self.cut = true;
            self.bytes.drain(..self.bytes.len() - limit);
        }
        Output { text: String::from_utf8_lossy(&self.bytes).into_owned(), cut: self.cut }
    }
}

/// A thread that reads a stream to its end, so that the program never waits for us.
struct Drain {
    kept: Arc<Mutex<Kept>>,
    done: Receiver<()>,
    keep: Keep,
}

impl Drain {
    fn start(stream: Option<impl Read + Send + 'static>, keep: Keep) -> Drain {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let (sender, done) = mpsc::channel();
        let shared = Arc::clone(&kept);
        std::thread::spawn(move || {
            if let Some(stream) = stream {
                read_to_end(stream, |bytes| {
                    shared.lock().unwrap_or_else(PoisonError::into_inner).add(bytes, keep);
                });
            }
            // The run does not wait for ever: it may have gone on.
            let _ = sender.send(());
        });
        Drain { kept, done, keep }
    }

    /// What came until the end of the stream. A daemon may hold it open; then what came so far, and
    /// the thread goes on reading.
    fn finish(self) -> Output {
        let _ = self.done.recv_timeout(OUTPUT_GRACE);
        let kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        kept.output(self.keep)
    }
}

fn read_to_end(mut stream: impl Read, mut visit: impl FnMut(&[u8])) {
    let mut buffer = [0; 8192];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => visit(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_quote_the_last_lines() {
        for (stdout, stderr, words) in [
            ("out\n", "", "out"),
            ("out\n", " \n", "out"),
            ("out\n", "a\nb\n\nc\nd \ne\n", "b; c; d; e"),
            ("", "it's \"bad\"\x1b[0m\n", "it's \"bad\"\\u{1b}[0m"),
            ("", "", ""),
        ] {
            assert_eq!(last_words(stdout, stderr), words);
        }
        assert_eq!(how_ended(Some(2), None), "exit code 2");
        assert_eq!(how_ended(None, Some(9)), "ended by signal 9");
    }

    #[test]
    fn the_system_directories_are_searched_last() {
        let found = search_directories(OsStr::new("/opt/x:bin::/usr/bin"));
        assert_eq!(found[..2], [PathBuf::from("/opt/x"), "/usr/bin".into()]);
        assert_eq!(found.len(), 1 + SYSTEM_DIRECTORIES.len(), "{found:?}");
    }

    #[test]
    fn programs_are_found_by_name_only() {
        assert!(find_program("sh").is_some_and(|path| path.is_absolute()));
        for name in ["", "no-such-program", "/bin/sh", "../bin/sh"] {
            assert_eq!(find_program(name), None, "{name}");
        }
    }
}
