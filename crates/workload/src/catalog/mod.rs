//! The catalogue of workloads: one file each, one explicit list. Command-line help, documentation and
//! the check of plans are made from it, and one test walks it.

pub mod bonnie;
pub mod command;
pub mod compilebench;
pub mod dbench;
pub mod fileio;
pub mod fs_mark;
pub mod kernel_source;
pub mod mdtest;
pub mod million_files;
pub mod package_install;
pub mod postgres;
pub mod postmark;
pub mod random_io;
pub mod read_speed;
pub mod small_files;
pub mod sqlite;
pub mod web_cache;

use std::sync::LazyLock;

use fsdyno_model::diagnostic::Diagnostic;
use fsdyno_model::info::WorkloadInfo;
use fsdyno_model::param::{Params, unknown};

use crate::context::Context;
use crate::engine;
use crate::engine::data::DataWorkload;

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
    /// Bytes of what it makes and keeps in the cache directory to read it while it is timed; `None` where there
    /// is nothing of the kind.
    pub input_bytes: Option<fn(&Params) -> u64>,
    /// Runs it: every phase that finishes is handed to the context.
    pub run: fn(&mut Context<'_>) -> anyhow::Result<()>,
    /// The loads that `calibrate=true` climbs, each heavier than the one before, with `calibrate=false`;
    /// `None` where the workload has no such parameter.
    pub rungs: Option<fn(&Params) -> Vec<Params>>,
    /// The operations that it would do, without doing them; `None` where that has no interest.
    pub dry_run: Option<fn(&Params, seed: u64) -> anyhow::Result<DryRun>>,
}

/// The workloads of the list that are texts for the engine.
static DATA: &[&str] = &[
    include_str!("../../../../workloads/boot.toml"),
    include_str!("../../../../workloads/fileserver.toml"),
    include_str!("../../../../workloads/many-clients.toml"),
    include_str!("../../../../workloads/oltp.toml"),
    include_str!("../../../../workloads/varmail.toml"),
    include_str!("../../../../workloads/webproxy.toml"),
    include_str!("../../../../workloads/webserver.toml"),
];

/// The workloads of the list that are code.
pub static ALL: &[&WorkloadDef] = &[
    &bonnie::DEF,
    &command::DEF,
    &compilebench::DEF,
    &fileio::DEF,
    &fs_mark::DEF,
    &dbench::DEF,
    &kernel_source::DEF,
    &mdtest::DEF,
    &million_files::DEF,
    &package_install::DEF,
    &postgres::DEF,
    &postmark::DEF,
    &random_io::DEF,
    &read_speed::DEF,
    &small_files::DEF,
    &sqlite::DEF,
    &web_cache::DEF,
];

/// A workload, whether its work is code or a text for the engine.
#[derive(Debug, Clone, Copy)]
pub enum Workload {
    /// Code.
    Code(&'static WorkloadDef),
    /// A text.
    Data(&'static DataWorkload),
}

impl Workload {
    /// What is known of it without running it.
    #[must_use]
    pub fn info(&self) -> &'static WorkloadInfo {
        match self {
            Workload::Code(def) => &def.info,
            Workload::Data(data) => &data.info,
        }
    }

    /// The text that defines it; `None` for code.
    #[must_use]
    pub fn text(&self) -> Option<&'static str> {
        match self {
            Workload::Code(_) => None,
            Workload::Data(data) => Some(&data.text),
        }
    }

