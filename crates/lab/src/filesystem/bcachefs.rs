//! bcachefs: copy on write over a journal of tree updates, with checksums, compression and copies; on one
//! device, or on several that it puts together itself. Its one program makes, checks and tells of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use fsdyno_model::info::FilesystemInfo;

use super::{FilesystemDef, Fsck, MemberNames, Members, Verdict, told};
use crate::arguments::{MAKES_NOTHING, MkfsOptions};
use crate::command::{CommandError, CommandSpec};
use crate::tools::{BCACHEFS_TOOLS, ToolDef};

const PROGRAM: &str = "bcachefs";
const TOOL: ToolDef = ToolDef { name: PROGRAM, package: BCACHEFS_TOOLS, version_arg: "version" };

/// `bcachefs format` of bcachefs(8), version 1.13, with what later versions up to 1.33 have added. Settings that
/// are on or off take `=0` and `=1` too.
const MKFS_OPTIONS: MkfsOptions = MkfsOptions {
    flags: &[
        "--acl",
        "--casefold",
        "--discard",
        "--encrypted",
        "--erasure_code",
        "-f",
        "--force",
        "--grpquota",
        "--inodes_32bit",
        "--inodes_use_key_cache",
        "--journal_transaction_names",
        "--no_initialize",
        "--no_passphrase",
        "--nocow",
        "--prjquota",
        "-q",
        "--quiet",
        "--rotational",
        "--shard_inode_numbers",
        "--usrquota",
        "--verbose",
        "--wide_macs",
    ],
    valued: &[
        "--allocator_stuck_timeout",
        "--background_compression",
        "--background_target",
        "--block_size",
        "--btree_node_size",
        "--bucket_size",
        "--checksum_err_retry_nr",
        "--compression",
        "--data_allowed",
        "--data_checksum",
        "--data_replicas",
        "--data_replicas_required",
        "--durability",
        "--encoded_extent_max",
        "--errors",
        "--foreground_target",
        "--fs_label",
        "--fs_size",
        "--gc_reserve_bytes",
        "--gc_reserve_percent",
        "-l",
        "-L",
        "--label",
        "--metadata_checksum",
        "--metadata_replicas",
        "--metadata_replicas_required",
        "--metadata_target",
        "--promote_target",
        "--replicas",
        "--root_reserve_percent",
        "--shard_inode_numbers_bits",
        "--source",
        "--str_hash",
        "--superblock_size",
        "-U",
        "--uuid",
        "--version",
        "--write_error_timeout",
    ],
    // A tree to copy; labels are texts.
    paths: &["--fs_label", "-l", "-L", "--label", "--source"],
    refused: &[
        ("-h", MAKES_NOTHING),
        ("--help", MAKES_NOTHING),
        // Of some versions it prints the help and ends.
        ("-v", MAKES_NOTHING),
        ("-V", MAKES_NOTHING),
        ("--passphrase_file", "nobody unlocks it before mounting: take --no_passphrase"),
    ],
    configuration: None,
};

/// The entry in the catalogue.
pub static DEF: FilesystemDef = FilesystemDef {
    info: FilesystemInfo {
        name: "bcachefs",
        summary: "Copy on write over a journal of tree updates, checksummed data, compression, copies",
        external_journal: None,
    },
    tools: &[TOOL, TOOL, TOOL],
    min_size_bytes: 128 << 20,
    drivers: &["bcachefs"],
    // The first mount has the kernel make its trees and journal. The program, which else starts the filesystem
    // itself for that, breaks off in about one of forty runs (version 1.13).
    mkfs: |members, user| {
        vec![on_all(
            CommandSpec::new(PROGRAM, &["format", "-f", "-q", "--no_initialize"]).args(user),
            members,
        )]
    },
    mkfs_options: MKFS_OPTIONS,
    mount_source: |members| {
        let paths: Vec<String> = paths(members).collect();
        paths.join(":")
    },
    // The kernel's own check, which the program may choose by itself, tells nothing in its exit code.
    fsck: Fsck::Program {
        command: |members| {
            on_all(CommandSpec::new(PROGRAM, &["fsck", "--no-kernel", "-n"]), members)
        },
        meaning: fsck_meaning,
    },
    read_back,
    kernel_threads,
    ..FilesystemDef::USUAL
};

fn paths(members: Members<'_>) -> impl Iterator<Item = String> {
    let all =
        std::iter::once(members.device).chain(members.others.iter().map(|path| path.as_path()));
    all.map(|path| path.display().to_string())
}

/// The command with all devices behind it.
fn on_all(command: CommandSpec, members: Members<'_>) -> CommandSpec {
    command.args(&paths(members).collect::<Vec<String>>())
}

/// bcachefs(8) lists no exit codes: those of fsck(8), which its source has. It gives up, too, where too much is
/// damaged for it to start.
fn fsck_meaning(code: i32) -> (Verdict, &'static str) {
    match code {
        0 => (Verdict::Clean, "no errors"),
        1 => (Verdict::Corrected, "errors were corrected"),
        4 | 5 => (Verdict::Errors, "errors left uncorrected"),
        8 => (Verdict::Errors, "too damaged to be opened, or not to be opened at all"),
        16 => (Verdict::Operational, "wrong usage"),
        _ => (Verdict::Operational, "an exit code that bcachefs fsck does not have"),
    }
}

fn read_back(
    members: Members<'_>,
    _mount_point: &Path,
    limit: Duration,
) -> Result<BTreeMap<String, String>, CommandError> {
    Ok(parse_superblock(&told(PROGRAM, &["show-super"], members, limit)?))
}

/// What `show-super` states before its options, or of each device, and is a parameter, not a state.
const PARAMETERS: &[(&str, &str)] = &[
    ("Version", "version"),
    ("Devices", "devices"),
    ("Features", "features"),
    ("Bucket size", "bucket_size"),
    ("Durability", "durability"),
];

