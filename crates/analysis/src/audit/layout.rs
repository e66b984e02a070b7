//! Rules about how the filesystem was made and what state it was in when measuring began: sizes, groups,
//! free space, age, work left over from mkfs.

use fsdyno_model::record::TargetFacts;
use fsdyno_model::units;

use super::subject::{Fact, Subject, number, option_of_bcachefs};
use super::{Asked, Compared, Judged, Rule, by_nature, fine, note, unfair};

/// The rules.
pub static RULES: &[Rule] = &[
    Rule {
        name: "lazy-initialisation",
        title: "unfinished mkfs work",
        reason: "mkfs of ext4 leaves inode tables to be zeroed by the kernel after mount; figures taken meanwhile contain that work.",
        source: "mke2fs(8) (lazy_itable_init), Documentation/admin-guide/ext4.rst (init_itable)",
        judged: "Not comparable where some target was measured while it still initialised itself; a note where a device was busy for another reason.",
        read: at_rest,
        judge: |compared| {
            let lazy = compared.known().any(|(_, fact)| fact.key.contains("initialising"));
            match lazy {
                true => unfair("the kernel was still writing what mkfs had left to it"),
                false => note("something else used the device when measuring began"),
            }
        },
        when_same: Some(|compared| {
            let is_busy = compared.known().any(|(_, fact)| fact.key != "no");
            is_busy.then(|| note("no target had come to rest when measuring began"))
        }),
        ..Rule::USUAL
    },
    Rule {
        name: "age",
        title: "age",
        reason: "Files and free space of a filesystem that has been in use lie in pieces; an empty one is faster.",
        source: "Smith and Seltzer, File System Aging, SIGMETRICS 1997; Agrawal and others, Geriatrix, USENIX ATC 2018",
        asked: Asked::Age,
        judged: "Not comparable where targets were aged differently.",
        read: |subject| {
            let age = subject.fresh()?.age.as_ref();
            Some(age.map_or_else(|| Fact::of("none"), |age| Fact::of(age.to_string())))
        },
        judge: |_| {
            unfair("an aged filesystem beside a fresh one tells of aging, not of filesystems")
        },
        ..Rule::USUAL
    },
    Rule {
        name: "made",
        title: "time since mkfs",
        reason: "A filesystem made right before the trial has no history; one that existed before has one that nobody recorded.",
        source: "Traeger, Zadok, Joukov, Wright, A Nine Year Study of File System and Storage Benchmarking, ACM TOS 2008",
        asked: Asked::Device,
        judged: "Not comparable where one was made for the trial and another existed before.",
        read: made,
        judge: |_| unfair("one was made for the trial, the other has a history of its own"),
        ..Rule::USUAL
    },
    Rule {
        name: "free-space",
        title: "free space",
        reason: "The fuller a filesystem, the harder its allocator works.",
        source: "Agrawal and others, Geriatrix, USENIX ATC 2018",
        asked: Asked::Age,
        judged: "A note from 15 points of difference on, not comparable from 30 on.",
        read: |subject| subject.each(free_share),
        judge: judge_free_space,
        ..Rule::USUAL
    },
    Rule {
        name: "reserved-blocks",
        title: "reserved blocks",
        reason: "ext4 keeps 5 % of its blocks for root; they matter when the filesystem is nearly full.",
        source: "mke2fs(8) (-m)",
        asked: Asked::Mkfs,
        judged: "Fine; a note where less than a fifth is free.",
        read: |subject| subject.each(|facts| reserved(subject, facts)),
        judge: |compared| {
            let free = compared.subjects.iter().filter_map(|own| own.each(free_share));
            let is_full = free.filter_map(|it| it.key.parse::<f64>().ok()).any(|it| it < 20.0);
            if is_full { note("little is free, so that what is kept back counts") } else { fine() }
        },
        ..Rule::USUAL
    },
    Rule {
        name: "block-size",
        title: "block size",
        reason: "Small files and random writes cost by the block; mkfs chooses smaller blocks for small ext filesystems.",
        source: "mke2fs(8) (-b), mkfs.xfs(8) (-b), mkfs.btrfs(8) (--sectorsize)",
        asked: Asked::Mkfs,
        judged: "A note.",
        read: |subject| subject.each(|facts| block_size(subject, facts)),
        judge: |_| note("what a small file takes and a small write costs depends on it"),
        ..Rule::USUAL
    },
    Rule {
        name: "inode-size",
        title: "inode size",
        reason: "Larger inodes hold more attributes and cost more to read; each filesystem has its own default.",
        source: "mke2fs(8) (-I), mkfs.xfs(8) (-i size)",
        asked: Asked::Mkfs,
        judged: "Fine between filesystems, a note between two of one filesystem.",
        read: |subject| subject.each(|facts| inode_size(subject, facts)),
        judge: by_nature,
        ..Rule::USUAL
    },
    Rule {
        name: "node-size",
        title: "metadata block size",
        reason: "The unit in which metadata are read and written: tree nodes of btrfs, directory blocks of XFS and ext4.",
        source: "mkfs.btrfs(8) (--nodesize), mkfs.xfs(8) (-n size)",
        asked: Asked::Mkfs,
        judged: "Fine between filesystems, a note between two of one filesystem.",
        read: |subject| subject.each(|facts| node_size(subject, facts)),
        judge: by_nature,
        ..Rule::USUAL
    },
    Rule {
        name: "groups",
        title: "allocation groups",
        reason: "Groups are what several processes can allocate in side by side; agcount=1 of XFS takes that away.",
        source: "mkfs.xfs(8) (-d agcount), mke2fs(8) (-g)",
        asked: Asked::Mkfs,
        judged: "Fine between filesystems, a note between two of one filesystem.",
        read: |subject| subject.each(|facts| groups(subject, facts)),
        judge: by_nature,
        ..Rule::USUAL
    },
    Rule {
        name: "journal-size",
        title: "journal size",
        reason: "A small journal forces writing back earlier.",
        source: "mke2fs(8) (-J size), mkfs.xfs(8) (-l size)",
        asked: Asked::Mkfs,
        judged: "Fine between filesystems, a note between two of one filesystem.",
        read: |subject| subject.each(|facts| journal_size(subject, facts)),
        judge: by_nature,
        ..Rule::USUAL
    },
    Rule {
        name: "features",
        title: "format features",
        reason: "What mkfs switched on: extents, big allocation, sparse inodes, free space trees.",
        source: "ext4(5), mkfs.xfs(8), mkfs.btrfs(8)",
        asked: Asked::Mkfs,
        judged: "Fine between filesystems, a note between two of one filesystem.",
        read: |subject| subject.each(|facts| features(subject, facts)),
        judge: by_nature,
        ..Rule::USUAL
    },
];

