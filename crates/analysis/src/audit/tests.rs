//! Every rule on facts as they are read back from real filesystems: what must be caught, and what must
//! not be called unfair.

use std::collections::BTreeMap;

use fsdyno_model::cold::Cold;
use fsdyno_model::info::{FilesystemInfo, Names, no_files};
use fsdyno_model::outcome::Outcome;
use fsdyno_model::param::{ParamDef, ParamKind, Params};
use fsdyno_model::record::{PhaseRecord, Role, Warning};
use fsdyno_model::target::{Ground, TargetSpec};
use fsdyno_model::workload::WorkloadSpec;

use super::*;

const fn info(name: &'static str, external_journal: Option<&'static str>) -> FilesystemInfo {
    FilesystemInfo { name, summary: "", external_journal }
}

static FILESYSTEMS: [&FilesystemInfo; 7] = [
    &info("ext2", None),
    &info("ext3", Some("journal")),
    &info("ext4", Some("journal")),
    &info("xfs", Some("log")),
    &info("btrfs", None),
    &info("bcachefs", None),
    &info("zfs", None),
];

const EXT: &str = "block_count=2097152 block_size=4096 blocks_per_group=32768 inode_size=256 reserved_block_count=104857";
const XFS: &str = "data.bsize=4096 metadata.agcount=4 metadata.isize=512 metadata.crc=1 metadata.reflink=1 naming.bsize=4096 log.blocks=16384 log.bsize=4096";
const BTRFS: &str =
    "csum_type=crc32c metadata_profile=DUP sectorsize=4096 nodesize=16384 incompat_flags=NO_HOLES";
const BCACHEFS: &str = "block_size=4096 btree_node_size=262144 bucket_size=524288 data_checksum=crc32c metadata_checksum=crc32c metadata_replicas=1 compression=none background_compression=none nocow=0 journal_flush_disabled=0 root_reserve_percent=0 features=zstd";
const ZFS: &str = "atime=on checksum=on compression=off copies=1 recordsize=131072 redundant_metadata=all sync=standard ashift=12";
const DEVICE: &str = "kind=loop~image path=/dev/loop0 size_bytes=8589934592 scheduler=none write_cache=write~back nr_requests=128 max_sectors_kb=1280 read_ahead_kb=2560 rotational=0 loop_direct_io=true backing_source=/dev/vda backing_filesystem=ext4 image=/var/tmp/run/trial-1/device.img logical_block_size_bytes=512 physical_block_size_bytes=512 filesystem_size_bytes=1000 filesystem_free_bytes=950";

/// `a=b c=d~e` as pairs; `~` is a space.
fn pairs(text: &str) -> BTreeMap<String, String> {
    let words = text.split_whitespace().filter_map(|word| word.split_once('='));
    words.map(|(name, value)| (name.to_owned(), value.replace('~', " "))).collect()
}

/// A run with these targets on defaults, two trials each.
struct Run {
    plan: Plan,
    environment: Environment,
    trials: Vec<TrialRecord>,
}

impl Run {
    fn new(targets: &[&str], payload: Option<&str>) -> Run {
        let names = Names { workloads: &[], filesystems: &FILESYSTEMS, load_workload: no_files };
        let mut plan = Plan::new(false);
        let parsed = targets.iter().map(|text| TargetSpec::parse(text, &names).unwrap());
        plan.targets = parsed.collect();
        const PAYLOAD: &[ParamDef] = &[ParamDef {
            name: "payload",
            kind: ParamKind::Text,
            default: "realistic",
            quick: None,
            doc: "",
            check: None,
        }];
        let mut params = Params::default();
        if let Some(payload) = payload {
            params = Params::defaults(PAYLOAD, false);
            params.set(PAYLOAD, "payload", payload).unwrap();
        }
        let (label, kind) = ("files".to_owned(), "small-files".to_owned());
        plan.workloads = vec![WorkloadSpec { label, kind, params, definition: None }];
        let mut trials = Vec::new();
        for number in 1..=2 {
            trials.extend(plan.targets.iter().map(|target| trial(target, number)));
        }
        Run { plan, environment: Environment::default(), trials }
    }

