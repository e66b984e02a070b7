//! The workload `web-cache`: its definition, its parameters and its phases. The archive that it
//! extracts is made in [`crate::web_cache`], and read in [`crate::archive`].

use std::ffi::CStr;
use std::path::Path;

use anyhow::Context as _;
use fsdyno_model::cold::Cold;
use fsdyno_model::info::{PhaseInfo, WorkloadDoc, WorkloadInfo};
use fsdyno_model::param::{ParamDef, Params};
use fsdyno_model::payload::Payload;
use fsdyno_model::record::Warning;
use fsdyno_model::wire::Manifest;
use fsdyno_sys::calls::{Calls, Real};
use fsdyno_sys::child;

use super::WorkloadDef;
use crate::archive::{Archive, BLOCK_BYTES, ExtractOptions, Extracted, extract};
use crate::contents::verify_now;
use crate::context::Context;
use crate::failure::call_failed;
use crate::fragmentation;
use crate::params::{FRAGMENTATION, PAYLOAD, SYNC, bytes, choice, cold, count, path};
use crate::phase::{Durability, PhaseTally};
use crate::program::Program;
use crate::recorder::Operation;
use crate::walk::{Visit, Walker};
use crate::web_cache::generate::archive_size_bytes;
use crate::web_cache::model::CacheModel;
use crate::web_cache::{store, verify};

/// The directory that the archive is extracted into and that is removed.
const TOP: &CStr = c"cache";
const TOP_TEXT: &str = "cache";
/// The value of `archive` that stands for one of our own.
const GENERATED: &str = "generated";
/// Bytes of an entry in a directory, in blocks that are half full after they were split.
const ENTRY_BYTES: u64 = 40;
/// Archives of users up to this size are gone through to estimate what they take: some seconds.
const SURVEY_BYTES: u64 = 256 << 20;
const METRIC: &str = "elapsed_s";

const PARAMS: &[ParamDef] = &[
    path(
        "archive",
        GENERATED,
        "an archive to extract instead of the generated one: tar, plain or compressed by gzip, \
         zstd or xz",
    ),
    bytes(
        "size",
        (1, 1 << 44),
        ("1GiB", Some("16MiB")),
        "bytes of all objects in the generated archive",
    ),
    count("l1", (1, 256), ("16", None), "directories at the first level of the generated cache"),
    count(
        "l2",
        (1, 256),
        ("256", None),
        "directories in each of the first level, and files in each before the next is begun",
    ),
    count(
        "generator_seed",
        (0, u64::MAX),
        ("1", None),
        "what sizes and contents of the generated archive are drawn from; all trials use one \
         archive",
    ),
    choice(
        "tool",
        &["builtin", "tar"],
        "builtin",
        "who extracts and removes: fsdyno itself, or the programs `tar -xf` and `rm -r`",
    ),
    PAYLOAD,
    SYNC,
    cold("remount", "how the caches are emptied between extract and remove"),
    FRAGMENTATION,
];

/// The catalogue entry.
pub static DEF: WorkloadDef = WorkloadDef {
    info: WorkloadInfo {
        name: "web-cache",
        summary: "extract the archive of a web cache, and remove it",
        doc: WorkloadDoc {
            timed: "extract: from opening the archive to closing the last file, reading and \
                    decompressing ahead in a second thread included; modes and modification times \
                    are restored as tar does. remove: as rm -r does, each directory in the order of \
                    its listing, what is below first. Each until the last call returned, then \
                    syncfs on the target unless sync=false. With tool=tar the programs, from their \
                    start to their end.",
            not_timed: "Making the archive, which happens once and is kept below $XDG_CACHE_HOME \
                        (or ~/.cache); reading it into the page cache before extract, so that its \
                        own disk does not count; emptying the caches; reading back and comparing \
                        up to about 2000 files before remove.",
            models: "The comparison of filesystems for a squid cache of 2003: a tar archive of a \
                     slice of a cache extracted, then removed. Generated objects have the names \
                     and directories of squid's UFS store and lognormal sizes (median 4 KiB, mean \
                     about 13 kB, at most 4 MiB).",
            read_it_as: "Seconds, as in the published table. Creation of very many small files by \
                         one thread, with all the data that a disk must then take; and how fast \
                         they are forgotten. The time until durable counts: the time until return \
                         is stored beside it and mostly tells the size of memory.",
            caveats: "Caches of today hold other things: larger objects, and squid itself moved to \
                      stores with few large files. A lognormal has no very large objects. Files are \
                      made in the order of their numbers, as in a young cache; an old one is \
                      shuffled. An archive much smaller than memory is extracted into memory first, \
                      where the published one was nine times as large as it. An archive larger than \
                      memory does not stay in the page cache, and its disk counts again. Owners, \
                      devices and pipes of a user's archive are not restored by tool=builtin.",
        },
        differences: &[],
        params: PARAMS,
        phases: &[
            PhaseInfo { name: "extract", doc: "makes all files and directories of the archive" },
            PhaseInfo { name: "remove", doc: "removes them all" },
            fragmentation::PHASE,
        ],
    },
    check,
    peak_bytes,
    input_bytes: Some(input_bytes),
    run,
    rungs: None,
    dry_run: None,
};

