//! Targets under which power can be cut, or whose disk can go wrong: filesystems made for it on images.

use std::path::Path;

use fsdyno_disk::Model;
use fsdyno_durability::faults;
use fsdyno_lab::emulator::find_model;
use fsdyno_lab::filesystem;
use fsdyno_lab::readiness::{self, Conditions, Readiness};
use fsdyno_model::device::DeviceSpec;
use fsdyno_model::target::{FreshSpec, Ground, TargetSpec};

use crate::{bad_input, catalogue};

/// Smallest disk where the target names no size, in bytes.
const LEAST_BYTES: u64 = 64 << 20;
/// Model of the disk where the target names none: it takes no time.
const MODEL: &str = "ram";

/// A target that can be tried.
#[derive(Debug)]
pub(in crate::cmd) struct Wanted {
    /// The target as it was given.
    pub(in crate::cmd) text: String,
    /// The target.
    pub(in crate::cmd) target: TargetSpec,
    /// The filesystem.
    pub(in crate::cmd) spec: FreshSpec,
    /// Size of the disk in bytes.
    pub(in crate::cmd) size_bytes: u64,
    /// Name by which the model of the disk was found.
    pub(in crate::cmd) model_name: String,
    /// The model.
    pub(in crate::cmd) model: Model,
}

impl Wanted {
    /// Looks whether a target can be tried here, with images in `parent`.
    ///
    /// # Errors
    /// Bad input: what is against it.
    pub(in crate::cmd) fn new(text: &str, parent: &Path) -> anyhow::Result<Wanted> {
        let wanted = Wanted::read(text)?;
        let refused = |why: &str| bad_input(format!("{text}: {why}"));
        if wanted.spec.kernel.is_some() {
            return Err(refused("another kernel is that of a guest"));
        }
        if faults::panics(&wanted.spec) {
            return Err(refused(
                "what is found would panic this machine: leave that out, or try faults --in guest",
            ));
        }
        let conditions = Conditions::of_this_process(parent, wanted.size_bytes, &[]);
        match readiness::readiness(&wanted.target, &conditions) {
            Readiness::Ready => Ok(wanted),
            Readiness::Skip { reason: why } | Readiness::Refuse { error: why } => {
                Err(refused(&why))
            }
        }
    }

    /// Reads a target, which may be for another machine.
    ///
    /// # Errors
    /// Bad input: what is against it anywhere.
    pub(in crate::cmd) fn read(text: &str) -> anyhow::Result<Wanted> {
        let target = catalogue::with_names(|names| TargetSpec::parse(text, names));
        let target = target.map_err(bad_input)?;
        let refused = |why: &str| bad_input(format!("{text}: {why}"));
        let Ground::Fresh(spec) = &target.ground else {
            return Err(refused("power is cut under a filesystem that is made for it: name one"));
        };
        if spec.journal.is_some() || spec.age.is_some() {
            return Err(refused("a journal on another disk and an age are not tried here"));
        }
        let (model_name, size) = match &spec.device {
            DeviceSpec::LoopImage { size_bytes } => (MODEL, *size_bytes),
            DeviceSpec::Emulated { model, size_bytes } => (model.as_str(), *size_bytes),
            DeviceSpec::Block { .. } => {
                return Err(refused("power is cut under an image: leave @DEVICE out"));
            }
            DeviceSpec::Array(_) => {
                return Err(refused("power is cut under one image: arrays are not tried here"));
            }
        };
        let least = filesystem::by_name(&spec.filesystem).map_or(0, |it| it.min_size_bytes);
        let size_bytes = size.unwrap_or(least.max(LEAST_BYTES));
        let model = find_model(model_name).map_err(bad_input)?;
        let (text, model_name) = (text.to_owned(), model_name.to_owned());
        let spec = spec.clone();
        Ok(Wanted { text, target, spec, size_bytes, model_name, model })
    }
}
