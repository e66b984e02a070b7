//! Where the effective user's own state, data and cache lie: the XDG base directories or their defaults. A
//! place that others could have prepared is never chosen, because what lies there is believed later,
//! by root too. Making the directories is left to who uses them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Writable for everybody.
const WORLD_WRITABLE: u32 = 0o002;

/// Where fsdyno keeps the ledgers of its runs unless told otherwise: `$XDG_STATE_HOME/fsdyno`, else
/// `~/.local/state/fsdyno` of the effective user. Under sudo that is root's, because what a process
/// of root's left behind only root can remove. `None` where this user has no such directory.
#[must_use]
pub fn default_state_directory() -> Option<PathBuf> {
    own_directory("XDG_STATE_HOME", ".local/state")
}

/// Where fsdyno keeps results unless told otherwise: `$XDG_DATA_HOME/fsdyno`, else
/// `~/.local/share/fsdyno`, by the rules of [`default_state_directory`].
#[must_use]
pub fn default_data_directory() -> Option<PathBuf> {
    own_directory("XDG_DATA_HOME", ".local/share")
}

/// Where fsdyno keeps what it can make again unless told otherwise: `$XDG_CACHE_HOME/fsdyno`, else
/// `~/.cache/fsdyno`, by the rules of [`default_state_directory`].
#[must_use]
pub fn default_cache_directory() -> Option<PathBuf> {
    own_directory("XDG_CACHE_HOME", ".cache")
}

fn own_directory(variable: &str, below_home: &str) -> Option<PathBuf> {
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let user = rustix::process::geteuid().as_raw();
    choose(path(variable), path("HOME"), below_home, user)
}

/// `named` is the value of the XDG variable, `home` that of `HOME`, `user` the effective user's number.
fn choose(
    named: Option<PathBuf>,
    home: Option<PathBuf>,
    below_home: &str,
    user: u32,
) -> Option<PathBuf> {
    let root_home = (user == 0).then(|| PathBuf::from("/root"));
    let is_home = |home: &PathBuf| is_private(home, user) && home.is_dir();
    let homes = [home, root_home].into_iter().flatten().filter(is_home);
    let named = named.filter(|path| is_private(path, user));
    let base = named.or_else(|| homes.map(|home| home.join(below_home)).next())?;
    Some(base.join("fsdyno"))
}

/// Whether the path, or the nearest directory above it that exists, belongs to `user` and is not open
/// to everybody: what is missing below it can then be made by that user alone.
fn is_private(path: &Path, user: u32) -> bool {
    let plain = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
    let existing = path.ancestors().find_map(|above| fs::metadata(above).ok());
    plain
        && path != Path::new("/")
        && existing.is_some_and(|found| {
            found.is_dir() && found.uid() == user && found.mode() & WORLD_WRITABLE == 0
        })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const BELOW: &str = ".local/state";

    fn user() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn a_home_that_is_not_ours_is_not_used() {
        let foreign = user() + 1;
        let own = tempfile::tempdir().unwrap();
        assert_eq!(choose(None, Some(own.path().to_owned()), BELOW, foreign), None);
        for home in ["/tmp", "/var/tmp", "relative", "/no/such/home", "/etc/passwd", "/", ""] {
            assert_eq!(choose(None, Some(home.into()), BELOW, foreign), None, "{home}");
        }
        let own_home = choose(None, Some(own.path().to_owned()), BELOW, user());
        assert_eq!(own_home, Some(own.path().join(BELOW).join("fsdyno")));
        // Ours, but open to everybody.
        fs::set_permissions(own.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let chosen = choose(None, Some(own.path().to_owned()), BELOW, user());
        assert!(!chosen.is_some_and(|path| path.starts_with(own.path())));
    }

    #[test]
    fn root_without_a_home_has_slash_root() {
        if user() != 0 || !is_private(Path::new("/root"), 0) {
            println!("skipped: needs root and /root");
            return;
        }
        for home in [None, Some("/tmp".into()), Some("relative".into()), Some("".into())] {
            let chosen = choose(None, home, BELOW, 0).unwrap();
            assert_eq!(chosen, Path::new("/root/.local/state/fsdyno"));
        }
    }

    #[test]
    fn a_named_directory_must_be_ours() {
        let own = tempfile::tempdir().unwrap();
        let inside = own.path().join("not/yet");
        assert_eq!(choose(Some(inside.clone()), None, BELOW, user()), Some(inside.join("fsdyno")));
        assert_eq!(choose(Some(inside.clone()), None, BELOW, user() + 1), None);
        for shared in ["/tmp", "/tmp/no-such-directory", "/var/tmp", "/tmp/../root", "relative"] {
            let chosen = choose(Some(shared.into()), None, BELOW, user());
            assert!(!chosen.is_some_and(|path| path.starts_with(shared)), "{shared}");
        }
        fs::set_permissions(own.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let chosen = choose(Some(inside.clone()), None, BELOW, user());
        assert!(!chosen.is_some_and(|path| path.starts_with(&inside)));
    }
}
