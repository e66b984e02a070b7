//! The errors of calls of the engine: what failed on which path, and which of them mean that the
//! filesystem cannot do what was asked, so that the trial is skipped. Built only once something has
//! gone wrong.

use fsdyno_sys::Errno;

use super::planner::{Call, TO};
use crate::failure::{Unavailable, call_failed};

/// Name of a call in messages.
fn name(call: &Call<'_>) -> &'static str {
    match call {
        Call::Open { flags, .. } if flags.create => "create",
        Call::Open { .. } | Call::OpenDirectory { .. } => "open",
        Call::Close { .. } => "close",
        Call::Read { .. } | Call::Short { .. } => "read",
        Call::Write { .. } | Call::WriteBack { .. } => "write",
        Call::MmapRead { .. } | Call::MmapWrite { .. } => "mmap",
        Call::Fsync { .. } => "fsync",
        Call::Fdatasync { .. } => "fdatasync",
        Call::SyncFileRange { .. } => "sync_file_range",
        Call::Truncate { .. } => "truncate",
        Call::Fallocate { .. } => "fallocate",
        Call::Punch { .. } => "punch a hole",
        Call::LockUnlock { .. } => "flock",
        Call::SetXattr { .. } => "setxattr",
        Call::GetXattr { .. } => "getxattr",
        Call::Stat { .. } => "stat",
        Call::List => "getdents",
        Call::Unlink { .. } => "unlink",
        Call::Mkdir { .. } => "mkdir",
        Call::Rmdir { .. } => "rmdir",
        Call::Rename { .. } => "rename",
        Call::Link { .. } => "link",
        Call::Symlink { .. } => "symlink",
        Call::CopyRange { .. } => "copy_file_range",
        Call::Reflink => "reflink",
        _ => "step",
    }
}

/// Whether `errno` from `call` says that this filesystem never does that.
fn is_unsupported(call: &Call<'_>, errno: Errno) -> bool {
    let never = matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY);
    match call {
        Call::Open { flags, .. } => {
            flags.direct && matches!(errno, Errno::INVAL | Errno::OPNOTSUPP)
        }
        Call::Link { .. } | Call::Symlink { .. } => never || errno == Errno::PERM,
        Call::MmapRead { .. } | Call::MmapWrite { .. } => never || errno == Errno::NODEV,
        Call::Reflink | Call::CopyRange { .. } => {
            never || matches!(errno, Errno::INVAL | Errno::XDEV)
        }
        Call::Fallocate { .. }
        | Call::Punch { .. }
        | Call::SyncFileRange { .. }
        | Call::LockUnlock { .. }
        | Call::SetXattr { .. }
        | Call::GetXattr { .. } => never,
        _ => false,
    }
}

/// The error of `call` on `subject`.
#[cold]
pub(super) fn failure(call: &Call<'_>, subject: String, errno: Errno) -> anyhow::Error {
    if !is_unsupported(call, errno) {
        return call_failed(name(call), subject, errno).into();
    }
    let how = match call {
        Call::Open { .. } => "open without the page cache (O_DIRECT)",
        _ => name(call),
    };
    Unavailable(format!("the filesystem cannot {how}: {subject}: {errno}")).into()
}

/// The error of a step that could not go on although no call has failed.
#[cold]
pub(super) fn short(call: &Call<'_>, subject: String) -> anyhow::Error {
    match *call {
        Call::Short { offset, expected, found, place } => {
            let what = if place == TO { "copied" } else { "read" };
            call_failed("read", subject, Errno::IO)
                .with_detail(format!(
                    "{found} bytes instead of {expected} were {what} from byte {offset} on"
                ))
                .into()
        }
        Call::Empty { place } => anyhow::anyhow!(
            "a step works on slot {place}, in which no file is open: open or create one before it"
        ),
        _ => anyhow::anyhow!("a step on {subject} could not go on"),
    }
}
