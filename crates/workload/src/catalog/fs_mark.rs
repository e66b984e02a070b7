//! The workload `fs-mark`: its definition, its parameters and where it differs from the original. The
//! operations are in [`crate::fs_mark`].

use fsdyno_model::info::{PhaseInfo, WorkloadDoc, WorkloadInfo};
use fsdyno_model::param::{ParamDef, Params};

use super::WorkloadDef;
use crate::fragmentation;
use crate::fs_mark::run::run;
use crate::fs_mark::settings::{SYNC_METHODS, Settings};
use crate::params::{FRAGMENTATION, MODE, PAYLOAD, SYNC, bytes, choice, cold, count, numjobs};

/// What a file or directory takes is rounded up to this.
const BLOCK_BYTES: u64 = 4096;
/// Bytes of an entry besides twice its name, in blocks that are half full after they were split.
const ENTRY_BYTES: u64 = 32;

/// Where `mode=corrected` differs from fs_mark 3.3: what the original does, and what is done instead.
/// `mode=original` does as the original, but for the last entries, which hold in both modes.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "The rate of several processes is the sum of their rates, each with a time of its own, so that \
         processes which do not run at the same time make it larger than what was done in a second.",
        "Files per second are all files for the time of the slowest job. Both are recorded: \
         jobs_files_per_s is the sum.",
    ),
    (
        "The time contains the making of names and one mkdir for each file, which fails but for the \
         first time, and not the removal of files.",
        "Names and directories are made before the time begins; the removal is a phase of its own.",
    ),
    (
        "With -S 0 nothing is made durable, and with the other methods not the entries of directories.",
        "Both phases end with syncfs unless sync=false, and rates are those until durable; the time \
         until the last call returned is recorded beside it.",
    ),
    (
        "sync is that of the whole machine, and each process calls it.",
        "Each job calls syncfs on the target.",
    ),
    (
        "A file that is opened again, synced and closed counts as one fsync.",
        "The three calls are recorded each on its own.",
    ),
    (
        "A file of a name that is there already is emptied and written again, unnoticed.",
        "In both modes names differ, and parameters which cannot do so are refused; here a file that is \
         there already is an error.",
    ),
    (
        "The method 2 is said to sync one file in each subdirectory; it syncs the first file of each \
         process.",
        "So do both modes.",
    ),
    (
        "Without -N it stays in one subdirectory for 180 seconds and goes to the next, beginning at one \
         that the clock chooses; names begin with the time in seconds, and the rest is drawn with a seed \
         from the clock.",
        "In both modes a hash of the number of the file chooses its subdirectory, names begin with a \
         counter that steps after 1000 files, and the seed is that of the trial: the same seed gives the \
         same names.",
    ),
    (
        "Files are zeros, which some filesystems compress or do not store.",
        "In both modes payload=original writes zeros; the default payload is realistic.",
    ),
    (
        "Processes are forked anew for each iteration.",
        "In both modes jobs are threads of one process, which share its table of open files.",
    ),
    (
        "Revisions after 3.3 print p90 and p99 of the rates of the iterations from a list in descending \
         order, where a greater percentile is a lower rate.",
        "In both modes percentiles are those of latencies in ascending order.",
    ),
    (
        "Empty files are written to once, with no byte; contents are never read back.",
        "In both modes empty files are not written to; a sample of the files is compared before they \
         are removed, or at the end.",
    ),
];

const PARAMS: &[ParamDef] = &[
    count(
        "files",
        (1, 10_000_000),
        ("1000", Some("200")),
        "files of each job in each iteration (-n)",
    ),
    bytes("size", (0, 1 << 40), ("51200", None), "bytes in each file (-s)"),
    bytes("bs", (1, 64 << 20), ("16KiB", None), "bytes of each call that writes (-w)"),
    count("name_length", (1, 128), ("40", None), "bytes of the name of a file (-p)"),
    count(
        "name_random",
        (0, 128),
        ("24", None),
        "of these, the random characters A–Z and 0–9 at the end (-r)",
    ),
    choice(
        "sync_method",
        SYNC_METHODS,
        "fsync",
        "what is made durable (-S, whose numbers are taken too): `none` (0) nothing; `fsync` (1) \
         each file before it is closed; when all are closed `sync-first` (2) sync, then the first \
         file; `post-reverse` (3) each file, opened again, the last one first; `sync-post-reverse` \
         (4) sync, then the same; `post` (5) each file, opened again, in order; `sync-post` (6) \
         sync, then the same",
    ),
    numjobs("threads, each with as many files of its own (-t)"),
    count(
        "directories",
        (1, 65_536),
        ("1", None),
        "subdirectories that the files are spread over (-D); 1: none",
    ),
    count(
        "per_directory",
        (0, 10_000_000),
        ("0", None),
        "files that a job puts into one subdirectory before it goes to the next, round robin (-N); 0: a \
         hash chooses",
    ),
    count("loops", (1, 1000), ("1", None), "iterations (-L)"),
    choice(
        "keep",
        &["auto", "true", "false"],
        "auto",
        "whether files stay when an iteration is over, so that the target fills up (-k); `auto`: \
         where there are several, as in the original",
    ),
    MODE,
    cold("none", "how the caches are emptied before the phase unlink; the original never does"),
    SYNC,
    PAYLOAD,
    FRAGMENTATION,
];

