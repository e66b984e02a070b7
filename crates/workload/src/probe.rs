//! What is read at the edges of every sample, outside of the timed region: processor time of this
//! process, of the filesystem's kernel threads, of every group and of the machine, and the counters of
//! the devices. What cannot be read is `None`, never 0. What is read ten times a second in between is
//! left to [`crate::sampler`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fsdyno_model::activity::Activity;
use fsdyno_model::cpu_group;
use fsdyno_model::record::{CpuRecord, DeviceRecord};
use fsdyno_model::wire::Watch;
use fsdyno_sys::block::DeviceNumber;
use fsdyno_sys::counters::{DeviceCounters, DeviceStats};
use fsdyno_sys::cpu::{ProcessTimes, SystemCpu, SystemCpuTimes, application_times};
use fsdyno_sys::kthreads::{KernelThreadSample, charge};

use crate::sampler::{Sampler, lock};
use crate::sampler_groups::{CpuShares, CpuTotals, CpuWatch, Innermost, names};

/// Reads all that is watched.
#[derive(Debug)]
pub struct Probe {
    watch: Watch,
    /// `None` where one of the devices cannot be read: a sum without it would mislead.
    devices: Option<Vec<DeviceCounters>>,
    system: Option<SystemCpu>,
    cpu: Option<Arc<Mutex<CpuWatch>>>,
    sampler: Option<Sampler>,
}

/// All that is watched, at one moment.
#[derive(Debug, Clone)]
pub struct Reading {
    own: ProcessTimes,
    system: Option<SystemCpuTimes>,
    threads: Option<KernelThreadSample>,
    cpu: Option<CpuTotals>,
    devices: Option<DeviceStats>,
}

impl Probe {
    /// Opens everything that `watch` names, and starts the sampler.
    #[must_use]
    pub fn new(watch: &Watch) -> Probe {
        let open =
            |&(major, minor): &(u32, u32)| DeviceCounters::open(DeviceNumber { major, minor }).ok();
        let open_all = || -> Option<Vec<DeviceCounters>> {
            let devices: Option<Vec<_>> = watch.devices.iter().map(open).collect();
            devices.filter(|devices| !devices.is_empty())
        };
        let cpu = Arc::new(Mutex::new(CpuWatch::new()));
        Probe {
            watch: watch.clone(),
            devices: open_all(),
            system: SystemCpu::open().ok(),
            sampler: Sampler::start(Arc::clone(&cpu), open_all()),
            cpu: Some(cpu),
        }
    }

    /// A probe that reads nothing but this process's own processor time.
    #[must_use]
    pub fn unwatched() -> Probe {
        Probe { watch: Watch::default(), devices: None, system: None, cpu: None, sampler: None }
    }

    /// Whether workers are looked at while phases run, so that their time can be told by master.
    #[must_use]
    pub fn samples_kernel_threads(&self) -> bool {
        self.sampler.is_some() && self.cpu.as_ref().is_some_and(|cpu| lock(cpu).sees_all())
    }

    /// Ends the sampling, and gives what was sampled; `None` where nothing was, and the second time.
    pub fn finish(&mut self) -> Option<Activity> {
        self.sampler.take()?.finish()
    }

    /// Reads everything before a timed region: what costs most comes first.
    #[must_use]
    pub fn before(&self) -> Reading {
        let (threads, mut cpu) = self.sample_cpu(None);
        let devices = self.device_stats();
        let system = self.system_times();
        if let Some(cpu) = &mut cpu {
            cpu.set_innermost(Innermost::read(system));
        }
        Reading { own: application_times(), system, threads, cpu, devices }
    }

    /// Reads everything after a timed region: what is disturbed most by the others comes first.
    #[must_use]
    pub fn after(&self) -> Reading {
        let own = application_times();
        let system = self.system_times();
        let innermost = Innermost::read(system);
        let devices = self.device_stats();
        let (threads, cpu) = self.sample_cpu(Some(innermost));
        Reading { own, system, threads, cpu, devices }
    }

    fn sample_cpu(
        &self,
        innermost: Option<Innermost>,
    ) -> (Option<KernelThreadSample>, Option<CpuTotals>) {
        let Some(cpu) = &self.cpu else { return (None, None) };
        let (threads, totals) = lock(cpu).sample(true, innermost);
        // Where nobody knows which threads are the filesystem's, their time is unknown.
        let threads = threads.filter(|_| !self.watch.filesystem_threads.is_empty());
        (threads, Some(totals))
    }

    fn system_times(&self) -> Option<SystemCpuTimes> {
        self.system.as_ref()?.read().ok()
    }

    fn device_stats(&self) -> Option<DeviceStats> {
        total_of(self.devices.as_deref()?)
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
            groups_ns: (after.cpu.as_ref().zip(before.cpu.as_ref()))
                .map_or_else(BTreeMap::new, |(now, then)| groups(&now.since(then))),
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

/// Groups that burnt anything, by name. What is in no group counts only where some group is unknown.
fn groups(shares: &CpuShares) -> BTreeMap<String, u64> {
    let named = names().into_iter().zip(shares.groups_ns.iter().copied());
    let unknown = shares.groups_ns.contains(&None);
    let rest = shares.unaccounted_ns.filter(|_| unknown).and_then(|ns| u64::try_from(ns).ok());
    named
        .chain([(cpu_group::UNACCOUNTED, rest)])
        .filter_map(|(name, ns)| Some((name.to_owned(), ns.filter(|ns| *ns > 0)?)))
        .collect()
}

/// The counters of all devices as if they were one; `None` where one cannot be read.
pub(crate) fn total_of(devices: &[DeviceCounters]) -> Option<DeviceStats> {
    let mut readings = devices.iter().map(|device| device.read().ok());
    let first = readings.next()??;
    readings.try_fold(first, |total, reading| Some(add(&total, &reading?)))
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
        in_flight: a.in_flight + b.in_flight,
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
        std::thread::sleep(crate::sampler::PERIOD * 2);
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
