//! The phase runner: one specification comes in, messages go out. Holds the frames, the thread that
//! tells progress and the conversion of every failure, panics included, into a message. What is
//! measured is left to the workloads.

use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use fsdyno_model::wire::{self, AgeTask, MeasureSpec, Message, Spec, Task, VerifySpec};

use crate::age;
use crate::catalog;
use crate::contents;
use crate::context::{Context, Progress};
use crate::failure::Unavailable;
use crate::floor;
use crate::fragmentation;
use crate::sampler_groups::HarnessThread;

/// Exit code when everything was done.
pub const EXIT_FINISHED: i32 = 0;
/// Exit code when something failed; the last message says what.
pub const EXIT_FAILED: i32 = 1;
/// Exit code when the specification could not be understood.
pub const EXIT_MALFORMED: i32 = 2;

const PROGRESS_PERIOD: Duration = Duration::from_millis(200);
/// Stage of failures before the first phase.
pub const PREPARE: &str = "prepare";

/// Reads one [`Spec`] from `input`, does what it asks and says on `output` how that went; returns
/// the exit code of the process. From then on SIGINT and SIGTERM end the work at the next operation.
pub fn serve(mut input: impl Read + Send, output: impl Write + Send) -> i32 {
    let output = Mutex::new(output);
    let send = |message: &Message| -> io::Result<()> {
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        wire::write_frame(&mut *output, message)
    };
    let fail = |stage: &str, error: String, exit_code: i32| {
        // When nobody listens any more the exit code has to say it.
        let _ = send(&Message::Failed { stage: stage.to_owned(), error });
        exit_code
    };
    let task = match read_spec(&mut input) {
        Ok(task) => task,
        Err(error) => return fail("spec", format!("{error:#}"), EXIT_MALFORMED),
    };
    if let Err(error) = fsdyno_sys::process::install_signal_handlers() {
        return fail(PREPARE, error.to_string(), EXIT_FAILED);
    }
    // The kernel's threads are watched by a descriptor each, and some workloads keep many files open.
    fsdyno_sys::descriptors::raise_limit();
    if send(&Message::Hello { version: wire::VERSION }).is_err() {
        return EXIT_FAILED;
    }
    let progress = Progress::default();
    progress.enter(PREPARE);
    let outcome = with_ticker(&progress, &send, || {
        let work = AssertUnwindSafe(|| match &task {
            Task::Measure(spec) => measure(spec, &progress, &send, &mut input),
            Task::Verify(spec) => read_back(spec, &progress, &send),
            Task::Age(task) => age_filesystem(task, &progress, &send),
        });
        catch_unwind(work).unwrap_or_else(|panic| Err(anyhow!("{}", panic_text(panic.as_ref()))))
    });
    let last = match last_message(outcome) {
        Ok(last) => last,
        Err(error) => return fail(&progress.phase(), format!("{error:#}"), EXIT_FAILED),
    };
    match send(&last) {
        Ok(()) => EXIT_FINISHED,
        Err(error) => fail(
            &progress.phase(),
            format!("write to the controlling process: {error}"),
            EXIT_FAILED,
        ),
    }
}

/// What is said at the end, unless the work has failed.
fn last_message(outcome: anyhow::Result<()>) -> anyhow::Result<Message> {
    match outcome {
        Ok(()) => Ok(Message::Finished),
        Err(error) if error.is::<Unavailable>() => {
            Ok(Message::Skipped { reason: format!("{error:#}") })
        }
        Err(error) => Err(error),
    }
}

fn read_spec(input: &mut impl Read) -> anyhow::Result<Task> {
    let spec: Option<Spec> = wire::read_frame(input).context("read the specification")?;
    let spec = spec.context("read the specification: the input is empty")?;
    ensure!(
        spec.version == wire::VERSION,
        "the specification has version {} of the protocol, this runner speaks {}: use one binary for both",
        spec.version,
        wire::VERSION
    );
    Ok(spec.task)
}

/// Runs `work` while another thread tells the progress some times a second.
fn with_ticker<T>(
    progress: &Progress,
    send: &(dyn Fn(&Message) -> io::Result<()> + Sync),
    work: impl FnOnce() -> T,
) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ticker = scope.spawn(|| {
            let mut harness = HarnessThread::default();
            loop {
                std::thread::park_timeout(PROGRESS_PERIOD);
                harness.charge();
                if stop.load(Ordering::Acquire) {
                    return;
                }
                let message = Message::Progress { phase: progress.phase(), done: progress.share() };
                if send(&message).is_err() {
                    return;
                }
            }
        });
        let result = work();
        stop.store(true, Ordering::Release);
        ticker.thread().unpark();
        result
    })
}

