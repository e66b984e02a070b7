//! Arrays that a run left: found by what the kernel says is built on its devices, told from others' by
//! their names.

use std::path::{Path, PathBuf};

use fsdyno_sys::block::{self as sys_block, DeviceNumber};

use super::{mapper, md};
use crate::reclaim::Reclaimed;

/// Arrays that lie in each other deeper than this are no run's.
const DEPTH: usize = 8;

/// Takes apart what is built on a device, the outermost first, where its name begins with `prefix`.
/// What bears another name is left, and told.
#[must_use]
pub fn take_apart(number: DeviceNumber, prefix: &str) -> Vec<Reclaimed> {
    let mut done = Vec::new();
    take_apart_above(number, prefix, DEPTH, &mut done);
    done
}

fn take_apart_above(number: DeviceNumber, prefix: &str, depth: usize, done: &mut Vec<Reclaimed>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    for holder in sys_block::holders(number).unwrap_or_default() {
        let node = PathBuf::from("/dev").join(&holder);
        // Its number is stated in sysfs even where there is no node.
        let Some(above) = number_of(&holder) else { continue };
        take_apart_above(above, prefix, depth, done);
        let (what, result) = match mapper::name_of(above) {
            Some(name) if name.starts_with(prefix) => {
                (format!("mapped device {name}"), mapper::remove(&name))
            }
            Some(name) => (format!("mapped device {name}"), Err(foreign())),
            None => {
                let is_ours = md::name_of(&node).is_some_and(|name| name.starts_with(prefix));
                let result = if is_ours { md::stop_at(&node) } else { Err(foreign()) };
                (format!("array {}", node.display()), result)
            }
        };
        done.push(Reclaimed { what, error: result.err() });
    }
}

fn foreign() -> String {
    "it does not bear the name of this run: look at it yourself".to_owned()
}

fn number_of(name: &str) -> Option<DeviceNumber> {
    let path = Path::new("/sys/class/block").join(name).join("dev");
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}
