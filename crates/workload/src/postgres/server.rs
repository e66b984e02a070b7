//! The server as a process: started, waited for until it answers, stopped. It leads its own children;
//! when this process dies, the kernel sends it the signal at which it ends them all at once, and a warden
//! kills it where that does not end it.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use fsdyno_sys::process::{self, Signal};
use fsdyno_sys::{child, descriptors, orphans, warden};

use super::account::Account;
use super::cluster::with_advice;
use crate::failure::check_interrupt;

/// How often it is looked at while it starts or stops.
const POLL: Duration = Duration::from_millis(1);
/// How long it may take to answer.
const START_LIMIT: Duration = Duration::from_secs(120);
/// How long it may take to end its children when it is told to do so at once: it kills those that do not
/// listen after five seconds.
const END_LIMIT: Duration = Duration::from_secs(15);
/// The line of `postmaster.pid` that says how far the server is, counted from 0.
const STATE_LINE: usize = 7;
const LOG: &str = "server.log";

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    child: Child,
    log: PathBuf,
    has_ended: bool,
}

impl Server {
    /// Starts `program` with `arguments` and waits until it answers. `data` is the data directory, where
    /// it says so, and `scratch` gets its log.
    ///
    /// # Errors
    /// When it does not start, with its last words; a request to stop.
    pub fn start(
        (program, arguments): (&Path, &[String]),
        account: Account,
        data: &Path,
        scratch: &Path,
    ) -> anyhow::Result<Server> {
        let log = scratch.join(LOG);
        let output = File::create(&log).with_context(|| format!("create {}", log.display()))?;
        output.set_permissions(Permissions::from_mode(0o600))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir("/")
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output);
        if let Some((user, group)) = account.numbers() {
            command.uid(user).gid(group);
        }
        process::own_process_group(process::signal_with_parent(&mut command, Signal::QUIT));
        warden::watch_over(&mut command, END_LIMIT);
        descriptors::give_back_limit(&mut command);
        let child = command.spawn().with_context(|| format!("start {}", program.display()))?;
        let mut server = Server { child, log, has_ended: false };
        server.await_ready(data)?;
        Ok(server)
    }

    fn await_ready(&mut self, data: &Path) -> anyhow::Result<()> {
        let start = Instant::now();
        let lock = data.join("postmaster.pid");
        let own = self.child.id().to_string();
        loop {
            check_interrupt()?;
            let text = std::fs::read_to_string(&lock).unwrap_or_default();
            let mut lines = text.lines();
            // An older server's file may lie there.
            if lines.next() == Some(&own)
                && lines.nth(STATE_LINE - 1).map(str::trim) == Some("ready")
            {
                return Ok(());
            }
            if let Some(status) = self.look()? {
                return Err(self.complaint("start the server", status));
            }
            ensure!(
                start.elapsed() < START_LIMIT,
                "start the server: it does not answer after {} s: {}",
                START_LIMIT.as_secs(),
                self.last_words()
            );
            std::thread::sleep(POLL);
        }
    }

    /// Stops it in good order: it ends its connections, writes all that is dirty and ends. Its processor
    /// time, with that of its children, is counted as that of children afterwards.
    ///
    /// # Errors
    /// When it did not end well, with its last words; a request to stop, after ending it at once.
    pub fn stop(mut self) -> anyhow::Result<()> {
        process::kill_group(self.child.id(), Signal::INT)?;
        loop {
            if let Some(status) = self.look()? {
                return match status.success() {
                    true => Ok(()),
                    false => Err(self.complaint("stop the server", status)),
                };
            }
            check_interrupt()?;
            std::thread::sleep(POLL);
        }
    }

    fn look(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        let status = self.child.try_wait().context("wait for the server")?;
        self.has_ended |= status.is_some();
        Ok(status)
    }

    /// All that it has said.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    fn last_words(&self) -> String {
        child::last_words("", &self.log())
    }

    fn complaint(&self, what: &str, status: ExitStatus) -> anyhow::Error {
        use std::os::unix::process::ExitStatusExt as _;
        let how = child::how_ended(status.code(), status.signal());
        with_advice(anyhow!("{what}: {how}: {}", self.last_words()), &self.log())
    }

    /// Ends it at once; the database needs a recovery afterwards.
    fn end(&mut self) {
        let start = Instant::now();
        // A failure shows in that it goes on running.
        let _ = process::kill_group(self.child.id(), Signal::QUIT);
        while start.elapsed() < END_LIMIT {
            if !matches!(self.look(), Ok(None)) {
                return;
            }
            std::thread::sleep(POLL);
        }
        let adopted = orphans::adopt();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if adopted.is_ok() {
            let _ = orphans::end(&[]);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.has_ended {
            self.end();
        }
    }
}
