//! Where guests in virtual time start: from the state of one that has booted and had itself stopped. Those of a
//! run with the same kernel, memory and disks share one, made when the first of them needs it; one that is to show
//! whether guests record the same here has its own, so that it shows the same of booting.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use fsdyno_guest::qemu::Spec;
use fsdyno_guest::saved_state::SavedState;
use fsdyno_guest::{stopped, virtual_time};
use fsdyno_model::guest::Task;
use fsdyno_sys::process;

use super::Guests;
use super::states::{MADE_ANEW, Own, Started, state_lost};
use super::trial::make_images;

/// The states of a run.
#[derive(Default)]
pub(super) struct Stopped {
    kinds: Mutex<Vec<Arc<Kind>>>,
}

/// What decides which state a guest may go on from.
struct Kind {
    /// Without disks.
    spec: Spec,
    disk_sizes: Vec<u64>,
    file: PathBuf,
    /// `None` until it is made.
    state: Mutex<Option<SavedState>>,
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stopped {
    /// The kind of a guest; its state lies in `directory`.
    fn kind(&self, spec: Spec, disk_sizes: Vec<u64>, directory: &Path) -> Arc<Kind> {
        let mut kinds = lock(&self.kinds);
        let is_same = |kind: &&Arc<Kind>| kind.spec == spec && kind.disk_sizes == disk_sizes;
        if let Some(known) = kinds.iter().find(is_same) {
            return Arc::clone(known);
        }
        let file = directory.join(format!("stopped-guest-{}", kinds.len()));
        let kind = Arc::new(Kind { spec, disk_sizes, file, state: Mutex::new(None) });
        kinds.push(Arc::clone(&kind));
        kind
    }
}

impl Guests {
    /// Starts the guest of a trial in virtual time, with its files in `directory`; from a state that nobody else has
    /// where it `is_apart`.
    pub(super) fn start_stopped(
        &self,
        target_index: usize,
        spec: &Spec,
        directory: &Path,
        task: &Task,
        is_apart: bool,
    ) -> Result<Started, String> {
        let disk_sizes = virtual_time::sizes(&spec.disks);
        let bare = Spec { disks: Vec::new(), ..spec.clone() };
        let kind = if is_apart {
            let file = directory.join("stopped-guest");
            Arc::new(Kind { spec: bare, disk_sizes, file, state: Mutex::new(None) })
        } else {
            let shared = directory.parent().unwrap_or(directory);
            self.stopped.kind(bare, disk_sizes, shared)
        };
        let making = self.making(spec, directory);
        let mut lost = None::<String>;
        loop {
            let state = self.state_of(&kind)?;
            let modules = self.modules[target_index].clone();
            let since = Instant::now();
            let begun = stopped::resume(&state, &making, modules, task.clone());
            if is_apart {
                state.remove();
            }
            match begun {
                Ok(machine) => {
                    let warning = lost.map(|error| state_lost(&error, MADE_ANEW));
                    return Ok(Started { machine, warning, start: "saved state", since });
                }
                // Another state would not help.
                Err(error) if lost.is_some() || process::interrupted() => return Err(error),
                Err(error) => lost = Some(error),
            }
            let mut known = lock(&kind.state);
            if known.as_ref() == Some(&state) {
                *known = None;
            }
            drop(known);
            blank(&spec.disks)?;
        }
    }

    /// The state of a kind; whoever comes first makes it, the others wait.
    fn state_of(&self, kind: &Kind) -> Result<SavedState, String> {
        let mut known = lock(&kind.state);
        if let Some(state) = &*known {
            return Ok(state.clone());
        }
        let own = Own::make(kind.file.with_extension("booting"))?;
        let disks = make_images(&kind.disk_sizes, own.path())?;
        let inside = (0..disks.len()).map(virtual_time::disk_device).collect();
        let spec = Spec { disks, ..kind.spec.clone() };
        let state = stopped::save(&self.making(&spec, own.path()), inside, &kind.file)?;
        Ok(known.insert(state).clone())
    }
}

/// Makes disks as blank as they were.
fn blank(disks: &[PathBuf]) -> Result<(), String> {
    for (disk, bytes) in disks.iter().zip(virtual_time::sizes(disks)) {
        let opened = fs::OpenOptions::new().write(true).open(disk);
        opened
            .and_then(|file| file.set_len(0).and_then(|()| file.set_len(bytes)))
            .map_err(|error| format!("make {} blank: {error}", disk.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_model::place::Accelerator;

    #[test]
    fn guests_of_a_kind_share_a_state() {
        let spec = Spec {
            kernel: PathBuf::from("/k"),
            initramfs: PathBuf::from("/i"),
            accelerator: Accelerator::Tcg,
            memory_bytes: 1 << 30,
            shift: Some(0),
            disks: Vec::new(),
        };
        let (stopped, directory) = (Stopped::default(), Path::new("/run"));
        let first = stopped.kind(spec.clone(), vec![1], directory);
        let same = stopped.kind(spec.clone(), vec![1], directory);
        let other = stopped.kind(spec, vec![1, 2], directory);
        assert!(Arc::ptr_eq(&first, &same) && !Arc::ptr_eq(&first, &other));
        assert_ne!(first.file, other.file);
    }

    #[test]
    fn what_a_guest_wrote_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let disk = directory.path().join("disk");
        fs::write(&disk, b"written").unwrap();
        blank(std::slice::from_ref(&disk)).unwrap();
        assert_eq!(fs::read(&disk).unwrap(), [0; 7]);
        assert!(blank(&[directory.path().join("none")]).is_err());
    }
}