    /// Changes every trial of a target.
    fn with(mut self, target: &str, change: impl Fn(&mut TrialRecord)) -> Run {
        self.trials.iter_mut().filter(|trial| trial.target == target).for_each(change);
        self
    }

    fn device(self, target: &str, name: &str, value: &str) -> Run {
        self.with(target, |trial| {
            trial.facts.device.insert(name.to_owned(), value.to_owned());
        })
    }

    fn audit(&self) -> Audit {
        audit(&self.plan, &self.environment, &self.trials)
    }

    /// The verdict, and the row of a rule.
    fn judged(&self, rule: &str) -> (WorkloadAudit, AuditRow) {
        let audit = self.audit();
        let own = audit.workloads[0].clone();
        let mut rows = audit.rows.iter().chain(&own.rows);
        let row = rows.find(|row| row.rule == rule).unwrap_or_else(|| panic!("no {rule}")).clone();
        (own, row)
    }
}

fn trial(target: &TargetSpec, number: u32) -> TrialRecord {
    let mut record =
        TrialRecord::planned(&target.label, "files", number, number, Outcome::Completed);
    record.facts.device = pairs(DEVICE);
    let (filesystem, mount) = match &target.ground {
        Ground::Fresh(fresh) => (fresh.filesystem.as_str(), fresh.mount.as_str()),
        Ground::Directory { path } => {
            record.facts.device = pairs(
                "kind=directory filesystem=ext4 source=/dev/sda1 mount_point=/srv rotational=0 write_cache=write~back scheduler=none",
            );
            record.facts.device.insert("directory".to_owned(), path.display().to_string());
            ("dir", "")
        }
    };
    let features = match filesystem {
        "ext2" => " features=filetype",
        "ext3" => " features=has_journal journal_size=8M",
        _ => " features=has_journal~extent~metadata_csum journal_size=64M",
    };
    record.facts.mkfs_effective = match filesystem {
        "xfs" => pairs(XFS),
        "btrfs" => pairs(BTRFS),
        "bcachefs" => pairs(BCACHEFS),
        "zfs" => pairs(ZFS),
        "dir" => BTreeMap::new(),
        _ => pairs(&(EXT.to_owned() + features)),
    };
    let atime = if mount.contains("atime") { "rw" } else { "rw,relatime" };
    let own = if filesystem == "btrfs" { ",ssd,discard=async,space_cache=v2" } else { "" };
    // As the kernel of ext4 shows it.
    let mount = mount.replace("barrier=0", "nobarrier");
    record.facts.mount_effective = Some(format!("{atime},{mount}{own}"));
    let mut read = PhaseRecord::new("read", "elapsed_s");
    (read.bytes, read.read_bytes, read.cold) = (8 << 20, 8 << 20, Some(Cold::Remount));
    read.device.read_bytes = Some(8 << 20);
    let mut create = PhaseRecord::new("create", "elapsed_s");
    create.bytes = 8 << 20;
    create.device.write_bytes = Some(9 << 20);
    record.phases = vec![create, read];
    record
}

#[track_caller]
fn assert_judged(run: &Run, rule: &str, status: Status, judgement: Judgement, as_asked: bool) {
    let (own, row) = run.judged(rule);
    assert_eq!((row.status, row.judgement, row.as_asked), (status, judgement, as_asked), "{row:?}");
    let fairness = own.fairness.unwrap();
    match judgement {
        NotComparable => assert_eq!(fairness, Fairness::NotComparable, "{}", own.text),
        Note => assert!(fairness >= Fairness::ComparableWithNotes, "{}", own.text),
        Fine => {}
    }
    assert_eq!(row.sentence.is_empty(), judgement == Fine, "{}", row.sentence);
}

use Judgement::{Fine, NotComparable, Note};
use Status::{Different, Same, Unknown};

