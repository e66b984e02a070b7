//! The program that runs while a device is traced. It has our terminal, unless the live view needs it:
//! then what it says is kept and told afterwards.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fsdyno_sys::process::{self, Signal};

use crate::bad_input;

/// Time that a program is given to end after it was asked to.
const GRACE: Duration = Duration::from_secs(5);
/// Bytes that are kept of what a program says during a live view.
const KEPT_BYTES: usize = 1 << 20;
/// Time for the last words of a program that has ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A program that runs.
#[derive(Debug)]
pub struct Program {
    child: Child,
    /// Whether it is the leader of a group of its own.
    has_group: bool,
    /// What it has said, where the terminal is not its own.
    said: Option<Arc<Mutex<Vec<u8>>>>,
    /// When it was asked to end.
    asked: Option<Instant>,
}

impl Program {
    /// Starts `words`. With `screen_is_ours` it cannot read the terminal, and what it would write there
    /// is kept.
    ///
    /// # Errors
    /// Bad input: there is no such program.
    pub fn start(words: &[OsString], screen_is_ours: bool) -> anyhow::Result<Program> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        let mut said = None;
        if screen_is_ours {
            process::own_process_group(&mut command);
            command.stdin(Stdio::null());
            let (reader, writer) = io::pipe()?;
            if process::stdout_is_terminal() {
                command.stdout(writer.try_clone()?);
            }
            if process::stderr_is_terminal() {
                command.stderr(writer);
            }
            said = Some(listen(reader));
        }
        // The command holds the pipe's other end, which must close with the program.
        let child = command.spawn();
        drop(command);
        let child = child.map_err(|error| {
            let hint =
                if error.kind() == io::ErrorKind::NotFound { " (is it installed?)" } else { "" };
            bad_input(format!("cannot run {}: {error}{hint}", words[0].display()))
        })?;
        Ok(Program { child, has_group: screen_is_ours, said, asked: None })
    }

    /// How it ended; `None` while it runs.
    ///
    /// # Errors
    /// Those of waiting.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Asks it to end, and after some time makes it; to be called until it has ended. A program in our
    /// own group got the signal of the terminal already.
    pub fn end(&mut self) {
        match self.asked {
            None => {
                self.asked = Some(Instant::now());
                if self.has_group {
                    // One that is gone already is no error.
                    let _ = process::kill_group(self.child.id(), Signal::TERM);
                }
            }
            Some(asked) if asked.elapsed() > GRACE => {
                if self.has_group {
                    let _ = process::kill_group(self.child.id(), Signal::KILL);
                }
                let _ = self.child.kill();
            }
            Some(_) => {}
        }
    }

    /// Tells what was kept of its words.
    pub fn tell(&self) {
        let Some(said) = &self.said else { return };
        std::thread::sleep(LAST_WORDS);
        let said = said.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody may read it any more.
        let _ = io::stderr().write_all(&said);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Only where an error cut us short: otherwise it has ended.
        if matches!(self.child.try_wait(), Ok(None)) {
            if self.has_group {
                let _ = process::kill_group(self.child.id(), Signal::KILL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The code that a shell would give for it.
pub fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

fn listen(mut reader: io::PipeReader) -> Arc<Mutex<Vec<u8>>> {
    let said = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&said);
    std::thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(count @ 1..) = reader.read(&mut buffer) {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend_from_slice(&buffer[..count]);
            let surplus = kept.len().saturating_sub(KEPT_BYTES);
            kept.drain(..surplus);
        }
    });
    said
}
