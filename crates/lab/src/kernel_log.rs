//! The kernel's messages of a while: which of them tell of an error on a device or of a bug, which say that
//! a filesystem gave up, and which that a process was killed for want of memory. What follows from that is
//! left to [`crate::disturbance`].

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;

use fsdyno_model::record::Warning;
use fsdyno_sys::block::DeviceNumber;
use rustix::fs::OFlags;

/// Messages that are attached to a trial.
const MOST_MESSAGES: usize = 5;
/// Least urgent level of a message about a device that is attached: an error (3, linux/kern_levels.h).
const ERROR_LEVEL: u32 = 3;
/// What the kernel says of a request that a disk does not know, such as a discard (block/blk-core.c).
const NOT_SUPPORTED: &str = "operation not supported error";
/// Beginnings of messages that tell of a bug in the kernel.
const BUGS: [&str; 4] = ["WARNING: ", "BUG: ", "Oops", "Kernel panic"];
/// Parts of messages by which filesystems say that they write no more, and what that is called.
const GIVEN_UP: [(&str, &str); 7] = [
    ("Remounting filesystem read-only", READ_ONLY),
    ("forced readonly", READ_ONLY),
    ("Shutting down filesystem", SHUT_DOWN),
    ("Filesystem has been shut down", SHUT_DOWN),
    ("Corruption of in-memory data", SHUT_DOWN),
    ("shut down requested", SHUT_DOWN),
    ("User initiated shutdown", SHUT_DOWN),
];
/// A filesystem that takes no more writes.
pub const READ_ONLY: &str = "the filesystem went read-only after an error";
/// A filesystem that does nothing any more.
pub const SHUT_DOWN: &str = "the filesystem shut itself down after an error";

/// The kernel's messages from a moment on.
#[derive(Debug)]
pub struct KernelLog {
    /// `None` where they may not be read.
    file: Option<File>,
    records: Vec<String>,
}

impl KernelLog {
    /// From now on.
    #[must_use]
    pub fn from_now() -> KernelLog {
        KernelLog { file: end_of_messages(), records: Vec::new() }
    }

    /// All that came since, as `/dev/kmsg` gives it.
    pub fn records(&mut self) -> &[String] {
        if let Some(file) = &mut self.file {
            self.records.extend(new_messages(file));
        }
        &self.records
    }
}

fn end_of_messages() -> Option<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut log = OpenOptions::new().read(true).custom_flags(flags).open("/dev/kmsg").ok()?;
    log.seek(SeekFrom::End(0)).ok()?;
    Some(log)
}

fn new_messages(log: &mut File) -> Vec<String> {
    let mut messages = Vec::new();
    let mut record = [0; 8192];
    loop {
        match log.read(&mut record) {
            Ok(0) => return messages,
            Ok(count) => messages.push(String::from_utf8_lossy(&record[..count]).into_owned()),
            // Some were overwritten before they were read.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::PIPE.raw_os_error()) => {}
            Err(_) => return messages,
        }
    }
}

/// Name of a device as messages of the kernel have it.
#[must_use]
pub fn device_name(device: DeviceNumber) -> Option<String> {
    let link = fs::read_link(format!("/sys/dev/block/{}:{}", device.major, device.minor)).ok()?;
    Some(link.file_name()?.to_string_lossy().into_owned())
}

/// Level and text of a record of the kernel's own; `None` of what a program wrote. Form:
/// `PRIORITY,NUMBER,MICROSECONDS,FLAGS;TEXT` (Documentation/ABI/testing/dev-kmsg).
fn message(record: &str) -> Option<(u32, &str)> {
    let (head, text) = record.split_once(';')?;
    let priority: u32 = head.split(',').next()?.parse().ok()?;
    (priority >> 3 == 0).then_some((priority & 7, text.lines().next()?))
}

