//! Volumes of LVM: striped or mirrored, in a group of their own that is made of the members alone. No
//! other device of the machine is looked at.

use std::path::{Path, PathBuf};

use fsdyno_model::target::ArrayKind;

use super::{ArrayDef, DMSETUP_TOOL, LVM_TOOL, Wish, insist, mapper, run};
use crate::command::CommandSpec;

/// Name of the volume in its group.
const VOLUME: &str = "volume";
/// Is there while udev runs.
const UDEV: &str = "/run/udev/control";

pub const STRIPE: ArrayDef = ArrayDef {
    kind: ArrayKind::LvmStripe,
    drivers: &["dm-mod"],
    helpers: &[],
    tools: &[LVM_TOOL, DMSETUP_TOOL],
    make,
    stop,
};

pub const MIRROR: ArrayDef = ArrayDef {
    kind: ArrayKind::LvmMirror,
    drivers: &["dm-mod", "dm-raid"],
    helpers: &["raid1"],
    tools: &[LVM_TOOL, DMSETUP_TOOL],
    make,
    stop,
};

fn make(wish: &Wish<'_>) -> Result<PathBuf, String> {
    let members: Vec<String> = wish.members.iter().map(|path| path.display().to_string()).collect();
    run(&lvm(wish, "vgcreate", &["--yes", wish.name]).args(&members))?;
    run(&create(wish))?;
    Ok(mapper::node(&format!("{}-{VOLUME}", wish.name)))
}

fn create(wish: &Wish<'_>) -> CommandSpec {
    let count = wish.members.len();
    // Neither wiped nor synchronised: the members are blank.
    let fixed = ["--yes", "-Wn", "-Zn", "--extents", "100%FREE", "--name", VOLUME];
    let create = lvm(wish, "lvcreate", &fixed);
    let create = match wish.spec.array {
        ArrayKind::LvmMirror => create
            .args(&["--type", "raid1", "--nosync", "--mirrors"].map(str::to_owned))
            .arg((count - 1).to_string()),
        _ => create
            .args(&["--type", "striped", "--stripes"].map(str::to_owned))
            .arg(count.to_string()),
    };
    let create = match wish.spec.chunk_bytes {
        Some(bytes) => create.arg("--stripesize").arg(format!("{}k", bytes >> 10)),
        None => create,
    };
    create.arg(wish.name)
}

fn stop(wish: &Wish<'_>, path: &Path) -> Result<(), String> {
    if path.exists() || !path.as_os_str().is_empty() {
        return insist(&lvm(wish, "vgremove", &["--force", "--yes", wish.name]));
    }
    // Half made: what there is of it.
    let removed = run(&lvm(wish, "vgremove", &["--force", "--yes", wish.name]));
    removed.map(drop)
}

/// A command of LVM that sees the members and nothing else, keeps no backups of what it does, and leaves
/// nobody behind to watch. Where nobody makes nodes for it, it makes them itself.
fn lvm(wish: &Wish<'_>, command: &str, words: &[&str]) -> CommandSpec {
    let accepted = wish.members.iter().map(|path| format!("\"a|^{}$|\",", path.display()));
    let filter: String = accepted.chain(["\"r|.*|\"".to_owned()]).collect();
    let udev = u8::from(Path::new(UDEV).exists());
    let config = format!(
        "devices{{use_devicesfile=0 scan=\"/dev\" obtain_device_list_from_udev=0 global_filter=[{filter}]}} \
         backup{{backup=0 archive=0}} activation{{monitoring=0 udev_sync={udev} udev_rules={udev}}} global{{use_lvmpolld=0}}"
    );
    CommandSpec::new("lvm", &[command, "--config", &config])
        .args(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_model::target::DeviceSpec;

    #[test]
    fn nothing_but_the_members_is_looked_at() {
        let line = |text: &str| {
            let DeviceSpec::Array(spec) = DeviceSpec::parse(text).unwrap() else {
                panic!("{text}")
            };
            let members = [Path::new("/dev/loop1"), Path::new("/dev/loop2")];
            create(&Wish { spec: &spec, name: "n", members: &members }).to_string()
        };
        let mirror = line("lvm-mirror");
        let filter = "global_filter=[\"a|^/dev/loop1$|\",\"a|^/dev/loop2$|\",\"r|.*|\"]";
        assert!(mirror.contains(filter), "{mirror}");
        assert!(mirror.ends_with("--type raid1 --nosync --mirrors 1 n"), "{mirror}");
        let stripe = line("lvm-stripe(loop,loop,chunk=128KiB)");
        assert!(stripe.ends_with("--type striped --stripes 2 --stripesize 128k n"), "{stripe}");
    }
}
