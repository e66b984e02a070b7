//! Contents of one file: whether its length and each of its records may be what was found.

use super::timeline::Timeline;
use super::{Broken, Promise, Rules};
use crate::content::{self, Found, RECORD};
use crate::found::FoundFile;
use crate::history::{Deed, FileId};

/// A change of a file's contents.
#[derive(Debug, Clone, Copy)]
struct Change {
    operation: u32,
    /// Bytes that were written; for a new length those that were cut off, to the end of everything.
    from: u64,
    to: u64,
    is_write: bool,
    size_after: u64,
}

/// Whether `found` may be `file`, under `name`.
///
/// # Errors
/// The first promise that it breaks.
pub(super) fn check(
    timeline: &Timeline<'_>,
    name: &str,
    file: FileId,
    found: &FoundFile,
    rules: Rules,
) -> Result<(), Broken> {
    let contents = found.contents.as_ref().map_err(|why| {
        Broken::new(Promise::Readable, format!("{name} (file {file}): {why}"), None)
    })?;
    let changes = changes(timeline, file);
    let replaced = timeline.replaced_by(name, file);
    let acknowledged = timeline.file_floor(file);
    let floor = acknowledged.max(replaced);
    let (data, size) = match replaced > acknowledged {
        true => (Promise::ReplaceWhole, Promise::ReplaceWhole),
        false => (Promise::DataKept, Promise::SizeKept),
    };
    let told = |promise, what: String| {
        Err(Broken::new(promise, format!("{name} (file {file}) {what}"), floor))
    };
    let floor_number = floor.unwrap_or(0);
    let promised = changes.partition_point(|change| change.operation <= floor_number);
    let before = promised.checked_sub(1).map_or(0, |last| changes[last].size_after);
    let sizes = || changes[promised..].iter().map(|change| change.size_after).chain([before]);
    let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
    let length = contents.len() as u64;
    if length < least || length > most {
        let wanted =
            if least == most { format!("{least}") } else { format!("from {least} to {most}") };
        return told(size, format!("has {length} bytes, not {wanted}"));
    }
    let (old, new) = changes.split_at(promised);
    for (place, record) in contents.chunks_exact(RECORD as usize).enumerate() {
        let offset = place as u64 * RECORD;
        let covers = |change: &&Change| change.from <= offset && offset < change.to;
        // What it was at the floor, and what may have come since.
        let bottom = old.iter().rev().find(covers).filter(|change| change.is_write);
        let what = match content::look(rules.seed, record) {
            Found::Zeros if bottom.is_none() => continue,
            Found::Zeros if new.iter().any(|change| covers(&change) && !change.is_write) => {
                continue;
            }
            Found::Zeros => "zeros".to_owned(),
            Found::Foreign => {
                return told(Promise::OwnData, format!("holds at byte {offset} what nobody wrote"));
            }
            Found::Record { file: own, place: at, .. } if own != file || at != place as u32 => {
                let at = u64::from(at) * RECORD;
                let what = format!("holds at byte {offset} bytes of file {own} from byte {at}");
                return told(Promise::OwnData, what);
            }
            Found::Record { operation, .. } => {
                let is_bottom = bottom.is_some_and(|change| change.operation == operation);
                let is_new =
                    new.iter().any(|change| change.operation == operation && covers(&change));
                if is_bottom || is_new {
                    continue;
                }
                format!("the bytes of operation {operation}")
            }
        };
        let wanted = bottom.map_or_else(
            || "zeros or newer bytes".to_owned(),
            |change| format!("those of operation {} or newer ones", change.operation),
        );
        return told(data, format!("holds at byte {offset} {what}, not {wanted}"));
    }
    Ok(())
}

fn changes(timeline: &Timeline<'_>, file: FileId) -> Vec<Change> {
    let mut size = 0;
    let mut changes = Vec::new();
    for (operation, deed) in timeline.begun() {
        match deed {
            Deed::Write { file: own, offset, length } if *own == file => {
                let to = offset + length;
                size = size.max(to);
                let (from, is_write, size_after) = (*offset, true, size);
                changes.push(Change { operation, from, to, is_write, size_after });
            }
            Deed::Truncate { file: own, size: new } if *own == file => {
                size = *new;
                let (from, to, is_write, size_after) = (*new, u64::MAX, false, size);
                changes.push(Change { operation, from, to, is_write, size_after });
            }
            _ => {}
        }
    }
    changes
}
