//! For the tests of the phase runner: start one in this process, read its answers, and make a small
//! filesystem to fill up.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::path::{Path, PathBuf};

use fsdyno_model::param::Params;
use fsdyno_model::record::{PhaseRecord, VerifyRecord, Warning};
use fsdyno_model::wire::{self, Manifest, MeasureSpec, Message, Spec, Task, VerifySpec, Watch};
use fsdyno_workload::{catalog, runner};

/// What a runner said.
#[derive(Debug)]
pub struct Answers {
    pub exit_code: i32,
    pub messages: Vec<Message>,
}

impl Answers {
    pub fn phases(&self) -> Vec<&PhaseRecord> {
        let messages = self.messages.iter();
        messages
            .filter_map(|message| match message {
                Message::Phase(record) => Some(&**record),
                _ => None,
            })
            .collect()
    }

    pub fn phase(&self, name: &str) -> &PhaseRecord {
        let found = self.phases().into_iter().find(|phase| phase.name == name);
        found.unwrap_or_else(|| panic!("no phase {name} in {:?}", self.messages))
    }

    pub fn warnings(&self) -> Vec<&Warning> {
        let messages = self.messages.iter();
        messages
            .filter_map(|message| match message {
                Message::Warning(warning) => Some(warning),
                _ => None,
            })
            .collect()
    }

    pub fn manifest(&self) -> Option<&Manifest> {
        self.messages.iter().find_map(|message| match message {
            Message::Manifest(manifest) => Some(manifest),
            _ => None,
        })
    }

    /// What was compared during the run: files and bytes.
    pub fn verified(&self) -> Option<(u64, u64)> {
        let mut records = self.messages.iter().filter_map(|message| match message {
            Message::Verified(record) => Some((record.files, record.bytes)),
            _ => None,
        });
        let first = records.next();
        assert!(records.next().is_none(), "told once");
        first
    }

    /// Stage and error.
    pub fn failure(&self) -> Option<(&str, &str)> {
        match self.messages.last() {
            Some(Message::Failed { stage, error }) => Some((stage, error)),
            _ => None,
        }
    }

    /// The failure of a run that should have none.
    pub fn expect_finished(self) -> Answers {
        assert_eq!(self.failure(), None);
        assert_eq!(self.exit_code, runner::EXIT_FINISHED);
        assert!(matches!(self.messages.first(), Some(Message::Hello { version: wire::VERSION })));
        assert_eq!(self.messages.last(), Some(&Message::Finished));
        self
    }
}

/// Hands `task` to a runner.
pub fn serve(task: Task) -> Answers {
    let mut input = Vec::new();
    wire::write_frame(&mut input, &Spec { version: wire::VERSION, task }).unwrap();
    let mut output = Vec::new();
    let exit_code = runner::serve(input.as_slice(), &mut output);
    let mut stream = output.as_slice();
    let messages = std::iter::from_fn(|| wire::read_frame(&mut stream).unwrap()).collect();
    Answers { exit_code, messages }
}

/// A specification of `workload` with its quick parameters but for those given. The page cache is
/// left alone: it is the whole machine's.
pub fn spec(root: &Path, workload: &str, params: &[(&str, &str)]) -> MeasureSpec {
    let info = catalog::find(workload).unwrap().info();
    let mut values = Params::defaults(info.params, true);
    for (name, value) in params {
        values.set(info.params, name, value).unwrap();
    }
    MeasureSpec {
        root: root.to_owned(),
        workload: workload.to_owned(),
        definition: None,
        params: values,
        seed: 42,
        may_drop_caches: false,
        may_remount: false,
        has_own_cache: false,
        watch: Watch::default(),
    }
}

pub fn measure(root: &Path, workload: &str, params: &[(&str, &str)]) -> Answers {
    serve(Task::Measure(spec(root, workload, params)))
}

pub fn verify(root: &Path, manifest: &Manifest) -> VerifyRecord {
    let spec = VerifySpec { root: root.to_owned(), manifest: manifest.clone() };
    let answers = serve(Task::Verify(spec)).expect_finished();
    let record = answers.messages.into_iter().find_map(|message| match message {
        Message::Verified(record) => Some(record),
        _ => None,
    });
    record.unwrap()
}

/// A tmpfs of the given size, unmounted when dropped; `None`, with the reason printed, where none
/// can be mounted.
pub struct SmallFilesystem {
    directory: tempfile::TempDir,
}

impl SmallFilesystem {
    pub fn mount(size: &str) -> Option<SmallFilesystem> {
        let directory = tempfile::tempdir().unwrap();
        let mut command = std::process::Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size}"), "fsdyno-test"]);
        match command.arg(directory.path()).output() {
            Ok(output) if output.status.success() => Some(SmallFilesystem { directory }),
            Ok(output) => {
                println!("skipped: mount: {}", String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            Err(error) => {
                println!("skipped: mount cannot be run: {error}");
                None
            }
        }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().to_owned()
    }
}

impl Drop for SmallFilesystem {
    fn drop(&mut self) {
        // A process that another test has just forked may hold a file on it until it has called exec.
        let _ = std::process::Command::new("umount").arg("-l").arg(self.directory.path()).output();
    }
}