/// The catalogue entry.
pub static DEF: WorkloadDef = WorkloadDef {
    info: WorkloadInfo {
        name: "fs-mark",
        summary: "create and write many files, made durable in one of seven ways",
        doc: WorkloadDoc {
            timed: "create: one sample for each iteration, open, write, fsync and close of all files \
                    and whatever sync_method says comes after them; mode=original makes the names and \
                    directories within it, too. unlink: one sample for each iteration that does not \
                    keep its files. mode=corrected ends each with syncfs on the target unless \
                    sync=false. Making the payload is part of create.",
            not_timed: "In mode=corrected making names and directories; starting threads; emptying the \
                        caches where cold= asks for it; comparing a sample of the files.",
            models: "Servers of mail, queues and objects that promise to have stored what they were \
                     given: many small files, each synced, from one or several writers. It is fs_mark \
                     3.3 with its parameters.",
            read_it_as: "Files per second until durable. With sync_method=fsync it is mostly the cost \
                         of a commit of the journal and of a flush of the device's write cache; with \
                         several jobs it shows whether their commits are shared. Compare fsync with \
                         post and sync-post to see what batching is worth.",
            caveats: "On a device without a write cache of its own, or with a loop image on another \
                      filesystem, fsync costs what the layers below make of it. The defaults are those \
                      of the original: 1000 files are done within a second on a fast device; use more, \
                      with loops and keep=true for a target that fills up.",
        },
        differences: DIFFERENCES,
        params: PARAMS,
        phases: &[
            PhaseInfo { name: "create", doc: "creates, writes and syncs files" },
            PhaseInfo { name: "unlink", doc: "removes them, unless they are kept" },
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

fn check(params: &Params) -> Result<(), String> {
    Settings::new(params, 0).map(drop)
}

fn peak_bytes(params: &Params) -> anyhow::Result<Option<u64>> {
    let settings = Settings::new(params, 0).map_err(anyhow::Error::msg)?;
    let loops = if settings.keep { settings.loops } else { 1 };
    let files = settings.files_of_all_jobs().saturating_mul(loops);
    let directories = settings.layout.directories;
    let entry_bytes = 2 * settings.layout.name_bytes as u64 + ENTRY_BYTES;
    let entries = files.div_ceil(directories).saturating_mul(entry_bytes);
    let directory_bytes = (entries + BLOCK_BYTES).next_multiple_of(BLOCK_BYTES);
    let file_bytes = settings.size_bytes.next_multiple_of(BLOCK_BYTES);
    Ok(Some(
        files
            .saturating_mul(file_bytes)
            .saturating_add(directories.saturating_mul(directory_bytes)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_do_not_go_together_are_refused() {
        let refused = |pairs: &[(&str, &str)]| {
            let mut params = Params::defaults(PARAMS, false);
            for (name, text) in pairs {
                params.set(PARAMS, name, text).unwrap();
            }
            check(&params).unwrap_err()
        };
        for (pairs, words) in [
            (&[("name_random", "41")][..], "is more than name_length=40"),
            (&[("name_random", "0"), ("name_length", "2")], "cannot tell 1000 files apart"),
            (&[("per_directory", "5")], "use more directories"),
            (&[("files", "10000000"), ("loops", "1000")], "use fewer"),
            (&[("files", "10000000"), ("size", "1TiB"), ("numjobs", "100")], "use smaller files"),
        ] {
            let error = refused(pairs);
            assert!(error.contains(words), "{error}");
        }
    }
}
