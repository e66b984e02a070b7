//! What differs first between two records of one trial in virtual time, which should be the same.

use std::fmt;

use fsdyno_model::outcome::Outcome;
use fsdyno_model::record::TrialRecord;
use serde::Serialize;
use serde_json::Value;

/// Code of the warning that one guest of a trial recorded something else than two others.
pub const GUEST_DIFFERED: &str = "guest-differed";

/// Something that is another than it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What it belongs to: a phase, `before the workload`, `the guest`.
    pub of: String,
    /// Its name; where that ends in `_ns`, the values are nanoseconds.
    pub name: String,
    /// What was recorded.
    pub was: String,
    /// What it is here.
    pub is: String,
}

impl Change {
    /// Two values of the same name, as JSON and cut where that is long.
    pub fn new(of: &str, name: &str, was: impl Serialize, is: impl Serialize) -> Change {
        Change { of: of.to_owned(), name: name.to_owned(), was: shown(&was), is: shown(&is) }
    }
}

impl fmt::Display for Change {
    /// `create: elapsed_return_ns was 10, is 11`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} was {}, is {}", self.of, self.name, self.was, self.is)
    }
}

/// Whether two guests have recorded the same.
pub fn are_same(a: &TrialRecord, b: &TrialRecord) -> bool {
    hash(a).is_some() && hash(a) == hash(b)
}

/// What differs first between a record and the one that was made again: a phase in the order in which they
/// ran, then what lies around the phases. Whatever differs from the beginning on is told of the first phase as
/// well, which says more.
pub fn first_difference(was: &TrialRecord, is: &TrialRecord) -> Option<Change> {
    if is.outcome != Outcome::Completed {
        return Some(Change::new("the trial", "outcome", &was.outcome, &is.outcome));
    }
    if are_same(was, is) {
        return None;
    }
    first_phase(was, is)
        .or_else(|| first_stage(was, is))
        .or_else(|| Some(Change::new("after the workload", "record_hash", hash(was), hash(is))))
}

/// Where two guests parted that should have recorded the same: as [`first_difference`], but in the order of time.
pub fn parting(was: &TrialRecord, is: &TrialRecord) -> Option<Change> {
    first_stage(was, is).or_else(|| first_difference(was, is))
}

fn hash(record: &TrialRecord) -> Option<&str> {
    record.virtual_time.as_ref().map(|of_time| of_time.record_hash.as_str())
}

/// What of the times before the workload differs first.
fn first_stage(was: &TrialRecord, is: &TrialRecord) -> Option<Change> {
    let (was, is) = (&was.stages, &is.stages);
    let stages = [
        ("provision_ns", was.provision_ns, is.provision_ns),
        ("mkfs_ns", was.mkfs_ns, is.mkfs_ns),
        ("mount_ns", was.mount_ns, is.mount_ns),
        ("age_ns", was.age_ns, is.age_ns),
        ("quiesce_ns", was.quiesce_ns, is.quiesce_ns),
    ];
    let (name, was, is) = stages.into_iter().find(|(_, was, is)| was != is)?;
    Some(Change::new("before the workload", name, was, is))
}

fn first_phase(was: &TrialRecord, is: &TrialRecord) -> Option<Change> {
    for (index, phase) in was.phases.iter().enumerate() {
        let Some(other) = is.phases.get(index) else {
            return Some(Change::new(&phase.name, "phase", "there", "missing"));
        };
        let values = |phase| match serde_json::to_value(phase) {
            Ok(Value::Object(fields)) => fields,
            _ => serde_json::Map::new(),
        };
        let (old, new) = (values(phase), values(other));
        // The elapsed time says most where several differ.
        let first = ["elapsed_durable_ns", "elapsed_return_ns"];
        let names = first.into_iter().chain(old.keys().map(String::as_str));
        let differing = names.into_iter().find(|name| old.get(*name) != new.get(*name));
        if let Some(name) = differing {
            return Some(Change::new(&phase.name, name, old.get(name), new.get(name)));
        }
    }
    None
}

/// A value for people: JSON, cut.
fn shown(value: &impl Serialize) -> String {
    const MOST: usize = 80;
    let text = serde_json::to_string(value).unwrap_or_default();
    let text = text.trim_matches('"');
    if text.chars().count() > MOST {
        text.chars().take(MOST).collect::<String>() + "…"
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_model::guest::VirtualTime;
    use fsdyno_model::record::PhaseRecord;

    fn record(hash: &str, times: [u64; 2]) -> TrialRecord {
        let mut record = TrialRecord::planned("ext4", "postmark", 1, 0, Outcome::Completed);
        record.virtual_time =
            Some(VirtualTime { record_hash: hash.to_owned(), ..VirtualTime::default() });
        for (name, elapsed) in ["create", "transactions"].into_iter().zip(times) {
            let mut phase = PhaseRecord::new(name, "elapsed_s");
            phase.elapsed_return_ns = elapsed;
            record.phases.push(phase);
        }
        record
    }

    #[test]
    fn the_first_phase_that_differs_is_named() {
        let was = record("a", [10, 20]);
        assert_eq!(first_difference(&was, &record("a", [10, 20])), None);
        let found = first_difference(&was, &record("b", [10, 21])).unwrap();
        assert_eq!((found.of.as_str(), found.name.as_str()), ("transactions", "elapsed_return_ns"));
        assert_eq!((found.was.as_str(), found.is.as_str()), ("20", "21"));
        let both = first_difference(&was, &record("b", [9, 21])).unwrap();
        assert_eq!(both.of, "create");
        let around = first_difference(&was, &record("b", [10, 20])).unwrap();
        assert_eq!(around.of, "after the workload");
        let mut earlier = record("b", [10, 20]);
        earlier.stages.mkfs_ns = Some(1);
        assert_eq!(first_difference(&was, &earlier).unwrap().of, "before the workload");
        assert_eq!(parting(&was, &earlier).unwrap().name, "mkfs_ns");
        earlier.phases[0].elapsed_return_ns = 9;
        assert_eq!(first_difference(&was, &earlier).unwrap().of, "create");
        assert_eq!(parting(&was, &earlier).unwrap().of, "before the workload");
        assert_eq!(parting(&was, &record("b", [9, 20])).unwrap().of, "create");
        assert_eq!(parting(&was, &was), None);
        let failed = Outcome::Interrupted { stage: "boot".to_owned() };
        let failed = TrialRecord::planned("ext4", "postmark", 1, 0, failed);
        assert_eq!(first_difference(&was, &failed).unwrap().name, "outcome");
    }
}
