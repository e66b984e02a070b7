//! A processor that is never idle: a process that takes it whenever nobody else wants it, and counts as idle
//! time for all who measure here.
//!
//! For virtual machines whose clock is the count of their instructions. An emulator that is told to halt moves
//! that clock on by itself, from another thread, and not to the same instruction each time; one whose processor
//! goes on counting has nothing to move. What the loop consists of costs such an emulator next to nothing:
//! instructions that do nothing, which are translated to nothing and only counted. It shares the memory of the
//! process that starts it: an emulator forgets translations of addresses whenever the processor goes to another
//! memory, and so need not between the loop and who waits for the next event.

use std::fs;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;

use crate::cpu::process_clock_ns;
use crate::error::{Result, SysError};

/// Rounds until others are asked whether they want the processor. Those that wake up take it at once; this is for
/// those that are ready and only wait for their share: after half a millisecond where an instruction takes a
/// nanosecond.
const ROUNDS: u32 = 4000;
/// So that `/proc/stat` counts its time as `nice`, apart from that of all others.
const NICE: libc::c_int = 19;

/// What the process calls with.
const STACK_BYTES: usize = 16 << 10;

/// Begins and ends where a stack may.
#[repr(align(16))]
struct Stack([u8; STACK_BYTES]);

/// Tells a child the number of the process.
const VARIABLE: &str = "FSDYNO_IDLE_LOOP";

/// Number of the process; 0 where this one has not started it.
static STARTED: AtomicU32 = AtomicU32::new(0);
/// Number that this process was told.
static TOLD: OnceLock<Option<u32>> = OnceLock::new();

/// The process, where this one has started it or was told of it.
fn pid() -> Option<u32> {
    let told = || std::env::var(VARIABLE).ok()?.parse().ok();
    match STARTED.load(Ordering::Relaxed) {
        0 => *TOLD.get_or_init(told),
        started => Some(started),
    }
}

/// Whether it is the process with this number.
pub(crate) fn is_it(other: u32) -> bool {
    pid() == Some(other)
}

/// How long it has had the processor, in nanoseconds; `None` where there is none.
pub(crate) fn idle_ns() -> Option<u64> {
    pid().and_then(process_clock_ns)
}

/// Has a child that measures know of it.
pub fn tell(command: &mut Command) {
    if let Some(pid) = pid() {
        command.env(VARIABLE, pid.to_string());
    }
}

/// Starts it, for as long as this process runs. One keeps one processor from idling.
///
/// # Errors
/// The kernel's, of clone(2).
pub fn start() -> Result<()> {
    let stack = Box::leak(Box::new(Stack([0; STACK_BYTES])));
    let top = stack.0.as_mut_ptr_range().end.cast();
    // SAFETY: the child has a stack of its own, which nobody else gets. It writes nothing else of the memory that it
    // shares, and takes no lock: it makes system calls only, which do not fail and so leave `errno` alone.
    let pid = unsafe {
        libc::clone(take_what_is_left, top, libc::CLONE_VM | libc::SIGCHLD, std::ptr::null_mut())
    };
    let pid = u32::try_from(pid).map_err(|_| {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
        SysError::new("clone", "the loop of an idle processor", Errno::from_raw_os_error(errno))
    })?;
    STARTED.store(pid, Ordering::Relaxed);
    // Its memory is another's: killing it frees none. Where that cannot be said, it may be killed for want of memory.
    let _ = fs::write(format!("/proc/{pid}/oom_score_adj"), "-1000");
    Ok(())
}

/// Runs only when nobody else does (`SCHED_IDLE` of sched(7)), without an end.
extern "C" fn take_what_is_left(_: *mut libc::c_void) -> libc::c_int {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads the parameters during the call, and the other call takes none. Neither fails for a
    // process of this user's own.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none);
        libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
    }
    // Where nobody is left whom it serves. A system call, as those above.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    loop {
        for _ in 0..ROUNDS {
            do_nothing();
        }
        // SAFETY: it takes and touches nothing.
        unsafe { libc::sched_yield() };
    }
}

/// Carries out instructions that do nothing: many in a row cost an emulator little more than one; with more than
/// these it translates too much anew whenever it goes on in the middle of them.
#[inline(always)]
fn do_nothing() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: these instructions neither read nor write anything.
    unsafe {
        std::arch::asm!(".rept 128", "nop", ".endr", options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    (0..128).for_each(|number| drop(std::hint::black_box(number)));
}
