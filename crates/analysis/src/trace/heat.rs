//! Where on the device, and when: cells that hold something, in a table of bounded size. Where it
//! outgrows its bound, rows or columns are folded, whichever there are more of.

use fsdyno_model::io_graph::{HeatCell, HeatMap, IoClass};
use fsdyno_model::trace::TraceDevice;
use rustc_hash::FxHashMap;

use super::bins::Axis;
use super::names::{Names, OTHERS};
use super::pass::{Dispatch, Pass};

/// Rows per device at most: more than a picture has.
const ROWS_MAX: u64 = 512;
/// A row is 64 KiB at first.
const FIRST_ROW_SHIFT: u32 = 7;
/// Devices that are told apart; the rest lie on the last.
const DEVICES_MAX: u8 = 16;
/// Names that are told apart in the cells of a map.
const NAMES_SHOWN: usize = 24;
/// While events come, the table may hold this many times the cells that are asked for.
const SLACK: usize = 4;

/// Column 16 bits, row 16, device 4, class 3, name 12.
type Key = u64;

fn pack(column: u64, row: u64, device: u8, class: IoClass, name: u16) -> Key {
    (column << 35)
        | (row << 19)
        | (u64::from(device) << 15)
        | ((class as u64) << 12)
        | u64::from(name)
}

fn column(key: Key) -> u64 {
    key >> 35
}

fn row(key: Key) -> u64 {
    (key >> 19) & 0xffff
}

fn device(key: Key) -> usize {
    ((key >> 15) & 0xf) as usize
}

fn class(key: Key) -> IoClass {
    IoClass::ALL[((key >> 12) & 7) as usize]
}

fn name(key: Key) -> u16 {
    (key & 0xfff) as u16
}

fn with_column(key: Key, column: u64) -> Key {
    (key & ((1 << 35) - 1)) | (column << 35)
}

fn with_row(key: Key, row: u64) -> Key {
    (key & !(0xffff << 19)) | (row << 19)
}

/// Requests and bytes of a cell.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    requests: u32,
    bytes: u64,
}

/// Cells by time, place, class and name.
#[derive(Debug, Clone)]
pub(super) struct Heat {
    cells: FxHashMap<Key, Cell>,
    cells_max: usize,
    /// A column has 2^this bins of the axis.
    column_shift: u32,
    /// A row has 2^this sectors.
    row_shift: u32,
}

impl Heat {
    /// At most so many cells in the end.
    pub fn new(cells_max: u32) -> Heat {
        let cells_max = cells_max.max(1) as usize;
        Heat { cells: FxHashMap::default(), cells_max, column_shift: 0, row_shift: FIRST_ROW_SHIFT }
    }

    fn rebuild(&mut self, change: impl Fn(Key) -> Key) {
        let mut folded: FxHashMap<Key, Cell> = FxHashMap::default();
        for (key, cell) in self.cells.drain() {
            let into = folded.entry(change(key)).or_default();
            into.requests = into.requests.saturating_add(cell.requests);
            into.bytes = into.bytes.saturating_add(cell.bytes);
        }
        self.cells = folded;
    }

    fn fold_rows(&mut self) {
        self.row_shift += 1;
        self.rebuild(|key| with_row(key, row(key) / 2));
    }

    fn fold_columns(&mut self) {
        self.column_shift += 1;
        self.rebuild(|key| with_column(key, column(key) / 2));
    }

    /// Folds until there are few enough cells, or nothing to fold.
    fn shrink(&mut self, cells_max: usize) {
        while self.cells.len() > cells_max {
            let columns = self.cells.keys().map(|key| column(*key)).max().unwrap_or(0);
            let rows = self.cells.keys().map(|key| row(*key)).max().unwrap_or(0);
            if columns == 0 && rows == 0 {
                // Only classes, names and devices are left: a bounded number.
                return;
            }
            if columns >= rows { self.fold_columns() } else { self.fold_rows() }
        }
    }

