//! Rules about what lies under the filesystems: device, place on it, cache, queue.

use fsdyno_model::audit::Judgement;
use fsdyno_model::record::TargetFacts;
use fsdyno_model::units;

use super::subject::{Fact, Subject, number};
use super::{Asked, Compared, Judged, Rule, note, unfair};

const QUEUE_DOC: &str = "Documentation/ABI/stable/sysfs-block of the Linux kernel";

/// The rules.
pub static RULES: &[Rule] = &[
    Rule {
        name: "device",
        title: "device and position",
        reason: "Two devices are never equally fast, and a disk is faster at its beginning than at its end.",
        source: "Traeger, Zadok, Joukov, Wright 2008 (zone constant angular velocity); Documentation/ABI/stable/sysfs-block (start)",
        asked: Asked::Device,
        unknown: Judgement::Note,
        judged: "Not comparable on different devices, or at different places of a disk that rotates; a note at different places of one that does not, or on two of one model.",
        read: |subject| subject.each(|facts| place(subject, facts, "")),
        judge: judge_place,
        ..Rule::USUAL
    },
    Rule {
        name: "device-size",
        title: "device size",
        reason: "Sizes of groups, journals and chunks are chosen by the size of the device, and more of it is more to choose from.",
        source: "mke2fs(8), mkfs.xfs(8)",
        asked: Asked::Device,
        judged: "Not comparable from 1 % of difference on, otherwise a note.",
        read: |subject| {
            subject.each(|facts| {
                let size = number(&facts.device, "size_bytes")?;
                Some(Fact::keyed(units::human_bytes(size), size.to_string()))
            })
        },
        judge: |compared| {
            let sizes = compared.known().filter_map(|(_, fact)| fact.key.parse::<f64>().ok());
            let (least, most) = sizes.fold((f64::INFINITY, 0.0f64), |(least, most), size| {
                (least.min(size), most.max(size))
            });
            match most <= least * 1.01 {
                true => note("the sizes differ a little"),
                false => unfair("mkfs lays out a smaller device in another way"),
            }
        },
        ..Rule::USUAL
    },
    Rule {
        name: "array",
        title: "array",
        reason: "A mirror writes everything twice and may read from either side, stripes work side by side, encryption takes the processor; chunk, layout and bitmap decide how many requests there are.",
        source: "md(4), mdadm(8), lvmraid(7), Documentation/admin-guide/device-mapper",
        asked: Asked::Device,
        judged: "Not comparable where devices are put together otherwise, or by a tool of another make; nor where an array was synchronised meanwhile, or had lost a member.",
        read: |subject| subject.each(|facts| array(facts, "")),
        judge: |_| unfair("devices are put together otherwise below them"),
        when_same: Some(|compared| {
            let ails = |words: &str| compared.known().any(|(_, fact)| fact.key.contains(words));
            if ails("at work: ") {
                return Some(unfair("the arrays were at work on their own while it was measured"));
            }
            ails(" missing").then(|| unfair("the arrays had lost a member"))
        }),
        ..Rule::USUAL
    },
    Rule {
        name: "write-cache",
        title: "device write cache",
        reason: "With a volatile cache a write returns at once and a flush is expensive; without, it is the other way round.",
        source: "Documentation/block/writeback_cache_control.rst, sysfs-block (write_cache)",
        asked: Asked::Device,
        unknown: Judgement::Note,
        judged: "Not comparable where it is on for some targets only.",
        read: |subject| subject.device("write_cache"),
        judge: |_| unfair("a flush costs something on one and nothing on the other"),
        ..Rule::USUAL
    },
    Rule {
        name: "scheduler",
        title: "I/O scheduler",
        reason: "The scheduler decides the order of requests, and who waits.",
        source: QUEUE_DOC,
        asked: Asked::Device,
        judged: "Not comparable where they differ.",
        read: |subject| subject.device("scheduler"),
        judge: |_| unfair("requests are ordered by another scheduler"),
        ..Rule::USUAL
    },
    Rule {
        name: "rotational",
        title: "rotating device",
        reason: "Filesystems place files otherwise on a device that seeks, and the device takes longer.",
        source: QUEUE_DOC,
        asked: Asked::Device,
        judged: "Not comparable where they differ.",
        read: |subject| {
            subject.each(|facts| {
                let flag = facts.device.get("rotational")?;
                Some(Fact::of(if flag == "1" { "yes" } else { "no" }))
            })
        },
        judge: |_| unfair("one is told to seek, the other not to"),
        ..Rule::USUAL
    },
    Rule {
        name: "queue",
        title: "device queue",
        reason: "How many requests wait, and how large one may be.",
        source: QUEUE_DOC,
        asked: Asked::Device,
        judged: "A note where they differ.",
        read: |subject| {
            subject.each(|facts| {
                let requests = facts.device.get("nr_requests")?;
                let kib = facts.device.get("max_sectors_kb")?;
                Some(Fact::of(format!("{requests} requests of up to {kib} KiB")))
            })
        },
        judge: |_| note("one can have more or larger requests under way"),
        ..Rule::USUAL
    },
    Rule {
        name: "read-ahead",
        title: "read-ahead",
        reason: "How far reading runs ahead decides sequential reads. btrfs has a setting of its own, of 4 MiB or more.",
        source: "Documentation/ABI/testing/sysfs-class-bdi, fs/btrfs/disk-io.c (ra_pages)",
        asked: Asked::Device,
        judged: "Not comparable where the setting of the device differs, a note where a filesystem has its own.",
        read: |subject| subject.each(read_ahead),
        judge: |compared| {
            let of_device = |own: &Subject<'_>| own.device("read_ahead_kb").map(|it| it.key);
            let mut settings = compared.subjects.iter().filter_map(of_device);
            let first = settings.next();
            match settings.any(|other| Some(&other) != first.as_ref()) {
                true => unfair("the devices read ahead by another length"),
                false => note(
                    "a filesystem that reads ahead further is faster where files are read whole",
                ),
            }
        },
        ..Rule::USUAL
    },
    Rule {
        name: "sectors",
        title: "device sectors",
        reason: "Smaller writes than a physical sector make the device read first.",
        source: QUEUE_DOC,
        asked: Asked::Device,
        judged: "A note where they differ.",
        read: |subject| {
            subject.each(|facts| {
                let logical = facts.device.get("logical_block_size_bytes")?;
                let physical = facts.device.get("physical_block_size_bytes")?;
                Some(Fact::of(format!("{logical} B, physical {physical} B")))
            })
        },
        judge: |_| note("the smallest write that costs no read differs"),
        ..Rule::USUAL
    },
    Rule {
        name: "image",
        title: "under the image",
        reason: "An image adds the filesystem that it lies on; without direct I/O everything is cached twice, and a flush ends in memory.",
        source: "losetup(8) (--direct-io)",
        asked: Asked::Device,
        judged: "Not comparable where they differ; a note where no image passes I/O directly.",
        read: |subject| subject.each(under),
        judge: |_| unfair("one has another layer below it"),
        when_same: Some(|compared| {
            let is_cached = compared.known().any(|(_, fact)| fact.key.ends_with("cached twice"));
            is_cached.then(|| {
                note("images are cached by their host too, so that figures contain its memory")
            })
        }),
        ..Rule::USUAL
    },
    Rule {
        name: "emptied",
        title: "device before mkfs",
        reason: "Flash that was told what is free has room to write to; what was not discarded is still occupied.",
        source: "SNIA, Solid State Storage Performance Test Specification (purge)",
        asked: Asked::Device,
        judged: "A note where they differ.",
        read: |subject| {
            subject.each(|facts| match facts.device.get("kind")?.as_str() {
                "loop image" | "emulated disk" => Some(Fact::of("a new image")),
                "directory" => Some(Fact::of("nothing was done")),
                _ => facts.device.get("emptied_by").map(Fact::of),
            })
        },
        judge: |_| note("devices did not begin in one state"),
        ..Rule::USUAL
    },
];

