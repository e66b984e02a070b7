//! The external programs of a filesystem: run with a deadline and bounded output in a plain English
//! environment, and their errors in words. The supervision is [`fsdyno_sys::child`]'s; what exit codes
//! mean is left to the callers.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use fsdyno_model::target::join_mkfs;
use fsdyno_sys::child::{self, ChildError, Ended, Keep, Limits};
use fsdyno_sys::process;
use thiserror::Error;

/// How much of standard output is kept, from its start, in bytes.
const STDOUT_KEPT_BYTES: usize = 4 << 20;
/// How much of standard error is kept, from its end, in bytes.
const STDERR_KEPT_BYTES: usize = 16 << 10;

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// Name of the program, searched as [`crate::tools::find`] does.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
}

impl CommandSpec {
    /// A program with its first arguments.
    #[must_use]
    pub fn new(program: &str, args: &[&str]) -> CommandSpec {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        CommandSpec { program: program.to_owned(), args }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> CommandSpec {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: &[String]) -> CommandSpec {
        self.args.extend_from_slice(args);
        self
    }
}

/// The command line as a shell would take it.
impl fmt::Display for CommandSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program)?;
        if self.args.is_empty() { Ok(()) } else { write!(f, " {}", join_mkfs(&self.args)) }
    }
}

/// A program that has ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Exit code; `None` where a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output, its first 4 MiB.
    pub stdout: String,
    /// Whether there was more of it.
    pub stdout_cut: bool,
    /// Standard error, its last 16 KiB.
    pub stderr: String,
    /// From the start of the program to its end.
    pub elapsed: Duration,
}

impl Finished {
    /// The last lines that it said, for an error message; empty where it said nothing.
    #[must_use]
    pub fn last_words(&self) -> String {
        child::last_words(&self.stdout, &self.stderr)
    }
}

/// Why a program did not do what it should.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CommandError {
    /// It is not installed.
    #[error("{program} is not installed{}", install.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Missing {
        /// Its name.
        program: String,
        /// How to install it here.
        install: Option<String>,
    },
    /// It could not be started or waited for.
    #[error("{command}: cannot be started: {error}")]
    NotStarted {
        /// The command line.
        command: String,
        /// Why.
        error: String,
    },
    /// It took longer than allowed and was killed.
    #[error("{command}: killed after {limit_s} s, the limit; until then: {found}")]
    TimedOut {
        /// The command line.
        command: String,
        /// The limit in seconds.
        limit_s: u64,
        /// Its processes, and what they were doing.
        found: String,
    },
    /// It took longer than allowed, or was to stop, and could not be killed: it is still there.
    #[error(
        "{command}: does not end, {elapsed_s} s after its start, though it was killed: {found}"
    )]
    Stuck {
        /// The command line.
        command: String,
        /// Since its start, in seconds.
        elapsed_s: u64,
        /// Its processes, and what they are doing.
        found: String,
    },
    /// The user or the system asked us to stop; it was killed.
    #[error("{command}: interrupted")]
    Interrupted {
        /// The command line.
        command: String,
    },
    /// It ended with an exit code other than 0, or by a signal.
    #[error("{command}: {how}{}{words}", if words.is_empty() { "" } else { ": " })]
    Failed {
        /// The command line.
        command: String,
        /// `exit code 1` or `ended by signal 9`.
        how: String,
        /// The last that it said.
        words: String,
    },
}

/// Runs a program to its end, whatever its exit code: standard input empty, messages in English, the
/// root as working directory. Call it from a thread that lives as long as the program should: the
/// kernel kills the program with that thread.
///
/// # Errors
/// All of [`CommandError`] but `Failed`.
pub fn run(spec: &CommandSpec, limit: Duration) -> Result<Finished, CommandError> {
    if process::interrupted() {
        return Err(CommandError::Interrupted { command: spec.to_string() });
    }
    run_by(child::run, spec, limit)
}

/// As [`run`], but no signal keeps it from being done, and an exit code other than 0 is an error: for
/// taking down what was made.
///
/// # Errors
/// All of [`CommandError`] but `Interrupted`.
pub fn take_down(spec: &CommandSpec, limit: Duration) -> Result<(), CommandError> {
    let finished = run_by(child::run_regardless, spec, limit)?;
    if finished.exit_code == Some(0) { Ok(()) } else { Err(failure(spec, &finished)) }
}

