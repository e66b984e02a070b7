//! The workload `bonnie`: its definition, its parameters and where it differs from the original. The run
//! itself is in [`crate::bonnie`].

use fsdyno_model::info::{PhaseInfo, WorkloadDoc, WorkloadInfo};
use fsdyno_model::param::{ParamDef, Params};

use super::WorkloadDef;
use crate::bonnie::memory::usable_bytes;
use crate::bonnie::names::Names;
use crate::bonnie::run::run;
use crate::bonnie::settings::{
    COLD_AUTO, FILES_UNIT, Settings, SmallFiles, check_auto_or_bytes, check_max, check_per_char,
};
use crate::context::Context;
use crate::fragmentation;
use crate::params::{FRAGMENTATION, MODE, PAYLOAD, SYNC, bytes, choice, count, flag, text};

/// What a small file takes is rounded up to this.
const BLOCK_BYTES: u64 = 4096;
/// Bytes of an entry for a name of 16 letters, in blocks that are half full after they were split.
const ENTRY_BYTES: u64 = 64;

/// Where `mode=corrected` differs from bonnie++ 2.00a: what the original does, and what is done instead.
/// `mode=original` does as the original, but for the entries that say so.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "A phase that writes ends with fsync on the one file that it wrote, within its time; creation \
         and deletion end with a sync of all filesystems of the machine.",
        "Each phase that writes ends with syncfs on the target, and its rate is until durable.",
    ),
    (
        "Files are read with whatever the page cache still holds of them, which the size of twice \
         the memory is to prevent; a file of less is refused.",
        "The caches are emptied before every phase that reads, and the record tells how; a smaller \
         file is therefore taken, with a warning where it is read warm.",
    ),
    (
        "With direct I/O (-D) only the block write bypasses the page cache: the file is opened again \
         without it for the rewrite, the reads and the seeks. Single bytes are written with it too, \
         which most filesystems refuse.",
        "Every phase in chunks bypasses the page cache. In both modes single bytes never do.",
    ),
    (
        "Processor time is that of the process. The kernel's threads that write the data back, for \
         which the filesystem may well need more, are left out.",
        "The value `true_cpu_percent` adds the filesystem's own kernel threads; \
         `original_cpu_percent` is what the original would have shown. Both modes store both.",
    ),
    (
        "Each of the five seekers counts the processor time of the whole process, and the sum is \
         shown: 2 processors can be 567 % busy.",
        "`true_cpu_percent` counts it once. `original_cpu_percent` of the seeks is the sum in both modes.",
    ),
    (
        "The latency of a phase is the longest time of one chunk or one file alone; of single bytes, \
         that of a chunk of them.",
        "In both modes the value `max_latency_ns` is that, and the record holds the distribution over \
         all calls besides (of single bytes, over chunks of them).",
    ),
    (
        "A rewritten chunk counts once, although it is read and written.",
        "Both modes show `rewrite_mib_per_s`, which counts once; bytes of the record count both ways.",
    ),
    (
        "Single bytes: 1.03 writes and reads the whole file through the C library (putc, getc); 2.00a \
         makes one system call for each of 3 MiB, where its manual says 20.",
        "Both modes do as 2.00a; per_char=all takes the whole file, by system calls as well.",
    ),
    (
        "The seekers of 1.03 are three processes, each rewriting every tenth chunk of its own; those of \
         2.00a are five threads that get tickets from a pipe. A pause of 3 s (1.03: 5 s) goes before.",
        "Both modes do as 2.00a, but with a counter instead of the pipe, which costs no system call, \
         and without the pause, which lies in no figure.",
    ),
    (
        "1.03 spreads the large file over pieces of 1 GiB, makes small files without O_EXCL, numbers \
         them with 7 decimal digits, and syncs in no phase.",
        "Both modes do as 2.00a: one file, O_EXCL, 10 hexadecimal digits. The names differ from run to \
         run in the original; here they follow from the seed.",
    ),
    (
        "Symbolic links to a file in another directory lead nowhere; stat follows a link.",
        "In both modes links lead to the first file, and stat asks for the link itself.",
    ),
    (
        "What it writes compresses by a factor of nearly 200: zeros, of which one byte is counted up \
         before each chunk.",
        "Both modes write payload of stated entropy by default. In the large file it repeats every \
         MiB, but for eight bytes of each block of 4 KiB, so that making it takes no time of the phase; \
         with duplicates it is made within that time. payload=original writes as the original, but \
         for small files, which then hold the letter a.",
    ),
    (
        "Under -c N it runs no copies: N only scales the check of the memory.",
        "Left out in both modes, and so are -b (fsync after every write), -p and -y (several programs \
         in step) and -x (repeat): trials repeat.",
    ),
    (
        "Its table of small files shows their number instead of every rate; in its CSV, the chunk size \
         is missing and the number of directories stands in the field of another figure.",
        "The output format `bonnie-2.00` has the layout of the original and the right figures in it.",
    ),
];

