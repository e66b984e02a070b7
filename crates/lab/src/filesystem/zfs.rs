//! ZFS: copy on write in transaction groups, with an intent log for what is synced, checksums of everything,
//! compression, its own cache. What is mounted is the first dataset of a pool on the device; the pool is
//! exported whenever it is not mounted.
//!
//! Sources: zpool-create(8), zpool-import(8), zfsprops(7), zdb(8) of OpenZFS 2.1.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fsdyno_model::info::FilesystemInfo;

use super::{FilesystemDef, Fsck, MemberNames, Members, Parameters, Verdict};
use crate::arguments::{MAKES_NOTHING, MkfsOptions};
use crate::command::{self, CommandError, CommandSpec};
use crate::tools::{COREUTILS, ToolDef, ZFSUTILS};

const TOOLS: &[ToolDef] = &[
    ToolDef { name: "zpool", package: ZFSUTILS, version_arg: "--version" },
    ToolDef { name: "zdb", package: ZFSUTILS, version_arg: "" },
    ToolDef { name: "zfs", package: ZFSUTILS, version_arg: "--version" },
    ToolDef { name: "cp", package: COREUTILS, version_arg: "--version" },
];

const OF_THE_TARGET: &str = "where the pool lies and is mounted is the target's";

/// zpool-create(8).
const MKFS_OPTIONS: MkfsOptions = MkfsOptions {
    flags: &["-d", "-f"],
    valued: &["-o", "-O"],
    paths: &[],
    refused: &[
        ("-m", OF_THE_TARGET),
        ("-n", MAKES_NOTHING),
        ("-R", OF_THE_TARGET),
        ("-t", OF_THE_TARGET),
    ],
    configuration: None,
};

/// The entry in the catalogue.
pub static DEF: FilesystemDef = FilesystemDef {
    info: FilesystemInfo {
        name: "zfs",
        summary: "A pool: copy on write, checksummed data, an intent log, its own cache; in guests only",
        external_journal: None,
    },
    tools: TOOLS,
    // 64 MiB are enough for `zpool create`, and leave no room.
    min_size_bytes: 128 << 20,
    drivers: &["zfs"],
    mkfs,
    mkfs_options: MKFS_OPTIONS,
    mount_source: pool,
    attach: |members| {
        let node = node(members.device).display().to_string();
        Some(zpool(&["import", "-N", "-o", "cachefile=none", "-d", &node]).arg(pool(members)))
    },
    detach: |members| Some(zpool(&["export"]).arg(pool(members))),
    has_own_cache: true,
    guests_only: Some(
        "its pool stays in the kernel, and the device with it, when the program is killed",
    ),
    // It reads every block that is referred to, and compares what is with what space maps say.
    fsck: Fsck::Program {
        command: |members| {
            let node = node(members.device).display().to_string();
            CommandSpec::new("zdb", &["-e", "-p", &node, "-bcc"]).arg(pool(members))
        },
        meaning: fsck_meaning,
    },
    read_back,
    kernel_threads,
    ..FilesystemDef::USUAL
};

fn zpool(arguments: &[&str]) -> CommandSpec {
    CommandSpec::new("zpool", arguments)
}

/// The name of the pool: that of the device, with what names of pools may have.
fn pool(members: Members<'_>) -> String {
    let name = members.device.file_name().unwrap_or_default().to_string_lossy();
    let fit = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("fsdyno-{}", name.chars().map(fit).collect::<String>())
}

/// The names of disks on which `zpool create` makes partitions, and waits for udev to name them, which is not
/// in a guest. Source: `efi_get_info` in lib/libefi/rdwr_efi.c.
const PARTITIONED: [&str; 7] = ["sd", "hd", "vd", "xvd", "md", "nvme", "zd"];

/// By which name ZFS gets the device: where it would part it, by another, which it takes for what it is.
fn node(device: &Path) -> PathBuf {
    let name = device.file_name().unwrap_or_default().to_string_lossy();
    if PARTITIONED.iter().any(|start| name.starts_with(start)) {
        return Path::new("/dev").join(format!("fsdyno-{name}"));
    }
    device.to_owned()
}

