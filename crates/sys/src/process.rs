//! Processes: children that die with their parent, whether a process recorded earlier still lives,
//! signals that ask us to stop, rights, the terminal.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::io::Errno;
pub use rustix::process::Signal;
use rustix::process::{
    Pid, getpid, getppid, set_parent_process_death_signal, test_kill_process_group,
};
use rustix::thread::CapabilitySet;

use crate::error::{Result, SysError};

/// Has the kernel kill the child (SIGKILL) when the *thread* that starts it ends, however that comes
/// about. Start such children from a thread that lives as long as they should.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    signal_with_parent(command, Signal::KILL)
}

/// As [`die_with_parent`], with a signal of the caller's choice: for a program that ends its own children
/// when it gets that signal, and could not if it were killed. It holds for a child of another user too.
pub fn signal_with_parent(command: &mut Command, signal: Signal) -> &mut Command {
    let parent = getpid();
    let arm = move || {
        set_parent_process_death_signal(Some(signal))?;
        // The parent may have gone between the fork and the request: then nobody will send the signal.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::Error::from(Errno::CANCELED)) }
    };
    // SAFETY: between fork and exec only two system calls are made, without allocation or locks.
    unsafe { command.pre_exec(arm) }
}

/// Has SIGINT end the child, or be its own to handle, even where this process ignores it, as a shell has
/// what it starts in the background do.
pub fn heed_interrupts(command: &mut Command) -> &mut Command {
    let heed = || {
        // SAFETY: the default action takes no handler.
        match unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) } {
            libc::SIG_ERR => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // SAFETY: between fork and exec one system call is made, without allocation or locks.
    unsafe { command.pre_exec(heed) }
}

/// Makes the child the leader of its own process group, so that signals from the terminal do not
/// reach it and [`kill_group`] reaches all that it starts.
pub fn own_process_group(command: &mut Command) -> &mut Command {
    command.process_group(0)
}

/// Sends `signal` to every process of the group led by `pid`. A group that has ended is a success.
///
/// # Errors
/// `EPERM` where none of them may be signalled; `EINVAL` for a pid that cannot lead a group.
pub fn kill_group(pid: u32, signal: Signal) -> Result<()> {
    let target = || format!("process group {pid}");
    // 1 would reach every process of the machine.
    let leader = i32::try_from(pid).ok().filter(|&pid| pid > 1).and_then(Pid::from_raw);
    let leader = leader.ok_or_else(|| SysError::new("kill", target(), Errno::INVAL))?;
    match rustix::process::kill_process_group(leader, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(errno) => Err(SysError::new("kill", target(), errno)),
    }
}

/// True while a process of the group led by `pid` runs, even after its leader; corpses do not count.
pub fn group_is_alive(pid: u32) -> bool {
    let leader = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let exists = |group| test_kill_process_group(group) != Err(Errno::SRCH);
    if !leader.is_some_and(exists) {
        return false;
    }
    // Corpses exist for the kernel. In a container nobody may ever bury those whose parent has gone.
    let Ok(entries) = fs::read_dir("/proc") else { return true };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut stats = numbers.filter_map(|other: u32| {
        parse_stat(&fs::read_to_string(format!("/proc/{other}/stat")).ok()?)
    });
    stats.any(|stat| stat.group == pid && stat.is_alive())
}

/// What tells a process from a later one with the same number. Only within one boot: record
/// [`crate::kernel::boot_id`] beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessIdentity {
    /// Process number.
    pub pid: u32,
    /// Start of the process in clock ticks since boot.
    pub start_ticks: u64,
}

/// The identity of the process `pid`, or `None` where there is none, or only its corpse (a zombie).
pub fn identity(pid: u32) -> Option<ProcessIdentity> {
    let stat = parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    stat.is_alive().then_some(ProcessIdentity { pid, start_ticks: stat.start_ticks })
}

/// The identity of this process.
///
/// # Errors
/// Where `/proc` is not mounted.
pub fn own_identity() -> Result<ProcessIdentity> {
    identity(std::process::id())
        .ok_or_else(|| SysError::at_path("read", Path::new("/proc/self/stat"), Errno::NOENT))
}

/// True while that very process runs.
pub fn is_alive(process: &ProcessIdentity) -> bool {
    identity(process.pid).as_ref() == Some(process)
}

/// Kills that very process; one that has ended is a success.
///
/// # Errors
/// `EPERM` where it may not be signalled.
pub fn kill(process: &ProcessIdentity) -> Result<()> {
    if !is_alive(process) {
        return Ok(());
    }
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let killed = pid.map_or(Ok(()), |pid| rustix::process::kill_process(pid, Signal::KILL));
    match killed {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(errno) => Err(SysError::new("kill", format!("process {}", process.pid), errno)),
    }
}

