//! The account that PostgreSQL runs as: it refuses to run as root.

use std::os::unix::fs::chown;
use std::path::Path;

use anyhow::{Context as _, bail};
use fsdyno_sys::process::is_root;

use crate::program::Program;

/// The word for an account that is chosen here.
pub const AUTO: &str = "auto";
/// Tried in this order.
const USUAL: [&str; 2] = ["postgres", "nobody"];
/// The number of the account that has no rights, where the list of accounts cannot be read.
const NOBODY: u32 = 65534;

/// As whom programs are run; `None`: as the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account(Option<(u32, u32)>);

impl Account {
    /// The account of `name`. With `auto` it is the caller's unless that is root, and then `postgres`, or
    /// else `nobody`.
    ///
    /// # Errors
    /// An account that does not exist, is root's, or that we may not become.
    pub fn choose(name: &str) -> anyhow::Result<Account> {
        let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let numbers = match name {
            AUTO if !is_root() => return Ok(Account(None)),
            AUTO => {
                let found = USUAL.iter().find_map(|name| find(&accounts, name));
                found.unwrap_or((NOBODY, NOBODY))
            }
            name => find(&accounts, name).with_context(|| {
                format!(
                    "user={name}: there is no such account in /etc/passwd: give another, or auto"
                )
            })?,
        };
        if numbers.0 == 0 {
            bail!("user={name}: PostgreSQL refuses to run as root: give another account, or auto");
        }
        if !is_root() {
            bail!("user={name}: only root may become another: leave user=auto, or run as root");
        }
        Ok(Account(Some(numbers)))
    }

    /// Makes a file or a directory this account's.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn own(self, path: &Path) -> anyhow::Result<()> {
        let Some((user, group)) = self.0 else { return Ok(()) };
        chown(path, Some(user), Some(group)).with_context(|| format!("chown {}", path.display()))
    }

    /// Has a program run as this account.
    #[must_use]
    pub fn with(self, program: Program) -> Program {
        match self.0 {
            Some((user, group)) => program.user(user, group),
            None => program,
        }
    }

    /// Numbers of the user and of the group; `None` for the caller's own.
    #[must_use]
    pub fn numbers(self) -> Option<(u32, u32)> {
        self.0
    }
}

/// User and group of an account in the text of `/etc/passwd`.
fn find(accounts: &str, name: &str) -> Option<(u32, u32)> {
    accounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.len() >= 4 && fields[0] == name)
            .then(|| Some((fields[2].parse().ok()?, fields[3].parse().ok()?)))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_their_name() {
        let text = "root:x:0:0::/root:/bin/sh\nbroken\npostgres:x:26:27:a:/v:/b\nodd:x:y:1::\n";
        for (name, expected) in
            [("root", Some((0, 0))), ("postgres", Some((26, 27))), ("odd", None), ("no", None)]
        {
            assert_eq!(find(text, name), expected, "{name}");
        }
    }

    #[test]
    fn root_and_unknown_accounts_are_refused() {
        assert!(
            Account::choose("no-such-account").unwrap_err().to_string().contains("/etc/passwd")
        );
        assert!(Account::choose("root").unwrap_err().to_string().contains("refuses"));
        assert_eq!(Account::choose(AUTO).unwrap().numbers().is_some(), is_root());
    }
}
