//! XFS: allocation groups, delayed logging, the log inside or on another device.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use fsdyno_model::info::FilesystemInfo;

use super::{FilesystemDef, Fsck, MemberNames, Members, Verdict, thread_pattern};
use crate::arguments::{MAKES_NOTHING, MkfsOptions};
use crate::command::{self, CommandError, CommandSpec};
use crate::tools::{ToolDef, XFSPROGS};

const TOOLS: &[ToolDef] = &[
    ToolDef { name: "mkfs.xfs", package: XFSPROGS, version_arg: "-V" },
    ToolDef { name: "xfs_repair", package: XFSPROGS, version_arg: "-V" },
    ToolDef { name: "xfs_spaceman", package: XFSPROGS, version_arg: "-V" },
];

/// The entry in the catalogue.
pub static DEF: FilesystemDef = FilesystemDef {
    info: FilesystemInfo {
        name: "xfs",
        summary: "Allocation groups that work in parallel, delayed logging, large files and directories",
        external_journal: Some("log"),
    },
    tools: TOOLS,
    min_size_bytes: 300 << 20,
    min_journal_bytes: 64 << 20,
    drivers: &["xfs"],
    mkfs,
    mkfs_options: MKFS_OPTIONS,
    mount_options,
    fsck: Fsck::Program { command: fsck, meaning: fsck_meaning },
    read_back,
    kernel_threads,
    ..FilesystemDef::USUAL
};

/// mkfs.xfs(8).
const MKFS_OPTIONS: MkfsOptions = MkfsOptions {
    flags: &["-f", "-K", "-q"],
    valued: &["-b", "-c", "-d", "-i", "-l", "-L", "-m", "-n", "-p", "-r", "-s"],
    // Files of options and of what the filesystem holds; the label is a text.
    paths: &["-c", "-p", "-L"],
    refused: &[("-N", MAKES_NOTHING), ("-V", MAKES_NOTHING)],
    configuration: Some(("-c", "/usr/share/xfsprogs/mkfs")),
};

fn mkfs(members: Members<'_>, user: &[String]) -> Vec<CommandSpec> {
    let mut make = CommandSpec::new("mkfs.xfs", &["-f", "-q"]);
    if let Some(log) = members.journal {
        make = make.arg("-l").arg(format!("logdev={}", log.display()));
    }
    vec![make.args(user).arg(members.device.display().to_string())]
}

/// XFS does not find its external log by itself.
fn mount_options(members: Members<'_>) -> Vec<String> {
    members.journal.map(|log| format!("logdev={}", log.display())).into_iter().collect()
}

fn fsck(members: Members<'_>) -> CommandSpec {
    let mut check = CommandSpec::new("xfs_repair", &["-n"]);
    if let Some(log) = members.journal {
        check = check.arg("-l").arg(log.display().to_string());
    }
    check.arg(members.device.display().to_string())
}

/// xfs_repair(8) for `-n`.
fn fsck_meaning(code: i32) -> (Verdict, &'static str) {
    match code {
        0 => (Verdict::Clean, "no corruption"),
        1 => (Verdict::Errors, "corruption found, or the check broke off"),
        2 => (Verdict::Errors, "the log holds changes that were not replayed"),
        4 => (Verdict::Corrected, "corruption was corrected"),
        _ => (Verdict::Operational, "an exit code that xfs_repair does not document"),
    }
}

fn read_back(
    _members: Members<'_>,
    mount_point: &Path,
    limit: Duration,
) -> Result<BTreeMap<String, String>, CommandError> {
    // What xfs_info calls, which is a script.
    let spec = CommandSpec::new("xfs_spaceman", &["-p", "xfs_info", "-c", "info"])
        .arg(mount_point.display().to_string());
    Ok(parse_info(&command::run_checked(&spec, limit)?.stdout))
}

/// The parameters in the text of `xfs_info`: `data.bsize`, `log.kind`, `metadata.reflink`, … A line
/// that starts with blanks continues the section before it.
fn parse_info(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut section = String::new();
    for line in text.lines() {
        let Some((name, rest)) = line.split_once('=') else { continue };
        let mut rest = rest;
        if !name.trim().is_empty() {
            section = name.trim().replace("meta-data", "metadata");
            // What follows the section's name is its kind, or the device for the first one.
            let kind_end = rest.find("  ").or_else(|| rest.find(" isize=")).unwrap_or(rest.len());
            let kind = rest[..kind_end].trim();
            if section != "metadata" && !kind.is_empty() && !kind.contains('=') {
                // A log on another device is shown by its path, which is another in every trial.
                let kind = if kind.starts_with('/') { "external" } else { kind };
                found.insert(format!("{section}.kind"), kind.to_owned());
            }
            rest = &rest[kind_end..];
        }
        if section.is_empty() {
            continue;
        }
        for word in rest.split([' ', ',', '\t']).filter(|word| !word.is_empty()) {
            if let Some((key, value)) = word.split_once('=')
                && !key.is_empty()
                && !value.is_empty()
            {
                found.insert(format!("{section}.{key}"), value.to_owned());
            }
        }
    }
    found
}

/// xfsaild and the workqueues of this filesystem; `xfsalloc` and `xfs_mru_cache` serve all of XFS.
fn kernel_threads(names: &MemberNames) -> Vec<String> {
    let mut patterns = names.worker_patterns();
    let name = &names.device;
    if !name.is_empty() {
        let exact = format!("xfsaild/{name}");
        if exact.len() > 15 {
            patterns.push(thread_pattern(&exact));
        }
        patterns.push(exact);
        patterns.push(format!("kworker/*-xfs-*/{name}"));
    }
    for shared in ["xfsalloc", "xfs_mru_cache", "xfs_discard"] {
        patterns.push(format!("kworker/*-{shared}"));
    }
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "\
meta-data=/dev/mapper/a=b        isize=512    agcount=4, agsize=25600 blks
         =                       sectsz=512   attr=2, projid32bit=1
         =                       reflink=1    bigtime=1 inobtcount=1 nrext64=0
data     =                       bsize=4096   blocks=102400, imaxpct=25
         =                       sunit=0      swidth=0 blks
naming   =version 2              bsize=4096   ascii-ci=0, ftype=1
log      =internal log           bsize=4096   blocks=16384, version=2
         =                       sectsz=512   sunit=0 blks, lazy-count=1
realtime =none                   extsz=4096   blocks=0, rtextents=0
";

    #[test]
    fn parameters_are_read_by_section() {
        let found = parse_info(INFO);
        for (key, value) in [
            ("metadata.isize", "512"),
            ("metadata.agcount", "4"),
            ("metadata.reflink", "1"),
            ("data.bsize", "4096"),
            ("data.swidth", "0"),
            ("naming.kind", "version 2"),
            ("log.kind", "internal log"),
            ("log.blocks", "16384"),
            ("log.lazy-count", "1"),
            ("realtime.kind", "none"),
        ] {
            assert_eq!(found.get(key).map(String::as_str), Some(value), "{key}");
        }
        assert!(!found.values().any(|value| value.contains("/dev/")));
        let external = parse_info("log      =/dev/loop3             bsize=4096   blocks=16384\n");
        assert_eq!(external["log.kind"], "external");
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(meta-data|log|=| |isize=|é|,|[a-z]{1,3}|\n){0,40}") {
            let _ = parse_info(&text);
        }
    }
}
