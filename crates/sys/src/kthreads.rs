//! Processor time of the kernel's own threads, by name: journals, flushers, log workers do much of a
//! filesystem's work, and no process is billed for it. Which names belong to a filesystem is left to
//! the caller.
//!
//! A worker (`kworker/...`) serves many masters, and its name tells only whom it served last:
//! `kworker/u8:3-flush-7:0`. So each sample charges what a thread burnt since the sample before to the
//! name that it bears now. The more often [`KernelThreads::sample`] is called, the truer the split
//! between workers' masters; threads with a fixed name are exact at any rate.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::io::Errno;

use crate::cpu::process_clock_ns;
use crate::newcomers::Newcomers;
use crate::process::parse_stat;

/// The parent of all kernel threads, itself one.
const KTHREADD: u32 = 2;

/// Watches the kernel's threads. Their processor-time clocks are read ([`process_clock_ns`]), of workers
/// the name is kept open, and new threads are looked for only when a process or thread has been started
/// anywhere since the last sample.
#[derive(Debug)]
pub struct KernelThreads {
    threads: Vec<Thread>,
    /// Numbers of the watched threads.
    watched: HashSet<u32>,
    newcomers: Option<Newcomers>,
    names: HashMap<Arc<str>, usize>,
    totals: Vec<NamedTime>,
    /// Gives the time that a thread has burnt; `None` once it has ended.
    clock_ns: fn(u32) -> Option<u64>,
}

#[derive(Debug)]
struct Thread {
    pid: u32,
    /// Kept for workers, whose name changes.
    comm: Option<File>,
    cpu_ns: u64,
    /// Index of its present name in the totals.
    name: usize,
}

#[derive(Clone, Debug)]
struct NamedTime {
    name: Arc<str>,
    cpu_ns: u64,
}

/// Time burnt under each name up to one moment. Only differences ([`charge`]) mean anything. Time of
/// threads that have ended stays in.
#[derive(Clone, Debug)]
pub struct KernelThreadSample {
    totals: Vec<NamedTime>,
    threads: usize,
}

impl KernelThreadSample {
    /// How many threads were alive and watched.
    pub fn thread_count(&self) -> usize {
        self.threads
    }

    /// What each name burnt since `previous`, in nanoseconds; names that burnt nothing are left out.
    pub fn since<'a>(&'a self, previous: &'a Self) -> impl Iterator<Item = (&'a str, u64)> {
        self.totals.iter().enumerate().filter_map(|(index, now)| {
            // Within one watcher names keep their index.
            let before = previous.totals.get(index).filter(|before| before.name == now.name);
            let burnt = now.cpu_ns.saturating_sub(before.map_or(0, |before| before.cpu_ns));
            (burnt > 0).then_some((&*now.name, burnt))
        })
    }
}

/// Nanoseconds burnt from `previous` to `now`, two samples of one [`KernelThreads`], under the names
/// that `belongs` accepts. A worker's name has the form `kworker/ID-WORKQUEUE` (see [`workqueue`]).
pub fn charge(
    previous: &KernelThreadSample,
    now: &KernelThreadSample,
    belongs: impl Fn(&str) -> bool,
) -> u64 {
    now.since(previous).filter(|(name, _)| belongs(name)).map(|(_, ns)| ns).sum()
}

/// The work that a worker thread does: the part of its name after the id, such as `flush-7:0` of
/// `kworker/u8:3-flush-7:0` or `xfs-conv/loop0` of `kworker/1:2H-xfs-conv/loop0`; `None` for an idle
/// worker and for threads that are no workers.
pub fn workqueue(name: &str) -> Option<&str> {
    let rest = name.strip_prefix("kworker/")?;
    let (_, queue) = rest.split_once(['-', '+'])?;
    (!queue.is_empty()).then_some(queue)
}