/// The fields of `/proc/PID/stat` that are used here and in [`crate::kthreads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    pub state: char,
    pub parent_pid: u32,
    /// Process that leads, or led, its group.
    pub group: u32,
    /// User and kernel time, in clock ticks.
    pub cpu_ticks: u64,
    pub start_ticks: u64,
}

impl ProcessStat {
    /// False for a corpse that nobody has waited for.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Fields are counted from the last `)`: the name before it may hold anything.
pub(crate) fn parse_stat(text: &str) -> Option<ProcessStat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    // The first field here is number 3 of proc_pid_stat(5).
    let field = |number: usize| fields.get(number - 3).copied();
    let ticks = |number: usize| field(number)?.parse::<u64>().ok();
    Some(ProcessStat {
        state: field(3)?.chars().next()?,
        parent_pid: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        cpu_ticks: ticks(14)?.checked_add(ticks(15)?)?,
        start_ticks: ticks(22)?,
    })
}

/// True where the effective user is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// True where this process holds the capability that mounting takes (`CAP_SYS_ADMIN`). A security
/// module or a container may still refuse.
pub fn may_mount() -> bool {
    rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Where the kernel must kill a process for want of memory, it prefers this one and its children to others
/// of their size: so does work that is done for another process, which then tells what happened.
///
/// # Errors
/// Where `/proc` is not mounted.
pub fn prefer_when_memory_is_short() -> Result<()> {
    // proc_pid_oom_score_adj(5): thousandths of all memory that count as if they were used; at most 1000.
    const SHARE: &str = "500";
    let path = Path::new("/proc/self/oom_score_adj");
    fs::write(path, SHARE).map_err(|error| SysError::from_io("write", path, &error))
}

static INTERRUPT: AtomicI32 = AtomicI32::new(0);

extern "C" fn remember_signal(signal: libc::c_int) {
    // The first one is kept: it is the reason. An atomic store is all that is allowed here anyway.
    let _ = INTERRUPT.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
}

/// From now on SIGINT, SIGTERM and SIGHUP only set the flag that [`interrupted`] reads. Blocking calls
/// are restarted, not cut short: loops must look at the flag. A SIGHUP or SIGINT that our parent had us
/// ignore (nohup, a shell's background job) stays ignored.
///
/// # Errors
/// None that is known; the kernel's errno if it refuses.
pub fn install_signal_handlers() -> Result<()> {
    for (signal, name) in
        [(libc::SIGINT, "SIGINT"), (libc::SIGTERM, "SIGTERM"), (libc::SIGHUP, "SIGHUP")]
    {
        install_handler(signal).map_err(|errno| SysError::new("sigaction", name, errno))?;
    }
    Ok(())
}

fn install_handler(signal: libc::c_int) -> std::result::Result<(), Errno> {
    let failed = || Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL);
    // SAFETY: an all-zero `sigaction` is a valid value (default action, empty mask).
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: `old` is valid for writing one `sigaction`; a null new action only asks.
    if unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut old) } != 0 {
        return Err(failed());
    }
    if signal != libc::SIGTERM && old.sa_sigaction == libc::SIG_IGN {
        return Ok(());
    }
    // SAFETY: as above.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = remember_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler has the signature that goes without SA_SIGINFO, and does nothing but an
    // atomic operation; both pointers are valid.
    if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0 {
        return Err(failed());
    }
    Ok(())
}

/// True once a signal has asked this process to stop. Cheap enough for any loop.
#[inline]
pub fn interrupted() -> bool {
    INTERRUPT.load(Ordering::Relaxed) != 0
}