/// Where the archive comes from.
enum Origin {
    Generated(CacheModel, Payload),
    Given(Archive),
}

impl Origin {
    fn of(params: &Params) -> anyhow::Result<Origin> {
        if params.text("archive") != GENERATED {
            return Ok(Origin::Given(Archive::open(Path::new(params.text("archive")))?));
        }
        let model = CacheModel {
            size_bytes: params.number("size"),
            l1: params.number("l1"),
            l2: params.number("l2"),
            seed: params.number("generator_seed"),
        };
        let payload = Payload::parse(params.text("payload")).map_err(anyhow::Error::msg)?;
        Ok(Origin::Generated(model, payload))
    }
}

fn uses_programs(params: &Params) -> bool {
    params.text("tool") == "tar"
}

fn check(params: &Params) -> Result<(), String> {
    Origin::of(params).map_err(|error| format!("archive: {error}"))?;
    let missing = ["tar", "rm"].into_iter().find(|name| child::find_program(name).is_none());
    match missing.filter(|_| uses_programs(params)) {
        Some(name) => Err(format!("tool=tar: {name} is not found: install it or use tool=builtin")),
        None => Ok(()),
    }
}

fn peak_bytes(params: &Params) -> anyhow::Result<Option<u64>> {
    Ok(match Origin::of(params)? {
        Origin::Generated(model, _) => Some(model.rounded_bytes(BLOCK_BYTES, ENTRY_BYTES)),
        Origin::Given(archive) if archive.size_bytes() > SURVEY_BYTES => None,
        Origin::Given(archive) => {
            let found = archive.survey()?;
            Some(
                found.rounded_bytes + (found.files + found.directories) * ENTRY_BYTES + BLOCK_BYTES,
            )
        }
    })
}

fn input_bytes(params: &Params) -> u64 {
    match Origin::of(params) {
        Ok(Origin::Generated(model, _)) => store::room_bytes(model),
        Ok(Origin::Given(_)) | Err(_) => 0,
    }
}

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let params = context.params;
    check(params).map_err(anyhow::Error::msg)?;
    let origin = Origin::of(params)?;
    let cold = Cold::parse(params.text("cold")).map_err(anyhow::Error::msg)?;
    let archive = prepare(context, &origin)?;
    Real.mkdir(context.root(), TOP).map_err(|errno| call_failed("mkdir", TOP_TEXT, errno))?;

    let extracted = measure_extract(context, &archive, &origin)?;
    if extracted.skipped > 0 {
        context.warn(Warning {
            code: "entries-skipped".to_owned(),
            message: format!(
                "{} entries of {} were not made: devices, pipes or unknown kinds",
                extracted.skipped,
                archive.path().display()
            ),
            advice: "nothing, unless they matter: regular files, directories and links were made"
                .to_owned(),
        })?;
    }
    context.make_cold(cold)?;
    context.progress.enter("verify");
    let payload = Payload::parse(params.text("payload")).map_err(anyhow::Error::msg)?;
    let verified = match &origin {
        Origin::Generated(model, payload) => {
            let sample = verify::generated(*model, *payload, TOP_TEXT, context.seed);
            verify_now(context.root_path(), sample)?
        }
        Origin::Given(archive) => {
            let top = open_top(context)?;
            verify::against_archive(&top, archive, extracted.files, context.seed)?
        }
    };
    context.note_verified(verified);
    fragmentation::survey(context)?;
    context.make_cold(cold)?;
    measure_remove(context, &extracted)?;
    context.hand_over(Manifest { payload, seed: context.seed, files: Vec::new() })
}

