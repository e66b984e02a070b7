//! The kernel inside a Debian package, unpacked into the cache without installing anything: the image and
//! those of its modules that can serve a guest.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::{Result, hash, read};

/// Parts of the tree of modules that no guest needs: hundreds of megabytes.
const KEPT: [&str; 10] = [
    "arch",
    "block",
    "crypto",
    "drivers/block",
    "drivers/char",
    "drivers/md",
    "drivers/nvdimm",
    "drivers/virtio",
    "fs",
    "lib",
];

/// Unpacks `package` below `cache`, once; gives the root of what it holds.
///
/// # Errors
/// It is no Debian package, is damaged, or the cache cannot be written.
pub fn unpack(package: &Path, cache: &Path) -> Result<PathBuf> {
    let failed = |error: String| format!("{}: {error}", package.display());
    let bytes = read(package)?;
    let root = cache.join(format!("package-{}", hash(&bytes)));
    if root.is_dir() {
        return Ok(root);
    }
    if !bytes.starts_with(b"!<arch>\n") {
        return Err(failed("it is no Debian package".to_owned()));
    }
    let unfinished = root.with_extension(format!("{}.new", std::process::id()));
    let _ = fs::remove_dir_all(&unfinished);
    let made = fs::create_dir_all(&unfinished).map_err(|error| error.to_string());
    let done = made
        .and_then(|()| unpack_bytes(&bytes, &unfinished))
        .and_then(|()| fs::rename(&unfinished, &root).map_err(|error| error.to_string()));
    done.inspect_err(|_| drop(fs::remove_dir_all(&unfinished))).map_err(failed)?;
    Ok(root)
}

/// Unpacks what a guest needs of the package `bytes` into `directory`.
///
/// # Errors
/// It is damaged, or the directory cannot be written.
pub fn unpack_bytes(bytes: &[u8], directory: &Path) -> Result<()> {
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
        let path = entry.path().map_err(damaged)?.into_owned();
        let Some(place) = place(&path) else { continue };
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let target = directory.join(place);
        let failed = |error: std::io::Error| format!("write {}: {error}", target.display());
        fs::create_dir_all(target.parent().unwrap_or(directory)).map_err(failed)?;
        let mut file = File::create(&target).map_err(failed)?;
        std::io::copy(&mut entry, &mut file).map_err(failed)?;
    }
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
            None => rest == "modules.builtin",
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
            "./lib/modules/6.1/modules.builtin",
            "./usr/share/doc/x",
        ];
        fs::write(&path, package(&files, "data.tar.zst")).unwrap();
        let cache = directory.path().join("cache");
        let root = unpack(&path, &cache).unwrap();
        let ext4 = root.join("lib/modules/6.1/kernel/fs/ext4/ext4.ko");
        assert!(ext4.is_file() && root.join("lib/modules/6.1/modules.builtin").is_file());
        assert!(root.join("boot/vmlinuz-6.1").is_file());
        assert!(
            !root.join("lib/modules/6.1/kernel/drivers").exists() && !root.join("usr").exists()
        );
        fs::remove_file(&ext4).unwrap();
        assert_eq!(unpack(&path, &cache).unwrap(), root);
        assert!(!ext4.exists(), "it was unpacked again");
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 1);
    }

    #[test]
    fn damage_is_told_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("linux.deb");
        let good = package(&["./boot/vmlinuz-6.1"], "data.tar.zst");
        for (bytes, words) in [
            (b"text".to_vec(), "no Debian package"),
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
