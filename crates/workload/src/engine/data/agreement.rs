//! What cannot be seen from one value alone: whether steps find an open file, whether a phase ends,
//! whether an engine serves what is asked of it.

use std::collections::BTreeSet;

use fsdyno_model::units;

use super::fields::{Fields, Reader};
use super::phase::LocatedGroup;
use super::step::Known;
use crate::engine::definition::{
    Access, Amount, Distribution, End, Engine, Fileset, FilesetIndex, Op, SLOTS, Step,
};

/// Direct I/O is done at multiples of this, in bytes, which suits every device. Sizes that are drawn for a
/// file that is open so are rounded up to it.
const DIRECT_BYTES: u64 = 4096;

/// Checks a phase whose parts are each right.
pub(super) fn check(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    known: &Known<'_>,
    end: End,
    groups: &[LocatedGroup],
) {
    if groups.is_empty() {
        reader.wrong(fields.span_of("group"), "a phase has at least one group");
    } else if groups.iter().all(|one| one.group.background) {
        let message = "all groups of this phase are background, so that it would never end: let \
                       one be without background = true";
        reader.wrong(fields.span.clone(), message);
    }
    for group in groups {
        check_steps(reader, group);
        check_slots(reader, known, group);
        check_engine(reader, group);
    }
    check_semaphores(reader, known, groups);
    if end == End::default() {
        check_end(reader, groups);
    }
}

fn check_steps(reader: &mut Reader<'_>, group: &LocatedGroup) {
    if group.group.tasks.iter().any(|task| task.steps.is_empty()) {
        let message = format!(
            "a task of the group {} has no step left with these values of its parameters",
            group.group.name
        );
        reader.wrong(group.span.clone(), message);
    }
}

/// An open file, as far as the text tells.
#[derive(Clone, Default)]
struct Opened {
    filesets: Vec<FilesetIndex>,
    is_direct: bool,
    /// Whether every opening is for reading alone.
    is_read_only: bool,
}

fn check_slots(reader: &mut Reader<'_>, known: &Known<'_>, group: &LocatedGroup) {
    let mut slots: [Option<Opened>; SLOTS] = Default::default();
    for (op, _) in &group.ops {
        let (slot, fileset, is_direct, is_read_only) = match op {
            Op::Create { slot, fileset, direct, .. } => (*slot, *fileset, *direct, false),
            Op::Open { slot, fileset, direct, write, .. } => (*slot, *fileset, *direct, !*write),
            _ => continue,
        };
        let opened = slots[slot].get_or_insert(Opened { is_read_only: true, ..Opened::default() });
        opened.filesets.push(fileset);
        opened.is_direct |= is_direct;
        opened.is_read_only &= is_read_only;
    }
    for (op, span) in &group.ops {
        let Some(slot) = op.slot() else { continue };
        let Some(opened) = &slots[slot] else {
            let message = format!(
                "nothing in the group {} opens slot {slot}: add a step open or create before this",
                group.group.name
            );
            reader.wrong(span.clone(), message);
            continue;
        };
        if opened.is_read_only && writes(op) {
            let message = format!("slot {slot} is open for reading alone: open with write = true");
            reader.wrong(span.clone(), message);
        }
        if opened.is_direct
            && let Some(bytes) = unaligned(op, opened, known.filesets)
        {
            let message = format!(
                "direct I/O is in multiples of {DIRECT_BYTES} bytes, and this step takes {bytes}"
            );
            reader.wrong(span.clone(), message);
        }
    }
}

/// Whether the file must be open for writing.
fn writes(op: &Op) -> bool {
    matches!(
        op,
        Op::Write { .. }
            | Op::Append { .. }
            | Op::Overwrite { .. }
            | Op::Rewrite { .. }
            | Op::MmapWrite { .. }
            | Op::Truncate { .. }
            | Op::Fallocate { .. }
            | Op::Punch { .. }
    )
}

