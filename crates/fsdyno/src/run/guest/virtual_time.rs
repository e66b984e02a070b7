//! Trials in virtual time: an errand that says nothing but what the figures depend on, and what is made of
//! the record that comes back.
//!
//! Every byte that enters a guest is work for it, and its time is the count of its work. So a guest is told
//! neither how a target is labelled, nor how many others there are, nor when the trial's turn came.

use std::path::PathBuf;
use std::time::Duration;

use fsdyno_disk::{Disk, shipped};
use fsdyno_guest::virtual_time::ALIGNMENT_BYTES;
use fsdyno_lab::emulator;
use fsdyno_model::guest::{ServedDisk, TrialErrand, VirtualTime};
use fsdyno_model::outcome::Outcome;
use fsdyno_model::place::Place;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{TrialRecord, Warning};
use fsdyno_sys::nbd;
use serde::Serialize;

use crate::run::difference::{self, Change, GUEST_DIFFERED};
use crate::run::schedule::Planned;

/// Guests that are made before it is given up that two record the same.
pub(super) const MOST_GUESTS: u32 = 6;
/// What targets are called in guests.
const LABEL: &str = "target";

/// An errand without what is no matter of the trial.
pub(super) fn bare(errand: TrialErrand) -> TrialErrand {
    let TrialErrand {
        plan, target_index, workload_index, trial, role, disks, input, fault, ..
    } = errand;
    let targets = plan.targets.into_iter().skip(target_index).take(1);
    let targets = targets.map(|mut target| {
        LABEL.clone_into(&mut target.label);
        target
    });
    let plain = Plan::new(plan.quick);
    let bare = Plan {
        trials: trial,
        seed: plan.seed,
        trial_timeout_s: plan.trial_timeout_s,
        phase_timeout_s: plan.phase_timeout_s,
        size_bytes: plan.size_bytes,
        directory: plan.directory,
        place: Place { kernel: None, saved_state: true, ..plan.place },
        trace: plan.trace,
        yardstick: false,
        targets: targets.collect(),
        // All of them: which one it is decides what is drawn.
        workloads: plan.workloads,
        ..plain
    };
    let (target_index, order) = (0, 0);
    TrialErrand {
        plan: bare,
        target_index,
        workload_index,
        trial,
        role,
        order,
        disks,
        input,
        fault,
    }
}

/// A disk of the model with this name, whose contents are on the device `contents` of the guest.
pub(super) fn served(
    name: &str,
    size_bytes: u64,
    contents: PathBuf,
    number: usize,
) -> Result<ServedDisk, String> {
    let text = if shipped::is_file(name) {
        std::fs::read_to_string(name)
            .map_err(|error| format!("cannot read the model {name}: {error}"))?
    } else {
        shipped::text(name)?.to_owned()
    };
    let (device, model) = (nbd::device_path(number), shipped::stem(name).to_owned());
    Ok(ServedDisk { contents, device, size_bytes, model, model_text: text })
}

/// The names of the models of these disks; `None` where there are none.
pub(super) fn model_names(disks: &[ServedDisk]) -> Option<String> {
    let names: Vec<&str> = disks.iter().map(|disk| disk.model.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Why a disk of the model with this name cannot be served in a guest.
pub(super) fn model_error(name: &str, size_bytes: u64) -> Option<String> {
    let model = match emulator::find_model(name) {
        Ok(model) => model,
        Err(error) => return Some(error),
    };
    Disk::new(&model, size_bytes, 1).err()
}

/// A size that the guest's memory can be made of.
pub(super) fn disk_size(plan: &Plan, size_bytes: u64) -> u64 {
    if plan.place.is_virtual() { size_bytes.next_multiple_of(ALIGNMENT_BYTES) } else { size_bytes }
}

/// Notes how many guests were made for a record, and whether another had recorded the same.
pub(super) fn settle(record: &mut TrialRecord, count: u32, is_agreed: bool) {
    if let Some(of_time) = &mut record.virtual_time {
        of_time.guests = count;
    }
    if record.outcome == Outcome::Completed && !is_agreed {
        record.warnings.push(Warning {
            code: "not-identical".to_owned(),
            message: format!("no two of {count} guests recorded the same"),
            advice: "take the figures as those of real time; leave the machine alone meanwhile"
                .to_owned(),
        });
    }
}

/// Adds what befell other guests that were made for a record, and where those parted from it that recorded
/// something else.
pub(super) fn add_warnings(record: &mut TrialRecord, others: &[TrialRecord]) {
    for warning in others.iter().flat_map(|other| &other.warnings) {
        if !record.warnings.contains(warning) {
            record.warnings.push(warning.clone());
        }
    }
    let partings = others.iter().filter_map(|other| difference::parting(record, other));
    let differed: Vec<Warning> = partings.map(|parting| guest_differed(&parting)).collect();
    record.warnings.extend(differed);
}

/// The warning that one guest of a trial recorded something else than two others, with where it parted from them.
fn guest_differed(parting: &Change) -> Warning {
    let Change { of, name, was, is } = parting;
    Warning {
        code: GUEST_DIFFERED.to_owned(),
        message: format!(
            "two guests recorded the same, another did not ({of}: {name} is {was}, there {is})"
        ),
        advice: "the figures are those of the two; report what set the other apart: nothing should"
            .to_owned(),
    }
}

/// XXH3 of what is kept as JSON.
pub(super) fn hash(value: &impl Serialize) -> String {
    fsdyno_guest::hash(&serde_json::to_vec(value).unwrap_or_default())
}

/// Completes the record of a guest, which took `wall` of the host's time, by what it was not told.
pub(super) fn receive(
    record: &mut TrialRecord,
    errand_hash: String,
    wall: Duration,
    plan: &Plan,
    planned: &Planned,
) {
    let record_hash = hash(&(&*record, &record.activity));
    let wall_ns = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
    let virtual_ns = record.elapsed_ns.unwrap_or(0);
    record.virtual_time =
        Some(VirtualTime { errand_hash, record_hash, guests: 1, virtual_ns, wall_ns });
    let own = planned.record(plan, record.outcome.clone());
    (record.target, record.workload, record.order) = (own.target, own.workload, own.order);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_recorded_something_else_is_told_of() {
        let record = |hash: &str, mount_ns| {
            let mut record = TrialRecord::planned("ext4", "postmark", 1, 0, Outcome::Completed);
            let record_hash = hash.to_owned();
            record.virtual_time = Some(VirtualTime { record_hash, ..VirtualTime::default() });
            record.stages.mount_ns = Some(mount_ns);
            record
        };
        let mut agreed = record("a", 7);
        add_warnings(&mut agreed, &[record("b", 8), record("a", 7)]);
        let [warning] = &agreed.warnings[..] else { panic!("{:?}", agreed.warnings) };
        assert_eq!(warning.code, GUEST_DIFFERED);
        let place = "(before the workload: mount_ns is 7, there 8)";
        assert!(warning.message.contains(place), "{}", warning.message);
    }
}
