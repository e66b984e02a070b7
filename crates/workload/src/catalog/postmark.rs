//! The workload `postmark`: its definition, its parameters and where it differs from the original. The
//! operations are in [`crate::postmark`].

use fsdyno_model::info::{PhaseInfo, WorkloadDoc, WorkloadInfo};
use fsdyno_model::param::{ParamDef, Params};
use fsdyno_model::units::parse_duration_ns;

use super::{DryRun, WorkloadDef};
use crate::fragmentation;
use crate::params::{FRAGMENTATION, MODE, PAYLOAD, SYNC, bytes, cold, count, flag, numjobs, text};
use crate::postmark::run::run;
use crate::postmark::sequence::{Action, Op, Sequence};
use crate::postmark::settings::{
    SEED_OF_TRIAL, Settings, check_bias_create, check_bias_read, check_seed,
};

/// What a file or directory takes is rounded up to this.
const BLOCK_BYTES: u64 = 4096;
/// Bytes of an entry for a name of up to ten letters, in blocks that are half full after they were split.
const ENTRY_BYTES: u64 = 48;

/// Where `mode=corrected` differs from PostMark 1.53: what the original does, and what is done
/// instead. `mode=original` does as the original, but for the last entries, which hold in both modes.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "Nothing is ever made durable (no fsync, no sync): what is fast is what puts off its work.",
        "Each phase ends with syncfs, and rates are those until durable; the time until the last call \
         returned is recorded beside it.",
    ),
    (
        "Bytes are counted in C floats, which are inexact beyond 16 MiB.",
        "Bytes are counted exactly. mode=original records both counts, and --format postmark prints \
         the inexact ones.",
    ),
    (
        "When the transactions have deleted every file it says `out of files!` and prints no \
         report. mode=original ends as a failure with these words.",
        "The phase ends there, the others follow, and a warning says after how many transactions.",
    ),
    (
        "Fewer than 10 transactions divide by zero. mode=original refuses them.",
        "Any number of transactions from 1 on is carried out.",
    ),
    (
        "Times are whole seconds, at least 1, and rates whole numbers.",
        "In both modes times are in nanoseconds. Only --format postmark rounds: down to whole seconds, \
         as if the run began on a full second, where the original's clock begins anywhere within one.",
    ),
    (
        "Every file is a beginning of one buffer of printable characters, so that a filesystem which \
         finds equal blocks stores them once.",
        "In both modes payload=original writes this; the default payload is realistic.",
    ),
    (
        "Errors of writing are not noticed, and contents never read back.",
        "In both modes every error of a call ends the run and names the file; a sample of the files is \
         compared before they are deleted.",
    ),
    (
        "The buffer of its C library has the size that the filesystem states for blocks, and each open \
         file is asked for its attributes and, before an append, moved to its end.",
        "In both modes the buffer has 4096 bytes, what filesystems with blocks of 4 KiB state, and \
         these further calls are left out. So are empty writes and reads where buffered=false and a \
         size is a multiple of the block.",
    ),
    (
        "Names begin at a directory given as an absolute path; several directories can be given with \
         weights.",
        "In both modes names begin at one open directory. With numjobs each pool of files has its own.",
    ),
];

const PARAMS: &[ParamDef] = &[
    text(
        "seed",
        ("42", None),
        check_seed,
        "seed of the sequence, 1 … 2147483647; `trial` takes another one in each trial, from the \
         seed of the trial",
    ),
    count("number", (1, 10_000_000), ("500", None), "files that are created first"),
    count(
        "transactions",
        (1, 1_000_000_000),
        ("500", None),
        "transactions; at least 10 with mode=original",
    ),
    count(
        "subdirectories",
        (0, 100_000),
        ("0", None),
        "subdirectories that the files are spread over; 0 and 1 mean none",
    ),
    bytes("size_low", (1, 512 << 20), ("500", None), "least size of a new file"),
    bytes(
        "size_high",
        (1, 512 << 20),
        ("10000", None),
        "new files are smaller than this (unless it equals size_low), and none grows over it",
    ),
    bytes("read_block", (1, 512 << 20), ("512", None), "bytes per block read"),
    bytes("write_block", (1, 512 << 20), ("512", None), "bytes per block written"),
    text(
        "bias_read",
        ("5", None),
        check_bias_read,
        "transactions out of 10 that read a file instead of appending to one; `off` or, as in the \
         original, `-1`: neither",
    ),
    text(
        "bias_create",
        ("5", None),
        check_bias_create,
        "transactions out of 10 that create a file instead of deleting one; `off` or, as in the \
         original, `-1`: neither",
    ),
    flag(
        "buffered",
        "true",
        "whether blocks go through a buffer of 4096 bytes, as those of C's standard input and output \
         do; false: one call per block",
    ),
    numjobs(
        "pools of files, each in a directory of its own with a thread of its own, with the seeds \
             seed, seed + 1, …; number and transactions are those of each",
    ),
    flag(
        "calibrate",
        "false",
        "try heavier loads one after the other (number, transactions, then numjobs rise) until the \
         phase transactions tells every two targets apart, or calibrate_budget is spent; needs at \
         least 3 trials and two targets",
    ),
    text(
        "calibrate_budget",
        ("10m", Some("1m")),
        check_budget,
        "time after which calibrate=true climbs no further: `90s`, `10m`, `2h`",
    ),
    MODE,
    cold(
        "none",
        "how the caches are emptied before the phases transactions and delete; the original never does",
    ),
    SYNC,
    PAYLOAD,
    FRAGMENTATION,
];

