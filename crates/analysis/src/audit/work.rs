//! Rules about a workload on its targets: compression against what is written, how caches were emptied,
//! where bytes were read from, how many trials there are.

use fsdyno_model::audit::Judgement;
use fsdyno_model::cold::{Cold, FROM_MEMORY_SHARE, PROVING_BYTES};
use fsdyno_model::param::ParamValue;
use fsdyno_model::payload::Payload;
use fsdyno_model::record::{PhaseRecord, TargetFacts};
use fsdyno_model::units;
use fsdyno_model::workload::WorkloadSpec;

use super::subject::{Fact, Subject, option, option_of_bcachefs, options};
use super::{Asked, Compared, Judged, Rule, Scope, fine, note, unfair};
use crate::interval;

/// Share of each block that a compressor can remove, in percent, from which on a payload is taken for
/// one that favours compression.
const FAVOURING_PERCENT: u8 = 75;
/// What the device reads for each byte read, from which on a phase is taken to be served by it.
const FROM_DEVICE_SHARE: f64 = 0.5;
/// Largest file that a filesystem keeps inside its metadata unless told otherwise: max_inline of btrfs; what
/// bcachefs writes as inline data (half of a block, and no more than this).
const INLINE_BYTES: [(&str, u64); 2] = [("btrfs", 2048), ("bcachefs", 1024)];
/// Written bytes from which on the share that reached the device is told.
const WRITTEN_BYTES: u64 = 1 << 20;

/// The rules.
pub static RULES: &[Rule] = &[
    Rule {
        name: "compression",
        title: "compression",
        reason: "A filesystem that compresses wins by any amount on data that say nothing: zeros, one letter. What the classics write is of that kind; payloads of fsdyno state how far they can be compressed.",
        source: "btrfs(5) (compress); bcachefs(8) (compression); zfsprops(7) (compression); bonnie's readme; Tarasov, Bhanage, Zadok, Seltzer, Benchmarking File System Benchmarking: It *IS* Rocket Science, HotOS 2011",
        scope: Scope::Workload,
        asked: Asked::Mount(&[
            "compress",
            "compress-force",
            "compression",
            "background_compression",
        ]),
        unknown: Judgement::Note,
        judged: "Not comparable with payload=original or a payload of more than 75 % compressibility; otherwise a note.",
        read: |subject| subject.each(|facts| compression(subject, facts)),
        judge: judge_compression,
        when_same: Some(|compared| {
            let compresses = compared.known().any(|(_, fact)| fact.key != "none");
            let favours = payload(compared).is_some_and(favours);
            (compresses && favours).then(|| {
                note(
                    "what is written can be compressed away, so that figures say nothing of a disk",
                )
            })
        }),
    },
    Rule {
        name: "cold",
        title: "cache emptying",
        reason: "A phase is cold only where caches were emptied before it, in the same way on all targets. Unmounting leaves nothing; dropping caches leaves what is in use.",
        source: "Traeger, Zadok, Joukov, Wright 2008 (cache state); Documentation/admin-guide/sysctl/vm.rst (drop_caches)",
        scope: Scope::Workload,
        asked: Asked::Device,
        judged: "Not comparable where caches were emptied on some targets only; a note where it was done in two ways.",
        read: |subject| Some(emptied(subject)),
        judge: |compared| {
            let is_warm = compared
                .known()
                .any(|(own, _)| compared.known().any(|(other, _)| is_warmer(own, other)));
            match is_warm {
                true => unfair("a phase began cold on one and warm on the other"),
                false => note("caches were emptied in two ways"),
            }
        },
        ..Rule::USUAL
    },
    Rule {
        name: "from-memory",
        title: "device bytes / byte",
        reason: "Reading from memory is a hundred times as fast. What the device read for each byte that a phase read tells where it came from.",
        source: "Traeger, Zadok, Joukov, Wright 2008 (cold and warm caches); Documentation/block/stat.rst",
        scope: Scope::Workload,
        judged: "Not comparable where a phase was read from memory on one target and from the device on another; a note where a phase was called cold and read from memory on all. Targets that compress are left out, since fewer bytes are their purpose, and so are files that btrfs and bcachefs keep inside their metadata.",
        read: |subject| Some(sources(subject)),
        judge: judge_sources,
        when_same: Some(|compared| match judge_sources(compared) {
            (Judgement::Fine, _) => None,
            judged => Some(judged),
        }),
        ..Rule::USUAL
    },
    Rule {
        name: "trials",
        title: "trials completed",
        reason: "A target whose trials failed now and then is judged by those that did not.",
        source: "Traeger, Zadok, Joukov, Wright 2008 (reporting)",
        scope: Scope::Workload,
        judged: "A note where not all trials of a target completed.",
        read: |subject| {
            let (completed, planned) = (subject.trials.len(), subject.planned);
            let key = if completed == planned { "all" } else { "some" };
            Some(Fact::keyed(format!("{completed} of {planned}"), key))
        },
        judge: |_| note("trials that did not complete are in no figure"),
        ..Rule::USUAL
    },
    Rule {
        name: "traced",
        title: "tracing",
        reason: "A block trace costs time for each request.",
        source: "docs/METHODOLOGY.md (Block traces)",
        scope: Scope::Workload,
        asked: Asked::Device,
        judged: "A note where measured trials of some targets only were traced.",
        read: |subject| {
            let is_traced = subject.trials.iter().any(|trial| trial.trace.is_some());
            Some(Fact::of(if is_traced { "while measured" } else { "no" }))
        },
        judge: |_| note("tracing slows down the targets that were traced"),
        ..Rule::USUAL
    },
];

