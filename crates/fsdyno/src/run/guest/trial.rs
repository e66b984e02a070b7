//! One trial in a guest: fresh disks, a machine that does what [`crate::run::trial`] does on the host, its
//! record; or what became of the machine.

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use fsdyno_guest::machine::{Event, Machine};
use fsdyno_guest::{console, uml};
use fsdyno_model::guest::{self, Fault, Message, Task, TrialErrand};
use fsdyno_model::outcome::Outcome;
use fsdyno_model::place::Place;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{TrialRecord, Warning};
use fsdyno_model::target::{DeviceSpec, Ground};
use fsdyno_model::trace::TraceMode;
use fsdyno_sys::{clock, file, process};

use super::states::Started;
use super::{Guests, Proof, TICK, input, readiness, virtual_time};
use crate::run::difference::are_same;
use crate::run::schedule::Planned;
use crate::run::trial::Setting;

/// Where a guest's own images would lie.
const INSIDE: &str = "/var/tmp";
/// A guest that says nothing for so long hangs.
const SILENCE: Duration = Duration::from_secs(60);
/// The same where half a second of the guest's, after which it says that it is alive, may take many of ours.
const VIRTUAL_SILENCE: Duration = Duration::from_secs(300);
/// How many seconds of silence there may be instead, for tests.
const SILENCE_VARIABLE: &str = "FSDYNO_GUEST_SILENCE_S";
/// What a guest does to itself (`panic`, `hang`), to see what becomes of it.
const FAULT_VARIABLE: &str = "FSDYNO_GUEST_FAULT";
/// How much longer than a trial a guest may take: it also boots, and would tell by itself.
const MARGIN: Duration = Duration::from_secs(60);

/// How a guest ended that gave no record.
enum Loss {
    Failed { stage: String, error: String },
    TimedOut { stage: String },
    Interrupted { stage: String },
}

impl Guests {
    /// Runs one trial; as [`crate::run::trial::execute`]. In virtual time its record counts once it has this
    /// `proof`.
    pub fn execute(
        &self,
        setting: &Setting<'_>,
        planned: &Planned,
        console_directory: &Path,
        proof: Proof<'_>,
        progress: &mut dyn FnMut(&str, f64),
    ) -> (TrialRecord, Option<String>) {
        let plan = setting.plan;
        let mut record = planned.record(plan, Outcome::Interrupted { stage: "boot".to_owned() });
        record.started_unix_ns = Some(clock::wall_ns());
        let started = clock::now_ns();
        let directory = setting.workspace.directory().join(format!("guest-{}", planned.order));
        let mut kept = None;
        let told = match plan.place.virtual_shift() {
            None => self.live(plan, planned, &directory, false, progress),
            Some(_) => self.live_until_agreed(plan, planned, &directory, proof, progress),
        };
        match told {
            Ok(told) => record = told,
            Err(loss) => {
                record.outcome = loss.outcome(plan.trial_timeout_s);
                record.elapsed_ns = Some(clock::now_ns() - started);
            }
        }
        if matches!(record.outcome, Outcome::Failed { .. } | Outcome::TimedOut { .. }) {
            let name = crate::run::capture::safe_name(plan, planned);
            let target = console_directory.join(format!("{name}.txt"));
            kept = keep_console(&directory.join("console"), &target).then_some(target);
            add_verdict(&mut record, &directory.join("console"));
            add_full_host(&mut record, &directory);
        }
        record.measured = self.measured;
        record.warnings.extend(kept.map(|path| Warning {
            code: "console-kept".to_owned(),
            message: format!("what the guest's kernel said is in {}", path.display()),
            advice: "read it".to_owned(),
        }));
        let removed = fs::remove_dir_all(&directory);
        let leftover = removed.err().filter(|error| error.kind() != std::io::ErrorKind::NotFound);
        let leftover = leftover.map(|error| format!("remove {}: {error}", directory.display()));
        (record, leftover)
    }

