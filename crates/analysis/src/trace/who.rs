//! Whose request it is: processes of a trace in a bounded number of slots. Names that differ only from
//! run to run share a slot as soon as the name is known; what a slot is called is settled when figures
//! are asked for.

use std::collections::BTreeMap;

use fsdyno_model::cpu_group::{JOURNAL, of_kernel_thread, short_name};
use fsdyno_model::trace::TraceInfo;

/// Slots, those of nobody and of the rest included.
pub(super) const SLOTS: usize = 128;
/// Of requests that were not seen before they were finished.
pub(super) const UNKNOWN: u8 = 0;
/// Of processes that came when all slots were taken.
pub(super) const OTHERS: u8 = 1;

const UNASSIGNED: u8 = u8::MAX;
/// Indices of processes above this are among the rest.
const PROCESSES_MAX: usize = 1 << 20;

/// Kernel threads of the journal group which write things to their place rather than to a log.
const NOT_TO_A_LOG: [&str; 2] = ["xfsaild", "btrfs-transaction"];

/// Whether what the process `name` writes goes to a journal or log.
pub(super) fn writes_journal(name: &str) -> bool {
    of_kernel_thread(name) == JOURNAL
        && !NOT_TO_A_LOG.iter().any(|not_a_log| name.starts_with(not_a_log))
}

type Key = (String, bool);

fn key_of(name: &str) -> Key {
    (short_name(name).to_owned(), writes_journal(name))
}

/// Who stands behind a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Holder {
    Fixed(&'static str),
    Named(Key),
    /// A process whose name was not known when it was first seen.
    Process(u32),
}

/// Slots of the processes.
#[derive(Debug, Clone)]
pub(super) struct Who {
    slot_of: Vec<u8>,
    keys: Vec<Key>,
    holders: Vec<Holder>,
}

/// Names of the slots, those of equal name merged.
#[derive(Debug, Clone)]
pub(super) struct Roster {
    /// The names.
    pub names: Vec<String>,
    /// Index of the name of each slot.
    pub name_of: Vec<usize>,
    /// Whether writes of the slot are those of a journal.
    pub is_journal: Vec<bool>,
}

impl Who {
    pub fn new() -> Who {
        Who {
            slot_of: Vec::new(),
            keys: Vec::new(),
            holders: vec![Holder::Fixed("unknown"), Holder::Fixed("others")],
        }
    }

    /// Takes the names of processes that it does not know yet.
    pub fn learn(&mut self, info: &TraceInfo) {
        let from = self.keys.len();
        if from < info.processes.len() {
            self.keys.extend(info.processes[from..].iter().map(|process| key_of(&process.name)));
        }
    }

    /// The slot of the process of index `process`.
    #[inline]
    pub fn slot(&mut self, process: u32) -> u8 {
        match self.slot_of.get(process as usize) {
            Some(&slot) if slot != UNASSIGNED => slot,
            _ => self.assign(process),
        }
    }

    #[cold]
    fn assign(&mut self, process: u32) -> u8 {
        let index = process as usize;
        if index >= PROCESSES_MAX {
            return OTHERS;
        }
        if self.slot_of.len() <= index {
            self.slot_of.resize(index + 1, UNASSIGNED);
        }
        let holder = match self.keys.get(index) {
            Some(key) => Holder::Named(key.clone()),
            None => Holder::Process(process),
        };
        let slot = match self.holders.iter().position(|other| *other == holder) {
            Some(slot) => slot,
            None if self.holders.len() < SLOTS => {
                self.holders.push(holder);
                self.holders.len() - 1
            }
            None => usize::from(OTHERS),
        };
        self.slot_of[index] = slot as u8;
        slot as u8
    }

    /// What the slots are called, by what is known now.
    pub fn roster(&self, info: &TraceInfo) -> Roster {
        let mut indices: BTreeMap<String, usize> = BTreeMap::new();
        let mut roster = Roster { names: Vec::new(), name_of: Vec::new(), is_journal: Vec::new() };
        for holder in &self.holders {
            let (name, is_journal) = match holder {
                Holder::Fixed(name) => ((*name).to_owned(), false),
                Holder::Named(key) => key.clone(),
                Holder::Process(index) => match info.processes.get(*index as usize) {
                    Some(process) => key_of(&process.name),
                    None => ("unknown".to_owned(), false),
                },
            };
            let index = *indices.entry(name).or_insert_with_key(|name| {
                roster.names.push(name.clone());
                roster.names.len() - 1
            });
            roster.name_of.push(index);
            roster.is_journal.push(is_journal);
        }
        roster
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_model::trace::TraceProcess;

    use super::*;

    fn info(names: &[&str]) -> TraceInfo {
        let processes = names.iter().map(|name| TraceProcess { pid: 1, name: (*name).to_owned() });
        TraceInfo { processes: processes.collect(), ..TraceInfo::default() }
    }

    #[test]
    fn journals_are_told_from_what_empties_them() {
        for (name, journal) in [
            ("jbd2/loop3-8", true),
            ("kworker/0:1H-xfs-cil/loop0", true),
            ("kworker/0:1H-xfs-log/loop0", true),
            ("xfsaild/loop0", false),
            ("btrfs-transaction", false),
            ("kworker/u4:1-flush-7:0", false),
            ("postgres", false),
        ] {
            assert_eq!(writes_journal(name), journal, "{name}");
        }
    }

    #[test]
    fn names_known_early_or_late_come_to_the_same() {
        let info = info(&["kworker/u4:1-flush-7:0", "cc1", "kworker/u8:2-flush-7:0", "cc1"]);
        let mut early = Who::new();
        early.learn(&info);
        let mut late = Who::new();
        for who in [&mut early, &mut late] {
            let slots: Vec<u8> = (0..4).map(|process| who.slot(process)).collect();
            let roster = who.roster(&info);
            let names: Vec<&str> =
                slots.iter().map(|slot| roster.names[roster.name_of[usize::from(*slot)]].as_str()).collect();
            assert_eq!(names, ["kworker/flush", "cc1", "kworker/flush", "cc1"]);
        }
        assert_eq!(early.slot(0), early.slot(2));
        assert_ne!(late.slot(0), late.slot(2));
    }

    #[test]
    fn slots_are_bounded() {
        let mut who = Who::new();
        for process in 0..1000 {
            assert!(usize::from(who.slot(process)) < SLOTS);
        }
        assert_eq!(who.slot(999), OTHERS);
        assert_eq!(who.slot(u32::MAX), OTHERS);
    }
}
