//! Lists what is installed and asks for the attributes of every file, by what the package manager's own
//! database says: for each package its list of files is read, then each path in it is looked up.

use std::ffi::{CStr, CString};

use fsdyno_sys::calls::{Calls, FileKind, dir_buffer};
use fsdyno_sys::{Errno, SysError};

use crate::failure::{check_interrupt, name_failed};
use crate::recorder::{Operation, Recorder};

/// Directory of the lists, below the root of an installation.
const INFO: &CStr = c"var/lib/dpkg/info";
const LIST_SUFFIX: &[u8] = b".list";

/// What was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Installed {
    /// Packages.
    pub packages: u64,
    /// Regular files.
    pub files: u64,
    /// Symbolic links.
    pub links: u64,
    /// Sum of the sizes of the regular files in bytes.
    pub bytes: u64,
}

/// Lists the installation below `root`, in the order of the packages' names; `advance` hears of every
/// package.
///
/// # Errors
/// The call that failed first, with its path; a signal that asks to stop.
pub fn list<C: Calls>(
    calls: &C,
    root: &C::Fd,
    recorder: &mut Recorder,
    mut advance: impl FnMut(),
) -> anyhow::Result<Installed> {
    let failed = |call: &'static str, name: &CStr, errno| name_failed(call, "", name, errno);
    let mut buffer = dir_buffer();
    let mut lists: Vec<CString> = Vec::new();
    let info = calls.open_dir(root, INFO).map_err(|errno| failed("open", INFO, errno))?;
    recorder.end(Operation::Open);
    calls
        .list(&info, &mut buffer, |name, kind, _| {
            if kind != FileKind::Directory && name.to_bytes().ends_with(LIST_SUFFIX) {
                lists.push(name.to_owned());
            }
        })
        .map_err(|errno| failed("list", INFO, errno))?;
    recorder.end(Operation::List);
    lists.sort_unstable();
    let mut found = Installed::default();
    let mut text = Vec::new();
    for name in &lists {
        check_interrupt()?;
        read_whole(calls, &info, name, &mut text, recorder)
            .map_err(|(call, errno)| failed(call, name, errno))?;
        stat_listed(calls, root, &mut text, &mut found, recorder)?;
        found.packages += 1;
        advance();
    }
    calls.close(info).map_err(|errno| failed("close", INFO, errno))?;
    recorder.end(Operation::Close);
    Ok(found)
}

/// Reads a whole file into `text`.
fn read_whole<C: Calls>(
    calls: &C,
    directory: &C::Fd,
    name: &CStr,
    text: &mut Vec<u8>,
    recorder: &mut Recorder,
) -> Result<(), (&'static str, Errno)> {
    const STEP_BYTES: usize = 64 << 10;
    recorder.begin();
    let file = calls.open_read(directory, name).map_err(|errno| ("open", errno))?;
    recorder.end(Operation::Open);
    let mut length = 0;
    loop {
        if text.len() < length + STEP_BYTES {
            text.resize(length + STEP_BYTES, 0);
            recorder.begin();
        }
        let count = calls.read(&file, &mut text[length..]).map_err(|errno| ("read", errno))?;
        recorder.end(Operation::Read);
        length += count;
        if count == 0 {
            break;
        }
    }
    text.truncate(length);
    calls.close(file).map_err(|errno| ("close", errno))?;
    recorder.end(Operation::Close);
    recorder.bytes += length as u64;
    recorder.read_bytes += length as u64;
    Ok(())
}

/// Asks for the attributes of every path in a list; its line ends become ends of names.
fn stat_listed<C: Calls>(
    calls: &C,
    root: &C::Fd,
    text: &mut [u8],
    found: &mut Installed,
    recorder: &mut Recorder,
) -> Result<(), SysError> {
    recorder.begin();
    for line in text.split_inclusive_mut(|byte| *byte == b'\n') {
        let Some((end, path)) = line.split_last_mut().filter(|(end, _)| **end == b'\n') else {
            continue;
        };
        *end = 0;
        // Paths begin with a slash, and the root of the installation is another one.
        let skipped = path.iter().take_while(|byte| **byte == b'/').count();
        let Ok(name) = CStr::from_bytes_until_nul(&line[skipped..]) else { continue };
        let facts = calls.stat(root, name).map_err(|errno| name_failed("stat", "", name, errno))?;
        recorder.end(Operation::Stat);
        match facts.kind {
            FileKind::File => {
                found.files += 1;
                found.bytes += facts.size;
            }
            FileKind::Symlink => found.links += 1,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fsdyno_sys::calls::Real;

    use super::*;

    #[test]
    fn lists_are_followed() {
        let directory = tempfile::tempdir().unwrap();
        let info = directory.path().join("var/lib/dpkg/info");
        std::fs::create_dir_all(&info).unwrap();
        std::fs::create_dir(directory.path().join("usr")).unwrap();
        std::fs::write(directory.path().join("usr/a b"), "12345").unwrap();
        std::os::unix::fs::symlink("nowhere", directory.path().join("usr/l")).unwrap();
        std::fs::write(info.join("one.list"), "/.\n/usr\n/usr/a b\n/usr/l\nunfinished").unwrap();
        std::fs::write(info.join("one.md5sums"), "/no/such/thing\n").unwrap();
        std::fs::write(info.join("two.list"), "/usr\n").unwrap();
        let root = Real.open_root(directory.path()).unwrap();
        let mut recorder = Recorder::new();
        let found = list(&Real, &root, &mut recorder, || {}).unwrap();
        assert_eq!(found, Installed { packages: 2, files: 1, links: 1, bytes: 5 });
        assert_eq!(recorder.count(Operation::Stat), 5);
        std::fs::write(info.join("two.list"), "/usr/absent\n").unwrap();
        let error = list(&Real, &root, &mut recorder, || {}).unwrap_err().to_string();
        assert_eq!(error, "stat usr/absent: ENOENT No such file or directory");
    }
}