const PARAMS: &[ParamDef] = &[
    text(
        "size",
        ("auto", Some("64MiB")),
        check_auto_or_bytes,
        "bytes of the large file, whole MiB (-s); `auto`: twice the memory, 300 MiB at least; 0 \
         leaves it out",
    ),
    text(
        "ram",
        ("auto", Some("0")),
        check_auto_or_bytes,
        "memory that the size must be twice of (-r); `auto`: of the machine or of the control \
         group; 0 switches the rule off",
    ),
    bytes("chunk", (256, 1 << 20), ("8KiB", None), "bytes of one read or write, a power of two"),
    text(
        "per_char",
        ("3MiB", Some("256KiB")),
        check_per_char,
        "bytes that are written and read one at a time (-f); `all`: the whole size; 0 leaves these \
         phases out",
    ),
    count(
        "files",
        (0, Names::MOST_FILES / FILES_UNIT),
        ("16", Some("1")),
        "number of small files in units of 1024 (-n); 0 leaves them out",
    ),
    text(
        "max",
        ("0", None),
        check_max,
        "greatest size of a small file; `link` and `symlink` make links to one file (-1 and -2)",
    ),
    bytes(
        "min",
        (0, 1 << 32),
        ("0", None),
        "least size of a small file; sizes are drawn evenly from min to max",
    ),
    count("dirs", (1, 99_999), ("1", None), "directories that the small files are spread over"),
    flag(
        "direct",
        "false",
        "whether chunks go past the page cache (-D, O_DIRECT); chunk must then be a multiple of \
         the device's block size",
    ),
    count("seekers", (1, 1024), ("5", None), "threads that seek at the same time"),
    count(
        "seeks",
        (0, 1 << 40),
        ("8192", Some("1024")),
        "seeks of all of them together; 0 leaves them out",
    ),
    choice(
        "cold",
        &[COLD_AUTO, "remount", "drop-caches", "none"],
        COLD_AUTO,
        "how the caches are emptied before the phases that read; `auto`: drop-caches, and none in \
         mode=original",
    ),
    MODE,
    PAYLOAD,
    SYNC,
    FRAGMENTATION,
];

/// The catalogue entry.
pub static DEF: WorkloadDef = WorkloadDef {
    info: WorkloadInfo {
        name: "bonnie",
        summary: "one large file by bytes, by chunks and at random, then many small ones, as bonnie++ does",
        doc: WorkloadDoc {
            timed: "Each phase as one sample. The large file: all calls of the phase and close, then \
                    syncfs on the target where the phase writes (mode=original: fsync before close \
                    instead, in every phase). The small files: all calls and the removal of their \
                    directories, then syncfs (mode=original: sync of the whole machine) after creation \
                    and deletion. Making the payload of small files is part of their creation.",
            not_timed: "Opening the large file, removing it, making directories, names and threads; \
                        emptying the caches; comparing up to 4096 chunks after read-block, those that \
                        seekers wrote after seeks, and up to 2000 small files after each stat.",
            models: "A database's large file that is written, updated, scanned and looked up at random, \
                     and the spool directories of mail, news and caches. It is bonnie++ 2.00a, phase for \
                     phase; format `bonnie-1.03` shows it as the older tool would.",
            read_it_as: "The block phases show streaming speed, rewrite the cost of changing data in \
                         place (which copy-on-write filesystems do elsewhere), seeks how many random \
                         reads a second five threads get. Compare `true_cpu_percent`, not %CP. The \
                         phases on single bytes show the cost of a system call, not of the disk.",
            caveats: "One thread, but for the seeks. The default size is twice the memory, so that a run \
                      takes long; --quick takes 64 MiB with the rule off. Small files are empty by \
                      default: stat reads nothing. Deletion starts with what stat left in the caches. \
                      With sync=false or cold=none rates show the page cache. Processor time includes \
                      the sampler of kernel threads, below one per cent.",
        },
        differences: DIFFERENCES,
        params: PARAMS,
        phases: &[
            PhaseInfo { name: "write-char", doc: "writes a file one byte at a time" },
            PhaseInfo { name: "write-block", doc: "writes the large file in chunks" },
            PhaseInfo {
                name: "rewrite",
                doc: "reads each chunk, changes a byte, goes back and writes it",
            },
            PhaseInfo {
                name: "read-char",
                doc: "reads the beginning of the large file one byte at a time",
            },
            PhaseInfo { name: "read-block", doc: "reads the large file in chunks" },
            PhaseInfo {
                name: "seeks",
                doc: "reads random chunks from several threads, writes every tenth back",
            },
            PhaseInfo { name: "create-sequential", doc: "makes small files with ascending names" },
            PhaseInfo {
                name: "stat-sequential",
                doc: "asks for the attributes of each and reads it, as the directory lists them",
            },
            PhaseInfo {
                name: "delete-sequential",
                doc: "removes each, as the directory lists them",
            },
            PhaseInfo { name: "create-random", doc: "makes small files with random names" },
            PhaseInfo {
                name: "stat-random",
                doc: "asks for the attributes of each and reads it, in random order",
            },
            PhaseInfo { name: "delete-random", doc: "removes each in random order" },
            fragmentation::PHASE,
        ],
    },
    check: |params| settings(params).map(drop),
    peak_bytes,
    input_bytes: None,
    run: |context: &mut Context<'_>| {
        let settings = settings(context.params).map_err(anyhow::Error::msg)?;
        run(context, &settings)
    },
    rungs: None,
    dry_run: None,
};

fn settings(params: &Params) -> Result<Settings, String> {
    Settings::new(params, usable_bytes())
}

fn peak_bytes(params: &Params) -> anyhow::Result<Option<u64>> {
    let settings = settings(params).map_err(anyhow::Error::msg)?;
    // Removing the large file may go on while the small ones are made.
    let file_bytes = match settings.small_files {
        SmallFiles::Files { max_bytes, .. } => max_bytes.next_multiple_of(BLOCK_BYTES),
        SmallFiles::Links | SmallFiles::Symlinks => 0,
    };
    let count = settings.file_count;
    let entries = count.saturating_mul(ENTRY_BYTES).next_multiple_of(BLOCK_BYTES);
    let directories = if count == 0 { 0 } else { (settings.directory_count + 1) * BLOCK_BYTES };
    let small = count.saturating_mul(file_bytes).saturating_add(entries + directories);
    Ok(Some(settings.size_bytes.saturating_add(small)))
}