fn mkfs(members: Members<'_>, user: &[String]) -> Vec<CommandSpec> {
    let (device, node) = (members.device.display().to_string(), node(members.device));
    let node = node.display().to_string();
    let other_name = (node != device)
        .then(|| CommandSpec::new("cp", &["-a", "--remove-destination", &device, &node]));
    let own = ["create", "-f", "-o", "cachefile=none", "-m", "legacy"];
    let create = zpool(&own).args(user).arg(pool(members)).arg(node);
    other_name.into_iter().chain([create]).collect()
}

/// What zdb gives in cmd/zdb/zdb.c: nothing documents it.
fn fsck_meaning(code: i32) -> (Verdict, &'static str) {
    match code {
        0 => (Verdict::Clean, "no errors"),
        1 => (Verdict::Operational, "the pool could not be opened"),
        2 => (Verdict::Errors, "blocks are referred to that are free, or are not and should be"),
        3 => (Verdict::Errors, "blocks that cannot be read, or whose checksum is wrong"),
        _ => (Verdict::Operational, "an exit code that zdb does not have"),
    }
}

/// Properties of the pool.
const OF_POOL: &str = "ashift,autotrim,compatibility";
/// Properties of its dataset that are set and not found.
const OF_DATASET: &str = "atime,casesensitivity,checksum,compression,copies,dedup,dnodesize,encryption,logbias,\
    normalization,primarycache,recordsize,redundant_metadata,relatime,secondarycache,special_small_blocks,sync,\
    version,xattr";

fn read_back(
    members: Members<'_>,
    _mount_point: &Path,
    limit: Duration,
) -> Result<Parameters, CommandError> {
    let ask = |program: &'static str, own: &[&str]| {
        let spec = CommandSpec::new(program, own).arg(pool(members));
        Ok(parse_properties(&command::run_checked(&spec, limit)?.stdout))
    };
    let mut found = ask("zpool", &["get", "-H", "-p", "-o", "property,value", OF_POOL])?;
    found.extend(ask("zfs", &["get", "-H", "-p", "-o", "property,value", OF_DATASET])?);
    Ok(found)
}

/// Lines of a name, a tabulator and a value; `-` is none.
fn parse_properties(text: &str) -> Parameters {
    let pairs = text.lines().filter_map(|line| line.split_once('\t'));
    let known = pairs.map(|(name, value)| (name.trim(), value.trim()));
    let known = known.filter(|(name, value)| !name.is_empty() && !["", "-"].contains(value));
    known.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Its threads serve all pools: those of a guest are of one.
fn kernel_threads(names: &MemberNames) -> Vec<String> {
    const OWN: [&str; 8] =
        ["z_*", "txg_*", "dp_*", "arc_*", "dbu_evict", "dbuf_evict", "metaslab_group_*", "spl_*"];
    let mut patterns = names.worker_patterns();
    patterns.extend(OWN.map(str::to_owned));
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(device: &str) -> Members<'_> {
        Members { device: Path::new(device), others: &[], journal: None }
    }

    #[test]
    fn disks_that_would_be_parted_have_another_name() {
        let made = mkfs(members("/dev/vdb"), &["-O".to_owned(), "compression=lz4".to_owned()]);
        let lines: Vec<String> = made.iter().map(CommandSpec::to_string).collect();
        assert!(lines[0].ends_with("/dev/vdb /dev/fsdyno-vdb"), "{}", lines[0]);
        assert!(
            lines[1].ends_with("-O compression=lz4 fsdyno-vdb /dev/fsdyno-vdb"),
            "{}",
            lines[1]
        );
        let attach = (DEF.attach)(members("/dev/vdb")).unwrap().to_string();
        assert!(attach.ends_with("-d /dev/fsdyno-vdb fsdyno-vdb"), "{attach}");
        assert_eq!(mkfs(members("/dev/nbd0"), &[]).len(), 1);
        assert_eq!(pool(members("/dev/mapper/a:b")), "fsdyno-a_b");
    }

    #[test]
    fn properties_are_read() {
        let found = parse_properties("ashift\t12\nrecordsize\t131072\ncompatibility\t-\nx\n\ty\n");
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found["ashift"].as_str(), found["recordsize"].as_str()), ("12", "131072"));
    }
}