fn at_rest(subject: &Subject<'_>) -> Option<Fact> {
    let (mut lazy, mut busy) = (0, 0);
    for trial in &subject.trials {
        let mut unrest = trial.warnings.iter().filter(|warning| warning.code == "not-at-rest");
        if let Some(warning) = unrest.next() {
            let words = ["inode tables", "ext4lazyinit"];
            match words.iter().any(|word| warning.message.contains(word)) {
                true => lazy += 1,
                false => busy += 1,
            }
        }
    }
    let all = subject.trials.len();
    Some(match (lazy, busy) {
        (0, 0) => Fact::of("no"),
        (0, busy) => Fact::keyed(format!("device busy in {busy} of {all} trials"), "busy"),
        (lazy, _) => Fact::keyed(format!("in {lazy} of {all} trials"), "initialising"),
    })
}

fn made(subject: &Subject<'_>) -> Option<Fact> {
    if subject.fresh().is_none() {
        return Some(Fact::of("existed before"));
    }
    let since = subject.trials.iter().filter_map(|trial| {
        let stages = &trial.stages;
        Some(stages.mount_ns? + stages.age_ns.unwrap_or(0) + stages.quiesce_ns?)
    });
    let since: Vec<f64> = since.map(|ns| ns as f64).collect();
    let shown = match crate::interval::median(&since) {
        Some(ns) => format!("{} before", units::human_duration(ns as u64)),
        None => "made for the trial".to_owned(),
    };
    Some(Fact::keyed(shown, "made for the trial"))
}

/// The share that is free, in percent; compared by the number, rounded.
fn free_share(facts: &TargetFacts) -> Option<Fact> {
    let total = number(&facts.device, "filesystem_size_bytes").filter(|bytes| *bytes > 0)?;
    let free = number(&facts.device, "filesystem_free_bytes")?;
    let percent = free as f64 / total as f64 * 100.0;
    Some(Fact::keyed(format!("{percent:.0} %"), format!("{percent:.0}")))
}

fn judge_free_space(compared: &Compared<'_>) -> Judged {
    let last = |fact: &Fact| fact.key.rsplit(' ').next()?.parse::<f64>().ok();
    let shares: Vec<f64> = compared.known().filter_map(|(_, fact)| last(fact)).collect();
    let most = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    match most - least {
        apart if apart >= 30.0 => unfair("one allocator has much less to choose from"),
        apart if apart >= 15.0 => note("one allocator has less to choose from"),
        _ => fine(),
    }
}

