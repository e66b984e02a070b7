//! One target as the audit sees it: what was asked for, and what its completed trials read back.

use std::collections::BTreeMap;

use fsdyno_model::environment::Environment;
use fsdyno_model::outcome::Outcome;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{Role, TargetFacts, TrialRecord};
use fsdyno_model::target::{DeviceSpec, FreshSpec, Ground, TargetSpec};
use fsdyno_model::workload::WorkloadSpec;

use super::Asked;

/// A fact of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What tables show.
    pub shown: String,
    /// What is compared.
    pub key: String,
}

impl Fact {
    /// A fact that is compared as it is shown.
    pub fn of(text: impl Into<String>) -> Fact {
        let shown = text.into();
        Fact { key: shown.clone(), shown }
    }

    /// A fact that is compared as `key`.
    pub fn keyed(shown: impl Into<String>, key: impl Into<String>) -> Fact {
        Fact { shown: shown.into(), key: key.into() }
    }
}

/// One target with its completed, measured trials.
#[derive(Debug, Clone)]
pub struct Subject<'a> {
    /// As the plan has it.
    pub spec: &'a TargetSpec,
    /// Its completed trials whose figures count: of one workload, or of all.
    pub trials: Vec<&'a TrialRecord>,
    /// How many trials there should have been.
    pub planned: usize,
    /// The machine.
    pub environment: &'a Environment,
    /// The workload; `None` where it is about the target as such.
    pub workload: Option<&'a WorkloadSpec>,
}

/// The targets of `plan` that completed a trial (of `workload`, where one is given).
pub fn of_plan<'a>(
    plan: &'a Plan,
    environment: &'a Environment,
    trials: &'a [TrialRecord],
    workload: Option<&'a WorkloadSpec>,
) -> Vec<Subject<'a>> {
    let subjects = plan.targets.iter().map(|spec| {
        let own = trials.iter().filter(|trial| {
            trial.role == Role::Measured
                && trial.target == spec.label
                && workload.is_none_or(|workload| workload.label == trial.workload)
        });
        let all: Vec<&TrialRecord> = own.collect();
        let planned = all.len();
        let completed = all.into_iter().filter(|trial| trial.outcome == Outcome::Completed);
        Subject { spec, trials: completed.collect(), planned, environment, workload }
    });
    subjects.filter(|subject| !subject.trials.is_empty()).collect()
}

impl<'a> Subject<'a> {
    /// Label of the target.
    pub fn label(&self) -> &'a str {
        &self.spec.label
    }

    /// What is made for each trial; `None` for a directory.
    pub fn fresh(&self) -> Option<&'a FreshSpec> {
        match &self.spec.ground {
            Ground::Fresh(fresh) => Some(fresh),
            Ground::Directory { .. } => None,
        }
    }

    /// Name of the filesystem, of a directory that of the filesystem it lies on.
    pub fn filesystem(&self) -> &'a str {
        match self.fresh() {
            Some(fresh) => &fresh.filesystem,
            None => {
                let mut known =
                    self.trials.iter().filter_map(|it| it.facts.device.get("filesystem"));
                known.next().map_or("unknown", String::as_str)
            }
        }
    }

    /// Whether it is one of these filesystems.
    pub fn is(&self, filesystems: &[&str]) -> bool {
        filesystems.contains(&self.filesystem())
    }

    /// Whether it is ext2, ext3 or ext4.
    pub fn is_ext(&self) -> bool {
        self.is(&["ext2", "ext3", "ext4"])
    }

    /// Whether nothing can be told without knowing it: a filesystem that is none of the catalogue.
    pub fn is_foreign(&self) -> bool {
        !self.is_ext() && !self.is(&["xfs", "btrfs", "bcachefs", "zfs"])
    }

    /// What `read` finds in every trial. Trials that do not tell are passed over; where they differ all
    /// values are told.
    pub fn each(&self, read: impl Fn(&TargetFacts) -> Option<Fact>) -> Option<Fact> {
        let mut found: Vec<Fact> = Vec::new();
        for fact in self.trials.iter().filter_map(|trial| read(&trial.facts)) {
            if !found.iter().any(|known| known.key == fact.key) {
                found.push(fact);
            }
        }
        let shown: Vec<&str> = found.iter().map(|fact| fact.shown.as_str()).collect();
        let mut keys: Vec<&str> = found.iter().map(|fact| fact.key.as_str()).collect();
        // The order of trials is no difference.
        keys.sort_unstable();
        (!found.is_empty()).then(|| Fact::keyed(shown.join(", then "), keys.join(", then ")))
    }

    /// What the device's facts have under `name`.
    pub fn device(&self, name: &str) -> Option<Fact> {
        self.each(|facts| facts.device.get(name).map(Fact::of))
    }

    /// Whether the user wrote in the target what decides a fact.
    pub fn asked(&self, asked: Asked) -> bool {
        let Some(fresh) = self.fresh() else {
            return matches!(asked, Asked::Device);
        };
        match asked {
            Asked::Never => false,
            Asked::Mount(names) => {
                // Most options of bcachefs can be given to mkfs as well, all properties of ZFS are.
                let made = fresh.mkfs.iter().filter_map(|word| match self.filesystem() {
                    "bcachefs" => word.strip_prefix("--"),
                    "zfs" => Some(word.strip_prefix("-O").unwrap_or(word)),
                    _ => None,
                });
                words(&fresh.mount).chain(made).any(|word| names.contains(&name_of(word)))
            }
            Asked::AnyMount => !fresh.mount.is_empty(),
            Asked::Mkfs => !fresh.mkfs.is_empty() || fresh.journal.is_some(),
            Asked::Device => fresh.device != DeviceSpec::LoopImage { size_bytes: None },
            Asked::Journal => fresh.journal.is_some(),
            Asked::Age => fresh.age.is_some(),
            Asked::Kernel => fresh.kernel.is_some(),
        }
    }
}

/// The options in force: those of the mount table, then those that only the kernel's own list has.
pub fn options(facts: &TargetFacts) -> Option<Vec<&str>> {
    let mounted = facts.mount_effective.as_deref()?;
    let more = facts.device.get("filesystem_options").map_or("", String::as_str);
    Some(words(mounted).chain(words(more)).collect())
}

/// The value of an option of bcachefs: what the mount says, else what the superblock has.
pub fn option_of_bcachefs<'a>(facts: &'a TargetFacts, name: &str) -> Option<&'a str> {
    let mounted = option(&options(facts)?, name);
    mounted.or_else(|| facts.mkfs_effective.get(name).map(String::as_str))
}

/// The words of comma-separated options.
pub fn words(options: &str) -> impl Iterator<Item = &str> {
    options.split(',').map(str::trim).filter(|word| !word.is_empty())
}

/// `compress` of `compress=zstd:3`.
pub fn name_of(word: &str) -> &str {
    word.split_once('=').map_or(word, |(name, _)| name)
}

/// The value of the last option called `name`; empty where it has none.
pub fn option<'a>(options: &[&'a str], name: &str) -> Option<&'a str> {
    let mut own = options.iter().rev().filter(|word| name_of(word) == name);
    own.next().map(|word| word.split_once('=').map_or("", |(_, value)| value))
}

/// A number among facts.
pub fn number(facts: &BTreeMap<String, String>, name: &str) -> Option<u64> {
    facts.get(name)?.split_whitespace().next()?.parse().ok()
}