    /// Makes guests until two of them have recorded the same. Where the first two of a run did, nothing of the
    /// host's reaches guests here, and one is enough for each further trial. Otherwise, under an emulator of
    /// another kind, every record is in doubt.
    fn live_until_agreed(
        &self,
        plan: &Plan,
        planned: &Planned,
        directory: &Path,
        proof: Proof<'_>,
        progress: &mut dyn FnMut(&str, f64),
    ) -> Result<TrialRecord, Loss> {
        let (mut next, second) = match proof {
            Proof::SecondGuest(_) => self.live_beside_another(plan, planned, directory, progress),
            _ => (self.live(plan, planned, directory, false, progress), None),
        };
        let mut known: Vec<TrialRecord> = second.into_iter().collect();
        let expected = if let Proof::Record(record) = proof { Some(record) } else { None };
        let mut count = u32::try_from(known.len()).unwrap_or(0);
        loop {
            let mut record = next?;
            count += 1;
            if matches!(proof, Proof::AnotherTrial) {
                self.wait_for_check();
            }
            let is_last = count == virtual_time::MOST_GUESTS;
            // A guest before it that recorded something else is an objection, whatever other trials showed.
            let is_alone = expected.is_none() && known.is_empty();
            let is_exact = is_alone && self.are_exact.get() == Some(&true);
            let mut others = expected.into_iter().chain(&known);
            let is_agreed = is_exact || others.any(|it| are_same(it, &record));
            if is_agreed || is_last || record.outcome != Outcome::Completed {
                if expected.is_none() && record.outcome == Outcome::Completed {
                    self.are_exact.get_or_init(|| is_agreed && count == 2);
                }
                virtual_time::settle(&mut record, count, is_agreed);
                if is_agreed {
                    virtual_time::add_warnings(&mut record, &known);
                }
                return Ok(record);
            }
            known.push(record);
            // What is left of this guest would be in the way of the next.
            let _ = fs::remove_dir_all(directory);
            next = self.live(plan, planned, directory, true, progress);
        }
    }

    /// Waits until it is known whether guests record the same here, as long as another trial finds that out.
    fn wait_for_check(&self) {
        while self.is_checking.load(Ordering::Acquire)
            && self.are_exact.get().is_none()
            && !process::interrupted()
        {
            thread::sleep(TICK);
        }
    }

    /// Makes the trial in two guests at once; of the second there is only what completed.
    fn live_beside_another(
        &self,
        plan: &Plan,
        planned: &Planned,
        directory: &Path,
        progress: &mut dyn FnMut(&str, f64),
    ) -> (Result<TrialRecord, Loss>, Option<TrialRecord>) {
        let beside = directory.with_extension("second");
        let told = thread::scope(|scope| {
            let second = scope.spawn(|| self.live(plan, planned, &beside, true, &mut |_, _| ()));
            let first = self.live(plan, planned, directory, false, progress);
            let second = second.join().ok().and_then(Result::ok);
            (first, second.filter(|record| record.outcome == Outcome::Completed))
        });
        // What stays goes with the workspace.
        let _ = fs::remove_dir_all(&beside);
        told
    }

    /// Makes the trial in a guest, in virtual time from a state of its own where it `is_apart`.
    fn live(
        &self,
        plan: &Plan,
        planned: &Planned,
        directory: &Path,
        is_apart: bool,
        progress: &mut dyn FnMut(&str, f64),
    ) -> Result<TrialRecord, Loss> {
        let mut stage = "boot".to_owned();
        let failed = |stage: &str, error: String| Loss::Failed { stage: stage.to_owned(), error };
        let disks = make_disks(plan, planned, directory).map_err(|error| failed("boot", error))?;
        let spec = fsdyno_guest::qemu::Spec { disks, ..self.spec_of(planned.target_index).clone() };
        let given = errand(plan, planned).map_err(|error| failed("boot", error))?;
        let models = virtual_time::model_names(&given.disks);
        let errand_hash = virtual_time::hash(&given);
        let task = Task::Trial(Box::new(given));
        progress(&stage, 0.0);
        let is_apart = is_apart || !plan.place.saved_state;
        let begun = match spec.shift {
            None => self.start(planned.target_index, &spec, directory, task),
            Some(_) => self.start_stopped(planned.target_index, &spec, directory, &task, is_apart),
        };
        let Started { mut machine, warning, start, since } = begun.map_err(Loss::at_start)?;
        let deadline =
            Instant::now() + Duration::from_secs(plan.trial_timeout_s).saturating_add(MARGIN);
        let silence = silence(spec.shift.is_some());
        let mut activity = None;
        loop {
            match machine.next(TICK) {
                Event::Said(Message::Hello { version, .. }) if version != guest::VERSION => {
                    let error = "the guest speaks another version".to_owned();
                    return Err(failed(&stage, error));
                }
                Event::Said(Message::Progress { stage: reached, done }) => {
                    progress(&reached, done);
                    stage = reached;
                }
                Event::Said(Message::Activity(told)) => activity = Some(*told),
                Event::Said(Message::Record(record)) => {
                    machine.finish();
                    let mut record = TrialRecord { activity, ..*record };
                    if spec.shift.is_some() {
                        let wall = since.elapsed();
                        virtual_time::receive(&mut record, errand_hash, wall, plan, planned);
                    }
                    let mut record = with_disk_facts(record, models, plan.place.is_uml());
                    if spec.shift.is_none() {
                        let start = start.to_owned();
                        record.facts.device.insert("guest_start".to_owned(), start);
                    }
                    record.warnings.extend(warning);
                    return Ok(self.with_kernel(record, plan, planned.target_index));
                }
                Event::Said(Message::Failed { error }) | Event::Garbled(error) => {
                    return Err(failed(&stage, error));
                }
                Event::Closed => return Err(failed(&stage, machine.death())),
                Event::Said(_) | Event::Nothing => {}
            }
            if process::interrupted() {
                return Err(Loss::Interrupted { stage });
            }
            if Instant::now() > deadline {
                return Err(Loss::TimedOut { stage });
            }
            if machine.silence() > silence {
                return Err(failed(&stage, end_hanging(&mut machine, silence)));
            }
        }
    }

