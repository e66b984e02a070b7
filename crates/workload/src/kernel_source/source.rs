//! The archive of the source: found on the machine, looked through once before anything is timed, and
//! compared with what was extracted from it when the build is done.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use fsdyno_model::record::VerifyRecord;
use xxhash_rust::xxh3::Xxh3;

use crate::archive::{Archive, BLOCK_BYTES, Compression, Entry, EntryKind, EntryName, Survey};
use crate::contents::{MANIFEST_FILES, Reservoir};
use crate::failure::{Unavailable, check_interrupt};
use crate::payload::name_hash;

/// Where distributions put the source of their kernel.
const DIRECTORY: &str = "/usr/src";
/// An archive up to this size is looked through to learn what it takes; a larger one is estimated.
const SURVEYED_BYTES: u64 = 32 << 20;
/// A file that only the source of a kernel has.
const KERNEL_FILE: &[u8] = b"scripts/kconfig/Makefile";
/// A sampled file that is larger is not compared.
const SAMPLED_BYTES: u64 = 1 << 20;

/// The archive at `path`, or the newest of the distribution for `auto`.
///
/// # Errors
/// It cannot be read or is none; [`Unavailable`] where `auto` finds none.
pub fn locate(path: &str) -> anyhow::Result<Archive> {
    if path != "auto" {
        return Ok(Archive::open(Path::new(path))?);
    }
    newest(Path::new(DIRECTORY)).ok_or_else(|| {
        let reason = format!(
            "no kernel source: there is no {DIRECTORY}/linux-source-*.tar.xz; install the package \
             linux-source of the distribution, or give archive=PATH"
        );
        Unavailable(reason).into()
    })
}

/// The readable archive of the highest version in `directory`.
fn newest(directory: &Path) -> Option<Archive> {
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    let mut found: Vec<(Vec<u64>, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let (version, _) = name.strip_prefix("linux-source-")?.split_once(".tar")?;
            let numbers = version.split(|c: char| !c.is_ascii_digit());
            Some((numbers.map(|number| number.parse().unwrap_or(0)).collect(), entry.path()))
        })
        .collect();
    found.sort_unstable();
    found.iter().rev().find_map(|(_, path)| Archive::open(path).ok())
}

/// What the tree takes, in bytes, each file rounded up to [`BLOCK_BYTES`]: counted for a small archive,
/// estimated from its size for a large one, because looking through a kernel takes ten seconds.
///
/// # Errors
/// A small archive is damaged.
pub fn tree_bytes(archive: &Archive) -> anyhow::Result<u64> {
    if archive.size_bytes() <= SURVEYED_BYTES {
        return Ok(archive.survey()?.rounded_bytes);
    }
    // Linux 6.1 takes 1438 MiB in blocks, 10.9 times its .tar.xz and 1.1 times its .tar.
    let tenths = match archive.compression() {
        Compression::None => 13,
        Compression::Gzip => 85,
        Compression::Zstd => 110,
        Compression::Xz => 120,
    };
    Ok(archive.size_bytes() / 10 * tenths)
}

/// One file of the sample.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sampled {
    path: String,
    size_bytes: u64,
    digest: u64,
}

/// What was seen in an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scan {
    /// Counts and sizes.
    pub survey: Survey,
    /// Whether it is a kernel's, which needs further tools.
    pub is_kernel: bool,
    sample: Vec<Sampled>,
}

/// Looks through all of `archive` and remembers the digests of up to 2000 files, those for the same
/// `seed` always the same.
///
/// # Errors
/// It is damaged, has no Makefile at its top after `strip_components` directories, or a signal asked
/// to stop.
pub fn scan(archive: &Archive, strip_components: u64, seed: u64) -> anyhow::Result<Scan> {
    let mut chosen: Reservoir<anyhow::Result<Sampled>> = Reservoir::new(MANIFEST_FILES, seed);
    let (mut seen, mut repeated) = (HashSet::new(), HashSet::new());
    let mut scan = Scan::default();
    let mut has_makefile = false;
    archive.read(|entries| {
        let mut name = EntryName::default();
        while let Some(mut entry) = entries.next_entry()? {
            check_interrupt()?;
            name.set(entry.raw_name(), strip_components).map_err(|reason| entry.refused(reason))?;
            if name.is_empty() || entry.kind() == EntryKind::Directory {
                continue;
            }
            let path = name.to_bytes();
            has_makefile |= matches!(path.as_slice(), b"Makefile" | b"GNUmakefile" | b"makefile");
            scan.is_kernel |= path == KERNEL_FILE;
            if !seen.insert(name_hash(&path)) {
                repeated.insert(path);
                continue;
            }
            if entry.kind() != EntryKind::File {
                continue;
            }
            let size_bytes = entry.size_bytes();
            scan.survey.files += 1;
            scan.survey.content_bytes += size_bytes;
            scan.survey.rounded_bytes += size_bytes.next_multiple_of(BLOCK_BYTES);
            if let (Ok(path), true) = (String::from_utf8(path), size_bytes <= SAMPLED_BYTES) {
                chosen.offer(|| sampled(path, size_bytes, &mut entry));
            }
        }
        Ok(())
    })?;
    ensure!(
        has_makefile,
        "{}: there is no Makefile at its top with strip_components={strip_components}: give another \
         number, or the source of something that make builds",
        archive.path().display()
    );
    scan.sample = chosen.into_vec().into_iter().collect::<anyhow::Result<_>>()?;
    // What an archive holds twice is, extracted, the last one.
    scan.sample.retain(|file| !repeated.contains(file.path.as_bytes()));
    Ok(scan)
}

