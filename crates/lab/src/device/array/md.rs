//! Arrays of the kernel's md driver, by mdadm. They are made as if their members were alike already,
//! since all are blank: nothing is synchronised while a trial runs.

use std::fs;
use std::path::{Path, PathBuf};

use fsdyno_model::target::ArrayKind;

use super::{ArrayDef, MDADM_TOOL, Wish, insist, run};
use crate::command::CommandSpec;

/// The host that superblocks name: neither this machine's nor none, so that none assembles them by itself.
const HOMEHOST: &str = "fsdyno";
/// Where mdadm makes names.
const NAMES: &str = "/dev/md";

pub const RAID0: ArrayDef = entry(ArrayKind::Raid0, &["raid0"]);
pub const RAID1: ArrayDef = entry(ArrayKind::Raid1, &["raid1"]);
pub const RAID10: ArrayDef = entry(ArrayKind::Raid10, &["raid10"]);

const fn entry(kind: ArrayKind, drivers: &'static [&'static str]) -> ArrayDef {
    ArrayDef { kind, drivers, helpers: &[], tools: &[MDADM_TOOL], make, stop }
}

fn make(wish: &Wish<'_>) -> Result<PathBuf, String> {
    let link = Path::new(NAMES).join(wish.name);
    run(&create(wish, &link))?;
    fs::canonicalize(&link).map_err(|error| format!("{}: {error}", link.display()))
}

fn create(wish: &Wish<'_>, link: &Path) -> CommandSpec {
    let level = wish.spec.array.word().trim_start_matches("raid");
    let mut create = CommandSpec::new("mdadm", &["--create"])
        .arg(link.display().to_string())
        .arg("--run")
        .arg("--metadata=1.2")
        .arg(format!("--homehost={HOMEHOST}"))
        .arg(format!("--name={}", wish.name))
        .arg(format!("--level={level}"))
        .arg(format!("--raid-devices={}", wish.members.len()));
    if wish.spec.array.has_bitmap() {
        let bitmap = if wish.spec.bitmap { "internal" } else { "none" };
        create = create.arg("--assume-clean").arg(format!("--bitmap={bitmap}"));
    }
    if let Some(bytes) = wish.spec.chunk_bytes {
        create = create.arg(format!("--chunk={}K", bytes >> 10));
    }
    let members = wish.members.iter().map(|path| path.display().to_string());
    create.args(&members.collect::<Vec<String>>())
}

fn stop(wish: &Wish<'_>, path: &Path) -> Result<(), String> {
    let link = Path::new(NAMES).join(wish.name);
    if path.as_os_str().is_empty() {
        // Half made: there may be none.
        let _ = run(&CommandSpec::new("mdadm", &["--stop"]).arg(link.display().to_string()));
    } else if path.exists() {
        stop_at(path)?;
    }
    // Without udev nobody else removes it.
    let _ = fs::remove_file(link);
    Ok(())
}

/// Stops the array at `path`.
pub fn stop_at(path: &Path) -> Result<(), String> {
    insist(&CommandSpec::new("mdadm", &["--stop"]).arg(path.display().to_string()))
}

/// The name that the superblock of the array at `path` bears, without its host, where that is ours.
pub fn name_of(path: &Path) -> Option<String> {
    let detail = CommandSpec::new("mdadm", &["--detail", "--export"]);
    let text = run(&detail.arg(path.display().to_string())).ok()?.stdout;
    parse_name(&text)
}

fn parse_name(text: &str) -> Option<String> {
    let name = text.lines().find_map(|line| line.strip_prefix("MD_NAME="))?;
    let (host, name) = name.split_once(':')?;
    (host == HOMEHOST).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_model::target::DeviceSpec;

    #[test]
    fn the_command_line_says_all_that_tools_would_choose_by_size() {
        let line = |text: &str| {
            let DeviceSpec::Array(spec) = DeviceSpec::parse(text).unwrap() else {
                panic!("{text}")
            };
            let members = [Path::new("/dev/a"), Path::new("/dev/b")];
            let wish = Wish { spec: &spec, name: "n", members: &members };
            create(&wish, Path::new("/dev/md/n")).to_string()
        };
        assert_eq!(
            line("raid0(loop,loop,chunk=64KiB)"),
            "mdadm --create /dev/md/n --run --metadata=1.2 --homehost=fsdyno --name=n --level=0 \
             --raid-devices=2 --chunk=64K /dev/a /dev/b"
        );
        assert!(line("raid1").contains(" --assume-clean --bitmap=none "));
        assert!(line("raid10(bitmap)").contains(" --bitmap=internal "));
    }

    #[test]
    fn others_names_are_not_ours() {
        let text = "MD_LEVEL=raid1\nMD_NAME=fsdyno:fsdyno1234d\nMD_UUID=x\n";
        assert_eq!(parse_name(text).as_deref(), Some("fsdyno1234d"));
        assert_eq!(parse_name("MD_NAME=server:fsdyno1234d\n"), None);
        assert_eq!(parse_name("MD_LEVEL=raid1\n"), None);
    }
}