#[test]
fn the_list_is_well_formed() {
    let rules = rules();
    let mut names: Vec<&str> = rules.iter().map(|rule| rule.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), rules.len());
    for rule in rules {
        let name = rule.name;
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name}");
        assert!(rule.reason.ends_with('.') && rule.judged.ends_with('.'), "{name}");
        assert!(!rule.source.is_empty() && !rule.title.is_empty(), "{name}");
        assert!(rule.title.len() <= 20, "{name}");
    }
}

#[test]
fn defaults_are_comparable_with_notes() {
    for targets in [
        &["ext4", "xfs"][..],
        &["ext4", "xfs", "btrfs"],
        &["ext2", "ext3", "ext4", "xfs", "btrfs"],
        &["btrfs", "btrfs:compress=zstd"],
        &["ext4", "xfs", "btrfs", "bcachefs", "z=bcachefs:compression=zstd"],
        &["ext4", "btrfs", "zfs", "z=zfs/-O compression=lz4"],
        &["ext4", "ext4:data=journal"],
        &["ext4:noatime", "xfs:noatime", "btrfs:noatime"],
    ] {
        let run = Run::new(targets, Some("realistic"));
        let (own, _) = run.judged("barriers");
        assert_eq!(own.fairness, Some(Fairness::ComparableWithNotes), "{targets:?}: {}", own.text);
        assert!(own.text.starts_with("Comparable with notes: "), "{}", own.text);
    }
    let run = Run::new(&["ext4", "other=ext4"], Some("realistic"));
    let (own, _) = run.judged("barriers");
    assert_eq!(own.text, "Comparable: nothing that matters differs.");
}

#[test]
fn arrays_are_compared_with_arrays_of_one_make() {
    const RAID: &str = "kind=array array=raid1 array_members=2 array_level=raid1 array_layout=0 array_metadata=1.2 array_bitmap=none array_sync=idle array_degraded=0 member1.kind=disk~of~a~guest member1.path=/dev/vda member2.kind=disk~of~a~guest member2.path=/dev/vdb path=/dev/md127";
    let run = || {
        let run = Run::new(&["ext4@raid1", "xfs@raid1"], Some("realistic"));
        let made = |trial: &mut TrialRecord| trial.facts.device.extend(pairs(RAID));
        run.with("ext4@raid1", made).with("xfs@raid1", made)
    };
    let (_, row) = run().judged("array");
    assert_eq!((row.status, row.judgement), (Same, Fine), "{row:?}");
    // The number of an array is nobody's choice.
    let renumbered = run().device("xfs@raid1", "path", "/dev/md126");
    let (_, row) = renumbered.judged("device");
    assert_eq!((row.status, row.judgement), (Same, Fine), "{row:?}");
    for (name, value) in
        [("array_bitmap", "+8"), ("array_chunk_bytes", "65536"), ("array", "lvm-mirror")]
    {
        let run = run().device("xfs@raid1", name, value);
        assert_judged(&run, "array", Different, NotComparable, true);
    }
    let moved = run().device("xfs@raid1", "member2.path", "/dev/vdc");
    assert_judged(&moved, "device", Different, NotComparable, true);
    let busy = ["ext4@raid1", "xfs@raid1"]
        .iter()
        .fold(run(), |run, target| run.device(target, "array_sync", "resync"));
    assert_judged(&busy, "array", Same, NotComparable, false);
    let single = Run::new(&["ext4", "ext4@raid1"], Some("realistic"));
    let single = single.with("ext4@raid1", |trial| trial.facts.device.extend(pairs(RAID)));
    assert_judged(&single, "array", Different, NotComparable, true);
}

