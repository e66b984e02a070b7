//! Removing what a run left: mounts, arrays, loop devices, files, directories, and on block devices the
//! filesystem that it made. Only what a ledger names and a marker confirms is touched; symbolic links
//! are never followed; doing it twice does no harm.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fsdyno_sys::{block as sys_block, fuse, loopdev, mount};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use serde::Serialize;

use crate::device::array;
use crate::device::block::wipe_ends;
use crate::emulator;
use crate::guard;
use crate::workspace::{LEDGER_VERSION, Ledger, LedgerDevice, MARKER, live_directory};

/// Bits of a mode that let the group or everybody write.
const WRITABLE_FOR_OTHERS: u32 = 0o022;
/// More than any ledger has, in bytes.
const LEDGER_LIMIT_BYTES: u64 = 16 << 20;

/// One thing that was found and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reclaimed {
    /// What it is: `mount /x`, `loop device /dev/loop3`, `directory /x`, …
    pub what: String,
    /// Why it is still there; `None` where it is gone.
    pub error: Option<String>,
}

impl Reclaimed {
    fn new(what: String, result: Result<(), String>) -> Reclaimed {
        Reclaimed { what, error: result.err() }
    }

    /// `WHAT: ERROR` where it is still there.
    #[must_use]
    pub fn error_text(self) -> Option<String> {
        self.error.map(|error| format!("{}: {error}", self.what))
    }
}

/// Removes what is left of every run whose process is gone. Runs that are alive are left alone. A
/// ledger is believed only where nobody but this user can have written it.
#[must_use]
pub fn reclaim(state_directory: &Path) -> Vec<Reclaimed> {
    let mut done = reclaim_disks();
    done.extend(reclaim_runs(state_directory));
    done
}

fn reclaim_runs(state_directory: &Path) -> Vec<Reclaimed> {
    let live = live_directory(state_directory);
    let names = match open_own(CWD, &live, FileType::Directory) {
        Ok(None) => return Vec::new(),
        Ok(Some(directory)) => names_in(&directory).map(|names| (directory, names)),
        Err(error) => Err(error),
    };
    let (directory, names) = match names {
        Ok(found) => found,
        Err(error) => {
            return vec![Reclaimed::new(format!("directory {}", live.display()), Err(error))];
        }
    };
    let mut done = Vec::new();
    for name in names {
        let path = live.join(&name);
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => done.extend(reclaim_run(&directory, Path::new(&name), &path)),
            Some("new") => done.extend(reclaim_torn_ledger(&path)),
            _ => {}
        }
    }
    done
}

/// Opens `path` below `base` without following a symbolic link, where it is of that kind, belongs to
/// the effective user and can be written by nobody else. `None` where there is nothing.
///
/// # Errors
/// What is against it.
pub(crate) fn open_own(
    base: impl AsFd,
    path: &Path,
    kind: FileType,
) -> Result<Option<OwnedFd>, String> {
    // A fifo would be waited for.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = match rustix::fs::openat(base, path, flags, Mode::empty()) {
        Ok(opened) => opened,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => {
            return Err("it is a symbolic link and is not believed: look at it yourself".to_owned());
        }
        Err(error) => return Err(std::io::Error::from(error).to_string()),
    };
    let found =
        rustix::fs::fstat(&opened).map_err(|error| std::io::Error::from(error).to_string())?;
    let user = rustix::process::geteuid().as_raw();
    if FileType::from_raw_mode(found.st_mode) != kind {
        return Err("it is of another kind than fsdyno makes: look at it yourself".to_owned());
    }
    if found.st_uid != user {
        return Err(format!(
            "it belongs to user {}, not to user {user}, and is not believed: run as that user, or \
             look at it yourself",
            found.st_uid
        ));
    }
    if found.st_mode & WRITABLE_FOR_OTHERS != 0 {
        return Err(format!(
            "others may write to it (mode {:o}), so it is not believed: look at it yourself, then \
             chmod go-w",
            found.st_mode & 0o7777
        ));
    }
    Ok(Some(opened))
}

