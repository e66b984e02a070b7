//! What ext2, ext3 and ext4 have in common: e2fsprogs and, in most kernels, the driver. Which
//! features each has, mkfs knows by the name it is called with.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::ext_groups;
use super::{Fsck, MemberNames, Members, Verdict, thread_pattern};
use crate::arguments::{MAKES_NOTHING, MkfsOptions, NAMES_A_DEVICE};
use crate::command::{self, CommandError, CommandSpec};
use crate::tools::{E2FSPROGS, ToolDef};

/// The block size of an external journal where the user names none, in bytes. mke2fs gives it to the
/// filesystem too.
const JOURNAL_BLOCK_SIZE: &str = "4096";

/// The tools beside `mkfs.ext*`.
pub const E2FSCK: ToolDef = ToolDef { name: "e2fsck", package: E2FSPROGS, version_arg: "-V" };
/// Reader of the superblock.
pub const DUMPE2FS: ToolDef = ToolDef { name: "dumpe2fs", package: E2FSPROGS, version_arg: "-V" };
/// Maker of external journals.
pub const MKE2FS: ToolDef = ToolDef { name: "mke2fs", package: E2FSPROGS, version_arg: "-V" };

/// The mkfs tool of one member of the family.
pub const fn mkfs_tool(name: &'static str) -> ToolDef {
    ToolDef { name, package: E2FSPROGS, version_arg: "-V" }
}

/// mke2fs(8). `-s` and `-f` of old versions are not among them.
pub const MKFS_OPTIONS: MkfsOptions = MkfsOptions {
    flags: &["-c", "-D", "-F", "-j", "-K", "-q", "-v"],
    valued: &[
        "-b", "-C", "-d", "-e", "-E", "-g", "-G", "-i", "-I", "-J", "-l", "-L", "-m", "-M", "-N",
        "-o", "-O", "-r", "-R", "-T", "-U",
    ],
    // A tree to copy, a list of bad blocks; label and last mount point are texts.
    paths: &["-d", "-l", "-L", "-M"],
    refused: &[
        ("-n", MAKES_NOTHING),
        ("-S", MAKES_NOTHING),
        ("-V", MAKES_NOTHING),
        ("-z", NAMES_A_DEVICE),
        ("-t", "which filesystem it is says the target: ext2, ext3 or ext4"),
    ],
    configuration: None,
};

/// The commands that make the filesystem: its external journal first.
pub fn mkfs(program: &str, members: Members<'_>, user: &[String]) -> Vec<CommandSpec> {
    let device = members.device.display().to_string();
    let make = CommandSpec::new(program, &["-F", "-q"]);
    let Some(journal) = members.journal else {
        return vec![make.args(user).arg(device)];
    };
    let block_size = block_size_argument(user).unwrap_or(JOURNAL_BLOCK_SIZE);
    let journal = journal.display().to_string();
    let first = CommandSpec::new("mke2fs", &["-F", "-q", "-O", "journal_dev", "-b", block_size])
        .arg(journal.clone());
    vec![first, make.arg("-J").arg(format!("device={journal}")).args(user).arg(device)]
}

/// The value of `-b` among the user's arguments: the journal must have the same.
fn block_size_argument(user: &[String]) -> Option<&str> {
    let mut words = user.iter();
    while let Some(word) = words.next() {
        match word.strip_prefix("-b") {
            Some("") => return words.next().map(String::as_str),
            Some(value) => return Some(value),
            None => {}
        }
    }
    None
}

/// A check that changes nothing.
pub const FSCK: Fsck = Fsck::Program { command: fsck, meaning: fsck_meaning };

fn fsck(members: Members<'_>) -> CommandSpec {
    let mut check = CommandSpec::new("e2fsck", &["-fn"]);
    if let Some(journal) = members.journal {
        check = check.arg("-j").arg(journal.display().to_string());
    }
    check.arg(members.device.display().to_string())
}

/// e2fsck(8): the code is a sum of bits; the worst counts.
fn fsck_meaning(code: i32) -> (Verdict, &'static str) {
    match code {
        0 => (Verdict::Clean, "no errors"),
        code if code & 128 != 0 => (Verdict::Operational, "a shared library is missing or broken"),
        code if code & 32 != 0 => (Verdict::Operational, "canceled by a signal"),
        code if code & 16 != 0 => (Verdict::Operational, "usage or syntax error"),
        code if code & 8 != 0 => {
            (Verdict::Operational, "operational error: the check was not completed")
        }
        code if code & 4 != 0 => (Verdict::Errors, "filesystem errors left uncorrected"),
        code if code & 3 != 0 => (Verdict::Corrected, "filesystem errors were corrected"),
        _ => (Verdict::Operational, "an exit code that e2fsck does not document"),
    }
}