    /// The release of a kernel that the target named: with it targets of one run differ.
    fn with_kernel(
        &self,
        mut record: TrialRecord,
        plan: &Plan,
        target_index: usize,
    ) -> TrialRecord {
        if plan.targets[target_index].kernel().is_some() {
            let release = self.release_of(target_index).to_owned();
            record.facts.device.insert("kernel_release".to_owned(), release);
        }
        record
    }
}

/// Kills a guest that hangs; says so.
pub(super) fn end_hanging(machine: &mut Machine, silence: Duration) -> String {
    machine.kill();
    let last = console::last_lines(&console::read(machine.console()));
    let last = if last.is_empty() { last } else { format!("; console: {last}") };
    format!("the guest hangs: it said nothing for {} s{last}", silence.as_secs())
}

impl Loss {
    /// A guest that did not start.
    fn at_start(error: String) -> Loss {
        let stage = "boot".to_owned();
        if process::interrupted() {
            Loss::Interrupted { stage }
        } else {
            Loss::Failed { stage, error }
        }
    }

    fn outcome(self, limit_s: u64) -> Outcome {
        match self {
            Loss::Failed { stage, error } => Outcome::Failed { stage, error },
            Loss::Interrupted { stage } => Outcome::Interrupted { stage },
            Loss::TimedOut { stage } => {
                let limit = fsdyno_model::units::human_duration(limit_s * 1_000_000_000);
                let error = format!("the guest was not done within {limit} and a minute");
                Outcome::TimedOut { stage, error }
            }
        }
    }
}

/// The trial with its target on the guest's own disks, which it may overwrite.
fn errand(plan: &Plan, planned: &Planned) -> Result<TrialErrand, String> {
    let mut plan = plan.clone();
    plan.trace = TraceMode::None;
    plan.directory = Some(PathBuf::from(INSIDE));
    let is_virtual = plan.place.is_virtual();
    let mut disks = Vec::new();
    let (sizes, place) = (disk_sizes(&plan, planned), plan.place.clone());
    if let Ground::Fresh(fresh) = &mut plan.targets[planned.target_index].ground {
        for (number, device) in fresh.leaves_mut().enumerate() {
            let mut path = inside_path(&place, number);
            if let DeviceSpec::Emulated { model, .. } = device {
                let size_bytes = sizes.get(number).copied().unwrap_or_default();
                let disk = virtual_time::served(model, size_bytes, path, number)?;
                path = disk.device.clone();
                disks.push(disk);
            }
            *device = DeviceSpec::Block { path };
        }
    }
    // Behind those of the target.
    let input = input::disk_bytes(&plan).map(|_| inside_path(&place, sizes.len() - 1));
    let errand = TrialErrand {
        plan,
        target_index: planned.target_index,
        workload_index: planned.workload_index,
        trial: planned.trial,
        role: planned.role,
        order: planned.order,
        disks,
        input,
        fault: std::env::var(FAULT_VARIABLE).ok().as_deref().and_then(Fault::parse),
    };
    Ok(if is_virtual { virtual_time::bare(errand) } else { errand })
}

pub(super) fn silence(is_virtual: bool) -> Duration {
    let given = std::env::var(SILENCE_VARIABLE).ok().and_then(|text| text.parse().ok());
    given.map_or(if is_virtual { VIRTUAL_SILENCE } else { SILENCE }, Duration::from_secs)
}

