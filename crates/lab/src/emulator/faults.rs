//! Requests that go wrong: which ones, and how. The rules lie in a file that whoever tries a filesystem
//! replaces while the disk is in service; the server looks for a new one before each request.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fsdyno_sys::fuse::Ask;
use serde::{Deserialize, Serialize};

/// Kinds of requests that a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// Reads.
    Read,
    /// Writes, discards and requests for zeros.
    Write,
    /// Flushes, wherever the range lies.
    Flush,
    /// All of them.
    Any,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It fails with an I/O error, and nothing is done.
    Fail,
    /// It is answered so many nanoseconds later.
    Delay(u64),
    /// A write is answered as done and is not done.
    Lose,
    /// A read gives bytes of which one bit in each 512 is another.
    Flip,
}

/// One rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Which kind of requests.
    pub on: On,
    /// First byte of the range that a request must touch.
    pub from: u64,
    /// The byte behind the range.
    pub to: u64,
    /// What becomes of it.
    pub effect: Effect,
}

impl Rule {
    /// A rule about all requests of a kind.
    #[must_use]
    pub fn all(on: On, effect: Effect) -> Rule {
        Rule { on, from: 0, to: u64::MAX, effect }
    }

    fn is_about(&self, ask: &Ask<'_>) -> bool {
        let (on, offset, bytes) = match *ask {
            Ask::Read { offset, bytes } => (On::Read, offset, u64::from(bytes)),
            Ask::Write { offset, data } => (On::Write, offset, data.len() as u64),
            Ask::Discard { offset, bytes } | Ask::Zero { offset, bytes } => {
                (On::Write, offset, bytes)
            }
            Ask::Fsync => return matches!(self.on, On::Flush | On::Any),
        };
        let touches = offset < self.to && offset.saturating_add(bytes) > self.from;
        (self.on == on || self.on == On::Any) && touches
    }
}

/// Writes rules where a server looks for them: from the next request on they hold.
///
/// # Errors
/// Those of writing the file.
pub fn set(path: &Path, rules: &[Rule]) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, serde_json::to_vec(rules)?)?;
    fs::rename(&new, path)
}

/// The rules as a server has them.
#[derive(Debug)]
pub struct Faults {
    path: PathBuf,
    /// Inode, length and time of change of the file that was read last.
    seen: Option<(u64, u64, i64)>,
    rules: Vec<Rule>,
}

impl Faults {
    /// The rules in the file `path`, which need not exist yet.
    #[must_use]
    pub fn new(path: &Path) -> Faults {
        Faults { path: path.to_owned(), seen: None, rules: Vec::new() }
    }

    /// What becomes of a request; `None` where nothing goes wrong. The first rule about it counts.
    pub fn effect(&mut self, ask: &Ask<'_>) -> Option<Effect> {
        self.look();
        self.rules.iter().find(|rule| rule.is_about(ask)).map(|rule| rule.effect)
    }

    fn look(&mut self) {
        let Ok(found) = fs::metadata(&self.path) else { return };
        let found = (found.ino(), found.len(), found.ctime_nsec());
        if self.seen == Some(found) {
            return;
        }
        let read = fs::read(&self.path).ok();
        // A file is renamed into its place whole: what cannot be read is none of ours.
        if let Some(rules) = read.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
            (self.rules, self.seen) = (rules, Some(found));
        }
    }
}

/// Turns one bit in each 512 bytes.
pub fn flip(buffer: &mut [u8]) {
    for sector in buffer.chunks_mut(512) {
        let middle = sector.len() / 2;
        if let Some(byte) = sector.get_mut(middle) {
            *byte ^= 0x10;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_replaced_while_a_disk_is_in_service() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("faults");
        let mut faults = Faults::new(&path);
        let read = Ask::Read { offset: 4096, bytes: 4096 };
        let write = Ask::Write { offset: 4096, data: &[0; 512] };
        assert_eq!(faults.effect(&read), None);
        let rule = Rule { on: On::Read, from: 8000, to: 8192, effect: Effect::Fail };
        set(&path, &[rule, Rule::all(On::Flush, Effect::Delay(7))]).unwrap();
        assert_eq!(faults.effect(&read), Some(Effect::Fail));
        assert_eq!(faults.effect(&Ask::Read { offset: 8192, bytes: 512 }), None);
        assert_eq!(faults.effect(&write), None);
        assert_eq!(faults.effect(&Ask::Fsync), Some(Effect::Delay(7)));
        set(&path, &[Rule::all(On::Write, Effect::Lose)]).unwrap();
        assert_eq!(faults.effect(&read), None);
        assert_eq!(faults.effect(&write), Some(Effect::Lose));
        set(&path, &[]).unwrap();
        assert_eq!(faults.effect(&write), None);
        fs::write(&path, "no rules").unwrap();
        assert_eq!(faults.effect(&write), None);
    }

    #[test]
    fn one_bit_of_each_sector_is_another() {
        let mut buffer = [0u8; 1100];
        flip(&mut buffer);
        assert_eq!(buffer.iter().map(|byte| byte.count_ones()).sum::<u32>(), 3);
        flip(&mut buffer);
        assert_eq!(buffer, [0; 1100]);
    }
}
