//! Whether a target can be measured here, asked of all targets before anything starts: what is
//! missing gives a skip with the command that mends it, what is dangerous a refusal. Changes nothing that
//! stays: what an emulated disk costs here is tried out on a file that is removed again.

use std::path::{Path, PathBuf};

use fsdyno_model::target::{ArraySpec, DeviceSpec, FreshSpec, Ground, TargetSpec};
use fsdyno_model::units::human_bytes;
use fsdyno_sys::{file, process};

use crate::device::array;
use crate::emulator::{self, check};
use crate::environment::{can_write, usable_directory};
use crate::filesystem;
use crate::tools::ToolDef;
use crate::{arguments, guard, stand, tools};

/// Room that is left free beside the images, in bytes.
pub const MARGIN_BYTES: u64 = 64 << 20;

/// Whether a target can be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// It can.
    Ready,
    /// This machine, or this user, cannot: the target is left out and the rest goes on.
    Skip {
        /// What is missing and what would mend it.
        reason: String,
    },
    /// It must not be done: nothing starts.
    Refuse {
        /// What is against it and what to do.
        error: String,
    },
}

/// What is known before a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conditions {
    /// Whether this process may mount.
    pub root: bool,
    /// Devices that the user named once more.
    pub destroy: Vec<PathBuf>,
    /// Directory of the images; it need not exist yet.
    pub image_dir: PathBuf,
    /// Size of an image whose target names none, in bytes.
    pub size_bytes: u64,
}

impl Conditions {
    /// Those of this process.
    #[must_use]
    pub fn of_this_process(image_dir: &Path, size_bytes: u64, destroy: &[PathBuf]) -> Conditions {
        let (image_dir, destroy) = (image_dir.to_owned(), destroy.to_owned());
        Conditions { root: process::may_mount(), destroy, image_dir, size_bytes }
    }
}

/// Whether `target` can be measured. What is against it is said without the target's label: that is
/// for the caller to put before it.
#[must_use]
pub fn readiness(target: &TargetSpec, conditions: &Conditions) -> Readiness {
    let answer = match &target.ground {
        Ground::Directory { path } => directory(path, &target.label),
        Ground::Fresh(fresh) => self::fresh(fresh, conditions),
    };
    answer.err().unwrap_or(Readiness::Ready)
}

fn skip(reason: impl Into<String>) -> Readiness {
    Readiness::Skip { reason: reason.into() }
}

fn refuse(error: impl Into<String>) -> Readiness {
    Readiness::Refuse { error: error.into() }
}

/// The errors name the path only where `label`, which stands before them, does not.
fn directory(path: &Path, label: &str) -> Result<(), Readiness> {
    let shown = path.display().to_string();
    let shown = if label.contains(&shown) { String::new() } else { format!("{shown}: ") };
    let found = std::fs::metadata(path)
        .map_err(|error| refuse(format!("{shown}{error}: name an existing directory")))?;
    if !found.is_dir() {
        return Err(refuse(format!("{shown}not a directory")));
    }
    if !can_write(path) {
        return Err(skip(format!("{shown}not writable by this user: choose one that is")));
    }
    Ok(())
}

fn fresh(fresh: &FreshSpec, conditions: &Conditions) -> Result<(), Readiness> {
    let definition = filesystem::by_name(&fresh.filesystem).ok_or_else(|| {
        refuse(format!("`{}` is no filesystem of the catalogue", fresh.filesystem))
    })?;
    arguments::check(definition, &fresh.mkfs, &fresh.mount).map_err(refuse)?;
    guard::check_distinct(fresh).map_err(refuse)?;
    let name = definition.info.name;
    if let Some(why) = definition.guests_only {
        return Err(skip(format!("measured in guests only, with --in guest: {why}")));
    }
    if !conditions.root {
        return Err(skip(format!(
            "making and mounting {name} needs root: run it with sudo, or measure dir:PATH"
        )));
    }
    definition.kernel_support().map_err(skip)?;
    tools_present(definition.tools)?;
    let mut image_bytes = 0;
    let members = [
        (Some(&fresh.device), conditions.size_bytes, definition.min_size_bytes, name.to_owned()),
        (
            fresh.journal.as_ref(),
            stand::journal_size_bytes(conditions.size_bytes),
            definition.min_journal_bytes,
            format!("the {} of {name}", definition.info.external_journal.unwrap_or("journal")),
        ),
    ];
    for (device, default_bytes, min_bytes, what) in members {
        let Some(device) = device else { continue };
        image_bytes += self::device(device, conditions, default_bytes, min_bytes, &what)?;
    }
    if image_bytes > 0 { room_for_images(image_bytes, &conditions.image_dir) } else { Ok(()) }
}

