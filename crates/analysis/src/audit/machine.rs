//! Rules about the machine: one kernel, its settings and the versions of the tools. Within a run they
//! are the same by construction, but where targets name kernels of their own; they are told, since between
//! runs they are not.

use std::collections::{BTreeMap, BTreeSet};

use super::subject::{Fact, Subject};
use super::{Asked, Compared, Judged, Rule, fine, note, unfair};

/// The rules.
pub static RULES: &[Rule] = &[
    Rule {
        name: "kernel",
        title: "kernel",
        reason: "Filesystems change with every kernel. ext2 and ext3 are served by the driver of ext4 on most.",
        source: "uname(2), /proc/filesystems",
        asked: Asked::Kernel,
        judged: "A note where targets name their kernels and every filesystem has every kernel: then kernels are what is compared. Not comparable otherwise: one filesystem has a newer kernel than another, or runs were merged.",
        read: |subject| {
            let own = subject.device("kernel_release").map(|fact| fact.shown);
            let release = own.or_else(|| subject.environment.kernel_release.clone())?;
            let driver =
                subject.device("filesystem_driver").filter(|it| it.key != subject.filesystem());
            let shown = match driver {
                Some(driver) => format!("{release} (driver {})", driver.shown),
                None => release.clone(),
            };
            Some(Fact::keyed(shown, release.as_str()))
        },
        judge: kernels,
        ..Rule::USUAL
    },
    Rule {
        name: "tools",
        title: "version of mkfs",
        reason: "Defaults of a filesystem are those of its mkfs.",
        source: "mke2fs.conf(5), mkfs.xfs(8), mkfs.btrfs(8)",
        judged: "Fine: each filesystem has its own tool.",
        read: mkfs_version,
        judge: |_| fine(),
        ..Rule::USUAL
    },
    Rule {
        name: "dirty-limits",
        title: "dirty page limits",
        reason: "How much may wait in memory decides when writing becomes as slow as the device.",
        source: "Documentation/admin-guide/sysctl/vm.rst (dirty_ratio, dirty_background_ratio)",
        judged: "Not comparable where they differ, which happens only in merged runs.",
        read: dirty_limits,
        judge: |_| unfair("more may wait in memory on one of them"),
        ..Rule::USUAL
    },
];

/// Whether kernels are what is compared, or disturb the comparison of filesystems.
fn kernels(compared: &Compared<'_>) -> Judged {
    let mut of_filesystems: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (subject, fact) in compared.known() {
        of_filesystems.entry(subject.filesystem()).or_default().insert(&fact.key);
    }
    let mut sets = of_filesystems.values();
    let first = sets.next();
    let is_asked = compared.subjects.iter().any(|subject| subject.asked(Asked::Kernel));
    if is_asked && sets.all(|kernels| Some(kernels) == first) {
        note("kernels are compared")
    } else {
        unfair("one kernel was compared with another")
    }
}

fn mkfs_version(subject: &Subject<'_>) -> Option<Fact> {
    let fresh = subject.fresh()?;
    let tools = &subject.environment.tools;
    let own = || tools.get(&fresh.filesystem).filter(|_| subject.is(&["bcachefs"]));
    let found = tools.get(&format!("mkfs.{}", fresh.filesystem)).or_else(own);
    let version = found?.as_ref()?;
    Some(Fact::of(version.as_str()))
}

fn dirty_limits(subject: &Subject<'_>) -> Option<Fact> {
    let setting = |name: &str| subject.environment.sysctl.get(name)?.clone();
    let limit = |what: &str| {
        let bytes = setting(&format!("vm.{what}_bytes")).filter(|bytes| bytes != "0");
        let ratio = || Some(format!("{} %", setting(&format!("vm.{what}_ratio"))?));
        bytes.map(|bytes| format!("{bytes} B")).or_else(ratio)
    };
    let (dirty, background) = (limit("dirty")?, limit("dirty_background")?);
    let expire = setting("vm.dirty_expire_centisecs")?;
    Some(Fact::of(format!("{dirty}, background {background}, after {expire} cs")))
}
