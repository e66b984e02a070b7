//! Waiting until a filesystem and its devices are at rest: what was written is on the device, what
//! mkfs left for later is done, no request has been completed for a while. Always bounded.

use std::path::Path;
use std::time::{Duration, Instant};

use fsdyno_sys::block::DeviceNumber;
use fsdyno_sys::calls::{Calls, Real};
use fsdyno_sys::counters::DeviceCounters;
use fsdyno_sys::process;

/// How often the devices are looked at.
const POLL: Duration = Duration::from_millis(20);
/// How soon the filesystem is asked again whether it still has work, which means to look at all processes: the longer
/// it has had some the later, so that it is waited for by a sixteenth longer at most.
const UNREST_POLL: Duration = Duration::from_millis(200);
const UNREST_SHARE: u32 = 16;

/// How the waiting ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quiesced {
    /// How long it took, in nanoseconds.
    pub elapsed_ns: u64,
    /// What was still going on when the time was up; `None` where all was at rest.
    pub unsettled: Option<String>,
}

/// How long to wait for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// The devices are idle when they have completed nothing for so long.
    pub idle: Duration,
    /// The longest wait in all.
    pub limit: Duration,
}

/// Why there was no waiting to the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuiesceError {
    /// A signal asked us to stop.
    Interrupted,
    /// Syncing or counting failed.
    Failed(String),
}

/// Syncs the filesystem at `mount_point`, waits until `unrest` has nothing to tell, has `refill` give
/// images back what was discarded from them, and waits until none of `devices` has completed a request
/// for a while.
///
/// # Errors
/// [`QuiesceError`]; that the time is up is not one.
pub fn quiesce(
    mount_point: &Path,
    devices: &[DeviceNumber],
    unrest: impl Fn() -> Option<String>,
    refill: impl FnOnce() -> Result<(), String>,
    patience: Patience,
) -> Result<Quiesced, QuiesceError> {
    let start = Instant::now();
    let failed = |error: &dyn std::fmt::Display| QuiesceError::Failed(error.to_string());
    sync(mount_point).map_err(|error| failed(&error))?;
    let finished = |unsettled: Option<String>| {
        let elapsed_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Ok(Quiesced { elapsed_ns, unsettled })
    };
    while let Some(work) = unrest() {
        if start.elapsed() > patience.limit {
            return finished(Some(work));
        }
        pause(UNREST_POLL.max(start.elapsed() / UNREST_SHARE))?;
    }
    // What the lazy work wrote must be durable too.
    sync(mount_point).map_err(|error| failed(&error))?;
    refill().map_err(|error| failed(&error))?;
    let mut watched = Vec::new();
    for number in devices {
        watched.push(Activity::open(*number).map_err(|error| failed(&error))?);
    }
    let mut idle_since = Instant::now();
    loop {
        let mut busy = None;
        for device in &mut watched {
            if device.has_moved().map_err(|error| failed(&error))? {
                busy = Some(device.number);
            }
        }
        match busy {
            Some(number) if start.elapsed() > patience.limit => {
                return finished(Some(format!("the device {number} is not idle")));
            }
            Some(_) => idle_since = Instant::now(),
            None if idle_since.elapsed() >= patience.idle => return finished(None),
            None => {}
        }
        pause(POLL)?;
    }
}

/// Has the filesystem that holds `directory` write everything to its devices.
///
/// # Errors
/// A sentence where it could not.
pub fn sync(directory: &Path) -> Result<(), String> {
    let failed =
        |errno| format!("syncfs {}: {}", directory.display(), fsdyno_sys::error::describe(errno));
    let calls = Real;
    let opened = calls.open_root(directory).map_err(failed)?;
    calls.syncfs(&opened).map_err(failed)
}

fn pause(length: Duration) -> Result<(), QuiesceError> {
    if process::interrupted() {
        return Err(QuiesceError::Interrupted);
    }
    std::thread::sleep(length);
    Ok(())
}

/// Requests of one device, completed or under way.
struct Activity {
    number: DeviceNumber,
    counters: DeviceCounters,
    completed: (u64, u64, Option<u64>, Option<u64>),
}

impl Activity {
    fn open(number: DeviceNumber) -> Result<Activity, fsdyno_sys::SysError> {
        let counters = DeviceCounters::open(number)?;
        let mut activity = Activity { number, counters, completed: (0, 0, None, None) };
        activity.has_moved()?;
        Ok(activity)
    }

    /// Whether it has completed anything since the last call, or something is under way.
    fn has_moved(&mut self) -> Result<bool, fsdyno_sys::SysError> {
        let stats = self.counters.read()?;
        let completed = (stats.reads, stats.writes, stats.discards, stats.flushes);
        let moved = completed != self.completed;
        self.completed = completed;
        Ok(moved || in_flight(self.number) > 0)
    }
}

fn in_flight(number: DeviceNumber) -> u64 {
    let text = std::fs::read_to_string(number.sysfs_path().join("inflight")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).sum()
}
