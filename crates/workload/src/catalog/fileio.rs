//! The workload `fileio`: its definition, its parameters and where it differs from the original. The
//! operations are in [`crate::fileio`].

use fsdyno_model::info::{PhaseInfo, WorkloadDoc, WorkloadInfo};
use fsdyno_model::param::{ParamDef, Params};
use fsdyno_model::units::parse_duration_ns;

use super::WorkloadDef;
use crate::fileio::run::run;
use crate::fileio::settings::{Settings, parse_modes, parse_ratio};
use crate::fragmentation;
use crate::params::{
    FRAGMENTATION, MODE, PAYLOAD, SYNC, bytes, choice, cold, count, flag, numjobs, text,
};

/// What a file or directory takes is rounded up to this.
const BLOCK_BYTES: u64 = 4096;
/// Bytes of an entry for a name of up to twenty letters, in blocks that are half full after they were split.
const ENTRY_BYTES: u64 = 64;

/// Where `mode=corrected` differs from sysbench 1.0.20: what the original does, and what is done instead.
/// `mode=original` does as the original, but for the last entries, which hold in both modes.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "Sequential modes go round and round until the time is over: seqwr writes new files once and then \
         writes over them, and seqrd reads what it has read from memory again.",
        "Sequential modes end after one pass over the files, or earlier when the time is over.",
    ),
    (
        "Each fsync counts as an event beside reads and writes: it is part of the latencies, and of the \
         number of events that ends a run.",
        "Latencies and events are those of reads and writes; fsyncs are recorded apart.",
    ),
    (
        "Nothing empties the caches: what was prepared a moment ago is read from memory.",
        "With cold=drop-caches, the default in both modes, each mode but seqwr starts cold; cold=none is \
         what the original does.",
    ),
    (
        "With fsync_end each thread syncs all files when it is done, while others still write; a run \
         without it ends before anything is durable.",
        "All files are synced once when the last thread is done, and then syncfs follows unless \
         sync=false; throughput is that until durable.",
    ),
    (
        "The files of every fsync_freq-th request are synced by whichever threads are free.",
        "In both modes the thread that made the request syncs them all.",
    ),
    (
        "prepare is a command of its own, and run goes wrong or reads holes without it.",
        "In both modes what is not there is written before a mode that needs it, outside of its time.",
    ),
    (
        "All that is prepared and written is zeros, which some filesystems compress or do not store.",
        "In both modes payload=original writes zeros; the default payload is realistic. A block that is \
         written again gets the same bytes, so that contents can be compared at the end.",
    ),
    (
        "Places are drawn with a seed from the clock.",
        "In both modes the seed is that of the trial. As in the original every block has the same \
         chance: its options for distributions do not reach this test.",
    ),
];

const PARAMS: &[ParamDef] = &[
    text(
        "modes",
        ("all", None),
        |text| parse_modes(text).map(drop),
        "what is done, one phase each, in this order: `all` or some of seqwr, seqrewr, seqrd, rndrd, \
         rndwr and rndrw, joined with +",
    ),
    count("file_num", (1, 1_000_000), ("128", Some("16")), "number of files"),
    bytes("total_size", (1, 1 << 50), ("2GiB", Some("48MiB")), "bytes of all files together"),
    bytes("bs", (1, 1 << 50), ("16KiB", None), "bytes of each read and write"),
    text(
        "runtime",
        ("10s", Some("150ms")),
        |text| parse_duration_ns(text).map(drop).map_err(|error| error.to_string()),
        "time after which a phase begins no further request: `10s`, `2m`",
    ),
    count("events", (0, u64::MAX), ("0", None), "requests after which a phase ends; 0: no limit"),
    text(
        "rw_ratio",
        ("1.5", None),
        |text| parse_ratio(text).map(drop),
        "reads to one write in the mode rndrw",
    ),
    count(
        "fsync_freq",
        (0, 1_000_000_000),
        ("100", None),
        "requests after which all files are synced, in modes that write; 0: never",
    ),
    flag(
        "fsync_all",
        "false",
        "whether a file is synced after every write to it, and at no other time",
    ),
    flag("fsync_end", "true", "whether all files are synced at the end, in modes that write"),
    choice("fsync_mode", &["fsync", "fdatasync"], "fsync", "how files are synced"),
    choice(
        "extra_flags",
        &["none", "direct", "sync", "dsync"],
        "none",
        "how files are opened: `direct` past the page cache, `sync` and `dsync` so that each write is \
         durable when it returns",
    ),
    numjobs(
        "threads, which share the files; in sequential modes they take turns at the next block",
    ),
    count(
        "percentile",
        (1, 100),
        ("95", None),
        "share of requests whose latency is told, in percent",
    ),
    MODE,
    cold("drop-caches", "how the caches are emptied before each phase but seqwr"),
    SYNC,
    PAYLOAD,
    FRAGMENTATION,
];