    /// The map: names beyond the busiest are one, and so few cells that they can be shown.
    pub fn map(&self, axis: &Axis, names: &Names, devices: &[TraceDevice]) -> HeatMap {
        let mut by_name: FxHashMap<u16, u64> = FxHashMap::default();
        for (key, cell) in &self.cells {
            let sum = by_name.entry(name(*key)).or_default();
            *sum = sum.saturating_add(cell.bytes.max(1));
        }
        let mut busiest: Vec<(u16, u64)> = by_name.into_iter().collect();
        busiest.sort_unstable_by_key(|(name, bytes)| (std::cmp::Reverse(*bytes), *name));
        let has_others = busiest.len() > NAMES_SHOWN;
        busiest.truncate(if has_others { NAMES_SHOWN - 1 } else { NAMES_SHOWN });
        let place: FxHashMap<u16, u16> =
            (0..).zip(&busiest).map(|(place, (name, _))| (*name, place)).collect();
        let rest = busiest.len() as u16;
        let mut shown = self.clone();
        shown.rebuild(|key| {
            (key & !0xfff) | u64::from(place.get(&name(key)).copied().unwrap_or(rest))
        });
        shown.shrink(self.cells_max);
        let mut processes: Vec<String> =
            busiest.iter().map(|(name, _)| names.name(*name).to_owned()).collect();
        if has_others {
            processes.push(OTHERS.to_owned());
        }
        shown.layout(axis, devices, processes)
    }

    /// The cells of all devices, one above the other.
    fn layout(&self, axis: &Axis, devices: &[TraceDevice], processes: Vec<String>) -> HeatMap {
        let mut heights = [0u64; DEVICES_MAX as usize];
        for key in self.cells.keys() {
            let height = &mut heights[device(*key)];
            *height = (*height).max(row(*key) + 1);
        }
        for (height, device) in heights.iter_mut().zip(devices) {
            let whole = device.sectors.map_or(0, |sectors| sectors.div_ceil(1 << self.row_shift));
            // A size that is wrong must not stretch the picture without end.
            *height = (*height).max(whole.min(2 * ROWS_MAX));
        }
        let mut bases = [0u64; DEVICES_MAX as usize];
        for index in 1..bases.len() {
            bases[index] = bases[index - 1] + heights[index - 1];
        }
        let mut cells: Vec<HeatCell> = self
            .cells
            .iter()
            .map(|(key, cell)| HeatCell {
                column: column(*key) as u32,
                row: (bases[device(*key)] + row(*key)) as u32,
                class: class(*key),
                process: name(*key) as u8,
                requests: cell.requests,
                bytes: cell.bytes,
            })
            .collect();
        cells.sort_unstable_by_key(|cell| (cell.column, cell.row, cell.class, cell.process));
        HeatMap {
            column_ns: axis.bin_ns() << self.column_shift,
            columns: cells.last().map_or(0, |cell| cell.column + 1),
            row_sectors: 1 << self.row_shift,
            rows: heights.iter().sum::<u64>() as u32,
            processes,
            cells,
        }
    }
}

impl Pass for Heat {
    #[inline]
    fn dispatch(&mut self, dispatch: &Dispatch) {
        // Sectors are 512 bytes: 2^63 bytes are 2^54 sectors, and no row reaches beyond 16 bits.
        let sector = dispatch.sector.min((1 << 55) - 1);
        while sector >> self.row_shift >= ROWS_MAX {
            self.fold_rows();
        }
        let column = (dispatch.bin >> self.column_shift) as u64;
        let device = dispatch.device.min(DEVICES_MAX - 1);
        let row = sector >> self.row_shift;
        let key = pack(column, row, device, dispatch.class, dispatch.who.name);
        let cell = self.cells.entry(key).or_default();
        cell.requests = cell.requests.saturating_add(1);
        cell.bytes = cell.bytes.saturating_add(dispatch.bytes);
        if self.cells.len() > SLACK * self.cells_max {
            self.shrink(SLACK * self.cells_max / 2);
        }
    }

    fn fold(&mut self) {
        if self.column_shift > 0 {
            // Columns are wider than bins already: the same columns have fewer bins.
            self.column_shift -= 1;
        } else {
            self.rebuild(|key| with_column(key, column(key) / 2));
        }
    }
}
