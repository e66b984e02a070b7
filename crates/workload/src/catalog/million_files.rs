//! The workload `million-files`: its definition, its parameters and its phases. The operations
//! themselves are in [`crate::million_files`].

use fsdyno_model::info::{PhaseInfo, WorkloadDoc, WorkloadInfo};
use fsdyno_model::param::{ParamDef, Params};

use super::WorkloadDef;
use crate::context::Context;
use crate::fragmentation;
use crate::million_files::name::MAX_FILES;
use crate::million_files::run::{LAYOUT, Settings, run};
use crate::million_files::stage::Stage;
use crate::params::{FRAGMENTATION, PAYLOAD, SYNC, bytes, cold, count, numjobs, text};

/// What a file or directory takes is rounded up to this.
const BLOCK_BYTES: u64 = 4096;
/// Bytes of an entry for a name of nine letters, in blocks that are half full after they were split.
const ENTRY_BYTES: u64 = 40;
/// Least bytes of a device for each file. mke2fs makes one inode for so many bytes (`inode_ratio` in
/// mke2fs.conf), and an ext filesystem with all of them in use is full whatever room is left.
const INODE_RATIO_BYTES: u64 = 16 << 10;

const PARAMS: &[ParamDef] = &[
    count(
        "files",
        (1, MAX_FILES),
        ("1000000", Some("5000")),
        "number of files; a million needs `--size 20GiB` on ext2, ext3 and ext4",
    ),
    bytes(
        "size",
        (0, 1 << 40),
        ("512", None),
        "bytes in each file; published were 0, 512 and 16KiB",
    ),
    text(
        "operations",
        ("create+find+read-tar+read-acp+read-physical+delete", None),
        Stage::check,
        "what is done, joined by `+`: create, then any of list, find, read-tar, read-acp, \
         read-physical and delete, in this order",
    ),
    cold("remount", "how the caches are emptied between every two operations"),
    numjobs(
        "threads; each has a directory of its own with its share of the files; with one it is \
             the working directory itself",
    ),
    count(
        "batch",
        (1, 100_000),
        ("1000", None),
        "files that each job of read-acp and read-physical has open at a time",
    ),
    PAYLOAD,
    SYNC,
    FRAGMENTATION,
];

const fn phase(stage: Stage, doc: &'static str) -> PhaseInfo {
    PhaseInfo { name: stage.word(), doc }
}

/// The catalogue entry.
pub static DEF: WorkloadDef = WorkloadDef {
    info: WorkloadInfo {
        name: "million-files",
        summary: "very many small files in one directory: create, find, read in three orders, delete",
        doc: WorkloadDoc {
            timed: "Each phase as one sample of all its calls, then syncfs on the target unless \
                    sync=false. create: open exclusively, write, close, in the order of the names; \
                    making the payload is part of it. Every other phase begins by reading the whole \
                    directory (getdents64), keeps the order and then works on the files. find: lstat \
                    of each, in readdir order. read-tar: readdir order; lstat, open, fstat, read, \
                    fstat, close of each, in reads of at most 10240 bytes, and two lstat of an empty \
                    file, which is not opened. read-acp: sorted by inode number; batches of opens \
                    with fstat, then readahead on each, then read and close of each. read-physical: \
                    the same in the order of the first extents, which are asked for (open, FIEMAP, \
                    close) in inode order before; files without one come first, by inode number. \
                    Sorting and asking are part of the time. delete: unlink in readdir order.",
            not_timed: "Unmounting and mounting, or what `cold` says, between every two operations; \
                        comparing the contents of up to 2000 files before delete; reading one byte \
                        of each file after create, where a phase will read them. The phase layout is \
                        no operation: its time tells nothing.",
            models: "Mail stores, caches, queues and data sets of single files, and programs that \
                     back up, search, copy and remove them. The orders are those of tar, of acp (a \
                     copier that sorts by inode number, reads in bulk and lets the kernel read \
                     ahead) and of acp -b.",
            read_it_as: "read-tar over read-acp is what reading one file after the other in readdir \
                         order costs. It has two parts. Batches keep many requests under way: where \
                         readdir order follows the inode numbers (the phase layout: correlation near \
                         1) that is all of it. Where names are hashed (near 0) tar also reads at \
                         random, which disks with moving heads pay most for. batch=1 leaves only the \
                         order. inline_share and metadata_data_distance_mib tell whether reading \
                         contents means another movement at all.",
            caveats: "Today's find and rm sort by inode number by themselves from 10,000 entries on, \
                      so that `find` here equals `find . -size +0` below that, and delete `rm -r`. A \
                      plain `find .` asks for no attributes where the directory tells the kind of \
                      each entry; that is the phase list. The published times of `find .` are so \
                      much shorter than those of tar on empty files that they must be compared with \
                      list. tar itself reads nothing when its archive is /dev/null. \
                      Mounted with relatime, as is the default, a file's access time is written when \
                      it is first read after a change: that read is made before, because the first \
                      of the phases would else pay for all of them. acp's own depth \
                      of batches is not known. ext2, ext3 and ext4 make one inode for 16 KiB of the \
                      device: the space that a run is said to need counts at least so much for each \
                      file, which the others do not need. With cold=none, or where caches cannot be \
                      dropped, everything is read from memory: device_read_share tells.",
        },
        differences: &[],
        params: PARAMS,
        phases: &[
            phase(Stage::Create, "makes the files and writes them"),
            PhaseInfo {
                name: LAYOUT,
                doc: "compares readdir order with inode numbers and places on the device; counts \
                      extents; not an operation",
            },
            phase(Stage::List, "lists the directory, as a plain find"),
            phase(Stage::Find, "lists it and asks for the attributes of every file"),
            phase(Stage::ReadTar, "reads the files in readdir order, as tar"),
            phase(Stage::ReadAcp, "reads them in inode order, in batches, as acp"),
            phase(
                Stage::ReadPhysical,
                "reads them in the order of their first extents, in batches",
            ),
            phase(Stage::Delete, "removes the files in readdir order"),
            fragmentation::PHASE,
        ],
    },
    check,
    peak_bytes,
    input_bytes: None,
    run: |context: &mut Context<'_>| run(context),
    rungs: None,
    dry_run: None,
};

fn check(params: &Params) -> Result<(), String> {
    Settings::new(params).map(drop)
}

/// Files and directories rounded up to blocks, but at least what an ext filesystem needs in order to have
/// an inode for each file.
fn peak_bytes(params: &Params) -> anyhow::Result<Option<u64>> {
    let settings = Settings::new(params).map_err(anyhow::Error::msg)?;
    let (files, directories) = (settings.files(), settings.numjobs());
    let file_bytes = settings.size_bytes().next_multiple_of(BLOCK_BYTES);
    let entries = files.div_ceil(directories).saturating_mul(ENTRY_BYTES);
    let directory_bytes = entries.next_multiple_of(BLOCK_BYTES).saturating_mul(directories);
    let contents = files.saturating_mul(file_bytes).saturating_add(directory_bytes);
    Ok(Some(contents.max(files.saturating_mul(INODE_RATIO_BYTES))))
}
