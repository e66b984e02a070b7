//! exFAT: the filesystem of memory cards, without a journal, without owners and links.

use std::path::Path;
use std::time::Duration;

use fsdyno_model::info::FilesystemInfo;

use super::{
    FilesystemDef, Fsck, Members, Parameters, Verdict, colon_fields, make, on_device, told,
};
use crate::arguments::{MAKES_NOTHING, MkfsOptions};
use crate::command::CommandError;
use crate::tools::{EXFATPROGS, ToolDef};

const TOOLS: &[ToolDef] = &[
    ToolDef { name: "mkfs.exfat", package: EXFATPROGS, version_arg: "-V" },
    ToolDef { name: "fsck.exfat", package: EXFATPROGS, version_arg: "-V" },
    ToolDef { name: "dump.exfat", package: EXFATPROGS, version_arg: "-V" },
];

/// mkfs.exfat(8).
const MKFS_OPTIONS: MkfsOptions = MkfsOptions {
    flags: &["-f", "--full-format", "-q", "--quiet", "-v", "--verbose", "--pack-bitmap"],
    valued: &[
        "-b",
        "--boundary-align",
        "-c",
        "--cluster-size",
        "-L",
        "--volume-label",
        "-s",
        "--sector-size",
        "-U",
        "--volume-guid",
    ],
    paths: &["-L", "--volume-label"],
    refused: &[
        ("-V", MAKES_NOTHING),
        ("--version", MAKES_NOTHING),
        ("-h", MAKES_NOTHING),
        ("--help", MAKES_NOTHING),
    ],
    configuration: None,
};

/// The entry in the catalogue.
pub static DEF: FilesystemDef = FilesystemDef {
    info: FilesystemInfo {
        name: "exfat",
        summary: "Memory cards: one allocation bitmap, no journal, no owners, modes or links",
        external_journal: None,
    },
    tools: TOOLS,
    drivers: &["exfat"],
    mkfs: |members, user| make("mkfs.exfat", &[], members, user),
    mkfs_options: MKFS_OPTIONS,
    fsck: Fsck::Program {
        command: |members| on_device("fsck.exfat", &["-n"], members),
        meaning: fsck_meaning,
    },
    read_back,
    ..FilesystemDef::USUAL
};

/// What fsck.exfat of exfatprogs 1.2 was seen to say, which is what fsck(8) says; its manual tells nothing.
fn fsck_meaning(code: i32) -> (Verdict, &'static str) {
    match code {
        0 => (Verdict::Clean, "no errors"),
        1 => (Verdict::Corrected, "errors were corrected"),
        4 => (Verdict::Errors, "errors left uncorrected"),
        8 => (Verdict::Operational, "the check broke off"),
        16 => (Verdict::Operational, "wrong usage"),
        _ => (Verdict::Operational, "an exit code that fsck.exfat does not document"),
    }
}

fn read_back(
    members: Members<'_>,
    _mount_point: &Path,
    limit: Duration,
) -> Result<Parameters, CommandError> {
    Ok(parse_superblock(&told("dump.exfat", &[], members, limit)?))
}

fn parse_superblock(text: &str) -> Parameters {
    colon_fields(
        text,
        &[
            ("Volume Length(sectors)", "sectors"),
            ("FAT Offset(sector offset)", "fat_offset_sectors"),
            ("FAT Length(sectors)", "fat_sectors"),
            ("Cluster Heap Offset (sector offset)", "heap_offset_sectors"),
            ("Sector Size Bits", "sector_size_bits"),
            ("Cluster size", "cluster_size"),
            ("Total Clusters", "clusters"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_superblock_is_read() {
        let text = "\
exfatprogs version : 1.2.0
Volume Length(sectors): \t\t614400
Volume Serial: \t\t\t0x7f53c864
Sector Size Bits: \t\t\t9
Cluster size:  \t\t\t\t32768
Free Clusters: \t\t\t\t9533
";
        let found = parse_superblock(text);
        assert_eq!(found["cluster_size"], "32768");
        assert_eq!(found.len(), 3, "{found:?}");
    }
}
