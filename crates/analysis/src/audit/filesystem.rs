//! Rules about what a filesystem promises and does: durability, journal, checksums, copies, access times.

use fsdyno_model::audit::Judgement;
use fsdyno_model::record::TargetFacts;

use super::subject::{Fact, Subject, name_of, option, option_of_bcachefs, options, words};
use super::{Asked, Compared, Judged, Rule, fine, note, unfair};

const EXT4_DOC: &str = "Documentation/admin-guide/ext4.rst of the Linux kernel";

/// The rules.
pub static RULES: &[Rule] = &[
    Rule {
        name: "barriers",
        title: "barriers",
        reason: "Without barriers a filesystem does not wait for the device's write cache: what fsync calls durable can be lost with the power, and every commit is cheaper than on a target that keeps its promise.",
        source: "Documentation/block/writeback_cache_control.rst, Documentation/admin-guide/ext4.rst (barrier), btrfs(5) (nobarrier), bcachefs(8) (journal_flush_disabled), zfsprops(7) (sync)",
        asked: Asked::Mount(&["barrier", "nobarrier", "journal_flush_disabled", "sync"]),
        unknown: Judgement::Note,
        judged: "Not comparable where they are off on some targets only; a note where no device has a write cache that could lose anything.",
        read: |subject| subject.each(|facts| barriers(subject, facts)),
        judge: judge_barriers,
        ..Rule::USUAL
    },
    Rule {
        name: "synchronous",
        title: "synchronous writing",
        reason: "With sync every write waits for the device, with dirsync or wsync every change of a directory.",
        source: "mount(8), xfs(5) (wsync)",
        asked: Asked::Mount(&["sync", "dirsync", "wsync"]),
        judged: "Not comparable where some targets write synchronously and others do not.",
        read: |subject| subject.each(synchronous),
        judge: |_| unfair("a target that waits for its device at every change does other work"),
        ..Rule::USUAL
    },
    Rule {
        name: "journal-mode",
        title: "journal mode",
        reason: "What is journaled decides what survives a crash and how often data are written: ext2 keeps no journal, data=journal writes data twice, data=writeback may leave stale data in files, btrfs writes trees anew instead, bcachefs journals every change of its trees, ZFS writes what is synced to an intent log.",
        source: EXT4_DOC,
        asked: Asked::Mount(&["data"]),
        judged: "A note: each filesystem has its own way, and data= is part of the question.",
        read: |subject| subject.each(|facts| journal_mode(subject, facts)),
        judge: |_| note("each promises something else after a crash, and pays for it"),
        ..Rule::USUAL
    },
    Rule {
        name: "journal-device",
        title: "external journal",
        reason: "A journal on a device of its own takes half of the seeks and flushes away from the first one: two devices against one.",
        source: "mke2fs(8) (-J device), mkfs.xfs(8) (-l logdev)",
        asked: Asked::Journal,
        judged: "Not comparable where the journal is on a second device; a note where that is an image on the same disk.",
        read: journal_device,
        judge: |compared| {
            if compared.has("device") {
                unfair("one target has two devices, another one")
            } else {
                note("the second image lies on the same disk, but has a queue of its own")
            }
        },
        ..Rule::USUAL
    },
    Rule {
        name: "data-checksums",
        title: "data checksums",
        reason: "btrfs, bcachefs and ZFS compute and verify checksums of all data; ext4 and XFS check their metadata only.",
        source: "btrfs(5) (CHECKSUM ALGORITHMS, datasum), bcachefs(8) (data_checksum), zfsprops(7) (checksum), xfs(5)",
        asked: Asked::Mount(&[
            "checksum",
            "nodatasum",
            "nodatacow",
            "datasum",
            "data_checksum",
            "nocow",
            "encrypted",
        ]),
        judged: "A note: a property of the filesystem, which costs time and gives something for it.",
        read: |subject| subject.each(|facts| data_checksums(subject, facts)),
        judge: |_| note("finding silent errors costs processor time and metadata"),
        ..Rule::USUAL
    },
    Rule {
        name: "metadata-checksums",
        title: "metadata checksums",
        reason: "Checksums of metadata cost little, but ext2 and ext3 have none.",
        source: "ext4(5) (metadata_csum), mkfs.xfs(8) (-m crc)",
        asked: Asked::Mkfs,
        judged: "Fine: the cost is small beside that of everything else.",
        read: |subject| subject.each(|facts| metadata_checksums(subject, facts)),
        judge: |_| fine(),
        ..Rule::USUAL
    },
    Rule {
        name: "copy-on-write",
        title: "copy on write",
        reason: "Where data are never overwritten in place, rewriting a file scatters it and writes metadata; other filesystems overwrite.",
        source: "btrfs(5) (nodatacow), bcachefs(8) (nocow), xfs(5) (reflink)",
        asked: Asked::Mount(&["nodatacow", "datacow", "nocow"]),
        judged: "A note: a property of the filesystem.",
        read: |subject| subject.each(|facts| copy_on_write(subject, facts)),
        judge: |_| note("overwriting is another operation on each"),
        ..Rule::USUAL
    },
    Rule {
        name: "metadata-copies",
        title: "copies of metadata",
        reason: "btrfs writes its metadata twice (DUP) on a single device unless told otherwise; ZFS twice (redundant_metadata); ext4, XFS and bcachefs once.",
        source: "mkfs.btrfs(8) (PROFILES), bcachefs(8) (metadata_replicas), zfsprops(7) (copies, redundant_metadata)",
        asked: Asked::Mkfs,
        judged: "A note: a property of the filesystem, chosen at mkfs.",
        read: |subject| subject.each(|facts| metadata_copies(subject, facts)),
        judge: |_| note("a second copy is written by every operation on metadata"),
        ..Rule::USUAL
    },
    Rule {
        name: "atime",
        title: "access times",
        reason: "With strictatime each read of a file changes its inode; with relatime the first one of a day, with noatime none.",
        source: "mount(8) (relatime, noatime, strictatime, lazytime)",
        asked: Asked::Mount(&[
            "noatime",
            "relatime",
            "strictatime",
            "atime",
            "nodiratime",
            "lazytime",
        ]),
        judged: "Not comparable where strictatime is in force on some targets only; otherwise a note.",
        read: |subject| subject.each(access_times),
        judge: |compared| {
            let strict = compared.known().any(|(_, fact)| fact.key.starts_with("strictatime"));
            match strict {
                true => unfair("every read of a file is a write on one of them"),
                false => note("reading writes inodes on one and not on the other"),
            }
        },
        ..Rule::USUAL
    },
    Rule {
        name: "discard",
        title: "discard",
        reason: "Telling the device what was freed costs time while files are deleted; btrfs does it in the background by default where the device can.",
        source: "btrfs(5) (discard), xfs(5) (discard), ext4.rst (discard)",
        asked: Asked::Mount(&["discard", "nodiscard"]),
        judged: "A note.",
        read: |subject| subject.each(discard),
        judge: |_| note("deleting does more on one of them"),
        ..Rule::USUAL
    },
    Rule {
        name: "mount-options",
        title: "other mount options",
        reason: "Whatever else was asked for at mount and no other rule tells: commit intervals, allocation, log buffers.",
        source: "mount(8) and the manual page of the filesystem",
        asked: Asked::AnyMount,
        judged: "A note.",
        read: other_options,
        judge: |_| note("an option was given to one and not to the other"),
        ..Rule::USUAL
    },
];

