//! The kernel's device mapper: tables and states as text, and removal. What is mapped is in
//! [`super::lvm`] and [`super::crypt`].

use std::path::PathBuf;

use fsdyno_sys::block::DeviceNumber;

use super::{insist, run};
use crate::command::CommandSpec;

/// Where the nodes lie.
const NODES: &str = "/dev/mapper";

/// The node of a mapped device.
pub fn node(name: &str) -> PathBuf {
    PathBuf::from(NODES).join(name)
}

/// The name of a mapped device; `None` where it is none.
pub fn name_of(number: DeviceNumber) -> Option<String> {
    let text = std::fs::read_to_string(number.sysfs_path().join("dm/name")).ok()?;
    Some(text.trim().to_owned())
}

/// What its table says, without keys.
pub fn table(name: &str) -> Option<String> {
    ask("table", name)
}

/// What its target says of its state.
pub fn status(name: &str) -> Option<String> {
    ask("status", name)
}

fn ask(what: &str, name: &str) -> Option<String> {
    let text = run(&CommandSpec::new("dmsetup", &[what, "--", name])).ok()?.stdout;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Removes a mapped device; a success where it is gone.
pub fn remove(name: &str) -> Result<(), String> {
    if !node(name).exists() {
        return Ok(());
    }
    insist(&CommandSpec::new("dmsetup", &["remove", "--", name]))
}
