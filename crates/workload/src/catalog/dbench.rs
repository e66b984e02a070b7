//! The workload `dbench`: its definition, its parameters and where it differs from the original. The
//! parts are in [`crate::dbench`].

use fsdyno_model::info::{PhaseInfo, WorkloadDoc, WorkloadInfo};
use fsdyno_model::param::{ParamDef, Params};
use fsdyno_model::units::parse_duration_ns;

use super::{DryRun, WorkloadDef};
use crate::dbench::run::run;
use crate::dbench::settings::{AUTO, SHIPPED, Settings, lines_of};
use crate::fragmentation;
use crate::params::{FRAGMENTATION, MODE, PAYLOAD, SYNC, count, flag, path, text};

const DIFFERENCES: &[(&str, &str)] = &[
    (
        "The throughput is that of the last full second of its clock, and nothing is made durable \
         before it stops.",
        "The phase ends with syncfs, and the throughput is that until durable; the original's figure is \
         recorded beside it, and --format dbench prints it.",
    ),
    (
        "`Deltree` deletes files and leaves every directory, so that a second pass finds them. \
         mode=original does the same.",
        "Directories are deleted too.",
    ),
    (
        "Some operations that end otherwise than expected end the run, others are not noticed.",
        "In both modes each is counted and told as a warning; strict=true ends the run at the first. A \
         full or failing device always does.",
    ),
    (
        "Each client is a process that reads the load file while it runs, and asks before each line \
         whether its parent lives.",
        "In both modes the load is read before, and clients are threads of one process; its open files \
         are in one table.",
    ),
    (
        "Only zeros are written, of which a filesystem that compresses stores next to nothing.",
        "In both modes payload=original writes them; the default payload is realistic. WRITEPATTERN \
         counts with payload=original alone.",
    ),
    (
        "Locks are on ranges of bytes of a process.",
        "In both modes they are on whole open files, since the clients share a process.",
    ),
];

const PARAMS: &[ParamDef] = &[
    path(
        "loadfile",
        SHIPPED,
        "a load file in the format of dbench 4 (Debian: /usr/share/dbench/client.txt), or \
         `shipped`: a load of documents on a file server that is drawn from load_seed",
    ),
    count(
        "load_operations",
        (100, 10_000_000),
        ("50000", Some("10000")),
        "operations of the shipped load",
    ),
    count("load_seed", (0, u64::MAX), ("1", None), "seed of the shipped load"),
    count("clients", (1, 1024), ("1", None), "clients that carry out the load at the same time"),
    text(
        "runtime",
        ("60s", Some("1s")),
        check_duration,
        "time of warm-up and measurement; the original's is 600s",
    ),
    text(
        "warmup",
        (AUTO, None),
        check_warmup,
        "the part of runtime that is not measured; `auto`, as the original: a fifth",
    ),
    count(
        "passes",
        (0, 1_000_000),
        ("0", None),
        "passes of each client over the load, without warm-up, in place of runtime; 0: runtime holds",
    ),
    count(
        "targetrate",
        (0, 1_000_000_000_000),
        ("0", None),
        "bytes per second that each client does not exceed; 0: no limit",
    ),
    flag("sync_io", "false", "whether files are opened with O_SYNC (-s of the original)"),
    flag("fsync", "false", "whether each write is followed by fsync (-F)"),
    flag(
        "sync_directories",
        "false",
        "whether the directory is made durable after each change of a name (-S)",
    ),
    flag(
        "resolve",
        "true",
        "whether the directory of an absent path is read through, as a server does that looks for other \
         spellings of a name",
    ),
    flag("strict", "false", "whether an operation that ends otherwise than expected ends the run"),
    flag("cleanup", "true", "whether what the clients left is deleted at the end"),
    MODE,
    SYNC,
    PAYLOAD,
    FRAGMENTATION,
];

/// The catalogue entry.
pub static DEF: WorkloadDef = WorkloadDef {
    info: WorkloadInfo {
        name: "dbench",
        summary: "clients of a file server: the operations of a recorded or generated office load",
        doc: WorkloadDoc {
            timed: "run, as one sample: what all clients do from the end of the warm-up on, then syncfs \
                    on the target unless sync=false. Each operation is one or several calls: an open \
                    asks for the path first, and reads its directory where it is absent. Making the \
                    payload is part of the run, but of no operation's latency. cleanup: deleting what \
                    is left.",
            not_timed: "Reading and compiling the load; the warm-up; comparing what is left with what \
                        was written.",
            models: "A file server (SMB) with office clients: many opens, lookups and small reads and \
                     writes of documents, with few flushes. It carries out the load files of dbench 4; \
                     the shipped load has the proportions of the one that comes with it.",
            read_it_as: "Throughput of reads and writes between metadata operations, for one or many \
                         clients at once; the table of operations shows which are slow. fairness near 1 \
                         says that all clients got as far.",
            caveats: "The files of a client fit into memory, so that reads come from the page cache and \
                      the device sees writeback alone; use fsync, sync_io or many clients to load it. \
                      There is no cold start: clients read what they have written. \
                      Patterns of searches are not compared with names. The shipped load is not the \
                      original's: compare figures of one load only.",
        },
        differences: DIFFERENCES,
        params: PARAMS,
        phases: &[
            PhaseInfo { name: "run", doc: "all clients carry out the load" },
            PhaseInfo { name: "cleanup", doc: "deletes what the clients left" },
            fragmentation::PHASE,
        ],
    },
    check,
    peak_bytes,
    input_bytes: None,
    run,
    rungs: None,
    dry_run: Some(dry_run),
};

fn check_duration(text: &str) -> Result<(), String> {
    parse_duration_ns(text).map(drop).map_err(|error| error.to_string())
}

fn check_warmup(text: &str) -> Result<(), String> {
    if text == AUTO { Ok(()) } else { check_duration(text) }
}

fn check(params: &Params) -> Result<(), String> {
    Settings::new(params).map(drop)
}

fn peak_bytes(params: &Params) -> anyhow::Result<Option<u64>> {
    let settings = Settings::new(params).map_err(anyhow::Error::msg)?;
    let one = settings.program.peak_bytes;
    Ok(one.map(|bytes| bytes.max(1).saturating_mul(settings.clients as u64)))
}

/// The load in the format that dbench reads.
fn dry_run(params: &Params, _: u64) -> anyhow::Result<DryRun> {
    let (_, lines) = lines_of(params).map_err(anyhow::Error::msg)?;
    Ok(Box::new(lines.into_iter().map(|line| line.statement.to_string())))
}
