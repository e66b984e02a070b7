//! Processes that outlive the program which started them: adopted by this process instead of by init,
//! so that they can be counted, named and ended. Which of them may live on is left to the callers.
//!
//! A process is adopted wherever it has gone: to another group or session, to another directory. Call
//! all of this only while no child of this process's own runs: adopted and own children look alike.

use std::fs;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, WaitId, WaitIdOptions, WaitOptions, getpid, pidfd_open, pidfd_send_signal,
    set_child_subreaper, waitid, waitpid,
};

use crate::error::{Result, SysError};
use crate::idle_loop;
use crate::process::{ProcessIdentity, Signal, identity, parse_stat};

/// How long what is about to end by itself may take.
const OWN_GRACE: Duration = Duration::from_millis(300);
/// How long those that were asked to end may take.
const TERM_GRACE: Duration = Duration::from_secs(1);
/// How long those that were killed may take: one in the middle of device I/O cannot end at once.
const KILL_GRACE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);

/// A child that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// Which process it is.
    pub identity: ProcessIdentity,
    /// The name of its program.
    pub name: String,
}

/// A child that had ended and was waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buried {
    /// What its number was.
    pub pid: u32,
    /// The name of its program.
    pub name: String,
    /// Whether SIGKILL ended it.
    pub killed: bool,
}

/// What [`end`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Names of those that ran and were ended.
    pub ended: Vec<String>,
    /// Names of those that still run: those of another user, or stuck in the kernel.
    pub left: Vec<String>,
    /// Those that ended by themselves, or had been killed by somebody else, before their turn came.
    pub buried: Vec<Buried>,
}

/// From now on whatever the descendants of this process leave behind becomes its child.
///
/// # Errors
/// None that is known; the kernel's errno if it refuses.
pub fn adopt() -> Result<()> {
    set_child_subreaper(Some(getpid()))
        .map_err(|errno| SysError::new("prctl PR_SET_CHILD_SUBREAPER", "this process", errno))
}

/// The children that run.
#[must_use]
pub fn living() -> Vec<Orphan> {
    let running = |(pid, name)| Some(Orphan { identity: identity(pid)?, name });
    children().into_iter().filter_map(running).collect()
}

/// Waits for the children that have ended; from then on their processor time is counted as that of
/// children. Where there are no children at all this is one system call.
pub fn bury() -> Vec<Buried> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let mut buried = Vec::new();
    while let Ok(Some(_)) = waitid(WaitId::All, look) {
        let before = buried.len();
        for (pid, name) in children() {
            let Some(number) = raw(pid) else { continue };
            if let Ok(Some((_, status))) = waitpid(Some(number), WaitOptions::NOHANG) {
                let killed = status.terminating_signal() == Some(Signal::KILL.as_raw());
                buried.push(Buried { pid, name, killed });
            }
        }
        if buried.len() == before {
            break;
        }
    }
    buried
}

/// Ends all children but those in `spare`, and what these leave behind in turn: gives them a moment to
/// end by themselves, asks them, and kills them when they do not listen.
pub fn end(spare: &[ProcessIdentity]) -> Ending {
    let start = Instant::now();
    let mut ending = Ending::default();
    let mut known: Vec<ProcessIdentity> = Vec::new();
    let mut was_killed: Vec<ProcessIdentity> = Vec::new();
    loop {
        // In this order: one that dies in between is still buried.
        let mut running = living();
        let gone = bury();
        running.retain(|orphan| {
            let identity = &orphan.identity;
            !spare.contains(identity) && gone.iter().all(|one| one.pid != identity.pid)
        });
        let is_ours = |pid| known.iter().any(|known| known.pid == pid);
        ending.buried.extend(gone.into_iter().filter(|one| !is_ours(one.pid)));
        if running.is_empty() {
            return ending;
        }
        if start.elapsed() > OWN_GRACE + TERM_GRACE + KILL_GRACE {
            ending.left = running.into_iter().map(|orphan| orphan.name).collect();
            return ending;
        }
        running.retain(|_| start.elapsed() > OWN_GRACE);
        for orphan in running {
            if !known.contains(&orphan.identity) {
                known.push(orphan.identity);
                signal(&orphan.identity, Signal::TERM);
                ending.ended.push(orphan.name);
            } else if start.elapsed() > OWN_GRACE + TERM_GRACE
                && !was_killed.contains(&orphan.identity)
            {
                was_killed.push(orphan.identity);
                signal(&orphan.identity, Signal::KILL);
            }
        }
        std::thread::sleep(POLL);
    }
}

/// Signals that very process; one that has ended or belongs to another user is passed over.
fn signal(process: &ProcessIdentity, signal: Signal) {
    let Some(number) = raw(process.pid) else { return };
    // The descriptor keeps its process, whoever gets the number later.
    let Ok(descriptor) = pidfd_open(number, PidfdFlags::empty()) else { return };
    if identity(process.pid).as_ref() == Some(process) {
        // A failure shows in that it goes on running.
        let _: rustix::io::Result<()> = pidfd_send_signal(&descriptor, signal);
    }
}

fn raw(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Numbers and programs of all children, corpses included, but not that of an [`idle_loop`].
fn children() -> Vec<(u32, String)> {
    // Without children, which is the rule, nothing of /proc is read.
    let any = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    if waitid(WaitId::All, any).is_err_and(|errno| errno == Errno::CHILD) {
        return Vec::new();
    }
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let child = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let name = text.split_once('(')?.1.rsplit_once(')')?.0.escape_debug().to_string();
        (parse_stat(&text)?.parent_pid == own).then_some((pid, name))
    };
    numbers.filter(|pid| !idle_loop::is_it(*pid)).filter_map(child).collect()
}
