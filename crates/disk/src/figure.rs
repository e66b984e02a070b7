//! The figures by which disks are known: what a model states, and how a probe finds the same.

use fsdyno_model::param;
use fsdyno_model::toml_reader::{TomlReader, Value};
use toml::de::{DeTable, DeValue};

use crate::disk::Disk;
use crate::fields::Fields;
use crate::model::{Kind, Model};
use crate::probe::{self, Probe};
use crate::request::Op;

/// Size at which flash is probed: its mapping costs memory and time.
const FLASH_BYTES: u64 = 4 << 30;
/// Bytes of a sequential probe.
const SEQUENCE_REQUESTS: u64 = 512;

/// A figure.
#[derive(Debug)]
pub struct Figure {
    /// Name, with its unit last.
    pub name: &'static str,
    /// One line.
    pub doc: &'static str,
    /// Finds it on a model.
    pub find: fn(&Model) -> Result<f64, String>,
}

/// What is stated of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Stated {
    /// Name of the figure.
    pub name: &'static str,
    /// Its value, in the unit of the name.
    pub value: f64,
}

/// All figures.
pub static ALL: &[Figure] = &[
    Figure {
        name: "sequential_read_mbs",
        doc: "reading in sequence at the beginning of the disk",
        find: |model| sequential(model, Op::Read, 0.0),
    },
    Figure {
        name: "sequential_read_middle_mbs",
        doc: "reading in sequence in the middle of the disk",
        find: |model| sequential(model, Op::Read, 0.5),
    },
    Figure {
        name: "sequential_read_inner_mbs",
        doc: "reading in sequence at the end of the disk",
        find: |model| sequential(model, Op::Read, 1.0),
    },
    Figure {
        name: "sequential_write_mbs",
        doc: "writing in sequence at the beginning of the disk",
        find: |model| sequential(model, Op::Write, 0.0),
    },
    Figure {
        name: "sustained_write_mbs",
        doc: "writing in sequence once SLC cache and credit are used up",
        find: sustained_write,
    },
    Figure {
        name: "random_read_ms",
        doc: "mean time of 4 KiB at random places, one at a time",
        find: |model| Ok(random(model, Op::Read, 1)?.mean_ns() / 1e6),
    },
    Figure {
        name: "random_read_iops",
        doc: "reads of 4 KiB at random places, one at a time",
        find: |model| Ok(random(model, Op::Read, 1)?.iops()),
    },
    Figure {
        name: "random_read_iops_qd32",
        doc: "reads of 4 KiB at random places, 32 at a time",
        find: |model| Ok(random(model, Op::Read, 32)?.iops()),
    },
    Figure {
        name: "random_write_iops",
        doc: "writes of 4 KiB at random places, one at a time",
        find: |model| Ok(random(model, Op::Write, 1)?.iops()),
    },
    Figure {
        name: "random_write_iops_qd32",
        doc: "writes of 4 KiB at random places, 32 at a time",
        find: |model| Ok(random(model, Op::Write, 32)?.iops()),
    },
];

/// The disk of a model as it is probed: whole, but flash, whose mapping would be large.
///
/// # Errors
/// Those of [`Disk::new`].
pub fn probed_disk(model: &Model) -> Result<Disk, String> {
    let size_bytes = match model.kind {
        Kind::Ssd(_) => model.capacity_bytes.min(FLASH_BYTES),
        _ => model.capacity_bytes,
    };
    Disk::new(model, size_bytes, 1)
}

fn sequential(model: &Model, op: Op, place: f64) -> Result<f64, String> {
    let mut disk = probed_disk(model)?;
    let length = SEQUENCE_REQUESTS * 11 / 10 * (512 << 10);
    let room = disk.size_bytes().saturating_sub(length + (1 << 20));
    let from = (room as f64 * place) as u64 / (1 << 20) * (1 << 20);
    Ok(probe::run(&mut disk, Probe::sequential(op, from, SEQUENCE_REQUESTS), 0).rate_mbs())
}

/// Writes all that a cache holds without counting it, then what counts.
fn sustained_write(model: &Model) -> Result<f64, String> {
    let mut disk = probed_disk(model)?;
    let unsustained = match &model.kind {
        Kind::Ssd(params) => params.slc_bytes + params.buffer_bytes,
        Kind::Volume(params) => {
            params.credit_bytes.min(params.iops_credit * params.operation_bytes)
        }
        _ => 256 << 20,
    };
    let requests = 2 * SEQUENCE_REQUESTS;
    let warm_up = unsustained / (512 << 10) + requests;
    let span_bytes = disk.size_bytes();
    let probe = Probe { warm_up, span_bytes, ..Probe::sequential(Op::Write, 0, requests) };
    Ok(probe::run(&mut disk, probe, 0).rate_mbs())
}

fn random(model: &Model, op: Op, depth: usize) -> Result<probe::Probed, String> {
    let mut disk = probed_disk(model)?;
    let span = disk.size_bytes();
    // Caches fill before writes take the time that they take for good.
    let requests = if op == Op::Write { 12_000 } else { 4000 };
    let probe = Probe { warm_up: requests, ..Probe::random(op, depth, requests, span) };
    Ok(probe::run(&mut disk, probe, 0))
}

/// Reads `[stated]`, which may be absent.
pub(crate) fn read_stated(toml: &mut TomlReader, table: &DeTable<'_>) -> Vec<Stated> {
    let Some(value) = table.get("stated") else { return Vec::new() };
    let DeValue::Table(inner) = value.get_ref() else {
        toml.wrong(value.span(), "[stated] is a table of figures");
        return Vec::new();
    };
    let names: Vec<&'static str> = ALL.iter().map(|figure| figure.name).collect();
    let mut fields = Fields::new(toml, inner, Value::span(value), "stated");
    let given = names.iter().copied().filter(|name| inner.contains_key(*name));
    let stated = given.map(|name| Stated { name, value: fields.number(name, 0.0, 1e9) }).collect();
    for (key, _) in inner {
        let name = key.get_ref().as_ref();
        if !names.contains(&name) {
            fields.toml.wrong(key.span(), param::unknown("figure of a disk", name, &names));
        }
    }
    stated
}
