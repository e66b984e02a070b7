//! Where a run works: one marked directory beside the images, one below each directory that is itself
//! a target, and a ledger in the state directory that names them all. The ledger is written durably
//! before anything is made, so that whatever moment a run is killed at, [`crate::reclaim`] finds what
//! it left. What is made inside is for [`crate::device`] and [`crate::stand`].

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fsdyno_sys::block::DeviceNumber;
use fsdyno_sys::process::{self, ProcessIdentity};
use fsdyno_sys::{file, kernel};
use rustix::fs::{CWD, FileType};
use serde::{Deserialize, Serialize};

use crate::environment::usable_directory;
use crate::reclaim;

/// Name of the file that marks a directory as ours.
pub const MARKER: &str = ".fsdyno-workspace";
/// Version of the ledger's form.
pub const LEDGER_VERSION: u32 = 1;

/// The process that a run belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Process number.
    pub pid: u32,
    /// Start of the process, in clock ticks since boot.
    pub start_ticks: u64,
    /// Identity of the boot.
    pub boot_id: Option<String>,
}

impl Owner {
    fn this_process() -> Result<Owner, String> {
        let own = process::own_identity().map_err(|error| error.to_string())?;
        Ok(Owner { pid: own.pid, start_ticks: own.start_ticks, boot_id: kernel::boot_id() })
    }

    /// Whether that very process still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let identity = ProcessIdentity { pid: self.pid, start_ticks: self.start_ticks };
        self.boot_id == kernel::boot_id() && process::is_alive(&identity)
    }
}

/// A block device that a run writes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerDevice {
    /// Its canonical path.
    pub path: PathBuf,
    /// Its number, as `8:16`.
    pub number: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Identity of the filesystem that the run made on it last; null until then.
    pub filesystem_uuid: Option<String>,
}

/// Everything that a run has made or is about to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// [`LEDGER_VERSION`] of the writer.
    pub version: u32,
    /// The run.
    pub run_id: String,
    /// Text in the markers of its directories, different in every run.
    pub nonce: String,
    /// The process.
    pub owner: Owner,
    /// Its directories, canonical; one may not exist yet, or no longer.
    pub directories: Vec<PathBuf>,
    /// The block devices that it writes to.
    pub devices: Vec<LedgerDevice>,
    /// Numbers of all block devices that it has formatted so far.
    pub formatted: Vec<String>,
}

impl Ledger {
    /// What the names of its arrays begin with, which no other run's do.
    #[must_use]
    pub fn array_prefix(&self) -> String {
        let own: String = self.nonce.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
        format!("fsdyno{own}")
    }

    /// What the marker of its directories holds.
    #[must_use]
    pub fn marker_text(&self) -> String {
        format!(
            "fsdyno run {}\n{}\nmade by fsdyno, removed by `fsdyno clean`\n",
            self.run_id, self.nonce
        )
    }
}

/// The place of one run.
#[derive(Debug)]
pub struct Workspace {
    directory: PathBuf,
    ledger_path: PathBuf,
    ledger: Mutex<Ledger>,
    destroy: Vec<PathBuf>,
    closed: Mutex<bool>,
}

