//! The workload `small-files`: its definition, its parameters and its phases. The loops themselves
//! are in [`crate::small_files`].

use std::ffi::CString;
use std::ops::Range;

use anyhow::Context as _;
use fsdyno_model::cold::Cold;
use fsdyno_model::info::{PhaseInfo, WorkloadDoc, WorkloadInfo};
use fsdyno_model::param::{ParamDef, Params};
use fsdyno_model::payload::Payload;
use fsdyno_model::wire::{Manifest, ManifestFile};
use fsdyno_sys::calls::{Calls, Real};

use super::WorkloadDef;
use crate::contents::{MANIFEST_FILES, PayloadBuffer, Reservoir, verify_now};
use crate::context::Context;
use crate::failure::{call_failed, check_interrupt};
use crate::fragmentation;
use crate::params::{FRAGMENTATION, PAYLOAD, SYNC, bytes, cold, count};
use crate::phase::{Durability, PhaseTally};
use crate::recorder::Recorder;
use crate::small_files::{FileNames, Loops, file_key};

/// Files between two looks at whether to stop: some milliseconds' worth.
const BATCH_FILES: u64 = 256;
/// Size of the buffers for reading and writing.
const BUFFER_BYTES: usize = 256 << 10;
/// About the most that is compared after the phase `read`.
const SAMPLE_BYTES: u64 = 256 << 20;
/// What a file or directory takes is rounded up to this.
const BLOCK_BYTES: u64 = 4096;
/// Bytes of an entry for a name of up to eight letters, in blocks that are half full after they were split.
const ENTRY_BYTES: u64 = 40;
const METRIC: &str = "files_per_s";

const PARAMS: &[ParamDef] = &[
    count("files", (1, 99_999_999), ("100000", Some("5000")), "number of files"),
    bytes("size", (0, 1 << 40), ("4KiB", None), "bytes in each file"),
    count(
        "directories",
        (1, 100_000),
        ("1", None),
        "directories that the files are spread over; with one it is the working directory itself",
    ),
    PAYLOAD,
    SYNC,
    cold("drop-caches", "how the caches are emptied before the phases stat, read and delete"),
    FRAGMENTATION,
];

