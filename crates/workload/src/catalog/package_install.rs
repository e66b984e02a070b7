//! The workload `package-install`: its definition, its parameters and its phases. The model, its
//! installation and real packages are in [`crate::package_install`].

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use fsdyno_model::cold::Cold;
use fsdyno_model::info::{PhaseInfo, WorkloadDoc, WorkloadInfo};
use fsdyno_model::param::{ParamDef, Params};
use fsdyno_model::payload::Payload;
use fsdyno_model::wire::{Manifest, ManifestFile};
use fsdyno_sys::calls::{Calls, Real};

use super::WorkloadDef;
use crate::contents::{MANIFEST_FILES, PayloadBuffer, Reservoir};
use crate::context::Context;
use crate::failure::{call_failed, check_interrupt};
use crate::fragmentation;
use crate::package_install::debs;
use crate::package_install::list::{Installed, list};
use crate::package_install::model::{EntryKind, Model};
use crate::package_install::unpack::{FsyncPolicy, Installer, WRITE_BYTES};
use crate::params::{FRAGMENTATION, PAYLOAD, SYNC, choice, cold, count, path};
use crate::phase::{Durability, PhaseTally};
use crate::recorder::Recorder;

const MODEL: &str = "model";
const METRIC: &str = "elapsed_s";
/// Directories on the target where real packages are used.
const PACKAGES: &str = "packages";
const ROOT: &str = "root";

const PARAMS: &[ParamDef] = &[
    path(
        "packages",
        MODEL,
        "`model`, or a directory of .deb files, which dpkg installs into a root on the target \
         without running their maintainer scripts",
    ),
    count("count", (1, 10_000), ("200", Some("10")), "packages of the model"),
    count(
        "seed",
        (0, u64::MAX),
        ("1", None),
        "which of all possible systems the model is; the same number gives the same files",
    ),
    choice(
        "fsync",
        FsyncPolicy::WORDS,
        "package",
        "`package`: as dpkg, all files of a package are written, then each is synced and renamed; \
         `file`: each is synced and renamed when it is written; `database`: only the package \
         database is synced (dpkg --force-unsafe-io); `never`: nothing is",
    ),
    PAYLOAD,
    SYNC,
    cold("drop-caches", "how the caches are emptied before each phase"),
    FRAGMENTATION,
];

/// The catalogue entry.
pub static DEF: WorkloadDef = WorkloadDef {
    info: WorkloadInfo {
        name: "package-install",
        summary: "install the packages of a base system as a package manager does, then list every file",
        doc: WorkloadDoc {
            timed: "install: one sample over all packages, each in turn: its control files; every \
                    directory, file and link under a temporary name; fsync and rename; its list of \
                    files; an entry in the journal of states at each change (written, synced, \
                    renamed). Then each package is configured (three more entries), and the status \
                    file is written anew after every 250 entries and at the end. With packages=DIR one \
                    run of dpkg. list: read the list of every package and lstat each path in it. Each \
                    phase ends with syncfs on the target unless sync=false.",
            not_timed: "Drawing the model and its names; the directories of the database; with \
                        packages=DIR copying the packages to the target without their maintainer \
                        scripts, and `dpkg --verify` after list. Making the payload is part of install \
                        but of no call's latency.",
            models: "Installing or upgrading a distribution: many small files, renames, and an fsync \
                     for each, with a small database that is made durable at every step.",
            read_it_as: "Time to install until durable. The fsync policy decides it: compare \
                         fsync=package with fsync=database to see what durability costs on the \
                         filesystem. The latencies of fsync and rename tell where the time goes.",
            caveats: "The model decompresses nothing, has no maintainer scripts and one thread. dpkg \
                      starts writeback of each file when it is written (sync_file_range) and restores \
                      owners, modes and times; the model does not. Its packages follow the \
                      distributions of a Debian 12 base system, not its names. With packages=DIR fsync \
                      is `package` or `database`, the time of decompression is part of install, calls \
                      have no latencies, and payload, count and seed mean nothing. Published figures \
                      include the download and the scripts.",
        },
        differences: &[],
        params: PARAMS,
        phases: &[
            PhaseInfo { name: "install", doc: "unpacks and configures every package" },
            PhaseInfo {
                name: "list",
                doc: "reads the list of every package and asks for the attributes of every file",
            },
            fragmentation::PHASE,
        ],
    },
    check,
    peak_bytes,
    input_bytes: None,
    run,
    rungs: None,
    dry_run: None,
};

/// The directory of real packages; `None` for the model.
fn directory(params: &Params) -> Option<&Path> {
    let text = params.text("packages");
    (text != MODEL).then(|| Path::new(text))
}

fn policy(params: &Params) -> anyhow::Result<FsyncPolicy> {
    let word = params.text("fsync");
    FsyncPolicy::parse(word).with_context(|| format!("there is no fsync policy `{word}`"))
}

fn check(params: &Params) -> Result<(), String> {
    let Some(directory) = directory(params) else { return Ok(()) };
    let told = |error: anyhow::Error| format!("{error:#}");
    if !matches!(policy(params).map_err(told)?, FsyncPolicy::Package | FsyncPolicy::Database) {
        return Err(format!(
            "fsync={} is not possible with packages=DIRECTORY: dpkg knows `package` and `database`",
            params.text("fsync")
        ));
    }
    debs::find(directory).map(drop).map_err(told)
}