/// The catalogue entry.
pub static DEF: WorkloadDef = WorkloadDef {
    info: WorkloadInfo {
        name: "postmark",
        summary: "a mail server's pool of short-lived small files: create, read, append, delete",
        doc: WorkloadDoc {
            timed: "Each phase as one sample. create: the first files, open, write, close each. \
                    transactions: each reads a whole file or appends to one, and creates a file or \
                    deletes one. delete: what is left. mode=corrected ends each with syncfs on the \
                    target unless sync=false. Drawing the operations and making the payload is part \
                    of the phases.",
            not_timed: "Filling the buffer that files are written from; making and removing the \
                        directories, as in the original; emptying the caches where cold= asks for it; \
                        comparing a sample of the files before they are deleted.",
            models: "Servers of electronic mail, net news and web commerce of the 1990s: many small \
                     files that live for a short time. It is PostMark 1.53, operation for operation: \
                     the same seed gives the same names, sizes and order.",
            read_it_as: "Transactions per second until durable: what the filesystem's metadata and \
                         small allocations cost when creation, deletion, reading and appending are \
                         mixed. mode=original shows the rate until the last call returned, mostly \
                         that of the page cache.",
            caveats: "The defaults are those of the original: 500 files and 500 transactions are done \
                      in some hundredths of a second, in memory, and cannot tell filesystems apart. \
                      Use calibrate=true, or number=20000,transactions=100000,subdirectories=10 and \
                      more. An append to a full file is passed over and not counted, as in the \
                      original. One thread unless numjobs is given. Reads come from memory unless \
                      the files need more than that, whatever cold= says: transactions read what \
                      they have written.",
        },
        differences: DIFFERENCES,
        params: PARAMS,
        phases: &[
            PhaseInfo { name: "create", doc: "creates the first files" },
            PhaseInfo { name: "transactions", doc: "reads or appends, and creates or deletes" },
            PhaseInfo { name: "delete", doc: "deletes the files that are left" },
            fragmentation::PHASE,
        ],
    },
    check,
    peak_bytes,
    input_bytes: None,
    run,
    rungs: Some(rungs),
    dry_run: Some(dry_run),
};

fn check_budget(text: &str) -> Result<(), String> {
    parse_duration_ns(text).map(drop).map_err(|error| error.to_string())
}

fn check(params: &Params) -> Result<(), String> {
    Settings::new(params, 0).map(drop)
}

fn peak_bytes(params: &Params) -> anyhow::Result<Option<u64>> {
    let settings = Settings::new(params, 0).map_err(anyhow::Error::msg)?;
    let taken = |size: u32| u64::from(size).next_multiple_of(BLOCK_BYTES);
    let mut peak = 0;
    for index in 0..settings.pools {
        let config = settings.sequence_of(index);
        let (mut held, mut most, mut files, mut most_files) = (0u64, 0u64, 0u64, 0u64);
        for op in Sequence::new(config) {
            let size = taken(op.file.size_bytes);
            match op.action {
                Action::Create => (held, files) = (held + size, files + 1),
                Action::Append => held += size - taken(op.offset_bytes()),
                Action::Delete => (held, files) = (held - size, files - 1),
                Action::Read => {}
            }
            (most, most_files) = (most.max(held), most_files.max(files));
        }
        let directories = u64::from(config.made_subdirectories()) + 1;
        let entries = most_files.div_ceil(directories) * ENTRY_BYTES;
        peak += most + directories * (entries + BLOCK_BYTES).next_multiple_of(BLOCK_BYTES);
    }
    if params.text("seed") == SEED_OF_TRIAL {
        // Other seeds need a little more or less.
        peak += peak / 8 + 64 * taken(settings.sequence.size_high);
    }
    Ok(Some(peak))
}

/// Four times the files and transactions a rung; at the top four and sixteen times the pools, each with
/// as many transactions as before and so few files that as many are there in all.
fn rungs(params: &Params) -> Vec<Params> {
    const ALONE: u32 = 5;
    const FACTORS: [u64; 2] = [4, 16];
    let scaled = |number: u64, transactions: u64, jobs: u64| {
        let mut rung = params.clone();
        let values = [
            ("calibrate", "false".to_owned()),
            (
                "number",
                (params.number("number").saturating_mul(number)).min(10_000_000).to_string(),
            ),
            (
                "transactions",
                (params.number("transactions").saturating_mul(transactions))
                    .min(1_000_000_000)
                    .to_string(),
            ),
            ("numjobs", (params.number("numjobs").saturating_mul(jobs)).min(1024).to_string()),
        ];
        for (name, text) in values {
            rung.set(PARAMS, name, &text).expect("the value was kept within the bounds");
        }
        rung
    };
    let alone = (0..ALONE).map(|rung| scaled(4u64.pow(rung), 4u64.pow(rung), 1));
    let top = 4u64.pow(ALONE - 1);
    let together = FACTORS.map(|jobs| scaled(top / jobs, top, jobs));
    alone.chain(together).collect()
}