#[test]
fn what_filesystems_are_by_nature_is_a_note() {
    let run = Run::new(&["ext4", "xfs", "btrfs"], Some("realistic"));
    for (rule, judgement) in [
        ("data-checksums", Note),
        ("copy-on-write", Note),
        ("metadata-copies", Note),
        ("journal-mode", Note),
        ("discard", Note),
        ("inode-size", Fine),
        ("groups", Fine),
        ("features", Fine),
        ("reserved-blocks", Fine),
    ] {
        assert_judged(&run, rule, Different, judgement, false);
    }
    let run = Run::new(&["xfs", "xfs/-d agcount=1"], Some("realistic"));
    let run = run.with("xfs/-d agcount=1", |trial| {
        trial.facts.mkfs_effective.insert("metadata.agcount".to_owned(), "1".to_owned());
    });
    assert_judged(&run, "groups", Different, Note, true);
    let run = Run::new(&["ext4", "xfs", "btrfs"], Some("realistic"));
    for rule in ["barriers", "device", "device-size", "write-cache", "atime", "block-size"] {
        assert_judged(&run, rule, Same, Fine, false);
    }
}

#[test]
fn one_target_without_barriers_is_not_comparable() {
    let run = Run::new(&["ext3:barrier=0", "ext4", "xfs", "btrfs"], Some("realistic"));
    assert_judged(&run, "barriers", Different, NotComparable, true);
    let (own, _) = run.judged("barriers");
    let expected =
        "Not comparable because of barriers (off: ext3:barrier=0; on: ext4, xfs, btrfs, as asked).";
    assert_eq!(own.text, expected);
    // Nothing is flushed by anybody where no device has a cache.
    let through = |run: Run, target| run.device(target, "write_cache", "write through");
    let run = ["ext3:barrier=0", "ext4", "xfs", "btrfs"].into_iter().fold(run, through);
    assert_judged(&run, "barriers", Different, Note, true);
    // All alike is no difference.
    let run = Run::new(&["ext3:barrier=0", "ext4:nobarrier", "btrfs:nobarrier"], None);
    assert_judged(&run, "barriers", Same, Fine, false);
}

#[test]
fn one_option_of_one_filesystem_is_a_fair_test_of_the_option() {
    let run = Run::new(&["ext4", "ext4:barrier=0", "xfs"], Some("realistic"));
    let (own, row) = run.judged("barriers");
    assert!(row.as_asked);
    let told = "ext4 beside ext4:barrier=0 is a fair test of what was asked for (barriers), not of filesystems.";
    assert!(own.text.ends_with(told), "{}", own.text);
    // Another scheduler was not asked for.
    let run = run.device("ext4:barrier=0", "scheduler", "mq-deadline");
    assert!(!run.judged("barriers").0.text.contains("fair test"));
}

#[test]
fn compression_is_judged_by_what_is_written() {
    let targets = ["btrfs:compress=zstd", "ext4"];
    for (payload, judgement) in [
        (Some("original"), NotComparable),
        (Some("realistic:compressibility=90%"), NotComparable),
        (Some("realistic"), Note),
        (Some("realistic:compressibility=0%"), Note),
        (None, Note),
    ] {
        assert_judged(&Run::new(&targets, payload), "compression", Different, judgement, true);
    }
    let plain = Run::new(&["btrfs", "ext4"], Some("original"));
    assert_judged(&plain, "compression", Same, Fine, false);
    let both = Run::new(&["btrfs:compress=zstd", "z=btrfs:compress=zstd"], Some("original"));
    assert_judged(&both, "compression", Same, Note, false);
    let run = Run::new(&targets, Some("original"));
    let run = run.with("btrfs:compress=zstd", |trial| {
        trial.phases[0].device.write_bytes = Some(1 << 20);
    });
    let (_, row) = run.judged("compression");
    assert!(row.sentence.contains("btrfs:compress=zstd 0.12, ext4 1.12"), "{}", row.sentence);
    // Fewer bytes are its purpose: they do not prove that it read from memory.
    let run = run.with("btrfs:compress=zstd", |trial| {
        trial.phases[1].device.read_bytes = Some(1 << 10);
    });
    assert_eq!(run.judged("from-memory").1.judgement, Fine);
}