/// What `dumpe2fs -h` states and is a parameter, not a state.
const PARAMETERS: &[(&str, &str)] = &[
    ("Filesystem features", "features"),
    ("Filesystem flags", "flags"),
    ("Default mount options", "default_mount_options"),
    ("Errors behavior", "errors_behavior"),
    ("Inode count", "inode_count"),
    ("Block count", "block_count"),
    ("Reserved block count", "reserved_block_count"),
    ("Block size", "block_size"),
    ("Fragment size", "fragment_size"),
    ("Cluster size", "cluster_size"),
    ("Group descriptor size", "group_descriptor_size"),
    ("Reserved GDT blocks", "reserved_gdt_blocks"),
    ("Blocks per group", "blocks_per_group"),
    ("Inodes per group", "inodes_per_group"),
    ("Flex block group size", "flex_block_group_size"),
    ("RAID stride", "raid_stride"),
    ("RAID stripe width", "raid_stripe_width"),
    ("Inode size", "inode_size"),
    ("Journal inode", "journal_inode"),
    ("Journal device", "journal_device"),
    ("Default directory hash", "directory_hash"),
    ("Checksum type", "checksum_type"),
    ("Journal features", "journal_features"),
    ("Total journal size", "journal_size"),
    ("Journal size", "journal_size"),
    ("Total journal blocks", "journal_blocks"),
    ("Fast commit length", "fast_commit_length"),
];

/// Reads the superblock with dumpe2fs.
pub fn read_back(
    members: Members<'_>,
    _mount_point: &Path,
    limit: Duration,
) -> Result<BTreeMap<String, String>, CommandError> {
    let spec = CommandSpec::new("dumpe2fs", &["-h"]).arg(members.device.display().to_string());
    Ok(parse_superblock(&command::run_checked(&spec, limit)?.stdout))
}

/// The parameters in the text of `dumpe2fs -h`.
fn parse_superblock(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs
        .filter_map(|(key, value)| {
            let (_, name) = PARAMETERS.iter().find(|(known, _)| *known == key.trim())?;
            // These two come and go with mounting.
            let lasting = |word: &&str| !["needs_recovery", "orphan_present"].contains(word);
            let words: Vec<&str> = value.split_whitespace().filter(lasting).collect();
            Some(((*name).to_owned(), words.join(" ")))
        })
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

/// jbd2, the lazy initialisation, conversions of unwritten extents, writeback. jbd2's name ends in
/// the journal's inode where the journal is inside.
pub fn kernel_threads(names: &MemberNames) -> Vec<String> {
    let mut patterns = names.worker_patterns();
    for name in names.all() {
        patterns.push(thread_pattern(&format!("jbd2/{name}-")));
        patterns.push(format!("jbd2/{name}"));
    }
    patterns.push("ext4lazyinit".to_owned());
    patterns.push("kworker/*ext4-rsv-conver*".to_owned());
    patterns
}

/// The kernel's thread `ext4lazyinit` zeroes the inode tables that mkfs left, and reads bitmaps
/// ahead. It serves all filesystems of the machine at once: while it lives, the group descriptors
/// tell whether it still has work here.
pub fn unrest(members: Members<'_>) -> Option<String> {
    let pending = ext_groups::groups_to_zero(members.device);
    if matches!(pending, Ok(Some(0))) || !thread_exists("ext4lazyinit") {
        return None;
    }
    Some(match pending {
        Ok(Some(groups)) => format!("inode tables of {groups} block groups are being zeroed"),
        _ => "the kernel's thread ext4lazyinit is at work".to_owned(),
    })
}

fn thread_exists(comm: &str) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    processes.flatten().any(|entry| {
        let is_process = entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        is_process
            && std::fs::read_to_string(entry.path().join("comm"))
                .is_ok_and(|found| found.trim_end() == comm)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUPERBLOCK: &str = "\
Filesystem volume name:   <none>
Filesystem UUID:          9fb1c699-9f3c-4e55-bf82-30c6f7c706a4
Filesystem features:      has_journal needs_recovery extent metadata_csum
Block count:              409600
Block size:               4096
First inode:              11
Inode size:\t          256
Journal features:         (none)
Total journal size:       8M
";

    #[test]
    fn parameters_are_read_and_states_left_out() {
        let found = parse_superblock(SUPERBLOCK);
        for (key, value) in [
            ("features", "has_journal extent metadata_csum"),
            ("block_size", "4096"),
            ("inode_size", "256"),
            ("journal_size", "8M"),
        ] {
            assert_eq!(found.get(key).map(String::as_str), Some(value), "{key}");
        }
        assert!(!found.values().any(|value| value.contains("9fb1c699")));
    }

    #[test]
    fn the_journal_has_the_block_size_of_the_filesystem() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (user, expected) in [("-b 1024", "1024"), ("-b2048 -m 0", "2048"), ("-m 0", "4096")] {
            let members =
                Members { device: Path::new("/d"), others: &[], journal: Some(Path::new("/j")) };
            let commands = mkfs("mkfs.ext4", members, &words(user));
            assert_eq!(commands[0].args[5], expected, "{user}");
            assert_eq!(commands[1].args[2..4], ["-J", "device=/j"]);
        }
    }

    #[test]
    fn exit_codes_are_sums() {
        assert_eq!(fsck_meaning(4).0, Verdict::Errors);
        assert_eq!(fsck_meaning(5).0, Verdict::Errors);
        assert_eq!(fsck_meaning(12).0, Verdict::Operational);
        assert_eq!(fsck_meaning(3).0, Verdict::Corrected);
        assert_eq!(fsck_meaning(64).0, Verdict::Operational);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(Group [0-9:]{0,4}|Filesystem features:|uninit_bg|[ -~é\t\n]){0,30}") {
            let _ = parse_superblock(&text);
        }
    }
}