/// Where it is: the directory of the images, or the disk and the place on it.
fn place(subject: &Subject<'_>, facts: &TargetFacts, prefix: &str) -> Option<Fact> {
    let get = |name: &str| facts.device.get(&format!("{prefix}{name}")).map(String::as_str);
    match get("kind")? {
        "loop image" => {
            let source = get("backing_source").unwrap_or("an unknown disk");
            let image = get("image").unwrap_or_default();
            // Below it lie the directories of run and trial.
            let directory = image.rsplitn(4, '/').nth(3).unwrap_or(image);
            let shown = format!("image on {source}");
            Some(Fact::keyed(shown, format!("image {source} {directory}")))
        }
        "emulated disk" => Some(Fact::of(format!("emulated {}", get("disk_model")?))),
        "directory" => {
            let (source, mounted) = (get("source")?, get("mount_point")?);
            let shown = format!("{} on {source}", subject.label());
            Some(Fact::keyed(shown, format!("{source} {mounted}")))
        }
        // Its own path says nothing: where its members lie does.
        "array" => {
            let members = (1..)
                .map_while(|number| place(subject, facts, &format!("{prefix}member{number}.")));
            let (mut shown, mut keys) = (Vec::new(), Vec::new());
            for member in members {
                if !shown.contains(&member.shown) {
                    shown.push(member.shown);
                }
                keys.push(member.key);
            }
            let array = get("array")?;
            let shown = format!("{array} of {}", shown.join(", "));
            Some(Fact::keyed(shown, format!("{array} {}", keys.join(" "))))
        }
        _ => Some(Fact::of(get("path")?)),
    }
}

