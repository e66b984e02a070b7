//! The workload `kernel-source`: its definition, its parameters and its phases. The archive, the build
//! and the removal are in [`crate::kernel_source`].

use std::path::Path;

use anyhow::Context as _;
use fsdyno_model::cold::Cold;
use fsdyno_model::info::{PhaseInfo, WorkloadDoc, WorkloadInfo};
use fsdyno_model::param::{ParamDef, Params};
use fsdyno_model::payload::Payload;
use fsdyno_model::record::PhaseRecord;
use fsdyno_model::wire::Manifest;
use fsdyno_sys::calls::{Calls, Real};
use fsdyno_sys::child::find_program;

use super::WorkloadDef;
use crate::archive::{Archive, ExtractOptions, extract};
use crate::context::Context;
use crate::failure::{Unavailable, call_failed};
use crate::fragmentation;
use crate::kernel_source::build::{
    AUTO, check_output, check_targets, compiled_sources, jobs, make, require_tools, touch,
};
use crate::kernel_source::remove::remove_tree;
use crate::kernel_source::source::{Scan, copy_configuration, locate, scan, tree_bytes};
use crate::params::{FRAGMENTATION, SYNC, choice, cold, count, path, text};
use crate::phase::{Durability, PhaseTally};
use crate::program::Program;
use crate::recorder::Recorder;

const METRIC: &str = "elapsed_s";
/// The directory of the tree on the target.
const TREE: &str = "source";
const TINY: &str = "tinyconfig";

const PARAMS: &[ParamDef] = &[
    path(
        "archive",
        AUTO,
        "the source as a tar archive, plain or compressed by gzip, zstd or xz; `auto`: the newest \
         linux-source that the distribution installed in /usr/src. Anything that make builds will \
         do",
    ),
    count(
        "strip_components",
        (0, 16),
        ("1", None),
        "directories at the beginning of each name in the archive that are left out",
    ),
    choice(
        "tool",
        &["builtin", "tar"],
        "builtin",
        "what extracts the archive: fsdyno itself, which tells the latency of each call, or the \
         system's tar",
    ),
    text(
        "config",
        (TINY, None),
        check_config,
        "a make target that makes the configuration, or the absolute path of a .config, which \
         olddefconfig completes",
    ),
    text(
        "target",
        ("vmlinux", Some("prepare")),
        check_targets,
        "make targets to be built, separated by spaces; `prepare` of a kernel takes seconds",
    ),
    text("jobs", (AUTO, None), check_jobs, "jobs of make (-j); `auto`: one for each processor"),
    count(
        "touch",
        (1, 1_000_000),
        ("10", None),
        "every how many-th of the .c files that were compiled is touched before recompile, in the \
         order of their paths, from the first on",
    ),
    SYNC,
    cold("remount", "how the caches are emptied before each phase but recompile"),
    FRAGMENTATION,
];

