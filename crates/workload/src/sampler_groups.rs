//! Who burnt the processor: the application, kernel threads by what they do, fsdyno itself, others,
//! interrupts. The groups of kernel threads are those of [`cpu_group`]; how a process or thread is
//! watched is left to `sys`.
//!
//! Every group is measured. What `/proc/stat` calls busy beyond all groups is `unaccounted`, which is
//! about 0 and proves it; only where others are not visible is it all that is known of them.

use fsdyno_model::cpu_group;
use fsdyno_sys::cpu::{ProcessTimes, SystemCpuTimes, charge_harness, harness_times, own_times};
use fsdyno_sys::kthreads::{KernelThreadSample, KernelThreads};
use fsdyno_sys::process_times::{FamilyTimes, Processes};

/// Watches kernel threads and processes.
#[derive(Debug)]
pub(crate) struct CpuWatch {
    threads: Option<KernelThreads>,
    last: Option<KernelThreadSample>,
    groups: Vec<&'static str>,
    /// Time of each of `groups` since the watch began.
    kernel_ns: Vec<u64>,
    processes: Processes,
}

/// All that is known of processor time at one moment; only differences mean anything.
#[derive(Debug, Clone)]
pub(crate) struct CpuTotals {
    /// Time by group of kernel threads; `None` where they are not visible.
    kernel_ns: Option<Vec<u64>>,
    families: FamilyTimes,
    harness: ProcessTimes,
    own: ProcessTimes,
    system: Option<SystemCpuTimes>,
}

/// What is read last before a span and first after it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Innermost {
    own: ProcessTimes,
    system: Option<SystemCpuTimes>,
}

impl Innermost {
    /// This process's own times are read here; the machine's are given.
    pub(crate) fn read(system: Option<SystemCpuTimes>) -> Innermost {
        Innermost { own: own_times(), system }
    }
}

/// Processor time between two moments, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CpuShares {
    /// By group, in the order of [`names`]; `None` where it is not known.
    pub groups_ns: Vec<Option<u64>>,
    /// All groups but `steal`, as `/proc/stat` counts it.
    pub busy_ns: Option<u64>,
    /// What is busy and in no group; below 0 where the groups are more than `/proc/stat` counted.
    pub unaccounted_ns: Option<i64>,
    /// Idle, without `iowait_ns`.
    pub idle_ns: Option<u64>,
    /// Idle while something waited for a device.
    pub iowait_ns: Option<u64>,
}

/// Names of the groups: the application, those of kernel threads, the harness, others, interrupts, steal.
pub(crate) fn names() -> Vec<&'static str> {
    let mut names = vec![cpu_group::APPLICATION];
    names.extend(cpu_group::of_kernel_threads());
    names.extend([cpu_group::HARNESS, cpu_group::OTHER, cpu_group::INTERRUPTS, cpu_group::STEAL]);
    names
}

impl CpuWatch {
    pub(crate) fn new() -> CpuWatch {
        let mut threads = KernelThreads::new();
        let groups = cpu_group::of_kernel_threads();
        CpuWatch {
            last: threads.as_mut().map(KernelThreads::sample),
            // Where kernel threads are not visible, other processes are not either.
            processes: Processes::new(threads.is_some()),
            threads,
            kernel_ns: vec![0; groups.len()],
            groups,
        }
    }

    /// Whether kernel threads, and with them all processes, are visible.
    pub(crate) fn sees_all(&self) -> bool {
        self.threads.is_some()
    }

    /// Reads all but what is innermost, which is given. `thorough` as in [`Processes::sample`].
    pub(crate) fn sample(
        &mut self,
        thorough: bool,
        innermost: Option<Innermost>,
    ) -> (Option<KernelThreadSample>, CpuTotals) {
        let families = self.processes.sample(thorough);
        let newcomers = self.processes.take_kernel_threads();
        let now = self.threads.as_mut().map(|threads| threads.sample_with(&newcomers));
        if let (Some(now), Some(last)) = (&now, &self.last) {
            for (name, ns) in now.since(last) {
                let group = cpu_group::of_kernel_thread(name);
                if let Some(index) = self.groups.iter().position(|known| *known == group) {
                    self.kernel_ns[index] += ns;
                }
            }
        }
        self.last.clone_from(&now);
        let kernel_ns = self.threads.is_some().then(|| self.kernel_ns.clone());
        let harness = harness_times();
        let Innermost { own, system } = innermost.unwrap_or_else(|| Innermost::read(None));
        (now, CpuTotals { kernel_ns, families, harness, own, system })
    }
}

impl CpuTotals {
    /// Puts in what was read after everything else.
    pub(crate) fn set_innermost(&mut self, innermost: Innermost) {
        (self.own, self.system) = (innermost.own, innermost.system);
    }