impl KernelThreads {
    /// Starts watching; `None` where the kernel's threads are not visible, as in a container, and where
    /// to watch them all takes more than half of the files that this process may have open.
    ///
    /// Takes one descriptor per worker, and raises the process's soft limit of open files to the hard one.
    pub fn new() -> Option<Self> {
        let kthreadd = parse_stat(&fs::read_to_string(format!("/proc/{KTHREADD}/stat")).ok()?)?;
        let name = fs::read_to_string(format!("/proc/{KTHREADD}/comm")).ok()?;
        if name.trim_end() != "kthreadd" || kthreadd.parent_pid != 0 {
            return None;
        }
        let affordable = crate::descriptors::raise_limit() / 2;
        let (newcomers, all) = Newcomers::new();
        let mut watcher = Self {
            threads: Vec::new(),
            watched: HashSet::new(),
            newcomers: Some(newcomers),
            names: HashMap::new(),
            totals: Vec::new(),
            clock_ns: process_clock_ns,
        };
        watcher.watch_among(&all);
        let workers = watcher.threads.iter().filter(|thread| thread.comm.is_some()).count() as u64;
        (!watcher.threads.is_empty() && workers <= affordable).then_some(watcher)
    }

    /// The time burnt under each name so far. Costs about half a microsecond per thread.
    pub fn sample(&mut self) -> KernelThreadSample {
        self.find_new_threads();
        self.read()
    }

    /// As [`Self::sample`], where somebody else has looked for what is new: `newcomers` are the numbers
    /// of kernel threads that have appeared.
    pub fn sample_with(&mut self, newcomers: &[u32]) -> KernelThreadSample {
        self.watch_among(newcomers);
        self.read()
    }

    fn read(&mut self) -> KernelThreadSample {
        let mut threads = std::mem::take(&mut self.threads);
        threads.retain_mut(|thread| {
            let alive = self.update(thread);
            if !alive {
                self.watched.remove(&thread.pid);
            }
            alive
        });
        self.threads = threads;
        KernelThreadSample { totals: self.totals.clone(), threads: self.threads.len() }
    }

    /// Charges what `thread` burnt since the last time; false once it has ended.
    fn update(&mut self, thread: &mut Thread) -> bool {
        let Some(cpu_ns) = (self.clock_ns)(thread.pid) else { return false };
        let burnt = cpu_ns.saturating_sub(thread.cpu_ns);
        if burnt > 0 {
            thread.cpu_ns = cpu_ns;
            let mut buffer = [0; 128];
            if let Some(name) = thread.comm.as_ref().and_then(|comm| read_text(comm, &mut buffer)) {
                thread.name = self.name_index(name);
            }
            self.totals[thread.name].cpu_ns += burnt;
        }
        true
    }

    /// The index of a name, made if new. `+` (at work) and `-` (was last) are not told apart.
    fn name_index(&mut self, comm: &str) -> usize {
        let comm = comm.trim_end();
        let at_work = comm.strip_prefix("kworker/").and_then(|rest| rest.split_once('+'));
        let normal: String;
        let name = match at_work {
            Some((id, queue)) if !id.contains('-') => {
                normal = format!("kworker/{id}-{queue}");
                &normal
            }
            _ => comm,
        };
        if let Some(&index) = self.names.get(name) {
            return index;
        }
        let name: Arc<str> = name.into();
        let index = self.totals.len();
        self.totals.push(NamedTime { name: Arc::clone(&name), cpu_ns: 0 });
        self.names.insert(name, index);
        index
    }

    /// Watches kernel threads that have appeared, if any process at all has since the last search.
    fn find_new_threads(&mut self) {
        if let Some(candidates) = self.newcomers.as_mut().and_then(Newcomers::since) {
            self.watch_among(&candidates);
        }
    }

    /// Watches those of `candidates` that are kernel threads and not watched yet.
    fn watch_among(&mut self, candidates: &[u32]) {
        for &pid in candidates {
            if !self.watched.contains(&pid) && (self.clock_ns)(pid).is_some() {
                self.watch(pid);
            }
        }
    }

    /// Starts watching `pid` if it is a kernel thread.
    fn watch(&mut self, pid: u32) {
        let stat =
            fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|text| parse_stat(&text));
        if pid != KTHREADD && stat.is_none_or(|stat| stat.parent_pid != KTHREADD) {
            return;
        }
        let Ok(comm) = fs::read_to_string(format!("/proc/{pid}/comm")) else { return };
        let is_worker = comm.starts_with("kworker/");
        let comm_file = if is_worker { open_kept(&format!("/proc/{pid}/comm")) } else { None };
        let name = self.name_index(&comm);
        // What it burnt before the watch began counts from 0: for the first sample that is the base
        // line, for a thread that appeared later it is all its own.
        self.threads.push(Thread { pid, comm: comm_file, cpu_ns: 0, name });
        self.watched.insert(pid);
    }
}