impl Workspace {
    /// Makes `IMAGE_DIR/fsdyno-RUN_ID/`, recorded in `STATE_DIR/live/RUN_ID.json`. `destroy` are the
    /// devices that the user allows to be overwritten whatever they hold.
    ///
    /// # Errors
    /// A sentence: a name that is no run id, a directory that cannot be made, a live run of that id.
    pub fn open(
        run_id: &str,
        image_directory: &Path,
        state_directory: &Path,
        destroy: &[PathBuf],
    ) -> Result<Workspace, String> {
        check_run_id(run_id)?;
        usable_directory(image_directory)?;
        fs::create_dir_all(image_directory)
            .map_err(|error| format!("make {}: {error}", image_directory.display()))?;
        let directory = canonical(image_directory)?.join(format!("fsdyno-{run_id}"));
        let live = live_directory(state_directory);
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&live);
        made.map_err(|error| format!("make {}: {error}", live.display()))?;
        reclaim::open_own(CWD, &live, FileType::Directory)
            .map_err(|error| format!("{}: {error}", live.display()))?;
        let ledger = Ledger {
            version: LEDGER_VERSION,
            run_id: run_id.to_owned(),
            nonce: nonce()?,
            owner: Owner::this_process()?,
            directories: Vec::new(),
            devices: Vec::new(),
            formatted: Vec::new(),
        };
        let ledger_path = live.join(format!("{run_id}.json"));
        if ledger_path.exists() {
            return Err(format!(
                "{} exists: the run {run_id} is running, or was killed: fsdyno clean removes what it left",
                ledger_path.display()
            ));
        }
        let workspace = Workspace {
            directory: directory.clone(),
            ledger_path,
            ledger: Mutex::new(ledger),
            destroy: destroy.to_owned(),
            closed: Mutex::new(false),
        };
        workspace.make_directory(&directory)?;
        Ok(workspace)
    }

    /// The run's own directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The devices that the user allows to be overwritten.
    #[must_use]
    pub fn destroy(&self) -> &[PathBuf] {
        &self.destroy
    }

    /// Numbers of the block devices that this run has formatted: what lies on them is ours.
    #[must_use]
    pub fn formatted_devices(&self) -> Vec<DeviceNumber> {
        self.ledger().formatted.iter().filter_map(|number| number.parse().ok()).collect()
    }

    /// What the names of this run's arrays begin with, which no other run's do.
    #[must_use]
    pub fn array_prefix(&self) -> String {
        self.ledger().array_prefix()
    }

    /// A directory of this run below `parent`, made at the first call.
    ///
    /// # Errors
    /// A sentence where it cannot be made.
    pub fn directory_below(&self, parent: &Path) -> Result<PathBuf, String> {
        let directory = canonical(parent)?.join(format!("fsdyno-{}", self.ledger().run_id));
        if !self.ledger().directories.contains(&directory) {
            self.make_directory(&directory)?;
        }
        Ok(directory)
    }

    /// Records a block device before it is written to, or anew with what was made on it.
    ///
    /// # Errors
    /// A sentence where the ledger cannot be written.
    pub fn record_device(&self, device: LedgerDevice) -> Result<(), String> {
        self.change(|ledger| {
            if device.filesystem_uuid.is_some() && !ledger.formatted.contains(&device.number) {
                ledger.formatted.push(device.number.clone());
            }
            ledger.devices.retain(|known| known.path != device.path);
            ledger.devices.push(device);
        })
    }

    /// Takes a block device that was left blank off the record.
    ///
    /// # Errors
    /// A sentence where the ledger cannot be written.
    pub fn forget_device(&self, path: &Path) -> Result<(), String> {
        self.change(|ledger| ledger.devices.retain(|known| known.path != path))
    }

    /// Removes all that the run made. Doing it again does nothing.
    ///
    /// # Errors
    /// A sentence for each thing that is left; the ledger stays then, for `fsdyno clean`.
    pub fn close(&self) -> Result<(), Vec<String>> {
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if *closed {
            return Ok(());
        }
        let ledger = self.ledger().clone();
        let removed = reclaim::remove_all(&ledger);
        let errors: Vec<String> =
            removed.into_iter().filter_map(reclaim::Reclaimed::error_text).collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        *closed = true;
        reclaim::remove_ledger(&self.ledger_path).map_err(|error| vec![error])
    }

    /// From now on nothing is removed: what is there stays for `fsdyno clean`, and so does the ledger.
    pub fn abandon(&self) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Ledger)) -> Result<(), String> {
        let mut ledger = self.ledger();
        let mut next = ledger.clone();
        change(&mut next);
        write_ledger(&self.ledger_path, &next)?;
        *ledger = next;
        Ok(())
    }

    /// Ledger first, then the directory, then its marker: killed in between, what is left is an empty
    /// directory that the ledger names.
    fn make_directory(&self, directory: &Path) -> Result<(), String> {
        self.change(|ledger| ledger.directories.push(directory.to_owned()))?;
        let made = fs::DirBuilder::new().mode(0o700).create(directory);
        if let Err(error) = made {
            // It is another's, or is not there: it must not be taken for ours later.
            self.change(|ledger| ledger.directories.retain(|known| known != directory))?;
            return Err(format!("make {}: {error}", directory.display()));
        }
        let text = self.ledger().marker_text();
        write_new(&directory.join(MARKER), text.as_bytes())
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`; what is left stays in the ledger.
        let _ = self.close();
    }
}

/// Where the ledgers of live runs lie.
#[must_use]
pub fn live_directory(state_directory: &Path) -> PathBuf {
    state_directory.join("live")
}

fn check_run_id(run_id: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if run_id.is_empty() || run_id.len() > 64 || !run_id.chars().all(plain) {
        return Err(format!(
            "`{}` cannot be a run id: 1 to 64 letters, digits, - and _",
            run_id.escape_debug()
        ));
    }
    Ok(())
}

fn canonical(path: &Path) -> Result<PathBuf, String> {
    fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn nonce() -> Result<String, String> {
    let path = "/proc/sys/kernel/random/uuid";
    let text = fs::read_to_string(path).map_err(|error| format!("read {path}: {error}"))?;
    Ok(text.trim().to_owned())
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("write {}: {error}", path.display());
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened.and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all())).map_err(failed)
}

/// Replaces the ledger durably: a reader finds the old or the new one, whole.
fn write_ledger(path: &Path, ledger: &Ledger) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("write {}: {error}", path.display());
    let directory = path.parent().expect("a ledger lies in the live directory");
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    let body = serde_json::to_vec_pretty(ledger).map_err(|error| failed(error.into()))?;
    let write = || -> std::io::Result<()> {
        // Left by a dead process that had our number.
        let _ = fs::remove_file(&temporary);
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(&body)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&temporary))).map_err(failed)?;
    file::sync_directory(directory).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(directory: &Path, run_id: &str) -> Result<Workspace, String> {
        Workspace::open(run_id, &directory.join("images"), &directory.join("state"), &[])
    }

    #[test]
    fn a_workspace_is_recorded_marked_and_removed() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = open(directory.path(), "r1").unwrap();
        let ledger_path = directory.path().join("state/live/r1.json");
        let ledger: Ledger = serde_json::from_slice(&fs::read(&ledger_path).unwrap()).unwrap();
        assert!(ledger.owner.is_alive());
        assert_eq!(ledger.directories, [workspace.directory()]);
        let marker = fs::read_to_string(workspace.directory().join(MARKER)).unwrap();
        assert_eq!(marker, ledger.marker_text());
        assert!(open(directory.path(), "r1").unwrap_err().contains("is running"));
        let other = directory.path().join("other");
        fs::create_dir(&other).unwrap();
        let below = workspace.directory_below(&other).unwrap();
        assert_eq!(workspace.directory_below(&other).unwrap(), below);
        fs::write(below.join("file"), "x").unwrap();
        workspace.close().unwrap();
        workspace.close().unwrap();
        assert!(!workspace.directory().exists() && !below.exists() && !ledger_path.exists());
        assert!(other.exists());
    }

    #[test]
    fn a_directory_of_another_is_not_taken() {
        let directory = tempfile::tempdir().unwrap();
        let foreign = directory.path().join("images/fsdyno-r2");
        fs::create_dir_all(&foreign).unwrap();
        fs::write(foreign.join("precious"), "x").unwrap();
        assert!(open(directory.path(), "r2").unwrap_err().contains("make "));
        assert!(foreign.join("precious").exists());
        assert!(!directory.path().join("state/live/r2.json").exists());
    }

    #[test]
    fn images_lie_in_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("images");
        fs::write(&file, "x").unwrap();
        let error = open(directory.path(), "r3").unwrap_err();
        assert_eq!(error, format!("--dir {} is not a directory", file.display()));
        assert!(!directory.path().join("state/live/r3.json").exists());
    }

    #[test]
    fn run_ids_are_names() {
        for run_id in ["", ".", "a/b", "a b", "é", &"x".repeat(65)] {
            assert!(check_run_id(run_id).is_err(), "{run_id}");
        }
        assert!(check_run_id("20261121-120000_a1").is_ok());
    }
}
