//! Modes and times of what was extracted: system calls that only extraction needs. When they are set,
//! and to what, is left to the extractor.

use fsdyno_sys::calls::{CallResult, Calls, Null, Real};
use rustix::fs::{Mode, Timespec, Timestamps, UTIME_OMIT};

/// Calls that set attributes of open files and directories.
pub trait Attributes: Calls {
    /// Sets the permission bits of an open file or directory, regardless of the umask.
    fn set_mode(&self, fd: &Self::Fd, mode: u32) -> CallResult<()>;
    /// Sets when an open file or directory was modified, in seconds since 1970.
    fn set_modified(&self, fd: &Self::Fd, seconds: i64) -> CallResult<()>;
}

impl Attributes for Real {
    #[inline]
    fn set_mode(&self, fd: &Self::Fd, mode: u32) -> CallResult<()> {
        rustix::fs::fchmod(fd, Mode::from_raw_mode(mode))
    }

    #[inline]
    fn set_modified(&self, fd: &Self::Fd, seconds: i64) -> CallResult<()> {
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: seconds, tv_nsec: 0 },
        };
        rustix::fs::futimens(fd, &times)
    }
}

impl Attributes for Null {
    #[inline]
    fn set_mode(&self, (): &(), _: u32) -> CallResult<()> {
        Ok(())
    }

    #[inline]
    fn set_modified(&self, (): &(), _: i64) -> CallResult<()> {
        Ok(())
    }
}

/// The bits that this process's umask takes from the mode of new files; `None` where the kernel does
/// not tell without changing it.
pub(super) fn umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let field = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(field.trim(), 8).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_umask_is_known_where_proc_is() {
        if !std::path::Path::new("/proc/self/status").exists() {
            println!("skipped: no /proc");
            return;
        }
        assert!(super::umask().is_some_and(|mask| mask <= 0o777));
    }
}