fn reserved(subject: &Subject<'_>, facts: &TargetFacts) -> Option<Fact> {
    if subject.is(&["bcachefs"]) {
        let percent = option_of_bcachefs(facts, "root_reserve_percent")?;
        return Some(Fact::of(match percent {
            "0" => "none".to_owned(),
            percent => format!("{percent} %"),
        }));
    }
    // Slop space: a share that depends on the size of the pool (spa_misc.c), and that nothing tells.
    if subject.is(&["zfs"]) {
        return None;
    }
    if !subject.is_ext() {
        return (!subject.is_foreign()).then(|| Fact::of("none"));
    }
    let blocks = number(&facts.mkfs_effective, "block_count").filter(|count| *count > 0)?;
    let reserved = number(&facts.mkfs_effective, "reserved_block_count")?;
    let percent = reserved as f64 / blocks as f64 * 100.0;
    Some(Fact::of(if reserved == 0 { "none".to_owned() } else { format!("{percent:.1} %") }))
}

/// Parameters of ext, XFS, btrfs and bcachefs that mean the same.
fn parameter(
    subject: &Subject<'_>,
    facts: &TargetFacts,
    [ext, xfs, btrfs, bcachefs]: [&str; 4],
) -> Option<String> {
    let name = match subject.filesystem() {
        "xfs" => xfs,
        "btrfs" => btrfs,
        "bcachefs" => bcachefs,
        _ if subject.is_ext() => ext,
        _ => return None,
    };
    facts.mkfs_effective.get(name).cloned()
}

fn block_size(subject: &Subject<'_>, facts: &TargetFacts) -> Option<Fact> {
    parameter(subject, facts, ["block_size", "data.bsize", "sectorsize", "block_size"])
        .map(Fact::of)
}

fn inode_size(subject: &Subject<'_>, facts: &TargetFacts) -> Option<Fact> {
    if subject.is(&["btrfs", "bcachefs"]) {
        return Some(Fact::of("items of trees"));
    }
    if subject.is(&["zfs"]) {
        return Some(Fact::of("dnodes"));
    }
    parameter(subject, facts, ["inode_size", "metadata.isize", "", ""]).map(Fact::of)
}

fn node_size(subject: &Subject<'_>, facts: &TargetFacts) -> Option<Fact> {
    parameter(subject, facts, ["block_size", "naming.bsize", "nodesize", "btree_node_size"])
        .map(Fact::of)
}

fn groups(subject: &Subject<'_>, facts: &TargetFacts) -> Option<Fact> {
    if subject.is_ext() {
        let blocks = number(&facts.mkfs_effective, "block_count")?;
        let per_group = number(&facts.mkfs_effective, "blocks_per_group").filter(|it| *it > 0)?;
        return Some(Fact::of(blocks.div_ceil(per_group).to_string()));
    }
    if subject.is(&["btrfs"]) {
        return Some(Fact::of("chunks on demand"));
    }
    if subject.is(&["bcachefs"]) {
        let bytes = number(&facts.mkfs_effective, "bucket_size")?;
        return Some(Fact::of(format!("buckets of {}", units::human_bytes(bytes))));
    }
    parameter(subject, facts, ["", "metadata.agcount", "", ""]).map(Fact::of)
}

fn journal_size(subject: &Subject<'_>, facts: &TargetFacts) -> Option<Fact> {
    if subject.is(&["xfs"]) {
        let blocks = number(&facts.mkfs_effective, "log.blocks")?;
        let size = number(&facts.mkfs_effective, "log.bsize")?;
        return Some(Fact::of(units::human_bytes(blocks.saturating_mul(size))));
    }
    if subject.is(&["btrfs", "ext2"]) {
        return Some(Fact::of("none"));
    }
    parameter(subject, facts, ["journal_size", "", "", ""]).map(Fact::of)
}

/// Words of the format's features; what was written since mkfs does not count.
fn features(subject: &Subject<'_>, facts: &TargetFacts) -> Option<Fact> {
    let found = &facts.mkfs_effective;
    let text = match subject.filesystem() {
        "btrfs" => {
            let flags = ["compat_ro_flags", "incompat_flags"].map(|name| found.get(name));
            let words = flags.into_iter().flatten().flat_map(|it| it.split_whitespace());
            let lasting = words.filter(|word| !word.starts_with("COMPRESS"));
            lasting.collect::<Vec<&str>>().join(" ").to_ascii_lowercase()
        }
        "xfs" => {
            let on = found.iter().filter(|(name, value)| {
                let name = name.strip_prefix("metadata.").unwrap_or_default();
                let flags = [
                    "crc",
                    "finobt",
                    "sparse",
                    "rmapbt",
                    "reflink",
                    "bigtime",
                    "inobtcount",
                    "nrext64",
                ];
                flags.contains(&name) && *value == "1"
            });
            on.map(|(name, _)| &name["metadata.".len()..]).collect::<Vec<&str>>().join(" ")
        }
        "bcachefs" => found.get("features")?.clone(),
        _ if subject.is_ext() => found.get("features")?.clone(),
        _ => return None,
    };
    (!text.is_empty()).then(|| Fact::of(text))
}
