//! What the parameters of the workload `dbench` say, checked against each other, and the load that they
//! name.

use std::path::Path;

use fsdyno_model::param::Params;
use fsdyno_model::payload::Payload;
use fsdyno_model::units::parse_duration_ns;

use super::client::Manner;
use super::lines::Line;
use super::loadfile;
use super::office::office_load;
use super::program::{Options, Program, compile};

/// The word for the load that is generated.
pub const SHIPPED: &str = "shipped";
/// The word for a warm-up of a fifth of the time, as the original's.
pub const AUTO: &str = "auto";
/// Shortest time of a run, in nanoseconds.
const LEAST_NS: u64 = 10_000_000;
/// Parts of the time, one of which is the warm-up.
const WARMUP_PARTS: u64 = 5;

/// The parameters.
#[derive(Debug)]
pub struct Settings {
    /// Whether the original's rules and arithmetic hold.
    pub is_original: bool,
    /// Number of clients.
    pub clients: usize,
    /// Time of warm-up and measurement, in nanoseconds.
    pub runtime_ns: u64,
    /// The part of it that is not measured, in nanoseconds.
    pub warmup_ns: u64,
    /// Passes over the load instead of a time; 0: a time.
    pub passes: u64,
    /// Bytes per second that each client does not exceed; 0: no limit.
    pub bytes_per_s: f64,
    /// How operations are carried out.
    pub manner: Manner,
    /// What is written.
    pub payload: Payload,
    /// Whether the phase ends with syncfs.
    pub sync: bool,
    /// The load.
    pub program: Program,
}

impl Settings {
    /// Reads the parameters and the load.
    ///
    /// # Errors
    /// A sentence: what does not fit, or what is wrong with the load.
    pub fn new(params: &Params) -> Result<Settings, String> {
        let is_original = params.text("mode") == "original";
        let duration =
            |name: &str| parse_duration_ns(params.text(name)).map_err(|error| error.to_string());
        let runtime_ns = duration("runtime")?;
        if runtime_ns < LEAST_NS {
            return Err("runtime must be at least 10ms".to_owned());
        }
        let passes = params.number("passes");
        let warmup_ns = match params.text("warmup") {
            _ if passes > 0 => 0,
            AUTO => runtime_ns / WARMUP_PARTS,
            _ => duration("warmup")?,
        };
        if warmup_ns >= runtime_ns {
            return Err("warmup must be shorter than runtime, which contains it".to_owned());
        }
        let clients = params.number("clients") as usize;
        let options = Options {
            sync_io: params.flag("sync_io"),
            fsync_writes: params.flag("fsync"),
            sync_directories: params.flag("sync_directories"),
        };
        let (file, lines) = lines_of(params)?;
        let program = compile(&file, &lines, options).map_err(|faults| faults.to_string())?;
        if program.highest_client.is_some_and(|client| client as usize >= clients) {
            return Err(format!(
                "the load waits for a client that is not there (WAITSP): use more than {clients} clients"
            ));
        }
        Ok(Settings {
            is_original,
            clients,
            runtime_ns,
            warmup_ns,
            passes,
            bytes_per_s: params.number("targetrate") as f64,
            manner: Manner {
                resolves: params.flag("resolve"),
                keeps_directories: is_original,
                is_strict: params.flag("strict"),
            },
            payload: Payload::parse(params.text("payload"))?,
            sync: params.flag("sync"),
            program,
        })
    }
}

/// The name of the load and its lines.
///
/// # Errors
/// A sentence: the file cannot be read, or what is wrong with it.
pub fn lines_of(params: &Params) -> Result<(String, Vec<Line>), String> {
    match params.text("loadfile") {
        SHIPPED => {
            let (operations, seed) = (params.number("load_operations"), params.number("load_seed"));
            Ok((SHIPPED.to_owned(), office_load(operations, seed)))
        }
        path => Ok((path.to_owned(), loadfile::read(Path::new(path))?)),
    }
}