/// Opens a file to be kept, after raising the limit of open files if that is what stands against it.
fn open_kept(path: &str) -> Option<File> {
    match File::open(path) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::MFILE) => {
            crate::descriptors::raise_limit();
            File::open(path).ok()
        }
        other => other.ok(),
    }
}

/// The text of a small kept file from its start; `None` once what it tells of has ended.
fn read_text<'a>(file: &File, buffer: &'a mut [u8]) -> Option<&'a str> {
    let count = file.read_at(buffer, 0).ok().filter(|&count| count > 0)?;
    // A cut or odd character at the end does not hide what comes before it.
    let bytes = &buffer[..count];
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    thread_local! {
        /// What the threads of the test have burnt.
        static CLOCKS: RefCell<HashMap<u32, u64>> = RefCell::default();
    }

    fn set_clock(pid: u32, cpu_ns: u64) {
        CLOCKS.with_borrow_mut(|clocks| clocks.insert(pid, cpu_ns));
    }

    fn empty() -> KernelThreads {
        KernelThreads {
            threads: Vec::new(),
            watched: HashSet::new(),
            newcomers: None,
            names: HashMap::new(),
            totals: Vec::new(),
            clock_ns: |pid| CLOCKS.with_borrow(|clocks| clocks.get(&pid).copied()),
        }
    }

    #[test]
    fn work_is_charged_to_the_name_borne_and_survives_the_thread() {
        let directory = tempfile::tempdir().unwrap();
        let comm = directory.path().join("comm");
        let name = |name: &str| fs::write(&comm, name).unwrap();
        name("kworker/u8:3-events\n");
        set_clock(7, 100);
        set_clock(8, 50);
        let mut watcher = empty();
        let (worker, journal) =
            (watcher.name_index("kworker/u8:3-events"), watcher.name_index("jbd2/loop0-8"));
        watcher.threads = vec![
            Thread { pid: 7, comm: Some(File::open(&comm).unwrap()), cpu_ns: 0, name: worker },
            Thread { pid: 8, comm: None, cpu_ns: 0, name: journal },
        ];
        let first = watcher.sample();

        name("kworker/u8:3+flush-7:0\n");
        set_clock(7, 400);
        set_clock(8, 60);
        let second = watcher.sample();
        name("kworker/u8:3-events\n");
        set_clock(7, 1000);
        CLOCKS.with_borrow_mut(|clocks| clocks.remove(&8));
        let third = watcher.sample();

        let flush = |name: &str| workqueue(name) == Some("flush-7:0");
        assert_eq!(charge(&first, &second, flush), 300);
        assert_eq!(charge(&second, &third, flush), 0);
        assert_eq!(charge(&first, &third, flush), 300, "a name change must not move earlier work");
        assert_eq!(charge(&first, &third, |name| name.ends_with("-events")), 600);
        let journal = |name: &str| name.starts_with("jbd2/");
        assert_eq!(charge(&first, &third, journal), 10, "kept after its end");
        assert_eq!(charge(&first, &third, |_| true), 910);
        assert_eq!((second.thread_count(), third.thread_count()), (2, 1));
        assert_eq!(charge(&third, &first, |_| true), 0);
    }

    #[test]
    fn workqueues_are_told_from_worker_names() {
        for (name, queue) in [
            ("kworker/u8:3-flush-7:0", Some("flush-7:0")),
            ("kworker/1:2H-xfs-conv/loop0", Some("xfs-conv/loop0")),
            ("kworker/0:1+btrfs-endio", Some("btrfs-endio")),
            ("kworker/R-kblockd", Some("kblockd")),
            ("kworker/0:1", None),
            ("kworker/0:1-", None),
            ("jbd2/loop0-8", None),
            ("", None),
        ] {
            assert_eq!(workqueue(name), queue, "{name}");
        }
    }
}