fn compression(subject: &Subject<'_>, facts: &TargetFacts) -> Option<Fact> {
    // These can, and do not say so among their mount options.
    if subject.is(&["bcachefs"]) {
        let at_once = option_of_bcachefs(facts, "compression")?;
        let later = option_of_bcachefs(facts, "background_compression").unwrap_or("none");
        return Some(match (at_once, later) {
            (_, "none") => Fact::of(at_once),
            ("none", _) => Fact::of(format!("{later}, in the background")),
            _ => Fact::of(format!("{at_once}, then {later}")),
        });
    }
    if subject.is(&["zfs"]) {
        return Some(Fact::of(match facts.mkfs_effective.get("compression")?.as_str() {
            "off" => "none",
            algorithm => algorithm,
        }));
    }
    if subject.is(&["f2fs", "ubifs", "fuse", "unknown"]) {
        return None;
    }
    let options = options(facts)?;
    let named = ["compress-force", "compress"].into_iter().find_map(|name| option(&options, name));
    Some(match named {
        None | Some("no" | "none") => Fact::of("none"),
        Some("") => Fact::of("yes"),
        Some(algorithm) => Fact::of(algorithm),
    })
}

fn payload(compared: &Compared<'_>) -> Option<Payload> {
    payload_of(compared.subjects.first()?.workload?)
}

/// The payload that a workload states; `None` where its data are its own.
fn payload_of(workload: &WorkloadSpec) -> Option<Payload> {
    let mut params = workload.params.iter();
    let (_, value) = params.find(|(name, _)| *name == "payload")?;
    match value {
        ParamValue::Text(text) => Payload::parse(text).ok(),
        _ => None,
    }
}

fn favours(payload: Payload) -> bool {
    match payload {
        Payload::Original => true,
        Payload::Realistic { compressibility_percent, .. } => {
            compressibility_percent > FAVOURING_PERCENT
        }
    }
}

fn judge_compression(compared: &Compared<'_>) -> Judged {
    if !compared.has("none") {
        return note("they compress in different ways");
    }
    let shares: Vec<String> = compared
        .subjects
        .iter()
        .filter_map(|own| Some(format!("{} {:.2}", own.label(), write_share(own)?)))
        .collect();
    let measured = match shares.is_empty() {
        true => String::new(),
        false => {
            format!(" (bytes written to the device for each byte written: {})", shares.join(", "))
        }
    };
    match payload(compared) {
        Some(stated) if favours(stated) => {
            let what = match stated {
                Payload::Original => "payload=original, mostly zeros or one letter".to_owned(),
                Payload::Realistic { .. } => format!("payload={stated}"),
            };
            (
                Judgement::NotComparable,
                format!(
                    "what is written ({what}) is compressed away on some targets only{measured}"
                ),
            )
        }
        Some(stated) => (
            Judgement::Note,
            format!("the payload states how far it can be compressed ({stated}){measured}"),
        ),
        None => (
            Judgement::Note,
            format!("nothing states how far the data of this workload can be compressed{measured}"),
        ),
    }
}

/// Bytes that the device wrote for each byte that the phases wrote, in the median of the trials.
fn write_share(subject: &Subject<'_>) -> Option<f64> {
    let shares = subject.trials.iter().filter_map(|trial| {
        let written: u64 =
            trial.phases.iter().map(|phase| phase.bytes.saturating_sub(phase.read_bytes)).sum();
        let device: u64 = trial.phases.iter().filter_map(|phase| phase.device.write_bytes).sum();
        (written >= WRITTEN_BYTES).then(|| device as f64 / written as f64)
    });
    interval::median(&shares.collect::<Vec<f64>>())
}

/// How caches were emptied before each phase that asked for it.
fn emptied_phases<'a>(subject: &Subject<'a>) -> Vec<(&'a str, Cold)> {
    let mut found: Vec<(&str, Cold)> = Vec::new();
    for trial in &subject.trials {
        for phase in &trial.phases {
            let Some(cold) = phase.cold else { continue };
            let pair = (phase.name.as_str(), cold);
            if !found.contains(&pair) {
                found.push(pair);
            }
        }
    }
    found
}

fn emptied(subject: &Subject<'_>) -> Fact {
    let phases = emptied_phases(subject);
    let keys: Vec<String> =
        phases.iter().map(|(name, cold)| format!("{name}={}", cold.word())).collect();
    let mut ways: Vec<&str> = phases.iter().map(|(_, cold)| cold.word()).collect();
    ways.sort_unstable();
    ways.dedup();
    let shown = if ways.is_empty() { "not asked for".to_owned() } else { ways.join(", ") };
    Fact::keyed(shown, keys.join(" "))
}

