//! Btrfs: copy on write, checksums, compression, snapshots; on one device, or on several that it puts
//! together itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use fsdyno_model::info::FilesystemInfo;

use super::{FilesystemDef, Fsck, MemberNames, Members, Verdict, on_device, told};
use crate::arguments::{MAKES_NOTHING, MkfsOptions};
use crate::command::{self, CommandError, CommandSpec};
use crate::tools::{BTRFS_PROGS, ToolDef};

const TOOLS: &[ToolDef] = &[
    ToolDef { name: "mkfs.btrfs", package: BTRFS_PROGS, version_arg: "--version" },
    ToolDef { name: "btrfs", package: BTRFS_PROGS, version_arg: "--version" },
    ToolDef { name: "btrfs", package: BTRFS_PROGS, version_arg: "--version" },
];

/// mkfs.btrfs(8), with what later versions than 6.2 have added.
const MKFS_OPTIONS: MkfsOptions = MkfsOptions {
    flags: &[
        "-f",
        "--force",
        "-K",
        "--nodiscard",
        "-M",
        "--mixed",
        "-q",
        "--quiet",
        "--reflink",
        "--shrink",
        "-v",
        "--verbose",
    ],
    valued: &[
        "-b",
        "--byte-count",
        "--checksum",
        "--compress",
        "--csum",
        "-d",
        "--data",
        "--device-uuid",
        "--features",
        "--inode-flags",
        "-L",
        "--label",
        "-m",
        "--metadata",
        "-n",
        "--nodesize",
        "-O",
        "-r",
        "-R",
        "--rootdir",
        "--runtime-features",
        "-s",
        "--sectorsize",
        "-u",
        "--subvol",
        "-U",
        "--uuid",
    ],
    // A tree to copy, and places in it; the label is a text.
    paths: &["--inode-flags", "-L", "--label", "-r", "--rootdir", "-u", "--subvol"],
    refused: &[("--help", MAKES_NOTHING), ("-V", MAKES_NOTHING), ("--version", MAKES_NOTHING)],
    configuration: None,
};

/// The entry in the catalogue.
pub static DEF: FilesystemDef = FilesystemDef {
    info: FilesystemInfo {
        name: "btrfs",
        summary: "Copy on write, checksummed data and metadata, compression, snapshots",
        external_journal: None,
    },
    tools: TOOLS,
    min_size_bytes: 128 << 20,
    drivers: &["btrfs"],
    mkfs: |members, user| {
        let make = CommandSpec::new("mkfs.btrfs", &["-f", "-q"]);
        let others: Vec<String> =
            members.others.iter().map(|path| path.display().to_string()).collect();
        vec![make.args(user).args(&others).arg(members.device.display().to_string())]
    },
    mkfs_options: MKFS_OPTIONS,
    // Where nobody announces new devices to the kernel, it must be told of them.
    mount_options: |members| {
        members.others.iter().map(|path| format!("device={}", path.display())).collect()
    },
    fsck: Fsck::Program {
        command: |members| on_device("btrfs", &["check", "--readonly"], members),
        meaning: fsck_meaning,
    },
    read_back,
    kernel_threads,
    ..FilesystemDef::USUAL
};

/// btrfs-check(8) knows only success and failure.
fn fsck_meaning(code: i32) -> (Verdict, &'static str) {
    match code {
        0 => (Verdict::Clean, "no errors"),
        1 => (Verdict::Errors, "errors found, or the check broke off"),
        _ => (Verdict::Operational, "an exit code that btrfs check does not document"),
    }
}

fn read_back(
    members: Members<'_>,
    mount_point: &Path,
    limit: Duration,
) -> Result<BTreeMap<String, String>, CommandError> {
    let dump = told("btrfs", &["inspect-internal", "dump-super"], members, limit)?;
    let mut found = parse_superblock(&dump);
    let usage =
        CommandSpec::new("btrfs", &["filesystem", "df"]).arg(mount_point.display().to_string());
    found.extend(parse_profiles(&command::run_checked(&usage, limit)?.stdout));
    Ok(found)
}

/// What `dump-super` states and is a parameter, not a state.
const PARAMETERS: &[&str] = &[
    "csum_type",
    "total_bytes",
    "sectorsize",
    "nodesize",
    "stripesize",
    "num_devices",
    "compat_flags",
    "compat_ro_flags",
    "incompat_flags",
];

