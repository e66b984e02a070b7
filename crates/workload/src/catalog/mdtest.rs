//! The workload `mdtest`: its definition, its parameters and where it differs from the original. The
//! parts are in [`crate::mdtest`].

use fsdyno_model::info::{PhaseInfo, WorkloadDoc, WorkloadInfo};
use fsdyno_model::param::{ParamDef, Params};
use fsdyno_model::units::parse_duration_ns;

use super::WorkloadDef;
use crate::fragmentation;
use crate::mdtest::run::{Settings, run};
use crate::params::{FRAGMENTATION, PAYLOAD, SYNC, bytes, cold, count, flag, numjobs, text};

const DIFFERENCES: &[(&str, &str)] = &[
    (
        "Ranks are processes of an MPI job, on one machine or many.",
        "Ranks are threads of one process (numjobs); its open files are in one table.",
    ),
    (
        "Without -Y nothing is ever made durable.",
        "Each phase ends with syncfs on the target, within its time, as -Y does with sync; sync=false \
         leaves that out.",
    ),
    (
        "After a stonewall (-W) each rank goes on until it has made as many files as the fastest.",
        "Each rank stops, and later phases work on the files that it has made.",
    ),
    (
        "What was read is not compared unless that is asked for.",
        "After file-read a sample of the files is compared with what was written.",
    ),
];

const PARAMS: &[ParamDef] = &[
    count(
        "items",
        (1, 20_000_000),
        ("10000", Some("1000")),
        "directories and files of each rank, spread evenly over the tree and rounded down (-n)",
    ),
    count(
        "items_per_directory",
        (0, 20_000_000),
        ("0", None),
        "the same for each directory that holds any, in place of items (-I); 0: items holds",
    ),
    count("branch", (1, 100_000), ("1", None), "directories in each directory of the tree (-b)"),
    count("depth", (0, 100), ("0", None), "levels of the tree below its first directory (-z)"),
    flag("leaves_only", "false", "whether items are in the lowest level only (-L)"),
    count("iterations", (1, 1000), ("1", None), "how often all is done, each a sample (-i)"),
    flag("unique_directories", "false", "whether each rank has a tree of its own (-u)"),
    count(
        "stride",
        (0, 1023),
        ("0", None),
        "ranks ahead of which one's items are asked for; twice as many for reading, three times for \
         removing (-N)",
    ),
    flag("directories", "true", "whether directories are worked on (false: -F)"),
    flag("files", "true", "whether files are worked on (false: -D)"),
    flag("rename", "false", "whether directories are renamed before they are removed (-U)"),
    bytes("write_bytes", (0, 1 << 40), ("0", None), "bytes written into each file (-w)"),
    bytes(
        "read_bytes",
        (0, 1 << 40),
        ("0", None),
        "bytes read from each file, up to write_bytes (-e)",
    ),
    flag("fsync", "false", "whether each file is made durable before it is closed (-y)"),
    text(
        "stonewall",
        ("off", None),
        check_stonewall,
        "time after which no more files are made (-W): `10s`; `off`: none",
    ),
    numjobs("ranks: threads that each work on items of their own"),
    cold(
        "none",
        "how the caches are emptied before the phases that ask, read and remove; the original never does",
    ),
    SYNC,
    PAYLOAD,
    FRAGMENTATION,
];

/// The catalogue entry.
pub static DEF: WorkloadDef = WorkloadDef {
    info: WorkloadInfo {
        name: "mdtest",
        summary: "metadata rates: make, ask for, read and remove directories and files in a tree",
        doc: WorkloadDoc {
            timed: "Each phase of each iteration as one sample: its calls on all items of all ranks, \
                    from the start of the first to the end of the slowest rank, then syncfs on the \
                    target unless sync=false. Starting the ranks is part of it.",
            not_timed: "Making the names and the directory of an iteration; emptying the caches where \
                        cold= asks for it; comparing a sample of the files after file-read.",
            models: "The metadata benchmark of high-performance computing (mdtest of ior 4), on one \
                     machine: ranks that each make many items, in shared directories or their own.",
            read_it_as: "Items per second of each kind of call. With shared directories and many ranks \
                         it shows how changes of one directory hold each other up; with \
                         unique_directories=true how well independent work scales.",
            caveats: "Files are empty unless write_bytes is given. Asking and reading come from memory \
                      unless cold= is given: a stride, which evades the caches of other machines, does \
                      not evade those of this one. A tree of one directory is made too fast to be \
                      measured.",
        },
        differences: DIFFERENCES,
        params: PARAMS,
        phases: &[
            PhaseInfo { name: "tree-creation", doc: "makes the directories of the tree" },
            PhaseInfo { name: "directory-create", doc: "makes directories" },
            PhaseInfo { name: "directory-stat", doc: "asks for the attributes of each directory" },
            PhaseInfo { name: "directory-rename", doc: "with rename=true: renames each directory" },
            PhaseInfo { name: "directory-remove", doc: "removes the directories" },
            PhaseInfo { name: "file-create", doc: "makes files, and writes them where asked to" },
            PhaseInfo { name: "file-stat", doc: "asks for the attributes of each file" },
            PhaseInfo { name: "file-read", doc: "opens, reads and closes each file" },
            PhaseInfo { name: "file-remove", doc: "removes the files" },
            PhaseInfo { name: "tree-removal", doc: "removes the directories of the tree" },
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

fn check_stonewall(text: &str) -> Result<(), String> {
    match text {
        "off" => Ok(()),
        text => parse_duration_ns(text).map(drop).map_err(|error| error.to_string()),
    }
}

fn check(params: &Params) -> Result<(), String> {
    Settings::new(params).map(drop)
}

fn peak_bytes(params: &Params) -> anyhow::Result<Option<u64>> {
    let settings = Settings::new(params).map_err(anyhow::Error::msg)?;
    Ok(Some(settings.peak_bytes()))
}