fn tools_present(needed: &[ToolDef]) -> Result<(), Readiness> {
    let missing = tools::missing(needed);
    let Some(first) = missing.first() else { return Ok(()) };
    let advice = tools::install_advice(first.name).unwrap_or_default();
    let names: Vec<&str> = missing.iter().map(|tool| tool.name).collect();
    Err(skip(format!("{} not installed: {advice}", names.join(", "))))
}

/// Looks at one device; answers how many bytes of image it takes.
fn device(
    device: &DeviceSpec,
    conditions: &Conditions,
    default_bytes: u64,
    min_bytes: u64,
    what: &str,
) -> Result<u64, Readiness> {
    let (size, image_bytes) = match device {
        DeviceSpec::LoopImage { size_bytes } => {
            if !Path::new("/dev/loop-control").exists() {
                return Err(skip("this kernel has no loop devices: try modprobe loop"));
            }
            let size = size_bytes.unwrap_or(default_bytes);
            (size, size)
        }
        DeviceSpec::Emulated { model, size_bytes } => {
            let size = size_bytes.unwrap_or(default_bytes);
            emulated(model, size, conditions)?;
            (size, size)
        }
        DeviceSpec::Block { path } => {
            let accepted = guard::accept(path, &conditions.destroy, &[]).map_err(refuse)?;
            let size = fsdyno_sys::block::size_bytes(&accepted.path);
            (size.map_err(|error| refuse(error.to_string()))?, 0)
        }
        DeviceSpec::Array(spec) => array(spec, device, conditions, default_bytes)?,
    };
    if size < min_bytes {
        return Err(refuse(format!(
            "{} is too small for {what}: give at least {}",
            human_bytes(size),
            human_bytes(min_bytes)
        )));
    }
    Ok(image_bytes)
}

/// Looks at an array and its members; answers how much it holds and how many bytes of image it takes.
fn array(
    spec: &ArraySpec,
    device: &DeviceSpec,
    conditions: &Conditions,
    default_bytes: u64,
) -> Result<(u64, u64), Readiness> {
    let definition = array::definition(spec.array);
    let word = spec.array.word();
    for driver in definition.drivers {
        if !kernel_has_module(driver) {
            return Err(skip(format!(
                "{word} needs {driver}, which this kernel does not have: boot one that has, or add --in guest"
            )));
        }
    }
    tools_present(definition.tools)?;
    let share = DeviceSpec::member_size(spec, default_bytes);
    let mut image_bytes = 0;
    for member in &spec.members {
        image_bytes += self::device(member, conditions, share, 0, word)?;
    }
    Ok((device.size(default_bytes), image_bytes))
}

/// Whether a module is loaded, built in, or can be loaded.
fn kernel_has_module(name: &str) -> bool {
    let loaded = Path::new("/sys/module").join(name.replace('-', "_"));
    loaded.exists() || filesystem::installed_modules().has(name)
}

/// Whether a disk can be emulated here: the model is known, FUSE and loop devices are there, and the
/// model is not faster than what carries it, which is tried out once.
fn emulated(name: &str, size_bytes: u64, conditions: &Conditions) -> Result<(), Readiness> {
    let model = emulator::find_model(name).map_err(refuse)?;
    if size_bytes > model.capacity_bytes {
        let capacity = human_bytes(model.capacity_bytes);
        return Err(refuse(format!(
            "{name} holds {capacity}, less than {}: give a size, as in @disk:{name}:1GiB",
            human_bytes(size_bytes)
        )));
    }
    for (path, advice) in [("/dev/fuse", "fuse"), ("/dev/loop-control", "loop")] {
        if !Path::new(path).exists() {
            return Err(skip(format!("emulated disks need {path}: try modprobe {advice}")));
        }
    }
    let overhead = check::overhead_here(nearest_existing(&conditions.image_dir)).map_err(skip)?;
    check::fast_enough(&model, &overhead).map_err(refuse)
}

/// Whether the directory of the images can hold that much.
///
/// # Errors
/// Why it cannot.
pub fn room_for_images(image_bytes: u64, image_dir: &Path) -> Result<(), Readiness> {
    usable_directory(image_dir).map_err(refuse)?;
    let existing = nearest_existing(image_dir);
    let space = file::free_space(existing).map_err(|error| refuse(error.to_string()))?;
    let wanted = image_bytes.saturating_add(MARGIN_BYTES);
    if space.available < wanted {
        return Err(skip(format!(
            "{} needs {} free for one trial and has {}: choose a smaller --size or another --dir",
            existing.display(),
            human_bytes(wanted),
            human_bytes(space.available)
        )));
    }
    Ok(())
}

