//! Many power cuts of one recording: each made as an image, mounted, read, unmounted, checked and judged,
//! several beside each other.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fsdyno_lab::command::{self, CommandSpec};
use fsdyno_lab::filesystem::{FilesystemDef, Fsck, Members, Verdict};
use fsdyno_sys::loopdev::{LoopDevice, LoopOptions};
use fsdyno_sys::{mount, process};
use serde::{Deserialize, Serialize};

use crate::cut::{Cut, Cuts, DiskRules};
use crate::found::{self, FoundTree};
use crate::image::Base;
use crate::oracle::{self, Broken, Promise, Rules};
use crate::recording::{COMMAND_LIMIT, Recording};

/// Cuts that are told in full; the others are counted.
const MOST_TOLD: usize = 50;

/// What is to be replayed.
#[derive(Debug, Clone)]
pub struct Order {
    /// Numbers of the cuts.
    pub numbers: std::ops::Range<u64>,
    /// The disk.
    pub rules: DiskRules,
    /// Whether the check of the filesystem runs on each.
    pub check: bool,
    /// How many beside each other.
    pub threads: usize,
    /// A directory of the run's own, for mount points.
    pub directory: PathBuf,
}

/// A cut after which a promise was broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenCut {
    /// Worker whose promise it was; null for the whole filesystem.
    pub worker: Option<usize>,
    /// The cut.
    pub cut: Cut,
    /// What was broken.
    pub broken: Vec<Broken>,
}

/// What came of all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Cuts that were looked at.
    pub cuts: u64,
    /// Of these, those after which every promise was kept.
    pub kept: u64,
    /// Those that broke one, by number; at most 50 of them.
    pub broken: Vec<BrokenCut>,
}

/// Replays cuts. `tell` is called after each with the number that is done and of those that broke a
/// promise.
///
/// # Errors
/// A sentence where a cut could not be made or looked at, or a signal came.
pub fn run(
    recording: &Recording,
    order: &Order,
    tell: &(dyn Fn(u64, u64) + Sync),
) -> Result<Outcome, String> {
    let about = &recording.about;
    let definition = about.definition()?;
    let base = Base::new(&recording.log, about.range.0, about.size_bytes)?;
    let cuts = Cuts::new(&recording.log, about.range, about.marks(), about.seed, order.rules);
    let next = AtomicU64::new(order.numbers.start);
    let stopped = AtomicBool::new(false);
    let outcome = Mutex::new((Outcome::default(), None));
    std::thread::scope(|scope| {
        // btrfs and its programs take two images of one filesystem for one.
        let threads = if about.filesystem == "btrfs" { 1 } else { order.threads.max(1) };
        for thread in 0..threads {
            let (base, cuts, next, stopped, outcome) = (&base, &cuts, &next, &stopped, &outcome);
            scope.spawn(move || {
                let bench = Bench { recording, definition, base, cuts, order, thread };
                while !stopped.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= order.numbers.end {
                        return;
                    }
                    let found = if process::interrupted() {
                        Err("interrupted".to_owned())
                    } else {
                        bench.look(cuts.draw(number))
                    };
                    let mut outcome =
                        outcome.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    match found {
                        Ok(broken) => outcome.0.count(broken),
                        Err(error) => {
                            stopped.store(true, Ordering::Relaxed);
                            outcome.1.get_or_insert(error);
                        }
                    }
                    tell(outcome.0.cuts, outcome.0.cuts - outcome.0.kept);
                }
            });
        }
    });
    let (mut outcome, error) =
        outcome.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    outcome.broken.sort_by_key(|broken| broken.cut.number);
    error.map_or(Ok(outcome), Err)
}

impl Outcome {
    fn count(&mut self, broken: Option<BrokenCut>) {
        self.cuts += 1;
        match broken {
            None => self.kept += 1,
            Some(broken) if self.broken.len() < MOST_TOLD => self.broken.push(broken),
            Some(_) => {}
        }
    }
}

