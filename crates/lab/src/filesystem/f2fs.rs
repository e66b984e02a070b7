//! F2FS: a log for flash, cleaned in the background, with hot and cold data apart.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use fsdyno_model::info::FilesystemInfo;

use super::{
    FilesystemDef, Fsck, MemberNames, Members, Verdict, make, on_device, thread_pattern, told,
};
use crate::arguments::{MAKES_NOTHING, MkfsOptions, NAMES_A_DEVICE};
use crate::command::CommandError;
use crate::tools::{F2FS_TOOLS, ToolDef};

const TOOLS: &[ToolDef] = &[
    ToolDef { name: "mkfs.f2fs", package: F2FS_TOOLS, version_arg: "-V" },
    ToolDef { name: "fsck.f2fs", package: F2FS_TOOLS, version_arg: "-V" },
    ToolDef { name: "dump.f2fs", package: F2FS_TOOLS, version_arg: "-V" },
];

/// mkfs.f2fs(8). The label is `-l`; `-L`, its name elsewhere, is left for mkfs to refuse.
const MKFS_OPTIONS: MkfsOptions = MkfsOptions {
    flags: &["-f", "-i", "-m", "-q", "-r", "-S"],
    valued: &[
        "-a", "-C", "-d", "-e", "-E", "-g", "-l", "-L", "-o", "-O", "-R", "-s", "-t", "-T", "-w",
        "-z",
    ],
    paths: &["-l", "-L"],
    refused: &[("-V", MAKES_NOTHING), ("-h", MAKES_NOTHING), ("-c", NAMES_A_DEVICE)],
    configuration: None,
};

/// The entry in the catalogue.
pub static DEF: FilesystemDef = FilesystemDef {
    info: FilesystemInfo {
        name: "f2fs",
        summary: "A log for flash: hot and cold data apart, cleaned in the background, compression",
        external_journal: None,
    },
    tools: TOOLS,
    min_size_bytes: 64 << 20,
    drivers: &["f2fs"],
    mkfs: |members, user| make("mkfs.f2fs", &["-f", "-q"], members, user),
    mkfs_options: MKFS_OPTIONS,
    fsck: Fsck::Program {
        command: |members| on_device("fsck.f2fs", &["--dry-run"], members),
        meaning: fsck_meaning,
    },
    read_back,
    kernel_threads,
    ..FilesystemDef::USUAL
};

/// fsck.f2fs(8), and what its later versions share with fsck(8).
fn fsck_meaning(code: i32) -> (Verdict, &'static str) {
    match code {
        0 => (Verdict::Clean, "no errors"),
        1 => (Verdict::Corrected, "errors were corrected"),
        4 | 255 => (Verdict::Errors, "errors left uncorrected"),
        8 => (Verdict::Operational, "the check broke off"),
        16 => (Verdict::Operational, "wrong usage"),
        _ => (Verdict::Operational, "an exit code that fsck.f2fs does not document"),
    }
}

fn read_back(
    members: Members<'_>,
    _mount_point: &Path,
    limit: Duration,
) -> Result<BTreeMap<String, String>, CommandError> {
    Ok(parse_superblock(&told("dump.f2fs", &["-d", "1"], members, limit)?))
}

/// What the superblock states and is a parameter, not a state.
const PARAMETERS: [&str; 6] = [
    "log_sectorsize",
    "log_blocksize",
    "log_blocks_per_seg",
    "segs_per_sec",
    "secs_per_zone",
    "segment_count",
];

/// Lines such as `segs_per_sec   [0x  1 : 1]`, up to the checkpoint.
fn parse_superblock(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for line in text.lines().take_while(|line| !line.contains("| Checkpoint")) {
        if let Some(features) = line.strip_prefix("Info: superblock features =") {
            let words: Vec<&str> = features.split_whitespace().collect();
            found.insert("features".to_owned(), words.join(" "));
        }
        let Some((name, value)) = line.split_once('[') else { continue };
        let number = value.trim_end_matches(']').rsplit(':').next().unwrap_or_default().trim();
        if PARAMETERS.contains(&name.trim()) && !number.is_empty() {
            found.insert(name.trim().to_owned(), number.to_owned());
        }
    }
    found
}

/// Its own threads bear the number of the device.
fn kernel_threads(names: &MemberNames) -> Vec<String> {
    let mut patterns = names.worker_patterns();
    for number in &names.numbers {
        for kind in ["ckpt", "flush", "discard", "gc"] {
            let name = format!("f2fs_{kind}-{number}");
            if name.len() > 15 {
                patterns.push(thread_pattern(&name));
            }
            patterns.push(name);
        }
    }
    patterns.push("kworker/*-f2fs_*".to_owned());
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_superblock_is_read() {
        let text = "\
Info: superblock features = 2009 :  encrypt  extra_attr
volum_name                    \t\t[]
segs_per_sec                  \t\t[0x       1 : 1]
block_count                   \t\t[0x   25800 : 153600]
| Checkpoint                                             |
secs_per_zone                 \t\t[0x       9 : 9]
";
        let found = parse_superblock(text);
        assert_eq!(found["features"], "2009 : encrypt extra_attr");
        assert_eq!(found["segs_per_sec"], "1");
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn threads_bear_the_device_number() {
        let names = MemberNames { numbers: vec!["254:0".to_owned()], ..MemberNames::default() };
        let patterns = kernel_threads(&names);
        for comm in ["f2fs_gc-254:0", "f2fs_discard-25", "f2fs_discard-254:0"] {
            let is_mine = |pattern: &String| fsdyno_model::wire::matches(pattern, comm);
            assert!(patterns.iter().any(is_mine), "{comm}");
        }
    }
}
