//! The block trace of one trial: begun right before the phase runner starts, ended when the devices are at
//! rest again, kept beside the results. It never ends a trial: what goes wrong with it is a warning. How
//! events are taken and written is left to the crate `trace`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fsdyno_model::plan::Plan;
use fsdyno_model::record::Warning;
use fsdyno_model::trace::{Action, Flags, TraceEvent, TraceInfo, TraceRecord};
use fsdyno_sys::block::DeviceNumber;
use fsdyno_sys::counters::DeviceCounters;
use fsdyno_trace::EventSink;
use fsdyno_trace::capture::{BUFFER_BYTES, Capture, CaptureOptions};
use fsdyno_trace::stored::{EXTENSION, Writer};

use super::schedule::Planned;

/// Share of the devices' bytes that may lack in a trace before that is told.
const MISSING_SHARE: f64 = 0.01;
/// Fewer bytes than this that lack are not told of.
const MISSING_LEAST_BYTES: u64 = 1 << 20;
/// Characters of each label in the name of a file.
const LABEL_MOST: usize = 60;

/// A trace that is being taken.
pub struct TrialTrace {
    capture: Capture,
    path: PathBuf,
    /// Bytes of the requests that were completed, as the trace has them.
    traced_bytes: Arc<AtomicU64>,
    counters: Vec<DeviceCounters>,
    /// Bytes that the devices had moved when it began.
    bytes_before: u64,
}

impl TrialTrace {
    /// Begins to trace `devices` into the directory of traces, which is made where it is not there.
    ///
    /// # Errors
    /// Why the trial goes on without.
    pub fn begin(
        directory: &Path,
        name: &str,
        devices: &[DeviceNumber],
    ) -> Result<TrialTrace, Warning> {
        let begun = || -> io::Result<TrialTrace> {
            std::fs::create_dir_all(directory)?;
            let path = directory.join(name);
            // Of the same trial, which was interrupted.
            remove(&path)?;
            let counters: Vec<DeviceCounters> = devices
                .iter()
                .map(|device| DeviceCounters::open(*device).map_err(io::Error::other))
                .collect::<io::Result<_>>()?;
            let traced_bytes = Arc::new(AtomicU64::new(0));
            let sink = Tallied { writer: Writer::create(&path)?, bytes: Arc::clone(&traced_bytes) };
            let options = CaptureOptions { devices: devices.to_vec(), buffer_bytes: BUFFER_BYTES };
            let bytes_before = moved_bytes(&counters)?;
            let capture = Capture::start(&options, Box::new(sink)).inspect_err(|_| {
                // It holds nothing.
                let _ = remove(&path);
            })?;
            Ok(TrialTrace { capture, path, traced_bytes, counters, bytes_before })
        };
        begun().map_err(|error| failed(directory, &error))
    }

    /// Ends the trace; everything that the devices did until now is in it. Gives its record, where it could
    /// be kept, and what a reader of it must know.
    pub fn end(self) -> (Option<TraceRecord>, Option<Warning>) {
        let moved =
            moved_bytes(&self.counters).map(|after| after.saturating_sub(self.bytes_before));
        let captured = self.capture.stop().and_then(|captured| {
            let file_bytes = std::fs::metadata(&self.path)?.len();
            Ok((captured, file_bytes))
        });
        let (captured, file_bytes) = match captured {
            Ok(captured) => captured,
            Err(error) => {
                // What is left of it could not be read to its end.
                let _ = remove(&self.path);
                return (None, Some(failed(&self.path, &error)));
            }
        };
        let lost_events = captured.info.lost_events;
        let name = self.path.file_name().unwrap_or_default();
        let record = TraceRecord {
            file: name.to_string_lossy().into_owned(),
            file_bytes,
            events: captured.events,
            lost_events,
        };
        let traced = self.traced_bytes.load(Ordering::Acquire);
        (Some(record), incomplete(captured.events, lost_events, traced, moved.ok()))
    }

    /// Ends the trace of a trial that will be done again.
    pub fn discard(self) {
        drop(self.capture);
        let _ = remove(&self.path);
    }
}

/// Name of the file of the trace of a trial.
#[must_use]
pub fn file_name(plan: &Plan, planned: &Planned) -> String {
    format!("{}.{EXTENSION}", safe_name(plan, planned))
}

