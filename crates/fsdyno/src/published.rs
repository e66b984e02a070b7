//! The published comparisons that come with the program. What their texts mean is left to the model.

use std::path::Path;

use fsdyno_model::place::Clock;
use fsdyno_model::plan::Plan;
use fsdyno_model::published::{self, Published, Scale};
use fsdyno_model::target::{DeviceSpec, Ground};

use crate::{bad_input, catalogue};

/// Name and text of each, in the order in which they are listed.
pub const ALL: &[(&str, &str)] = &[
    (
        "btrfs-wiki-2007-create",
        include_str!("../../../plans/published/btrfs-wiki-2007-create.toml"),
    ),
    (
        "btrfs-wiki-2007-compilebench",
        include_str!("../../../plans/published/btrfs-wiki-2007-compilebench.toml"),
    ),
    (
        "btrfs-wiki-2007-million",
        include_str!("../../../plans/published/btrfs-wiki-2007-million.toml"),
    ),
    ("bonnie-raid1-2008", include_str!("../../../plans/published/bonnie-raid1-2008.toml")),
    ("four-filesystems-2011", include_str!("../../../plans/published/four-filesystems-2011.toml")),
    (
        "desktop-and-laptop-2010",
        include_str!("../../../plans/published/desktop-and-laptop-2010.toml"),
    ),
    ("web-cache-2003", include_str!("../../../plans/published/web-cache-2003.toml")),
];

/// The text of the plan called `name`.
///
/// # Errors
/// Bad input: there is none of this name.
pub fn text(name: &str) -> anyhow::Result<&'static str> {
    let found = ALL.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text).ok_or_else(|| {
        let known: Vec<&str> = ALL.iter().map(|(known, _)| *known).collect();
        bad_input(format!(
            "there is no published comparison `{name}`: there are {}",
            known.join(", ")
        ))
    })
}

/// The plan called `name` at a scale, on no disk yet.
fn plan(name: &str, scale: Scale, clock: Clock) -> anyhow::Result<Plan> {
    let text = text(name)?;
    let parsed = catalogue::with_names(|names| published::parse(text, name, scale, clock, names));
    parsed.map_err(bad_input)
}

/// A plan on this machine, by its clock: on images, or on `device`.
///
/// # Errors
/// Bad input: there is none of this name.
pub fn on_host(name: &str, scale: Scale, device: Option<&Path>) -> anyhow::Result<Plan> {
    let mut plan = plan(name, scale, Clock::Real)?;
    for target in &mut plan.targets {
        if let (Ground::Fresh(fresh), Some(path)) = (&mut target.ground, device) {
            fresh.device = DeviceSpec::Block { path: path.to_owned() };
        }
    }
    Ok(plan)
}

/// The plan on the emulated disk of each of its machines, or of the one that is named, in virtual time.
///
/// # Errors
/// Bad input: there is no comparison, or no machine, of this name.
pub fn on_machines(name: &str, scale: Scale, named: Option<&str>) -> anyhow::Result<Vec<Plan>> {
    let plan = plan(name, scale, Clock::Virtual)?;
    let all: &[_] = plan.published.as_ref().map_or(&[], |published| &published.machines);
    let is_asked = |name: &str| named.is_none_or(|named| named == name);
    let asked: Vec<_> = all.iter().filter(|machine| is_asked(&machine.name)).collect();
    if let (Some(named), true) = (named, asked.is_empty()) {
        let known: Vec<&str> = all.iter().map(|machine| machine.name.as_str()).collect();
        let known = match &known[..] {
            [] | [""] => "it has one alone, without a name: leave out --machine".to_owned(),
            known => format!("there are {}", known.join(", ")),
        };
        return Err(bad_input(format!("there is no machine `{named}`: {known}")));
    }
    let plans = asked.into_iter().map(|machine| {
        let mut own = plan.clone();
        published::put_on(&mut own, machine);
        if !machine.name.is_empty() {
            own.title = own.title.map(|title| format!("{title}: {}", machine.name));
        }
        own
    });
    Ok(plans.collect())
}

/// Each with its plan at `scale`, for lists.
///
/// # Errors
/// None that the texts of this program have; a test reads them all.
pub fn plans(scale: Scale) -> anyhow::Result<Vec<(&'static str, Plan, Published)>> {
    let read = |(name, _): &(&'static str, &str)| {
        let plan = plan(name, scale, Clock::Real)?;
        let published = plan.published.clone();
        Ok(published.map(|published| (*name, plan, published)))
    };
    ALL.iter().filter_map(|entry| read(entry).transpose()).collect()
}