/// The catalogue entry.
pub static DEF: WorkloadDef = WorkloadDef {
    info: WorkloadInfo {
        name: "fileio",
        summary: "read and write blocks of some large files, in order and at random",
        doc: WorkloadDoc {
            timed: "Each mode as one sample: its reads, writes and fsyncs until the files are gone \
                    through, the time is over or the events are done. mode=corrected ends it with \
                    syncfs on the target unless sync=false. Making the payload is part of the time.",
            not_timed: "Making, filling, opening and closing files; emptying the caches before each \
                        mode but seqwr; comparing a sample of the files at the end.",
            models: "Databases and other programs that keep their data in some large files: scans and \
                     bulk loads in order, look-ups and updates at random, with syncs now and then. It \
                     is sysbench's test fileio with its parameters.",
            read_it_as: "MiB per second of the sequential modes, requests per second of the random ones, \
                         with the latency that 95 % of the requests kept. Random writes with \
                         fsync_freq=100 show how well many dirty blocks of many files are written \
                         back; fsync_all=true shows the cost of each commit.",
            caveats: "One request at a time for each thread: deeper queues and open loops are those of \
                      random-io. Files that fit into memory are cold only until they were read once: \
                      random reads of a long run come from memory more and more, unless \
                      extra_flags=direct is given or total_size is more than the memory.",
        },
        differences: DIFFERENCES,
        params: PARAMS,
        phases: &[
            PhaseInfo { name: "seqwr", doc: "writes new files in order" },
            PhaseInfo { name: "seqrewr", doc: "writes the files again in order" },
            PhaseInfo { name: "seqrd", doc: "reads the files in order" },
            PhaseInfo { name: "rndrd", doc: "reads blocks anywhere" },
            PhaseInfo { name: "rndwr", doc: "writes blocks anywhere" },
            PhaseInfo { name: "rndrw", doc: "reads and writes blocks anywhere" },
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
    Settings::new(params).map(drop)
}

fn peak_bytes(params: &Params) -> anyhow::Result<Option<u64>> {
    let settings = Settings::new(params).map_err(anyhow::Error::msg)?;
    let file_bytes = settings.file_bytes().next_multiple_of(BLOCK_BYTES);
    let entries = settings.files.saturating_mul(ENTRY_BYTES) + BLOCK_BYTES;
    let directory_bytes = entries.next_multiple_of(BLOCK_BYTES);
    Ok(Some(settings.files.saturating_mul(file_bytes).saturating_add(directory_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_do_not_go_together_are_refused() {
        for (pairs, words) in [
            (&[("total_size", "1MiB")][..], "leaves no block of 16384 bytes"),
            (&[("extra_flags", "direct"), ("bs", "1000")], "multiples of 512"),
        ] {
            let mut params = Params::defaults(PARAMS, false);
            for (name, text) in pairs {
                params.set(PARAMS, name, text).unwrap();
            }
            let error = check(&params).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let mut params = Params::defaults(PARAMS, false);
        assert_eq!(check(&params), Ok(()));
        for (name, text) in [("modes", "seqrw"), ("rw_ratio", "much"), ("runtime", "soon")] {
            assert!(params.set(PARAMS, name, text).is_err(), "{name}={text}");
        }
    }
}
