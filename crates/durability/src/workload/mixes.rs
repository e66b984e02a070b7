//! The mixes of calls that a workload may be drawn from. A new mix is one entry here.

use super::{Failed, Worker, directory_of};

/// A step: one call, or some that belong together.
type Step = fn(&mut Worker<'_>) -> Result<(), Failed>;

/// What is drawn, and how often.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    /// Name, a value of `--workload`.
    pub name: &'static str,
    /// What it does, in a line.
    pub doc: &'static str,
    /// Weights and steps.
    steps: &'static [(u64, Step)],
}

/// All mixes; the first is drawn from where none is named.
pub static ALL: &[Mix] = &[
    Mix {
        name: "mixed",
        doc: "every call, in no order",
        steps: &[
            (18, |worker| worker.create()),
            (16, |worker| worker.append()),
            (10, |worker| worker.overwrite()),
            (4, |worker| worker.truncate()),
            (15, |worker| worker.sync_file()),
            (12, |worker| worker.replace()),
            (5, |worker| worker.rename()),
            (4, |worker| worker.link()),
            (7, |worker| worker.unlink()),
            (8, |worker| worker.sync_directory()),
            (1, |worker| worker.sync()),
        ],
    },
    Mix {
        name: "mail",
        doc: "as a maildir: written, synced, renamed into place, deleted",
        steps: &[(60, deliver), (35, |worker| worker.unlink()), (5, |worker| worker.sync_file())],
    },
    Mix {
        name: "database",
        doc: "transactions, each with a rollback journal",
        steps: &[(70, transaction), (10, log), (20, |worker| worker.create())],
    },
    Mix {
        name: "log",
        doc: "records appended and synced one by one; files put aside",
        steps: &[(80, log), (12, rotate), (8, |worker| worker.unlink())],
    },
    Mix {
        name: "save",
        doc: "documents replaced by rename, with and without fsync",
        steps: &[
            (70, |worker| worker.replace()),
            (15, |worker| worker.create()),
            (15, |worker| worker.sync_directory()),
        ],
    },
];

/// The mix called `name`.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Mix> {
    ALL.iter().find(|mix| mix.name == name)
}

impl PartialEq for Mix {
    fn eq(&self, other: &Mix) -> bool {
        self.name == other.name
    }
}

impl Eq for Mix {}

impl Mix {
    pub(super) fn step(&self, worker: &mut Worker<'_>) -> Result<(), Failed> {
        let total = self.steps.iter().map(|(weight, _)| weight).sum();
        let mut drawn = worker.below(total);
        for (weight, step) in self.steps {
            if drawn < *weight {
                return step(worker);
            }
            drawn -= weight;
        }
        Ok(())
    }
}

/// A message arrives: nobody sees it before it is durable.
fn deliver(worker: &mut Worker<'_>) -> Result<(), Failed> {
    let (Some(from), Some(to)) = (worker.free_name_in(0), worker.free_name_in(1)) else {
        return worker.unlink();
    };
    let file = worker.create_as(&from)?;
    let length = worker.length();
    worker.write(&from, file, 0, length)?;
    worker.fsync(&from, file, false)?;
    worker.rename_to(&from, &to)?;
    worker.fsync_directory(directory_of(&to))
}

/// Pages are overwritten under the protection of a journal.
fn transaction(worker: &mut Worker<'_>) -> Result<(), Failed> {
    let (Some((name, file)), Some(journal)) = (worker.taken_name(), worker.free_name()) else {
        return worker.create();
    };
    let undo = worker.create_as(&journal)?;
    let length = worker.length();
    worker.write(&journal, undo, 0, length)?;
    worker.fsync(&journal, undo, false)?;
    worker.fsync_directory(directory_of(&journal))?;
    for _ in 0..=worker.below(3) {
        worker.overwrite_in(&name, file)?;
    }
    worker.fsync(&name, file, true)?;
    worker.unlink_name(&journal)?;
    if worker.below(2) == 0 { worker.fsync_directory(directory_of(&journal)) } else { Ok(()) }
}

/// A record at the end of a file.
fn log(worker: &mut Worker<'_>) -> Result<(), Failed> {
    let Some((name, file)) = worker.taken_name() else { return worker.create() };
    worker.append_to(&name, file)?;
    worker.fsync(&name, file, true)
}

/// A file is put aside, and a new one has its name.
fn rotate(worker: &mut Worker<'_>) -> Result<(), Failed> {
    let (Some((name, _)), Some(aside)) = (worker.taken_name(), worker.free_name()) else {
        return worker.create();
    };
    worker.rename_to(&name, &aside)?;
    worker.create_as(&name)?;
    worker.fsync_directory(directory_of(&name))
}