/// The parameters in the text of `dump-super`. The names of flags follow their number, over several
/// lines, in parentheses; they replace it.
fn parse_superblock(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut current: Option<&str> = None;
    for line in text.lines() {
        if line.starts_with([' ', '\t']) {
            let Some(key) = current else { continue };
            let names = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let value: &mut String = found.entry(key.to_owned()).or_default();
            for name in names.filter(|name| !name.is_empty()) {
                if value.starts_with("0x") {
                    value.clear();
                }
                if !value.is_empty() {
                    value.push(' ');
                }
                value.push_str(name);
            }
            continue;
        }
        let (key, value) = line.split_once(['\t', ' ']).unwrap_or((line, ""));
        current = PARAMETERS.iter().copied().find(|known| *known == key);
        if let Some(key) = current {
            found.insert(key.to_owned(), value.trim().to_owned());
        }
    }
    found
}

/// The profiles of data, metadata and system chunks in the text of `filesystem df`:
/// `Metadata, DUP: total=…`.
fn parse_profiles(text: &str) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines() {
        let Some((kind, rest)) = line.split_once(", ") else { continue };
        let Some((profile, _)) = rest.split_once(':') else { continue };
        let key = match kind {
            "Data" | "Metadata" | "System" | "Data+Metadata" => kind.to_ascii_lowercase(),
            _ => continue,
        };
        let value = found.entry(format!("{key}_profile")).or_default();
        if !value.is_empty() {
            value.push(' ');
        }
        value.push_str(profile.trim());
    }
    found
}

/// btrfs names its threads and workers without a device: those of another mounted btrfs match too. It
/// reclaims space (that is, writes back) on the kernel's shared unbound queue, where more of its time
/// may be spent than on its own queues; ext4 and XFS hardly use that one.
fn kernel_threads(names: &MemberNames) -> Vec<String> {
    let mut patterns = names.worker_patterns();
    let shared = ["flush-btrfs-*", "blkcg_punt_bio", "events_unbound"];
    patterns.extend(["btrfs-*".to_owned(), "kworker/*-btrfs-*".to_owned()]);
    patterns.extend(shared.map(|queue| format!("kworker/*-{queue}")));
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUPER: &str = "superblock: bytenr=65536, device=i\n\
---------------------------------------------------------\n\
csum_type\t\t0 (crc32c)\n\
flags\t\t\t0x1\n\
\t\t\t( WRITTEN )\n\
fsid\t\t\t278d128c-02c7-4398-b1fd-c055316adaad\n\
total_bytes\t\t419430400\n\
nodesize\t\t16384\n\
compat_flags\t\t0x0\n\
incompat_flags\t\t0x341\n\
\t\t\t( MIXED_BACKREF |\n\
\t\t\t  EXTENDED_IREF |\n\
\t\t\t  NO_HOLES )\n\
cache_generation\t0\n";

    #[test]
    fn parameters_are_read_with_their_flags() {
        let found = parse_superblock(SUPER);
        for (key, value) in [
            ("csum_type", "0 (crc32c)"),
            ("total_bytes", "419430400"),
            ("nodesize", "16384"),
            ("compat_flags", "0x0"),
            ("incompat_flags", "MIXED_BACKREF EXTENDED_IREF NO_HOLES"),
        ] {
            assert_eq!(found.get(key).map(String::as_str), Some(value), "{key}");
        }
        assert_eq!(found.len(), 5, "{found:?}");
    }

    #[test]
    fn profiles_are_read() {
        let text = "Data, single: total=8.00MiB, used=0.00B\nSystem, DUP: total=8.00MiB, used=16.00KiB\n\
                    Metadata, DUP: total=32.00MiB\nGlobalReserve, single: total=3.25MiB, used=0.00B\n";
        let found = parse_profiles(text);
        assert_eq!(found.get("data_profile").map(String::as_str), Some("single"));
        assert_eq!(found.get("metadata_profile").map(String::as_str), Some("DUP"));
        assert_eq!(found.len(), 3);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(incompat_flags|\t|0x1|\\( A \\||Data, |x:|é|\n){0,40}") {
            let _ = (parse_superblock(&text), parse_profiles(&text));
        }
    }
}
