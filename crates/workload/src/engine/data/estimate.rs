//! How much a definition puts on its target at most. It is an estimate from above: files as large as the
//! mean of their distribution and four standard errors more, as many as there can be at once, and what
//! is appended to them.

use super::fileset::{directories, greatest};
use crate::engine::definition::{
    Amount, Definition, Distribution, EntryKind, Fileset, FilesetIndex, Group, Op, Phase, SLOTS,
    Step, Tree, Usage,
};

/// What a file or directory takes is rounded up to this, in bytes.
const BLOCK_BYTES: u64 = 4096;
/// Bytes of an entry in a directory whose blocks are half full.
const ENTRY_BYTES: u64 = 64;
/// Standard errors above the mean.
const ERRORS: f64 = 4.0;
/// Ranks of Zipf's law that are summed one by one.
const RANKS: u64 = 10_000;

/// Bytes of files and directories that are there at once; `None` where a phase that only time ends
/// appends to files that nothing makes short again.
pub(super) fn peak_bytes(definition: &Definition) -> Option<u64> {
    let mut total: u64 = 0;
    for (index, fileset) in definition.filesets.iter().enumerate() {
        let mut bytes = content_bytes(definition, index).saturating_add(tree_bytes(fileset));
        for phase in &definition.phases {
            bytes = bytes.saturating_add(appended_bytes(phase, index, fileset)?);
        }
        total = total.saturating_add(bytes);
    }
    Some(total.max(BLOCK_BYTES))
}

