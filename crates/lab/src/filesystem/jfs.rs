//! JFS: IBM's journalled filesystem, with extents and inodes made as they are needed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use fsdyno_model::info::FilesystemInfo;

use super::{
    FilesystemDef, Fsck, MemberNames, Members, Verdict, colon_fields, make, on_device, told,
};
use crate::arguments::{MAKES_NOTHING, MkfsOptions, NAMES_A_DEVICE};
use crate::command::CommandError;
use crate::tools::{JFSUTILS, ToolDef};

const TOOLS: &[ToolDef] = &[
    ToolDef { name: "jfs_mkfs", package: JFSUTILS, version_arg: "-V" },
    ToolDef { name: "jfs_fsck", package: JFSUTILS, version_arg: "-V" },
    ToolDef { name: "jfs_tune", package: JFSUTILS, version_arg: "-V" },
];

/// jfs_mkfs(8).
const MKFS_OPTIONS: MkfsOptions = MkfsOptions {
    flags: &["-c", "-O", "-q"],
    valued: &["-L", "-s"],
    paths: &["-L"],
    refused: &[("-V", MAKES_NOTHING), ("-j", NAMES_A_DEVICE), ("-J", NAMES_A_DEVICE)],
    configuration: None,
};

/// The entry in the catalogue.
pub static DEF: FilesystemDef = FilesystemDef {
    info: FilesystemInfo {
        name: "jfs",
        summary: "Extents, inodes made as they are needed, a journal of metadata alone",
        external_journal: None,
    },
    tools: TOOLS,
    drivers: &["jfs"],
    mkfs: |members, user| make("jfs_mkfs", &["-q"], members, user),
    mkfs_options: MKFS_OPTIONS,
    // -n changes nothing; -f looks also where the journal was closed in good order.
    fsck: Fsck::Program {
        command: |members| on_device("jfs_fsck", &["-n", "-f"], members),
        meaning: fsck_meaning,
    },
    read_back,
    kernel_threads,
    ..FilesystemDef::USUAL
};

/// jfs_fsck(8).
fn fsck_meaning(code: i32) -> (Verdict, &'static str) {
    match code {
        0 => (Verdict::Clean, "no errors"),
        1 => (Verdict::Corrected, "errors were corrected"),
        2 => (Verdict::Corrected, "errors were corrected, a restart is advised"),
        4 => (Verdict::Errors, "errors left uncorrected"),
        8 => (Verdict::Operational, "the check broke off"),
        16 => (Verdict::Operational, "wrong usage"),
        32 => (Verdict::Operational, "cancelled"),
        128 => (Verdict::Operational, "error of a shared library"),
        _ => (Verdict::Operational, "an exit code that jfs_fsck does not document"),
    }
}

fn read_back(
    members: Members<'_>,
    _mount_point: &Path,
    limit: Duration,
) -> Result<BTreeMap<String, String>, CommandError> {
    Ok(parse_superblock(&told("jfs_tune", &["-l"], members, limit)?))
}

fn parse_superblock(text: &str) -> BTreeMap<String, String> {
    colon_fields(
        text,
        &[
            ("JFS version", "version"),
            ("JFS flags", "flags"),
            ("Aggregate block size", "block_size"),
            ("Aggregate size", "size"),
            ("Physical block size", "physical_block_size"),
            ("Allocation group size", "allocation_group_size"),
        ],
    )
}

/// Three kinds of threads, which serve all of JFS.
fn kernel_threads(names: &MemberNames) -> Vec<String> {
    let mut patterns = names.worker_patterns();
    patterns.extend(["jfsIO", "jfsCommit", "jfsSync"].map(str::to_owned));
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_superblock_is_read() {
        let text = "\
jfs_tune version 1.1.15, 04-Mar-2011
JFS flags:\t\tJFS_LINUX  JFS_COMMIT  JFS_GROUPCOMMIT  JFS_INLINELOG  
Aggregate block size:\t4096 bytes
Filesystem creation:\tSun Nov 22 07:25:48 2026
";
        let found = parse_superblock(text);
        assert_eq!(found["block_size"], "4096 bytes");
        assert_eq!(found["flags"], "JFS_LINUX JFS_COMMIT JFS_GROUPCOMMIT JFS_INLINELOG");
        assert_eq!(found.len(), 2);
    }
}