/// The catalogue entry.
pub static DEF: WorkloadDef = WorkloadDef {
    info: WorkloadInfo {
        name: "kernel-source",
        summary: "extract the source of a kernel, compile it, compile it again, remove it",
        doc: WorkloadDoc {
            timed: "extract: decompressing and extracting the archive, with modes and times. \
                    configure: make CONFIG, which compiles the configuration's own tools. compile: make \
                    -jN TARGET. recompile: the same again. remove: as rm -r. Each phase is one sample \
                    and ends with syncfs on the target unless sync=false; the time of a program is \
                    until it has ended, and its processor time, with that of its children, is the \
                    application's.",
            not_timed: "Looking through the archive once for a sample of up to 2000 files, and reading \
                        it into memory before extract; a pause of a second and touching every N-th \
                        compiled .c file before recompile; comparing the sample with the tree, and the \
                        output of the build, after recompile.",
            models: "What a developer does all day: unpacking a source tree, building it with many short \
                     processes that each read many headers and write one object, building it again after \
                     a change, throwing it away.",
            read_it_as: "extract and remove show the filesystem; compile shows the processor, and a \
                         filesystem only so far as the processor waits: look at the difference between \
                         elapsed time and processor time. recompile starts warm and shows how fast make \
                         finds out what has changed.",
            caveats: "Figures compare only between runs of the same archive, configuration, compiler and \
                      jobs. ccache and distcc in the PATH are used as make finds them. With \
                      cold=drop-caches the compiler too is read anew, from the disk of the system, as in \
                      the published runs; with cold=remount only the target is cold. tinyconfig compiles \
                      few files, of a tree that is large. A large archive's need of space is estimated \
                      from its size, and that of objects is taken as a tenth of the tree for tinyconfig \
                      and as much as the tree for others.",
        },
        differences: &[],
        params: PARAMS,
        phases: &[
            PhaseInfo { name: "extract", doc: "extracts the archive" },
            PhaseInfo { name: "configure", doc: "makes the configuration, and the tools for it" },
            PhaseInfo { name: "compile", doc: "builds the target" },
            PhaseInfo { name: "recompile", doc: "builds it again after some sources were touched" },
            PhaseInfo { name: "remove", doc: "removes the whole tree" },
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

fn check_config(text: &str) -> Result<(), String> {
    if text.starts_with('/') {
        return Ok(());
    }
    if text.contains('/') {
        return Err(format!("config is a make target or an absolute path, not `{text}`"));
    }
    check_targets(text)
}

fn check_jobs(text: &str) -> Result<(), String> {
    jobs(text).map(drop)
}

fn check(params: &Params) -> Result<(), String> {
    let (archive, config) = (params.text("archive"), params.text("config"));
    if archive != AUTO {
        Archive::open(Path::new(archive)).map_err(|error| format!("archive: {error}"))?;
    }
    if config.starts_with('/') && !Path::new(config).is_file() {
        return Err(format!("config={config}: there is no such file"));
    }
    Ok(())
}

fn peak_bytes(params: &Params) -> anyhow::Result<Option<u64>> {
    let archive = match locate(params.text("archive")) {
        Ok(archive) => archive,
        // The trial will be skipped.
        Err(error) if error.is::<Unavailable>() => return Ok(None),
        Err(error) => return Err(error),
    };
    let tree = tree_bytes(&archive)?;
    let objects = if params.text("config") == TINY { tree / 10 } else { tree };
    // Even the smallest program takes some blocks.
    Ok(Some(tree.saturating_add(objects).saturating_add(1 << 20)))
}

/// What all phases of a run need.
struct Job {
    archive: Archive,
    scan: Scan,
    strip_components: u64,
    config: String,
    target: String,
    jobs: usize,
    cold: Cold,
    durability: Durability,
}

impl Job {
    fn new(context: &Context<'_>) -> anyhow::Result<Job> {
        let params = context.params;
        check(params).map_err(anyhow::Error::msg)?;
        let archive = locate(params.text("archive"))?;
        require_tools(false)?;
        if params.text("tool") == "tar" && find_program("tar").is_none() {
            let reason =
                "tar is not installed, which tool=tar needs: install it, or use tool=builtin";
            return Err(Unavailable(reason.to_owned()).into());
        }
        let strip_components = params.number("strip_components");
        let scan = scan(&archive, strip_components, context.seed)?;
        require_tools(scan.is_kernel)?;
        Ok(Job {
            archive,
            scan,
            strip_components,
            config: params.text("config").to_owned(),
            target: params.text("target").to_owned(),
            jobs: jobs(params.text("jobs")).map_err(anyhow::Error::msg)?,
            cold: Cold::parse(params.text("cold")).map_err(anyhow::Error::msg)?,
            durability: if params.flag("sync") { Durability::Target } else { Durability::None },
        })
    }

    /// Shares of the whole: files are extracted and removed; the three builds count as much as either.
    fn build_share(&self) -> u64 {
        self.scan.survey.files.max(1)
    }
}

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let job = Job::new(context)?;
    context.progress.set_total(5 * job.build_share());
    let tree = context.root_path().join(TREE);
    std::fs::create_dir(&tree).with_context(|| format!("mkdir {}", tree.display()))?;

    context.make_cold(job.cold)?;
    job.archive.preload(|_| {})?;
    measure_extraction(context, &job, &tree)?;

    context.make_cold(job.cold)?;
    measure_configuration(context, &job, &tree)?;

    context.make_cold(job.cold)?;
    let program = make(&tree, job.jobs, &job.target);
    let mut compile = measure_program(context, &job, "compile", &program)?;
    let sources = compiled_sources(&tree)?;
    compile.files = Some(sources.len() as u64);
    context.finish_phase(compile)?;

    context.progress.enter("recompile");
    let touched = touch(&sources, context.params.number("touch"))?;
    let mut recompile = measure_program(context, &job, "recompile", &program)?;
    recompile.files = Some(touched);
    context.finish_phase(recompile)?;

    context.progress.enter("verify");
    check_output(&tree, &job.target)?;
    context.note_verified(job.scan.compare(&tree)?);
    fragmentation::survey(context)?;

    context.make_cold(job.cold)?;
    measure_removal(context, &job)?;
    let payload = Payload::Original;
    context.hand_over(Manifest { payload, seed: context.seed, files: Vec::new() })
}

fn measure_extraction(context: &Context<'_>, job: &Job, tree: &Path) -> anyhow::Result<()> {
    let archive = &job.archive;
    if context.params.text("tool") == "tar" {
        let program = Program::new(["tar", "-x", "--no-same-owner", "-f"])
            .arg(archive.path().to_string_lossy())
            .arg(format!("--strip-components={}", job.strip_components))
            .arg("-C")
            .arg(tree.to_string_lossy());
        let mut record = measure_program(context, job, "extract", &program)?;
        record.files = Some(job.scan.survey.files);
        record.bytes = job.scan.survey.content_bytes;
        record.samples.iter_mut().for_each(|sample| sample.bytes = job.scan.survey.content_bytes);
        return context.finish_phase(record);
    }
    let failed = |errno| call_failed("open", tree.display().to_string(), errno);
    let directory = Real.open_root(tree).map_err(failed)?;
    let options = ExtractOptions { strip_components: job.strip_components, ..Default::default() };
    let mut tally = PhaseTally::new("extract", METRIC);
    tally.measure(context, TREE, job.durability, |recorder| {
        let advance = |_| context.progress.advance(1);
        extract(&Real, &directory, archive, options, recorder, advance).map(drop)
    })?;
    context.finish_phase(tally.into_record())
}

fn measure_configuration(context: &Context<'_>, job: &Job, tree: &Path) -> anyhow::Result<()> {
    let target = if job.config.starts_with('/') {
        copy_configuration(Path::new(&job.config), tree)?;
        "olddefconfig"
    } else {
        &job.config
    };
    let record = measure_program(context, job, "configure", &make(tree, job.jobs, target))?;
    context.finish_phase(record)
}

/// Measures one run of a program as the phase `name`, of which it says nothing but how long it took.
fn measure_program(
    context: &Context<'_>,
    job: &Job,
    name: &str,
    program: &Program,
) -> anyhow::Result<PhaseRecord> {
    let mut tally = PhaseTally::new(name, METRIC);
    tally.measure(context, TREE, job.durability, |_: &mut Recorder| program.run().map(drop))?;
    context.progress.advance(job.build_share());
    let mut record = tally.into_record();
    record.files = None;
    Ok(record)
}

fn measure_removal(context: &Context<'_>, job: &Job) -> anyhow::Result<()> {
    let mut tally = PhaseTally::new("remove", METRIC);
    tally.measure(context, TREE, job.durability, |recorder| {
        let mut advance = || context.progress.advance(1);
        remove_tree(&Real, context.root(), c"source", recorder, &mut advance)
    })?;
    context.finish_phase(tally.into_record())
}