fn sampled(path: String, size_bytes: u64, entry: &mut Entry<'_, '_>) -> anyhow::Result<Sampled> {
    let mut buffer = [0; 16 << 10];
    let mut hash = Xxh3::new();
    loop {
        match entry.read(&mut buffer)? {
            0 => return Ok(Sampled { path, size_bytes, digest: hash.digest() }),
            count => hash.update(&buffer[..count]),
        }
    }
}

impl Scan {
    /// Compares the sample with the files below `tree`; gives what was compared.
    ///
    /// # Errors
    /// A file cannot be read or is not the one of the archive; a signal asked to stop.
    pub fn compare(&self, tree: &Path) -> anyhow::Result<VerifyRecord> {
        let mut differ = Vec::new();
        for file in &self.sample {
            check_interrupt()?;
            if !file.is_at(tree) {
                differ.push(file);
            }
        }
        let Some((first, rest)) = differ.split_first() else {
            return Ok(VerifyRecord {
                files: self.sample.len() as u64,
                bytes: self.sample.iter().map(|file| file.size_bytes).sum(),
                mismatches: Vec::new(),
            });
        };
        let rest = rest.len();
        bail!(
            "{} is not as it is in the archive (and {rest} more of {} files): the build changed it, or \
             the device did: see the kernel log",
            first.path,
            self.sample.len()
        )
    }
}

impl Sampled {
    fn is_at(&self, tree: &Path) -> bool {
        let digest = || -> std::io::Result<(u64, u64)> {
            let mut file = File::open(tree.join(&self.path))?;
            let (mut hash, mut size_bytes) = (Xxh3::new(), 0);
            let mut buffer = [0; 16 << 10];
            loop {
                match file.read(&mut buffer)? {
                    0 => return Ok((size_bytes, hash.digest())),
                    count => {
                        hash.update(&buffer[..count]);
                        size_bytes += count as u64;
                    }
                }
            }
        };
        digest().is_ok_and(|found| found == (self.size_bytes, self.digest))
    }
}

/// Copies the configuration at `from` to its place in `tree`.
///
/// # Errors
/// One of them cannot be read or written.
pub fn copy_configuration(from: &Path, tree: &Path) -> anyhow::Result<()> {
    let to = tree.join(".config");
    let copied = std::fs::copy(from, &to);
    copied.with_context(|| format!("copy {} to {}", from.display(), to.display())).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(directory: &Path, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, text) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, path, text.as_bytes()).unwrap();
        }
        let path = directory.join(name);
        std::fs::write(&path, builder.into_inner().unwrap()).unwrap();
        path
    }

    #[test]
    fn the_newest_source_is_taken() {
        let directory = tempfile::tempdir().unwrap();
        assert!(newest(directory.path()).is_none() && newest(Path::new("/no/place")).is_none());
        for version in ["6.9", "6.10", "5.19-rc2", "6.1"] {
            archive(directory.path(), &format!("linux-source-{version}.tar"), &[("a", "b")]);
        }
        std::fs::write(directory.path().join("linux-source-7.0.tar.bz2"), "BZh9").unwrap();
        std::fs::create_dir(directory.path().join("linux-source-8.0.tar.d")).unwrap();
        std::fs::write(directory.path().join("linux-9.0.tar"), "x").unwrap();
        let found = newest(directory.path()).unwrap();
        assert!(found.path().ends_with("linux-source-6.10.tar"), "{found:?}");
    }

    #[test]
    fn a_scan_finds_what_was_changed() {
        let directory = tempfile::tempdir().unwrap();
        let files =
            [("l/Makefile", "all:"), ("l/a/b.c", "int b;"), ("l/twice", "1"), ("l/twice", "2")];
        let path = archive(directory.path(), "a.tar", &files);
        let scan = scan(&locate(path.to_str().unwrap()).unwrap(), 1, 7).unwrap();
        assert_eq!((scan.sample.len(), scan.is_kernel), (2, false));
        assert_eq!((scan.survey.files, scan.survey.content_bytes), (3, 11));
        assert_eq!(tree_bytes(&locate(path.to_str().unwrap()).unwrap()).unwrap(), 4 * BLOCK_BYTES);
        let tree = directory.path().join("t");
        std::fs::create_dir_all(tree.join("a")).unwrap();
        std::fs::write(tree.join("Makefile"), "all:").unwrap();
        std::fs::write(tree.join("a/b.c"), "int b;").unwrap();
        scan.compare(&tree).unwrap();
        for wrong in ["int c;", "int b; ", ""] {
            std::fs::write(tree.join("a/b.c"), wrong).unwrap();
            let error = scan.compare(&tree).unwrap_err().to_string();
            assert!(error.starts_with("a/b.c is not as it is in the archive"), "{error}");
        }
    }

    #[test]
    fn sources_that_cannot_be_built_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = archive(directory.path(), "a.tar", &[("l/Makefile", "all:")]);
        let found = locate(path.to_str().unwrap()).unwrap();
        for strip in [0, 2] {
            let error = scan(&found, strip, 1).unwrap_err().to_string();
            assert!(error.contains(&format!("strip_components={strip}")), "{error}");
        }
        assert!(locate("/no/such.tar").unwrap_err().to_string().contains("/no/such.tar"));
        let kernel = [("l/Makefile", ""), ("l/scripts/kconfig/Makefile", "")];
        let path = archive(directory.path(), "k.tar", &kernel);
        assert!(scan(&locate(path.to_str().unwrap()).unwrap(), 1, 1).unwrap().is_kernel);
    }
}
