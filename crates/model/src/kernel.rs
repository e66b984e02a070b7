//! Which kernel a guest boots, as the user writes it: a version, of which the newest that is there is taken,
//! or the file of an image or a package. Finding it is left to the crate `guest`.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What introduces a kernel in a target.
pub const MARK: &str = "@kernel=";

/// A kernel: `6.12`, `/boot/vmlinuz-6.1.0-18-amd64`, `linux-image.deb`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct KernelChoice(String);

impl KernelChoice {
    /// Reads a version, or the path of a kernel image or of a package with one.
    ///
    /// # Errors
    /// A sentence when it is empty, or holds what no target can carry.
    pub fn parse(text: &str) -> Result<KernelChoice, String> {
        let is_bad = text.is_empty() || text.chars().any(char::is_control) || text.contains(MARK);
        if is_bad {
            return Err(format!(
                "`{}` is no kernel: write a version such as 6.12, or the path of a kernel image, a .deb \
                 or an .rpm",
                text.escape_debug()
            ));
        }
        Ok(KernelChoice(text.to_owned()))
    }

    /// The version or release, where it is none of a file: it begins with a digit and names no directory.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        let is_package = [".deb", ".rpm"].iter().any(|ending| self.0.ends_with(ending));
        let is_version = self.0.starts_with(|c: char| c.is_ascii_digit()) && !self.0.contains('/');
        (is_version && !is_package).then_some(self.0.as_str())
    }

    /// The file, where it is no version.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.version().is_none().then(|| Path::new(&self.0))
    }

    /// The same for programs that run in another directory than `current`.
    #[must_use]
    pub fn absolute(self, current: &Path) -> KernelChoice {
        match self.path() {
            Some(path) => KernelChoice(PathBuf::from(current).join(path).display().to_string()),
            None => self,
        }
    }
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Splits a target into what comes before its kernel, and the kernel. A mark behind an odd number of
/// backslashes is part of an option.
#[must_use]
pub fn split(target: &str) -> (&str, Option<&str>) {
    let is_plain = |at: &usize| {
        let before = &target[..*at];
        let backslashes = before.len() - before.trim_end_matches('\\').len();
        backslashes.is_multiple_of(2)
    };
    let at = target.rmatch_indices(MARK).map(|(at, _)| at).find(is_plain);
    at.map_or((target, None), |at| (&target[..at], Some(&target[at + MARK.len()..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_files_are_told_apart() {
        for (text, is_version) in [
            ("6.12", true),
            ("6.12.95+deb12-amd64", true),
            ("6.12.deb", false),
            ("./6.12", false),
            ("linux.rpm", false),
            ("/boot/vmlinuz-6.1", false),
        ] {
            let choice = KernelChoice::parse(text).unwrap();
            assert_eq!(choice.version().is_some(), is_version, "{text}");
            assert_ne!(choice.version().is_some(), choice.path().is_some(), "{text}");
            assert_eq!(choice.to_string(), text);
            let stored = serde_json::to_string(&choice).unwrap();
            assert_eq!(stored, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<KernelChoice>(&stored).unwrap(), choice);
        }
        let relative = KernelChoice::parse("a.deb").unwrap();
        assert_eq!(relative.absolute(Path::new("/x")).to_string(), "/x/a.deb");
        let version = KernelChoice::parse("6.1").unwrap();
        assert_eq!(version.clone().absolute(Path::new("/x")), version);
        for text in ["", "a\nb", "6@kernel=6"] {
            assert!(KernelChoice::parse(text).unwrap_err().contains("6.12"), "{text}");
        }
    }

    #[test]
    fn the_last_plain_mark_counts() {
        for (text, before, kernel) in [
            ("ext4", "ext4", None),
            ("ext4@kernel=6.1", "ext4", Some("6.1")),
            ("ext4@loop:1GiB@kernel=/b@c", "ext4@loop:1GiB", Some("/b@c")),
            (r"ext4:a\@kernel=1", r"ext4:a\@kernel=1", None),
            (r"ext4:a\\@kernel=1", r"ext4:a\\", Some("1")),
            (r"ext4:a\@kernel=1@kernel=2", r"ext4:a\@kernel=1", Some("2")),
        ] {
            assert_eq!(split(text), (before, kernel), "{text}");
        }
    }
}