#[test]
fn what_lies_below_must_be_the_same() {
    for (name, value, rule, judgement) in [
        ("size_bytes", "4294967296", "device-size", NotComparable),
        ("size_bytes", "8590000000", "device-size", Note),
        ("write_cache", "write through", "write-cache", NotComparable),
        ("scheduler", "mq-deadline", "scheduler", NotComparable),
        ("rotational", "1", "rotational", NotComparable),
        ("nr_requests", "64", "queue", Note),
        ("read_ahead_kb", "128", "read-ahead", NotComparable),
        ("filesystem_read_ahead_kb", "4096", "read-ahead", Note),
        ("physical_block_size_bytes", "4096", "sectors", Note),
        ("loop_direct_io", "false", "image", NotComparable),
        ("image", "/mnt/other/run/trial-1/device.img", "device", NotComparable),
        ("filesystem_free_bytes", "780", "free-space", Note),
        ("filesystem_free_bytes", "300", "free-space", NotComparable),
        ("filesystem_free_bytes", "940", "free-space", Fine),
    ] {
        let run = Run::new(&["ext4", "xfs"], Some("realistic")).device("xfs", name, value);
        assert_judged(&run, rule, Different, judgement, false);
    }
    // A setting that was changed between two trials of one target.
    let mut run = Run::new(&["ext4", "xfs"], Some("realistic"));
    run.trials[2].facts.device.insert("scheduler".to_owned(), "bfq".to_owned());
    assert_judged(&run, "scheduler", Different, NotComparable, false);
    assert_eq!(run.judged("scheduler").1.grouped(), "none, then bfq: ext4; none: xfs");
}

#[test]
fn block_devices_are_told_apart_by_disk_and_place() {
    let block = |target: &'static str, path: &str, more: &str| {
        let facts = format!("kind=block~device path={path} size_bytes=9 rotational=0 {more}");
        let mut facts = pairs(&facts);
        facts.insert("write_cache".to_owned(), "write back".to_owned());
        (target, facts)
    };
    for (one, other, judgement) in [
        (("/dev/sdb1", "disk=sdb"), ("/dev/sdb2", "disk=sdb"), Note),
        (
            ("/dev/sdb1", "disk=sdb rotational=1"),
            ("/dev/sdb2", "disk=sdb rotational=1"),
            NotComparable,
        ),
        (("/dev/sdb", "disk=sdb model=M"), ("/dev/sdc", "disk=sdc model=M"), Note),
        (("/dev/sdb", "disk=sdb model=M"), ("/dev/sdc", "disk=sdc model=N"), NotComparable),
        (("/dev/sdb", "disk=sdb"), ("/dev/sdc", "disk=sdc"), NotComparable),
    ] {
        let mut run = Run::new(&["ext4@/dev/sdb", "xfs@/dev/sdc"], Some("realistic"));
        let sides = [block("ext4@/dev/sdb", one.0, one.1), block("xfs@/dev/sdc", other.0, other.1)];
        for (target, facts) in sides {
            run = run.with(target, |trial| trial.facts.device = facts.clone());
        }
        assert_judged(&run, "device", Different, judgement, true);
    }
}

#[test]
fn directories_are_compared_by_what_they_lie_on() {
    let run = Run::new(&["dir:/srv/a", "dir:/srv/b"], Some("realistic"));
    assert_eq!(run.judged("device").0.fairness, Some(Fairness::Comparable));
    let run = run.device("dir:/srv/b", "source", "/dev/sdb1");
    assert_judged(&run, "device", Different, NotComparable, true);
    let run = Run::new(&["dir:/srv/a", "ext4"], Some("realistic"));
    assert_judged(&run, "made", Different, NotComparable, true);
    // What no rule knows is unknown, not fair.
    let run = Run::new(&["dir:/srv/a", "dir:/srv/b"], Some("realistic"));
    let run =
        run.device("dir:/srv/a", "filesystem", "nfs4").device("dir:/srv/b", "filesystem", "nfs4");
    assert_judged(&run, "barriers", Unknown, Note, false);
}

