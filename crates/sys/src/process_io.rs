//! What other processes have read from and written to storage, by `/proc/PID/io`: all but this process,
//! its descendants and kernel threads. Processor time is left to [`crate::process_times`].
//!
//! The kernel counts bytes that a process had fetched from storage, and pages that it made dirty, whatever
//! device they belong to; what was written and deleted before it reached storage is taken off. A process
//! that has ended is counted with whoever waited for it. What is not ours to read is not counted: without
//! root that is all of other users.

use std::collections::HashMap;
use std::fs;

use crate::newcomers::listed;
use crate::process::parse_stat;

/// With more processes than this, nothing is counted.
const MOST_PROCESSES: usize = 4000;
/// Process number of the kernel's thread that starts all others of the kernel.
const KERNEL: u32 = 2;

/// What is known of one process at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    start_ticks: u64,
    parent: u32,
    name: String,
    bytes: u64,
}

/// All processes whose counts can be read, at one moment.
#[derive(Clone, Debug)]
pub struct ProcessIo {
    processes: HashMap<u32, Process>,
}

/// What processes of one name have read and written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedIo {
    /// Their name, as the kernel has it: up to 15 bytes.
    pub name: String,
    /// Bytes read and written.
    pub bytes: u64,
}

impl ProcessIo {
    /// The counts of this moment; `None` where there are none, or of too many processes.
    #[must_use]
    pub fn now() -> Option<ProcessIo> {
        let pids = listed();
        if pids.len() > MOST_PROCESSES || fs::metadata("/proc/self/io").is_err() {
            return None;
        }
        let known = pids.into_iter().filter_map(|pid| Some((pid, read(pid)?)));
        Some(ProcessIo { processes: known.collect() })
    }

    /// What others have read and written since `earlier`, by name, the most first.
    #[must_use]
    pub fn since(&self, earlier: &ProcessIo) -> Vec<NamedIo> {
        since(&self.processes, &earlier.processes, std::process::id())
    }
}

/// The counts of one process; `None` where it is a kernel thread, gone, or not ours to read.
fn read(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let known = parse_stat(&stat)?;
    if pid == KERNEL || known.parent_pid == KERNEL {
        return None;
    }
    let bytes = parse_io(&fs::read_to_string(format!("/proc/{pid}/io")).ok()?)?;
    let name = stat.split_once('(')?.1.rsplit_once(')')?.0.to_owned();
    Some(Process { start_ticks: known.start_ticks, parent: known.parent_pid, name, bytes })
}

/// Bytes read and written of `/proc/PID/io`.
fn parse_io(text: &str) -> Option<u64> {
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().parse().ok()
    };
    let written = field("write_bytes")?.saturating_sub(field("cancelled_write_bytes").unwrap_or(0));
    Some(field("read_bytes")?.saturating_add(written))
}

fn since(now: &HashMap<u32, Process>, earlier: &HashMap<u32, Process>, own: u32) -> Vec<NamedIo> {
    let is_same = |pid: u32, then: &Process| {
        now.get(&pid).is_some_and(|process| process.start_ticks == then.start_ticks)
    };
    // What is gone was counted before, and comes again with whoever waited for it.
    let mut known: HashMap<u32, u64> = HashMap::new();
    for (pid, process) in earlier {
        if is_same(*pid, process) {
            *known.entry(*pid).or_default() += process.bytes;
            continue;
        }
        let mut heir = process.parent;
        for _ in 0..earlier.len() {
            match earlier.get(&heir) {
                Some(parent) if !is_same(heir, parent) => heir = parent.parent,
                _ => break,
            }
        }
        *known.entry(heir).or_default() += process.bytes;
    }
    let mut by_name: HashMap<&str, u64> = HashMap::new();
    for (pid, process) in now {
        if !is_ours(*pid, now, own) {
            let before = known.get(pid).copied().unwrap_or(0);
            *by_name.entry(&process.name).or_default() += process.bytes.saturating_sub(before);
        }
    }
    let mut all: Vec<NamedIo> = by_name
        .into_iter()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(name, bytes)| NamedIo { name: name.to_owned(), bytes })
        .collect();
    all.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    all
}

/// Whether `pid` is the process `own` or descends from it.
fn is_ours(pid: u32, processes: &HashMap<u32, Process>, own: u32) -> bool {
    let mut at = pid;
    for _ in 0..processes.len() + 1 {
        if at == own {
            return true;
        }
        match processes.get(&at) {
            Some(process) => at = process.parent,
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn process(parent: u32, name: &str, bytes: u64) -> Process {
        Process { start_ticks: 7, parent, name: name.to_owned(), bytes }
    }

    fn told(now: &[(u32, Process)], earlier: &[(u32, Process)]) -> Vec<(String, u64)> {
        let map = |list: &[(u32, Process)]| list.iter().cloned().collect::<HashMap<_, _>>();
        let all = since(&map(now), &map(earlier), 50);
        all.into_iter().map(|one| (one.name, one.bytes)).collect()
    }

    fn pairs(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
        expected.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect()
    }

    #[test]
    fn what_others_did_since_is_told_by_name() {
        let earlier = [(1, process(0, "init", 5)), (10, process(1, "cc", 100))];
        let mut now = vec![
            (1, process(0, "init", 5)),
            (10, process(1, "cc", 130)),
            (11, process(1, "cc", 20)),
            (12, process(1, "ld", 70)),
        ];
        // We ourselves, and ours.
        now.extend([(50, process(1, "fsdyno", 9000)), (51, process(50, "child", 9000))]);
        assert_eq!(told(&now, &earlier), pairs(&[("ld", 70), ("cc", 50)]));
    }

    #[test]
    fn what_ended_is_not_counted_again_with_its_parent() {
        let earlier = [
            (9, process(1, "make", 10)),
            (10, process(9, "sh", 3)),
            (11, process(10, "cc", 1000)),
            (13, process(1, "daemon", 400)),
        ];
        // Both have ended, with 50 more, and were waited for; number 13 is another process now.
        let other = Process { start_ticks: 8, ..process(9, "tar", 60) };
        let now = [(1, process(0, "init", 400)), (9, process(1, "make", 1063)), (13, other)];
        assert_eq!(told(&now, &earlier), pairs(&[("tar", 60), ("make", 50)]));
        assert_eq!(told(&[], &earlier), []);
    }

    #[test]
    fn counts_are_read_from_their_text() {
        let text = "rchar: 9\nwchar: 9\nsyscr: 1\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 4096\n";
        assert_eq!(parse_io(text), Some(8192));
        assert_eq!(parse_io("read_bytes: 1\nwrite_bytes: 2\n"), Some(3));
        for wrong in ["", "read_bytes: x\nwrite_bytes: 1\n", "read_bytes 1\nwrite_bytes: 2"] {
            assert_eq!(parse_io(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn we_ourselves_are_not_others() {
        let Some(before) = ProcessIo::now() else {
            println!("skipped: the kernel does not count what processes read and write");
            return;
        };
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        file.write_all(&[1; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        let own = fs::read_to_string("/proc/self/comm").unwrap();
        let others = ProcessIo::now().unwrap().since(&before);
        // Another of the same name may run beside this one, but not have written just that.
        let of_our_name = others.iter().find(|one| one.name == own.trim());
        assert!(of_our_name.is_none_or(|one| one.bytes != 1 << 20), "{others:?}");
    }
}