/// Names of mount options that a rule of its own tells.
const TOLD: &[&str] = &[
    "barrier",
    "nobarrier",
    "sync",
    "dirsync",
    "wsync",
    "data",
    "nodatasum",
    "datasum",
    "nodatacow",
    "datacow",
    "noatime",
    "relatime",
    "strictatime",
    "atime",
    "nodiratime",
    "lazytime",
    "discard",
    "nodiscard",
    "compress",
    "compress-force",
    "compression",
    "background_compression",
    "data_checksum",
    "nocow",
    "journal_flush_disabled",
    "logdev",
    "rw",
    "defaults",
];

fn barriers(subject: &Subject<'_>, facts: &TargetFacts) -> Option<Fact> {
    let options = options(facts)?;
    if subject.is(&["tmpfs", "ramfs"]) {
        return Some(Fact::of("no device"));
    }
    if subject.is_foreign() {
        return None;
    }
    if subject.is(&["bcachefs"]) {
        let is_off = is_on(facts, "journal_flush_disabled")?;
        return Some(Fact::of(if is_off { "off" } else { "on" }));
    }
    if subject.is(&["zfs"]) {
        // Then fsync waits for nothing.
        let is_off = facts.mkfs_effective.get("sync")? == "disabled";
        return Some(Fact::of(if is_off { "off" } else { "on" }));
    }
    let is_off = options.contains(&"nobarrier") || option(&options, "barrier") == Some("0");
    Some(Fact::of(if is_off { "off" } else { "on" }))
}