/// Takes down what the servers of emulated disks left that were started by hand and are gone: the mount
/// itself tells who served it, and is dead without its server.
fn reclaim_disks() -> Vec<Reclaimed> {
    let mounts = mount::mounts().unwrap_or_default();
    let is_left = |it: &&mount::MountInfo| {
        it.fs_type == fuse::FS_TYPE && emulator::is_orphan(&it.source) == Some(true)
    };
    let mut done = Vec::new();
    for disk in mounts.iter().filter(is_left) {
        let _ = fuse::abort(disk.device);
        done.extend(detach_below(&disk.mount_point));
        let result = mount::unmount_lazy(&disk.mount_point).map_err(|error| error.to_string());
        done.push(Reclaimed::new(format!("mount {}", disk.mount_point.display()), result));
    }
    done
}

fn names_in(directory: &OwnedFd) -> Result<Vec<OsString>, String> {
    let failed = |error: Errno| std::io::Error::from(error).to_string();
    let mut names = Vec::new();
    for entry in Dir::read_from(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        names.push(OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
    }
    names.sort();
    Ok(names)
}

/// A ledger that was being written: its file is named after the writer, and the one that it was to
/// replace is whole.
fn reclaim_torn_ledger(path: &Path) -> Option<Reclaimed> {
    let stem = path.file_stem()?.to_str()?;
    let pid: u32 = stem.rsplit_once('.')?.1.parse().ok()?;
    if fsdyno_sys::process::identity(pid).is_some() {
        return None;
    }
    let what = format!("unfinished ledger {}", path.display());
    Some(Reclaimed::new(what, gone(fs::remove_file(path))))
}

fn reclaim_run(directory: &OwnedFd, name: &Path, path: &Path) -> Vec<Reclaimed> {
    let what = format!("ledger {}", path.display());
    let file = match open_own(directory, name, FileType::RegularFile) {
        Ok(Some(file)) => fs::File::from(file),
        Ok(None) => return Vec::new(),
        Err(error) => return vec![Reclaimed::new(what, Err(error))],
    };
    let mut bytes = Vec::new();
    let ledger = file
        .take(LEDGER_LIMIT_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())
        .and_then(|_| serde_json::from_slice(&bytes).map_err(|error| error.to_string()));
    let ledger: Result<Ledger, String> = ledger;
    let ledger = match ledger {
        Ok(ledger) if ledger.version == LEDGER_VERSION => ledger,
        Ok(ledger) => {
            let error = format!("written by another version ({}): use that one", ledger.version);
            return vec![Reclaimed::new(what, Err(error))];
        }
        Err(error) => return vec![Reclaimed::new(what, Err(format!("cannot be read: {error}")))],
    };
    if ledger.owner.is_alive() {
        return Vec::new();
    }
    let mut done = remove_all(&ledger);
    if done.iter().all(|item| item.error.is_none()) {
        done.push(Reclaimed::new(what, remove_ledger(path)));
    }
    done
}

/// Removes all that a ledger names.
#[must_use]
pub fn remove_all(ledger: &Ledger) -> Vec<Reclaimed> {
    let mut done = Vec::new();
    for directory in &ledger.directories {
        done.extend(remove_directory(ledger, directory));
    }
    for device in &ledger.devices {
        if let Ok(number) = sys_block::device_number(&device.path) {
            done.extend(array::take_apart(number, &ledger.array_prefix()));
        }
    }
    done.extend(ledger.devices.iter().filter_map(blank_device));
    done
}

/// Removes a ledger, durably.
///
/// # Errors
/// A sentence.
pub fn remove_ledger(path: &Path) -> Result<(), String> {
    gone(fs::remove_file(path))?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    fsdyno_sys::file::sync_directory(directory).map_err(|error| error.to_string())
}

fn gone(result: std::io::Result<()>) -> Result<(), String> {
    match result {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// What stands on the directory first, then the directory.
fn remove_directory(ledger: &Ledger, directory: &Path) -> Vec<Reclaimed> {
    let what = format!("directory {}", directory.display());
    match state_of(ledger, directory) {
        State::Gone => return Vec::new(),
        State::Foreign(why) => return vec![Reclaimed::new(what, Err(why))],
        State::Ours => {}
    }
    let mut done = unmount_below(directory);
    done.extend(take_apart_below(directory, &ledger.array_prefix()));
    done.extend(detach_below(directory));
    if done.iter().any(|item| item.error.is_some()) {
        return done;
    }
    done.push(Reclaimed::new(what, remove_tree(directory)));
    done
}

enum State {
    Gone,
    Foreign(String),
    Ours,
}

/// A directory is ours where it has our name, is reached by no symbolic link, and either bears the
/// marker of this run or is empty: killed between making it and marking it, or the other way round.
fn state_of(ledger: &Ledger, directory: &Path) -> State {
    let found = match fs::symlink_metadata(directory) {
        Ok(found) => found,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return State::Gone;
        }
        Err(error) => return State::Foreign(error.to_string()),
    };
    let named =
        directory.file_name().is_some_and(|name| *name == *format!("fsdyno-{}", ledger.run_id));
    if !named || !found.is_dir() || fs::canonicalize(directory).ok().as_deref() != Some(directory) {
        return State::Foreign(
            "it is not the directory that fsdyno made: look at it yourself".to_owned(),
        );
    }
    match fs::read(directory.join(MARKER)) {
        Ok(text) if text == ledger.marker_text().as_bytes() => State::Ours,
        // Torn at a power cut or in the middle of writing: nothing else was made yet.
        Ok(text)
            if ledger.marker_text().as_bytes().starts_with(&text)
                && holds_only_marker(directory) =>
        {
            State::Ours
        }
        Err(error) if error.kind() == ErrorKind::NotFound && is_empty(directory) => State::Ours,
        _ => {
            State::Foreign("it does not bear the mark of this run: look at it yourself".to_owned())
        }
    }
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

fn holds_only_marker(directory: &Path) -> bool {
    fs::read_dir(directory)
        .is_ok_and(|entries| entries.flatten().all(|entry| entry.file_name() == MARKER))
}

/// Unmounts what is mounted below `directory`, the last first.
fn unmount_below(directory: &Path) -> Vec<Reclaimed> {
    let mounts = match mount::mounts() {
        Ok(mounts) => mounts,
        Err(error) => return vec![Reclaimed::new("mounts".to_owned(), Err(error.to_string()))],
    };
    let below = |point: &Path| point.starts_with(directory) && point != directory;
    for disk in mounts.iter().filter(|it| it.fs_type == fuse::FS_TYPE && below(&it.mount_point)) {
        // Whoever waits for a server that hangs is freed, before anything waits for it here. Where there is
        // none the connection has ended already.
        let _ = fuse::abort(disk.device);
    }
    let points =
        mounts.iter().rev().map(|mounted| &mounted.mount_point).filter(|point| below(point));
    let unmounted = points.map(|point| {
        let result = mount::unmount(point)
            .or_else(|error| if error.is_busy() { mount::unmount_lazy(point) } else { Err(error) });
        Reclaimed::new(
            format!("mount {}", point.display()),
            result.map_err(|error| error.to_string()),
        )
    });
    unmounted.collect()
}

/// Takes apart the arrays of this run on loop devices whose image lies, or lay, below `directory`.
fn take_apart_below(directory: &Path, prefix: &str) -> Vec<Reclaimed> {
    let Ok(attached) = loopdev::list() else { return Vec::new() };
    let ours = attached.into_iter().filter(|device| device.backing_file.starts_with(directory));
    ours.flat_map(|device| array::take_apart(device.number, prefix)).collect()
}

/// Detaches the loop devices whose image lies, or lay, below `directory`.
fn detach_below(directory: &Path) -> Vec<Reclaimed> {
    let Ok(attached) = loopdev::list() else { return Vec::new() };
    let ours = attached.into_iter().filter(|device| device.backing_file.starts_with(directory));
    let detached = ours.map(|device| {
        let result = loopdev::detach_path(&device.path).map_err(|error| error.to_string());
        Reclaimed::new(format!("loop device {}", device.path.display()), result)
    });
    detached.collect()
}

/// Removes the tree, the marker last, so that what is left of an interrupted removal is known as ours.
fn remove_tree(directory: &Path) -> Result<(), String> {
    let failed = |path: &Path, error: std::io::Error| format!("remove {}: {error}", path.display());
    let entries = fs::read_dir(directory).map_err(|error| failed(directory, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| failed(directory, error))?;
        if entry.file_name() == MARKER {
            continue;
        }
        let path = entry.path();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        // Neither follows symbolic links.
        let removed = if is_directory { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        gone(removed).map_err(|error| format!("remove {}: {error}", path.display()))?;
    }
    gone(fs::remove_file(directory.join(MARKER)))?;
    gone(fs::remove_dir(directory))
}

/// Leaves a block device blank where what lies on it is what the run made: same path, same size, same
/// identity of the filesystem, nobody uses it. Anything else is left, and where nothing is known the
/// guard decides the next time.
fn blank_device(device: &LedgerDevice) -> Option<Reclaimed> {
    let what = format!("filesystem on {}", device.path.display());
    let made = device.filesystem_uuid.as_ref()?;
    if sys_block::size_bytes(&device.path).ok()? != device.size_bytes
        || guard::filesystem_uuid(&device.path).as_ref() != Some(made)
    {
        return None;
    }
    let number = sys_block::device_number(&device.path).ok()?;
    let result = guard::in_use(&device.path, number)
        .and_then(|()| wipe_ends(&device.path, device.size_bytes));
    Some(Reclaimed::new(what, result))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::PathBuf;

    use super::*;
    use crate::workspace::Workspace;

    /// A workspace that its owner left without closing it, with the ledger changed by `change`.
    fn abandoned(root: &Path, change: impl FnOnce(&mut Ledger)) -> (PathBuf, PathBuf) {
        let state = root.join("state");
        let workspace = Workspace::open("r", &root.join("images"), &state, &[]).unwrap();
        let directory = workspace.directory().to_owned();
        std::mem::forget(workspace);
        let path = state.join("live/r.json");
        let mut ledger: Ledger = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        ledger.owner.start_ticks += 1;
        change(&mut ledger);
        fs::write(&path, serde_json::to_vec(&ledger).unwrap()).unwrap();
        (state, directory)
    }

    #[test]
    fn what_a_dead_run_left_is_removed_once() {
        let root = tempfile::tempdir().unwrap();
        let (state, directory) = abandoned(root.path(), |_| {});
        fs::create_dir_all(directory.join("a/b")).unwrap();
        fs::write(directory.join("a/b/c"), "x").unwrap();
        let outside = root.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("precious"), "x").unwrap();
        symlink(&outside, directory.join("a/link")).unwrap();
        symlink(&outside, directory.join("link")).unwrap();
        let done = reclaim(&state);
        assert!(done.iter().all(|item| item.error.is_none()), "{done:?}");
        assert!(!directory.exists());
        assert!(outside.join("precious").exists(), "a symbolic link was followed");
        assert_eq!(reclaim(&state), []);
    }

    #[test]
    fn a_living_run_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let (state, directory) = abandoned(root.path(), |ledger| ledger.owner.start_ticks -= 1);
        assert_eq!(reclaim(&state), []);
        assert!(directory.exists());
    }

    #[test]
    fn killed_before_the_mark_or_in_the_middle_of_it() {
        for text in [None, Some(""), Some("fsdyno run")] {
            let root = tempfile::tempdir().unwrap();
            let (state, directory) = abandoned(root.path(), |_| {});
            match text {
                None => fs::remove_file(directory.join(MARKER)).unwrap(),
                Some(text) => fs::write(directory.join(MARKER), text).unwrap(),
            }
            assert!(reclaim(&state).iter().all(|item| item.error.is_none()));
            assert!(!directory.exists(), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_ours_stays() {
        type Change = fn(&Path);
        let changes: [(&str, Change); 3] = [
            ("no mark", |directory| fs::remove_file(directory.join(MARKER)).unwrap()),
            ("another's mark", |directory| fs::write(directory.join(MARKER), "x").unwrap()),
            ("a link", |directory| {
                let moved = directory.with_file_name("moved");
                fs::rename(directory, &moved).unwrap();
                symlink(&moved, directory).unwrap();
            }),
        ];
        for (name, change) in changes {
            let root = tempfile::tempdir().unwrap();
            let (state, directory) = abandoned(root.path(), |_| {});
            fs::write(directory.join("precious"), "x").unwrap();
            change(&directory);
            let done = reclaim(&state);
            assert!(done.iter().any(|item| item.error.is_some()), "{name}");
            assert!(directory.join("precious").exists(), "{name}");
            assert!(state.join("live/r.json").exists(), "{name}: the ledger must stay");
        }
    }

    #[test]
    fn a_ledger_that_names_a_foreign_directory_is_not_believed() {
        let root = tempfile::tempdir().unwrap();
        let precious = root.path().join("precious");
        fs::create_dir(&precious).unwrap();
        let (state, _) = abandoned(root.path(), |ledger| ledger.directories.push(precious.clone()));
        let done = reclaim(&state);
        assert!(done.iter().any(|item| item.error.is_some()));
        assert!(precious.exists());
    }

    /// Whoever can write a ledger could have root remove what it names.
    #[test]
    fn what_others_could_have_written_is_not_believed() {
        type Change = fn(&Path, &Path);
        fn open_up(path: &Path, mode: u32) {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        fn replace_by_link(path: &Path) {
            let moved = path.with_file_name("moved");
            fs::rename(path, &moved).unwrap();
            symlink(&moved, path).unwrap();
        }
        let changes: [(&str, &str, Change); 8] = [
            ("directory for all", "others may write", |live, _| open_up(live, 0o777)),
            ("directory for the group", "others may write", |live, _| open_up(live, 0o770)),
            ("linked directory", "directory", |live, _| replace_by_link(live)),
            ("foreign directory", "belongs to user", |live, _| chown(live, Some(1), None).unwrap()),
            ("ledger for all", "others may write", |_, ledger| open_up(ledger, 0o666)),
            ("ledger for the group", "others may write", |_, ledger| open_up(ledger, 0o620)),
            ("linked ledger", "symbolic link", |_, ledger| replace_by_link(ledger)),
            ("foreign ledger", "belongs to user", |_, ledger| {
                chown(ledger, Some(1), None).unwrap();
            }),
        ];
        for (name, words, change) in changes {
            if name.contains("foreign") && !rustix::process::geteuid().is_root() {
                println!("skipped: {name}: only root can give files away");
                continue;
            }
            let root = tempfile::tempdir().unwrap();
            let (state, directory) = abandoned(root.path(), |_| {});
            fs::write(directory.join("file"), "x").unwrap();
            change(&state.join("live"), &state.join("live/r.json"));
            let done = reclaim(&state);
            let text = serde_json::to_string(&done).unwrap();
            assert!(done.len() == 1 && text.contains(words), "{name}: {text}");
            assert!(done[0].error.is_some() && directory.join("file").exists(), "{name}");
            if name.contains("directory") {
                let error = Workspace::open("s", &root.path().join("images"), &state, &[]);
                assert!(error.is_err(), "{name}: a ledger would be written there");
            }
        }
    }

    #[test]
    fn ledgers_are_for_their_user_alone() {
        let root = tempfile::tempdir().unwrap();
        let (state, _) = abandoned(root.path(), |_| {});
        let mode = fs::metadata(state.join("live/r.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
        assert!(reclaim(&state).iter().all(|item| item.error.is_none()));
    }

    #[test]
    fn broken_ledgers_are_told_and_left() {
        let root = tempfile::tempdir().unwrap();
        let live = root.path().join("live");
        fs::create_dir(&live).unwrap();
        fs::write(live.join("a.json"), "{").unwrap();
        fs::write(live.join("b.4294967295.new"), "{").unwrap();
        let done = reclaim(root.path());
        assert_eq!(done.iter().filter(|item| item.error.is_some()).count(), 1, "{done:?}");
        assert!(live.join("a.json").exists() && !live.join("b.4294967295.new").exists());
    }
}
