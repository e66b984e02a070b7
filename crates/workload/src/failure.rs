//! How a workload fails: errors that name the call, the path and the errno, with what to try; what is
//! missing on the machine; and the request to stop. Built only once something has gone wrong, never in
//! the hot loop.

use std::ffi::CStr;
use std::fmt;

use fsdyno_sys::process::interrupted;
use fsdyno_sys::{Errno, SysError};

/// The error of `call` on `target`, a path below the workload's directory.
#[cold]
#[must_use]
pub fn call_failed(call: &'static str, target: impl Into<String>, errno: Errno) -> SysError {
    let error = SysError::new(call, target, errno);
    match advice(errno) {
        Some(advice) => error.with_detail(advice),
        None => error,
    }
}

/// The same for a name within `owner`, the tree or directory that names are relative to.
#[cold]
#[must_use]
pub fn name_failed(call: &'static str, owner: &str, name: &CStr, errno: Errno) -> SysError {
    let name = name.to_string_lossy();
    call_failed(
        call,
        if owner.is_empty() { name.into_owned() } else { format!("{owner}/{name}") },
        errno,
    )
}

/// What to try after an error, where something is known to help.
fn advice(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::NOSPC => {
            "the target is full: make room on it or an image larger (--size), or the workload smaller, see its parameters"
        }
        Errno::DQUOT => "a quota is used up: raise it or make the workload smaller",
        Errno::ROFS => {
            "the filesystem is or became read-only: see the kernel log (dmesg) for errors of the device"
        }
        Errno::IO => "the device or filesystem failed: see the kernel log (dmesg)",
        Errno::UCLEAN | Errno::BADMSG => {
            "the filesystem found its own data damaged: see the kernel log (dmesg) and run fsck"
        }
        Errno::EXIST => "the working directory must be empty: choose another one",
        Errno::ACCESS | Errno::PERM => "check the rights on the working directory or run as root",
        Errno::MFILE | Errno::NFILE => "too many files are open: raise `ulimit -n`",
        Errno::NAMETOOLONG => "choose a working directory with a shorter path",
        Errno::MLINK => "the filesystem allows no more directories in one: use fewer",
        _ => return None,
    })
}

/// Something that a workload needs is not on this machine: its trial is skipped, not failed. As the
/// error of a workload it may lie under any context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable(
    /// What is missing, and what to install or give.
    pub String,
);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

/// A signal asked the workload to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Fails once a signal has asked this process to stop; costs one relaxed load.
///
/// # Errors
/// [`Interrupted`].
#[inline(always)]
pub fn check_interrupt() -> Result<(), Interrupted> {
    if interrupted() { Err(Interrupted) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_call_path_errno_and_advice() {
        let error = name_failed("write", "kernel-3", c"fs/inode.c", Errno::NOSPC).to_string();
        assert!(
            error.starts_with("write kernel-3/fs/inode.c: ENOSPC No space left on device ("),
            "{error}"
        );
        assert!(error.contains("--size"), "{error}");
        assert_eq!(
            name_failed("open", "", c"f1", Errno::NOENT).to_string(),
            "open f1: ENOENT No such file or directory"
        );
    }
}
