//! Emulated disks on a host: a server in a process of its own, which mounts one file, and a loop device
//! on that file. How the server works is in [`server`], what it keeps in [`store`]; what times it gives
//! is the model's business.
//!
//! The server is its own process so that it dies with the run, and a process so that nothing of the run
//! ever waits for it while holding what it needs. Who waits for a server that hangs is freed by ending
//! its connection, which the parent does when the server has not been heard of for a while.

pub mod check;
pub mod faults;
pub mod inside;
pub mod server;
pub mod store;
pub mod write_log;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use fsdyno_disk::{Model, shipped};
use fsdyno_model::record::Warning;
use fsdyno_sys::block::DeviceNumber;
use fsdyno_sys::loopdev::{LoopDevice, LoopOptions};
use fsdyno_sys::process::{self, ProcessIdentity};
use fsdyno_sys::{fuse, kernel, mount};

use server::Report;

/// The verb of this binary that is the server, with the word that makes it one for a parent.
pub const SERVER_VERB: [&str; 2] = ["disk", "serve"];
/// What the server says when it is mounted, and then from time to time.
pub const READY: &str = "ready";
/// How long a server may take until it is mounted.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long a server may be silent before its connection is ended.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// How long it may take to say what it did.
const END_LIMIT: Duration = Duration::from_secs(10);
/// Share of late requests from which on a trial is marked.
const LATE_SHARE: f64 = 0.01;
/// Name of the file in the mounted directory.
pub const FILE_NAME: &str = "disk";

/// What is to be emulated.
#[derive(Debug, Clone)]
pub struct Wish<'a> {
    /// The model as the user named it: a shipped one, or a file.
    pub model_name: &'a str,
    /// The model.
    pub model: &'a Model,
    /// The file with the contents, of the disk's size.
    pub file: &'a Path,
    /// An empty directory to mount on.
    pub directory: &'a Path,
    /// What is drawn comes from it.
    pub seed: u64,
    /// What the way through the kernel takes, in nanoseconds; see [`server::Service::lead_ns`].
    pub lead_ns: u64,
    /// What is noted and spoilt on the way.
    pub extras: Extras<'a>,
}

/// What a server does besides serving.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extras<'a> {
    /// Directory in which every change is written down; see [`write_log`].
    pub log: Option<&'a Path>,
    /// File that says which requests go wrong; see [`faults`].
    pub faults: Option<&'a Path>,
}

/// An emulated disk in service.
#[derive(Debug)]
pub struct Emulator {
    directory: PathBuf,
    fuse: Option<DeviceNumber>,
    child: Child,
    said: Receiver<Said>,
    device: Option<LoopDevice>,
    device_path: PathBuf,
    number: DeviceNumber,
    report: Option<Report>,
    died: Option<String>,
    is_ended: bool,
}

/// What is heard of a server.
#[derive(Debug)]
enum Said {
    Ready,
    Report(Report),
    Other(String),
}

impl Emulator {
    /// Starts a server and attaches a loop device to what it serves.
    ///
    /// # Errors
    /// A sentence; nothing is left behind then.
    pub fn start(wish: &Wish<'_>) -> Result<Emulator, String> {
        let (child, said) = spawn(wish)?;
        let mut emulator = Emulator {
            directory: wish.directory.to_owned(),
            fuse: None,
            child,
            said,
            device: None,
            device_path: PathBuf::new(),
            number: DeviceNumber { major: 0, minor: 0 },
            report: None,
            died: None,
            is_ended: false,
        };
        let started = emulator.await_ready().and_then(|()| emulator.attach(wish.model));
        match started {
            Ok(()) => Ok(emulator),
            Err(error) => {
                let _ = emulator.end();
                Err(error)
            }
        }
    }

    fn await_ready(&mut self) -> Result<(), String> {
        match self.said.recv_timeout(START_LIMIT) {
            Ok(Said::Ready) => {}
            Ok(Said::Other(text)) => return Err(format!("the server of the disk: {text}")),
            Ok(Said::Report(_)) | Err(RecvTimeoutError::Disconnected) => {
                return Err("the server of the disk ended at once".to_owned());
            }
            Err(RecvTimeoutError::Timeout) => {
                return Err("the server of the disk did not start".to_owned());
            }
        }
        let mounts = mount::mounts().map_err(|error| error.to_string())?;
        let own = mounts.into_iter().rev().find(|it| it.mount_point == self.directory);
        self.fuse = own.map(|own| own.device);
        Ok(())
    }

