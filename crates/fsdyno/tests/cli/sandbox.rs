//! A place for one test: its own results, state and images; and the binary set up to use them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use fsdyno_model::disturbance;
use serde_json::Value;

/// A place for one test, removed at its end.
pub struct Sandbox {
    directory: tempfile::TempDir,
}

impl Sandbox {
    /// A new place on the disk (not in memory: images need room).
    pub fn new() -> Sandbox {
        Sandbox::below("/var/tmp")
    }

    /// A new place in memory, for tests that need many files and no image.
    pub fn in_memory() -> Sandbox {
        Sandbox::below(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" })
    }

    fn below(parent: &str) -> Sandbox {
        let directory = tempfile::Builder::new().prefix("fsdyno-test-").tempdir_in(parent);
        let sandbox = Sandbox { directory: directory.expect("a temporary directory") };
        std::fs::create_dir(sandbox.images()).expect("a directory for images");
        sandbox
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn images(&self) -> PathBuf {
        self.path().join("images")
    }

    /// The binary with arguments, using this place alone.
    pub fn command<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fsdyno"));
        self.surround(command.args(arguments));
        command
    }

    /// Has a command work in this place alone, as the binary does.
    pub fn surround(&self, command: &mut Command) {
        command
            .current_dir(self.path())
            .env("XDG_DATA_HOME", self.path().join("data"))
            .env("XDG_STATE_HOME", self.path().join("state"))
            .env("XDG_CACHE_HOME", self.path().join("cache"))
            .env_remove("FSDYNO_DB")
            // Another trial of each target only where a test is about that.
            .env("FSDYNO_TRACE", "none")
            // Nor a second between trials.
            .env("FSDYNO_NO_YARDSTICK", "1")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null());
        // Tests end servers by SIGINT, wherever they were started from.
        fsdyno_sys::process::heed_interrupts(command);
    }

    /// Runs it to its end as the last arguments of another program.
    pub fn run_within<'a>(
        &self,
        mut outer: Command,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Finished {
        self.surround(outer.arg(env!("CARGO_BIN_EXE_fsdyno")).args(arguments));
        Finished::of(&outer.output().expect("the program starts"))
    }

    /// Runs it to its end.
    pub fn run<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Finished {
        let output = self.command(arguments).output().expect("the binary starts");
        Finished::of(&output)
    }

    /// Runs the binary as an ordinary user, who gets this place; `None` when we are one already.
    pub fn run_as_nobody(&self, arguments: &[&str]) -> Option<Finished> {
        if !fsdyno_sys::process::is_root() {
            return None;
        }
        match self.command_as_nobody(arguments).output() {
            Ok(output) => Some(Finished::of(&output)),
            Err(error) => {
                skip(&format!("setpriv is not installed, it is run as root: {error}"));
                None
            }
        }
    }

    /// The binary as an ordinary user, who gets this place; as the user who we are, where we are one.
    pub fn command_as_nobody(&self, arguments: &[&str]) -> Command {
        if !fsdyno_sys::process::is_root() {
            return self.command(arguments.iter().copied());
        }
        // The build may lie where nobody else can read it.
        let binary = self.path().join("fsdyno");
        std::fs::copy(env!("CARGO_BIN_EXE_fsdyno"), &binary).unwrap();
        let place = self.path().display().to_string();
        let owned = Command::new("chown").args(["-R", "65534:65534", &place]).status().unwrap();
        assert!(owned.success());
        std::fs::set_permissions(self.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(&binary).args(arguments);
        command.current_dir(self.path()).env("LC_ALL", "C.UTF-8").env("HOME", self.path());
        command.env("FSDYNO_TRACE", "none").env("FSDYNO_NO_YARDSTICK", "1");
        for (name, directory) in [("DATA", "data"), ("STATE", "state"), ("CACHE", "cache")] {
            command.env(format!("XDG_{name}_HOME"), self.path().join(directory));
        }
        command
    }

    /// Writes a file and gives its path as text.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        std::fs::write(&path, text).expect("the file can be written");
        path.display().to_string()
    }

    /// Asserts that nothing of a run is left: no loop device on our images, no mount below us, no
    /// file among the images, no ledger.
    pub fn assert_nothing_left(&self) {
        self.assert_nothing_left_but(&[]);
    }