/// Whether some phase began cold on `other` and not on `own`, which has it too.
fn is_warmer(own: &Subject<'_>, other: &Subject<'_>) -> bool {
    let (mine, theirs) = (emptied_phases(own), emptied_phases(other));
    let has = |name: &str| {
        own.trials.iter().any(|trial| trial.phases.iter().any(|phase| phase.name == name))
    };
    let is_cold = |phases: &[(&str, Cold)], name: &str| {
        let mut own = phases.iter().filter(|(known, _)| *known == name).peekable();
        own.peek().is_some() && own.all(|(_, cold)| *cold != Cold::None)
    };
    theirs.iter().any(|(name, _)| is_cold(&theirs, name) && has(name) && !is_cold(&mine, name))
}

/// Where a phase took its bytes from.
struct Source<'a> {
    phase: &'a str,
    /// Bytes that the device read for each byte that the phase read.
    share: f64,
    is_cold: bool,
}

impl Source<'_> {
    fn word(&self) -> &'static str {
        match self.share {
            share if share < FROM_MEMORY_SHARE => "memory",
            share if share >= FROM_DEVICE_SHARE => "device",
            _ => "both",
        }
    }
}

/// The phases that mostly read, with the median of their shares; none for a target that compresses.
fn read_phases<'a>(subject: &Subject<'a>) -> Vec<Source<'a>> {
    let compressed = subject.each(|facts| compression(subject, facts));
    if compressed.is_none_or(|fact| fact.key != "none") {
        return Vec::new();
    }
    let mut names: Vec<&str> = Vec::new();
    for phase in subject.trials.iter().flat_map(|trial| &trial.phases) {
        if !names.contains(&phase.name.as_str()) {
            names.push(&phase.name);
        }
    }
    let sources = names.into_iter().filter_map(|name| {
        let own: Vec<_> = (subject.trials.iter())
            .flat_map(|trial| trial.phases.iter().filter(|phase| phase.name == name))
            .filter(|it| it.read_bytes >= PROVING_BYTES && it.read_bytes >= it.bytes / 2)
            .filter(|it| !lies_in_metadata(subject, it))
            .collect();
        let shares =
            own.iter().filter_map(|it| Some(it.device.read_bytes? as f64 / it.read_bytes as f64));
        let share = interval::median(&shares.collect::<Vec<f64>>())?;
        let is_cold = own.iter().any(|it| it.cold.is_some_and(|cold| cold != Cold::None));
        Some(Source { phase: name, share, is_cold })
    });
    sources.collect()
}

/// Whether the files of a phase are so small that the filesystem keeps them inside its metadata, where looking
/// at their attributes has read them already.
fn lies_in_metadata(subject: &Subject<'_>, phase: &PhaseRecord) -> bool {
    let files = phase.files.filter(|files| *files > 0);
    let limit = INLINE_BYTES.iter().find(|(filesystem, _)| subject.is(&[filesystem]));
    files.zip(limit).is_some_and(|(files, (_, limit))| phase.read_bytes / files <= *limit)
}

fn sources(subject: &Subject<'_>) -> Fact {
    let found = read_phases(subject);
    let shown: Vec<String> =
        found.iter().map(|it| format!("{}: {}", it.phase, units::significant(it.share))).collect();
    let keys: Vec<String> = found.iter().map(|it| format!("{} {}", it.phase, it.word())).collect();
    match found.is_empty() {
        true => Fact::of("no phase that tells"),
        false => Fact::keyed(shown.join(", "), keys.join(", ")),
    }
}

fn judge_sources(compared: &Compared<'_>) -> Judged {
    let all: Vec<(&str, Vec<Source<'_>>)> =
        compared.subjects.iter().map(|own| (own.label(), read_phases(own))).collect();
    let mut phases: Vec<&str> =
        all.iter().flat_map(|(_, own)| own.iter().map(|it| it.phase)).collect();
    let mut seen: Vec<&str> = Vec::new();
    phases.retain(|phase| {
        !seen.contains(phase) && {
            seen.push(phase);
            true
        }
    });
    let (mut mixed, mut untrue) = (Vec::new(), Vec::new());
    for phase in phases {
        let on = |word: &str| -> Vec<&str> {
            let own = all.iter().filter(|(_, sources)| {
                sources.iter().any(|it| it.phase == phase && it.word() == word)
            });
            own.map(|(label, _)| *label).collect()
        };
        let (memory, device) = (on("memory"), on("device"));
        if !memory.is_empty() && !device.is_empty() {
            let (memory, device) = (memory.join(", "), device.join(", "));
            mixed.push(format!(
                "{phase} came from memory on {memory} and from the device on {device}"
            ));
        } else if !memory.is_empty()
            && all.iter().any(|(_, own)| own.iter().any(|it| it.phase == phase && it.is_cold))
        {
            untrue.push(phase);
        }
    }
    if !mixed.is_empty() {
        return unfair(&mixed.join("; "));
    }
    match untrue.is_empty() {
        true => fine(),
        false => note(&format!("called cold, but read from memory: {}", untrue.join(", "))),
    }
}