/// A name for what is kept of one trial beside the database.
pub fn safe_name(plan: &Plan, planned: &Planned) -> String {
    let target = safe(&plan.targets[planned.target_index].label);
    let workload = safe(&plan.workloads[planned.workload_index].label);
    format!("{:04}-{target}-{workload}", planned.order)
}

/// `label` with what is not a letter, a digit, a point, an equals sign or a plus sign replaced.
fn safe(label: &str) -> String {
    let is_kept = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '=' | '+');
    label.chars().take(LABEL_MOST).map(|c| if is_kept(&c) { c } else { '_' }).collect()
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn failed(path: &Path, error: &io::Error) -> Warning {
    let advice = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room for traces (fsdyno clean --traces removes those of all runs)"
        }
        _ => "see fsdyno doctor; --trace none asks for no trace",
    };
    Warning {
        code: "not-traced".to_owned(),
        message: format!("there is no block trace {}: {error}", path.display()),
        advice: advice.to_owned(),
    }
}

/// What lacks in a trace: events that the kernel had no room for, or bytes that the devices counted and
/// the trace does not hold.
fn incomplete(
    events: u64,
    lost: u64,
    traced_bytes: u64,
    moved_bytes: Option<u64>,
) -> Option<Warning> {
    let missing = moved_bytes.map_or(0, |moved| moved.saturating_sub(traced_bytes));
    let message = if lost > 0 {
        format!("the block trace lacks {lost} of {} events", events.saturating_add(lost))
    } else if missing >= MISSING_LEAST_BYTES
        && missing as f64 > MISSING_SHARE * moved_bytes.unwrap_or(0) as f64
    {
        format!(
            "the block trace holds {} of the {} that the devices moved",
            fsdyno_model::units::human_bytes(traced_bytes),
            fsdyno_model::units::human_bytes(moved_bytes.unwrap_or(0))
        )
    } else {
        return None;
    };
    Some(Warning {
        code: "trace-incomplete".to_owned(),
        message,
        advice: "sums over it are too small; the other figures stand".to_owned(),
    })
}

/// Bytes that the devices read, wrote and discarded since they are there.
fn moved_bytes(counters: &[DeviceCounters]) -> io::Result<u64> {
    let mut bytes = 0;
    for device in counters {
        let stats = device.read().map_err(io::Error::other)?;
        bytes += stats.read_bytes + stats.write_bytes + stats.discard_bytes.unwrap_or(0);
    }
    Ok(bytes)
}

/// Writes events and adds up the bytes of what was completed.
struct Tallied {
    writer: Writer,
    bytes: Arc<AtomicU64>,
}

impl EventSink for Tallied {
    fn take(&mut self, events: &[TraceEvent], info: &TraceInfo) -> io::Result<()> {
        let completed = events
            .iter()
            .filter(|it| it.action == Action::Complete && !it.flags.contains(Flags::ERROR));
        self.bytes.fetch_add(completed.map(TraceEvent::bytes).sum(), Ordering::Release);
        self.writer.take(events, info)
    }

    fn finish(&mut self, info: &TraceInfo) -> io::Result<()> {
        self.writer.finish(info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_safe() {
        for (label, name) in [
            ("ext4", "ext4"),
            ("xfs/-d agcount=1:logbsize=256k", "xfs__d_agcount=1_logbsize=256k"),
            ("xfs+log", "xfs+log"),
            ("../é\n", "..___"),
        ] {
            assert_eq!(safe(label), name);
        }
        assert_eq!(safe(&"x".repeat(999)).len(), LABEL_MOST);
    }

    #[test]
    fn what_lacks_is_told() {
        let gib = 1u64 << 30;
        let told = |lost, traced, moved| {
            incomplete(100, lost, traced, moved).map(|warning| warning.message)
        };
        assert_eq!(told(0, gib, Some(gib)), None);
        assert_eq!(told(0, gib, None), None);
        // Of a disk with other partitions a trace may hold more.
        assert_eq!(told(0, 2 * gib, Some(gib)), None);
        assert_eq!(told(0, 0, Some(4096)), None);
        assert!(told(7, gib, Some(gib)).unwrap().contains("7 of 107 events"));
        assert!(told(0, gib / 2, Some(gib)).unwrap().contains("512 MiB of the 1.00 GiB"));
    }
}
