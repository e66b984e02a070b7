//! The whole result document out of a plan and the records of its trials. Reading records from a
//! store and knowing the machine is left to the caller.

use std::collections::BTreeMap;

use fsdyno_model::SCHEMA_VERSION;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{PhaseRecord, Role, TrialRecord, Warning};
use fsdyno_model::result::{PhaseResult, RunInfo, RunResult, TargetResult, TrialResult, Verdict};
use fsdyno_model::target::{Ground, TargetSpec};
use fsdyno_model::workload::WorkloadSpec;

use crate::audit;
use crate::calibration;
use crate::interval;
use crate::percentile;
use crate::series::WorkloadOrder;
use crate::stopping::Looks;
use crate::summary;
use crate::then_and_now;
use crate::verdict;
use crate::yardstick;

/// Makes the result document of a run.
///
/// `phase_order` gives the phases of a kind of workload in the order in which tables show them;
/// `trials` are the records in any order. A latency histogram that cannot be read is left out and
/// becomes a warning of its trial.
#[must_use]
pub fn assemble(
    run: RunInfo,
    plan: &Plan,
    phase_order: &dyn Fn(&WorkloadSpec) -> Vec<&'static str>,
    trials: &[TrialRecord],
) -> RunResult {
    let labels: Vec<&str> = plan.targets.iter().map(|target| target.label.as_str()).collect();
    let orders: Vec<WorkloadOrder<'_>> = plan
        .workloads
        .iter()
        .map(|spec| WorkloadOrder { label: &spec.label, phases: phase_order(spec) })
        .collect();
    let mut in_order: Vec<&TrialRecord> = trials.iter().collect();
    in_order.sort_by_key(|trial| trial.order);
    // Figures of a traced trial explain; they count nowhere.
    let is_measured = |trial: &&TrialRecord| trial.role == Role::Measured;
    let measured: Vec<TrialRecord> = trials.iter().filter(is_measured).cloned().collect();
    let audit = audit::audit(plan, &run.environment, &measured);
    let mut told: Vec<TrialResult> = in_order.iter().map(|trial| trial_result(trial)).collect();
    let mut run = run;
    run.warnings.extend(yardstick::mark(&mut told));
    RunResult {
        schema_version: SCHEMA_VERSION,
        audit,
        then_and_now: then_and_now::then_and_now(plan, &orders, &measured, &run.environment),
        run,
        targets: plan.targets.iter().map(|target| target_result(target, &in_order)).collect(),
        workloads: plan.workloads.clone(),
        summary: summary::summarize(&labels, &orders, &measured, &Looks::of(plan)),
        verdicts: verdicts(plan, &labels, &orders, &measured),
        trials: told,
        power_cuts: Vec::new(),
    }
}

