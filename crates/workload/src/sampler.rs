//! What the machine does while a workload runs, ten times a second: processor time by group, memory,
//! pressure, traffic of the devices. What is read at the edges of samples is left to [`crate::probe`],
//! with which the watch over processes and kernel threads is shared.
//!
//! A worker thread of the kernel serves many masters and bears the name of the last one only: the more
//! often it is looked at, the truer its time is split. The sampler's own time is the harness's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fsdyno_model::activity::{Activity, Reading};
use fsdyno_model::cpu_group;
use fsdyno_sys::clock::now_ns;
use fsdyno_sys::counters::{DeviceCounters, DeviceStats};
use fsdyno_sys::cpu::SystemCpu;
use fsdyno_sys::pressure::{Pressure, Stall};
use fsdyno_sys::vmstat::{MemoryStats, VirtualMemory};

use crate::probe::total_of;
use crate::sampler_groups::{CpuShares, CpuTotals, CpuWatch, HarnessThread, Innermost, names};
use crate::sampler_series::{Column, MOST_ROWS, Recording};

/// Time between two samples.
pub const PERIOD: Duration = Duration::from_millis(100);
/// Set to `off`, this variable of the environment leaves out the sampling, so that its cost can be
/// measured; processor time is still read at the edges of samples.
pub const VARIABLE: &str = "FSDYNO_SAMPLER";

/// Kind of the groups of processor time that add up to what was busy, and of `steal`.
const CPU: &str = "cpu";
/// Kind of the processor time that was not used.
const IDLE: &str = "idle";
/// Kind of what only proves the rest.
const CHECK: &str = "check";

/// The thread that samples.
#[derive(Debug)]
pub(crate) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Activity>>,
}

pub(crate) fn lock(watch: &Mutex<CpuWatch>) -> MutexGuard<'_, CpuWatch> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sampler {
    /// Starts sampling; `None` where it is turned off or no thread can be had.
    pub(crate) fn start(
        watch: Arc<Mutex<CpuWatch>>,
        devices: Option<Vec<DeviceCounters>>,
    ) -> Option<Sampler> {
        if std::env::var_os(VARIABLE).is_some_and(|value| value == "off") {
            return None;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || sample_until(&stopped, watch, devices);
        let thread = std::thread::Builder::new().name("sampler".to_owned()).spawn(work).ok()?;
        Some(Sampler { stop, thread: Some(thread) })
    }

    /// Takes a last sample, and gives all of them.
    pub(crate) fn finish(mut self) -> Option<Activity> {
        self.end()
    }

    fn end(&mut self) -> Option<Activity> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take()?;
        thread.thread().unpark();
        // It cannot panic; and if it did, the figures taken at the edges still hold.
        thread.join().ok()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
    }
}