/// What a guest with drivers for virtio calls a disk; there are fewer of them than letters.
pub(super) fn virtio_disk(number: usize) -> PathBuf {
    PathBuf::from(format!("/dev/vd{}", ('a'..='z').nth(number).unwrap_or('z')))
}

/// What a guest calls a disk.
fn inside_path(place: &Place, number: usize) -> PathBuf {
    if place.is_virtual() {
        fsdyno_guest::virtual_time::disk_device(number)
    } else if place.is_uml() {
        uml::disk_device(number)
    } else {
        virtio_disk(number)
    }
}

/// Sizes of the disks of a trial's guest, in bytes; none where its target is a directory.
fn disk_sizes(plan: &Plan, planned: &Planned) -> Vec<u64> {
    match &plan.targets[planned.target_index].ground {
        Ground::Fresh(fresh) => readiness::disk_sizes(fresh, plan),
        Ground::Directory { .. } => Vec::new(),
    }
}

/// Makes the disks, files full of holes, in a directory that is this user's alone.
fn make_disks(plan: &Plan, planned: &Planned, directory: &Path) -> Result<Vec<PathBuf>, String> {
    fs::DirBuilder::new()
        .mode(0o700)
        .create(directory)
        .map_err(|error| format!("make {}: {error}", directory.display()))?;
    let sizes = disk_sizes(plan, planned);
    if sizes.is_empty() {
        return Err("a directory cannot be reached from a guest".to_owned());
    }
    let sizes = sizes.into_iter().map(|size| virtual_time::disk_size(plan, size));
    make_images(&sizes.collect::<Vec<u64>>(), directory)
}

/// Makes files full of holes, of these sizes in bytes, below `directory`.
pub(super) fn make_images(sizes: &[u64], directory: &Path) -> Result<Vec<PathBuf>, String> {
    let images = (1..).zip(sizes).map(|(number, size_bytes)| {
        let path = directory.join(format!("disk{number}.img"));
        let opened = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        opened
            .and_then(|file| file.set_len(*size_bytes))
            .map_err(|error| format!("make {}: {error}", path.display()))?;
        Ok(path)
    });
    images.collect()
}

/// What a guest cannot know of its disks; `models` are the names of those that are served in it.
fn with_disk_facts(mut record: TrialRecord, models: Option<String>, is_uml: bool) -> TrialRecord {
    let facts = &mut record.facts.device;
    let (own, host_cache) = match (record.virtual_time.is_some(), models) {
        (true, Some(models)) => {
            facts.insert("disk_model".to_owned(), models);
            ("emulated disk of a guest", None)
        }
        (true, None) => {
            facts.insert("latency".to_owned(), "none".to_owned());
            ("memory of a guest (NVDIMM)", None)
        }
        (false, _) if is_uml => {
            ("disk of User-Mode Linux", Some("written back, flushes are of the host's file"))
        }
        (false, _) => ("disk of a guest", Some("written back, flushes ignored")),
    };
    // Those of an array and of its members, of a journal.
    for kind in facts.iter_mut().filter(|(name, _)| *name == "kind" || name.ends_with(".kind")) {
        if kind.1 == "block device" {
            *kind.1 = own.to_owned();
        }
    }
    if let Some(cache) = host_cache {
        facts.insert("host_cache".to_owned(), cache.to_owned());
    }
    record
}

/// Copies what the kernel said to where results are kept; says whether there was anything.
fn keep_console(console: &Path, target: &Path) -> bool {
    let text = console::read(console);
    let Some(directory) = target.parent().filter(|_| !text.trim().is_empty()) else { return false };
    let write = || -> std::io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        std::io::Write::write_all(&mut File::create(target)?, text.as_bytes())
    };
    write().is_ok()
}

/// Adds that the disk is full on which the guest's disks lie: what the guest saw of it are I/O errors.
fn add_full_host(record: &mut TrialRecord, directory: &Path) {
    if let Outcome::Failed { error, .. } = &mut record.outcome
        && file::is_full(directory)
    {
        error.push_str(&format!(
            "; the guest's disk could not grow: {} is full: make room, or choose another --dir",
            directory.display()
        ));
    }
}

/// Adds what the kernel said of itself to the error of a trial that the guest could still record.
fn add_verdict(record: &mut TrialRecord, console: &Path) {
    let Some(verdict) = console::verdict(&console::read(console)) else { return };
    if let Outcome::Failed { error, .. } = &mut record.outcome
        && !error.contains(&verdict)
    {
        error.push_str(&format!("; {verdict}"));
    }
}