    fn attach(&mut self, model: &Model) -> Result<(), String> {
        let file = self.directory.join(FILE_NAME);
        let options = LoopOptions { block_size: Some(512), ..LoopOptions::default() };
        let device = LoopDevice::attach(&file, options).map_err(|error| error.to_string())?;
        if !device.direct_io().unwrap_or(false) {
            return Err(
                "this kernel's loop devices do not pass I/O directly to FUSE: one request at a time \
                 would be under way, so that no disk can be emulated"
                    .to_owned(),
            );
        }
        (self.device_path, self.number) = (device.path().to_owned(), device.device_number());
        let path = self.number.sysfs_path().join("queue/rotational");
        let flag = if model.is_rotational() { "1\n" } else { "0\n" };
        self.device = Some(device);
        fs::write(&path, flag).map_err(|error| format!("write {}: {error}", path.display()))
    }

    /// The loop device's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.device_path
    }

    /// The loop device's number.
    #[must_use]
    pub fn number(&self) -> DeviceNumber {
        self.number
    }

    /// The server's process.
    #[must_use]
    pub fn server_pid(&self) -> u32 {
        self.child.id()
    }

    /// Detaches, unmounts and hears what the server did. Doing it again does nothing. A server that was
    /// killed is no error here: [`Emulator::warnings`] tells of it.
    ///
    /// # Errors
    /// A sentence that names what is left.
    pub fn end(&mut self) -> Result<(), String> {
        if self.is_ended {
            return Ok(());
        }
        let mut errors = Vec::new();
        if self.child.try_wait().is_ok_and(|status| status.is_some()) {
            self.died = Some("ended before the disk was taken down".to_owned());
        }
        if let Some(device) = self.device.take() {
            errors.extend(device.detach().err().map(|error| error.to_string()));
        }
        if self.fuse.is_some() {
            let unmounted = mount::unmount(&self.directory)
                .or_else(|error| mount::unmount_lazy(&self.directory).map_err(|_| error));
            errors.extend(unmounted.err().map(|error| error.to_string()));
        }
        self.hear_report();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if errors.is_empty() {
            self.is_ended = true;
            Ok(())
        } else {
            Err(errors.join("; "))
        }
    }

    fn hear_report(&mut self) {
        let end = Instant::now() + END_LIMIT;
        while self.report.is_none() && self.died.is_none() {
            match self.said.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Said::Report(report)) => self.report = Some(report),
                Ok(Said::Ready) => {}
                Ok(Said::Other(text)) => self.died = Some(text),
                Err(_) => self.died = Some("gave no account of itself".to_owned()),
            }
        }
    }

    /// What the server did, once it has ended in good order.
    #[must_use]
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// What of this disk makes the figures of a trial doubtful; to be asked after its end.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let died = self.died.as_ref().map(|how| Warning {
            code: "emulator-died".to_owned(),
            message: format!("the server of the emulated disk {how}"),
            advice: "do not rely on this trial; see whether something killed it".to_owned(),
        });
        let late = self.report.as_ref().and_then(|report| late(report.late, report.requests));
        died.into_iter().chain(late).collect()
    }

    /// Adds what is special about an emulated disk.
    pub fn add_facts(&self, facts: &mut BTreeMap<String, String>, model: &Model) {
        let mut add = |name: &str, value: String| facts.insert(name.to_owned(), value);
        add("kind", "emulated disk".to_owned());
        add("disk_model", model.name.clone());
        add("disk_model_title", model.title.clone());
        add("disk_model_kind", model.kind.name().to_owned());
        add("loop_direct_io", "true".to_owned());
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // Whoever wants to know calls `end`.
        let _ = self.end();
    }
}

fn late(late: u64, requests: u64) -> Option<Warning> {
    let share = late as f64 / requests.max(1) as f64;
    (share > LATE_SHARE).then(|| Warning {
        code: "emulator-late".to_owned(),
        message: format!(
            "{:.1} % of the emulated disk's requests ({late} of {requests}) were answered later than \
             its model says",
            share * 100.0
        ),
        advice: "leave the machine alone while it measures, or choose a slower model".to_owned(),
    })
}

