//! A history seen from a cut: what had begun, what was promised, what names may show.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Deed, FileId, History, Names, Operation, directory_of};
use crate::promises::Promises;

/// What may be found under a name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Allowed {
    /// Files, the newest last.
    pub files: Vec<FileId>,
    /// Whether nothing may be.
    pub may_be_absent: bool,
    /// Whether it went from one file to another without being free between.
    pub is_replaced: bool,
    /// The operation whose acknowledgement is the lower bound.
    pub promised_by: Option<u32>,
}

/// A change of what a name shows.
#[derive(Debug, Clone, Copy)]
struct Change {
    /// Number of the operation; 0 before the first.
    at: u32,
    file: Option<FileId>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Timeline<'h> {
    history: &'h History,
    cut: u64,
    promises: Promises,
    /// Operations that had begun: those with numbers up to this.
    begun: u32,
    changes: BTreeMap<&'h str, Vec<Change>>,
    /// Lower bound of each name: number of an acknowledged operation after which its state counts, and
    /// which one that is.
    floors: BTreeMap<&'h str, u32>,
    inodes: BTreeMap<FileId, u64>,
    /// Numbers of the acknowledged operations that made a file's contents durable, the last one.
    file_floors: BTreeMap<FileId, u32>,
    /// The same of those that made its names durable because they were about the file.
    named_floors: BTreeMap<FileId, u32>,
}

impl<'h> Timeline<'h> {
    pub(super) fn new(history: &'h History, cut: u64, promises: Promises) -> Timeline<'h> {
        let operations = &history.operations;
        // One after the other: what follows one that had not begun had not begun.
        let begun = operations.partition_point(|operation| operation.began < cut) as u32;
        let mut timeline = Timeline {
            history,
            cut,
            promises,
            begun,
            changes: BTreeMap::new(),
            floors: BTreeMap::new(),
            inodes: BTreeMap::new(),
            file_floors: BTreeMap::new(),
            named_floors: BTreeMap::new(),
        };
        timeline.walk();
        timeline
    }

    fn walk(&mut self) {
        let history = self.history;
        let mut names = Names::new();
        for (number, operation) in (1..).zip(&history.operations).take(self.begun as usize) {
            for name in named(&operation.deed) {
                self.changes.entry(name).or_insert_with(|| vec![Change { at: 0, file: None }]);
            }
            if let Deed::Create { file, inode, .. } = &operation.deed {
                self.inodes.insert(*file, *inode);
            }
            operation.deed.apply(&mut names);
            for name in named(&operation.deed) {
                let file = names.get(name).copied();
                if let Some(changes) = self.changes.get_mut(name) {
                    changes.push(Change { at: number, file });
                }
            }
            if operation.ended <= self.cut {
                self.acknowledge(number, operation, &names);
            }
        }
        // That a file has its names is about the file: a name that it lost since may show what was there
        // before it had it.
        for (name, changes) in &self.changes {
            let Some(last) = changes.last() else { continue };
            let floor = last.file.and_then(|file| self.named_floors.get(&file));
            if let Some(floor) = floor.filter(|floor| last.at <= **floor) {
                let known = self.floors.entry(name).or_insert(*floor);
                *known = (*known).max(*floor);
            }
        }
    }

    /// What an acknowledged operation promises.
    fn acknowledge(&mut self, number: u32, operation: &Operation, names: &Names) {
        match &operation.deed {
            Deed::Fsync { file, data_only } => {
                self.file_floors.insert(*file, number);
                // A rename changes nothing that is needed to read the data: fdatasync may leave it out.
                let is_of_names = self.promises.names_by_file_fsync && !data_only;
                if is_of_names && names.values().any(|own| own == file) {
                    self.named_floors.insert(*file, number);
                }
            }
            Deed::SyncDirectory { directory } => {
                let own: Vec<&str> = self
                    .changes
                    .keys()
                    .copied()
                    .filter(|name| directory_of(name) == directory)
                    .collect();
                self.floors.extend(own.into_iter().map(|name| (name, number)));
            }
            Deed::Sync => {
                let all: Vec<&str> = self.changes.keys().copied().collect();
                self.floors.extend(all.into_iter().map(|name| (name, number)));
                let files: Vec<FileId> = self.inodes.keys().copied().collect();
                self.file_floors.extend(files.into_iter().map(|file| (file, number)));
            }
            _ => {}
        }
    }

    /// Every name that was ever used before the cut.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.changes.keys().copied()
    }

    /// Operations that had begun, with their numbers.
    pub(super) fn begun(&self) -> impl Iterator<Item = (u32, &'h Deed)> {
        let operations = self.history.operations.iter().take(self.begun as usize);
        (1..).zip(operations.map(|operation| &operation.deed))
    }

    pub(super) fn inode(&self, file: FileId) -> Option<u64> {
        self.inodes.get(&file).copied()
    }