/// How devices are put together, as the kernel has it; the state beside it.
fn array(facts: &TargetFacts, prefix: &str) -> Option<Fact> {
    let get = |name: &str| facts.device.get(&format!("{prefix}{name}")).map(String::as_str);
    get("kind")?;
    let Some(kind) = get("array").or_else(|| get("array_level")) else {
        return Some(Fact::of("one device"));
    };
    let mut words = vec![format!("{kind} of {}", get("array_members").unwrap_or("1"))];
    let own_word = |name: &str, what: &str| get(name).map(|value| format!("{what} {value}"));
    let chunk = get("array_chunk_bytes").and_then(|bytes| bytes.parse::<u64>().ok());
    words.extend(chunk.map(|bytes| format!("chunk {}", units::human_bytes(bytes))));
    words.extend(get("array_level").filter(|level| *level != kind).map(str::to_owned));
    words.extend(own_word("array_layout", "layout").filter(|_| get("array_layout") != Some("0")));
    words.extend(own_word("array_metadata", "metadata"));
    words.extend(own_word("array_bitmap", "bitmap"));
    let is_busy = |state: &&str| !matches!(*state, "idle" | "frozen");
    words.extend(get("array_sync").filter(is_busy).map(|state| format!("at work: {state}")));
    words.extend(get("array_degraded").filter(|it| *it != "0").map(|it| format!("{it} missing")));
    // An array of arrays: its first member tells of all, which are made alike.
    let inner = array(facts, &format!("{prefix}member1."));
    words.extend(inner.map(|it| it.shown).filter(|it| it != "one device"));
    Some(Fact::of(words.join(", ")))
}

fn judge_place(compared: &Compared<'_>) -> Judged {
    let all = |name: &str| -> Vec<String> {
        let facts = compared.subjects.iter().map(|own| own.device(name).map(|it| it.key));
        let mut found: Vec<String> = facts.map(Option::unwrap_or_default).collect();
        found.sort_unstable();
        found.dedup();
        found
    };
    let (disks, models, rotational) = (all("disk"), all("model"), all("rotational"));
    let is_one = |found: &[String]| found.len() == 1 && !found[0].is_empty();
    let is_flash = rotational == ["0"];
    if is_one(&disks) && is_flash {
        return note("they lie at different places of one disk that does not rotate");
    }
    if is_one(&disks) {
        return unfair(
            "they lie at different places of one disk, which is faster at its beginning",
        );
    }
    if is_one(&models) && disks.iter().all(|disk| !disk.is_empty()) {
        return note("two devices of one model can differ by wear and by what is on them");
    }
    unfair("they are on different devices, so that devices are compared")
}

fn read_ahead(facts: &TargetFacts) -> Option<Fact> {
    let own = facts.device.get("filesystem_read_ahead_kb");
    let kib = own.or_else(|| facts.device.get("read_ahead_kb"))?;
    Some(Fact::of(format!("{kib} KiB")))
}

fn under(facts: &TargetFacts) -> Option<Fact> {
    let get = |name: &str| facts.device.get(name).map(String::as_str);
    let direct = match get("loop_direct_io") {
        None => return Some(Fact::of("no image")),
        Some("true") => "direct I/O",
        Some(_) => "cached twice",
    };
    let on = get("backing_filesystem").unwrap_or("an unknown filesystem");
    Some(Fact::of(format!("{on}, {direct}")))
}
