//! Heat maps as the page holds them: a stream of small numbers, coarse enough that all maps of a page
//! stay within a budget. Painting is left to the script.

use fsdyno_model::io_graph::{HeatCell, HeatMap, IoClass};
use fsdyno_model::trace::SECTOR_BYTES;
use serde_json::{Value, json};

use super::pack;

/// Bytes that all heat maps of one page may take before base64.
const BUDGET_BYTES: usize = 1_300_000;

/// The maps of a page, packed in their order; the largest are made coarser until all fit.
pub fn packed(maps: &[&HeatMap]) -> Vec<Value> {
    let mut own: Vec<HeatMap> = maps.iter().map(|map| (*map).clone()).collect();
    let mut streams: Vec<Vec<u8>> = own.iter().map(stream).collect();
    while streams.iter().map(Vec::len).sum::<usize>() > BUDGET_BYTES {
        let sizes = streams.iter().map(Vec::len).enumerate();
        let Some((largest, _)) = sizes.max_by_key(|(_, size)| *size) else { break };
        if own[largest].columns < 32 && own[largest].rows < 32 {
            break;
        }
        own[largest] = coarser(&own[largest]);
        streams[largest] = stream(&own[largest]);
    }
    own.iter().zip(streams).map(|(map, stream)| value(map, &stream)).collect()
}

fn value(map: &HeatMap, stream: &[u8]) -> Value {
    json!({
        "column_s": map.column_ns as f64 / 1e9,
        "columns": map.columns,
        "row_bytes": map.row_sectors * SECTOR_BYTES,
        "rows": map.rows,
        "processes": map.processes,
        "cells": map.cells.len(),
        "stream": pack::bytes(stream),
    })
}

/// Each cell: columns since the one before; row (rows since the one before within a column); class
/// and process in one number; requests; sectors.
fn stream(map: &HeatMap) -> Vec<u8> {
    let mut stream = Vec::with_capacity(map.cells.len() * 8);
    let (mut column, mut row) = (0, 0);
    for cell in &map.cells {
        let step = cell.column.saturating_sub(column);
        pack::varint(&mut stream, u64::from(step));
        row = if step > 0 { 0 } else { row };
        pack::varint(&mut stream, u64::from(cell.row.saturating_sub(row)));
        let kind = cell.class as u64 + IoClass::ALL.len() as u64 * u64::from(cell.process);
        pack::varint(&mut stream, kind);
        pack::varint(&mut stream, u64::from(cell.requests));
        pack::varint(&mut stream, cell.bytes / SECTOR_BYTES);
        (column, row) = (cell.column, cell.row);
    }
    stream
}

/// The map with half as many cells along its longer side.
fn coarser(map: &HeatMap) -> HeatMap {
    let by_column = map.columns >= map.rows;
    let place = |cell: &HeatCell| match by_column {
        true => (cell.column / 2, cell.row),
        false => (cell.column, cell.row / 2),
    };
    let mut cells: Vec<HeatCell> = (map.cells.iter())
        .map(|cell| {
            let (column, row) = place(cell);
            HeatCell { column, row, ..*cell }
        })
        .collect();
    let key = |cell: &HeatCell| (cell.column, cell.row, cell.class, cell.process);
    cells.sort_by_key(key);
    cells.dedup_by(|next, kept| {
        let same = key(next) == key(kept);
        if same {
            kept.requests = kept.requests.saturating_add(next.requests);
            kept.bytes = kept.bytes.saturating_add(next.bytes);
        }
        same
    });
    let mut coarse = HeatMap { cells, processes: map.processes.clone(), ..*map };
    if by_column {
        coarse.columns = map.columns.div_ceil(2);
        coarse.column_ns = map.column_ns * 2;
    } else {
        coarse.rows = map.rows.div_ceil(2);
        coarse.row_sectors = map.row_sectors * 2;
    }
    coarse
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(columns: u32, rows: u32) -> HeatMap {
        let mut cells = Vec::new();
        for column in 0..columns {
            for row in 0..rows {
                let class = IoClass::ALL[(column + row) as usize % 7];
                let bytes = 4096 * u64::from(1 + row % 9);
                cells.push(HeatCell { column, row, class, process: 1, requests: 3, bytes });
            }
        }
        let processes = vec!["fsdyno".to_owned(), "kworker/flush".to_owned()];
        HeatMap { column_ns: 1_000_000, columns, row_sectors: 8, rows, processes, cells }
    }

    #[test]
    fn a_coarser_map_holds_as_much() {
        let fine = map(9, 5);
        let total = |map: &HeatMap| map.cells.iter().map(|cell| cell.bytes).sum::<u64>();
        let coarse = coarser(&fine);
        assert_eq!((coarse.columns, coarse.rows, coarse.column_ns), (5, 5, 2_000_000));
        assert_eq!(total(&coarse), total(&fine));
        let coarsest = coarser(&map(5, 9));
        assert_eq!((coarsest.columns, coarsest.rows, coarsest.row_sectors), (5, 5, 16));
    }

    #[test]
    fn maps_stay_within_the_budget() {
        let huge = map(800, 600);
        let packed = packed(&[&huge, &map(3, 3)]);
        let size: usize = packed.iter().map(|it| it["stream"].as_str().unwrap().len()).sum();
        assert!(size <= BUDGET_BYTES * 4 / 3 + 8, "{size}");
        assert!(packed[0]["columns"].as_u64().unwrap() < 800);
        assert_eq!(packed[1]["columns"], 3);
    }
}