fn peak_bytes(params: &Params) -> anyhow::Result<Option<u64>> {
    let Some(directory) = directory(params) else {
        return Ok(Some(Model::new(params.number("count"), params.number("seed")).peak_bytes()));
    };
    let mut sum = 0u64;
    for package in debs::find(directory)? {
        let Some(installed) = debs::installed_bytes(&package)? else { return Ok(None) };
        sum = sum.saturating_add(installed).saturating_add(package.metadata()?.len());
    }
    Ok(Some(sum))
}

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    check(context.params).map_err(anyhow::Error::msg)?;
    let cold = Cold::parse(context.params.text("cold")).map_err(anyhow::Error::msg)?;
    match directory(context.params) {
        Some(directory) => run_packages(context, directory, cold),
        None => run_model(context, cold),
    }
}

fn durability(context: &Context<'_>) -> Durability {
    if context.params.flag("sync") { Durability::Target } else { Durability::None }
}

fn run_model(context: &mut Context<'_>, cold: Cold) -> anyhow::Result<()> {
    let params = context.params;
    let payload = Payload::parse(params.text("payload")).map_err(anyhow::Error::msg)?;
    let policy = policy(params)?;
    let model = Model::new(params.number("count"), params.number("seed"));
    let packages = model.packages.len() as u64;
    // The entries while they are unpacked, then the packages while they are listed.
    context.progress.set_total(model.entries.len() as u64 + packages);
    let mut source = PayloadBuffer::new(payload, context.seed, WRITE_BYTES);
    Installer::new(&Real, context.root(), &model, policy, &mut source).prepare()?;
    context.make_cold(cold)?;
    let mut tally = PhaseTally::new("install", METRIC);
    let mut installer = Installer::new(&Real, context.root(), &model, policy, &mut source);
    tally.measure(context, "all packages", durability(context), |recorder| {
        for index in 0..model.packages.len() {
            installer.unpack(index, recorder, || {
                context.progress.advance(1);
                Ok(check_interrupt()?)
            })?;
        }
        for index in 0..model.packages.len() {
            check_interrupt()?;
            installer.configure(index, recorder)?;
        }
        Ok(installer.checkpoint(recorder)?)
    })?;
    context.finish_phase(tally.into_record())?;
    context.make_cold(cold)?;
    let found = measure_list(context, context.root_path())?;
    let expected = Installed {
        packages,
        files: model.files().count() as u64,
        links: model.entries.iter().filter(|entry| entry.kind == EntryKind::Symlink).count() as u64,
        bytes: model.files().map(|file| file.size_bytes).sum(),
    };
    ensure!(
        found == expected,
        "list found {found:?} where {expected:?} was installed: check the device and the kernel log"
    );
    context.hand_over(manifest(&model, payload, context.seed))
}

fn manifest(model: &Model, payload: Payload, seed: u64) -> Manifest {
    let mut chosen = Reservoir::new(MANIFEST_FILES, seed);
    for file in model.files() {
        chosen.offer(|| ManifestFile {
            path: model.name(file).to_string_lossy().into_owned(),
            size_bytes: file.size_bytes,
            content_key: file.content_key,
        });
    }
    Manifest { payload, seed, files: chosen.into_vec() }
}

fn run_packages(context: &mut Context<'_>, directory: &Path, cold: Cold) -> anyhow::Result<()> {
    let (copies, root) = (context.root_path().join(PACKAGES), context.root_path().join(ROOT));
    let program = debs::installation(&root, &copies, policy(context.params)?)?;
    for made in [&copies, &root] {
        std::fs::create_dir(made).with_context(|| format!("mkdir {}", made.display()))?;
    }
    let packages = debs::find(directory)?;
    context.progress.set_total(3 * packages.len() as u64);
    for package in &packages {
        let name = package.file_name().map(PathBuf::from).unwrap_or_default();
        debs::copy_without_scripts(package, &copies.join(name))?;
        context.progress.advance(1);
    }
    context.make_cold(cold)?;
    let mut tally = PhaseTally::new("install", METRIC);
    tally.measure(context, "all packages", durability(context), |_| program.run().map(drop))?;
    let mut record = tally.into_record();
    // What dpkg wrote is known only by looking at it.
    let installed = list(&Real, &open(&root)?, &mut Recorder::new(), || {})?;
    ensure!(installed.files > 0, "dpkg installed no files into {}", root.display());
    (record.files, record.bytes) = (Some(installed.files), installed.bytes);
    record.samples.iter_mut().for_each(|sample| sample.bytes = installed.bytes);
    context.finish_phase(record)?;
    context.progress.advance(packages.len() as u64);
    context.make_cold(cold)?;
    let found = measure_list(context, &root)?;
    ensure!(found == installed, "list found {found:?} where {installed:?} was installed");
    context.progress.enter("verify");
    debs::verify(&root)
}

fn open(root: &Path) -> anyhow::Result<<Real as Calls>::Fd> {
    let opened = Real.open_root(root);
    Ok(opened.map_err(|errno| call_failed("open", root.display().to_string(), errno))?)
}

/// Measures the phase `list` on the installation at `root`.
fn measure_list(context: &Context<'_>, root: &Path) -> anyhow::Result<Installed> {
    let root = open(root)?;
    let mut tally = PhaseTally::new("list", METRIC);
    let mut found = Installed::default();
    tally.measure(context, "all packages", durability(context), |recorder: &mut Recorder| {
        found = list(&Real, &root, recorder, || context.progress.advance(1))?;
        recorder.files = found.files + found.links;
        Ok(())
    })?;
    context.finish_phase(tally.into_record())?;
    Ok(found)
}