/// What the files of a fileset hold when each was written whole.
fn content_bytes(definition: &Definition, index: FilesetIndex) -> u64 {
    let fileset = &definition.filesets[index];
    if let Some(list) = &fileset.list {
        let mut sizes: Vec<(&str, u64)> =
            list.iter().map(|file| (file.path.as_str(), file.size_bytes)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let rounded = sizes.iter().map(|(_, bytes)| bytes.next_multiple_of(BLOCK_BYTES));
        return rounded.fold(0, u64::saturating_add);
    }
    if fileset.kind == EntryKind::Directory {
        return fileset.entries.saturating_mul(BLOCK_BYTES);
    }
    let mut each = if fileset.kind == EntryKind::File {
        expected_bytes(&fileset.size, fileset.entries)
    } else {
        0
    };
    // Files may also be made as large as a step says, or come from another fileset.
    for_each_op(definition, |op, opened| {
        let size = match op {
            Op::Fallocate { slot, size } if opened[*slot].contains(&index) => {
                expected_bytes(size, fileset.entries)
            }
            Op::Write { slot, amount: Amount::Blocks { block_bytes, count }, .. }
                if opened[*slot].contains(&index) =>
            {
                block_bytes.saturating_mul(*count)
            }
            Op::Rename { fileset: from, into, .. }
            | Op::CopyFileRange { fileset: from, into, .. }
            | Op::Reflink { fileset: from, into, .. }
                if *into == index && *from != index =>
            {
                expected_bytes(&definition.filesets[*from].size, fileset.entries)
            }
            _ => 0,
        };
        each = each.max(size);
    });
    fileset.entries.saturating_mul(each)
}

/// What one file takes on average over `count` draws, with a margin for chance.
fn expected_bytes(size: &Distribution, count: u64) -> u64 {
    let (mean, deviation) = moments(size);
    let above = mean + ERRORS * deviation / (count.max(1) as f64).sqrt();
    let above = (above.min(greatest(size) as f64)).ceil() as u64;
    // On average half of the last block is empty; a block more is always enough.
    match size {
        Distribution::Fixed(bytes) => bytes.next_multiple_of(BLOCK_BYTES),
        _ => above.saturating_add(BLOCK_BYTES / 2).next_multiple_of(BLOCK_BYTES / 2),
    }
}

/// Mean and standard deviation of a distribution, in bytes; those of one that is cut off are at most
/// those before the cut.
pub(super) fn moments(size: &Distribution) -> (f64, f64) {
    match size {
        Distribution::Fixed(bytes) => (*bytes as f64, 0.0),
        Distribution::Uniform { min, max } => {
            let (min, max) = (*min as f64, *max as f64);
            ((min + max) / 2.0, (max - min) / 12f64.sqrt())
        }
        Distribution::Lognormal { median, sigma, max } => {
            let variance = sigma * sigma;
            let mean = median * (variance / 2.0).exp();
            let deviation = mean * variance.exp_m1().sqrt();
            (mean.min(*max as f64), deviation.min(*max as f64))
        }
        Distribution::Gamma { mean, shape, .. } => (*mean, mean / shape.sqrt()),
        Distribution::Zipf { min, max, theta } => zipf_moments(*min, *max, *theta),
        Distribution::Empirical(pairs) => {
            let weight: f64 = pairs.iter().map(|(_, weight)| weight).sum();
            let over = |power: i32| -> f64 {
                pairs.iter().map(|(size, w)| (*size as f64).powi(power) * w).sum::<f64>() / weight
            };
            let mean = over(1);
            (mean, (over(2) - mean * mean).max(0.0).sqrt())
        }
    }
}

fn zipf_moments(min: u64, max: u64, theta: f64) -> (f64, f64) {
    let ranks = (max / min.max(1)).max(1);
    // The sum of rank^power; what is beyond the ranks that are summed is taken as an integral.
    let sum = |power: f64| -> f64 {
        let summed = ranks.min(RANKS);
        let head: f64 = (1..=summed).map(|rank| (rank as f64).powf(power)).sum();
        if ranks == summed {
            return head;
        }
        let (from, to) = (summed as f64 + 0.5, ranks as f64 + 0.5);
        let next = power + 1.0;
        let tail = if next.abs() < 1e-9 {
            (to / from).ln()
        } else {
            (to.powf(next) - from.powf(next)) / next
        };
        head + tail
    };
    let weights = sum(-theta);
    let mean = sum(1.0 - theta) / weights;
    let variance = (sum(2.0 - theta) / weights - mean * mean).max(0.0);
    (mean * min as f64, variance.sqrt() * min as f64)
}

/// The directories of a fileset.
fn tree_bytes(fileset: &Fileset) -> u64 {
    let count = match fileset.tree {
        Tree::Flat => 1,
        Tree::Width(width) if width > 1 => {
            // One more directory for each `width` entries, and those above them.
            (fileset.entries / width).saturating_mul(2).saturating_add(1)
        }
        Tree::Width(_) => fileset.entries.saturating_mul(2),
        Tree::Levels { depth, branch } => directories(depth, branch).unwrap_or(u64::MAX),
    };
    let entries = fileset.entries.saturating_mul(ENTRY_BYTES);
    count.saturating_mul(BLOCK_BYTES).saturating_add(entries)
}

/// What the phase appends to the files of a fileset.
fn appended_bytes(phase: &Phase, index: FilesetIndex, fileset: &Fileset) -> Option<u64> {
    let entries = fileset.entries;
    let mut per_task: f64 = 0.0;
    let mut is_shortened = false;
    let mut at_first: f64 = 0.0;
    for group in &phase.groups {
        let opened = opened_by(group);
        let mut in_steps = |steps: &[Step]| {
            let mut appended = 0.0;
            walk(steps, 1.0, &mut |op, times| match op {
                Op::Append { slot, bytes } if opened[*slot].contains(&index) => {
                    appended += times * expected_bytes(bytes, entries) as f64;
                }
                Op::Unlink { fileset, .. } | Op::Rename { fileset, .. } if *fileset == index => {
                    is_shortened = true;
                }
                Op::Truncate { slot, .. }
                | Op::Write { slot, amount: Amount::Whole { .. }, .. }
                    if opened[*slot].contains(&index) =>
                {
                    is_shortened = true;
                }
                _ => {}
            });
            appended
        };
        let weights: f64 = group.tasks.iter().map(|task| task.weight).sum();
        for task in &group.tasks {
            // A group that is no part of the count of tasks may do as many as the rest.
            let share = if phase.end.tasks.is_some() { 1.0 } else { task.weight / weights };
            per_task += in_steps(&task.steps) * share;
        }
        at_first += in_steps(&group.begin) * f64::from(group.jobs);
    }
    let once = replayed_bytes(phase, index, fileset).saturating_add(at_first as u64);
    if per_task == 0.0 {
        return Some(once);
    }
    // Where files are made anew meanwhile, each is appended to as often as tasks come by on average.
    let renewed = is_shortened.then_some(per_task * 2.0 * entries as f64);
    let counted = phase.end.tasks.map(|tasks| per_task * tasks as f64);
    let bytes = match (renewed, counted) {
        (Some(renewed), Some(counted)) => renewed.min(counted),
        (renewed, counted) => renewed.or(counted)?,
    };
    Some(once.saturating_add(bytes as u64))
}

/// What a replay appends; each line of the list is done once.
fn replayed_bytes(phase: &Phase, index: FilesetIndex, fileset: &Fileset) -> u64 {
    let mut is_replayed = false;
    for steps in phase.groups.iter().flat_map(all_steps) {
        walk(steps, 1.0, &mut |op, _| {
            is_replayed |= matches!(op, Op::Replay { fileset } if *fileset == index);
        });
    }
    let files = fileset.list.as_deref().filter(|_| is_replayed).unwrap_or_default();
    files.iter().fold(0, |sum, file| match file.usage {
        Usage::AppendDurably { count_bytes } => {
            sum.saturating_add(count_bytes.next_multiple_of(BLOCK_BYTES))
        }
        _ => sum,
    })
}

/// The filesets whose files a group opens in each slot.
fn opened_by(group: &Group) -> [Vec<FilesetIndex>; SLOTS] {
    let mut opened: [Vec<FilesetIndex>; SLOTS] = Default::default();
    for steps in all_steps(group) {
        walk(steps, 1.0, &mut |op, _| {
            if let Op::Create { fileset, slot, .. } | Op::Open { fileset, slot, .. } = op {
                opened[*slot].push(*fileset);
            }
        });
    }
    opened
}

/// What the jobs of a group do before the phase and in it.
fn all_steps(group: &Group) -> impl Iterator<Item = &[Step]> {
    let tasks = group.tasks.iter().map(|task| &task.steps[..]);
    std::iter::once(&group.begin[..]).chain(tasks)
}

/// Calls `each` for every operation with how often it is done in a task.
fn walk<'s>(steps: &'s [Step], times: f64, each: &mut dyn FnMut(&'s Op, f64)) {
    for step in steps {
        match step {
            Step::Do(op) => each(op, times),
            Step::Repeat { count, steps } => walk(steps, times * *count as f64, each),
        }
    }
}

fn for_each_op(definition: &Definition, mut each: impl FnMut(&Op, &[Vec<FilesetIndex>; SLOTS])) {
    for group in definition.phases.iter().flat_map(|phase| &phase.groups) {
        let opened = opened_by(group);
        for steps in all_steps(group) {
            walk(steps, 1.0, &mut |op, _| each(op, &opened));
        }
    }
}
