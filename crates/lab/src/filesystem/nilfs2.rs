//! NILFS2: everything is appended to one log, with a checkpoint every few seconds. Its space is freed by a
//! program, `nilfs_cleanerd`, which is not started here: what a trial deletes stays on the disk.

use std::path::Path;
use std::time::Duration;

use fsdyno_model::info::FilesystemInfo;

use super::{FilesystemDef, Fsck, MemberNames, Members, Parameters, colon_fields, make, told};
use crate::arguments::{MAKES_NOTHING, MkfsOptions};
use crate::command::CommandError;
use crate::tools::{NILFS_TOOLS, ToolDef};

const TOOLS: &[ToolDef] = &[
    ToolDef { name: "mkfs.nilfs2", package: NILFS_TOOLS, version_arg: "-V" },
    ToolDef { name: "nilfs-tune", package: NILFS_TOOLS, version_arg: "-h" },
];

/// mkfs.nilfs2(8).
const MKFS_OPTIONS: MkfsOptions = MkfsOptions {
    flags: &["-c", "-f", "-K", "-q", "-v"],
    valued: &["-b", "-B", "-L", "-m", "-O"],
    paths: &["-L"],
    refused: &[("-n", MAKES_NOTHING), ("-h", MAKES_NOTHING), ("-V", MAKES_NOTHING)],
    configuration: None,
};

/// The entry in the catalogue.
pub static DEF: FilesystemDef = FilesystemDef {
    info: FilesystemInfo {
        name: "nilfs2",
        summary: "One log with checkpoints; its cleaner is not started, and no program checks it",
        external_journal: None,
    },
    tools: TOOLS,
    // Sixteen segments of 8 MiB and the superblocks.
    min_size_bytes: 130 << 20,
    drivers: &["nilfs2"],
    mkfs: |members, user| make("mkfs.nilfs2", &["-f", "-q"], members, user),
    mkfs_options: MKFS_OPTIONS,
    fsck: Fsck::Missing("nilfs-utils has no program that checks it"),
    read_back,
    kernel_threads,
    ..FilesystemDef::USUAL
};

fn read_back(
    members: Members<'_>,
    _mount_point: &Path,
    limit: Duration,
) -> Result<Parameters, CommandError> {
    Ok(parse_superblock(&told("nilfs-tune", &["-l"], members, limit)?))
}

fn parse_superblock(text: &str) -> Parameters {
    colon_fields(
        text,
        &[
            ("Filesystem features", "features"),
            ("Filesystem revision #", "revision"),
            ("Block size", "block_size"),
            ("# of blocks per segment", "blocks_per_segment"),
            ("Reserved segments %", "reserved_segments_percent"),
            ("Checkpoint size", "checkpoint_size"),
            ("Inode size", "inode_size"),
            ("DAT entry size", "dat_entry_size"),
            ("Commit interval", "commit_interval"),
            ("# of blks to create seg", "segment_creation_threshold"),
        ],
    )
}

/// The thread that writes segments serves one filesystem, but does not bear its name.
fn kernel_threads(names: &MemberNames) -> Vec<String> {
    let mut patterns = names.worker_patterns();
    patterns.push("segctord".to_owned());
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_superblock_is_read() {
        let text = "\
nilfs-tune 2.2.9
Filesystem UUID:\t  c1b9d5a2-f162-11cf-9ece-0020afc76f16
Filesystem revision #:\t  2.0
Filesystem features:      (none)
Block size:\t\t  4096
# of blocks per segment:  2048
Reserved segments %:\t  5
";
        let found = parse_superblock(text);
        assert_eq!((found["revision"].as_str(), found["block_size"].as_str()), ("2.0", "4096"));
        assert_eq!(found.len(), 5, "{found:?}");
    }
}
