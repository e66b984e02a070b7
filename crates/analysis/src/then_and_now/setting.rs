//! On what a published comparison was repeated: machine, clock, disk, and how much data there was for how much
//! memory, which decides what a cache could hold.

use fsdyno_model::environment::Environment;
use fsdyno_model::place::{Clock, Where};
use fsdyno_model::plan::Plan;
use fsdyno_model::published::Published;
use fsdyno_model::record::TrialRecord;
use fsdyno_model::target::{DeviceSpec, FreshSpec, Ground};
use fsdyno_model::units::{human_bytes, significant};
use fsdyno_model::words::listed;

const MIB: u64 = 1 << 20;

/// The machine of then whose disk is emulated, where it has a name among several.
pub(super) fn machine(plan: &Plan, published: &Published) -> Option<String> {
    let is_emulated = devices(plan).iter().any(|it| matches!(it, DeviceSpec::Emulated { .. }));
    let machine = published.machines.first().filter(|it| is_emulated && !it.name.is_empty())?;
    Some(machine.name.clone())
}

/// Sentences about it.
pub(super) fn words(
    plan: &Plan,
    published: &Published,
    trials: &[TrialRecord],
    environment: &Environment,
) -> Vec<String> {
    let mut words = vec![place(plan, published, environment)];
    words.extend(regime(published, trials, environment));
    words
}

/// `Now: Linux 6.1.0, in virtual time, on an emulated disk (hdd-7200-2007)`.
fn place(plan: &Plan, published: &Published, environment: &Environment) -> String {
    let release = environment.kernel_release.as_deref().unwrap_or("of some release");
    let measured = match (environment.measured.place, environment.measured.clock) {
        (_, Clock::Virtual) => "in virtual time",
        (Where::Guest, Clock::Real) => "in guests, in real time",
        (Where::Uml, Clock::Real) => "in User-Mode Linux, in real time",
        (Where::Host, Clock::Real) => "on this machine, in real time",
    };
    let mut kinds: Vec<String> = Vec::new();
    for device in devices(plan) {
        let kind = match device {
            DeviceSpec::Emulated { model, .. } => format!("an emulated disk ({model})"),
            DeviceSpec::LoopImage { .. } if environment.measured.place != Where::Host => {
                "disks of guests, without latency".to_owned()
            }
            DeviceSpec::LoopImage { .. } => "images".to_owned(),
            other => other.to_string(),
        };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    let machine = machine(plan, published).map_or(String::new(), |name| format!(" of the {name}"));
    format!("Now: Linux {release}, {measured}, on {}{machine}.", listed(&kinds))
}

fn devices(plan: &Plan) -> Vec<&DeviceSpec> {
    let fresh = plan.targets.iter().filter_map(|target| match &target.ground {
        Ground::Fresh(fresh) => Some(fresh),
        Ground::Directory { .. } => None,
    });
    fresh.flat_map(FreshSpec::leaves).collect()
}

/// How many times as much data as memory there was; `None` where nothing was written, or memory is not known.
fn regime(
    published: &Published,
    trials: &[TrialRecord],
    environment: &Environment,
) -> Option<String> {
    let written = |trial: &TrialRecord| {
        let of_phase = trial.phases.iter().map(|it| it.bytes.saturating_sub(it.read_bytes));
        of_phase.max().unwrap_or(0)
    };
    let data = trials.iter().map(written).max().filter(|bytes| *bytes > 0)?;
    let memory = environment.usable_memory_bytes()?.max(1);
    let machine = published.machines.first()?;
    let (now, then) = (data as f64 / memory as f64, published.data_per_memory()?);
    let assumed = match &machine.memory_assumed {
        Some(why) => format!(" ({})", why.trim_end_matches('.')),
        None => String::new(),
    };
    let judged = match published.is_regime(now)? {
        true => "the same regime",
        false if now < then => "more of the data than then fit into memory",
        false => "less of the data than then fit into memory",
    };
    Some(format!(
        "Data and memory: a phase wrote up to {}, {} times the memory of {}; then {}, {} times {}{assumed}: {judged}.",
        human_bytes(data),
        significant(now),
        human_bytes(memory),
        human_bytes(machine.data_mib * MIB),
        significant(then),
        human_bytes(machine.memory_mib * MIB),
    ))
}

#[cfg(test)]
mod tests {
    use fsdyno_model::published::Machine;
    use fsdyno_model::record::PhaseRecord;

    use super::*;
    use crate::fixture;

    #[test]
    fn data_and_memory_are_measured() {
        let machine = Machine {
            name: String::new(),
            disk: "ram".to_owned(),
            journal_disk: None,
            data_mib: 16 << 10,
            memory_mib: 8 << 10,
            memory_assumed: None,
        };
        let published = Published {
            name: "a".to_owned(),
            scale: fsdyno_model::published::Scale::Smoke,
            source: "b".to_owned(),
            year: 2008,
            kernel: "2.6".to_owned(),
            hardware: "c".to_owned(),
            machines: vec![machine],
            differences: Vec::new(),
            missed: Vec::new(),
            figures: Vec::new(),
        };
        let mut trial = fixture::trial("ext4", 1, &[]);
        trial.phases.push(PhaseRecord {
            bytes: 600 * MIB,
            read_bytes: 88 * MIB,
            ..PhaseRecord::new("rewrite", "write_mib_per_s")
        });
        let told = |memory_mib: u64| {
            let environment =
                Environment { memory_bytes: Some(memory_mib * MIB), ..Environment::default() };
            regime(&published, &[trial.clone()], &environment).unwrap()
        };
        let same = told(256);
        assert!(same.contains("512 MiB, 2.00 times the memory of 256 MiB"), "{same}");
        assert!(same.contains("then 16.0 GiB, 2.00 times 8.00 GiB: the same regime"), "{same}");
        assert!(told(1024).contains("more of the data than then"), "{}", told(1024));
        assert!(told(64).contains("less of the data than then"), "{}", told(64));
        assert_eq!(regime(&published, &[], &Environment::default()), None);
    }
}
