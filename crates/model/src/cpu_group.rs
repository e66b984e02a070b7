//! Groups of processor time: whose work a kernel thread does. The table is `cpu-groups.txt`.

use std::sync::LazyLock;

use crate::wire::matches;

/// The measured program and what it starts.
pub const APPLICATION: &str = "application";
/// Kernel threads that no line of the table matches.
pub const KERNEL: &str = "kernel";
/// Journals and logs.
pub const JOURNAL: &str = "journal";
/// fsdyno itself where it is not the measured program: the process that controls, and the threads that
/// sample and tell.
pub const HARNESS: &str = "harness";
/// Processes of others.
pub const OTHER: &str = "other";
/// Interrupt handlers and deferred interrupt work.
pub const INTERRUPTS: &str = "interrupts";
/// Time in which the hypervisor ran somebody else. Nobody's work: not part of what was busy.
pub const STEAL: &str = "steal";
/// What was busy and is in no group: a difference, not measured.
pub const UNACCOUNTED: &str = "unaccounted";

static TABLE: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(|| {
    include_str!("cpu-groups.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(char::is_whitespace))
        .map(|(group, pattern)| (group, pattern.trim()))
        .collect()
});

/// The group of the kernel thread called `name`, such as `kworker/u4:1-flush-7:0` or `jbd2/loop3-8`.
#[must_use]
pub fn of_kernel_thread(name: &str) -> &'static str {
    // At work (`+`) and was at work last (`-`) are not told apart.
    let mut name = std::borrow::Cow::Borrowed(name);
    if let Some((id, work)) = name.strip_prefix("kworker/").and_then(|rest| rest.split_once('+'))
        && !id.contains('-')
    {
        name = format!("kworker/{id}-{work}").into();
    }
    TABLE.iter().find(|(_, pattern)| matches(pattern, &name)).map_or(KERNEL, |(group, _)| group)
}

/// The groups of kernel threads, in the order of the table, [`KERNEL`] last.
#[must_use]
pub fn of_kernel_threads() -> Vec<&'static str> {
    let mut groups: Vec<&'static str> = Vec::new();
    for group in TABLE.iter().map(|(group, _)| *group).chain([KERNEL]) {
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

/// `name` without what differs from one run to the next: `kworker/flush` of `kworker/u4:1-flush-7:0`,
/// `jbd2` of `jbd2/loop3-8`. Names of programs stay as they are.
#[must_use]
pub fn short_name(name: &str) -> &str {
    if let Some(rest) = name.strip_prefix("kworker/") {
        return match rest.split_once(['-', '+']) {
            Some((_, work)) if work.starts_with("flush-") => "kworker/flush",
            Some((_, work)) if work.starts_with("writeback") => "kworker/writeback",
            Some((_, work)) if work.starts_with("kblockd") => "kworker/kblockd",
            Some((_, work)) if work.starts_with("loop") => "kworker/loop",
            Some((_, work)) if work.starts_with("xfs-") => "kworker/xfs",
            Some((_, work)) if work.starts_with("btrfs-") => "kworker/btrfs",
            Some((_, work)) if work.starts_with("bcachefs") => "kworker/bcachefs",
            Some((_, work)) if work.starts_with("btree_") => "kworker/bcachefs",
            _ => "kworker",
        };
    }
    ["jbd2/", "xfsaild/", "xfs-", "btrfs-", "bch-copygc/", "bch-rebalance/", "bch-reclaim/", "loop"]
        .into_iter()
        .find(|prefix| name.starts_with(prefix))
        .map_or(name, |prefix| prefix.trim_end_matches(['/', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_grouped_and_named() {
        for (name, group, short) in [
            ("kworker/u4:1-flush-7:0", "flusher", "kworker/flush"),
            ("kworker/u4:1+flush-7:0", "flusher", "kworker/flush"),
            ("jbd2/loop3-8", "journal", "jbd2"),
            ("xfsaild/loop0", "journal", "xfsaild"),
            ("kworker/0:1H-xfs-cil/loop0", "journal", "kworker/xfs"),
            ("kworker/1:2-events", "kernel", "kworker"),
            ("kworker/u8:2", "kernel", "kworker"),
            ("kworker/R-writeback", "flusher", "kworker/writeback"),
            ("kworker/1:1-xfs-conv/loop0", "filesystem", "kworker/xfs"),
            ("kworker/R-xfsalloc", "filesystem", "kworker"),
            ("kworker/u8:0-btrfs-endio-write", "filesystem", "kworker/btrfs"),
            ("kworker/u8:0+flush-btrfs-1", "flusher", "kworker/flush"),
            ("btrfs-transaction", "journal", "btrfs"),
            ("btrfs-cleaner", "filesystem", "btrfs"),
            ("bch-reclaim/loop0", "journal", "bch-reclaim"),
            ("bch-copygc/loop0", "filesystem", "bch-copygc"),
            ("kworker/u8:0-bcachefs_journal", "journal", "kworker/bcachefs"),
            ("kworker/u8:0-bcachefs", "filesystem", "kworker/bcachefs"),
            ("kworker/u8:0-btree_update", "filesystem", "kworker/bcachefs"),
            ("kworker/u8:0-flush-bcachefs-1", "flusher", "kworker/flush"),
            ("txg_sync", "journal", "txg_sync"),
            ("z_wr_iss", "filesystem", "z_wr_iss"),
            ("ext4lazyinit", "filesystem", "ext4lazyinit"),
            ("kworker/u8:2-ext4-rsv-conversion", "filesystem", "kworker"),
            ("kworker/1:3-dio/loop0", "filesystem", "kworker"),
            ("kworker/u8:1-loop0", "loop", "kworker/loop"),
            ("kworker/1:1H-kblockd", "block", "kworker/kblockd"),
            ("ksoftirqd/0", "kernel", "ksoftirqd/0"),
        ] {
            assert_eq!((of_kernel_thread(name), short_name(name)), (group, short), "{name}");
        }
        let groups = ["flusher", "journal", "filesystem", "loop", "block", "kernel"];
        assert_eq!(of_kernel_threads(), groups, "each once, in the order of the table");
    }
}
