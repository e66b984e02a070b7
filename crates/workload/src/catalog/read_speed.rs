//! The workload `read-speed`: its definition, its parameters and its phases. The loops themselves are
//! in [`crate::read_speed`].

use std::ffi::{CStr, CString};
use std::path::Path;

use anyhow::Context as _;
use fsdyno_model::cold::Cold;
use fsdyno_model::info::{PhaseInfo, WorkloadDoc, WorkloadInfo};
use fsdyno_model::param::{ParamDef, Params};
use fsdyno_model::payload::Payload;
use fsdyno_model::record::Warning;
use fsdyno_model::wire::{Manifest, ManifestFile};
use fsdyno_sys::block::{self, DeviceNumber};
use fsdyno_sys::buffer::AlignedBuffer;
use fsdyno_sys::calls::{Calls, Real};
use fsdyno_sys::clock::now_ns;
use fsdyno_sys::mount;

use super::WorkloadDef;
use crate::contents::PayloadBuffer;
use crate::context::Context;
use crate::failure::call_failed;
use crate::fragmentation;
use crate::jobs;
use crate::params::{FRAGMENTATION, PAYLOAD, bytes, choice, cold, count, numjobs};
use crate::phase::{Durability, PhaseTally};
use crate::read_speed::{BUFFER_BYTES, Source, Stream, write_file};
use crate::recorder::Recorder;

/// The file that is read where no device is.
const FILE: &CStr = c"read-speed";
const CONTENT_KEY: u64 = 1;
/// Directory of devices, by the kernel's names.
const DEVICES: &str = "/dev";
/// Driver number of loop devices.
const LOOP_MAJOR: u32 = 7;
const METRIC: &str = "throughput_mib_per_s";
/// The page cache is the machine's: no filesystem wins by it.
const CACHED_METRIC: &str = "memory_read_mib_per_s";

const PARAMS: &[ParamDef] = &[
    count(
        "cached_seconds",
        (1, 3600),
        ("3", Some("1")),
        "seconds of the phase `cached` (hdparm -T: two)",
    ),
    count(
        "device_seconds",
        (1, 3600),
        ("3", Some("1")),
        "seconds of the phase `device`, which ends earlier at the end of the device or file",
    ),
    choice(
        "source",
        &["auto", "device", "file"],
        "auto",
        "what is read: the target's block device, a file made on the target, or the device where \
         every part of it surely comes from the medium and the file elsewhere",
    ),
    bytes("size", (2 << 20, 1 << 44), ("512MiB", Some("64MiB")), "bytes of the file"),
    PAYLOAD,
    cold("drop-caches", "how the caches are emptied before the phase device"),
    numjobs("threads that read at the same time; in `device` they share one sequential stream"),
    FRAGMENTATION,
];

const DIFFERENCES: &[(&str, &str)] = &[
    (
        "It takes the time of the seeks and of its clock off the time of cached reads, as a second loop \
         without reads measures it.",
        "Reads name their position, so that there is no seek, and one reading of the clock for every \
         2 MiB is too little to be taken off.",
    ),
    (
        "hdparm -t reads through the page cache, with its read-ahead and a copy, unless --direct is \
         given.",
        "The phase device reads past the page cache (O_DIRECT), and through it, emptied before, only \
         where that is refused.",
    ),
    (
        "Before each measurement it syncs all filesystems and sleeps for three seconds.",
        "The target was at rest before the trial began; the file is made durable before it is read.",
    ),
    ("It prints MB and means 1024 × 1024 bytes.", "The unit is MiB."),
];