/// The verdict of each workload. Of a ladder it is that of the search, under the label of the workload
/// that was asked for, and before it that of its last rung where the search found what it looked for.
fn verdicts(
    plan: &Plan,
    labels: &[&str],
    orders: &[WorkloadOrder<'_>],
    trials: &[TrialRecord],
) -> Vec<Verdict> {
    let of_each = verdict::verdicts(labels, orders, trials, &Looks::of(plan));
    let mut told = Vec::new();
    for (index, verdict) in of_each.into_iter().enumerate() {
        let Some((ladder, rung_index)) = plan.ladder_of(index) else {
            told.push(verdict);
            continue;
        };
        if rung_index + 1 == calibration::tried_count(plan, ladder, trials) {
            let is_undecided = calibration::is_undecided(plan, ladder, trials);
            told.extend((!is_undecided).then_some(verdict));
            let text = calibration::verdict(plan, ladder, trials);
            told.push(Verdict { workload: ladder.label.clone(), text });
        }
    }
    told
}

/// Median over the trials whose figures count of the time that the harness itself spends per operation, in
/// nanoseconds; `None` when no trial measured it.
#[must_use]
pub fn harness_floor_ns(trials: &[TrialResult]) -> Option<f64> {
    let measured = trials.iter().filter(|trial| trial.role == Role::Measured);
    let floors: Vec<f64> = measured.filter_map(|trial| trial.harness_floor_ns).collect();
    interval::median(&floors)
}

fn target_result(target: &TargetSpec, trials: &[&TrialRecord]) -> TargetResult {
    let own = || trials.iter().filter(|trial| trial.target == target.label);
    // One that was not even mounted still tells how mkfs was called.
    let facts = own()
        .find(|trial| trial.facts.mount_effective.is_some())
        .or_else(|| own().find(|trial| trial.facts.mkfs_command.is_some()))
        .or_else(|| own().find(|trial| !trial.facts.device.is_empty()))
        .map(|trial| trial.facts.clone())
        .unwrap_or_default();
    let (mkfs, mount_requested, device, journal) = match &target.ground {
        Ground::Fresh(fresh) => (
            fresh.mkfs.clone(),
            fresh.mount.clone(),
            fresh.device.to_string(),
            fresh.journal.as_ref().map(ToString::to_string),
        ),
        Ground::Directory { path } => (Vec::new(), String::new(), path.display().to_string(), None),
    };
    TargetResult {
        label: target.label.clone(),
        filesystem: target.filesystem().to_owned(),
        spec: target.to_string(),
        mkfs,
        mkfs_command: facts.mkfs_command,
        mkfs_effective: facts.mkfs_effective,
        mount_requested,
        mount_effective: facts.mount_effective,
        device,
        journal,
        device_facts: facts.device,
    }
}

pub(crate) fn trial_result(trial: &TrialRecord) -> TrialResult {
    let mut warnings = trial.warnings.clone();
    let phases = trial.phases.iter().map(|phase| phase_result(phase, &mut warnings)).collect();
    let started = trial.started_unix_ns.and_then(|ns| {
        jiff::Timestamp::from_nanosecond(i128::from(ns)).ok().map(|started| started.to_string())
    });
    TrialResult {
        target: trial.target.clone(),
        workload: trial.workload.clone(),
        trial: trial.trial,
        role: trial.role,
        order: trial.order,
        measured: trial.measured,
        virtual_time: trial.virtual_time.clone(),
        outcome: trial.outcome.clone(),
        started,
        elapsed_ns: trial.elapsed_ns,
        stages: trial.stages.clone(),
        aged: trial.aged.clone(),
        fsck: trial.fsck.clone(),
        verify: trial.verify.clone(),
        harness_floor_ns: trial.harness_floor_ns,
        yardstick: trial.yardstick.clone(),
        phases,
        trace: trial.trace.clone(),
        warnings,
    }
}

fn phase_result(phase: &PhaseRecord, warnings: &mut Vec<Warning>) -> PhaseResult {
    let mut latency_ns = BTreeMap::new();
    for (kind, histogram) in &phase.latency {
        match percentile::percentiles(histogram) {
            Ok(percentiles) => {
                latency_ns.insert(kind.clone(), percentiles);
            }
            Err(error) => warnings.push(Warning {
                code: "histogram-unreadable".to_owned(),
                message: format!("the latencies of {kind} in {} are left out: {error}", phase.name),
                advice: "check the disk that holds the results; the other numbers stand".to_owned(),
            }),
        }
    }
    PhaseResult {
        name: phase.name.clone(),
        primary_metric: phase.primary_metric.clone(),
        elapsed_return_ns: phase.elapsed_return_ns,
        elapsed_durable_ns: phase.elapsed_durable_ns,
        operations: phase.operation_count(),
        operations_by_kind: phase.operations.clone(),
        files: phase.files,
        bytes: phase.bytes,
        read_bytes: phase.read_bytes,
        cold: phase.cold,
        values: phase.values.clone(),
        cpu: phase.cpu.clone(),
        device: phase.device.clone(),
        latency_ns,
        samples: phase.samples.clone(),
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_model::environment::Environment;
    use fsdyno_model::info::{FilesystemInfo, Names};
    use fsdyno_model::outcome::Outcome;
    use fsdyno_model::param::Params;
    use fsdyno_model::record::LatencyHistogram;
    use fsdyno_model::workload::WorkloadSpec;

    use super::*;
    use crate::fixture;

    const XFS: FilesystemInfo =
        FilesystemInfo { name: "xfs", summary: "", external_journal: Some("log") };

    fn run() -> RunInfo {
        RunInfo {
            id: "1".to_owned(),
            title: None,
            started: String::new(),
            finished: None,
            command: String::new(),
            trials: 1,
            stopped: None,
            seed: 1,
            size_bytes: 1,
            environment: Environment::default(),
            warnings: Vec::new(),
        }
    }

    fn plan() -> Plan {
        let names = Names {
            workloads: &[],
            filesystems: &[&XFS],
            load_workload: fsdyno_model::info::no_files,
        };
        let mut plan = Plan::new(false);
        plan.targets = ["x=xfs+log/-d agcount=1:logbsize=256k", "dir:/srv"]
            .map(|text| TargetSpec::parse(text, &names).unwrap())
            .to_vec();
        plan.workloads = vec![WorkloadSpec {
            definition: None,
            label: fixture::WORKLOAD.to_owned(),
            kind: "compilebench".to_owned(),
            params: Params::default(),
        }];
        plan
    }

    #[test]
    fn the_last_rung_has_a_verdict_where_it_told_targets_apart() {
        let mut plan = plan();
        plan.ladders.push(fsdyno_model::ladder::Ladder {
            label: "search".to_owned(),
            first_index: 0,
            rung_count: 1,
            phase: "transactions".to_owned(),
            budget_s: 60,
        });
        plan.trials = 3;
        for (seconds, labels) in [(1.0, &["search"][..]), (2.0, &[fixture::WORKLOAD, "search"])] {
            let mut trials = Vec::new();
            for trial in 1..=3 {
                let noise = 1.0 + f64::from(trial) / 100.0;
                // A phase that the search does not look at always tells them apart.
                let own = [("transactions", 1.0), ("delete", 1.0)];
                let other = [("transactions", seconds * noise), ("delete", 9.0 * noise)];
                trials.push(fixture::trial("x", trial, &own));
                trials.push(fixture::trial("dir:/srv", trial, &other));
            }
            if seconds == 1.0 {
                // Ahead now and then.
                trials[3].phases[0].elapsed_return_ns = 900_000_000;
            }
            let result = assemble(run(), &plan, &|_| vec!["transactions", "delete"], &trials);
            let told: Vec<&str> =
                result.verdicts.iter().map(|verdict| verdict.workload.as_str()).collect();
            assert_eq!(told, labels, "{:?}", result.verdicts);
        }
    }

    #[test]
    fn a_document_holds_every_planned_trial_in_the_order_of_execution() {
        let mut first = fixture::trial("x", 2, &[("create", 1.0)]);
        first.started_unix_ns = Some(1_500_000_000_000_000_000);
        first.harness_floor_ns = Some(200.0);
        first.phases[0].latency.insert("write".to_owned(), fixture::histogram(1..=10));
        first.phases[0].latency.insert("open".to_owned(), LatencyHistogram(vec![1]));
        let mut second = first.clone();
        (second.trial, second.order, second.harness_floor_ns) = (1, 7, Some(300.0));
        second.facts.mount_effective = Some("rw".to_owned());
        let skipped = Outcome::Skipped { reason: "no directory".to_owned() };
        let third = TrialRecord::planned("dir:/srv", fixture::WORKLOAD, 1, 9, skipped.clone());

        let result =
            assemble(run(), &plan(), &|_| vec!["create"], &[third, second.clone(), first.clone()]);
        let orders: Vec<u32> = result.trials.iter().map(|trial| trial.order).collect();
        assert_eq!(orders, [2, 7, 9]);
        assert_eq!(result.trials[2].outcome, skipped);
        assert_eq!(result.trials[0].started.as_deref(), Some("2017-07-14T02:40:00Z"));
        assert_eq!(harness_floor_ns(&result.trials), Some(250.0));

        let phase = &result.trials[0].phases[0];
        assert_eq!(phase.latency_ns.keys().collect::<Vec<_>>(), ["write"]);
        assert_eq!(result.trials[0].warnings[0].code, "histogram-unreadable");

        let target = &result.targets[0];
        assert_eq!(target.mount_effective.as_deref(), Some("rw"));
        assert_eq!(target.mkfs, ["-d", "agcount=1"]);
        assert_eq!(target.mount_requested, "logbsize=256k");
        assert_eq!(target.journal.as_deref(), Some("loop"));
        assert_eq!(
            (result.targets[1].filesystem.as_str(), result.targets[1].device.as_str()),
            ("dir", "/srv")
        );
        assert!(result.summary.iter().all(|row| row.target == "x" && row.n == 2));
        assert_eq!(result.verdicts.len(), 1);
    }
}
