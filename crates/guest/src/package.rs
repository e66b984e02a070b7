//! The kernel inside a distribution's package (`.deb`, `.rpm`), unpacked into the cache without installing
//! anything: the image and those of its modules that can serve a guest. Where a distribution has the modules
//! in packages of their own, those that lie beside it are unpacked with it.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::{Result, hash, read, rpm};

/// Parts of the tree of modules that no guest needs: hundreds of megabytes.
const KEPT: [&str; 12] = [
    "arch",
    "block",
    "crypto",
    "drivers/acpi/nfit",
    "drivers/block",
    "drivers/char",
    "drivers/firmware",
    "drivers/md",
    "drivers/nvdimm",
    "drivers/virtio",
    "fs",
    "lib",
];

/// How the directories of unpacked packages begin. What is kept of a package is part of the name, so that
/// what an older version left is not taken.
const ROOT: &str = "package-4-";
/// In such a directory, the name of the package's file.
const NAME: &str = "package";
/// How the package with the image, and those with its modules, are called where they are several: their names
/// are the same but for this.
const MODULE_PACKAGES: [(&str, &[&str]); 2] = [
    ("kernel-core-", &["kernel-modules-core-", "kernel-modules-"]),
    ("linux-image-", &["linux-modules-", "linux-modules-extra-"]),
];

/// An unpacked package in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacked {
    /// Name of the package's file.
    pub name: String,
    /// The root of what it holds.
    pub root: PathBuf,
}

/// The packages that are unpacked in `cache`.
#[must_use]
pub fn unpacked(cache: &Path) -> Vec<Unpacked> {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    let roots = entries.filter(|entry| {
        let name = entry.file_name();
        // One that is being unpacked ends in `.new`.
        name.to_string_lossy().strip_prefix(ROOT).is_some_and(|rest| !rest.contains('.'))
    });
    let mut found: Vec<Unpacked> = roots
        .map(|entry| {
            let name = fs::read_to_string(entry.path().join(NAME)).unwrap_or_default();
            Unpacked { name, root: entry.path() }
        })
        .collect();
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Unpacks `package` below `cache`, once; gives the root of what it holds.
///
/// # Errors
/// It is no package that is known here, is damaged, or the cache cannot be written.
pub fn unpack(package: &Path, cache: &Path) -> Result<PathBuf> {
    let all: Vec<PathBuf> = std::iter::once(package.to_owned()).chain(beside(package)).collect();
    let contents = all.iter().map(|path| read(path)).collect::<Result<Vec<Vec<u8>>>>()?;
    let hashes: Vec<String> = contents.iter().map(|bytes| hash(bytes)).collect();
    let identity =
        if let [one] = &hashes[..] { one.clone() } else { hash(hashes.concat().as_bytes()) };
    let root = cache.join(format!("{ROOT}{identity}"));
    if root.is_dir() {
        return Ok(root);
    }
    let unfinished = root.with_extension(format!("{}.new", std::process::id()));
    let _ = fs::remove_dir_all(&unfinished);
    let unpack_all = || -> Result<()> {
        fs::create_dir_all(&unfinished)
            .map_err(|error| format!("make {}: {error}", unfinished.display()))?;
        for (path, bytes) in all.iter().zip(&contents) {
            unpack_bytes(bytes, &unfinished)
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let name = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
        fs::write(unfinished.join(NAME), name)
            .and_then(|()| fs::rename(&unfinished, &root))
            .map_err(|error| format!("keep {}: {error}", root.display()))
    };
    unpack_all().inspect_err(|_| drop(fs::remove_dir_all(&unfinished)))?;
    Ok(root)
}

/// The packages with modules that belong to `package` and lie beside it.
fn beside(package: &Path) -> Vec<PathBuf> {
    let name = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let found = MODULE_PACKAGES
        .iter()
        .find_map(|(start, modules)| Some((name.strip_prefix(start)?, *modules)));
    let Some((rest, modules)) = found else { return Vec::new() };
    let paths = modules.iter().map(|start| package.with_file_name(format!("{start}{rest}")));
    paths.filter(|path| path.is_file()).collect()
}

/// Unpacks what a guest needs of the package `bytes` into `directory`.
///
/// # Errors
/// It is no package that is known here, is damaged, or the directory cannot be written.
pub fn unpack_bytes(bytes: &[u8], directory: &Path) -> Result<()> {
    if bytes.starts_with(&rpm::MAGIC) {
        return rpm::each_file(bytes, &mut |name, contents| save(name, contents, directory));
    }
    if !bytes.starts_with(b"!<arch>\n") {
        return Err("it is neither a Debian package nor an RPM".to_owned());
    }
    let mut members = ar::Archive::new(bytes);
    while let Some(member) = members.next_entry() {
        let member = member.map_err(|error| format!("it is damaged: {error}"))?;
        let name = String::from_utf8_lossy(member.header().identifier()).into_owned();
        let Some(compression) = name.trim_end_matches('/').strip_prefix("data.tar") else {
            continue;
        };
        let stream: Box<dyn Read + '_> = match compression {
            "" => Box::new(member),
            ".xz" => Box::new(liblzma::read::XzDecoder::new_multi_decoder(member)),
            ".gz" => Box::new(flate2::read::MultiGzDecoder::new(member)),
            ".zst" => Box::new(zstd::Decoder::new(member).map_err(|error| error.to_string())?),
            other => return Err(format!("it is compressed as {other}, which is not known here")),
        };
        return unpack_files(stream, directory);
    }
    Err("it holds no files".to_owned())
}

fn unpack_files(stream: impl Read, directory: &Path) -> Result<()> {
    let damaged = |error: std::io::Error| format!("it is damaged: {error}");
    let mut archive = tar::Archive::new(stream);
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let path = entry.path().map_err(damaged)?.display().to_string();
        if entry.header().entry_type().is_file() {
            save(&path, &mut entry, directory)?;
        }
    }
    Ok(())
}