fn dry_run(params: &Params, seed: u64) -> anyhow::Result<DryRun> {
    let settings = Settings::new(params, seed).map_err(anyhow::Error::msg)?;
    let pools = 0..settings.pools;
    Ok(Box::new(pools.flat_map(move |index| {
        let prefix = settings.prefix_of(index);
        Sequence::new(settings.sequence_of(index)).map(move |op| line(&prefix, &op))
    })))
}

/// `create s3/17 5642`, `append s3/17 910`, `read s3/17 6552`, `delete s3/17`.
fn line(prefix: &str, op: &Op) -> String {
    let subdirectory = op.file.subdirectory.map_or_else(String::new, |index| format!("s{index}/"));
    let name = format!("{prefix}{subdirectory}{}", op.file.id);
    let bytes = op.count_bytes;
    match op.action {
        Action::Create => format!("create {name} {bytes}"),
        Action::Read => format!("read {name} {bytes}"),
        Action::Append => format!("append {name} {bytes}"),
        Action::Delete => format!("delete {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(pairs: &[(&str, &str)]) -> Params {
        let mut params = Params::defaults(PARAMS, false);
        for (name, text) in pairs {
            params.set(PARAMS, name, text).unwrap();
        }
        params
    }

    #[test]
    fn rungs_begin_with_what_is_given_and_grow() {
        let given = params(&[("calibrate", "true"), ("size_high", "20000")]);
        let rungs = rungs(&given);
        assert_eq!(rungs.len(), 7);
        assert_eq!(rungs[0], params(&[("size_high", "20000")]));
        let work = |rung: &Params| {
            let jobs = rung.number("numjobs");
            (jobs * rung.number("transactions"), jobs * rung.number("number"), jobs)
        };
        for pair in rungs.windows(2) {
            let (lower, upper) = (work(&pair[0]), work(&pair[1]));
            assert!(lower.0 < upper.0 && lower.1 <= upper.1 && lower.2 <= upper.2, "{pair:?}");
        }
        for rung in &rungs {
            assert!(!rung.flag("calibrate"));
            assert_eq!(rung.conform(PARAMS).and_then(|()| check(rung)), Ok(()));
        }
        assert_eq!(rungs[6].number("numjobs"), 16);
        // At their bounds they stay.
        let most = params(&[("number", "10000000"), ("transactions", "1000000000")]);
        assert!(super::rungs(&most).iter().all(|rung| check(rung).is_ok()));
    }

    #[test]
    fn parameters_that_do_not_go_together_are_refused() {
        for (pairs, words) in [
            (&[("size_low", "20000")][..], "swap them"),
            (&[("bias_read", "off"), ("bias_create", "-1")], "transactions would do nothing"),
            (&[("mode", "original"), ("transactions", "9")], "divides by zero"),
        ] {
            let error = check(&params(pairs)).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(check(&params(&[("transactions", "9")])), Ok(()));
        assert_eq!(check(&params(&[("size_low", "10000")])), Ok(()));
        let mut values = Params::default();
        for (name, text) in [
            ("seed", "0"),
            ("seed", "+5"),
            ("seed", "2147483648"),
            ("seed", "tria"),
            ("bias_read", "11"),
            ("bias_create", "on"),
            ("calibrate_budget", "soon"),
            ("size_low", "0"),
        ] {
            let error = values.set(PARAMS, name, text).unwrap_err();
            assert!(error.starts_with(name), "{error}");
        }
    }

    #[test]
    fn the_seed_of_the_trial_counts_only_where_asked() {
        let first = |params: &Params, seed| dry_run(params, seed).unwrap().next().unwrap();
        let (fixed, drawn) = (params(&[]), params(&[("seed", "trial")]));
        assert_eq!(first(&fixed, 1), first(&fixed, 2));
        assert_ne!(first(&drawn, 1), first(&drawn, 2));
        assert_eq!(first(&fixed, 1), "create 1 1390");
    }

    #[test]
    fn pools_differ_in_their_seed() {
        let two = params(&[("numjobs", "2"), ("subdirectories", "3")]);
        let lines: Vec<String> = dry_run(&two, 1).unwrap().collect();
        let alone = |seed: &str| -> Vec<String> {
            let one = params(&[("seed", seed), ("subdirectories", "3")]);
            dry_run(&one, 1).unwrap().collect()
        };
        let mut expected = Vec::new();
        for (pool, seed) in [("pool0", "42"), ("pool1", "43")] {
            let named = |line: String| line.replacen(" s", &format!(" {pool}/s"), 1);
            expected.extend(alone(seed).into_iter().map(named));
        }
        assert_eq!(lines, expected);
    }
}
