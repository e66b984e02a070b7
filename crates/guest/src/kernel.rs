//! The kernels that guests can have: installed ones, those of unpacked packages, an image, a package. Each is
//! an image and the directory of its modules; the ELF inside an image is kept in the cache.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use fsdyno_model::kernel::KernelChoice;

use crate::{Result, elf, hash, image, package, read};

/// Where kernels are installed.
const BOOT: &str = "/boot";
/// Where modules are installed.
const MODULES: [&str; 2] = ["/lib/modules", "/usr/lib/modules"];

/// A kernel with its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Its release, such as `6.1.0-18-amd64`.
    pub release: String,
    /// The image.
    pub image: PathBuf,
    /// The directory of its modules.
    pub modules: PathBuf,
}

/// A kernel that QEMU can boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bootable {
    /// What is booted: the ELF, or the image where that cannot be booted by itself.
    pub path: PathBuf,
    /// Hash of the image.
    pub hash: String,
}

/// The kernels that are installed with their modules, the newest first.
#[must_use]
pub fn installed() -> Vec<Kernel> {
    let entries = fs::read_dir(BOOT).into_iter().flatten().flatten();
    let in_boot = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some((name.strip_prefix("vmlinuz-")?.to_owned(), entry.path()))
    });
    let directories = MODULES.iter().flat_map(|place| fs::read_dir(place).into_iter().flatten());
    let beside = directories.flatten().filter_map(|entry| {
        let path = entry.path().join("vmlinuz");
        path.exists().then(|| (entry.file_name().to_string_lossy().into_owned(), path))
    });
    let mut kernels: Vec<Kernel> = Vec::new();
    for (release, image) in in_boot.chain(beside) {
        let Some(modules) = modules_of(&release, &image) else { continue };
        if !kernels.iter().any(|known| known.release == release) {
            kernels.push(Kernel { release, image, modules });
        }
    }
    kernels.sort_by_key(|kernel| std::cmp::Reverse(version_key(&kernel.release)));
    kernels
}

/// A kernel that can be named by its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The kernel.
    pub kernel: Kernel,
    /// Name of the package that it was unpacked from; `None` where it is installed.
    pub package: Option<String>,
}

/// The kernels that are installed, and those of packages that are unpacked in `cache`; the newest first.
#[must_use]
pub fn known(cache: &Path) -> Vec<Known> {
    let installed = installed().into_iter().map(|kernel| Known { kernel, package: None });
    let unpacked = package::unpacked(cache).into_iter().filter_map(|package| {
        let kernel = below(&package.root).ok()?;
        Some(Known { kernel, package: Some(package.name) })
    });
    let mut all: Vec<Known> = installed.chain(unpacked).collect();
    all.sort_by_key(|known| std::cmp::Reverse(version_key(&known.kernel.release)));
    all
}

/// The newest kernel that is installed and can be read, or the one that `choice` names. Packages are unpacked
/// in `cache`.
///
/// # Errors
/// There is none; what is named is none, or its modules are missing.
pub fn choose(choice: Option<&KernelChoice>, cache: &Path) -> Result<Kernel> {
    let Some(choice) = choice else { return newest_installed() };
    let failed = |error: String| format!("kernel {choice}: {error}");
    let Some(path) = choice.path() else {
        return of_version(&choice.to_string(), cache).map_err(failed);
    };
    let is_package = ["deb", "rpm"].iter().any(|it| path.extension().is_some_and(|own| own == *it));
    if is_package {
        return below(&package::unpack(path, cache)?).map_err(failed);
    }
    of_image(path).map_err(failed)
}

fn newest_installed() -> Result<Kernel> {
    let installed = installed();
    let readable = installed.iter().find(|kernel| can_be_read(kernel));
    match (readable, installed.first()) {
        (Some(kernel), _) => Ok(kernel.clone()),
        (None, Some(first)) => Err(format!(
            "{} cannot be read by this user: give a copy with --kernel, or sudo chmod +r {0}",
            first.image.display()
        )),
        (None, None) => Err("no kernel with modules is installed: apt-get install \
                             linux-image-amd64, or give one with --kernel"
            .to_owned()),
    }
}

fn can_be_read(kernel: &Kernel) -> bool {
    File::open(&kernel.image).is_ok()
}

/// The newest kernel of a version that is installed or unpacked.
fn of_version(version: &str, cache: &Path) -> Result<Kernel> {
    let known = known(cache);
    let fitting = known.iter().filter(|it| is_of_version(&it.kernel.release, version));
    let mut fitting = fitting.map(|it| &it.kernel);
    if let Some(kernel) = fitting.clone().find(|kernel| can_be_read(kernel)) {
        return Ok(kernel.clone());
    }
    if let Some(kernel) = fitting.next() {
        let image = kernel.image.display();
        return Err(format!("{image} cannot be read by this user: sudo chmod +r {image}"));
    }
    let releases: Vec<&str> = known.iter().map(|it| it.kernel.release.as_str()).collect();
    let there = if releases.is_empty() { "none".to_owned() } else { releases.join(", ") };
    Err(format!(
        "there is none of this version (there are: {there}): fsdyno kernel fetch {version}"
    ))
}

/// Whether a release is of a version: `6.1.0-18-amd64` is of 6, 6.1 and 6.1.0, not of 6.10.
#[must_use]
pub fn is_of_version(release: &str, version: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric());
    release.strip_prefix(version).is_some_and(is_end)
}