    /// The kernel lets go of a loop device a moment after its last user is gone.
    pub fn wait_for_detached_loops(&self) {
        let place = self.path().display().to_string();
        let deadline = Instant::now() + Duration::from_secs(60);
        let attached = || fsdyno_sys::loopdev::list().unwrap_or_default();
        while Instant::now() < deadline
            && attached().iter().any(|one| one.backing_file.starts_with(&place))
        {
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// As [`Sandbox::assert_nothing_left`], but for loop devices that the test itself made.
    pub fn assert_nothing_left_but(&self, own_loops: &[&str]) {
        let place = self.path().display().to_string();
        for attached in fsdyno_sys::loopdev::list().unwrap_or_default() {
            let own = own_loops.iter().any(|path| attached.path == Path::new(path));
            assert!(own || !attached.backing_file.starts_with(&place), "left: {attached:?}");
        }
        let mounts =
            std::fs::read_to_string("/proc/self/mountinfo").expect("mountinfo is readable");
        assert!(!mounts.contains(&place), "a mount is left: {mounts}");
        let left: Vec<_> = std::fs::read_dir(self.images()).expect("images").flatten().collect();
        assert!(left.is_empty(), "images are left: {left:?}");
        let live = self.path().join("state/fsdyno/live");
        let ledgers: Vec<_> = std::fs::read_dir(live).into_iter().flatten().flatten().collect();
        assert!(ledgers.is_empty(), "ledgers are left: {ledgers:?}");
    }
}

/// What a finished command said.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    pub fn of(output: &Output) -> Finished {
        Finished {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Its standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}\n{}\n{}", self.stdout, self.stderr))
    }

    #[track_caller]
    pub fn assert_code(&self, code: i32) -> &Finished {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

/// Prints why a test cannot run here and says so; `scripts/bootstrap test` counts these lines.
pub fn skip(reason: &str) {
    println!("skipped: {reason}");
}

/// Held by tests that make disks fail: the kernel suppresses messages of errors that come in numbers, and
/// with them those that another test waits for.
pub fn kernel_log() -> std::sync::MutexGuard<'static, ()> {
    static LOG: std::sync::Mutex<()> = std::sync::Mutex::new(());
    LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Whether tests of minutes are asked for; prints that they are not.
pub fn is_long_asked() -> bool {
    let is_asked = std::env::var_os("FSDYNO_TEST_LONG").is_some();
    if !is_asked {
        skip("FSDYNO_TEST_LONG is not set: this takes minutes where guests are emulated");
    }
    is_asked
}

/// Whether tests that format loop devices can run here; prints the reason when not.
pub fn can_format(filesystems: &[&str]) -> bool {
    if !fsdyno_sys::process::is_root() {
        skip("needs root for loop devices");
        return false;
    }
    if !Path::new("/dev/loop-control").exists() {
        skip("the kernel has no loop devices");
        return false;
    }
    for filesystem in filesystems {
        let tool = Command::new(format!("mkfs.{filesystem}")).arg("-V").output();
        if tool.is_err() {
            skip(&format!("mkfs.{filesystem} is not installed"));
            return false;
        }
        let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        if !known.split_whitespace().any(|name| name == *filesystem) {
            skip(&format!("the kernel does not know {filesystem}"));
            return false;
        }
    }
    true
}

/// Whether PostgreSQL is installed; prints the reason when not.
pub fn has_postgres() -> bool {
    use fsdyno_workload::postgres::programs::{AUTO, locate};
    locate(AUTO).inspect_err(|error| skip(&error.to_string())).is_ok()
}

/// The warnings of a trial, but for those that tell how busy the machine was.
pub fn own_warnings(trial: &Value) -> Vec<&Value> {
    let is_of_the_machine =
        |code: &str| code != "kernel-complained" && disturbance::CODES.contains(&code);
    let warnings = trial["warnings"].as_array().unwrap().iter();
    let is_own = |one: &&Value| !is_of_the_machine(one["code"].as_str().unwrap());
    warnings.filter(is_own).collect()
}

/// Outcomes of all trials of a result document.
pub fn outcomes(result: &Value) -> Vec<&str> {
    let trials = result["trials"].as_array().expect("trials is a list");
    trials.iter().map(|trial| trial["outcome"].as_str().expect("an outcome is a word")).collect()
}