    /// What was burnt since `earlier`.
    pub(crate) fn since(&self, earlier: &CpuTotals) -> CpuShares {
        let sum = |times: ProcessTimes| times.user_ns + times.system_ns;
        let grown = |now: u64, then: u64| now.saturating_sub(then);
        let application = sum(self.own.since(&earlier.own))
            + grown(self.families.descendants_ns, earlier.families.descendants_ns);
        let harness = sum(self.harness.since(&earlier.harness))
            + grown(self.families.starter_ns, earlier.families.starter_ns);
        let others = (self.families.others_ns.zip(earlier.families.others_ns))
            .map(|(now, then)| grown(now, then));
        let system = self.system.zip(earlier.system).map(|(now, then)| now.since(&then));
        let interrupts = system.map(|it| it.interrupts_ns());
        let busy_ns = system.map(|it| it.busy_ns());

        let mut groups_ns = vec![Some(application)];
        match (&self.kernel_ns, &earlier.kernel_ns) {
            (Some(now), Some(then)) => {
                groups_ns.extend(now.iter().zip(then).map(|(now, then)| Some(grown(*now, *then))));
            }
            _ => groups_ns.extend(cpu_group::of_kernel_threads().iter().map(|_| None)),
        }
        groups_ns.extend([Some(harness), others]);
        if !self.system.is_some_and(|it| it.interrupts_are_apart()) {
            take_out(&mut groups_ns, interrupts.unwrap_or(0), busy_ns.unwrap_or(0));
        }
        groups_ns.push(interrupts);
        let accounted: u64 = groups_ns.iter().flatten().sum();
        groups_ns.push(system.map(|it| it.steal_ns));
        CpuShares {
            groups_ns,
            busy_ns,
            unaccounted_ns: busy_ns.map(|busy| busy as i64 - accounted as i64),
            idle_ns: system.map(|it| it.idle_ns),
            iowait_ns: system.map(|it| it.iowait_ns),
        }
    }
}

/// Takes the time of interrupts out of the tasks' times that contain it. Whom they interrupted is not
/// known, so each gives in proportion to what it burnt. `busy_ns` is the whole where a group is unknown.
fn take_out(groups_ns: &mut [Option<u64>], interrupts_ns: u64, busy_ns: u64) {
    let known_ns: u64 = groups_ns.iter().flatten().sum();
    let whole_ns = if groups_ns.contains(&None) { known_ns.max(busy_ns) } else { known_ns };
    if whole_ns == 0 {
        return;
    }
    let taken_ns = u128::from(interrupts_ns.min(whole_ns));
    for group_ns in groups_ns.iter_mut().flatten() {
        let part_ns = u128::from(*group_ns) * taken_ns / u128::from(whole_ns);
        *group_ns -= u64::try_from(part_ns).expect("a part of it is not more than it");
    }
}

/// What a thread of the harness has charged so far.
#[derive(Debug, Default)]
pub(crate) struct HarnessThread(ProcessTimes);

impl HarnessThread {
    /// Charges to the harness what the calling thread has burnt since the last time.
    pub(crate) fn charge(&mut self) {
        charge_harness(&mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(own_ns: u64, others_ns: Option<u64>, system: SystemCpuTimes) -> CpuTotals {
        CpuTotals {
            kernel_ns: others_ns.map(|_| vec![0; cpu_group::of_kernel_threads().len()]),
            families: FamilyTimes { descendants_ns: 0, starter_ns: 0, others_ns },
            harness: ProcessTimes::default(),
            own: ProcessTimes { user_ns: own_ns, system_ns: 0 },
            system: Some(system),
        }
    }

    fn of(shares: &CpuShares, name: &str) -> Option<u64> {
        shares.groups_ns[names().iter().position(|known| *known == name).unwrap()]
    }

    #[test]
    fn interrupts_are_counted_once() {
        let idle = SystemCpuTimes::default();
        for (irq_ns, application, other, unaccounted) in [
            // Contained in the tasks: 900 + 100 are 1000, of which 60 were interrupts.
            (0, 846, 94, 0),
            // Apart: the tasks have 1000, the interrupts 60 + 5.
            (5, 900, 100, -65),
        ] {
            let system = SystemCpuTimes { user_ns: 940, softirq_ns: 60, irq_ns, ..idle };
            let shares = totals(900, Some(100), system).since(&totals(0, Some(0), idle));
            let busy = 1000 + irq_ns;
            assert_eq!(shares.busy_ns, Some(busy));
            assert_eq!(of(&shares, cpu_group::INTERRUPTS), Some(60 + irq_ns));
            assert_eq!(of(&shares, cpu_group::APPLICATION), Some(application));
            assert_eq!(of(&shares, cpu_group::OTHER), Some(other));
            assert_eq!(shares.unaccounted_ns, Some(unaccounted + irq_ns as i64), "{irq_ns}");
        }
    }

    #[test]
    fn what_is_not_visible_is_unaccounted() {
        let idle = SystemCpuTimes::default();
        let system = SystemCpuTimes { user_ns: 950, softirq_ns: 50, steal_ns: 7, ..idle };
        let shares = totals(400, None, system).since(&totals(0, None, idle));
        assert_eq!(of(&shares, cpu_group::OTHER), None);
        assert_eq!(of(&shares, cpu_group::KERNEL), None);
        assert_eq!(of(&shares, cpu_group::STEAL), Some(7));
        assert_eq!(of(&shares, cpu_group::APPLICATION), Some(380));
        assert_eq!(shares.unaccounted_ns, Some(570));
    }

    #[test]
    fn nothing_goes_below_zero() {
        let idle = SystemCpuTimes::default();
        let system = SystemCpuTimes { softirq_ns: 1 << 40, ..idle };
        let shares = totals(9, Some(1), system).since(&totals(0, Some(0), idle));
        assert_eq!(of(&shares, cpu_group::APPLICATION), Some(0));
        let shares = totals(0, Some(0), idle).since(&totals(9, Some(1), system));
        assert!(shares.groups_ns.iter().all(|ns| *ns == Some(0)), "{shares:?}");
    }
}