    /// As [`WorkloadDef::check`].
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self, params: &Params) -> Result<(), String> {
        match self {
            Workload::Code(def) => (def.check)(params),
            Workload::Data(data) => data.definition(params).map(drop).map_err(sentence),
        }
    }

    /// As [`WorkloadDef::peak_bytes`].
    ///
    /// # Errors
    /// The parameters do not fit.
    pub fn peak_bytes(&self, params: &Params) -> anyhow::Result<Option<u64>> {
        match self {
            Workload::Code(def) => (def.peak_bytes)(params),
            Workload::Data(data) => data.peak_bytes(params).map_err(anyhow::Error::msg),
        }
    }

    /// As [`WorkloadDef::input_bytes`]; 0 where there is none.
    #[must_use]
    pub fn input_bytes(&self, params: &Params) -> u64 {
        match self {
            Workload::Code(def) => def.input_bytes.map_or(0, |bytes| bytes(params)),
            Workload::Data(_) => 0,
        }
    }

    /// As [`WorkloadDef::run`].
    ///
    /// # Errors
    /// What failed.
    pub fn run(&self, context: &mut Context<'_>) -> anyhow::Result<()> {
        match self {
            Workload::Code(def) => (def.run)(context),
            Workload::Data(data) => {
                let definition = data.definition(context.params).map_err(sentence);
                engine::run::run(context, &definition.map_err(anyhow::Error::msg)?)
            }
        }
    }

    /// As [`WorkloadDef::rungs`].
    #[must_use]
    pub fn rungs(&self) -> Option<fn(&Params) -> Vec<Params>> {
        match self {
            Workload::Code(def) => def.rungs,
            Workload::Data(_) => None,
        }
    }

    /// As [`WorkloadDef::dry_run`].
    #[must_use]
    pub fn dry_run(&self) -> Option<fn(&Params, seed: u64) -> anyhow::Result<DryRun>> {
        match self {
            Workload::Code(def) => def.dry_run,
            Workload::Data(_) => None,
        }
    }
}

fn sentence(diagnostics: Vec<Diagnostic>) -> String {
    let messages: Vec<String> = diagnostics.into_iter().map(|one| one.message).collect();
    messages.join("; ")
}

/// Every workload, sorted by name.
///
/// # Panics
/// When a shipped text is wrong: a bug, which the test of the catalogue finds.
pub fn all() -> &'static [Workload] {
    static SORTED: LazyLock<Vec<Workload>> = LazyLock::new(|| {
        let data = DATA.iter().map(|text| {
            let loaded = DataWorkload::load(text);
            Workload::Data(loaded.unwrap_or_else(|errors| panic!("{}", sentence(errors))))
        });
        let mut all: Vec<Workload> =
            ALL.iter().map(|def| Workload::Code(def)).chain(data).collect();
        all.sort_by_key(|workload| workload.info().name);
        all
    });
    &SORTED
}

/// What is known of every workload, sorted by name.
#[must_use]
pub fn infos() -> Vec<&'static WorkloadInfo> {
    all().iter().map(Workload::info).collect()
}

/// The workload called `name`.
///
/// # Errors
/// A sentence with the nearest name.
pub fn find(name: &str) -> Result<Workload, String> {
    all().iter().copied().find(|workload| workload.info().name == name).ok_or_else(|| {
        let known: Vec<&str> = all().iter().map(|workload| workload.info().name).collect();
        unknown("workload", name, &known)
    })
}

/// The workload that `definition` defines where there is one, else the one called `name`.
///
/// # Errors
/// A sentence: no such workload, or what is wrong with the text.
pub fn resolve(name: &str, definition: Option<&str>) -> Result<Workload, String> {
    match definition {
        None => find(name),
        Some(text) => DataWorkload::load(text).map(Workload::Data).map_err(sentence),
    }
}

/// The operations that a workload would do with `params`, one a line.
///
/// # Errors
/// Its parameters do not fit, or it does not tell.
pub fn dry_run(workload: Workload, params: &Params, seed: u64) -> anyhow::Result<DryRun> {
    params.conform(workload.info().params).map_err(|error| anyhow::anyhow!(error))?;
    match workload.dry_run() {
        Some(dry_run) => dry_run(params, seed),
        None => {
            workload.check(params).map_err(|error| anyhow::anyhow!(error))?;
            Ok(Box::new(workload.info().phases.iter().map(|phase| phase.name.to_owned())))
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
        for workload in all() {
            let info = workload.info();
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
                assert_eq!(
                    params.conform(info.params).and_then(|()| workload.check(&params)),
                    Ok(())
                );
                assert_ne!(workload.peak_bytes(&params).unwrap(), Some(0), "{name}");
                assert!(dry_run(*workload, &params, 1).unwrap().next().is_some(), "{name}");
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
        assert!(find("nothing").is_err());
        assert!(dry_run(find("compilebench").unwrap(), &Params::default(), 1).is_err());
    }
}
