//! A directory beside the target: for the server's socket, whose path must be short, and for logs, which
//! must not be written to what is measured. Removed when dropped; what a killed process left is removed
//! by the next.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, anyhow};
use fsdyno_sys::process::identity;

use super::account::Account;

/// Longest path of a directory in which a socket of PostgreSQL's fits: 107 bytes less
/// `/.s.PGSQL.5432`.
const LONGEST: usize = 107 - 14;
const PREFIX: &str = "fsdyno-postgres-";

/// The directory.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes one for `account`, in the directory for temporary files or else in `/tmp` or `/var/tmp`.
    ///
    /// # Errors
    /// When none of them will do.
    pub fn new(account: Account) -> anyhow::Result<Scratch> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let own = std::process::id();
        let places = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
        let mut first_error = None;
        for place in places {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = place.join(format!("{PREFIX}{own}-{number}"));
            if path.as_os_str().len() > LONGEST || !is_passable(&place, account) {
                continue;
            }
            sweep(&place, account);
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let scratch = Scratch { path };
                    account.own(&scratch.path)?;
                    return Ok(scratch);
                }
                Err(error) => {
                    let error = anyhow!("mkdir {}: {error}", path.display());
                    first_error = first_error.or(Some(error));
                }
            }
        }
        let error = first_error.unwrap_or_else(|| {
            anyhow!("its path is too long for a socket, or other accounts may not pass through it")
        });
        Err(error).context("no directory for temporary files will do: set TMPDIR to another")
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of something in it, as an argument.
    #[must_use]
    pub fn join(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is removed by the next.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Whether the account may pass through a directory and all above it.
fn is_passable(place: &Path, account: Account) -> bool {
    let Ok(place) = place.canonicalize() else { return false };
    account.numbers().is_none()
        || place
            .ancestors()
            .all(|path| path.metadata().is_ok_and(|found| found.permissions().mode() & 1 != 0))
}

/// Removes what processes that are gone have left.
fn sweep(place: &Path, account: Account) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse::<u32>().ok());
        let (Some(pid), Ok(found)) = (pid, entry.metadata()) else { continue };
        let is_ours = account.numbers().is_none_or(|(user, _)| found.uid() == user);
        if found.is_dir() && is_ours && identity(pid).is_none() {
            // Another run may be about the same.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_private_and_go_with_their_owner() {
        let account = Account::choose("auto").unwrap();
        let scratch = Scratch::new(account).unwrap();
        let path = scratch.path().to_owned();
        let found = path.metadata().unwrap();
        assert_eq!(found.permissions().mode() & 0o777, 0o700);
        assert!(account.numbers().is_none_or(|(user, _)| found.uid() == user));
        let place = path.parent().unwrap();
        // The number of no process, and that of a living one.
        let stale = place.join(format!("{PREFIX}4194999-0"));
        fs::create_dir(&stale).unwrap();
        account.own(&stale).unwrap();
        sweep(place, account);
        assert!(!stale.exists() && path.exists());
        drop(scratch);
        assert!(!path.exists());
    }
}
