//! The kernel's side of a capture: tracefs, wherever it is, and our own instance in it, which is removed on
//! every path. Reading the events is left to [`super::drain`].

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fsdyno_model::trace::Action;
use fsdyno_sys::process::{self, ProcessIdentity};
use fsdyno_sys::{kernel, mount};

use rustix::fs::OFlags;

use super::format::{self, EventLayout, PageLayout};

/// The events that are traced. Who asked is known of the first only: a request may be issued by a worker
/// of the kernel, and is finished by whom the device interrupts.
const EVENTS: [(&str, Action); 3] = [
    ("block_bio_queue", Action::Queue),
    ("block_rq_issue", Action::Issue),
    ("block_rq_complete", Action::Complete),
];
/// Begins the names of our instances.
const PREFIX: &str = "fsdyno-";
/// Room for all processors together at most.
const TOTAL_BYTES_MOST: u64 = 1 << 30;
/// Less room than this for a processor is not tried.
const BUFFER_BYTES_LEAST: u64 = 512 << 10;
/// Bytes of a text file of tracefs at most.
const TEXT_BYTES_MOST: usize = 1 << 16;
/// How long the removal of an instance insists while it is busy.
const REMOVE_DEADLINE: Duration = Duration::from_secs(2);
/// Where things stand in what the kernel writes.
#[derive(Debug, Clone)]
pub struct Layouts {
    /// A page.
    pub page: PageLayout,
    /// Each of the events.
    pub events: Vec<EventLayout>,
}

