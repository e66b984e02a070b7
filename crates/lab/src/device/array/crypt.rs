//! One device, encrypted by dm-crypt as LUKS has it by default: AES in XTS mode with a key of 512 bits.
//! There is no header, so that the device keeps its size, and the key is known to everybody: it is the
//! work that is measured.

use std::path::{Path, PathBuf};

use fsdyno_model::target::ArrayKind;
use fsdyno_sys::block as sys_block;

use super::{ArrayDef, DMSETUP_TOOL, Wish, mapper, run};
use crate::command::CommandSpec;

/// `cryptsetup --help` names it as the default of LUKS.
const CIPHER: &str = "aes-xts-plain64";
/// The two halves of the key must differ.
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\
                   202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f";
const SECTOR_BYTES: u64 = 512;

pub const DEF: ArrayDef = ArrayDef {
    kind: ArrayKind::Crypt,
    drivers: &["dm-crypt"],
    // The kernel looks for algorithms by itself, where there is somebody to load them.
    helpers: &["cbc", "ecb", "xts", "aes_generic", "aesni-intel"],
    tools: &[DMSETUP_TOOL],
    make,
    stop: |wish, _| mapper::remove(wish.name),
};

fn make(wish: &Wish<'_>) -> Result<PathBuf, String> {
    let [member] = wish.members else { return Err("crypt has one member".to_owned()) };
    let bytes = sys_block::size_bytes(member).map_err(|error| error.to_string())?;
    run(&create(wish.name, member, bytes))?;
    run(&CommandSpec::new("dmsetup", &["mknodes", wish.name]))?;
    Ok(mapper::node(wish.name))
}

fn create(name: &str, member: &Path, bytes: u64) -> CommandSpec {
    let (sectors, member) = (bytes / SECTOR_BYTES, member.display());
    // Discards reach the device, as they do without encryption.
    let table = format!("0 {sectors} crypt {CIPHER} {KEY} 0 {member} 0 1 allow_discards");
    let uuid = format!("FSDYNO-{name}");
    // Its node is made by dmsetup itself, because guests have no udev.
    let own_node = ["--noudevrules", "--noudevsync"];
    let words = [&own_node[..], &["create", name, "--uuid", &uuid, "--table", &table]].concat();
    CommandSpec::new("dmsetup", &words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_one_of_xts() {
        assert_eq!(KEY.len(), 128);
        assert_ne!(KEY[..64], KEY[64..]);
        let line = create("n", Path::new("/dev/loop0"), 1 << 20).to_string();
        assert!(line.contains("0 2048 crypt aes-xts-plain64 "), "{line}");
    }
}
