//! Processor time of processes: this process's descendants, the process that started it, all others.
//! Kernel threads are left to [`crate::kthreads`], this process's own time to [`crate::cpu`].
//!
//! A process's own time is read from its processor-time clock (`clock_getcpuclockid(3)`): one cheap
//! call, all threads together, in nanoseconds. A thread that runs at this moment is behind by at most
//! one tick of the scheduler. What children burnt that have ended and been waited for is in their
//! parent's `/proc/PID/stat` (`cutime`, `cstime`; ticks, but cumulative, so that nothing gets lost).
//! A child that was watched while it lived is not counted a second time when its time arrives there.
//!
//! Three things escape: a process that was started and ended between two samples, whose parent does
//! not wait for it (it ignores `SIGCHLD`); of a process that nobody waits for, what it burnt after the
//! last sample; and which family a process belongs to that was orphaned before it was seen.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use crate::cpu::{children_times, process_clock_ns, tick_ns};
use crate::idle_loop;
use crate::newcomers::Newcomers;

/// With more processes than this, those of others are not watched one by one.
const MOST_PROCESSES: usize = 2000;
/// How often children's times of others are read at most.
const CHILDREN_PERIOD: Duration = Duration::from_secs(1);
/// The flag of kernel threads in `/proc/PID/stat` (`PF_KTHREAD`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Whose process it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// A descendant of this process.
    Descendant,
    /// The process that started this one, or another descendant of that.
    Starter,
    /// Neither.
    Other,
}

/// Processor time burnt since the watch began, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilyTimes {
    /// The descendants of this process, those that have ended included; not this process itself.
    pub descendants_ns: u64,
    /// The process that started this one and its descendants, except this one and its own.
    pub starter_ns: u64,
    /// All other processes; `None` where they are not visible, or too many to be watched.
    pub others_ns: Option<u64>,
}

/// What is known of one process.
#[derive(Clone, Copy, Debug)]
struct Process {
    parent: u32,
    family: Family,
    own_ns: u64,
    waited: Waited,
}

/// Time of children that were waited for.
#[derive(Clone, Copy, Debug, Default)]
struct Waited {
    /// All that was read.
    children_ns: u64,
    /// Counted while the children lived, and not yet seen to arrive.
    known_ns: u64,
    /// Whether `known_ns` was there at the last reading too.
    is_overdue: bool,
}

impl Waited {
    /// What has arrived beyond what is known already, when the children's time is `children_ns` now.
    fn arrive(&mut self, children_ns: u64) -> u64 {
        let arrived = children_ns.saturating_sub(self.children_ns);
        self.children_ns = self.children_ns.max(children_ns);
        let unknown = arrived.saturating_sub(self.known_ns);
        let still_known = self.known_ns.saturating_sub(arrived);
        // A child may be gone a moment before its time arrives, not longer: what has not arrived by
        // the second reading never will.
        self.known_ns = if self.is_overdue { 0 } else { still_known };
        self.is_overdue = self.known_ns > 0;
        unknown
    }
}

/// Watches processes. New ones are looked for only when some process or thread has been started
/// anywhere since the last sample, and no descriptors are kept open for them.
#[derive(Debug)]
pub struct Processes {
    own_pid: u32,
    starter_pid: u32,
    /// Whether the others are watched too.
    with_others: bool,
    processes: HashMap<u32, Process>,
    /// Children of this process.
    own: Waited,
    newcomers: Newcomers,
    /// Kernel threads that were met since they were asked for.
    kernel_threads: Vec<u32>,
    /// Whether processes were started since the others' children were read.
    others_stale: bool,
    others_read: Instant,
    totals: FamilyTimes,
    tick_ns: u64,
}

/// The fields of `/proc/PID/stat` that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    is_kernel_thread: bool,
    children_ticks: u64,
}

impl Processes {
    /// Starts watching; the others too where `with_others`, which makes sense only where all processes
    /// are visible.
    #[must_use]
    pub fn new(with_others: bool) -> Self {
        let (newcomers, all) = Newcomers::new();
        let mut watcher = Self {
            own_pid: std::process::id(),
            starter_pid: std::os::unix::process::parent_id(),
            with_others,
            processes: HashMap::new(),
            own: Waited { children_ns: own_children_ns(), ..Waited::default() },
            newcomers,
            kernel_threads: Vec::new(),
            others_stale: false,
            others_read: Instant::now(),
            totals: FamilyTimes::default(),
            tick_ns: tick_ns(),
        };
        watcher.watch(&all, true);
        watcher.totals.others_ns = watcher.with_others.then_some(0);
        watcher
    }