/// The number of the first signal that asked this process to stop.
pub fn interrupt_signal() -> Option<i32> {
    Some(INTERRUPT.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
}

/// True where standard output is a terminal.
pub fn stdout_is_terminal() -> bool {
    rustix::termios::isatty(rustix::stdio::stdout())
}

/// True where standard error is a terminal.
pub fn stderr_is_terminal() -> bool {
    rustix::termios::isatty(rustix::stdio::stderr())
}

/// Columns of the terminal behind standard output or else standard error; `None` without one.
pub fn terminal_width() -> Option<usize> {
    [rustix::stdio::stdout(), rustix::stdio::stderr()]
        .into_iter()
        .find_map(|stream| rustix::termios::tcgetwinsize(stream).ok())
        .map(|size| usize::from(size.ws_col))
        .filter(|&columns| columns > 0)
}

/// The most memory that this program has had resident, in bytes.
pub fn peak_rss_bytes() -> u64 {
    // getrusage would also count what the process was before it became this program: a fork of a
    // large parent.
    let status = fs::read_to_string("/proc/self/status").ok();
    let peak = status.and_then(|text| crate::caches::meminfo_bytes(&text, "VmHWM"));
    peak.unwrap_or_else(|| crate::cpu::usage(libc::RUSAGE_SELF).ru_maxrss as u64 * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Stdio};
    use std::time::{Duration, Instant};

    fn within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
        let start = Instant::now();
        while start.elapsed() < limit {
            if condition() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        condition()
    }

    fn sleeper() -> Command {
        let mut command = Command::new("sleep");
        command.arg("600").stdout(Stdio::null());
        command
    }

    fn end(mut child: Child) {
        let _ = child.kill();
        child.wait().unwrap();
    }

    #[test]
    fn stat_is_parsed_whatever_the_name_holds() {
        let rest = "S 2 3 0 0 -1 69238880 0 0 0 0 7 5 0 0 20 0 1 0 33 0 0";
        for name in ["jbd2/loop0-8", "a) R 9 (b", "", "x\ny"] {
            let stat = parse_stat(&format!("41 ({name}) {rest}")).unwrap();
            let expected =
                ProcessStat { state: 'S', parent_pid: 2, group: 3, cpu_ticks: 12, start_ticks: 33 };
            assert_eq!(stat, expected, "{name:?}");
        }
        for text in ["", "41", "41 (x)", "41 (x) S", "41 (x) S y 0 0", "41 (x S 2 0 0"] {
            assert_eq!(parse_stat(text), None, "{text:?}");
        }
    }

    #[test]
    fn identities_follow_the_life_of_a_process() {
        let own = own_identity().unwrap();
        assert!(is_alive(&own));
        assert!(!is_alive(&ProcessIdentity { start_ticks: own.start_ticks + 1, ..own }));
        let mut child = sleeper().spawn().unwrap();
        let child_identity = identity(child.id()).unwrap();
        assert!(is_alive(&child_identity));
        kill(&ProcessIdentity { start_ticks: 1, ..child_identity }).unwrap();
        assert!(is_alive(&child_identity), "another process of that number");
        kill(&child_identity).unwrap();
        // Not waited for yet: a corpse does not count as alive.
        assert!(within(Duration::from_secs(10), || !is_alive(&child_identity)));
        child.wait().unwrap();
        assert_eq!(identity(child_identity.pid), None);
    }

    #[test]
    fn a_child_dies_with_the_thread_that_started_it() {
        let child =
            std::thread::spawn(|| die_with_parent(&mut sleeper()).spawn().unwrap()).join().unwrap();
        let pid = child.id();
        let gone = within(Duration::from_secs(10), || identity(pid).is_none());
        end(child);
        assert!(gone, "the child outlived its parent thread");
        let other = sleeper().spawn().unwrap();
        let stays = !within(Duration::from_millis(50), || identity(other.id()).is_none());
        end(other);
        assert!(stays, "an ordinary child must not die");
    }

    #[test]
    fn killing_a_group_reaches_grandchildren() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $!; wait"]).stdout(Stdio::piped());
        let mut child = own_process_group(&mut command).spawn().unwrap();
        let mut line = String::new();
        io::BufRead::read_line(&mut io::BufReader::new(child.stdout.take().unwrap()), &mut line)
            .unwrap();
        let grandchild = identity(line.trim().parse().unwrap()).unwrap();
        assert!(group_is_alive(child.id()) && !group_is_alive(grandchild.pid));
        kill_group(child.id(), Signal::KILL).unwrap();
        child.wait().unwrap();
        assert!(within(Duration::from_secs(10), || !is_alive(&grandchild)));
        assert!(!group_is_alive(child.id()));
        kill_group(child.id(), Signal::KILL).unwrap();
        for pid in [0, 1, u32::MAX] {
            assert_eq!(kill_group(pid, Signal::TERM).unwrap_err().errno, Errno::INVAL);
        }
    }

    #[test]
    fn the_first_signal_is_remembered() {
        install_signal_handlers().unwrap();
        assert_eq!(interrupt_signal(), None);
        for signal in [Signal::TERM, Signal::INT] {
            rustix::process::kill_process(getpid(), signal).unwrap();
            assert!(within(Duration::from_secs(10), interrupted));
        }
        assert_eq!(interrupt_signal(), Some(libc::SIGTERM));
    }

    #[test]
    fn rights_and_memory_are_told() {
        assert!(!is_root() || Path::new("/proc/self/status").exists());
        assert!(peak_rss_bytes() > 64 << 10);
        assert!(
            !Path::new("/proc/self/oom_score_adj").exists()
                || prefer_when_memory_is_short().is_ok()
        );
        // Whatever it is, asking must not fail.
        let _ = (may_mount(), stdout_is_terminal(), stderr_is_terminal(), terminal_width());
    }
}