/// `path` or the nearest directory above it that exists.
#[must_use]
pub fn nearest_existing(path: &Path) -> &Path {
    path.ancestors().find(|above| above.is_dir()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(directory: &Path) -> Conditions {
        Conditions {
            root: true,
            destroy: Vec::new(),
            image_dir: directory.join("not/yet"),
            size_bytes: 512 << 20,
        }
    }

    fn target(filesystem: &str, mkfs: &[&str], device: DeviceSpec) -> TargetSpec {
        let mkfs = mkfs.iter().map(|word| (*word).to_owned()).collect();
        let (filesystem, mount) = (filesystem.to_owned(), String::new());
        let (journal, age, kernel) = (None, None, None);
        let fresh = FreshSpec { filesystem, mkfs, mount, device, journal, age, kernel };
        let ground = Ground::Fresh(fresh);
        TargetSpec { label: "t".to_owned(), ground }
    }

    fn image(size_bytes: u64) -> DeviceSpec {
        DeviceSpec::LoopImage { size_bytes: Some(size_bytes) }
    }

    #[test]
    fn what_is_missing_is_told_with_its_mending() {
        let directory = tempfile::tempdir().unwrap();
        let ready = conditions(directory.path());
        let ordinary = Conditions { root: false, ..ready.clone() };
        let cases = [
            (target("ext4", &[], image(1 << 30)), &ordinary, "needs root"),
            (target("nofs", &[], image(1 << 30)), &ready, "no filesystem of the catalogue"),
            (target("ext4", &["/dev/sda"], image(1 << 30)), &ready, "leads to a device"),
            (target("ext4", &["-z", "/x"], image(1 << 30)), &ordinary, "Refuse"),
            (target("btrfs", &["/x/y.img"], image(1 << 30)), &ordinary, "Refuse"),
        ];
        for (target, conditions, words) in cases {
            let text = format!("{:?}", readiness(&target, conditions));
            assert!(text.contains(words), "{text}");
        }
        for definition in filesystem::ALL {
            if definition.guests_only.is_some() {
                let target = target(definition.info.name, &[], image(1 << 30));
                let text = format!("{:?}", readiness(&target, &ready));
                assert!(text.contains("Skip") && text.contains("--in guest"), "{text}");
                continue;
            }
            if definition.kernel_support().is_err() || !tools::missing(definition.tools).is_empty()
            {
                println!("skipped: no {} here", definition.info.name);
                continue;
            }
            for (size, words) in [(1 << 20, "too small"), (1 << 60, "choose a smaller --size")] {
                let target = target(definition.info.name, &[], image(size));
                let text = format!("{:?}", readiness(&target, &ready));
                let loops = Path::new("/dev/loop-control").exists();
                assert!(text.contains(words) || !loops, "{text}");
            }
        }
    }

    #[test]
    fn a_target_must_be_writable() {
        let directory = tempfile::tempdir().unwrap();
        let mut target = target("ext4", &[], image(1 << 30));
        let Ground::Fresh(fresh) = &mut target.ground else { panic!("not a filesystem") };
        fresh.mount = "noatime,ro".to_owned();
        let error = "a target must be writable: leave out ro".to_owned();
        assert_eq!(readiness(&target, &conditions(directory.path())), Readiness::Refuse { error });
    }

    #[test]
    fn images_need_a_directory() {
        let error = "--dir /etc/passwd is not a directory";
        for path in ["/etc/passwd", "/etc/passwd/x"] {
            let answer = room_for_images(1, Path::new(path)).unwrap_err();
            assert_eq!(answer, refuse(error), "{path}");
        }
        assert!(matches!(room_for_images(1, Path::new("/proc")), Err(Readiness::Refuse { .. })));
    }

    #[test]
    fn directories_must_exist_and_are_named_once() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        for (path, ready) in
            [(directory.path(), true), (&file, false), (Path::new("/no/such"), false)]
        {
            let shown = path.display().to_string();
            for (label, count) in [(format!("dir:{shown}"), 0), ("own label".to_owned(), 1)] {
                let ground = Ground::Directory { path: path.to_owned() };
                let answer =
                    readiness(&TargetSpec { label, ground }, &conditions(directory.path()));
                assert_eq!(answer == Readiness::Ready, ready, "{answer:?}");
                if let Readiness::Refuse { error } = answer {
                    assert_eq!(error.matches(&shown).count(), count, "{error}");
                    assert!(!error.contains("dir:"), "{error}");
                }
            }
        }
    }
}
