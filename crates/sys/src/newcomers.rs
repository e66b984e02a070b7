//! Numbers of processes that have been started since the last look, found without listing `/proc` each
//! time. What they are is left to the callers.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// So many new numbers are tried one by one; with more, or fewer than none, `/proc` is listed.
const MOST_TRIED: u32 = 1000;

/// Watches the number that was given out last, which is at the end of `/proc/loadavg`.
#[derive(Debug)]
pub(crate) struct Newcomers {
    loadavg: Option<File>,
    newest: Option<u32>,
}

impl Newcomers {
    /// Starts watching, and gives the numbers of all processes that there are.
    pub(crate) fn new() -> (Self, Vec<u32>) {
        let mut newcomers = Self { loadavg: File::open("/proc/loadavg").ok(), newest: None };
        newcomers.newest = newcomers.read();
        (newcomers, listed())
    }

    /// Numbers among which are those of all processes started since the last call: threads, processes
    /// that have ended and some that are known may be among them. `None` where nothing was started.
    pub(crate) fn since(&mut self) -> Option<Vec<u32>> {
        let newest = self.read();
        if newest.is_some() && newest == self.newest {
            return None;
        }
        let before = std::mem::replace(&mut self.newest, newest);
        Some(between(before, newest).unwrap_or_else(listed))
    }

    fn read(&self) -> Option<u32> {
        let mut buffer = [0; 128];
        let count = self.loadavg.as_ref()?.read_at(&mut buffer, 0).ok()?;
        newest_pid(std::str::from_utf8(&buffer[..count]).ok()?)
    }
}

/// The numbers after `before` up to `newest`, where these are few. Numbers are given out in ascending
/// order, and begin anew after the highest.
fn between(before: Option<u32>, newest: Option<u32>) -> Option<Vec<u32>> {
    let (before, newest) = before.zip(newest)?;
    let few = newest > before && newest - before <= MOST_TRIED;
    few.then(|| (before + 1..=newest).collect())
}

/// The process number given out last, at the end of `/proc/loadavg`.
fn newest_pid(loadavg: &str) -> Option<u32> {
    loadavg.split_whitespace().nth(4)?.parse().ok()
}

/// Numbers of all processes.
pub(crate) fn listed() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_new_numbers_are_tried_and_many_listed() {
        assert_eq!(between(Some(7), Some(9)), Some(vec![8, 9]));
        for (before, newest) in [(None, Some(9)), (Some(9), None), (Some(9), Some(7))] {
            assert_eq!(between(before, newest), None);
        }
        assert_eq!(between(Some(1), Some(2 + MOST_TRIED)), None);
        assert_eq!(newest_pid("0.22 0.42 0.26 2/85 11820\n"), Some(11820));
        assert_eq!(newest_pid("0.22 0.42"), None);
    }

    #[test]
    fn a_child_is_among_the_newcomers() {
        let (mut newcomers, all) = Newcomers::new();
        assert!(all.contains(&std::process::id()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        assert!(newcomers.since().unwrap().contains(&child.id()));
        child.wait().unwrap();
    }
}