#[test]
fn cold_and_warm_are_proven() {
    let base = || Run::new(&["ext4", "xfs"], Some("realistic"));
    let memory = |trial: &mut TrialRecord| trial.phases[1].device.read_bytes = Some(4096);
    let run = base().with("xfs", memory);
    assert_judged(&run, "from-memory", Different, NotComparable, false);
    let sentence = run.judged("from-memory").1.sentence;
    assert!(
        sentence.contains("read came from memory on xfs and from the device on ext4"),
        "{sentence}"
    );
    let run = base().with("xfs", memory).with("ext4", memory);
    assert_judged(&run, "from-memory", Same, Note, false);
    let warm = |trial: &mut TrialRecord| trial.phases[1].cold = None;
    let run = run.with("xfs", warm).with("ext4", warm);
    assert_judged(&run, "from-memory", Same, Fine, false);
    let run = base().with("xfs", warm);
    assert_judged(&run, "cold", Different, NotComparable, false);
    let run = base().with("xfs", |trial| trial.phases[1].cold = Some(Cold::DropCaches));
    assert_judged(&run, "cold", Different, Note, false);
    // Files that lie inside of metadata are read with these.
    let run = Run::new(&["ext4", "btrfs"], Some("realistic")).with("btrfs", |trial| {
        trial.phases[1].files = Some(8 << 10);
        trial.phases[1].device.read_bytes = Some(0);
    });
    assert_eq!(run.judged("from-memory").1.judgement, Fine);
    // Too little was read to prove anything.
    let run = base().with("xfs", |trial| {
        trial.phases[1].read_bytes = 1000;
        trial.phases[1].device.read_bytes = Some(0);
    });
    assert_eq!(run.judged("from-memory").1.judgement, Fine);
}

#[test]
fn unfinished_work_of_mkfs_is_told() {
    let warn = |message: &'static str| {
        move |trial: &mut TrialRecord| {
            trial.warnings.push(Warning {
                code: "not-at-rest".to_owned(),
                message: message.to_owned(),
                advice: String::new(),
            });
        }
    };
    let lazy = warn("measuring began although inode tables of 9 block groups are being zeroed");
    let run = Run::new(&["ext4", "xfs"], None).with("ext4", lazy);
    assert_judged(&run, "lazy-initialisation", Different, NotComparable, false);
    let busy = warn("measuring began although the device 7:0 is not idle");
    let run = Run::new(&["ext4", "xfs"], None).with("ext4", busy);
    assert_judged(&run, "lazy-initialisation", Different, Note, false);
    let run = run.with("xfs", busy);
    assert_judged(&run, "lazy-initialisation", Same, Note, false);
}

#[test]
fn options_that_were_asked_for_are_told_as_asked() {
    for (targets, rule, judgement) in [
        (["ext4", "ext4~churn"], "age", NotComparable),
        (["ext4", "ext4+journal"], "journal-device", Note),
        (["ext4:sync", "xfs"], "synchronous", NotComparable),
        (["ext4:noatime", "ext4"], "atime", Note),
        (["ext4:strictatime", "ext4"], "atime", NotComparable),
        (["ext4:data=journal", "ext4"], "journal-mode", Note),
        (["ext4:commit=60", "ext4"], "mount-options", Note),
        (["btrfs:nodatacow", "btrfs"], "copy-on-write", Note),
        (["bcachefs:nocow", "bcachefs"], "copy-on-write", Note),
        (["bcachefs:nocow", "bcachefs"], "data-checksums", Note),
        (["bcachefs:journal_flush_disabled", "ext4"], "barriers", NotComparable),
    ] {
        let run = Run::new(&targets, Some("realistic"));
        let run = run.with("ext4+journal", |trial| {
            let device = &mut trial.facts.device;
            device.insert("journal.kind".to_owned(), "loop image".to_owned());
            device.insert("journal.backing_source".to_owned(), "/dev/vda".to_owned());
        });
        assert_judged(&run, rule, Different, judgement, true);
    }
}

