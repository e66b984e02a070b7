//! The catalogue of workloads: one file each, one explicit list. Command-line help, documentation and
//! the check of plans are made from it, and one test walks it.

pub mod bonnie;
pub mod command;
pub mod compilebench;
pub mod kernel_source;
pub mod million_files;
pub mod package_install;
pub mod postmark;
pub mod read_speed;
pub mod small_files;
pub mod web_cache;

use fsdyno_model::info::WorkloadInfo;
use fsdyno_model::param::{Params, unknown};

use crate::context::Context;

/// Operations of a dry run, one a line.
pub type DryRun = Box<dyn Iterator<Item = String>>;

/// A workload with the code behind it.
#[derive(Debug)]
pub struct WorkloadDef {
    /// What is known of it without running it.
    pub info: WorkloadInfo,
    /// Checks parameters against each other, each alone was checked before, and reads the files that
    /// they name. To be called before anything is started: `run`, `peak_bytes` and `dry_run` find the
    /// same faults when they come to them.
    pub check: fn(&Params) -> Result<(), String>,
    /// Upper estimate of the bytes of files and directories, each rounded up to 4 KiB, that are on the
    /// target at once; `None` where none can be made. What the filesystem takes for itself is left out.
    pub peak_bytes: fn(&Params) -> anyhow::Result<Option<u64>>,
    /// Runs it: every phase that finishes is handed to the context.
    pub run: fn(&mut Context<'_>) -> anyhow::Result<()>,
    /// The loads that `calibrate=true` climbs, each heavier than the one before, with `calibrate=false`;
    /// `None` where the workload has no such parameter.
    pub rungs: Option<fn(&Params) -> Vec<Params>>,
    /// The operations that it would do, without doing them; `None` where that has no interest.
    pub dry_run: Option<fn(&Params, seed: u64) -> anyhow::Result<DryRun>>,
}

/// The list.
pub static ALL: &[&WorkloadDef] = &[
    &bonnie::DEF,
    &command::DEF,
    &compilebench::DEF,
    &kernel_source::DEF,
    &million_files::DEF,
    &package_install::DEF,
    &postmark::DEF,
    &read_speed::DEF,
    &small_files::DEF,
    &web_cache::DEF,
];

/// What is known of every workload, in the order of the list.
#[must_use]
pub fn infos() -> Vec<&'static WorkloadInfo> {
    ALL.iter().map(|workload| &workload.info).collect()
}

/// The workload called `name`.
///
/// # Errors
/// A sentence with the nearest name.
pub fn find(name: &str) -> Result<&'static WorkloadDef, String> {
    ALL.iter().copied().find(|workload| workload.info.name == name).ok_or_else(|| {
        let known: Vec<&str> = ALL.iter().map(|workload| workload.info.name).collect();
        unknown("workload", name, &known)
    })
}

/// The operations that the workload `kind` would do with `params`, one a line.
///
/// # Errors
/// There is no such workload, its parameters do not fit, or it does not tell.
pub fn dry_run(kind: &str, params: &Params, seed: u64) -> anyhow::Result<DryRun> {
    let workload = find(kind).map_err(|error| anyhow::anyhow!(error))?;
    params.conform(workload.info.params).map_err(|error| anyhow::anyhow!(error))?;
    match workload.dry_run {
        Some(dry_run) => dry_run(params, seed),
        None => {
            (workload.check)(params).map_err(|error| anyhow::anyhow!(error))?;
            Ok(Box::new(workload.info.phases.iter().map(|phase| phase.name.to_owned())))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn is_kebab_case(name: &str) -> bool {
        !name.is_empty()
            && name.split('-').all(|word| {
                !word.is_empty()
                    && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            })
    }

    #[test]
    fn every_entry_is_whole() {
        let mut names = BTreeSet::new();
        for WorkloadDef { info, check, peak_bytes, .. } in ALL {
            let name = info.name;
            assert!(is_kebab_case(name) && names.insert(name), "{name}");
            let doc = &info.doc;
            let texts =
                [info.summary, doc.timed, doc.not_timed, doc.models, doc.read_it_as, doc.caveats];
            assert!(texts.iter().all(|text| text.len() > 20), "{name}: documentation is missing");
            let mut phases = BTreeSet::new();
            for phase in info.phases {
                assert!(is_kebab_case(phase.name) && !phase.doc.is_empty(), "{name}");
                assert!(phases.insert(phase.name), "{name}: phase {} occurs twice", phase.name);
            }
            let mut params = BTreeSet::new();
            for param in info.params {
                let label = format!("{name}: {}", param.name);
                assert!(params.insert(param.name), "{label} occurs twice");
                assert!(!param.doc.is_empty() && !param.name.contains('-'), "{label}");
                param.parse(param.default).unwrap_or_else(|error| panic!("{label}: {error}"));
                if let Some(text) = param.quick {
                    param.parse(text).unwrap_or_else(|error| panic!("{label}: {error}"));
                }
            }
            assert!(params.contains("fragmentation"), "{name}");
            assert_eq!(info.phases.last().map(|phase| phase.name), Some("fragmentation"), "{name}");
            for quick in [false, true] {
                let params = Params::defaults(info.params, quick);
                assert_eq!(params.conform(info.params).and_then(|()| check(&params)), Ok(()));
                assert_ne!(peak_bytes(&params).unwrap(), Some(0), "{name}");
                assert!(dry_run(name, &params, 1).unwrap().next().is_some(), "{name}");
            }
        }
    }

    #[test]
    fn every_file_is_listed() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/catalog");
        let files: BTreeSet<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "mod.rs")
            .collect();
        let listed: BTreeSet<String> =
            ALL.iter().map(|it| format!("{}.rs", it.info.name.replace('-', "_"))).collect();
        assert_eq!(files, listed);
    }

    #[test]
    fn wrong_names_are_answered() {
        assert!(find("compile-bench").unwrap_err().contains("did you mean `compilebench`"));
        assert!(dry_run("nothing", &Params::default(), 1).is_err());
        assert!(dry_run("compilebench", &Params::default(), 1).is_err());
    }
}
