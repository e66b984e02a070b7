//! Removes a tree whose names are not known before.

use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;

use fsdyno_sys::Errno;
use fsdyno_sys::calls::{CallResult, Calls, FileKind, Real, dir_buffer};

use crate::recorder::{Operation, Recorder};

/// Removes what is below `name` and, unless directories are kept, itself. Nothing there is fine. As the
/// names are not known before, this allocates.
///
/// # Errors
/// The call that failed first.
pub fn delete_tree(
    root: &OwnedFd,
    name: &CStr,
    keeps_directories: bool,
    recorder: &mut Recorder,
) -> CallResult<()> {
    let directory = match Real.open_dir(root, name) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => {
            let removed = Real.unlink(root, name);
            recorder.end(Operation::Unlink);
            recorder.files += 1;
            return removed;
        }
        Err(errno) => return Err(errno),
    };
    recorder.end(Operation::Open);
    let mut entries: Vec<(CString, FileKind)> = Vec::new();
    Real.list(&directory, &mut dir_buffer(), |name, kind, _| {
        entries.push((name.to_owned(), kind))
    })?;
    recorder.end(Operation::List);
    for (entry, kind) in &entries {
        if matches!(kind, FileKind::Directory | FileKind::Unknown) {
            delete_tree(&directory, entry, keeps_directories, recorder)?;
        } else {
            Real.unlink(&directory, entry)?;
            recorder.end(Operation::Unlink);
            recorder.files += 1;
        }
    }
    Real.close(directory)?;
    recorder.end(Operation::Close);
    if keeps_directories {
        return Ok(());
    }
    let removed = Real.rmdir(root, name);
    recorder.end(Operation::Rmdir);
    removed
}
