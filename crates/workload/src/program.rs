//! External programs as part of a workload: make, tar, dpkg or a command line of the user. The
//! supervision is [`fsdyno_sys::child`]'s; what is timed around a program is left to the workloads.

use std::fmt;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use fsdyno_model::target::join_mkfs;
use fsdyno_sys::child::{self, ChildError, Ended, Keep, Limits};

use crate::failure::Interrupted;

/// How much of each output is kept, from its end, in bytes.
const KEPT_BYTES: usize = 64 << 10;
const LIMITS: Limits =
    Limits { stdout: Keep::End(KEPT_BYTES), stderr: Keep::End(KEPT_BYTES), duration: None };
/// The shell of [`Program::shell`], the one that POSIX promises.
const SHELL: &str = "/bin/sh";

/// A program to run: its arguments, directory and further environment. Everything else of the
/// environment is the user's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    argv: Vec<String>,
    /// The line that a shell gets, for messages.
    line: Option<String>,
    directory: Option<PathBuf>,
    environment: Vec<(String, String)>,
    /// Numbers of the user and of the group that it runs as.
    user: Option<(u32, u32)>,
}

/// A program that has ended by itself.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Exit code; `None` where a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output, its last 64 KiB.
    pub stdout: String,
    /// Standard error, its last 64 KiB.
    pub stderr: String,
    /// From the start of the program to its end. What it left running does not count.
    pub elapsed: Duration,
    /// Whether processes of its group still ran a quarter of a second after its end, and were killed.
    pub left_running: bool,
}

impl Program {
    /// The program `argv[0]`, found as [`child::find_program`] does unless it is a path, with the rest
    /// as arguments.
    #[must_use]
    pub fn new<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Program {
        let argv = argv.into_iter().map(Into::into).collect();
        Program { argv, line: None, directory: None, environment: Vec::new(), user: None }
    }

    /// A line for `/bin/sh`, with all that a shell can do.
    #[must_use]
    pub fn shell(line: impl Into<String>) -> Program {
        let line = line.into();
        let program = Program::new([SHELL, "-c", &line]);
        Program { line: Some(line), ..program }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Program {
        self.argv.push(arg.into());
        self
    }

    /// Starts it in `directory`; without this it starts where this process is.
    #[must_use]
    pub fn current_dir(mut self, directory: impl Into<PathBuf>) -> Program {
        self.directory = Some(directory.into());
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Program {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Runs it as the user and the group with these numbers, and in no other group: for root alone.
    #[must_use]
    pub fn user(mut self, user: u32, group: u32) -> Program {
        self.user = Some((user, group));
        self
    }

    /// Runs it to a successful end. Call this from a thread that lives as long as the program: the
    /// kernel kills the program with that thread. Its processor time counts as that of the
    /// application, and so does that of its children that it waits for.
    ///
    /// # Errors
    /// [`Interrupted`] when a signal asks us to stop, after killing the program with its children; when
    /// it cannot be found or started; when it ends with another exit code than 0 or by a signal:
    /// `make -j2: exit code 2: LAST LINES`.
    pub fn run(&self) -> anyhow::Result<Finished> {
        let finished = self.run_any()?;
        ensure!(finished.exit_code == Some(0), "{self}: {}", finished.complaint());
        Ok(finished)
    }

    /// As [`Program::run`], and every exit code and signal is a success.
    ///
    /// # Errors
    /// [`Interrupted`], or when it cannot be found or started.
    pub fn run_any(&self) -> anyhow::Result<Finished> {
        let ended = match child::run(&mut self.prepare()?, &LIMITS) {
            Ok(ended) => ended,
            Err(ChildError::Interrupted) => return Err(Interrupted.into()),
            Err(ChildError::NotStarted(error)) => return Err(self.not_started(&error)),
            Err(ChildError::NotWaited(error)) => bail!("{self}: cannot be waited for: {error}"),
            Err(ChildError::TimedOut { found }) => {
                bail!("{self}: killed, though no limit was set: {found}")
            }
            Err(ChildError::Stuck { found, .. }) => {
                bail!("{self}: was killed and does not end: {found}")
            }
        };
        Ok(Finished::of(ended))
    }

    fn prepare(&self) -> anyhow::Result<Command> {
        let program = self.argv.first().filter(|program| !program.is_empty());
        let program = program.context("run a program: no program is named")?;
        let found = if program.contains('/') {
            PathBuf::from(program)
        } else {
            child::find_program(program).ok_or_else(|| {
                anyhow!("{self}: {program} is not found: install it, or give its whole path")
            })?
        };
        let mut command = Command::new(found);
        command
            .args(&self.argv[1..])
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        Ok(command)
    }

    fn not_started(&self, error: &std::io::Error) -> anyhow::Error {
        match &self.directory {
            Some(directory) if !directory.is_dir() => {
                anyhow!("{self}: cannot be started: {} is no directory", directory.display())
            }
            _ => anyhow!("{self}: cannot be started: {error}"),
        }
    }
}

/// The command line as a shell would take it.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.line {
            Some(line) => f.write_str(line.trim()),
            None => f.write_str(&join_mkfs(&self.argv)),
        }
    }
}