/// The catalogue entry.
pub static DEF: WorkloadDef = WorkloadDef {
    info: WorkloadInfo {
        name: "small-files",
        summary: "create, stat, read and delete many files of one size",
        doc: WorkloadDoc {
            timed: "Each phase as one sample: its calls on all files, in the order of their names \
                    (create: open exclusively, write, close; stat: lstat; read: open, read until \
                    the end, close; delete: unlink), then syncfs on the target unless sync=false. \
                    Making the payload is part of create.",
            not_timed: "Making the directories and the names; dropping the caches before stat, \
                        read and delete; comparing the contents of up to 2000 files after read.",
            models: "Mail queues, caches, package extraction and other programs that handle many \
                     small files one after the other from one thread.",
            read_it_as: "Cost of the filesystem's metadata: directory entries, inodes and the \
                         allocation of small extents. Create and delete count until durable, so \
                         that a filesystem which only queues the work does not win.",
            caveats: "One thread; names in ascending order, which hashed directories scatter and \
                      ordered ones do not. With cold=none, or where caches cannot be dropped, stat \
                      and read show the kernel's caches.",
        },
        differences: &[],
        params: PARAMS,
        phases: &[
            PhaseInfo { name: "create", doc: "makes the files and writes them" },
            PhaseInfo { name: "stat", doc: "asks for the attributes of every file" },
            PhaseInfo { name: "read", doc: "reads every file to its end" },
            PhaseInfo { name: "delete", doc: "removes every file" },
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
    let (files, directories) = (params.number("files"), params.number("directories"));
    if directories > files {
        return Err(format!(
            "directories={directories} is more than files={files}: use fewer directories"
        ));
    }
    match files.checked_mul(params.number("size")) {
        Some(_) => Ok(()),
        None => Err("files times size is more than can be counted: use smaller files".to_owned()),
    }
}

fn peak_bytes(params: &Params) -> anyhow::Result<Option<u64>> {
    check(params).map_err(anyhow::Error::msg)?;
    let (files, directories) = (params.number("files"), params.number("directories"));
    let file_bytes = params.number("size").next_multiple_of(BLOCK_BYTES);
    let entries = files.div_ceil(directories).saturating_mul(ENTRY_BYTES);
    let directory_bytes = entries.next_multiple_of(BLOCK_BYTES).saturating_mul(directories);
    Ok(Some(files.saturating_mul(file_bytes).saturating_add(directory_bytes)))
}

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let params = context.params;
    check(params).map_err(anyhow::Error::msg)?;
    let size_bytes = params.number("size");
    let payload = Payload::parse(params.text("payload")).map_err(anyhow::Error::msg)?;
    let names = FileNames::new(params.number("files"), params.number("directories"));
    context.progress.set_total(4 * names.len());
    for directory in names.directories() {
        let name = CString::new(directory.as_str()).context("the name of a directory")?;
        Real.mkdir(context.root(), &name)
            .map_err(|errno| call_failed("mkdir", directory, errno))?;
    }

    let written = size_bytes.clamp(1, BUFFER_BYTES as u64) as usize;
    let mut source = PayloadBuffer::new(payload, context.seed, written);
    let mut buffer = vec![0; BUFFER_BYTES];
    let cold = Cold::parse(params.text("cold")).map_err(anyhow::Error::msg)?;
    measure(context, "create", &names, |loops, files, recorder| {
        loops.create(files, &mut source, recorder)
    })?;
    context.make_cold(cold)?;
    measure(context, "stat", &names, |loops, files, recorder| loops.stat(files, recorder))?;
    context.make_cold(cold)?;
    measure(context, "read", &names, |loops, files, recorder| {
        loops.read(files, &mut buffer, recorder)
    })?;

    context.progress.enter("verify");
    let seed = context.seed;
    let manifest = |files| Manifest { payload, seed, files };
    let sample = sample_of(&names, size_bytes, seed);
    context.note_verified(verify_now(context.root_path(), manifest(sample))?);
    fragmentation::survey(context)?;
    context.make_cold(cold)?;
    measure(context, "delete", &names, |loops, files, recorder| loops.delete(files, recorder))?;
    context.hand_over(manifest(Vec::new()))
}

/// Measures one phase over all files in one sample, looking now and then whether to stop.
fn measure<E>(
    context: &Context<'_>,
    name: &str,
    names: &FileNames,
    mut batch: impl FnMut(&Loops<'_, Real>, Range<u64>, &mut Recorder) -> Result<(), E>,
) -> anyhow::Result<()>
where
    anyhow::Error: From<E>,
{
    let durability =
        if context.params.flag("sync") { Durability::Target } else { Durability::None };
    let size_bytes = context.params.number("size");
    let loops = Loops { calls: &Real, root: context.root(), names, size_bytes };
    let mut tally = PhaseTally::new(name, METRIC);
    tally.measure(context, "all files", durability, |recorder| {
        let mut start = 0;
        while start < names.len() {
            check_interrupt()?;
            let end = names.len().min(start + BATCH_FILES);
            batch(&loops, start..end, recorder)?;
            context.progress.advance(end - start);
            start = end;
        }
        Ok(())
    })?;
    context.finish_phase(tally.into_record())
}

fn sample_of(names: &FileNames, size_bytes: u64, seed: u64) -> Vec<ManifestFile> {
    let affordable = SAMPLE_BYTES / size_bytes.max(1);
    let mut chosen = Reservoir::new(MANIFEST_FILES.min(1 + affordable as usize), seed);
    for index in 0..names.len() {
        chosen.offer(|| ManifestFile {
            path: names.file(index).to_string_lossy().into_owned(),
            size_bytes,
            content_key: file_key(index),
        });
    }
    chosen.into_vec()
}
