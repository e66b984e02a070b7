//! The processes of a capture: (number, name) to index. A worker of the kernel is called by what it works
//! for, which only `/proc` knows and which changes; so its name is read anew in each drain in which it shows.

use std::collections::HashMap;
use std::fs;

use fsdyno_model::trace::TraceProcess;

use super::ring_buffer_page::Comm;

/// So many that processes which run at the same time seldom share one: a search allocates.
const SLOT_COUNT: usize = 1024;

#[derive(Debug, Clone, Copy)]
struct Slot {
    pid: u32,
    comm: Option<Comm>,
    index: u32,
}

/// The processes seen so far.
#[derive(Debug)]
pub struct ProcessNames {
    /// What was looked up last, by the low bits of the number; forgotten with each drain.
    recent: [Option<Slot>; SLOT_COUNT],
    /// Names of workers, as read in this drain.
    workers: HashMap<u32, String>,
    indices: HashMap<(u32, String), u32>,
    /// The last index of each number.
    latest: HashMap<u32, u32>,
}

impl ProcessNames {
    pub fn new() -> Self {
        Self {
            recent: [None; SLOT_COUNT],
            workers: HashMap::new(),
            indices: HashMap::new(),
            latest: HashMap::new(),
        }
    }

    /// A drain begins: workers may work for others now.
    pub fn begin_drain(&mut self) {
        self.recent = [None; SLOT_COUNT];
        self.workers.clear();
    }

    /// The index of a process in `known`, to which it is added where it is new. Without `comm` (of an event
    /// that says only who was interrupted) it is that of the name seen last.
    #[inline]
    pub fn index(&mut self, pid: u32, comm: Option<Comm>, known: &mut Vec<TraceProcess>) -> u32 {
        let slot = pid as usize % SLOT_COUNT;
        if let Some(found) = &self.recent[slot]
            && found.pid == pid
            && (comm.is_none() || found.comm == comm)
        {
            return found.index;
        }
        let index = self.find(pid, comm, known);
        self.recent[slot] = Some(Slot { pid, comm, index });
        index
    }

    #[cold]
    fn find(&mut self, pid: u32, comm: Option<Comm>, known: &mut Vec<TraceProcess>) -> u32 {
        let name = match comm {
            Some(comm) => {
                let name = text(&comm);
                if name.starts_with("kworker/") { self.worker(pid, name) } else { name }
            }
            None => match self.latest.get(&pid) {
                Some(&index) => return index,
                None => unnamed(pid),
            },
        };
        let index = *self.indices.entry((pid, name)).or_insert_with_key(|(pid, name)| {
            known.push(TraceProcess { pid: *pid, name: name.clone() });
            u32::try_from(known.len() - 1).unwrap_or(u32::MAX)
        });
        self.latest.insert(pid, index);
        index
    }

    /// What the worker `pid`, called `name` in the event, works for now.
    fn worker(&mut self, pid: u32, name: String) -> String {
        let worker = self.workers.entry(pid).or_insert_with(|| {
            let read = read_name(pid).unwrap_or_default();
            // At work (`+`) and was at work last (`-`) are not told apart.
            match read.strip_prefix(&name) {
                Some(work) if work.starts_with(['+', '-']) => format!("{name}-{}", &work[1..]),
                _ => name,
            }
        });
        worker.clone()
    }
}

fn read_name(pid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(bytes.trim_ascii_end()).into_owned())
}

/// A process that did nothing of its own so far.
fn unnamed(pid: u32) -> String {
    let unknown = || if pid == 0 { "swapper".to_owned() } else { format!("pid {pid}") };
    let at_rest = |name: String| match name.starts_with("kworker/") {
        true => name.replacen('+', "-", 1),
        false => name,
    };
    read_name(pid).map_or_else(unknown, at_rest)
}

fn text(comm: &Comm) -> String {
    let end = comm.iter().position(|&byte| byte == 0).unwrap_or(comm.len());
    String::from_utf8_lossy(&comm[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comm(name: &str) -> Option<Comm> {
        let mut comm = [0; 16];
        comm[..name.len()].copy_from_slice(name.as_bytes());
        Some(comm)
    }

    /// No process has such a number.
    const NOBODY: u32 = u32::MAX - 63;

    #[test]
    fn processes_have_an_entry_for_each_name() {
        let (mut names, mut known) = (ProcessNames::new(), Vec::new());
        let mut index = |pid, name| names.index(pid, name, &mut known);
        assert_eq!(index(NOBODY, comm("first")), 0);
        assert_eq!(index(NOBODY, comm("first")), 0);
        assert_eq!(index(NOBODY, None), 0);

        assert_eq!(index(NOBODY, comm("second")), 1);
        assert_eq!(index(NOBODY, None), 1);
        assert_eq!(index(NOBODY, comm("first")), 0);
        assert_eq!(index(NOBODY + 1, None), 2);
        assert_eq!(index(0, None), 3);
        let own = std::process::id();
        assert_eq!(index(own, None), 4);
        let listed: Vec<&str> = known.iter().map(|process| process.name.as_str()).collect();
        assert_eq!(listed[..2], ["first", "second"]);
        assert_eq!(listed[2], format!("pid {}", NOBODY + 1));
        assert_eq!(listed[3], "swapper");
        assert_eq!(listed[4], read_name(own).unwrap());
    }

    #[test]
    fn a_worker_that_is_gone_keeps_its_short_name() {
        let (mut names, mut known) = (ProcessNames::new(), Vec::new());
        assert_eq!(names.index(NOBODY, comm("kworker/u4:1"), &mut known), 0);
        names.begin_drain();
        assert_eq!(names.index(NOBODY, comm("kworker/u4:1"), &mut known), 0);
        assert_eq!(known[0].name, "kworker/u4:1");
    }
}