fn sample_until(
    stopped: &AtomicBool,
    watch: Arc<Mutex<CpuWatch>>,
    devices: Option<Vec<DeviceCounters>>,
) -> Activity {
    let mut harness = HarnessThread::default();
    let mut sources = Sources::open(watch, devices);
    let mut recording = Recording::new(columns(sources.sees_all), MOST_ROWS);
    let mut row = Vec::with_capacity(64);
    let mut before: Option<Snapshot> = None;
    let mut next = Instant::now();
    loop {
        let is_last = stopped.load(Ordering::Relaxed);
        let now = sources.read();
        row.clear();
        now.since(before.as_ref(), &mut row);
        recording.push(now.time_ns, &row);
        before = Some(now);
        harness.charge();
        if is_last {
            break;
        }
        // Samples that were missed are not made up for.
        next = (next + PERIOD).max(Instant::now());
        while let Some(rest) = next.checked_duration_since(Instant::now()) {
            if rest.is_zero() || stopped.load(Ordering::Relaxed) {
                break;
            }
            std::thread::park_timeout(rest);
        }
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    recording.into_activity(u32::try_from(processors).unwrap_or(u32::MAX))
}

/// All that is sampled.
struct Sources {
    watch: Arc<Mutex<CpuWatch>>,
    sees_all: bool,
    system: Option<SystemCpu>,
    memory: Option<VirtualMemory>,
    pressure: [Option<Pressure>; 3],
    devices: Option<Vec<DeviceCounters>>,
}

/// All that was sampled at one moment.
struct Snapshot {
    time_ns: u64,
    cpu: CpuTotals,
    memory: MemoryStats,
    pressure: [Option<Stall>; 3],
    devices: Option<DeviceStats>,
}

impl Sources {
    fn open(watch: Arc<Mutex<CpuWatch>>, devices: Option<Vec<DeviceCounters>>) -> Sources {
        let sees_all = lock(&watch).sees_all();
        Sources {
            watch,
            sees_all,
            system: SystemCpu::open().ok(),
            memory: VirtualMemory::open().ok(),
            pressure: Pressure::RESOURCES.map(Pressure::open),
            devices,
        }
    }

    fn read(&mut self) -> Snapshot {
        // What must be of one moment comes first.
        let time_ns = now_ns();
        let innermost = Innermost::read(self.system.as_ref().and_then(|system| system.read().ok()));
        let (_, cpu) = lock(&self.watch).sample(false, Some(innermost));
        Snapshot {
            time_ns,
            cpu,
            memory: self.memory.as_mut().and_then(|it| it.read().ok()).unwrap_or_default(),
            pressure: self.pressure.each_ref().map(|it| it.as_ref()?.read()),
            devices: self.devices.as_deref().and_then(total_of),
        }
    }
}

/// The figures of memory, in the order of [`memory_values`]: name, title, reading.
const MEMORY: [(&str, &str, &str, Reading); 14] = [
    ("memory_dirty_bytes", "memory", "dirty", Reading::Gauge),
    ("memory_writeback_bytes", "memory", "under writeback", Reading::Gauge),
    ("memory_page_cache_bytes", "memory", "page cache", Reading::Gauge),
    ("memory_free_bytes", "memory", "free", Reading::Gauge),
    ("memory_slab_reclaimable_bytes", "memory", "reclaimable slab", Reading::Gauge),
    ("vmstat_pgpgin_bytes", "vmstat", "paged in", Reading::Delta),
    ("vmstat_pgpgout_bytes", "vmstat", "paged out", Reading::Delta),
    ("vmstat_pgfault", "vmstat", "page faults", Reading::Delta),
    ("vmstat_pgmajfault", "vmstat", "major page faults", Reading::Delta),
    ("vmstat_dirtied_bytes", "vmstat", "made dirty", Reading::Delta),
    ("vmstat_written_bytes", "vmstat", "written back", Reading::Delta),
    ("vmstat_pgscan_bytes", "vmstat", "scanned for reclaim", Reading::Delta),
    ("vmstat_pgsteal_bytes", "vmstat", "reclaimed", Reading::Delta),
    ("vmstat_refault_bytes", "vmstat", "read again after reclaim", Reading::Delta),
];

fn memory_values(stats: &MemoryStats) -> [Option<u64>; MEMORY.len()] {
    [
        stats.dirty_bytes,
        stats.writeback_bytes,
        stats.page_cache_bytes,
        stats.free_bytes,
        stats.reclaimable_slab_bytes,
        stats.paged_in_bytes,
        stats.paged_out_bytes,
        stats.faults,
        stats.major_faults,
        stats.dirtied_bytes,
        stats.written_bytes,
        stats.scanned_bytes,
        stats.reclaimed_bytes,
        stats.refaulted_bytes,
    ]
}

/// The figures of devices, in the order of [`device_values`].
const DEVICE: [(&str, &str, Reading); 10] = [
    ("device_reads", "read requests", Reading::Delta),
    ("device_read_bytes", "read", Reading::Delta),
    ("device_writes", "write requests", Reading::Delta),
    ("device_write_bytes", "written", Reading::Delta),
    ("device_flushes", "flush requests", Reading::Delta),
    ("device_discards", "discard requests", Reading::Delta),
    ("device_discard_bytes", "discarded", Reading::Delta),
    ("device_busy_ns", "busy", Reading::Delta),
    ("device_time_in_queue_ns", "time in queue", Reading::Delta),
    ("device_in_flight", "requests in flight", Reading::Gauge),
];

fn device_values(stats: &DeviceStats) -> [Option<u64>; DEVICE.len()] {
    [
        Some(stats.reads),
        Some(stats.read_bytes),
        Some(stats.writes),
        Some(stats.write_bytes),
        stats.flushes,
        stats.discards,
        stats.discard_bytes,
        Some(stats.io_ticks_ns),
        Some(stats.time_in_queue_ns),
        Some(stats.in_flight),
    ]
}

/// All columns, in the order in which [`Snapshot::since`] gives values.
fn columns(sees_all: bool) -> Vec<Column> {
    let column = |name: String, kind, title: &str, reading| Column {
        name,
        kind,
        title: title.to_owned(),
        reading,
    };
    let mut columns = Vec::new();
    for group in names() {
        columns.push(column(format!("cpu_{group}_ns"), CPU, group, Reading::Delta));
    }
    // Where others are not visible, this is all that is known of them.
    let rest = if sees_all { CHECK } else { CPU };
    for (name, kind) in
        [(cpu_group::UNACCOUNTED, rest), ("busy", CHECK), ("idle", IDLE), ("iowait", IDLE)]
    {
        columns.push(column(format!("cpu_{name}_ns"), kind, name, Reading::Delta));
    }
    for (name, kind, title, reading) in MEMORY {
        columns.push(column(name.to_owned(), kind, title, reading));
    }
    for resource in Pressure::RESOURCES {
        for (degree, whom) in [("some", "some tasks"), ("full", "all tasks")] {
            let title = format!("{resource}: {whom} waited");
            let name = format!("pressure_{resource}_{degree}_ns");
            columns.push(column(name, "pressure", &title, Reading::Delta));
        }
    }
    for (name, title, reading) in DEVICE {
        columns.push(column(name.to_owned(), "device", title, reading));
    }
    columns
}

impl Snapshot {
    /// Appends a value for each column. Of the first snapshot only states are known.
    fn since(&self, before: Option<&Snapshot>, row: &mut Vec<Option<f64>>) {
        let shares = before.map(|before| self.cpu.since(&before.cpu));
        cpu_row(shares.as_ref(), row);
        let then = before.map(|before| memory_values(&before.memory));
        let readings = MEMORY.iter().map(|(.., reading)| *reading);
        push_values(&memory_values(&self.memory), then.as_ref(), readings, row);
        for (index, now) in self.pressure.iter().enumerate() {
            let then = before.and_then(|before| before.pressure[index]);
            let some = now.zip(then).map(|(now, then)| (now.some_ns, then.some_ns));
            let full = now.zip(then).and_then(|(now, then)| now.full_ns.zip(then.full_ns));
            row.extend([some, full].map(|pair| {
                let (now, then) = pair?;
                Some(now.saturating_sub(then) as f64)
            }));
        }
        let now = self.devices.as_ref().map_or([None; DEVICE.len()], device_values);
        let then = before.and_then(|before| before.devices.as_ref().map(device_values));
        push_values(&now, then.as_ref(), DEVICE.iter().map(|(.., reading)| *reading), row);
    }
}

fn cpu_row(shares: Option<&CpuShares>, row: &mut Vec<Option<f64>>) {
    let known = |value: Option<u64>| value.map(|ns| ns as f64);
    match shares {
        Some(shares) => {
            row.extend(shares.groups_ns.iter().map(|ns| known(*ns)));
            row.push(shares.unaccounted_ns.map(|ns| ns as f64));
            row.extend([shares.busy_ns, shares.idle_ns, shares.iowait_ns].map(known));
        }
        None => row.extend(std::iter::repeat_n(None, names().len() + 4)),
    }
}

fn push_values<const N: usize>(
    now: &[Option<u64>; N],
    then: Option<&[Option<u64>; N]>,
    readings: impl Iterator<Item = Reading>,
    row: &mut Vec<Option<f64>>,
) {
    for (index, reading) in readings.enumerate() {
        let value = match reading {
            Reading::Gauge => now[index],
            Reading::Delta => now[index]
                .zip(then.and_then(|then| then[index]))
                .map(|(now, then)| now.saturating_sub(then)),
        };
        row.push(value.map(|value| value as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_gets_its_value() {
        let watch = Arc::new(Mutex::new(CpuWatch::new()));
        let mut sources = Sources::open(watch, None);
        let columns = columns(sources.sees_all);
        let (first, second) = (sources.read(), sources.read());
        for (now, before) in [(&first, None), (&second, Some(&first))] {
            let mut row = Vec::new();
            now.since(before, &mut row);
            assert_eq!(row.len(), columns.len());
            for (column, value) in columns.iter().zip(row) {
                let is_first = before.is_none() && column.reading == Reading::Delta;
                let may_lack = ["pressure", "device"].contains(&column.kind) || !sources.sees_all;
                assert!(value.is_none() == is_first || may_lack, "{column:?} {value:?}");
            }
        }
        let mut names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), columns.len());
    }
}
