//! What is read at the edges of every sample, outside of the timed region: processor time of this
//! process, of the filesystem's kernel threads and of the machine, and the counters of the devices.
//! What cannot be read is `None`, never 0.
//!
//! A worker thread of the kernel serves many masters and bears the name of the last one only, so a
//! sampler looks at the kernel's threads a few times a second while phases run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fsdyno_model::record::{CpuRecord, DeviceRecord};
use fsdyno_model::wire::Watch;
use fsdyno_sys::block::DeviceNumber;
use fsdyno_sys::counters::{DeviceCounters, DeviceStats};
use fsdyno_sys::cpu::{ProcessTimes, SystemCpu, SystemCpuTimes, application_times};
use fsdyno_sys::kthreads::{KernelThreadSample, KernelThreads, charge};

/// Time between two looks at the kernel's threads.
const SAMPLER_PERIOD: Duration = Duration::from_millis(200);

/// Reads all that is watched.
#[derive(Debug)]
pub struct Probe {
    watch: Watch,
    /// `None` where one of the devices cannot be read: a sum without it would mislead.
    devices: Option<Vec<DeviceCounters>>,
    system: Option<SystemCpu>,
    threads: Option<Arc<Mutex<KernelThreads>>>,
    sampler: Option<Sampler>,
}

/// All that is watched, at one moment.
#[derive(Debug, Clone)]
pub struct Reading {
    own: ProcessTimes,
    system: Option<SystemCpuTimes>,
    threads: Option<KernelThreadSample>,
    devices: Option<DeviceStats>,
}

#[derive(Debug)]
struct Sampler {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn lock(threads: &Mutex<KernelThreads>) -> MutexGuard<'_, KernelThreads> {
    threads.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sampler {
    fn start(threads: Arc<Mutex<KernelThreads>>) -> Option<Sampler> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("sampler".to_owned()).spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::park_timeout(SAMPLER_PERIOD);
                lock(&threads).sample();
            }
        });
        Some(Sampler { stop, thread: Some(thread.ok()?) })
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It cannot panic; and if it did, the figures taken at the edges still hold.
            let _ = thread.join();
        }
    }
}

impl Probe {
    /// Opens everything that `watch` names, and starts the sampler.
    #[must_use]
    pub fn new(watch: &Watch) -> Probe {
        let open =
            |&(major, minor): &(u32, u32)| DeviceCounters::open(DeviceNumber { major, minor }).ok();
        let devices: Option<Vec<DeviceCounters>> = watch.devices.iter().map(open).collect();
        let wanted = !watch.filesystem_threads.is_empty();
        let threads = wanted.then(KernelThreads::new).flatten().map(|it| Arc::new(Mutex::new(it)));
        let sampler = threads.as_ref().and_then(|threads| Sampler::start(Arc::clone(threads)));
        Probe {
            watch: watch.clone(),
            devices: devices.filter(|devices| !devices.is_empty()),
            system: SystemCpu::open().ok(),
            threads,
            sampler,
        }
    }

    /// A probe that reads nothing but this process's own processor time.
    #[must_use]
    pub fn unwatched() -> Probe {
        Probe { watch: Watch::default(), devices: None, system: None, threads: None, sampler: None }
    }

    /// Whether workers are looked at while phases run, so that their time can be told by master.
    #[must_use]
    pub fn samples_kernel_threads(&self) -> bool {
        self.sampler.is_some()
    }

    /// Reads everything before a timed region: what costs most comes first.
    #[must_use]
    pub fn before(&self) -> Reading {
        let threads = self.threads.as_ref().map(|threads| lock(threads).sample());
        let devices = self.device_stats();
        let system = self.system_times();
        Reading { own: application_times(), system, threads, devices }
    }

    /// Reads everything after a timed region: what is disturbed most by the others comes first.
    #[must_use]
    pub fn after(&self) -> Reading {
        let own = application_times();
        let system = self.system_times();
        let devices = self.device_stats();
        let threads = self.threads.as_ref().map(|threads| lock(threads).sample());
        Reading { own, system, threads, devices }
    }

    fn system_times(&self) -> Option<SystemCpuTimes> {
        self.system.as_ref()?.read().ok()
    }

    fn device_stats(&self) -> Option<DeviceStats> {
        let mut readings = self.devices.as_ref()?.iter().map(|device| device.read().ok());
        let first = readings.next()??;
        readings.try_fold(first, |total, reading| Some(add(&total, &reading?)))
    }

