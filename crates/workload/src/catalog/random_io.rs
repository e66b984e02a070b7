//! The workload `random-io`: its definition and its parameters. The loops are in [`crate::random_io`].

use fsdyno_model::info::{PhaseInfo, WorkloadDoc, WorkloadInfo};
use fsdyno_model::param::{ParamDef, Params};

use super::WorkloadDef;
use crate::fragmentation;
use crate::params::{
    FRAGMENTATION, PAYLOAD, SYNC, bytes, choice, cold, count, flag, numjobs, text,
};
use crate::random_io::run;
use crate::random_io::settings::{Settings, check_duration};

/// What a file takes is rounded up to this.
const BLOCK_BYTES: u64 = 4096;

const PARAMS: &[ParamDef] = &[
    bytes(
        "size",
        (512, 1 << 44),
        ("1GiB", Some("16MiB")),
        "bytes of each file, cut to whole blocks",
    ),
    bytes(
        "bs",
        (512, 64 << 20),
        ("4KiB", None),
        "bytes of one read or write, at a multiple of itself",
    ),
    choice(
        "rw",
        &["read", "write", "randread", "randwrite", "rw", "randrw"],
        "randrw",
        "read, write or both; one block after the other, or any block, all alike (one may come again \
         before all came, fio's norandommap=1)",
    ),
    count(
        "rwmixread",
        (0, 100),
        ("50", None),
        "percent of the operations that read, where rw is both",
    ),
    choice(
        "engine",
        &["psync", "io_uring"],
        "psync",
        "who makes the calls: the job itself (pread, pwrite), or io_uring, which takes all that are \
         ready at once",
    ),
    count(
        "iodepth",
        (1, 4096),
        ("1", None),
        "operations under way in each job; more than 1 takes io_uring",
    ),
    flag(
        "registered",
        "false",
        "with io_uring: whether buffers and files are registered with the kernel",
    ),
    numjobs("threads that work at the same time, each in a file of its own"),
    flag("shared_file", "false", "whether all jobs work in one file instead"),
    flag(
        "direct",
        "false",
        "whether calls go past the page cache (O_DIRECT); where the filesystem cannot, the trial is skipped",
    ),
    text("runtime", ("30s", Some("500ms")), check_duration, "how long each job works, or `none`"),
    count(
        "operations",
        (0, 1 << 50),
        ("0", None),
        "reads and writes of each job; 0: until the runtime is over, or with runtime=none as many as the \
         file has blocks",
    ),
    text(
        "ramp",
        ("none", None),
        check_duration,
        "how long the load runs before it is measured, or `none`",
    ),
    count(
        "rate",
        (0, 100_000_000),
        ("0", None),
        "reads and writes per second of each job, begun at set times whether or not those before have \
         ended; 0: the next begins when one has ended",
    ),
    choice(
        "arrivals",
        &["even", "poisson"],
        "even",
        "with a rate: times evenly spaced, or those of a Poisson process",
    ),
    count(
        "fsync",
        (0, 1 << 40),
        ("0", None),
        "writes of a job after which it calls fsync; 0: never",
    ),
    count(
        "fdatasync",
        (0, 1 << 40),
        ("0", None),
        "writes of a job after which it calls fdatasync; 0: never",
    ),
    PAYLOAD,
    SYNC,
    cold("drop-caches", "how the caches are emptied between the layout and the load"),
    FRAGMENTATION,
];

/// The catalogue entry.
pub static DEF: WorkloadDef = WorkloadDef {
    info: WorkloadInfo {
        name: "random-io",
        summary: "read and write blocks of files at random or in sequence, with psync or io_uring",
        doc: WorkloadDoc {
            timed: "One phase, called read, write or mixed after rw: the reads, writes and syncs of all \
                    jobs, then syncfs unless sync=false. Making the payload of a write is part of the \
                    phase, but not of the latency of its call. Latency of read and write is that of \
                    the call (with io_uring from its way to the kernel until its end was seen: fio's \
                    clat); that of task is the whole (fio's lat), from when the operation was ready, \
                    or with a rate from the time at which it was due.",
            not_timed: "Laying the files out with payload (no holes) and making them durable; emptying \
                        the caches; the ramp; reading a sample of the blocks back at the end. With \
                        several jobs each sets up its buffers and its ring within the phase, which \
                        takes about a tenth of a millisecond.",
            models: "The load that fio generates: databases, virtual machines and whatever else works \
                     within large files in blocks of one size.",
            read_it_as: "Operations per second of all kinds; tasks_per_s counts reads and writes alone, \
                         task_p50_ms … task_max_ms are their latency. The rate until durable is the \
                         throughput. With direct=false and files that fit into memory it is the page \
                         cache that is measured: device_read_mib and device_write_mib tell.",
            caveats: "After the layout the files are in the page cache. fio drops a file from it when \
                      it opens it (invalidate=1); here cold= says what is dropped, once, before the \
                      load, and cold=none leaves everything cached. Blocks are drawn with repetition. \
                      A block is always overwritten with the same new contents, so a lost write is \
                      found only if it was the first to its block. With io_uring a sync is queued \
                      like a write and does not wait for those under way. An iodepth only helps \
                      where calls do not end at once, as reads from the page cache do.",
        },
        differences: &[],
        params: PARAMS,
        phases: &[
            PhaseInfo { name: "read", doc: "reads blocks (rw=read, randread)" },
            PhaseInfo { name: "write", doc: "overwrites blocks (rw=write, randwrite)" },
            PhaseInfo { name: "mixed", doc: "does both (rw=rw, randrw)" },
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
    Ok(Some(file_bytes.saturating_mul(settings.file_count() as u64).saturating_add(BLOCK_BYTES)))
}
