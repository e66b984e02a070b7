//! What lies behind the failure of a trial and is not said by the call that failed: a filesystem that gave
//! up, a process that the kernel killed for want of memory. It is put before the error of the trial.

use std::fs;

use crate::kernel_log::{self, Killed};

/// How a text says that a process was killed: by the shell's exit code, or as a signal.
const KILLED_WORDS: [&str; 4] = ["exit code 137", "signal 9", "signal: 9", "SIGKILL"];
/// What is to be tried where memory was wanting.
const MEMORY_ADVICE: &str = "give it more memory, or let it do less";

/// What the kernel says of a trial, known at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Aftermath {
    /// The filesystem gave up: how, and the kernel's message.
    pub given_up: Option<String>,
    /// Processes that the kernel killed for want of memory, whoever they belonged to.
    pub killed: Vec<Killed>,
    /// How many processes the kernel says that it killed so, those of which no message is known included.
    pub kills: u64,
}

impl Aftermath {
    /// From the kernel's messages of the trial; `condition` is what the mount table says of the filesystem.
    #[must_use]
    pub fn of(
        records: &[String],
        devices: &[String],
        condition: Option<&str>,
        kills: u64,
    ) -> Aftermath {
        let words = kernel_log::given_up(records, devices).or(condition);
        let given_up = words.map(|words| match kernel_log::first_error(records, devices) {
            Some(message) => format!("{words}: {message}"),
            None => format!("{words} (dmesg may say which)"),
        });
        Aftermath { given_up, killed: kernel_log::killed(records), kills }
    }

    /// The error of a trial that failed with `error`, with what lies behind it put first.
    #[must_use]
    pub fn explain(&self, error: &str) -> String {
        self.explain_in(error, own_memory_group().as_deref())
    }

    fn explain_in(&self, error: &str, own_group: Option<&str>) -> String {
        let mut parts = Vec::new();
        parts.extend(self.given_up.clone());
        parts.extend(self.want_of_memory(error, own_group));
        parts.extend(Some(error.to_owned()).filter(|error| !error.is_empty()));
        parts.join("; ")
    }

    /// Told where the process that was killed is of our own control group, or where the error says that
    /// something was killed.
    fn want_of_memory(&self, error: &str, own_group: Option<&str>) -> Option<String> {
        let says_killed = KILLED_WORDS.iter().any(|words| error.contains(words));
        let is_own = |killed: &&Killed| {
            says_killed || (own_group.is_some() && killed.group.as_deref() == own_group)
        };
        let own: Vec<String> = self.killed.iter().filter(is_own).map(words).collect();
        if !own.is_empty() {
            let own = own.join(", ");
            return Some(format!("the kernel killed {own} for want of memory: {MEMORY_ADVICE}"));
        }
        (says_killed && self.killed.is_empty() && self.kills > 0).then(|| {
            format!("the kernel killed a process for want of memory meanwhile: {MEMORY_ADVICE}")
        })
    }

    /// Names of all that were killed for want of memory; `None` where nothing was.
    #[must_use]
    pub fn all_killed(&self) -> Option<String> {
        if self.killed.is_empty() {
            return (self.kills > 0).then(|| "a process".to_owned());
        }
        Some(self.killed.iter().map(words).collect::<Vec<String>>().join(", "))
    }
}

fn words(killed: &Killed) -> String {
    format!("{} (process {})", killed.name.escape_debug(), killed.pid)
}

/// How many processes the kernel has killed for want of memory since boot; 0 where nobody counts.
#[must_use]
pub fn kills_since_boot() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok());
    count.unwrap_or(0)
}

fn own_memory_group() -> Option<String> {
    memory_group(&fs::read_to_string("/proc/self/cgroup").ok()?)
}

/// The control group that memory is counted in: of version 1 where that counts it, else of version 2.
/// Lines have the form `NUMBER:CONTROLLERS:PATH`.
fn memory_group(text: &str) -> Option<String> {
    let groups = || {
        text.lines().filter_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            Some((number, controllers, path))
        })
    };
    let of_version_1 =
        groups().find(|(_, controllers, _)| controllers.split(',').any(|it| it == "memory"));
    let found = of_version_1.or_else(|| groups().find(|(number, ..)| *number == "0"));
    found.map(|(_, _, path)| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn killed(group: &str) -> Aftermath {
        let killed = Killed { pid: 7, name: "tail".to_owned(), group: Some(group.to_owned()) };
        Aftermath { killed: vec![killed], kills: 1, ..Aftermath::default() }
    }

    #[test]
    fn what_was_killed_elsewhere_explains_nothing_here() {
        let told = |aftermath: &Aftermath, error| aftermath.explain_in(error, Some("/a"));
        assert_eq!(told(&killed("/b"), "ENOSPC"), "ENOSPC");
        let here = told(&killed("/a"), "sh: exit code 1");
        assert!(
            here.starts_with("the kernel killed tail (process 7) for want of memory: "),
            "{here}"
        );
        assert!(here.ends_with("; sh: exit code 1"), "{here}");
        assert!(told(&killed("/b"), "sh: exit code 137").starts_with("the kernel killed tail"));
        let counted = Aftermath { kills: 2, ..Aftermath::default() };
        assert!(told(&counted, "ended by signal 9").starts_with("the kernel killed a process"));
        assert_eq!(told(&counted, "ENOSPC"), "ENOSPC");
        assert_eq!(told(&Aftermath::default(), "ended by signal 9"), "ended by signal 9");
    }

    #[test]
    fn a_filesystem_that_gave_up_is_named_with_the_kernels_message() {
        let devices = ["loop0".to_owned()];
        let records = [
            "2,1,1,-;EXT4-fs error (device loop0): f:1: comm sh: x".to_owned(),
            "2,2,1,-;EXT4-fs (loop0): Remounting filesystem read-only".to_owned(),
        ];
        let told = Aftermath::of(&records, &devices, None, 0).explain_in("touch: EROFS", None);
        assert_eq!(
            told,
            "the filesystem went read-only after an error: EXT4-fs error (device loop0): f:1: comm sh: x; touch: EROFS"
        );
        let unread = Aftermath::of(&[], &devices, Some(kernel_log::READ_ONLY), 0);
        assert!(unread.explain_in("", None).ends_with("after an error (dmesg may say which)"));
        assert_eq!(Aftermath::of(&records[..1], &devices, None, 0).given_up, None);
    }

    #[test]
    fn the_group_that_counts_memory_is_found() {
        let hybrid = "5:devices:/\n4:cpu,memory:/x:y\n0::/z\n";
        assert_eq!(memory_group(hybrid).unwrap(), "/x:y");
        assert_eq!(memory_group("0::/user.slice\n").unwrap(), "/user.slice");
        assert_eq!(memory_group("nonsense"), None);
    }
}
