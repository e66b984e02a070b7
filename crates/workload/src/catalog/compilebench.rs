//! The workload `compilebench`: its definition, its parameters and where it differs from the original.
//! The run itself is in [`crate::compilebench`].

use fsdyno_model::info::{PhaseInfo, WorkloadDoc, WorkloadInfo};
use fsdyno_model::param::{ParamDef, Params};

use super::{DryRun, WorkloadDef};
use crate::compilebench::peak;
use crate::compilebench::run::{Settings, phase_name, run};
use crate::compilebench::sequence::Tag;
use crate::context::Context;
use crate::fragmentation;
use crate::params::{FRAGMENTATION, MODE, PAYLOAD, bytes, count, flag, path, text};
use crate::rng::RngSpec;

/// Where `mode=corrected` differs from compilebench 0.6: what the original does, and what is done
/// instead. `mode=original` does as the original, but for the last entries, which hold in both modes.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "Before it starts, it writes three whole trees, walks them to learn the order in which the \
         filesystem lists them, and deletes them, so that the filesystem is no longer fresh.",
        "Left out: trees are written in sorted order onto a fresh filesystem.",
    ),
    (
        "Its comparison of names never says that one is greater than another of the same \
         directory, so that the order depends on the order of the input.",
        "Files are sorted: those of a directory first, then its subdirectories. Both modes use \
         this order wherever the original means to sort.",
    ),
    (
        "Files are opened to be appended to, and never cut off unless they are patched.",
        "Files are opened to be cut off (O_TRUNC), as compilers and unpackers open them.",
    ),
    (
        "A patch means to read each file before it rewrites it, but under Python 3 the read starts \
         at the end of the file and finds nothing.",
        "A patch opens the old file and reads it to its end, then removes it where the draw says \
         so, then writes the new one. The bytes read are not added to the throughput.",
    ),
    (
        "The first trees are not synced while the clock runs; one sync after all of them is in no \
         figure. With makej the same holds for every phase.",
        "Every sample ends with a sync of its own, so that the time until durable is known.",
    ),
    (
        "It syncs all filesystems of the machine.",
        "It syncs the filesystem of the target only (syncfs).",
    ),
    (
        "A deletion which empties a set of trees while there are no compiled trees in one of the \
         two compiled states is booked as deletion of a compiled tree.",
        "A deletion is booked to the state that its tree had.",
    ),
    (
        "With makej three trees are read without dropping the caches in between; one that is read \
         again is read from memory.",
        "The caches are dropped before each of these reads.",
    ),
    (
        "The figure of a phase is the unweighted mean of the throughputs of its operations.",
        "The figure of a phase is all its bytes over all its time until durable. Deletion and stat \
         show the mean duration per tree in both modes.",
    ),
    (
        "Processor time is that of the Python process.",
        "In both modes it is that of the phase runner; mode=original leaves out the time of the sync \
         as the original does, which starts another process for it.",
    ),
    ("Its clock counts hundredths of a second.", "In both modes the clock counts nanoseconds."),
];

const PARAMS: &[ParamDef] = &[
    count(
        "trees",
        (0, 100_000),
        ("10", Some("2")),
        "trees created first (-i of the original, whose own default is 30, with runs=100: these \
         need `--size 20GiB`)",
    ),
    count(
        "runs",
        (0, 100_000),
        ("30", Some("6")),
        "random operations after that (-r, whose own default is 100); without effect on makej",
    ),
    flag(
        "makej",
        "false",
        "compile all trees, read three and delete all instead of random operations (--makej); ten \
         trees need `--size 12GiB`",
    ),
    flag("sync", "true", "whether writes are made durable and caches dropped (false is --no-sync)"),
    bytes("buffer", (512, 256 << 20), ("256KiB", None), "most bytes per read and write (-b)"),
    ParamDef {
        check: Some(check_datasets),
        ..path("datasets", "builtin", "`builtin`, or a directory with the four dataset files")
    },
    count(
        "one_in",
        (1, 10_000),
        ("1", None),
        "of so many files of the dataset one is taken, chosen by its path: with 10 a tree holds a \
         tenth, which suits emulated guests",
    ),
    text(
        "rng",
        ("cpython-555", None),
        check_rng,
        "generator and seed of the sequence: `cpython-555` draws as the original whatever the seed \
         of the trial, `xoshiro-N` otherwise; `seed` is xoshiro with the seed of the trial",
    ),
    MODE,
    PAYLOAD,
    FRAGMENTATION,
];

