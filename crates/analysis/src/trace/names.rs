//! Who is behind events: indices of processes in the trace become indices of short names, under which the
//! many workers of the kernel are one.

use fsdyno_model::cpu_group;
use fsdyno_model::trace::TraceInfo;
use rustc_hash::FxHashMap;

use super::requests::Who;

/// Name of all that are not shown apart.
pub(super) const OTHERS: &str = "others";
/// Most names; a trace with more has the rest under [`OTHERS`].
const NAMES_MAX: usize = 1 << 12;

/// Threads of the journal group that write to the place where things belong, not to a log.
const WRITE_IN_PLACE: [&str; 3] = ["xfsaild", "btrfs-transaction", "bch-reclaim"];

/// Whether what a process writes goes to a journal or log.
fn writes_journal(name: &str) -> bool {
    cpu_group::of_kernel_thread(name) == cpu_group::JOURNAL
        && !WRITE_IN_PLACE.iter().any(|prefix| name.starts_with(prefix))
}

/// Short names, in the order of their first appearance.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    by_process: Vec<Who>,
    by_name: FxHashMap<String, u16>,
    names: Vec<String>,
}

impl Names {
    /// Takes in the processes that were not known before.
    pub fn learn(&mut self, info: &TraceInfo) {
        for process in &info.processes[self.by_process.len().min(info.processes.len())..] {
            let name = self.index(cpu_group::short_name(&process.name));
            self.by_process.push(Who { name, is_journal: writes_journal(&process.name) });
        }
    }

    fn index(&mut self, name: &str) -> u16 {
        if let Some(index) = self.by_name.get(name) {
            return *index;
        }
        let name = if self.names.len() + 1 < NAMES_MAX { name } else { OTHERS };
        let next = u16::try_from(self.names.len()).expect("there are at most 2^12 names");
        let index = *self.by_name.entry(name.to_owned()).or_insert(next);
        if index == next {
            self.names.push(name.to_owned());
        }
        index
    }

    /// Who a process of the trace is; one that was never named is nobody else's.
    #[inline]
    pub fn who(&mut self, process: u32) -> Who {
        match self.by_process.get(process as usize) {
            Some(who) => *who,
            None => Who { name: self.index("unknown"), is_journal: false },
        }
    }

    /// The name with this index.
    pub fn name(&self, index: u16) -> &str {
        self.names.get(usize::from(index)).map_or(OTHERS, String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_told_from_what_empties_it() {
        for (name, journal) in [
            ("jbd2/loop3-8", true),
            ("kworker/0:1H-xfs-cil/loop0", true),
            ("kworker/0:1H-xfs-log/loop0", true),
            ("xfsaild/loop0", false),
            ("btrfs-transaction", false),
            ("kworker/u8:0-bcachefs_journal", true),
            ("bch-reclaim/loop3", false),
            ("kworker/u4:1-flush-7:0", false),
            ("postgres", false),
        ] {
            assert_eq!(writes_journal(name), journal, "{name}");
        }
    }
}