/// Whether a switch of bcachefs is on.
fn is_on(facts: &TargetFacts, name: &str) -> Option<bool> {
    // The mount table has the name alone, the superblock a number.
    option_of_bcachefs(facts, name).map(|value| value != "0")
}

fn judge_barriers(compared: &Compared<'_>) -> Judged {
    let mut caches = compared.subjects.iter().map(|subject| subject.device("write_cache"));
    let no_cache = |cache: Option<Fact>| cache.is_some_and(|cache| cache.key == "write through");
    if compared.has("no device") {
        return unfair("one lies in memory and has nothing to wait for");
    }
    if caches.all(no_cache) {
        return note(
            "no device has a write cache that must be flushed, so that little depends on it",
        );
    }
    unfair(
        "where they are off, what was called durable can be lost, and nothing waits for the device's cache",
    )
}

fn synchronous(facts: &TargetFacts) -> Option<Fact> {
    let options = options(facts)?;
    let found: Vec<&str> =
        ["sync", "dirsync", "wsync"].into_iter().filter(|name| options.contains(name)).collect();
    Some(Fact::of(if found.is_empty() { "no".to_owned() } else { found.join(", ") }))
}

/// `journal_data_writeback` and its like among the default mount options of the superblock.
fn default_data_mode(facts: &TargetFacts) -> &'static str {
    let defaults = facts.mkfs_effective.get("default_mount_options").map_or("", String::as_str);
    let has = |name: &str| defaults.split_whitespace().any(|word| word == name);
    if has("journal_data_writeback") {
        "writeback"
    } else if has("journal_data") {
        "journal"
    } else {
        "ordered"
    }
}

fn journal_mode(subject: &Subject<'_>, facts: &TargetFacts) -> Option<Fact> {
    let options = options(facts)?;
    if subject.is_ext() {
        let features = facts.mkfs_effective.get("features");
        let journaled = match features {
            Some(features) => features.split_whitespace().any(|word| word == "has_journal"),
            None => !subject.is(&["ext2"]),
        };
        if !journaled {
            return Some(Fact::of("no journal"));
        }
        let mode = option(&options, "data").unwrap_or_else(|| default_data_mode(facts));
        return Some(Fact::of(format!("data={mode}")));
    }
    match subject.filesystem() {
        "xfs" => Some(Fact::of("log of metadata")),
        "btrfs" if options.contains(&"notreelog") => Some(Fact::of("copied trees, no log")),
        "btrfs" => Some(Fact::of("copied trees")),
        "bcachefs" => Some(Fact::of("journal of tree updates")),
        "zfs" => Some(Fact::of("transaction groups, intent log")),
        "tmpfs" | "ramfs" => Some(Fact::of("no journal")),
        _ => None,
    }
}

fn journal_device(subject: &Subject<'_>) -> Option<Fact> {
    let fresh = subject.fresh()?;
    if fresh.journal.is_none() {
        return Some(Fact::of("no"));
    }
    subject.each(|facts| {
        let fact = |name: &str| facts.device.get(name);
        let are_images = fact("kind").is_some_and(|kind| kind == "loop image")
            && fact("journal.kind").is_some_and(|kind| kind == "loop image");
        let same = fact("backing_source") == fact("journal.backing_source");
        match are_images && same {
            true => Some(Fact::keyed("a second image", "image")),
            false => Some(Fact::keyed(fact("journal.path")?.as_str(), "device")),
        }
    })
}

fn data_checksums(subject: &Subject<'_>, facts: &TargetFacts) -> Option<Fact> {
    if subject.is(&["bcachefs"]) {
        if facts.mkfs_effective.contains_key("encrypted") {
            return Some(Fact::of("poly1305, of what is encrypted"));
        }
        let kind = option_of_bcachefs(facts, "data_checksum")?;
        let is_off = kind == "none" || is_on(facts, "nocow")?;
        return Some(Fact::of(if is_off { "no" } else { kind }));
    }
    if subject.is(&["zfs"]) {
        return Some(Fact::of(match facts.mkfs_effective.get("checksum")?.as_str() {
            "on" => "fletcher4",
            "off" => "no",
            kind => kind,
        }));
    }
    if !subject.is(&["btrfs"]) {
        return (!subject.is_foreign()).then(|| Fact::of("no"));
    }
    let options = options(facts)?;
    if options.contains(&"nodatasum") || options.contains(&"nodatacow") {
        return Some(Fact::of("no"));
    }
    let kind = facts.mkfs_effective.get("csum_type");
    let name =
        kind.and_then(|kind| kind.split_once('(')).map(|(_, rest)| rest.trim_end_matches(')'));
    Some(Fact::of(name.unwrap_or("yes")))
}

