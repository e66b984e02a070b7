//! A process beside a program that ends it, and its whole process group, once this process has died.
//!
//! On the death of a parent the kernel signals its child alone (`prctl(2)`, PR_SET_PDEATHSIG). A program of
//! several processes is to end the others then; one that was signalled at a bad moment leaves some behind.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    PidfdFlags, Signal, getpgrp, getpid, kill_current_process_group, pidfd_open,
};

/// Has the process group of the child killed (SIGKILL) `grace` after this process has died, and at once when the
/// child has ended. The child must lead a group of its own
/// ([`own_process_group`](crate::process::own_process_group)); it has one child more than it knows of, which no
/// signal to its group ends but SIGKILL. Kernels before 5.3 cannot watch over processes: there nothing is done.
pub fn watch_over(command: &mut Command, grace: Duration) -> &mut Command {
    let parent = getpid();
    let divide = move || {
        if getpgrp() != getpid() {
            // It would be this process's own group that is killed.
            return Err(io::Error::from(Errno::PERM));
        }
        let (parent, program) = match (open(parent)?, open(getpid())?) {
            (Some(parent), Some(program)) => (parent, program),
            _ => return Ok(()),
        };
        // SAFETY: this process has one thread, and neither side allocates or takes a lock before it executes
        // a program or ends.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => guard(&parent, &program, grace),
            _ => Ok(()),
        }
    };
    // SAFETY: between fork and exec only system calls are made, without allocation or locks.
    unsafe { command.pre_exec(divide) }
}

/// `None` where the kernel has no such descriptors.
fn open(process: rustix::process::Pid) -> io::Result<Option<OwnedFd>> {
    match pidfd_open(process, PidfdFlags::empty()) {
        Err(Errno::NOSYS) => Ok(None),
        opened => Ok(Some(opened?)),
    }
}

/// What the warden does: it waits, and takes the group with it.
fn guard(parent: &OwnedFd, program: &OwnedFd, grace: Duration) -> ! {
    block_signals();
    // Whoever reads from a pipe that the program writes waits for its end, not for the warden's.
    close_all_but(parent.as_raw_fd(), program.as_raw_fd());
    await_end(&[parent, program], None);
    await_end(&[program], Timespec::try_from(grace).ok().as_ref());
    let _ = kill_current_process_group(Signal::KILL);
    // SAFETY: it does not return, and runs nothing of what the parent has registered.
    unsafe { libc::_exit(0) }
}

/// Until one of these has ended, or the time is over.
fn await_end(processes: &[&OwnedFd], limit: Option<&Timespec>) {
    loop {
        // Never more than two, and no allocation.
        let mut ends = [0, 1].map(|at| {
            let process = processes.get(at).unwrap_or(&processes[0]);
            PollFd::new(*process, PollFlags::IN)
        });
        match poll(&mut ends, limit) {
            Err(Errno::INTR) => {}
            _ => return,
        }
    }
}

fn block_signals() {
    // SAFETY: the set is initialised by `sigfillset` before it is read.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}

fn close_all_but(one: RawFd, other: RawFd) {
    let (low, high) = (one.min(other), one.max(other));
    for (first, last) in [(0, low - 1), (low + 1, high - 1), (high + 1, RawFd::MAX)] {
        if first <= last {
            close(first, last);
        }
    }
}

/// Kernels before 5.9 close one at a time.
fn close(first: RawFd, last: RawFd) {
    // SAFETY: nothing in this process uses a descriptor any more but the two that are left out.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, last, 0) != 0 {
            for descriptor in first..=last.min(1 << 16) {
                libc::close(descriptor);
            }
        }
    }
}