    /// The times of this moment. `thorough` also asks all others for the times of their children, which
    /// is otherwise done once a second: about 5 µs for each, if anything was started at all. The rest
    /// costs about half a microsecond for each process.
    pub fn sample(&mut self, thorough: bool) -> FamilyTimes {
        let started = self.find_new();
        self.others_stale |= started;
        self.read_clocks();
        let others_due =
            self.others_stale && (thorough || self.others_read.elapsed() >= CHILDREN_PERIOD);
        self.read_children(started, others_due);
        if others_due {
            self.others_stale = false;
            self.others_read = Instant::now();
        }
        self.totals
    }

    /// Numbers of the kernel threads that the samples have met since this was asked last; for
    /// [`crate::kthreads::KernelThreads::sample_with`].
    pub fn take_kernel_threads(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.kernel_threads)
    }

    /// How many processes are watched.
    #[must_use]
    pub fn process_count(&self) -> usize {
        self.processes.len()
    }

    fn charge(&mut self, family: Family, ns: u64) {
        match family {
            Family::Descendant => self.totals.descendants_ns += ns,
            Family::Starter => self.totals.starter_ns += ns,
            Family::Other => {
                if let Some(total) = &mut self.totals.others_ns {
                    *total += ns;
                }
            }
        }
    }

    /// Charges what each process burnt itself; those that are gone leave what is known of them to
    /// whoever waited for them.
    fn read_clocks(&mut self) {
        let mut burnt = Vec::with_capacity(16);
        let mut gone = HashMap::new();
        self.processes.retain(|&pid, process| {
            let now = process_clock_ns(pid).filter(|now| *now >= process.own_ns);
            match now {
                Some(now) if now > process.own_ns => {
                    burnt.push((process.family, now - process.own_ns));
                    process.own_ns = now;
                }
                Some(_) => {}
                None => {
                    gone.insert(pid, *process);
                }
            }
            now.is_some()
        });
        for (family, ns) in burnt {
            self.charge(family, ns);
        }
        self.bequeath(&gone);
    }

    /// What is known of processes that are `gone` arrives with whoever waited for them: the parent, or
    /// the one above it where the parent is gone as well.
    fn bequeath(&mut self, gone: &HashMap<u32, Process>) {
        for process in gone.values() {
            let known_ns = process.own_ns + process.waited.children_ns;
            let mut parent = process.parent;
            for _ in 0..gone.len() {
                let Some(above) = gone.get(&parent) else { break };
                parent = above.parent;
            }
            let heir = match self.processes.get_mut(&parent) {
                Some(parent) => Some(&mut parent.waited),
                // An orphan is adopted, by this process if it has asked for that, or by the first one.
                None if process.family == Family::Descendant => Some(&mut self.own),
                None => self.processes.get_mut(&1).map(|first| &mut first.waited),
            };
            if let Some(heir) = heir {
                heir.known_ns += known_ns;
                heir.is_overdue = false;
            }
        }
    }

    /// Charges what children burnt that were never seen, or after they were seen last.
    fn read_children(&mut self, started: bool, others_due: bool) {
        let unknown = self.own.arrive(own_children_ns());
        self.charge(Family::Descendant, unknown);
        let mut arrived = Vec::new();
        for (&pid, process) in &mut self.processes {
            let is_due = match process.family {
                Family::Other => others_due,
                Family::Descendant | Family::Starter => started,
            };
            if !is_due && process.waited.known_ns == 0 {
                continue;
            }
            if let Some(stat) = read_stat(pid) {
                let unknown = process.waited.arrive(stat.children_ticks * self.tick_ns);
                arrived.push((process.family, unknown));
            }
        }
        for (family, unknown) in arrived {
            self.charge(family, unknown);
        }
    }

    /// Watches what has been started since the last time; whether anything has.
    fn find_new(&mut self) -> bool {
        let Some(candidates) = self.newcomers.since() else { return false };
        self.watch(&candidates, false);
        true
    }

    /// Takes up those of `candidates` that are processes and not known yet. What they have burnt so far
    /// counts, unless they `existed` before the watch began.
    fn watch(&mut self, candidates: &[u32], existed: bool) {
        let mut found = HashMap::new();
        for &pid in candidates {
            // Of a thread that leads no process there is no such clock.
            if pid == self.own_pid
                || idle_loop::is_it(pid)
                || self.processes.contains_key(&pid)
                || process_clock_ns(pid).is_none()
            {
                continue;
            }
            match read_stat(pid) {
                Some(stat) if stat.is_kernel_thread => self.kernel_threads.push(pid),
                Some(stat) => {
                    found.insert(pid, stat);
                }
                None => {}
            }
        }
        for (&pid, stat) in &found {
            let family = self.family_of(pid, &found);
            if family == Family::Other && !self.with_others {
                continue;
            }
            let own_ns = if existed { process_clock_ns(pid).unwrap_or(0) } else { 0 };
            let children_ns = if existed { stat.children_ticks * self.tick_ns } else { 0 };
            let waited = Waited { children_ns, ..Waited::default() };
            self.processes.insert(pid, Process { parent: stat.parent, family, own_ns, waited });
        }
        if self.with_others && self.processes.len() > MOST_PROCESSES {
            self.with_others = false;
            self.totals.others_ns = None;
            self.processes.retain(|_, process| process.family != Family::Other);
        }
    }

    /// Whose process `pid` is, going up through those `found` together with it.
    fn family_of(&self, pid: u32, found: &HashMap<u32, Stat>) -> Family {
        let mut at = pid;
        for _ in 0..found.len() + 2 {
            if at == self.own_pid {
                return Family::Descendant;
            }
            // The first process adopts all orphans: they are no family.
            if at == 1 && pid != 1 {
                return Family::Other;
            }
            if at == self.starter_pid {
                return Family::Starter;
            }
            if let Some(known) = self.processes.get(&at) {
                return known.family;
            }
            let Some(stat) = found.get(&at) else { return Family::Other };
            at = stat.parent;
        }
        Family::Other
    }
}