fn measure(
    spec: &MeasureSpec,
    progress: &Progress,
    send: &(dyn Fn(&Message) -> io::Result<()> + Sync),
    replies: &mut (dyn Read + Send),
) -> anyhow::Result<()> {
    let say = |message: &Message| send(message).context("write to the controlling process");
    let workload = catalog::resolve(&spec.workload, spec.definition.as_deref())
        .map_err(|error| anyhow!(error))?;
    spec.params.conform(workload.info().params).map_err(|error| anyhow!(error))?;
    say(&Message::Floor { ns_per_operation: floor::ns_per_operation() })?;
    let mut context = Context::new(spec, progress, send, replies)?;
    let work = AssertUnwindSafe(|| -> anyhow::Result<()> {
        workload.run(&mut context)?;
        fragmentation::survey(&context)?;
        context.tell_verified()
    });
    let outcome = catch_unwind(work);
    // However it ended: what the machine did may say why.
    let told = match context.probe.finish() {
        Some(activity) => say(&Message::Activity(Box::new(activity))),
        None => Ok(()),
    };
    outcome.unwrap_or_else(|panic| resume_unwind(panic))?;
    told
}

fn read_back(
    spec: &VerifySpec,
    progress: &Progress,
    send: &(dyn Fn(&Message) -> io::Result<()> + Sync),
) -> anyhow::Result<()> {
    progress.enter("verify");
    progress.set_total(spec.manifest.files.len() as u64);
    let record = contents::verify(spec, |files| progress.advance(files))?;
    send(&Message::Verified(record)).context("write to the controlling process")
}

fn age_filesystem(
    task: &AgeTask,
    progress: &Progress,
    send: &(dyn Fn(&Message) -> io::Result<()> + Sync),
) -> anyhow::Result<()> {
    let record = age::age(task, progress)?;
    send(&Message::Aged(Box::new(record))).context("write to the controlling process")
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "for no stated reason".to_owned());
    format!("the runner panicked: {text}; this is a bug of fsdyno, please report it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(input: &[u8]) -> (i32, Vec<Message>) {
        let mut output = Vec::new();
        let exit_code = serve(input, &mut output);
        let mut stream = output.as_slice();
        let messages = std::iter::from_fn(|| wire::read_frame(&mut stream).unwrap()).collect();
        (exit_code, messages)
    }

    #[test]
    fn malformed_specifications_are_answered() {
        let mut wrong_version = Vec::new();
        let manifest = wire::Manifest {
            payload: fsdyno_model::payload::Payload::Original,
            seed: 0,
            files: vec![],
        };
        let task = Task::Verify(VerifySpec { root: "/".into(), manifest });
        wire::write_frame(&mut wrong_version, &Spec { version: 77, task }).unwrap();
        for input in [&b""[..], b"\x05\0\0\0{\"a\":", b"\x02\0\0\0{}", &[0xff; 40], &wrong_version]
        {
            let (exit_code, messages) = answers(input);
            assert_eq!(exit_code, EXIT_MALFORMED);
            let [Message::Failed { stage, error }] = messages.as_slice() else {
                panic!("{messages:?}");
            };
            assert_eq!(stage, "spec");
            assert!(error.contains("specification"), "{error}");
        }
    }

    #[test]
    fn what_is_missing_skips_and_what_fails_does_not() {
        let missing = || Unavailable("flex is not installed".to_owned());
        let skipped = |reason: &str| Message::Skipped { reason: reason.to_owned() };
        assert_eq!(last_message(Ok(())).unwrap(), Message::Finished);
        let last = last_message(Err(missing().into())).unwrap();
        assert_eq!(last, skipped("flex is not installed"));
        let last = last_message(Err(missing()).context("configure").context("build")).unwrap();
        assert_eq!(last, skipped("build: configure: flex is not installed"));
        assert!(last_message(Err(anyhow!("flex is not installed"))).is_err());
    }

    #[test]
    fn a_panic_is_a_failure() {
        let caught = catch_unwind(|| panic!("file {} is odd", 7)).unwrap_err();
        assert!(panic_text(caught.as_ref()).contains("file 7 is odd"));
    }

    #[test]
    fn nobody_listening_is_no_panic() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert_eq!(serve(&b""[..], Closed), EXIT_MALFORMED);
    }
}