/// Makes sure that the archive is there and in the page cache.
fn prepare(context: &Context<'_>, origin: &Origin) -> anyhow::Result<Archive> {
    let advance = |bytes| context.progress.advance(bytes);
    match origin {
        Origin::Generated(model, payload) => {
            let size_bytes = archive_size_bytes(*model);
            context.progress.set_total(2 * size_bytes + model.size_bytes);
            let directory = store::cache_directory()?;
            store::obtain(&directory, *model, *payload, advance)
        }
        Origin::Given(archive) => {
            context.progress.set_total(2 * archive.size_bytes());
            archive.preload(advance)?;
            Ok(archive.clone())
        }
    }
}

fn durability(context: &Context<'_>) -> Durability {
    if context.params.flag("sync") { Durability::Target } else { Durability::None }
}

fn open_top(context: &Context<'_>) -> anyhow::Result<<Real as Calls>::Fd> {
    let top = Real.open_dir(context.root(), TOP);
    Ok(top.map_err(|errno| call_failed("open", TOP_TEXT, errno))?)
}

fn measure_extract(
    context: &Context<'_>,
    archive: &Archive,
    origin: &Origin,
) -> anyhow::Result<Extracted> {
    let mut tally = PhaseTally::new("extract", METRIC);
    let mut extracted = Extracted::default();
    if uses_programs(context.params) {
        extracted = expected(archive, origin)?;
        let path = archive.path().to_str().context("the path of the archive is not UTF-8")?;
        let program = Program::new(["tar", "-xf", path, "-C"]);
        let top = context.root_path().join(TOP_TEXT);
        let program = program.arg(top.to_str().context("the path of the target is not UTF-8")?);
        tally.measure(context, TOP_TEXT, durability(context), |recorder| {
            program.run()?;
            recorder.bytes += extracted.bytes;
            recorder.files += extracted.files;
            Ok(())
        })?;
    } else {
        let top = open_top(context)?;
        tally.measure(context, TOP_TEXT, durability(context), |recorder| {
            let advance = |bytes| context.progress.advance(bytes);
            extracted =
                extract(&Real, &top, archive, ExtractOptions::default(), recorder, advance)?;
            Ok(())
        })?;
    }
    context.finish_phase(tally.into_record())?;
    Ok(extracted)
}

/// What tar will make of the archive, which it does not tell.
fn expected(archive: &Archive, origin: &Origin) -> anyhow::Result<Extracted> {
    Ok(match origin {
        Origin::Generated(model, _) => Extracted {
            files: model.objects().count() as u64,
            bytes: model.size_bytes,
            ..Extracted::default()
        },
        Origin::Given(_) => {
            let found = archive.survey()?;
            Extracted { files: found.files, bytes: found.content_bytes, ..Extracted::default() }
        }
    })
}

fn measure_remove(context: &Context<'_>, extracted: &Extracted) -> anyhow::Result<()> {
    let mut tally = PhaseTally::new("remove", METRIC);
    if uses_programs(context.params) {
        let top = context.root_path().join(TOP_TEXT);
        let top = top.to_str().context("the path of the target is not UTF-8")?;
        let program = Program::new(["rm", "-r", "-f", top]);
        tally.measure(context, TOP_TEXT, durability(context), |recorder| {
            program.run()?;
            recorder.files += extracted.files;
            Ok(())
        })?;
    } else {
        let mut walker = Walker::new(0);
        let top = open_top(context)?;
        tally.measure(context, TOP_TEXT, durability(context), |recorder| {
            walker.walk(&Real, (&top, TOP_TEXT), Visit::Delete, recorder)?;
            Real.close(top).map_err(|errno| call_failed("close", TOP_TEXT, errno))?;
            recorder.end(Operation::Close);
            let removed = Real.rmdir(context.root(), TOP);
            removed.map_err(|errno| call_failed("rmdir", TOP_TEXT, errno))?;
            recorder.end(Operation::Rmdir);
            Ok(())
        })?;
    }
    context.finish_phase(tally.into_record())
}