/// The catalogue entry.
pub static DEF: WorkloadDef = WorkloadDef {
    info: WorkloadInfo {
        name: "read-speed",
        summary: "cached and sequential device reads, as hdparm -T and -t time them",
        doc: WorkloadDoc {
            timed: "cached: the first 2 MiB of the device or file are read again and again for \
                    cached_seconds. device: it is read once from the start in reads of 2 MiB, past the \
                    page cache, until device_seconds are over or it ends.",
            not_timed: "Writing the file and making it durable; one read of the 2 MiB before the phase \
                        cached; emptying the caches before the phase device. Contents are compared \
                        after the trial.",
            models: "hdparm -T and -t: the first look at a machine whose other figures are to be \
                     understood.",
            read_it_as: "cached is what processor, memory and kernel deliver where no disk is in the \
                         way; device is the most that a reader of one file can hope for. With \
                         source=file it is what the filesystem makes of the disk.",
            caveats: "A loop device on an image answers for parts that were never written without its \
                      disk, and so does a device that discards, since it was discarded whole before \
                      mkfs: source=auto makes a file there, and in a directory, which has no device of \
                      its own. One request at a time keeps an array or a fast drive from its best: use \
                      numjobs=4. The start of a rotating disk is its fast end.",
        },
        differences: DIFFERENCES,
        params: PARAMS,
        phases: &[
            PhaseInfo { name: "cached", doc: "reads the same 2 MiB from memory" },
            PhaseInfo {
                name: "device",
                doc: "reads the device or file sequentially from the start",
            },
            fragmentation::PHASE,
        ],
    },
    check: |_| Ok(()),
    peak_bytes: |params| {
        let writes = params.text("source") != "device";
        Ok(writes.then(|| params.number("size").next_multiple_of(4096)))
    },
    input_bytes: None,
    run,
    rungs: None,
    dry_run: None,
};

/// What is read: a name in a directory.
struct Place {
    /// `None`: the target's own directory.
    directory: Option<&'static str>,
    name: CString,
    size_bytes: u64,
}

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let params = context.params;
    context.progress.set_total(3);
    let place = place(context)?;
    if place.directory.is_none() {
        make_file(context, &place)?;
    }
    context.progress.advance(1);

    let source = Source::cached(&directory(context, &place)?, &place.name)?;
    // What is in the cache afterwards is what the phase reads.
    source.read_again(&mut AlignedBuffer::new(BUFFER_BYTES), 0, &mut Recorder::new())?;
    measure(context, "cached", &source, |buffer, end_ns, recorder| {
        source.read_again(buffer, end_ns, recorder)
    })?;
    drop(source);

    context.make_cold(Cold::parse(params.text("cold")).map_err(anyhow::Error::msg)?)?;
    let source = Source::uncached(&directory(context, &place)?, &place.name)?;
    if !source.direct {
        context.warn(Warning {
            code: "not-direct".to_owned(),
            message: "the phase device read through the page cache: O_DIRECT was refused"
                .to_owned(),
            advice: "compare its device bytes with what was read".to_owned(),
        })?;
    }
    let stream = Stream::new(place.size_bytes);
    measure(context, "device", &source, |buffer, end_ns, recorder| {
        source.read_on(&stream, buffer, end_ns, recorder)
    })?;
    context.hand_over(manifest(params, context.seed, &place)?)
}

fn measure(
    context: &Context<'_>,
    phase: &str,
    source: &Source,
    read: impl Fn(&mut AlignedBuffer, u64, &mut Recorder) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let limit_ns = context.params.number(&format!("{phase}_seconds")) * 1_000_000_000;
    let job_count = usize::try_from(context.params.number("numjobs"))?;
    let metric = if phase == "cached" { CACHED_METRIC } else { METRIC };
    let mut tally = PhaseTally::new(phase, metric);
    tally.measure(context, &source.name, Durability::None, |recorder| {
        let end_ns = now_ns() + limit_ns;
        jobs::run(job_count, recorder, |_, recorder| {
            let mut buffer = AlignedBuffer::new(BUFFER_BYTES);
            recorder.begin();
            read(&mut buffer, end_ns, recorder)
        })
    })?;
    let mut record = tally.into_record();
    // Files are no measure of it.
    record.files = None;
    context.progress.advance(1);
    context.finish_phase(record)
}