/// Those that are sizes, rounded to three digits and a unit; they are powers of two or set so, in bytes here.
const SIZES: [&str; 5] =
    ["block_size", "btree_node_size", "bucket_size", "encoded_extent_max", "gc_reserve_bytes"];

/// The parameters in the text of `show-super`, and all options that it has below `Options:`. What differs from
/// device to device is told of each.
fn parse_superblock(text: &str) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut is_option = false;
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else {
            is_option = false;
            continue;
        };
        let is_inner = line.starts_with([' ', '\t']);
        if !is_inner {
            is_option = name == "Options";
        }
        let name = name.trim();
        if name == "Sections" && value.split(',').any(|section| section.trim() == "crypt") {
            found.insert("encrypted".to_owned(), "1".to_owned());
        }
        let known = PARAMETERS.iter().find(|(known, _)| *known == name).map(|(_, key)| *key);
        let key = if is_option && is_inner { Some(name) } else { known };
        let (Some(key), Some(value)) = (key, key.and_then(|key| stated(key, value))) else {
            continue;
        };
        match found.get_mut(key) {
            Some(known) if known.split(", ").any(|one| one == value) => {}
            Some(known) => *known = format!("{known}, {value}"),
            None => drop(found.insert(key.to_owned(), value)),
        }
    }
    found
}

/// What the text behind a name states: of a list of choices the one in brackets, of a size its bytes. `None` where
/// it is empty.
fn stated(name: &str, text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let chosen = words.iter().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    if let Some(chosen) = chosen {
        return Some(chosen.to_owned());
    }
    let bytes = SIZES.contains(&name).then(|| bytes(&words)).flatten();
    let text = bytes.map_or_else(|| words.join(" "), |bytes| bytes.to_string());
    (!text.is_empty()).then_some(text)
}

/// `128 KiB` in bytes; `None` for what is no size.
fn bytes(words: &[&str]) -> Option<u64> {
    let [number, unit] = words else { return None };
    let number: f64 = number.parse().ok().filter(|it| (0.0..1024.0).contains(it))?;
    let factor = match *unit {
        "B" => 1_u64,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    Some((number * factor as f64) as u64)
}

/// Threads bear the name of the device, on several devices the UUID of the filesystem. Workers have no name of a
/// device: those of another mounted bcachefs match as well.
fn kernel_threads(names: &MemberNames) -> Vec<String> {
    let mut patterns = names.worker_patterns();
    for kind in ["copygc", "rebalance", "reclaim"] {
        let own = names.all().map(|name| format!("bch-{kind}/{name}"));
        patterns.extend(own.chain([format!("bch-{kind}/{UUID}")]));
    }
    let workers = ["bcachefs*", "btree_update*", "btree_node_rewrite*", "flush-bcachefs-*"];
    patterns.extend(workers.map(|queue| format!("kworker/*-{queue}")));
    patterns
}

/// A UUID.
const UUID: &str = "*-*-*-*-*";

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const SUPER: &str = "\
Device:                                     (unknown device)
Label:                                      (none)
Version:                                    1.13: inode_has_child_snapshots
Devices:                                    2
Sections:                                   members_v1,crypt,errors
Features:                                   zstd,new_siphash,journal_no_flush
Compat features:                            alloc_info

Options:
  block_size:                               4.00 KiB
  btree_node_size:                          256 KiB
  errors:                                   continue [fix_safe] panic ro 
  data_checksum:                            none [crc32c] crc64 xxhash 
  compression:                              zstd:3
  gc_reserve_bytes:                         0 B
  nocow:                                    0

members_v2 (size 304):
Device:                                     0
  Label:                                    (none)
  Size:                                     320 MiB
  Bucket size:                              128 KiB
  Last mount:                               Sun Nov 22 19:10:02 2026
  Durability:                               1
Device:                                     1
  Bucket size:                              512 KiB
  Durability:                               1

errors (size 8):
";

    #[test]
    fn the_superblock_is_read() {
        let found = parse_superblock(SUPER);
        for (key, value) in [
            ("version", "1.13: inode_has_child_snapshots"),
            ("devices", "2"),
            ("features", "zstd,new_siphash,journal_no_flush"),
            ("block_size", "4096"),
            ("btree_node_size", "262144"),
            ("errors", "fix_safe"),
            ("data_checksum", "crc32c"),
            ("compression", "zstd:3"),
            ("gc_reserve_bytes", "0"),
            ("encrypted", "1"),
            ("nocow", "0"),
            ("bucket_size", "131072, 524288"),
            ("durability", "1"),
        ] {
            assert_eq!(found.get(key).map(String::as_str), Some(value), "{key}");
        }
        assert_eq!(found.len(), 13, "{found:?}");
    }

    #[test]
    fn several_devices_are_all_named() {
        let others = [PathBuf::from("/dev/b"), PathBuf::from("/dev/c")];
        let members = Members { device: Path::new("/dev/a"), others: &others, journal: None };
        assert_eq!((DEF.mount_source)(members), "/dev/a:/dev/b:/dev/c");
        let made = (DEF.mkfs)(members, &["--replicas=2".to_owned()]);
        assert!(made[0].to_string().ends_with("--replicas=2 /dev/a /dev/b /dev/c"), "{}", made[0]);
        let Fsck::Program { command, .. } = DEF.fsck else { panic!("it is checked") };
        assert!(command(members).to_string().ends_with("-n /dev/a /dev/b /dev/c"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(Options:|Bucket size: |  block_size: |[0-9.]{1,30} | [KGE]iB|\\[x\\]|:|é|\n){0,40}") {
            let _ = parse_superblock(&text);
        }
    }
}