fn spawn(wish: &Wish<'_>) -> Result<(Child, Receiver<Said>), String> {
    let program = std::env::current_exe().ok().filter(|path| path.exists());
    let program = program.unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    let mut command = Command::new(program);
    command
        .args(SERVER_VERB)
        .arg("--for-parent")
        .args(["--seed", &wish.seed.to_string()])
        .args(["--lead-ns", &wish.lead_ns.to_string()])
        .arg("--mount")
        .arg(wish.directory)
        .args(wish.extras.log.iter().flat_map(|path| [Path::new("--log"), path]))
        .args(wish.extras.faults.iter().flat_map(|path| [Path::new("--faults"), path]))
        .arg(wish.model_name)
        .arg(wish.file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // Its own group: a Ctrl-C is for the parent, which still needs the disk to take it down.
    process::own_process_group(&mut command);
    process::die_with_parent(&mut command);
    let failed = |error| format!("cannot start the server of the disk: {error}");
    let mut child = command.spawn().map_err(failed)?;
    let (sender, said) = mpsc::channel();
    let output = child.stdout.take().ok_or("the server of the disk has no output")?;
    let errors = child.stderr.take().ok_or("the server of the disk has no output")?;
    let directory = wish.directory.to_owned();
    let heard = listen(output, sender.clone());
    std::thread::spawn(move || watch(&heard, &directory));
    std::thread::spawn(move || {
        for line in BufReader::new(errors).lines().map_while(Result::ok) {
            if sender.send(Said::Other(line)).is_err() {
                return;
            }
        }
    });
    Ok((child, said))
}

/// Passes on what the server says; each line also goes to the watcher.
fn listen(output: ChildStdout, sender: mpsc::Sender<Said>) -> Receiver<()> {
    let (beats, heard) = mpsc::channel();
    std::thread::spawn(move || {
        let mut is_ready = false;
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = beats.send(());
            let said = if line == READY {
                if std::mem::replace(&mut is_ready, true) {
                    continue;
                }
                Said::Ready
            } else {
                serde_json::from_str(&line).map_or_else(|_| Said::Other(line), Said::Report)
            };
            if sender.send(said).is_err() {
                return;
            }
        }
    });
    heard
}

/// Ends the connection of a server that is silent for too long, so that nobody waits for it for ever.
fn watch(heard: &Receiver<()>, directory: &Path) {
    let number = || {
        let mounts = mount::mounts().ok()?;
        mounts.into_iter().rev().find(|it| it.mount_point == directory).map(|it| it.device)
    };
    let mut device = None;
    loop {
        match heard.recv_timeout(SILENCE_LIMIT) {
            Ok(()) => device = device.or_else(number),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                if let Some(device) = device {
                    let _ = fuse::abort(device);
                }
                return;
            }
        }
    }
}

/// The model that `name` says: a shipped one, or the file of that path where it has a slash or ends in
/// `.toml`.
///
/// # Errors
/// The nearest name; the file cannot be read; the first thing that is wrong with it.
pub fn find_model(name: &str) -> Result<Model, String> {
    if !shipped::is_file(name) {
        return shipped::find(name);
    }
    let text = fs::read_to_string(name)
        .map_err(|error| format!("cannot read the model {name}: {error}"))?;
    Model::parse(shipped::stem(name), &text, &|member| shipped::find(member)).map_err(|wrong| {
        let first = wrong.first().map_or("", |one| one.message.as_str());
        format!("the model {name} cannot be used: {first}; fsdyno disk show {name} tells all")
    })
}

/// What the mount table shows as the device of a disk that this process serves: who it is, so that what
/// it leaves is known as such once it is gone.
#[must_use]
pub fn mount_source() -> String {
    let own = process::own_identity().map_or((0, 0), |own| (own.pid, own.start_ticks));
    let boot = kernel::boot_id().unwrap_or_default();
    format!("fsdyno-disk:{}:{}:{boot}", own.0, own.1)
}

/// Whether the server that mounted `source` is gone; `None` where it is no mount of ours.
#[must_use]
pub fn is_orphan(source: &str) -> Option<bool> {
    let mut words = source.strip_prefix("fsdyno-disk:")?.split(':');
    let identity = ProcessIdentity {
        pid: words.next()?.parse().ok()?,
        start_ticks: words.next()?.parse().ok()?,
    };
    let is_this_boot = words.next()? == kernel::boot_id().unwrap_or_default();
    Some(!is_this_boot || !process::is_alive(&identity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_one_in_a_hundred_is_told() {
        assert_eq!(late(10, 1000), None);
        assert_eq!(late(0, 0), None);
        assert!(late(11, 1000).is_some_and(|told| told.message.contains("1.1 %")));
    }

    #[test]
    fn a_mount_tells_whether_its_server_lives() {
        assert_eq!(is_orphan(&mount_source()), Some(false));
        assert_eq!(is_orphan("fsdyno-disk:1:0:another-boot"), Some(true));
        assert_eq!(is_orphan("/dev/sda"), None);
        assert_eq!(is_orphan("fsdyno-disk:x"), None);
    }
}