/// Whether a message tells of an error on one of `devices`.
fn is_error(level: u32, text: &str, devices: &[String]) -> bool {
    // A disk that takes no discards says so once; nothing is wrong with it.
    let is_error = level <= ERROR_LEVEL && !text.starts_with(NOT_SUPPORTED);
    is_error && devices.iter().any(|name| names(text, name))
}

/// Errors that are told of one of `devices`.
fn errors<'a>(records: &'a [String], devices: &'a [String]) -> impl Iterator<Item = &'a str> {
    let messages = records.iter().filter_map(|record| message(record));
    messages.filter(|(level, text)| is_error(*level, text, devices)).map(|(_, text)| text)
}

/// A warning with the records that tell of an error on one of `devices`, or of a bug in the kernel.
#[must_use]
pub fn complaints(records: &[String], devices: &[String]) -> Option<Warning> {
    let is_bug = |text: &str| BUGS.iter().any(|word| text.starts_with(word));
    let all: Vec<&str> = records
        .iter()
        .filter_map(|record| message(record))
        .filter(|(level, text)| is_error(*level, text, devices) || is_bug(text))
        .map(|(_, text)| text)
        .collect();
    let told = all.get(..all.len().min(MOST_MESSAGES)).filter(|told| !told.is_empty())?;
    let mut message = format!("the kernel complained: {}", told.join("; "));
    if all.len() > told.len() {
        message.push_str(&format!("; and {} more", all.len() - told.len()));
    }
    let (code, advice) = ("kernel-complained", "look at dmesg; do not rely on this trial");
    Some(Warning { code: code.to_owned(), message, advice: advice.to_owned() })
}

/// What became of the filesystem on `devices`, in words, where it says that it gave up.
#[must_use]
pub fn given_up(records: &[String], devices: &[String]) -> Option<&'static str> {
    errors(records, devices).find_map(|text| {
        GIVEN_UP.iter().find(|(part, _)| text.contains(part)).map(|(_, words)| *words)
    })
}

/// The first error that is told of one of `devices`.
#[must_use]
pub fn first_error(records: &[String], devices: &[String]) -> Option<String> {
    errors(records, devices).next().map(str::to_owned)
}

/// A process that the kernel killed for want of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Killed {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// The control group that its memory was counted in; `None` where the kernel does not tell.
    pub group: Option<String>,
}

/// Every process that the kernel killed for want of memory.
#[must_use]
pub fn killed(records: &[String]) -> Vec<Killed> {
    let mut groups: Vec<(u32, String)> = Vec::new();
    let mut killed = Vec::new();
    for (_, text) in records.iter().filter_map(|record| message(record)) {
        if let Some(rest) = text.strip_prefix("oom-kill:") {
            groups.extend(group_of_killed(rest));
        } else if let Some((pid, name)) = process_killed(text) {
            let group = groups.iter().rev().find(|(known, _)| *known == pid);
            killed.push(Killed { pid, name, group: group.map(|(_, group)| group.clone()) });
        }
    }
    killed
}

/// From `constraint=…,task_memcg=/x,task=NAME,pid=7,uid=0`: names of groups and tasks may hold commas.
fn group_of_killed(text: &str) -> Option<(u32, String)> {
    let (_, rest) = text.split_once(",task_memcg=")?;
    let (group, rest) = rest.rsplit_once(",task=")?;
    let (_, rest) = rest.rsplit_once(",pid=")?;
    let pid = rest.split(',').next()?.parse().ok()?;
    Some((pid, group.to_owned()))
}

/// From `Memory cgroup out of memory: Killed process 7 (NAME) total-vm:…`.
fn process_killed(text: &str) -> Option<(u32, String)> {
    let (_, rest) = text.split_once("Killed process ")?;
    let (pid, rest) = rest.split_once(" (")?;
    let (name, _) = rest.rsplit_once(") total-vm:").or_else(|| rest.rsplit_once(')'))?;
    Some((pid.parse().ok()?, name.to_owned()))
}

