//! Who issued how much.

use fsdyno_model::io_graph::{IoClass, ProcessIo};

use super::names::Names;
use super::pass::{Dispatch, Pass, is_read, is_write};

/// What each name issued, by its index.
#[derive(Debug, Clone, Default)]
pub(super) struct Processes {
    rows: Vec<ProcessIo>,
}

impl Processes {
    /// All that issued anything, most bytes first.
    pub fn table(&self, names: &Names) -> Vec<ProcessIo> {
        let mut table: Vec<ProcessIo> = (0..)
            .zip(&self.rows)
            .filter(|(_, row)| row.reads + row.writes + row.seeks > 0)
            .map(|(index, row)| ProcessIo { name: names.name(index).to_owned(), ..row.clone() })
            .collect();
        table.sort_by_key(|row| std::cmp::Reverse(row.read_bytes.saturating_add(row.write_bytes)));
        table
    }
}

impl Pass for Processes {
    #[inline]
    fn dispatch(&mut self, dispatch: &Dispatch) {
        let index = usize::from(dispatch.who.name);
        if index >= self.rows.len() {
            self.rows.resize(index + 1, ProcessIo::default());
        }
        let row = &mut self.rows[index];
        let bytes = dispatch.bytes;
        row.seeks += u64::from(dispatch.is_seek);
        if is_read(dispatch.class) {
            row.reads += 1;
            row.read_bytes = row.read_bytes.saturating_add(bytes);
        } else if is_write(dispatch.class) {
            row.writes += 1;
            row.write_bytes = row.write_bytes.saturating_add(bytes);
        }
        if matches!(
            dispatch.class,
            IoClass::ReadMetadata | IoClass::WriteMetadata | IoClass::WriteJournal
        ) {
            row.metadata_bytes = row.metadata_bytes.saturating_add(bytes);
        }
    }
}
