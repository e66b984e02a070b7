//! The emulator put to the test: what it costs by itself, whether it can carry a model, and probes
//! through it beside the same probes on the model alone.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use fsdyno_disk::probe::{self, Probe, Probed};
use fsdyno_disk::{Disk, Model, Op, figure, shipped};
use fsdyno_model::units::human_bytes;
use fsdyno_sys::buffer::AlignedBuffer;
use fsdyno_sys::clock;
use rustix::fs::OFlags;
use serde::Serialize;

use super::{Emulator, Extras, Wish};
use crate::disturbance::Stolen;

/// Size of the disks that are probed: their file is sparse.
const SIZE_BYTES: u64 = 4 << 30;
/// Requests by which the emulator's own time is found.
const OVERHEAD_REQUESTS: u64 = 3000;
/// Greatest error of a mean and of a p99 through the emulator, as shares.
const MEAN_LIMIT: f64 = 0.05;
const P99_LIMIT: f64 = 0.10;
/// Threads that ask at once where many requests are to be under way.
const DEPTH: usize = 8;

/// What the emulator costs by itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Overhead {
    /// Median time of one request that the model answers at once, in nanoseconds.
    pub request_ns: f64,
    /// Requests a second with several under way.
    pub iops: f64,
}

/// A probe through the emulator beside the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checked {
    /// What was probed.
    pub name: String,
    /// Mean time of a request on the model alone, in nanoseconds.
    pub model_mean_ns: f64,
    /// The same through the emulator.
    pub mean_ns: f64,
    /// 99 of 100 requests took no longer, on the model alone.
    pub model_p99_ns: f64,
    /// The same through the emulator.
    pub p99_ns: f64,
    /// Requests that the server answered late.
    pub late: u64,
    /// Share of the processors' time that other guests of this host took meanwhile; `None` where the kernel does
    /// not tell.
    pub stolen: Option<f64>,
}

impl Checked {
    /// How far the mean is off, as a share; `None` for a model that takes no time.
    #[must_use]
    pub fn mean_error(&self) -> Option<f64> {
        (self.model_mean_ns > 0.0).then(|| self.mean_ns / self.model_mean_ns - 1.0)
    }

    /// How far the p99 is off, as a share; `None` for a model that takes no time.
    #[must_use]
    pub fn p99_error(&self) -> Option<f64> {
        (self.model_p99_ns > 0.0).then(|| self.p99_ns / self.model_p99_ns - 1.0)
    }

    /// Whether both are near: 5 % in the mean and 10 % in the p99, or less than the emulator itself takes
    /// for one request and for three.
    #[must_use]
    pub fn is_near(&self, overhead: &Overhead) -> bool {
        let mean = self.mean_error().is_none_or(|error| error.abs() <= MEAN_LIMIT)
            || (self.mean_ns - self.model_mean_ns).abs() <= overhead.request_ns;
        let p99 = self.p99_error().is_none_or(|error| error.abs() <= P99_LIMIT)
            || (self.p99_ns - self.model_p99_ns).abs() <= 3.0 * overhead.request_ns;
        mean && p99
    }
}

/// A directory for one emulated disk, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(parent: &Path) -> Result<Place, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("fsdyno-disk-{}-{number}", std::process::id()));
        fs::create_dir_all(path.join("mount"))
            .map_err(|error| format!("make {}: {error}", path.display()))?;
        Ok(Place(path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.0.join("mount"));
        let _ = fs::remove_file(self.0.join("contents"));
        let _ = fs::remove_dir(&self.0);
    }
}

/// Probes a model through the emulator; gives what was found and how many requests were late.
fn through(
    (name, model): (&str, &Model),
    probe: Probe,
    lead_ns: u64,
    parent: &Path,
) -> Result<(Probed, u64), String> {
    let place = Place::new(parent)?;
    let (contents, directory) = (place.0.join("contents"), place.0.join("mount"));
    let size = SIZE_BYTES.min(model.capacity_bytes);
    let made = File::create_new(&contents).and_then(|file| file.set_len(size));
    made.map_err(|error| format!("make {}: {error}", contents.display()))?;
    let (file, directory) = (contents.as_path(), directory.as_path());
    let extras = Extras::default();
    let wish = Wish { model_name: name, model, file, directory, seed: 1, lead_ns, extras };
    let mut emulator = Emulator::start(&wish)?;
    // The server has it open: should all be killed now, it takes no room.
    let _ = fs::remove_file(&contents);
    let probed = ask(emulator.path(), probe);
    emulator.end()?;
    let late = emulator.report().map_or(0, |report| report.late);
    Ok((probed?, late))
}

/// Asks a device what a probe says, as many threads at once as it is deep.
fn ask(device: &Path, probe: Probe) -> Result<Probed, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", device.display());
    let flags = OFlags::DIRECT.bits().cast_signed();
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(flags).open(device).map_err(failed)?;
    ask_open(&file, probe).map_err(failed)
}