/// Whether `text` has `name` as a whole word: `loop1` is no part of `loop12`.
fn names(text: &str, name: &str) -> bool {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-' && letter != '_')
        .any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn messages_are_told_that_concern_the_target() {
        let records = records(&[
            "3,1,10,-;I/O error, dev loop1, sector 8 op 0x1:(WRITE)\n SUBSYSTEM=block\n",
            "3,2,11,-;I/O error, dev loop12, sector 8",
            "3,2,11,-;operation not supported error, dev loop1, sector 0 op 0x3:(DISCARD)",
            "6,3,12,-;EXT4-fs (loop1): mounted filesystem",
            "2,4,13,-;EXT4-fs error (device loop1): ext4_find_entry:1455: inode #2",
            "4,5,14,-;WARNING: CPU: 1 PID: 7 at fs/iomap/buffered-io.c:1",
            "11,6,15,-;loop1 says a program of the user's",
            "nonsense",
            ";",
        ]);
        let told = complaints(&records, &["loop1".to_owned()]).unwrap().message;
        for (part, is_told) in [
            ("sector 8 op", true),
            ("loop12", false),
            ("not supported", false),
            ("mounted", false),
            ("ext4_find_entry", true),
            ("WARNING", true),
            ("a program", false),
        ] {
            assert_eq!(told.contains(part), is_told, "{part}: {told}");
        }
        assert_eq!(complaints(&records[1..3], &["loop1".to_owned()]), None);
        let many = vec![records[0].clone(); 9];
        let told = complaints(&many, &["loop1".to_owned()]).unwrap().message;
        assert!(told.ends_with("and 4 more"), "{told}");
    }

    #[test]
    fn filesystems_say_in_their_own_words_that_they_gave_up() {
        let devices = ["loop0".to_owned()];
        for (text, words) in [
            ("2,1,1,-;EXT4-fs (loop0): Remounting filesystem read-only", Some(READ_ONLY)),
            ("1,1,1,-;XFS (loop0): User initiated shutdown received.", Some(SHUT_DOWN)),
            (
                "1,1,1,-;XFS (loop0): Log I/O Error (0x6) detected at f+0x1.  Shutting down filesystem.",
                Some(SHUT_DOWN),
            ),
            ("2,1,1,-;EXT4-fs (loop1): Remounting filesystem read-only", None),
            ("2,1,1,-;EXT4-fs error (device loop0): f:1: comm sh: x", None),
        ] {
            assert_eq!(given_up(&records(&[text]), &devices), words, "{text}");
        }
        let both = records(&["2,1,1,-;EXT4-fs error (device loop0): f:1", "3,2,2,-;loop0 again"]);
        assert_eq!(first_error(&both, &devices).unwrap(), "EXT4-fs error (device loop0): f:1");
    }

    #[test]
    fn processes_that_were_killed_are_named_with_their_group() {
        let records = records(&[
            "6,1,1,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,b,task_memcg=/a,b/c,task=ta,il,pid=20909,uid=0",
            "3,2,2,-;Memory cgroup out of memory: Killed process 20909 (ta) (il) total-vm:206292kB, UID:0",
            "3,3,3,-;Out of memory: Killed process 7 (x) total-vm:1kB",
            "11,4,4,-;Out of memory: Killed process 8 (a program says so) total-vm:1kB",
            "3,5,5,-;Killed process (",
        ]);
        let told = killed(&records);
        let [first, second] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!((first.pid, first.name.as_str()), (20909, "ta) (il"));
        assert_eq!(first.group.as_deref(), Some("/a,b/c"));
        assert_eq!((second.pid, second.name.as_str(), &second.group), (7, "x", &None));
    }

    proptest::proptest! {
        #[test]
        fn no_record_panics(text in "[0-9]{0,3}(,|;|oom-kill:|Killed process |,task=|,pid=|\\(|\\)|[ -~é]){0,30}") {
            let all = [text];
            let devices = ["loop0".to_owned()];
            let _ = (complaints(&all, &devices), given_up(&all, &devices), killed(&all));
        }
    }
}