/// The kernel's tracefs.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// Where it has no other place: open as long as it is used.
    _descriptor: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds it, or makes it reachable for this process alone.
    ///
    /// # Errors
    /// What is missing, and what to try.
    pub fn find() -> io::Result<Tracefs> {
        if !process::is_root() {
            let message = "block tracing needs root: run it with sudo";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        let lockdown = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
        if lockdown.contains("[confidentiality]") {
            let message = "the kernel's lockdown is set to confidentiality, which forbids tracing: boot \
                           with lockdown=integrity, or trace a copy of this system in a virtual machine";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        let detached = match mount::mount_detached("tracefs") {
            Ok(descriptor) => {
                let root = mount::descriptor_path(&descriptor);
                let tracefs = Tracefs { root, _descriptor: Some(descriptor) };
                if tracefs.is_usable() {
                    return Ok(tracefs);
                }
                "it cannot be used".to_owned()
            }
            Err(error) => error.to_string(),
        };
        let mounted = mount::mounts().unwrap_or_default();
        let mounted = mounted.into_iter().filter(|mount| mount.fs_type == "tracefs");
        mounted
            .map(|mount| mount.mount_point)
            .chain(["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from))
            .map(|root| Tracefs { root, _descriptor: None })
            .find(Tracefs::is_usable)
            .ok_or_else(|| {
                let message = format!(
                    "there is no tracefs with instances ({detached}): try mount -t tracefs none \
                     /sys/kernel/tracing; the kernel needs CONFIG_FTRACE and CONFIG_BLK_DEV_IO_TRACE"
                );
                io::Error::new(io::ErrorKind::Unsupported, message)
            })
    }

    fn is_usable(&self) -> bool {
        self.root.join("instances").is_dir()
    }

    /// Reads where things stand in what the kernel writes.
    ///
    /// # Errors
    /// Which event is missing or unknown.
    pub fn layouts(&self) -> io::Result<Layouts> {
        layouts(&self.root)
    }

    /// Removes the instances of processes that are gone.
    pub fn reclaim(&self) -> Vec<(String, io::Result<()>)> {
        let Ok(entries) = fs::read_dir(self.root.join("instances")) else { return Vec::new() };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let abandoned = names.filter(|name| owner(name).is_some_and(|it| !process::is_alive(&it)));
        abandoned
            .map(|name| {
                let removed = fs::remove_dir(self.root.join("instances").join(&name));
                (name, removed)
            })
            .collect()
    }
}

/// Whose instance `name` is; `None` where it is none of ours.
fn owner(name: &str) -> Option<ProcessIdentity> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-').map(str::parse::<u64>);
    let mut next = || parts.next()?.ok();
    let (pid, start_ticks, _) = (u32::try_from(next()?).ok()?, next()?, next()?);
    parts.next().is_none().then_some(ProcessIdentity { pid, start_ticks })
}

/// A name that no other instance has, and by which [`owner`] knows this process.
fn own_name() -> io::Result<String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let own = process::own_identity().map_err(io::Error::other)?;
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    Ok(format!("{PREFIX}{}-{}-{count}", own.pid, own.start_ticks))
}

fn layouts(root: &Path) -> io::Result<Layouts> {
    let parsed = |relative: &str| -> io::Result<String> {
        read_text(&root.join(relative)).map_err(|error| {
            let message = format!(
                "the kernel's tracefs has no {relative} ({error}): it needs CONFIG_BLK_DEV_IO_TRACE"
            );
            io::Error::new(error.kind(), message)
        })
    };
    let unknown = |what: &str, error: String| {
        io::Error::new(
            io::ErrorKind::Unsupported,
            format!("the kernel's {what} is unknown: {error}"),
        )
    };
    let page = format::parse_page(&parsed("events/header_page")?)
        .map_err(|error| unknown("events/header_page", error))?;
    let event = |(name, action): (&str, Action)| {
        let relative = format!("events/block/{name}/format");
        let text = parsed(&relative)?;
        format::parse_event(&text, action).map_err(|error| unknown(&relative, error))
    };
    Ok(Layouts { page, events: EVENTS.into_iter().map(event).collect::<io::Result<_>>()? })
}

/// The text of a file of tracefs. Some of them give their text to one large read only.
fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = vec![0; TEXT_BYTES_MOST];
    let count = File::open(path)?.read(&mut bytes)?;
    bytes.truncate(count);
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Our own instance; removed when dropped. Files of it must be closed before.
#[derive(Debug)]
pub struct Instance {
    tracefs: Tracefs,
    path: PathBuf,
    is_removed: bool,
}

impl Instance {
    /// Makes an instance that is ready and does not trace yet, with room for `buffer_bytes` of events for
    /// each processor, or less where that cannot be had.
    ///
    /// # Errors
    /// Those of the kernel's files.
    pub fn create(tracefs: Tracefs, buffer_bytes: u64) -> io::Result<Instance> {
        let path = tracefs.root.join("instances").join(own_name()?);
        fs::create_dir(&path).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("the kernel makes no instance of tracefs: {error}"),
            )
        })?;
        let instance = Instance { tracefs, path, is_removed: false };
        instance.write("tracing_on", "0")?;
        instance.write("trace_clock", "mono")?;
        // Names are in the events: the kernel need not note one at each switch of tasks.
        for option in ["record-cmd", "record-tgid"] {
            let _ = instance.write(&format!("options/{option}"), "0");
        }
        instance.reserve(buffer_bytes)?;
        Ok(instance)
    }

    fn reserve(&self, buffer_bytes: u64) -> io::Result<()> {
        let share = TOTAL_BYTES_MOST / kernel::cpu_count().max(1) as u64;
        let mut bytes = buffer_bytes.min(share).max(BUFFER_BYTES_LEAST);
        loop {
            match self.write("buffer_size_kb", &(bytes >> 10).to_string()) {
                Err(error)
                    if error.kind() == io::ErrorKind::OutOfMemory
                        && bytes / 2 >= BUFFER_BYTES_LEAST =>
                {
                    bytes /= 2;
                }
                other => return other,
            }
        }
    }

    /// Reads where things stand in what the kernel writes here.
    ///
    /// # Errors
    /// Which event is missing or unknown.
    pub fn layouts(&self) -> io::Result<Layouts> {
        layouts(&self.path)
    }

    /// Begins to trace the events that pass `filter`.
    ///
    /// # Errors
    /// Those of the kernel's files.
    pub fn begin(&self, filter: &str) -> io::Result<()> {
        for (name, _) in EVENTS {
            self.write(&format!("events/block/{name}/filter"), filter)?;
            self.write(&format!("events/block/{name}/enable"), "1")?;
        }
        self.write("tracing_on", "1")
    }

    /// Traces no more; what was traced is still there.
    ///
    /// # Errors
    /// Those of the kernel's file.
    pub fn pause(&self) -> io::Result<()> {
        self.write("tracing_on", "0")
    }

    /// The pages of each processor, to be read without waiting.
    ///
    /// # Errors
    /// Those of the kernel's files.
    pub fn open_pages(&self) -> io::Result<Vec<File>> {
        let open = |directory: PathBuf| {
            let path = directory.join("trace_pipe_raw");
            fs::OpenOptions::new()
                .read(true)
                .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
                .open(&path)
        };
        self.processors()?.into_iter().map(open).collect()
    }

    /// Events that the kernel had no room for.
    ///
    /// # Errors
    /// Those of the kernel's files.
    pub fn lost_events(&self) -> io::Result<u64> {
        let mut lost = 0;
        for directory in self.processors()? {
            lost += lost_in(&read_text(&directory.join("stats"))?);
        }
        Ok(lost)
    }

    fn processors(&self) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(self.path.join("per_cpu"))?;
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    }

    /// Removes the instance. Its files must be closed.
    ///
    /// # Errors
    /// `EBUSY` where somebody else holds a file of it open.
    pub fn remove(&mut self) -> io::Result<()> {
        if self.is_removed {
            return Ok(());
        }
        let start = Instant::now();
        loop {
            match fs::remove_dir(&self.path) {
                Ok(()) => {
                    self.is_removed = true;
                    return Ok(());
                }
                Err(error)
                    if error.kind() == io::ErrorKind::ResourceBusy
                        && start.elapsed() < REMOVE_DEADLINE =>
                {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => {
                    let name = self.path.file_name().unwrap_or_default().to_string_lossy();
                    let message =
                        format!("the instance {name} of tracefs cannot be removed: {error}");
                    return Err(io::Error::new(error.kind(), message));
                }
            }
        }
    }

    fn write(&self, relative: &str, text: &str) -> io::Result<()> {
        debug_assert!(self.path.starts_with(&self.tracefs.root));
        let written = fs::OpenOptions::new()
            .write(true)
            .open(self.path.join(relative))
            .and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| {
            let message =
                format!("the kernel does not take `{text}` for tracefs {relative}: {error}");
            io::Error::new(error.kind(), message)
        })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Else `reclaim` does it later.
        let _ = self.remove();
    }
}

/// What the text of a `stats` file says of lost events.
fn lost_in(text: &str) -> u64 {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .filter(|(key, _)| matches!(*key, "overrun" | "commit overrun" | "dropped events"))
        .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_say_whose_they_are() {
        let own = own_name().unwrap();
        assert_eq!(owner(&own), Some(process::own_identity().unwrap()));
        assert_ne!(own, own_name().unwrap());
        let known = ProcessIdentity { pid: 12, start_ticks: 3456 };
        assert_eq!(owner("fsdyno-12-3456-0"), Some(known));
        for name in ["", "fsdyno", "fsdyno-12", "fsdyno-12-34", "fsdyno-a-1-2", "fsdyno-1-2-3-4"] {
            assert_eq!(owner(name), None, "{name}");
        }
        assert_eq!(owner("fsdyno-4294967296-1-0"), None);
    }

    #[test]
    fn losses_are_added_up() {
        let text = "entries: 4\noverrun: 5\ncommit overrun: 1\nbytes: 99\ndropped events: 2\nread events: 7\n";
        assert_eq!(lost_in(text), 8);
        assert_eq!(lost_in(""), 0);
    }
}