#[cfg(test)]
mod tests {
    use fsdyno_model::metric;
    use fsdyno_model::published::WHOLE;

    use super::*;
    use crate::plan_file;

    #[test]
    fn every_plan_can_be_read_at_every_scale() {
        for scale in Scale::ALL {
            let plans = plans(scale).unwrap();
            assert_eq!(plans.len(), ALL.len());
            for (name, plan, published) in plans {
                assert_eq!(plan_file::workload_errors(&plan), Vec::<String>::new(), "{name}");
                assert!(!plan.targets.is_empty() && !published.figures.is_empty(), "{name}");
                assert!(!published.missed.is_empty(), "{name}");
            }
        }
        assert!(on_host("btrfs", Scale::Day, None).is_err());
    }

    /// Every plan can be made in virtual time and on the host; guests have memory after the rule, which keeps
    /// the quotient of data and memory of then, as long as that leaves them the least that they need.
    #[test]
    fn every_plan_names_its_machines() {
        for scale in Scale::ALL {
            for (name, text) in ALL {
                let machines = on_machines(name, scale, None).unwrap();
                assert_eq!(machines.len(), text.matches("[[published.machine]]").count(), "{name}");
                for machine in machines {
                    assert!(machine.place.is_virtual() && machine.place.errors().is_empty());
                    assert_eq!(machine.trials, 1, "{name}");
                    assert!(machine.clone().finish().is_ok(), "{name}");
                    let devices = machine.targets.iter().flat_map(|target| match &target.ground {
                        Ground::Fresh(fresh) => fresh.leaves().collect(),
                        Ground::Directory { .. } => Vec::new(),
                    });
                    for device in devices {
                        let DeviceSpec::Emulated { model, .. } = device else { panic!("{name}") };
                        assert!(fsdyno_disk::shipped::text(model).is_ok(), "{name}: {model}");
                    }
                }
                let host = on_host(name, scale, None).unwrap();
                assert!(!host.place.is_guest() && host.yardstick, "{name}");
            }
        }
        let of = |name: &str, machine| on_machines(name, Scale::Smoke, Some(machine));
        let laptop = of("desktop-and-laptop-2010", "laptop").unwrap();
        assert_eq!(laptop.len(), 1);
        assert!(laptop[0].title.as_ref().unwrap().ends_with("laptop"), "{:?}", laptop[0].title);
        let error = of("desktop-and-laptop-2010", "server").unwrap_err().to_string();
        assert!(error.contains("desktop, laptop"), "{error}");
        assert!(of("web-cache-2003", "server").is_err());
    }

    /// Every published row has a phase that does it again, or says why there is none.
    #[test]
    fn every_row_has_its_phase() {
        for (name, plan, published) in plans(Scale::Full).unwrap() {
            for figure in &published.figures {
                let row = format!("{name}: {}", figure.operation);
                assert_eq!(figure.phase.is_none(), figure.missing.is_some(), "{row}");
                let Some(phase) = &figure.phase else { continue };
                // Loads that are raised have rungs only once the plan is made ready.
                let own = figure.workload.as_deref().and_then(|own| own.split(" rung ").next());
                let is_own =
                    |label: &str| own.map_or(plan.workloads.len() == 1, |own| own == label);
                let workload = plan.workloads.iter().find(|it| is_own(&it.label)).expect(&row);
                let info = catalogue::workload(workload).unwrap();
                let is_known = ["fsck", WHOLE].contains(&phase.as_str())
                    || info.info().phases.iter().any(|known| known.name == phase.as_str());
                assert!(is_known, "{row}: no phase {phase}");
                let metric = figure.metric.as_deref();
                assert!(
                    metric.is_none_or(|name| metric::find(name).is_some()),
                    "{row}: {metric:?}"
                );
                for target in &plan.targets {
                    let is_asked = figure.cells.contains_key(&target.label);
                    assert!(
                        is_asked || target.label.contains("with barriers") || figure.unit == "rank",
                        "{row}: {}",
                        target.label
                    );
                }
                if let Some(amount) = &figure.amount {
                    assert!(
                        workload.params.iter().any(|(name, _)| *name == amount.parameter),
                        "{row}"
                    );
                }
            }
        }
    }
}
