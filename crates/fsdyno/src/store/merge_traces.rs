//! The block traces beside a results database, brought beside another one. Rows are left to
//! [`super::merge`].

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// Bytes compared at a time.
const CHUNK_BYTES: usize = 1 << 16;
/// End of the name of a file that is not whole yet.
const PARTIAL: &str = ".partial";

/// Files that were copied; those of a merge that is not kept are removed again.
#[derive(Debug, Default)]
pub struct CopiedTraces {
    files: Vec<PathBuf>,
    directories: Vec<PathBuf>,
    is_kept: bool,
}

impl CopiedTraces {
    /// Copies the files of the directory `from` that `into` does not have, and makes them durable. A
    /// directory that is not there holds nothing.
    ///
    /// # Errors
    /// When a file of the same name has other content; those of the filesystem.
    pub fn copy(&mut self, from: &Path, into: &Path) -> anyhow::Result<()> {
        let entries = match fs::read_dir(from) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).with_context(|| format!("read {}", from.display())),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.with_context(|| format!("read {}", from.display()))?;
            // Links lead elsewhere and were not made by us.
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                names.push(entry.file_name());
            }
        }
        names.sort();
        for name in names {
            let (source, target) = (from.join(&name), into.join(&name));
            if target.symlink_metadata().is_ok() {
                let same = are_same(&source, &target)
                    .with_context(|| format!("compare {}", target.display()))?;
                if !same {
                    bail!(
                        "{} is there already with other content than {}: move one of them away; nothing was merged",
                        target.display(),
                        source.display()
                    );
                }
                continue;
            }
            self.make_directory(into)?;
            self.copy_file(&source, &target)
                .with_context(|| format!("copy {} to {}", source.display(), target.display()))?;
        }
        if let Ok(directory) = File::open(into) {
            directory.sync_all().with_context(|| format!("sync {}", into.display()))?;
        }
        Ok(())
    }

    /// Number of files copied.
    #[must_use]
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// Nothing is removed any more.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }

    fn make_directory(&mut self, path: &Path) -> anyhow::Result<()> {
        // The last ancestor of a relative path is empty: the current directory.
        let is_missing = |it: &&Path| !it.as_os_str().is_empty() && !it.exists();
        let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
        for directory in missing.into_iter().rev() {
            fs::create_dir(directory).with_context(|| format!("make {}", directory.display()))?;
            self.directories.push(directory.to_owned());
        }
        Ok(())
    }

    fn copy_file(&mut self, source: &Path, target: &Path) -> io::Result<()> {
        let mut name = target.as_os_str().to_owned();
        name.push(PARTIAL);
        let partial = PathBuf::from(name);
        let copied = fs::copy(source, &partial).and_then(|_| {
            File::open(&partial)?.sync_all()?;
            fs::rename(&partial, target)
        });
        if copied.is_err() {
            let _ = fs::remove_file(&partial);
            return copied;
        }
        self.files.push(target.to_owned());
        Ok(())
    }
}

impl Drop for CopiedTraces {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        for file in &self.files {
            let _ = fs::remove_file(file);
        }
        for directory in self.directories.iter().rev() {
            let _ = fs::remove_dir(directory);
        }
    }
}

fn are_same(a: &Path, b: &Path) -> io::Result<bool> {
    let (a, b) = (File::open(a)?, File::open(b)?);
    if a.metadata()?.len() != b.metadata()?.len() {
        return Ok(false);
    }
    let (mut a, mut b) = (BufReader::new(a), BufReader::new(b));
    let (mut own, mut other) = (Vec::new(), Vec::new());
    loop {
        own.clear();
        other.clear();
        a.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut own)?;
        b.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut other)?;
        if own != other {
            return Ok(false);
        }
        if own.is_empty() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_kept_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let (from, into) = (place.path().join("from"), place.path().join("a/b"));
        fs::create_dir(&from).unwrap();
        fs::write(from.join("1.fstrace"), "one").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", from.join("link")).unwrap();
        let mut copied = CopiedTraces::default();
        copied.copy(&from, &into).unwrap();
        assert_eq!(copied.count(), 1);
        assert!(into.join("1.fstrace").exists() && !into.join("link").exists());
        drop(copied);
        assert!(!place.path().join("a").exists());
        let mut copied = CopiedTraces::default();
        copied.copy(&from, &into).unwrap();
        copied.copy(&place.path().join("nowhere"), &into).unwrap();
        copied.keep();
        drop(copied);
        let mut again = CopiedTraces::default();
        again.copy(&from, &into).unwrap();
        assert_eq!(again.count(), 0);
        fs::write(from.join("1.fstrace"), "two").unwrap();
        let error = again.copy(&from, &into).unwrap_err().to_string();
        assert!(error.contains("other content"), "{error}");
        assert_eq!(fs::read_to_string(into.join("1.fstrace")).unwrap(), "one");
    }
}