/// The kernel of an unpacked package.
///
/// # Errors
/// There is none, or it has no modules.
pub fn below(root: &Path) -> Result<Kernel> {
    let entries = |directory: PathBuf| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<PathBuf>>()
    };
    let is_image = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
    };
    let in_boot = entries(root.join("boot")).into_iter().filter(is_image);
    let beside = entries(root.join("lib/modules")).into_iter().map(|it| it.join("vmlinuz"));
    let mut images: Vec<PathBuf> = in_boot.chain(beside.filter(|path| path.is_file())).collect();
    images.sort_unstable();
    let image = images
        .pop()
        .ok_or("the package holds no kernel (linux-image packages do, and kernel-core)")?;
    of_image(&image)
}

fn of_image(path: &Path) -> Result<Kernel> {
    let mut start = Vec::new();
    File::open(path)
        .and_then(|file| file.take(64 << 10).read_to_end(&mut start))
        .map_err(|error| error.to_string())?;
    if !image::is_kernel_image(&start) {
        return Err("it is no kernel image of x86 (a vmlinuz), no .deb and no .rpm".to_owned());
    }
    let release = image::release(&start).ok_or("it does not say its release")?;
    let modules = modules_of(&release, path).ok_or_else(|| {
        format!("the modules of {release} are neither in /lib/modules nor beside it (lib/modules)")
    })?;
    Ok(Kernel { release, image: path.to_owned(), modules })
}

/// The modules of `release`: where they lie beside the image, or where they are installed.
fn modules_of(release: &str, image: &Path) -> Option<PathBuf> {
    let roots = image.ancestors().skip(1).take(2);
    let beside = roots.flat_map(|root| {
        MODULES.map(|place| root.join(place.trim_start_matches('/')).join(release))
    });
    let own = image.parent().map(Path::to_owned);
    let installed = MODULES.iter().map(|place| Path::new(place).join(release));
    let mut candidates = beside.chain(own).chain(installed);
    candidates.find(|directory| directory.join("kernel").is_dir())
}

/// What releases are ordered by. Numbers count as numbers: 6.9 is older than 6.12.
#[must_use]
pub fn version_key(release: &str) -> Vec<u64> {
    let parts = release.split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

impl Kernel {
    /// Decompresses the kernel into `cache`, once.
    ///
    /// # Errors
    /// The image cannot be read or is none; the cache cannot be written.
    pub fn bootable(&self, cache: &Path) -> Result<Bootable> {
        let bytes = read(&self.image)?;
        let hash = hash(&bytes);
        let kept = cache.join(format!("vmlinux-{hash}"));
        if kept.is_file() {
            return Ok(Bootable { path: kept, hash });
        }
        let elf =
            image::elf_of(&bytes).map_err(|error| format!("{}: {error}", self.image.display()))?;
        if !elf::has_pvh_entry(&elf) {
            return Ok(Bootable { path: self.image.clone(), hash });
        }
        write_whole(&kept, &elf)?;
        Ok(Bootable { path: kept, hash })
    }
}

/// Writes a file that is there whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |error: std::io::Error| format!("write {}: {error}", path.display());
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory).map_err(failed)?;
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    let _ = fs::remove_file(&temporary);
    let write = || -> std::io::Result<()> {
        let opened =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary);
        opened?.write_all(bytes)?;
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&temporary))).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_in_order() {
        let mut releases = ["6.9.1", "6.12.0-2-amd64", "5.10", "6.12.0-10-amd64"];
        releases.sort_by_key(|release| std::cmp::Reverse(version_key(release)));
        assert_eq!(releases, ["6.12.0-10-amd64", "6.12.0-2-amd64", "6.9.1", "5.10"]);
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("text"), "text").unwrap();
        fs::write(path("x.deb"), "text").unwrap();
        fs::write(path("x.rpm"), "text").unwrap();
        for (name, words) in [
            ("text", "no kernel image"),
            ("missing", "No such file"),
            ("x.deb", "neither a Debian package"),
            ("x.rpm", "nor an RPM"),
        ] {
            let choice = KernelChoice::parse(&path(name).display().to_string()).unwrap();
            let error = choose(Some(&choice), directory.path()).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let none = KernelChoice::parse("1.0").unwrap();
        let error = choose(Some(&none), directory.path()).unwrap_err();
        assert!(error.contains("fsdyno kernel fetch 1.0"), "{error}");
    }

    #[test]
    fn a_version_is_whole_numbers() {
        for (release, version, is_of) in [
            ("6.1.0-18-amd64", "6.1", true),
            ("6.1.0-18-amd64", "6.1.0-18-amd64", true),
            ("6.12.95+deb12-amd64", "6.12.95", true),
            ("6.12.95+deb12-amd64", "6.1", false),
            ("6.1.0-18-amd64", "6.1.0-1", false),
            ("6.1rc1", "6.1", false),
        ] {
            assert_eq!(is_of_version(release, version), is_of, "{release} {version}");
        }
    }

    #[test]
    fn an_installed_kernel_becomes_an_elf_once() {
        let Some(kernel) = installed().into_iter().find(|it| File::open(&it.image).is_ok()) else {
            println!("skipped: no kernel is installed that can be read");
            return;
        };
        assert_eq!(of_image(&kernel.image).unwrap(), kernel);
        let cache = tempfile::tempdir().unwrap();
        let first = kernel.bootable(cache.path()).unwrap();
        assert_eq!(kernel.bootable(cache.path()).unwrap(), first);
        let files = fs::read_dir(cache.path()).unwrap().count();
        assert_eq!(files, usize::from(first.path != kernel.image));
    }
}