fn own_children_ns() -> u64 {
    let times = children_times();
    times.user_ns + times.system_ns
}

fn read_stat(pid: u32) -> Option<Stat> {
    let mut buffer = [0; 1024];
    let file = File::open(format!("/proc/{pid}/stat")).ok()?;
    let count = file.read_at(&mut buffer, 0).ok()?;
    parse_stat(&buffer[..count])
}

/// Fields are counted from the last `)`: the name before it may hold anything.
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let end_of_name = text.iter().rposition(|byte| *byte == b')')?;
    let text = std::str::from_utf8(&text[end_of_name + 1..]).ok()?;
    let mut fields = text.split_ascii_whitespace();
    // Fields number 4, 9, 16 and 17 of proc_pid_stat(5); the first one here is number 3.
    let parent = fields.nth(1)?.parse().ok()?;
    let flags: u64 = fields.nth(4)?.parse().ok()?;
    // On kernels of old the times of children may be negative, and are nothing then.
    let user: i64 = fields.nth(6)?.parse().ok()?;
    let system: i64 = fields.next()?.parse().ok()?;
    Some(Stat {
        parent,
        is_kernel_thread: flags & KERNEL_THREAD != 0,
        children_ticks: user.max(0) as u64 + system.max(0) as u64,
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    const BURN: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";

    #[test]
    fn stat_lines_are_parsed_or_refused() {
        let line = b"9 (a) b) S 2 0 0 0 -1 2129984 0 0 0 0 7 5 30 4 20 0 1 0 33 0";
        let stat = Stat { parent: 2, is_kernel_thread: true, children_ticks: 34 };
        assert_eq!(parse_stat(line), Some(stat));
        for text in [&b""[..], b"9 (x", b"9 (x) S 2 0", b"9 (x) S a 0 0 0 -1 0 0 0 0 0 7 5 3 4"] {
            assert_eq!(parse_stat(text), None, "{text:?}");
        }
    }

    #[test]
    fn what_was_counted_alive_is_not_counted_again() {
        let mut waited = Waited { children_ns: 100, ..Waited::default() };
        assert_eq!(waited.arrive(150), 50, "a child that was never seen");
        waited.known_ns = 70;
        assert_eq!(waited.arrive(150), 0, "its time has not arrived yet");
        assert_eq!(waited.arrive(230), 10, "it burnt 10 more after it was seen last");
        assert_eq!(waited.arrive(240), 10);
        waited.known_ns = 70;
        assert_eq!((waited.arrive(240), waited.arrive(240)), (0, 0));
        assert_eq!(waited.arrive(260), 20, "nobody waited: what is known is forgotten");
    }

    #[test]
    fn descendants_count_once_whether_seen_alive_or_not() {
        let mut watcher = Processes::new(false);
        let before = children_times();
        let start = watcher.sample(true);
        let spawn = || {
            // The inner shell is a grandchild, which its parent waits for.
            let script = format!("sh -c '{BURN}'; {BURN}");
            Command::new("sh").arg("-c").arg(script).stdout(Stdio::null()).spawn().unwrap()
        };
        // One that lives and dies between two samples, and one that is looked at often.
        spawn().wait().unwrap();
        let unseen = watcher.sample(true);
        let mut child = spawn();
        while child.try_wait().unwrap().is_none() {
            watcher.sample(true);
            std::thread::sleep(Duration::from_millis(2));
        }
        watcher.sample(true);
        let end = watcher.sample(true);
        let used = children_times().since(&before);
        let used_ns = used.user_ns + used.system_ns;
        let counted_ns = end.descendants_ns - start.descendants_ns;
        assert!(unseen.descendants_ns > start.descendants_ns);
        // Other tests of this process start programs too, which are in both.
        let tolerance_ns = used_ns / 20 + 100_000_000;
        assert!(counted_ns.abs_diff(used_ns) <= tolerance_ns, "{counted_ns} of {used_ns}");
    }

    #[test]
    fn what_goes_together_with_its_parent_is_known_to_the_one_above() {
        let process = |parent, own_ns, family| Process {
            parent,
            family,
            own_ns,
            waited: Waited { children_ns: 1, ..Waited::default() },
        };
        let mut watcher = Processes::new(false);
        watcher.own_pid = 50;
        watcher.own = Waited::default();
        watcher.processes =
            HashMap::from([(1, process(0, 0, Family::Other)), (10, process(1, 0, Family::Other))]);
        watcher.bequeath(&HashMap::from([
            (11, process(10, 100, Family::Other)),
            (12, process(11, 200, Family::Other)),
            (13, process(12, 400, Family::Other)),
            (20, process(19, 1000, Family::Other)),
            (51, process(50, 30, Family::Descendant)),
            (52, process(51, 60, Family::Descendant)),
        ]));
        assert_eq!(watcher.processes[&10].waited.known_ns, 703);
        assert_eq!(
            watcher.processes[&1].waited.known_ns, 1001,
            "an orphan goes to the first process"
        );
        assert_eq!(watcher.own.known_ns, 92);
    }

    #[test]
    fn families_are_told_apart() {
        let mut watcher = Processes::new(false);
        (watcher.own_pid, watcher.starter_pid) = (50, 40);
        watcher.processes.clear();
        let stat = |parent| Stat { parent, is_kernel_thread: false, children_ticks: 0 };
        let found: HashMap<u32, Stat> = [
            (40, stat(1)),
            (41, stat(40)),
            (51, stat(50)),
            (52, stat(51)),
            (7, stat(1)),
            (1, stat(0)),
        ]
        .into_iter()
        .chain([(8, stat(7)), (90, stat(91)), (91, stat(90))])
        .collect();
        for (pid, family) in [
            (40, Family::Starter),
            (41, Family::Starter),
            (51, Family::Descendant),
            (52, Family::Descendant),
            (7, Family::Other),
            (8, Family::Other),
            (1, Family::Other),
            (90, Family::Other),
        ] {
            assert_eq!(watcher.family_of(pid, &found), family, "{pid}");
        }
        watcher.starter_pid = 1;
        assert_eq!(watcher.family_of(1, &found), Family::Starter);
        assert_eq!(watcher.family_of(7, &found), Family::Other);
    }
}