/// As [`ask`], of what is open for direct I/O.
pub(crate) fn ask_open(file: &File, probe: Probe) -> std::io::Result<Probed> {
    let total = probe.warm_up + probe.requests;
    let sectors: Vec<u64> = probe.sectors().take(total as usize).collect();
    let next = AtomicU64::new(0);
    let ask_all = || -> std::io::Result<(Vec<u64>, u64, u64)> {
        let mut buffer = AlignedBuffer::new(probe.bytes as usize);
        let (mut times, mut first_ns, mut last_ns) = (Vec::new(), u64::MAX, 0);
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(sector) = sectors.get(index as usize) else { break };
            let begin_ns = clock::now_ns();
            match probe.op {
                Op::Write => file.write_all_at(&buffer, sector * 512)?,
                Op::Flush => file.sync_data()?,
                Op::Read | Op::Discard => file.read_exact_at(&mut buffer, sector * 512)?,
            }
            let end_ns = clock::now_ns();
            if index >= probe.warm_up {
                times.push(end_ns - begin_ns);
                (first_ns, last_ns) = (first_ns.min(begin_ns), end_ns);
            }
        }
        Ok((times, first_ns, last_ns))
    };
    let parts: std::io::Result<Vec<_>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..probe.depth).map(|_| scope.spawn(ask_all)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(std::io::Error::other("a thread ended")))
        };
        threads.into_iter().map(join).collect()
    });
    let parts = parts?;
    let first_ns = parts.iter().map(|part| part.1).min().unwrap_or(0);
    let last_ns = parts.iter().map(|part| part.2).max().unwrap_or(0);
    let times: Vec<u64> = parts.into_iter().flat_map(|part| part.0).collect();
    Ok(Probed::new(times, last_ns.saturating_sub(first_ns), probe.bytes))
}

/// What the emulator costs on this machine; `parent` is where its file is made. Takes less than a second.
///
/// # Errors
/// A sentence: no FUSE, no loop devices, no root.
pub fn overhead(parent: &Path) -> Result<Overhead, String> {
    let ram = shipped::find("ram")?;
    let span = SIZE_BYTES.min(64 << 20);
    let alone = Probe::random(Op::Read, 1, OVERHEAD_REQUESTS, span);
    let (alone, _) = through(("ram", &ram), alone, 0, parent)?;
    let many = Probe::random(Op::Read, DEPTH, OVERHEAD_REQUESTS, span);
    let (many, _) = through(("ram", &ram), many, 0, parent)?;
    Ok(Overhead { request_ns: alone.quantile_ns(0.5) as f64, iops: many.iops() })
}

/// As [`overhead`], found once for this process.
///
/// # Errors
/// As there.
pub fn overhead_here(parent: &Path) -> Result<Overhead, String> {
    static FOUND: OnceLock<Result<Overhead, String>> = OnceLock::new();
    FOUND.get_or_init(|| overhead(parent)).clone()
}

/// Whether the emulator can carry a model.
///
/// # Errors
/// A sentence that says by how much the model is faster.
pub fn fast_enough(model: &Model, overhead: &Overhead) -> Result<(), String> {
    for (op, what) in [(Op::Read, "read"), (Op::Write, "write")] {
        let mut disk = figure::probed_disk(model)?;
        let span = disk.size_bytes().min(1 << 30);
        let model_ns = probe::run(&mut disk, Probe::random(op, 1, 200, span), 0).mean_ns();
        if model.kind.name() != "ram" && model_ns < overhead.request_ns {
            return Err(format!(
                "{} is faster than can be emulated here: it answers a {what} of 4 KiB in {:.0} µs, the \
                 emulator alone takes {:.0} µs, {:.0} too many; choose a slower model, or a machine with \
                 faster processors",
                model.name,
                model_ns / 1e3,
                overhead.request_ns / 1e3,
                (overhead.request_ns - model_ns) / 1e3,
            ));
        }
    }
    Ok(())
}

/// Probes a model through the emulator and alone; `tell` hears the name of each probe as it begins.
///
/// # Errors
/// A sentence: the emulator cannot be started, or a request failed.
pub fn probes(
    name: &str,
    model: &Model,
    overhead: &Overhead,
    parent: &Path,
    requests: u64,
    tell: &dyn Fn(&str),
) -> Result<Vec<Checked>, String> {
    let size = SIZE_BYTES.min(model.capacity_bytes);
    let few = requests / 4;
    let plan = [
        ("random read", Probe::random(Op::Read, 1, requests, size)),
        ("random ×8", Probe::random(Op::Read, DEPTH, requests, size)),
        ("sequential", Probe { depth: 1, ..Probe::sequential(Op::Read, 0, few) }),
        ("random write", Probe { warm_up: 0, ..Probe::random(Op::Write, 1, requests, size) }),
    ];
    let lead_ns = overhead.request_ns as u64;
    let mut rows = Vec::new();
    for (what, probe) in plan {
        let (each, all) = (human_bytes(probe.bytes), human_bytes(size));
        tell(&format!("{what}, {} requests of {each} on {all}", probe.requests));
        let mut disk = Disk::new(model, size, 1)?;
        let alone = probe::run(&mut disk, probe, 0);
        let stolen = Stolen::from_now();
        let (found, late) = through((name, model), probe, lead_ns, parent)?;
        rows.push(Checked {
            name: what.to_owned(),
            model_mean_ns: alone.mean_ns(),
            mean_ns: found.mean_ns(),
            model_p99_ns: alone.quantile_ns(0.99) as f64,
            p99_ns: found.quantile_ns(0.99) as f64,
            late,
            stolen: stolen.share(),
        });
    }
    Ok(rows)
}