impl Finished {
    fn of(ended: Ended) -> Finished {
        Finished {
            exit_code: ended.exit_code(),
            signal: ended.signal(),
            stdout: ended.stdout.text,
            stderr: ended.stderr.text,
            elapsed: ended.elapsed,
            left_running: ended.left_running,
        }
    }

    /// How it ended, with the last lines that it said: `exit code 2: LAST LINES`.
    #[must_use]
    pub fn complaint(&self) -> String {
        let how = child::how_ended(self.exit_code, self.signal);
        let words = child::last_words(&self.stdout, &self.stderr);
        if words.is_empty() { how } else { format!("{how}: {words}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_run_where_and_with_what_they_are_given() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        let program = Program::shell("pwd; echo $COLOUR $HOME; echo x > f")
            .current_dir(&path)
            .env("COLOUR", "light blue");
        let finished = program.run().unwrap();
        let home = std::env::var("HOME").unwrap_or_default();
        let expected = format!("{}\nlight blue {home}\n", path.display());
        assert_eq!(finished.stdout.trim_end(), expected.trim_end());
        assert_eq!(std::fs::read_to_string(path.join("f")).unwrap(), "x\n");
        assert!(finished.elapsed > Duration::ZERO && !finished.left_running);
        let direct = Program::new(["echo", "a b"]).arg("$HOME").run().unwrap();
        assert_eq!(direct.stdout, "a b $HOME\n");
    }

    #[test]
    fn a_bad_end_is_an_error_with_the_last_words() {
        let program = Program::shell("echo noise; echo 'make: *** [all] Error 2' >&2; exit 2");
        let text = program.run().unwrap_err().to_string();
        assert!(text.ends_with("exit 2: exit code 2: make: *** [all] Error 2"), "{text}");
        assert_eq!(program.run_any().unwrap().exit_code, Some(2));
        let text = Program::shell("kill -TERM $$").run().unwrap_err().to_string();
        assert_eq!(text, "kill -TERM $$: ended by signal 15");
        let text = Program::new(["sh", "-c", "exit 3"]).run().unwrap_err().to_string();
        assert_eq!(text, "sh -c 'exit 3': exit code 3");
    }

    #[test]
    fn what_cannot_start_says_why() {
        let nothing: [&str; 0] = [];
        for (program, expected) in [
            (Program::new(nothing), "no program is named"),
            (Program::new([""]), "no program is named"),
            (Program::new(["no-such-tool", "-x"]), "no-such-tool -x: no-such-tool is not found"),
            (Program::new(["/no/such/tool"]), "/no/such/tool: cannot be started: No such file"),
            (Program::new(["true"]).current_dir("/no/place"), "/no/place is no directory"),
        ] {
            let text = program.run().unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn long_output_keeps_its_end() {
        let finished = Program::shell("yes 123456789 | head -n 200000; echo end").run().unwrap();
        assert_eq!(finished.stdout.len(), KEPT_BYTES);
        assert!(finished.stdout.ends_with("123456789\nend\n"));
    }
}
