//! Whether hardware acceleration works: a device that can be opened may still boot no guest. That it
//! failed is remembered until the machine is started anew.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use fsdyno_model::place::Accelerator;
use fsdyno_sys::kernel;

use crate::hash;

const DEVICE: &str = "/dev/kvm";

/// The accelerators to try, the fastest first.
#[must_use]
pub fn candidates(wanted: Option<Accelerator>, cache: &Path, identity: &str) -> Vec<Accelerator> {
    if let Some(wanted) = wanted {
        return vec![wanted];
    }
    let mut found = vec![Accelerator::Tcg];
    if unavailable().is_none() && !mark(cache, identity).exists() {
        found.insert(0, Accelerator::Kvm);
    }
    found
}

/// Why hardware acceleration cannot even be tried; `None` where it can.
#[must_use]
pub fn unavailable() -> Option<String> {
    let opened = OpenOptions::new().read(true).write(true).open(DEVICE);
    opened.err().map(|error| format!("{DEVICE}: {error}"))
}

/// Remembers that it boots no guest, for `identity`: what is booted and by what.
pub fn remember_failure(cache: &Path, identity: &str, reason: &str) {
    let mark = mark(cache, identity);
    // It is found out again where it cannot be kept.
    let _ = fs::create_dir_all(cache).and_then(|()| fs::write(mark, reason));
}

fn mark(cache: &Path, identity: &str) -> PathBuf {
    let boot = kernel::boot_id().unwrap_or_default();
    cache.join(format!("kvm-failed-{}", hash(format!("{boot} {identity}").as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_remembered() {
        let cache = tempfile::tempdir().unwrap();
        let before = candidates(None, cache.path(), "kernel qemu");
        assert_eq!(before.last(), Some(&Accelerator::Tcg));
        remember_failure(cache.path(), "kernel qemu", "it said nothing");
        assert_eq!(candidates(None, cache.path(), "kernel qemu"), [Accelerator::Tcg]);
        assert_eq!(candidates(None, cache.path(), "other"), before);
        let wanted = Some(Accelerator::Kvm);
        assert_eq!(candidates(wanted, cache.path(), "kernel qemu"), [Accelerator::Kvm]);
    }
}