fn metadata_checksums(subject: &Subject<'_>, facts: &TargetFacts) -> Option<Fact> {
    let yes = |yes: bool| Fact::of(if yes { "yes" } else { "no" });
    if subject.is(&["btrfs", "zfs"]) {
        return Some(yes(true));
    }
    if subject.is(&["bcachefs"]) {
        return Some(yes(option_of_bcachefs(facts, "metadata_checksum")? != "none"));
    }
    let found = &facts.mkfs_effective;
    if subject.is_ext() {
        let features = found.get("features")?;
        return Some(yes(features.split_whitespace().any(|word| word == "metadata_csum")));
    }
    Some(yes(found.get("metadata.crc")? == "1"))
}

fn copy_on_write(subject: &Subject<'_>, facts: &TargetFacts) -> Option<Fact> {
    const IN_PLACE: &str = "in place";
    if subject.is(&["btrfs"]) {
        let is_off = options(facts)?.contains(&"nodatacow");
        return Some(Fact::of(if is_off { IN_PLACE } else { "all data" }));
    }
    if subject.is(&["bcachefs"]) {
        return Some(Fact::of(if is_on(facts, "nocow")? { IN_PLACE } else { "all data" }));
    }
    if subject.is(&["zfs"]) {
        return Some(Fact::of("all data"));
    }
    if subject.is(&["xfs"])
        && facts.mkfs_effective.get("metadata.reflink").is_some_and(|it| it == "1")
    {
        return Some(Fact::keyed("shared blocks only", IN_PLACE));
    }
    (!subject.is_foreign()).then(|| Fact::of(IN_PLACE))
}

fn metadata_copies(subject: &Subject<'_>, facts: &TargetFacts) -> Option<Fact> {
    if subject.is(&["bcachefs"]) {
        return option_of_bcachefs(facts, "metadata_replicas").map(Fact::of);
    }
    if subject.is(&["zfs"]) {
        // One more than of data, and three at most.
        let copies: u64 = facts.mkfs_effective.get("copies")?.parse().ok()?;
        let is_all = facts.mkfs_effective.get("redundant_metadata")? == "all";
        let shown = copies.saturating_add(1).min(3).to_string();
        return Some(Fact::of(if is_all { shown } else { format!("{shown}, of most") }));
    }
    if !subject.is(&["btrfs"]) {
        return (!subject.is_foreign()).then(|| Fact::of("1"));
    }
    let profile = facts
        .mkfs_effective
        .get("metadata_profile")
        .or_else(|| facts.mkfs_effective.get("data+metadata_profile"))?;
    Some(match profile.as_str() {
        "single" => Fact::of("1"),
        "DUP" => Fact::keyed("2 (DUP)", "2"),
        other => Fact::of(other),
    })
}

fn access_times(facts: &TargetFacts) -> Option<Fact> {
    let options = options(facts)?;
    let has = |name: &str| options.contains(&name);
    let mut mode = match (has("noatime"), has("relatime")) {
        (true, _) => "noatime".to_owned(),
        (false, true) => "relatime".to_owned(),
        (false, false) => "strictatime".to_owned(),
    };
    // Without access times there are none of directories either.
    if has("nodiratime") && !has("noatime") {
        mode.push_str(", nodiratime");
    }
    if has("lazytime") {
        mode.push_str(", lazytime");
    }
    Some(Fact::of(mode))
}

fn discard(facts: &TargetFacts) -> Option<Fact> {
    let options = options(facts)?;
    Some(match option(&options, "discard") {
        None => Fact::of("no"),
        Some("async") => Fact::of("in the background"),
        Some(_) => Fact::of("at once"),
    })
}

fn other_options(subject: &Subject<'_>) -> Option<Fact> {
    let fresh = subject.fresh()?;
    let mut rest: Vec<&str> =
        words(&fresh.mount).filter(|word| !TOLD.contains(&name_of(word))).collect();
    rest.sort_unstable();
    Some(Fact::of(if rest.is_empty() { "none".to_owned() } else { rest.join(",") }))
}