const fn phase(tag: Tag, doc: &'static str) -> PhaseInfo {
    PhaseInfo { name: phase_name(tag), doc }
}

/// The catalogue entry.
pub static DEF: WorkloadDef = WorkloadDef {
    info: WorkloadInfo {
        name: "compilebench",
        summary: "source trees created, patched, compiled, read and deleted until the filesystem has aged",
        doc: WorkloadDoc {
            timed: "Each operation on a tree is one sample: all its calls, then syncfs on the target \
                    unless sync=false (mode=original: sync of the whole machine, and only for the \
                    random operations).",
            not_timed: "Loading the dataset; dropping the caches before each random operation; what \
                        lies between two operations. mode=original: the three trees written and \
                        deleted to learn the filesystem's order of names, and the syncs between the \
                        stages.",
            models: "Developers' machines and build servers: many source trees unpacked, built, \
                     patched, cleaned, searched and thrown away side by side. It is compilebench 0.6, \
                     operation for operation.",
            read_it_as: "How well the filesystem keeps small files of one directory together and \
                         finds room for them among older trees. Phases in MiB/s count all bytes over \
                         the time until durable (mode=corrected); delete and stat show the time per tree.",
            caveats: "One thread. `clean` counts the bytes of the files that it removes. In `patch`, \
                      trees that are already compiled get the objects only, as in the original. A few \
                      runs draw few samples of some phases and none of others. Without the right to \
                      drop caches, reads come from memory. The defaults, trees=10 and runs=30, are \
                      those of benchmark suites and hold up to 4 GiB of files at once; the original's \
                      own, 30 and 100, hold over 14 GiB. --quick takes trees=2 and runs=6, enough to \
                      see that it works and too few to compare filesystems. The order of operations \
                      does not depend on the seed unless rng=seed.",
        },
        differences: DIFFERENCES,
        params: PARAMS,
        phases: &[
            phase(Tag::InitialCreate, "creates the first trees"),
            phase(Tag::Create, "creates one more tree beside the others"),
            phase(Tag::Patch, "reads and rewrites the files of a tree that a new version changes"),
            phase(Tag::Compile, "writes object files into a tree, in random order"),
            phase(Tag::Clean, "removes the object files"),
            phase(Tag::ReadTree, "reads every file of a tree that is not compiled"),
            phase(Tag::ReadCompiledTree, "reads every file of a compiled tree"),
            phase(Tag::DeleteTree, "deletes a tree that is not compiled"),
            phase(Tag::DeleteCompiledTree, "deletes a compiled tree"),
            phase(
                Tag::StatTree,
                "asks for the attributes of all that is in a tree that is not compiled",
            ),
            phase(
                Tag::StatCompiledTree,
                "asks for the attributes of all that is in a compiled tree",
            ),
            fragmentation::PHASE,
        ],
    },
    check,
    run: |context: &mut Context<'_>| run(context, &Settings::new(context.params, context.seed)?),
    peak_bytes,
    input_bytes: None,
    rungs: None,
    dry_run: Some(dry_run),
};

fn check_datasets(text: &str) -> Result<(), String> {
    match text {
        "" => Err("datasets is `builtin` or a directory, not empty".to_owned()),
        _ if text.contains('\0') => Err("datasets cannot hold a NUL byte".to_owned()),
        _ => Ok(()),
    }
}

fn check_rng(text: &str) -> Result<(), String> {
    RngSpec::parse(text, 0).map(drop).map_err(|error| error.to_string())
}

fn check(params: &Params) -> Result<(), String> {
    let settings = Settings::new(params, 0).map_err(|error| format!("{error:#}"))?;
    if settings.dataset_is_builtin() {
        return Ok(());
    }
    settings.load_dataset().map(drop).map_err(|error| format!("{error:#}"))
}

fn peak_bytes(params: &Params) -> anyhow::Result<Option<u64>> {
    let settings = Settings::new(params, 0)?;
    Ok(Some(peak::peak_bytes(&settings, &settings.load_dataset()?)))
}

fn dry_run(params: &Params, seed: u64) -> anyhow::Result<DryRun> {
    let settings = Settings::new(params, seed)?;
    let steps = settings.steps(&settings.load_dataset()?);
    Ok(Box::new(steps.map(|step| format!("{} {}", step.op, step.tree))))
}