    /// Files that had an inode of that number.
    pub(super) fn files_of_inode(&self, inode: u64) -> Vec<FileId> {
        self.inodes.iter().filter(|(_, own)| **own == inode).map(|(file, _)| *file).collect()
    }

    /// The last acknowledged operation that made the contents of `file` durable.
    pub(super) fn file_floor(&self, file: FileId) -> Option<u32> {
        self.file_floors.get(&file).copied()
    }

    /// What may be found under `name`.
    pub(super) fn allowed(&self, name: &str) -> Allowed {
        let Some(changes) = self.changes.get(name) else {
            return Allowed { may_be_absent: true, ..Allowed::default() };
        };
        let promised_by = self.floors.get(name).copied();
        let floor = promised_by.unwrap_or(0);
        // The state at the floor, and every one that came after.
        let first = changes.partition_point(|change| change.at <= floor).saturating_sub(1);
        let states = &changes[first..];
        let mut files = Vec::new();
        for change in states {
            if let Some(file) = change.file.filter(|file| !files.contains(file)) {
                files.push(file);
            }
        }
        Allowed {
            may_be_absent: states.iter().any(|change| change.file.is_none()),
            is_replaced: files.len() > 1,
            files,
            promised_by,
        }
    }

    /// From which operation to which a name showed a file.
    fn spans(&self, name: &str, file: FileId) -> Vec<(u32, u32)> {
        let changes = self.changes.get(name).map_or(&[][..], Vec::as_slice);
        let end_of = |index: usize| changes.get(index + 1).map_or(u32::MAX, |next| next.at);
        let shows = |(index, change): (usize, &Change)| {
            (change.file == Some(file)).then(|| (change.at, end_of(index)))
        };
        changes.iter().enumerate().filter_map(shows).collect()
    }

    /// Files of which a name was durable and that have had one ever since, with the operation that
    /// promised it.
    pub(super) fn must_have_a_name(&self) -> Vec<(FileId, u32)> {
        let mut promised = self.named_floors.clone();
        for (name, floor) in &self.floors {
            let changes = &self.changes[name];
            let index = changes.partition_point(|change| change.at <= *floor).saturating_sub(1);
            if let Some(file) = changes.get(index).and_then(|change| change.file) {
                let known = promised.entry(file).or_insert(*floor);
                *known = (*known).max(*floor);
            }
        }
        promised.into_iter().filter(|(file, floor)| self.always_named(*file, *floor)).collect()
    }

    /// Whether `file` has had a name at all times from `floor` on. Names by links after `floor` count only
    /// where links are kept in their order: nothing has made such a name durable.
    fn always_named(&self, file: FileId, floor: u32) -> bool {
        let counts = |(from, _): &(u32, u32)| {
            *from <= floor || self.promises.ordered_links || !self.is_link(*from)
        };
        let spans = self.changes.keys().flat_map(|name| self.spans(name, file));
        let spans: BTreeSet<(u32, u32)> = spans.filter(counts).collect();
        let mut covered = floor;
        for (from, to) in spans {
            if from <= covered && to > covered {
                covered = to;
            }
        }
        covered == u32::MAX
    }

    fn is_link(&self, number: u32) -> bool {
        let index = (number as usize).checked_sub(1);
        let operation = index.and_then(|index| self.history.operations.get(index));
        operation.is_some_and(|operation| matches!(operation.deed, Deed::Link { .. }))
    }

    /// The operation by which `file` took, under `name`, the place of another right after it was made
    /// and written in one piece; the last one.
    pub(super) fn replaced_by(&self, name: &str, file: FileId) -> Option<u32> {
        if !self.promises.replace_by_rename {
            return None;
        }
        let operations = &self.history.operations[..self.begun as usize];
        let at = operations.iter().rposition(
            |operation| matches!(&operation.deed, Deed::Rename { to, .. } if to == name),
        )?;
        let number = at as u32 + 1;
        let changes = self.changes.get(name)?;
        let index = changes.iter().position(|change| change.at == number)?;
        let is_taken = index > 0 && changes[index - 1].file.is_some();
        let [made, written] = [at.checked_sub(2)?, at - 1].map(|index| &operations[index].deed);
        let is_new = matches!(made, Deed::Create { file: own, .. } if *own == file)
            && matches!(written, Deed::Write { file: own, offset: 0, .. } if *own == file);
        (is_new && is_taken && changes[index].file == Some(file)).then_some(number)
    }
}

/// The names that a call changes.
fn named(deed: &Deed) -> Vec<&str> {
    match deed {
        Deed::Create { name, .. } | Deed::Unlink { name } => vec![name],
        Deed::Rename { from, to } => vec![from, to],
        Deed::Link { to, .. } => vec![to],
        _ => Vec::new(),
    }
}
