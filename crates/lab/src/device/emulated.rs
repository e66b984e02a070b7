//! An emulated disk as a trial's device: an image file like any other, served at the times of a model.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fsdyno_disk::Model;
use fsdyno_model::record::Warning;
use fsdyno_sys::block::DeviceNumber;

use super::image::ImageFile;
use crate::emulator::{self, Emulator, Extras, Wish, check};

/// An emulated disk in a trial.
#[derive(Debug)]
pub struct EmulatedDisk {
    image: ImageFile,
    directory: PathBuf,
    model: Model,
    emulator: Emulator,
}

impl EmulatedDisk {
    /// Makes the image at `path` and serves it; the mount lies beside it.
    ///
    /// # Errors
    /// A sentence; nothing is left behind then.
    pub fn create(path: &Path, model_name: &str, size_bytes: u64) -> Result<EmulatedDisk, String> {
        let model = emulator::find_model(model_name)?;
        let directory = path.with_extension("served");
        let parent = path.parent().unwrap_or(Path::new("/"));
        let overhead = check::overhead_here(parent)?;
        let image = ImageFile::create(path, size_bytes)?;
        let lead_ns = overhead.request_ns as u64;
        let started = fs::create_dir(&directory)
            .map_err(|error| format!("make {}: {error}", directory.display()))
            .and_then(|()| {
                let (model, file, directory) = (&model, path, directory.as_path());
                // One seed for all trials: their disks stand at the same angle and draw alike.
                let extras = Extras::default();
                let wish = Wish { model_name, model, file, directory, seed: 1, lead_ns, extras };
                Emulator::start(&wish)
            });
        match started {
            Ok(emulator) => Ok(EmulatedDisk { image, directory, model, emulator }),
            Err(error) => {
                let _ = fs::remove_dir(&directory);
                let _ = image.remove();
                Err(error)
            }
        }
    }

    /// The loop device's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.emulator.path()
    }

    /// The loop device's number.
    #[must_use]
    pub fn number(&self) -> DeviceNumber {
        self.emulator.number()
    }

    /// Allocates every hole of the image again.
    ///
    /// # Errors
    /// A sentence where there is no room.
    pub fn allocate(&self) -> Result<(), String> {
        self.image.allocate()
    }

    /// What made the figures doubtful; to be asked after the release.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        self.emulator.warnings()
    }

    /// Takes the disk down and deletes the image. Doing it again does nothing.
    ///
    /// # Errors
    /// A sentence that names what is left.
    pub fn release(&mut self) -> Result<(), String> {
        self.emulator.end()?;
        // It is empty, or gone.
        let _ = fs::remove_dir(&self.directory);
        self.image.remove()
    }

    /// Adds what is special about an emulated disk.
    pub fn add_facts(&self, facts: &mut BTreeMap<String, String>) {
        self.image.add_facts(facts);
        self.emulator.add_facts(facts, &self.model);
    }
}
