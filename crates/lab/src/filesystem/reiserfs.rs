//! ReiserFS 3.6: one balanced tree for everything, the ends of files packed into it. Gone from Linux 6.13.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use fsdyno_model::info::FilesystemInfo;

use super::{
    FilesystemDef, Fsck, MemberNames, Members, Verdict, colon_fields, make, on_device, told,
};
use crate::arguments::{MAKES_NOTHING, MkfsOptions, NAMES_A_DEVICE};
use crate::command::CommandError;
use crate::tools::{REISERFSPROGS, ToolDef};

const TOOLS: &[ToolDef] = &[
    ToolDef { name: "mkreiserfs", package: REISERFSPROGS, version_arg: "-V" },
    ToolDef { name: "reiserfsck", package: REISERFSPROGS, version_arg: "-V" },
    ToolDef { name: "debugreiserfs", package: REISERFSPROGS, version_arg: "-V" },
];

/// mkreiserfs(8). The label is `-l`; `-L`, its name elsewhere, is left for mkfs to refuse.
const MKFS_OPTIONS: MkfsOptions = MkfsOptions {
    flags: &["-d", "-f", "-q", "--quiet"],
    valued: &[
        "-b",
        "--block-size",
        "-h",
        "--hash",
        "-u",
        "--uuid",
        "-l",
        "--label",
        "-L",
        "--format",
        "-s",
        "--journal-size",
        "-t",
        "--transaction-max-size",
    ],
    paths: &["-l", "--label", "-L"],
    refused: &[
        ("-V", MAKES_NOTHING),
        ("-j", NAMES_A_DEVICE),
        ("--journal-device", NAMES_A_DEVICE),
        ("-B", NAMES_A_DEVICE),
        ("--badblocks", NAMES_A_DEVICE),
    ],
    configuration: None,
};

/// The entry in the catalogue.
pub static DEF: FilesystemDef = FilesystemDef {
    info: FilesystemInfo {
        name: "reiserfs",
        summary: "One balanced tree for names, data and the ends of files; notail leaves these unpacked",
        external_journal: None,
    },
    tools: TOOLS,
    min_size_bytes: 48 << 20,
    drivers: &["reiserfs"],
    // Twice: it asks nothing.
    mkfs: |members, user| make("mkreiserfs", &["-q", "-f", "-f"], members, user),
    mkfs_options: MKFS_OPTIONS,
    fsck: Fsck::Program {
        command: |members| on_device("reiserfsck", &["--check", "-q", "-y"], members),
        meaning: fsck_meaning,
    },
    read_back,
    kernel_threads,
    ..FilesystemDef::USUAL
};

/// reiserfsck(8); it says 1 too where it found what could be corrected and corrected nothing.
fn fsck_meaning(code: i32) -> (Verdict, &'static str) {
    match code {
        0 => (Verdict::Clean, "no errors"),
        1 => (Verdict::Corrected, "errors that can be corrected"),
        4 => (Verdict::Errors, "fatal errors, the tree must be rebuilt"),
        6 => (Verdict::Errors, "errors that can be corrected"),
        2 | 8 => (Verdict::Operational, "the check broke off"),
        16 => (Verdict::Operational, "wrong usage"),
        _ => (Verdict::Operational, "an exit code that reiserfsck does not document"),
    }
}

fn read_back(
    members: Members<'_>,
    _mount_point: &Path,
    limit: Duration,
) -> Result<BTreeMap<String, String>, CommandError> {
    Ok(parse_superblock(&told("debugreiserfs", &[], members, limit)?))
}

fn parse_superblock(text: &str) -> BTreeMap<String, String> {
    let mut found = colon_fields(
        text,
        &[
            ("Blocksize", "block_size"),
            ("Count of blocks on the device", "block_count"),
            ("Hash function used to sort names", "hash"),
        ],
    );
    let after = |start: &str| {
        let line = text.lines().map(str::trim).find_map(|line| line.strip_prefix(start))?;
        line.split_whitespace().next().map(str::to_owned)
    };
    for (key, start) in [
        ("journal_blocks", "Size "),
        ("max_transaction_blocks", "Max transaction length "),
        ("max_commit_age_s", "Max commit age "),
    ] {
        found.extend(after(start).map(|value| (key.to_owned(), value)));
    }
    let format = text.lines().find_map(|line| line.split_once(" of format "));
    let format = format.and_then(|(_, rest)| rest.split_whitespace().next());
    found.extend(format.map(|format| ("format".to_owned(), format.to_owned())));
    found
}

/// The workers that commit, which bear the name of the device.
fn kernel_threads(names: &MemberNames) -> Vec<String> {
    let mut patterns = names.worker_patterns();
    patterns.extend(names.all().map(|name| format!("kworker/*-reiserfs/{name}")));
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: &str = "\
debugreiserfs 3.6.27

Reiserfs super block in block 16 on 0x0 of format 3.6 with standard journal
Count of blocks on the device: 153600
Blocksize: 4096
Hash function used to sort names: \"r5\"
Journal parameters:
\tSize 8193 blocks (including 1 for journal header) (first block 18)
\tMax transaction length 1024 blocks
UUID: 1037c004-fa96-4fe6-9a4d-e92be73a9166
";

    #[test]
    fn the_superblock_is_read() {
        let found = parse_superblock(TOLD);
        for (key, value) in [
            ("format", "3.6"),
            ("block_size", "4096"),
            ("hash", "r5"),
            ("journal_blocks", "8193"),
            ("max_transaction_blocks", "1024"),
        ] {
            assert_eq!(found.get(key).map(String::as_str), Some(value), "{key}: {found:?}");
        }
        assert!(!found.values().any(|value| value.contains("1037c004")));
        assert!(parse_superblock("Size\n of format \n:\n").is_empty());
    }
}