#[test]
fn properties_of_zfs_are_given_to_its_mkfs() {
    for (option, set, rule, judgement) in [
        ("-O sync=disabled", "sync=disabled", "barriers", NotComparable),
        ("-O compression=zstd", "compression=zstd", "compression", NotComparable),
        ("-Ochecksum=off", "checksum=off", "data-checksums", Note),
    ] {
        let target = format!("zfs/{option}");
        let run = Run::new(&[target.as_str(), "zfs"], Some("original"));
        let run = run.with(&target, |trial| trial.facts.mkfs_effective.extend(pairs(set)));
        assert_judged(&run, rule, Different, judgement, true);
    }
    let (_, row) = Run::new(&["zfs", "ext4"], Some("original")).judged("metadata-copies");
    let shown: Vec<_> = row.values.iter().filter_map(|it| it.value.as_deref()).collect();
    assert_eq!(shown, ["2", "1"]);
}

#[test]
fn options_of_bcachefs_may_be_given_to_its_mkfs() {
    let target = "bcachefs/--compression=zstd --data_checksum none --metadata_replicas=2";
    let made = |trial: &mut TrialRecord| {
        let found = &mut trial.facts.mkfs_effective;
        found.extend(pairs("compression=zstd data_checksum=none metadata_replicas=2"));
    };
    let run = || Run::new(&[target, "btrfs"], Some("original")).with(target, made);
    assert_judged(&run(), "compression", Different, NotComparable, true);
    assert_judged(&run(), "data-checksums", Different, Note, true);
    let (_, row) = run().judged("metadata-copies");
    let shown = |row: &AuditRow| -> Vec<String> {
        row.values.iter().filter_map(|it| it.value.clone()).collect()
    };
    assert_eq!(shown(&row), ["2", "2 (DUP)"]);
    assert_eq!(row.status, Same);
    // What the mount says is in force.
    let mounted = run().with(target, |trial| {
        trial.facts.mount_effective = Some("rw,relatime,compression=none".to_owned());
    });
    assert_judged(&mounted, "compression", Same, Fine, false);
    let later = run().with(target, |trial| {
        let found = &mut trial.facts.mkfs_effective;
        found.extend(pairs("compression=none background_compression=zstd"));
    });
    let (_, row) = later.judged("compression");
    assert_eq!(shown(&row), ["zstd, in the background", "none"]);
}

#[test]
fn targets_that_completed_nothing_are_left_out() {
    let mut run = Run::new(&["ext3:barrier=0", "ext4", "xfs"], Some("realistic"));
    for trial in run.trials.iter_mut().filter(|trial| trial.target == "ext3:barrier=0") {
        trial.outcome = Outcome::Skipped { reason: "no tool".to_owned() };
    }
    let (own, row) = run.judged("barriers");
    assert_eq!((row.values.len(), row.judgement), (2, Fine));
    assert_eq!(own.fairness, Some(Fairness::ComparableWithNotes));
    // One that failed once is told.
    let mut run = Run::new(&["ext4", "other=ext4"], Some("realistic"));
    run.trials[0].outcome = Outcome::Interrupted { stage: "read".to_owned() };
    assert_judged(&run, "trials", Different, Note, false);
    // A traced trial counts nowhere.
    let mut run = Run::new(&["ext4", "other=ext4"], Some("realistic"));
    run.trials[0].role = Role::Explain;
    run.trials[0].facts.device.insert("scheduler".to_owned(), "bfq".to_owned());
    assert_eq!(run.judged("scheduler").1.judgement, Fine);
}

#[test]
fn one_target_has_facts_and_no_verdict() {
    let run = Run::new(&["ext4"], Some("original"));
    let audit = run.audit();
    assert_eq!(audit.workloads[0].fairness, None);
    assert!(audit.workloads[0].text.is_empty() && audit.rows.len() > 20);
    let mut run = run;
    run.trials.clear();
    assert_eq!(run.audit().rows, []);
}