/// Where one thread works.
struct Bench<'a> {
    recording: &'a Recording,
    definition: &'static FilesystemDef,
    base: &'a Base,
    cuts: &'a Cuts<'a>,
    order: &'a Order,
    thread: usize,
}

impl Bench<'_> {
    fn look(&self, cut: Cut) -> Result<Option<BrokenCut>, String> {
        let image = self.base.after(self.cuts, cut)?;
        let options =
            LoopOptions { direct_io: false, block_size: Some(512), ..LoopOptions::default() };
        let device =
            LoopDevice::attach(&image.path(), options).map_err(|error| error.to_string())?;
        let found = self.look_at(device.path(), cut);
        device.detach().map_err(|error| error.to_string())?;
        found
    }

    fn look_at(&self, device: &Path, cut: Cut) -> Result<Option<BrokenCut>, String> {
        let broken = |worker, broken| Ok(Some(BrokenCut { worker, cut, broken }));
        let trees = match self.read(device)? {
            Ok(trees) => trees,
            Err(why) => return broken(None, vec![Broken::new(Promise::Mounts, why, None)]),
        };
        if self.order.check
            && let Some(why) = self.check(device)?
        {
            return broken(None, vec![Broken::new(Promise::Consistent, why, None)]);
        }
        let about = &self.recording.about;
        let rules = Rules { seed: about.seed, promises: about.promises };
        for (worker, (history, tree)) in about.histories.iter().zip(&trees).enumerate() {
            let judged = oracle::judge(history, tree, cut.at, rules);
            if !judged.is_empty() {
                return broken(Some(worker), judged);
            }
        }
        Ok(None)
    }

    /// Mounts and reads; the inner error is the kernel's, who would not mount it.
    fn read(&self, device: &Path) -> Result<Result<Vec<FoundTree>, String>, String> {
        let about = &self.recording.about;
        let point = self.order.directory.join(format!("cut-{}", self.thread));
        fs::create_dir_all(&point).map_err(|error| format!("make {}: {error}", point.display()))?;
        // Several cuts of one filesystem are mounted at once.
        let extra = if about.filesystem == "xfs" { "nouuid" } else { "" };
        let options: Vec<&str> =
            [about.mount_options.as_str(), extra].into_iter().filter(|it| !it.is_empty()).collect();
        let source = device.display().to_string();
        if let Err(error) = mount::mount(&about.filesystem, &source, &point, &options.join(",")) {
            self.forget(device);
            return Ok(Err(error.to_string()));
        }
        let trees = about.histories.iter().map(|it| found::read(&point, &it.directories)).collect();
        mount::unmount_from(&point, device)
            .inspect_err(|_| drop(mount::unmount_lazy(&point)))
            .map_err(|error| error.to_string())?;
        self.forget(device);
        Ok(Ok(trees))
    }

    /// btrfs remembers a device that it saw, and would take the next cut for the same filesystem.
    fn forget(&self, device: &Path) {
        if self.recording.about.filesystem == "btrfs" {
            let forget = CommandSpec::new("btrfs", &["device", "scan", "--forget"]);
            let _ = command::run(&forget.arg(device.display().to_string()), COMMAND_LIMIT);
        }
    }

    /// What the check finds, where it finds errors.
    fn check(&self, device: &Path) -> Result<Option<String>, String> {
        // Where there is no check, what was promised is still read back.
        let Fsck::Program { command: check, meaning } = self.definition.fsck else {
            return Ok(None);
        };
        let spec = check(Members { device, others: &[], journal: None });
        let finished = command::run(&spec, COMMAND_LIMIT).map_err(|error| error.to_string())?;
        let (verdict, meaning) = match finished.exit_code {
            Some(code) => meaning(code),
            None => (Verdict::Operational, "ended by a signal"),
        };
        match verdict {
            Verdict::Clean => Ok(None),
            Verdict::Corrected | Verdict::Errors => {
                Ok(Some(format!("{}: {meaning}: {}", spec.program, finished.last_words())))
            }
            Verdict::Operational => {
                Err(format!("{} ({meaning})", command::failure(&spec, &finished)))
            }
        }
    }
}