fn run_by(
    run: fn(&mut Command, &Limits) -> Result<Ended, ChildError>,
    spec: &CommandSpec,
    limit: Duration,
) -> Result<Finished, CommandError> {
    let path = crate::tools::find(&spec.program).ok_or_else(|| CommandError::Missing {
        program: spec.program.clone(),
        install: crate::tools::install_advice(&spec.program),
    })?;
    let limits = Limits {
        stdout: Keep::Start(STDOUT_KEPT_BYTES),
        stderr: Keep::End(STDERR_KEPT_BYTES),
        duration: Some(limit),
    };
    let ended = run(&mut prepare(spec, path), &limits).map_err(|error| {
        let command = spec.to_string();
        match error {
            ChildError::Interrupted => CommandError::Interrupted { command },
            ChildError::TimedOut { found } => {
                CommandError::TimedOut { command, limit_s: limit.as_secs(), found }
            }
            ChildError::Stuck { found, elapsed } => {
                CommandError::Stuck { command, elapsed_s: elapsed.as_secs(), found }
            }
            ChildError::NotStarted(error) | ChildError::NotWaited(error) => {
                CommandError::NotStarted { command, error: error.to_string() }
            }
        }
    })?;
    Ok(Finished {
        exit_code: ended.exit_code(),
        signal: ended.signal(),
        stdout: ended.stdout.text,
        stdout_cut: ended.stdout.cut,
        stderr: ended.stderr.text,
        elapsed: ended.elapsed,
    })
}

/// As [`run`], and an exit code other than 0 is an error.
///
/// # Errors
/// All of [`CommandError`].
pub fn run_checked(spec: &CommandSpec, limit: Duration) -> Result<Finished, CommandError> {
    let finished = run(spec, limit)?;
    if finished.exit_code == Some(0) { Ok(finished) } else { Err(failure(spec, &finished)) }
}

/// The error of a program that ended badly.
#[must_use]
pub fn failure(spec: &CommandSpec, finished: &Finished) -> CommandError {
    let how = child::how_ended(finished.exit_code, finished.signal);
    CommandError::Failed { command: spec.to_string(), how, words: finished.last_words() }
}

fn prepare(spec: &CommandSpec, path: PathBuf) -> Command {
    let mut command = Command::new(path);
    // Some are scripts that call others, from directories that ordinary users have not in `PATH`.
    let directories = child::search_directories(&std::env::var_os("PATH").unwrap_or_default());
    if let Ok(path) = std::env::join_paths(directories) {
        command.env("PATH", path);
    }
    command.args(&spec.args).current_dir("/").env("LC_ALL", "C").env_remove("LANGUAGE");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> CommandSpec {
        CommandSpec::new("sh", &["-c", script])
    }

    #[test]
    fn output_and_exit_code_are_kept() {
        let finished = run(&shell("echo out; echo err >&2; exit 3"), LIMIT).unwrap();
        assert_eq!((finished.exit_code, finished.signal), (Some(3), None));
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("out\n", "err\n"));
        let error = run_checked(&shell("echo agsize too small >&2; exit 1"), LIMIT).unwrap_err();
        assert!(error.to_string().ends_with(": exit code 1: agsize too small"), "{error}");
        let finished = run(&shell("kill -9 $$"), LIMIT).unwrap();
        assert_eq!((finished.exit_code, finished.signal), (None, Some(9)));
    }

    /// Starts itself again with a short `PATH`.
    #[test]
    fn programs_find_those_of_the_system() {
        const SHORT: &str = "/usr/bin:/bin";
        if std::env::var("PATH").as_deref() == Ok(SHORT) {
            let finished = run(&shell("echo :$PATH:"), LIMIT).unwrap();
            assert!(finished.stdout.starts_with(":/usr/bin:/bin:"), "{}", finished.stdout);
            assert!(finished.stdout.contains(":/usr/sbin:"), "{}", finished.stdout);
            return;
        }
        let again = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "command::tests::programs_find_those_of_the_system"])
            .env("PATH", SHORT)
            .output()
            .unwrap();
        assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stdout));
        assert!(String::from_utf8_lossy(&again.stdout).contains("1 passed"));
    }

    #[test]
    fn endless_output_is_bounded() {
        let script =
            "head -c 9000000 /dev/zero; head -c 100000 /dev/zero | tr '\\0' x >&2; echo end >&2";
        let finished = run(&shell(script), LIMIT).unwrap();
        assert_eq!(finished.stdout.len(), STDOUT_KEPT_BYTES);
        assert!(finished.stdout_cut);
        assert_eq!(finished.stderr.len(), STDERR_KEPT_BYTES);
        assert!(finished.stderr.ends_with("xend\n"));
    }

    #[test]
    fn a_program_that_takes_too_long_is_killed() {
        let error = run(&shell("sleep 600 & sleep 600"), Duration::from_millis(100)).unwrap_err();
        assert!(matches!(error, CommandError::TimedOut { .. }), "{error}");
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let error = run(&CommandSpec::new("no-such-program", &[]), LIMIT).unwrap_err();
        assert_eq!(error.to_string(), "no-such-program is not installed");
    }

    #[test]
    fn command_lines_are_quoted() {
        let spec = CommandSpec::new("mkfs.xfs", &["-d", "a b"]).arg("/dev/loop0");
        assert_eq!(spec.to_string(), "mkfs.xfs -d 'a b' /dev/loop0");
    }
}