/// A number of bytes of `op` that direct I/O does not take.
fn unaligned(op: &Op, opened: &Opened, filesets: &[Fileset]) -> Option<String> {
    let odd = |bytes: u64| !bytes.is_multiple_of(DIRECT_BYTES);
    let (access, amount) = match op {
        Op::Read { access, amount, .. }
        | Op::Write { access, amount, .. }
        | Op::Overwrite { access, amount, .. }
        | Op::Rewrite { access, amount, .. } => (access, amount),
        _ => return None,
    };
    let (Amount::Whole { block_bytes } | Amount::Blocks { block_bytes, .. }) = amount;
    if odd(*block_bytes) {
        return Some(units::exact_bytes(*block_bytes));
    }
    if let Access::Strided(stride) = access
        && odd(*stride)
    {
        return Some(format!("strides of {}", units::exact_bytes(*stride)));
    }
    // The last block of a whole file is as long as the file lets it be.
    if matches!(op, Op::Read { .. } | Op::Write { .. }) || matches!(amount, Amount::Blocks { .. }) {
        return None;
    }
    opened.filesets.iter().find_map(|fileset| odd_size(&filesets.get(*fileset)?.size))
}

/// A size of the distribution that direct I/O does not take.
fn odd_size(size: &Distribution) -> Option<String> {
    let odd = |bytes: u64| !bytes.is_multiple_of(DIRECT_BYTES);
    match size {
        Distribution::Fixed(bytes) => odd(*bytes).then(|| units::exact_bytes(*bytes)),
        Distribution::Empirical(pairs) => {
            pairs.iter().find(|(bytes, _)| odd(*bytes)).map(|(bytes, _)| units::exact_bytes(*bytes))
        }
        Distribution::Zipf { min, .. } => {
            odd(*min).then(|| format!("multiples of {}", units::exact_bytes(*min)))
        }
        _ => Some("sizes of any number of bytes".to_owned()),
    }
}

fn check_engine(reader: &mut Reader<'_>, group: &LocatedGroup) {
    if !matches!(group.group.engine, Engine::IoUring { .. }) {
        return;
    }
    for (op, span) in &group.ops {
        if !is_served_by_io_uring(op) {
            let message = "io_uring does not serve this operation: use engine = \"psync\"";
            reader.wrong(span.clone(), message);
        }
    }
}

/// Whether the engine io_uring does the operation.
#[must_use]
pub fn is_served_by_io_uring(op: &Op) -> bool {
    !matches!(
        op,
        Op::Readdir { .. }
            | Op::Rewrite { .. }
            | Op::MmapRead { .. }
            | Op::MmapWrite { .. }
            | Op::CopyFileRange { .. }
            | Op::Reflink { .. }
            | Op::Lock { .. }
            | Op::SetXattr { .. }
            | Op::GetXattr { .. }
            | Op::Replay { .. }
            | Op::Hog { .. }
            | Op::Post { .. }
            | Op::Wait { .. }
    )
}

fn check_semaphores(reader: &mut Reader<'_>, known: &Known<'_>, groups: &[LocatedGroup]) {
    let all = || groups.iter().flat_map(|group| &group.ops);
    let posted: BTreeSet<usize> = all()
        .filter_map(|(op, _)| match op {
            Op::Post { semaphore, .. } => Some(*semaphore),
            _ => None,
        })
        .collect();
    for (op, span) in all() {
        if let Op::Wait { semaphore, .. } = op
            && !posted.contains(semaphore)
        {
            let name = known.semaphores.get(*semaphore).map_or("", String::as_str);
            let message = format!("nothing in this phase posts to `{name}`: this waits for ever");
            reader.wrong(span.clone(), message);
        }
    }
}

/// Whether the work of every group in the foreground is used up at some time: every task takes an entry
/// that no other may take, so that none of them can be drawn for ever.
fn check_end(reader: &mut Reader<'_>, groups: &[LocatedGroup]) {
    for one in groups.iter().filter(|one| !one.group.background) {
        if !one.group.tasks.iter().all(|task| task.steps.iter().any(is_finite)) {
            let message = format!(
                "nothing ends this phase: the work of the group {} is never used up; give the \
                 phase a runtime or a number of tasks, or let a step of each task pick = \"once\"",
                one.group.name
            );
            reader.wrong(one.span.clone(), message);
        }
    }
}

fn is_finite(step: &Step) -> bool {
    match step {
        Step::Do(op) => op.is_finite(),
        Step::Repeat { steps, .. } => steps.iter().any(is_finite),
    }
}