/// Writes a file of a package to its place below `directory`, where a guest needs it.
fn save(path: &str, contents: &mut dyn Read, directory: &Path) -> Result<()> {
    let Some(place) = place(Path::new(path)) else { return Ok(()) };
    let target = directory.join(place);
    let failed = |error: std::io::Error| format!("write {}: {error}", target.display());
    fs::create_dir_all(target.parent().unwrap_or(directory)).map_err(failed)?;
    let mut file = File::create(&target).map_err(failed)?;
    std::io::copy(contents, &mut file).map_err(failed)?;
    Ok(())
}

/// Where a file of the package goes; `None` for one that is not needed, or would lead elsewhere.
fn place(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(part) => plain.push(part),
            _ => return None,
        }
    }
    let text = plain.to_str()?;
    let text = text.strip_prefix("usr/").filter(|text| text.starts_with("lib/")).unwrap_or(text);
    let is_needed = match text.strip_prefix("lib/modules/").and_then(|rest| rest.split_once('/')) {
        Some((_, rest)) => match rest.strip_prefix("kernel/") {
            Some(rest) => KEPT.iter().any(|kept| Path::new(rest).starts_with(kept)),
            // Some distributions keep the image beside the modules.
            None => ["modules.builtin", "vmlinuz"].contains(&rest),
        },
        None => text.starts_with("boot/vmlinuz-"),
    };
    is_needed.then(|| PathBuf::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(files: &[&str], data_name: &str) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for name in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(4);
            header.set_mode(0o644);
            tar.append_data(&mut header, name, &b"text"[..]).unwrap();
        }
        let data = tar.into_inner().unwrap();
        let data = zstd::encode_all(data.as_slice(), 1).unwrap();
        let mut out = ar::Builder::new(Vec::new());
        for (name, bytes) in [("debian-binary", &b"2.0\n"[..]), (data_name, &data)] {
            let header = ar::Header::new(name.as_bytes().to_vec(), bytes.len() as u64);
            out.append(&header, bytes).unwrap();
        }
        out.into_inner().unwrap()
    }

    #[test]
    fn what_guests_need_is_unpacked_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("linux.deb");
        let files = [
            "./boot/vmlinuz-6.1",
            "./usr/lib/modules/6.1/kernel/fs/ext4/ext4.ko",
            "./lib/modules/6.1/kernel/drivers/net/e1000.ko",
            "./lib/modules/6.1/kernel/drivers/acpi/nfit/nfit.ko",
            "./lib/modules/6.1/modules.builtin",
            "./usr/share/doc/x",
        ];
        fs::write(&path, package(&files, "data.tar.zst")).unwrap();
        let cache = directory.path().join("cache");
        let root = unpack(&path, &cache).unwrap();
        let ext4 = root.join("lib/modules/6.1/kernel/fs/ext4/ext4.ko");
        assert!(ext4.is_file() && root.join("lib/modules/6.1/modules.builtin").is_file());
        assert!(root.join("boot/vmlinuz-6.1").is_file());
        let drivers = root.join("lib/modules/6.1/kernel/drivers");
        assert!(drivers.join("acpi/nfit/nfit.ko").is_file(), "virtual time needs it");
        assert!(!drivers.join("net").exists() && !root.join("usr").exists());
        fs::remove_file(&ext4).unwrap();
        assert_eq!(unpack(&path, &cache).unwrap(), root);
        assert!(!ext4.exists(), "it was unpacked again");
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 1);
        let known = Unpacked { name: "linux.deb".to_owned(), root };
        assert_eq!(unpacked(&cache), [known]);
    }

    #[test]
    fn modules_in_packages_of_their_own_come_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let rpm = rpm::tests::package;
        fs::write(path("kernel-core-6.9.rpm"), rpm(&["./lib/modules/6.9/vmlinuz"])).unwrap();
        let modules = ["./lib/modules/6.9/kernel/fs/xfs.ko", "./lib/modules/6.9/kernel/net/x.ko"];
        fs::write(path("kernel-modules-core-6.9.rpm"), rpm(&modules)).unwrap();
        fs::write(path("kernel-modules-core-6.8.rpm"), rpm(&["./boot/vmlinuz-6.8"])).unwrap();
        let root = unpack(&path("kernel-core-6.9.rpm"), &path("cache")).unwrap();
        let own = root.join("lib/modules/6.9");
        assert!(own.join("vmlinuz").is_file() && own.join("kernel/fs/xfs.ko").is_file());
        assert!(!own.join("kernel/net").exists() && !root.join("boot").exists());
    }

    #[test]
    fn damage_is_told_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("linux.deb");
        let good = package(&["./boot/vmlinuz-6.1"], "data.tar.zst");
        for (bytes, words) in [
            (b"text".to_vec(), "neither a Debian package"),
            (good[..good.len() - 20].to_vec(), "damaged"),
            (package(&[], "data.tar.lzma"), "lzma"),
            (package(&[], "control.tar.zst"), "no files"),
        ] {
            fs::write(&path, bytes).unwrap();
            let cache = directory.path().join("cache");
            let error = unpack(&path, &cache).unwrap_err();
            assert!(error.contains(words), "{error}");
            assert_eq!(fs::read_dir(&cache).into_iter().flatten().count(), 0);
        }
    }

    #[test]
    fn paths_stay_inside() {
        for path in ["/etc/passwd", "../boot/vmlinuz-1", "boot/../../x", "boot/config-6.1"] {
            assert_eq!(place(Path::new(path)), None, "{path}");
        }
    }
}
