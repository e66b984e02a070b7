//! exFAT: the filesystem of memory cards, without a journal, without owners and links.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use fsdyno_model::info::FilesystemInfo;

use super::{FilesystemDef, Fsck, Members, Parameters, Verdict, make, on_device};
use crate::arguments::{MAKES_NOTHING, MkfsOptions};
use crate::command::CommandError;
use crate::tools::{EXFATPROGS, ToolDef};

const TOOLS: &[ToolDef] = &[
    ToolDef { name: "mkfs.exfat", package: EXFATPROGS, version_arg: "-V" },
    ToolDef { name: "fsck.exfat", package: EXFATPROGS, version_arg: "-V" },
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

/// The boot sector itself: dump.exfat does not open a device that is mounted.
fn read_back(
    members: Members<'_>,
    _mount_point: &Path,
    _limit: Duration,
) -> Result<Parameters, CommandError> {
    let mut sector = [0; 512];
    let read = File::open(members.device).and_then(|mut device| device.read_exact(&mut sector));
    Ok(read.map_or_else(|_| Parameters::new(), |()| parse_boot_sector(&sector)))
}

/// Source: "exFAT file system specification" of Microsoft, 3.1 (Main and Backup Boot Sector).
fn parse_boot_sector(sector: &[u8; 512]) -> Parameters {
    if &sector[3..11] != b"EXFAT   " {
        return Parameters::new();
    }
    let number = |at: usize, bytes: usize| {
        let value = sector[at..at + bytes].iter().rev();
        value.fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
    };
    let sector_bytes = 1_u64.checked_shl(u32::from(sector[108])).unwrap_or(0);
    let cluster_bytes = sector_bytes.checked_shl(u32::from(sector[109])).unwrap_or(0);
    let fields = [
        ("sectors", number(72, 8)),
        ("fat_offset_sectors", number(80, 4)),
        ("fat_sectors", number(84, 4)),
        ("heap_offset_sectors", number(88, 4)),
        ("clusters", number(92, 4)),
        ("fats", number(110, 1)),
        ("sector_size", sector_bytes),
        ("cluster_size", cluster_bytes),
    ];
    fields.map(|(name, value)| (name.to_owned(), value.to_string())).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_sector_is_read() {
        let mut sector = [0; 512];
        assert!(parse_boot_sector(&sector).is_empty());
        sector[3..11].copy_from_slice(b"EXFAT   ");
        sector[72..80].copy_from_slice(&614_400_u64.to_le_bytes());
        sector[92..96].copy_from_slice(&9536_u32.to_le_bytes());
        (sector[108], sector[109]) = (9, 6);
        let found = parse_boot_sector(&sector);
        for (name, value) in
            [("sectors", "614400"), ("clusters", "9536"), ("cluster_size", "32768")]
        {
            assert_eq!(found[name], value, "{name}");
        }
        (sector[108], sector[109]) = (255, 255);
        assert_eq!(parse_boot_sector(&sector)["cluster_size"], "0");
    }
}
