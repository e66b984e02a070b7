//! NTFS by the kernel's ntfs3 driver (Linux 5.15): the filesystem of Windows, with a journal of metadata.

use std::path::Path;
use std::time::Duration;

use fsdyno_model::info::FilesystemInfo;

use super::{FilesystemDef, Fsck, Members, Parameters, colon_fields, make, told};
use crate::arguments::{MAKES_NOTHING, MkfsOptions};
use crate::command::CommandError;
use crate::tools::{NTFSPROGS, ToolDef};

const TOOLS: &[ToolDef] = &[
    ToolDef { name: "mkntfs", package: NTFSPROGS, version_arg: "--version" },
    ToolDef { name: "ntfsinfo", package: NTFSPROGS, version_arg: "--version" },
];

/// mkntfs(8); long options in full.
const MKFS_OPTIONS: MkfsOptions = MkfsOptions {
    flags: &[
        "-f",
        "--fast",
        "-Q",
        "--quick",
        "-C",
        "--enable-compression",
        "-T",
        "--zero-time",
        "-U",
        "--with-uuid",
        "-I",
        "--no-indexing",
        "-F",
        "--force",
        "-q",
        "--quiet",
        "-v",
        "--verbose",
    ],
    valued: &[
        "-L",
        "--label",
        "-c",
        "--cluster-size",
        "-s",
        "--sector-size",
        "-p",
        "--partition-start",
        "-H",
        "--heads",
        "-S",
        "--sectors-per-track",
        "-z",
        "--mft-zone-multiplier",
    ],
    paths: &["-L", "--label"],
    refused: &[
        ("-n", MAKES_NOTHING),
        ("--no-action", MAKES_NOTHING),
        ("-V", MAKES_NOTHING),
        ("--version", MAKES_NOTHING),
        ("-l", MAKES_NOTHING),
        ("--license", MAKES_NOTHING),
        ("-h", MAKES_NOTHING),
        ("--help", MAKES_NOTHING),
    ],
    configuration: None,
};

/// The entry in the catalogue.
pub static DEF: FilesystemDef = FilesystemDef {
    info: FilesystemInfo {
        name: "ntfs3",
        summary: "NTFS by the kernel's own driver: a master file table, small files inside it; no program of Linux checks it",
        external_journal: None,
    },
    tools: TOOLS,
    drivers: &["ntfs3"],
    // -F: it takes no device without a partition table otherwise.
    mkfs: |members, user| make("mkntfs", &["-Q", "-F", "-q"], members, user),
    mkfs_options: MKFS_OPTIONS,
    fsck: Fsck::Missing(
        "chkdsk of Windows checks it; ntfsfix looks at little and says that it is no check",
    ),
    read_back,
    ..FilesystemDef::USUAL
};

/// -f: it reads a volume that is mounted.
fn read_back(
    members: Members<'_>,
    _mount_point: &Path,
    limit: Duration,
) -> Result<Parameters, CommandError> {
    Ok(parse_superblock(&told("ntfsinfo", &["-m", "-f"], members, limit)?))
}

fn parse_superblock(text: &str) -> Parameters {
    colon_fields(
        text,
        &[
            ("Volume Version", "version"),
            ("Sector Size", "sector_size"),
            ("Cluster Size", "cluster_size"),
            ("Index Block Size", "index_block_size"),
            ("Volume Size in Clusters", "clusters"),
            ("MFT Record Size", "mft_record_size"),
            ("MFT Zone Multiplier", "mft_zone_multiplier"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_superblock_is_read() {
        let text = "\
Volume Information 
\tName of device: /dev/vda
\tVolume Version: 3.1
\tCluster Size: 4096
MFT Information 
\tMFT Record Size: 1024
\tFree Clusters: 76301 (99.4%)
";
        let found = parse_superblock(text);
        assert_eq!((found["version"].as_str(), found["cluster_size"].as_str()), ("3.1", "4096"));
        assert_eq!(found.len(), 3, "{found:?}");
    }
}