/// Where to read, as `source` asks.
fn place(context: &Context<'_>) -> anyhow::Result<Place> {
    let source = context.params.text("source");
    let device = match source {
        "file" => None,
        _ => own_device(context.root_path()),
    };
    let is_sure = |device: &DeviceNumber| {
        let discards = block::queue_facts(*device).ok().and_then(|it| it.discard_granularity_bytes);
        let name = kernel_name(*device);
        let opened = name.map(|name| std::fs::File::open(Path::new(DEVICES).join(name)));
        device.major != LOOP_MAJOR && discards == Some(0) && opened.is_some_and(|it| it.is_ok())
    };
    match device.filter(|device| source == "device" || is_sure(device)) {
        Some(number) => {
            let name =
                kernel_name(number).with_context(|| format!("no name of device {number}"))?;
            let path = Path::new(DEVICES).join(&name);
            // A stale node may bear the name; nothing but the device itself is to be read.
            anyhow::ensure!(
                block::device_number(&path)? == number,
                "{} is not the device {number}: use source=file",
                path.display()
            );
            let size_bytes = block::size_bytes(&path)?;
            Ok(Place { directory: Some(DEVICES), name: CString::new(name)?, size_bytes })
        }
        None if source == "device" => anyhow::bail!(
            "source=device: {} has no block device of its own; use source=file",
            context.root_path().display()
        ),
        None => {
            let size_bytes = context.params.number("size");
            Ok(Place { directory: None, name: FILE.to_owned(), size_bytes })
        }
    }
}

/// The block device of a filesystem that is mounted for this work alone: `root` is its top or right
/// below.
fn own_device(root: &Path) -> Option<DeviceNumber> {
    let mounted = mount::mount_containing(root).ok()??;
    let root = std::fs::canonicalize(root).ok()?;
    let own = root == mounted.mount_point || root.parent() == Some(&mounted.mount_point);
    if !own {
        return None;
    }
    if mounted.device.major != 0 {
        return Some(mounted.device);
    }
    // Filesystems that number themselves, as btrfs does, still name their device.
    block::device_number(Path::new(&mounted.source)).ok()
}

/// Name of the device's node below `/dev`; the kernel writes a `!` for a slash in it.
fn kernel_name(number: DeviceNumber) -> Option<String> {
    let target = std::fs::read_link(number.sysfs_path()).ok()?;
    Some(target.file_name()?.to_str()?.replace('!', "/"))
}

/// Opened anew each time: nothing may be open on the target while it is mounted again.
fn directory(context: &Context<'_>, place: &Place) -> anyhow::Result<std::os::fd::OwnedFd> {
    let path = place.directory.map_or(context.root_path(), Path::new);
    let opened = Real.open_root(path);
    Ok(opened.map_err(|errno| call_failed("open", path.display().to_string(), errno))?)
}

fn payload(params: &Params) -> anyhow::Result<Payload> {
    Payload::parse(params.text("payload")).map_err(anyhow::Error::msg)
}

fn make_file(context: &Context<'_>, place: &Place) -> anyhow::Result<()> {
    let mut source = PayloadBuffer::new(payload(context.params)?, context.seed, BUFFER_BYTES);
    write_file(context.root(), &place.name, place.size_bytes, &mut source, CONTENT_KEY)?;
    let shown = || context.root_path().display().to_string();
    Ok(Real.syncfs(context.root()).map_err(|errno| call_failed("syncfs", shown(), errno))?)
}

fn manifest(params: &Params, seed: u64, place: &Place) -> anyhow::Result<Manifest> {
    let made = place.directory.is_none();
    let files = made.then(|| ManifestFile {
        path: FILE.to_string_lossy().into_owned(),
        size_bytes: place.size_bytes,
        content_key: CONTENT_KEY,
    });
    Ok(Manifest { payload: payload(params)?, seed, files: files.into_iter().collect() })
}