    /// What happened between two readings.
    #[must_use]
    pub fn difference(&self, before: &Reading, after: &Reading) -> (CpuRecord, DeviceRecord) {
        let own = after.own.since(&before.own);
        let busy = after.system.zip(before.system).map(|(now, then)| now.since(&then).busy_ns());
        let threads = after.threads.as_ref().zip(before.threads.as_ref());
        let belongs = |name: &str| self.watch.is_filesystem_thread(name);
        let cpu = CpuRecord {
            app_user_ns: Some(own.user_ns),
            app_system_ns: Some(own.system_ns),
            filesystem_ns: threads.map(|(now, then)| charge(then, now, belongs)),
            system_busy_ns: busy,
            groups_ns: BTreeMap::new(),
        };
        let traffic = after.devices.zip(before.devices).map(|(now, then)| now.since(&then));
        let device = DeviceRecord {
            reads: traffic.map(|it| it.reads),
            read_bytes: traffic.map(|it| it.read_bytes),
            writes: traffic.map(|it| it.writes),
            write_bytes: traffic.map(|it| it.write_bytes),
            flushes: traffic.and_then(|it| it.flushes),
            discards: traffic.and_then(|it| it.discards),
            discard_bytes: traffic.and_then(|it| it.discard_bytes),
        };
        (cpu, device)
    }
}

/// A sum of two figures; unknown where one of them is.
fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    Some(a?.saturating_add(b?))
}

fn sum_by_name(a: &BTreeMap<String, u64>, b: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut sums = a.clone();
    for (name, value) in b {
        *sums.entry(name.clone()).or_default() += value;
    }
    sums
}

/// Processor time of two spans together.
#[must_use]
pub fn add_cpu(a: &CpuRecord, b: &CpuRecord) -> CpuRecord {
    CpuRecord {
        app_user_ns: sum(a.app_user_ns, b.app_user_ns),
        app_system_ns: sum(a.app_system_ns, b.app_system_ns),
        filesystem_ns: sum(a.filesystem_ns, b.filesystem_ns),
        system_busy_ns: sum(a.system_busy_ns, b.system_busy_ns),
        groups_ns: sum_by_name(&a.groups_ns, &b.groups_ns),
    }
}

/// Device traffic of two spans together.
#[must_use]
pub fn add_device(a: &DeviceRecord, b: &DeviceRecord) -> DeviceRecord {
    DeviceRecord {
        reads: sum(a.reads, b.reads),
        read_bytes: sum(a.read_bytes, b.read_bytes),
        writes: sum(a.writes, b.writes),
        write_bytes: sum(a.write_bytes, b.write_bytes),
        flushes: sum(a.flushes, b.flushes),
        discards: sum(a.discards, b.discards),
        discard_bytes: sum(a.discard_bytes, b.discard_bytes),
    }
}

/// The counters of two devices as if they were one; a count that one of them lacks is unknown.
fn add(a: &DeviceStats, b: &DeviceStats) -> DeviceStats {
    DeviceStats {
        reads: a.reads + b.reads,
        read_bytes: a.read_bytes + b.read_bytes,
        read_wait_ns: a.read_wait_ns + b.read_wait_ns,
        writes: a.writes + b.writes,
        write_bytes: a.write_bytes + b.write_bytes,
        write_wait_ns: a.write_wait_ns + b.write_wait_ns,
        discards: sum(a.discards, b.discards),
        discard_bytes: sum(a.discard_bytes, b.discard_bytes),
        flushes: sum(a.flushes, b.flushes),
        flush_wait_ns: sum(a.flush_wait_ns, b.flush_wait_ns),
        io_ticks_ns: a.io_ticks_ns + b.io_ticks_ns,
        time_in_queue_ns: a.time_in_queue_ns + b.time_in_queue_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unknown_stays_unknown() {
        let probe = Probe::new(&Watch { devices: vec![(4095, 1)], filesystem_threads: vec![] });
        let (cpu, device) = probe.difference(&probe.before(), &probe.after());
        assert_eq!(device, DeviceRecord::default());
        assert_eq!(cpu.filesystem_ns, None);
        assert!(cpu.app_user_ns.is_some() && cpu.system_busy_ns.is_some());
    }

    #[test]
    fn threads_are_charged_where_they_are_visible() {
        let watch = Watch { devices: vec![], filesystem_threads: vec!["*".to_owned()] };
        let probe = Probe::new(&watch);
        if !probe.samples_kernel_threads() {
            println!("skipped: no kernel threads are visible");
            return;
        }
        let before = probe.before();
        std::thread::sleep(SAMPLER_PERIOD * 2);
        let (cpu, _) = probe.difference(&before, &probe.after());
        assert!(cpu.filesystem_ns.is_some());
    }

    #[test]
    fn devices_add_up() {
        let a = DeviceStats { reads: 1, flushes: Some(2), discards: Some(1), ..Default::default() };
        let b = DeviceStats { reads: 3, flushes: Some(5), discards: None, ..Default::default() };
        let sum = add(&a, &b);
        assert_eq!((sum.reads, sum.flushes, sum.discards), (4, Some(7), None));
    }
}
