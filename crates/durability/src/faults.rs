//! Disks that go wrong under a mounted filesystem: what the program is told, what the filesystem does, and
//! what is there once the disk is well again. Each fault is tried on a filesystem made for it.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fsdyno_disk::Model;
use fsdyno_lab::command;
use fsdyno_lab::emulator::faults::{self, Effect, On, Rule};
use fsdyno_lab::emulator::write_log::{Entry, WriteLog};
use fsdyno_lab::emulator::{Emulator, Extras, Wish};
use fsdyno_lab::filesystem::{FilesystemDef, Fsck, Members, Verdict, by_name};
use fsdyno_lab::kernel_log::{self, KernelLog};
use fsdyno_lab::{arguments, stand};
use fsdyno_model::target::FreshSpec;
use fsdyno_sys::caches::{self, CacheLevel};
use fsdyno_sys::mount;

use crate::content::{self, Found, RECORD};
use crate::reaction::{After, FSYNC, Reaction, Step};
use crate::recording::COMMAND_LIMIT;

/// Records are mixed with it.
const SEED: u64 = 0xfa17;
/// The file whose data a fault hits, as a number of records' own.
const FILE: u32 = 1;
/// Length of that file, in bytes.
const FILE_BYTES: u64 = 1 << 20;
/// Files in the directory that a fault of metadata hits; more than one block of any filesystem names.
const MANY: u32 = 1500;
/// Bytes in which data are looked for on the disk.
const SECTOR: u64 = 512;
/// How much later each request is answered, in nanoseconds.
const SLOW_NS: u64 = 300_000_000;

/// One way to go wrong.
#[derive(Debug)]
pub struct Fault {
    /// Its name.
    pub name: &'static str,
    /// What the disk does.
    pub summary: &'static str,
    rules: fn(&[Place]) -> Vec<Rule>,
    act: fn(&Path, &mut Told),
}

/// Where some of the file's data lie on the disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    from: u64,
    to: u64,
}

/// Every fault, in the order in which they are tried.
pub static ALL: &[Fault] = &[
    Fault {
        name: "read-data",
        summary: "sectors of a file's data cannot be read",
        rules: |places| inside(On::Read, places, Effect::Fail),
        act: |root, told| {
            told.note("read", read_file(root));
            told.note("write another file", write_new(root));
        },
    },
    Fault {
        name: "read-metadata",
        summary: "sectors of metadata cannot be read",
        rules: |places| outside(On::Read, places, Effect::Fail),
        act: |root, told| {
            told.note("list a directory", list_many(root));
            told.note("write another file", write_new(root));
        },
    },
    Fault {
        name: "write",
        summary: "nothing can be written",
        rules: |_| vec![Rule::all(On::Write, Effect::Fail)],
        act: |root, told| {
            overwrite_told(root, told);
            told.note("write another file", write_new(root));
        },
    },
    Fault {
        name: "flush",
        summary: "flushes fail",
        rules: |_| vec![Rule::all(On::Flush, Effect::Fail)],
        act: |root, told| {
            overwrite_told(root, told);
            told.note("write another file", write_new(root));
        },
    },
    Fault {
        name: "slow",
        summary: "each request takes 0.3 s longer",
        rules: |_| vec![Rule::all(On::Any, Effect::Delay(SLOW_NS))],
        act: |root, told| told.note("write another file", write_new(root)),
    },
    Fault {
        name: "gone",
        summary: "the disk is not there any more",
        rules: |_| vec![Rule::all(On::Any, Effect::Fail)],
        act: |root, told| {
            told.note("read", read_file(root));
            overwrite_told(root, told);
        },
    },
    Fault {
        name: "flipped-data",
        summary: "a file's data are read with flipped bits",
        rules: |places| inside(On::Read, places, Effect::Flip),
        act: |root, told| told.note("read", read_file(root)),
    },
    Fault {
        name: "flipped-metadata",
        summary: "metadata are read with flipped bits",
        rules: |places| outside(On::Read, places, Effect::Flip),
        act: |root, told| {
            told.note("list a directory", list_many(root));
            told.note("write another file", write_new(root));
        },
    },
    Fault {
        name: "lost-writes",
        summary: "writes are answered and not done, for a while",
        rules: |_| vec![Rule::all(On::Write, Effect::Lose)],
        act: overwrite_told,
    },
];

/// The fault with a name.
///
/// # Errors
/// A sentence that names those that there are.
pub fn find(name: &str) -> Result<&'static Fault, String> {
    ALL.iter().find(|fault| fault.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|fault| fault.name).collect();
        format!("no such fault; there are {}", fsdyno_model::words::listed(&names))
    })
}

/// Whether the kernel is asked to panic when this filesystem finds an error.
#[must_use]
pub fn panics(spec: &FreshSpec) -> bool {
    let is_asked = |word: &str| matches!(word, "errors=panic" | "fatal_errors=panic");
    let is_made_so = |pair: &[String]| pair == ["-e", "panic"];
    spec.mount.split(',').any(is_asked)
        || spec.mkfs.windows(2).any(is_made_so)
        || spec.mkfs.iter().any(|word| word == "-epanic")
}

fn inside(on: On, places: &[Place], effect: Effect) -> Vec<Rule> {
    let rule = |place: &Place| Rule { from: place.from, to: place.to, ..Rule::all(on, effect) };
    places.iter().map(rule).collect()
}

/// Everywhere but in `places`, which are sorted.
fn outside(on: On, places: &[Place], effect: Effect) -> Vec<Rule> {
    let begins = std::iter::once(0).chain(places.iter().map(|place| place.to));
    let ends = places.iter().map(|place| place.from).chain([u64::MAX]);
    let gaps = begins.zip(ends).filter(|(from, to)| from < to);
    gaps.map(|(from, to)| Rule { from, to, ..Rule::all(on, effect) }).collect()
}

/// All that it was told.
#[derive(Debug, Default)]
struct Told {
    steps: Vec<Step>,
    began: Option<Instant>,
}

/// What reading gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    /// What was written.
    Right,
    /// Others.
    Wrong,
}

impl Told {
    fn note(&mut self, what: &'static str, done: io::Result<Read>) {
        let elapsed_s = self.began.map_or(0.0, |began| began.elapsed().as_secs_f64());
        let (told, is_error, is_wrong) = match done {
            Ok(Read::Right) => ("done".to_owned(), false, false),
            Ok(Read::Wrong) => ("done, with wrong bytes".to_owned(), false, true),
            Err(error) => (words(&error), true, false),
        };
        let what = what.to_owned();
        self.steps.push(Step { what, told, is_error, is_wrong, elapsed_s });
        self.began = Some(Instant::now());
    }
}

/// The error without its number.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// What is to be tried.
#[derive(Debug)]
pub struct Order<'a> {
    /// The filesystem.
    pub spec: &'a FreshSpec,
    /// Size of the disk in bytes.
    pub size_bytes: u64,
    /// The model of the disk, and the name it was found by.
    pub model: (&'a str, &'a Model),
    /// An empty directory of the run's own.
    pub directory: &'a Path,
}

/// Tries one fault.
///
/// # Errors
/// A sentence: what failed before the fault, or of the machinery around it.
pub fn react(order: &Order<'_>, fault: &'static Fault) -> Result<Reaction, String> {
    let definition = by_name(&order.spec.filesystem)
        .ok_or_else(|| format!("`{}` is no filesystem of the catalogue", order.spec.filesystem))?;
    arguments::check(definition, &order.spec.mkfs, &order.spec.mount)?;
    let below = |name: &str| order.directory.join(name);
    let (image, served, point) = (below("disk"), below("served"), below("mount"));
    let (log, rules) = (below("log"), below("faults"));
    for directory in [&served, &point] {
        fs::create_dir(directory)
            .map_err(|error| format!("make {}: {error}", directory.display()))?;
    }
    File::create_new(&image)
        .and_then(|file| file.set_len(order.size_bytes))
        .map_err(|error| format!("make {}: {error}", image.display()))?;
    let extras = Extras { log: Some(&log), faults: Some(&rules) };
    let (model_name, model) = order.model;
    let (file, directory) = (image.as_path(), served.as_path());
    let wish = Wish { model_name, model, file, directory, seed: 1, lead_ns: 0, extras };
    let mut emulator = Emulator::start(&wish)?;
    let mut bench = Bench {
        definition,
        spec: order.spec,
        device: emulator.path().to_owned(),
        name: kernel_log::device_name(emulator.number()).unwrap_or_default(),
        point,
        rules,
        log,
    };
    let reaction = bench.react(fault);
    bench.give_up();
    emulator.end()?;
    reaction
}

struct Bench<'a> {
    definition: &'static FilesystemDef,
    spec: &'a FreshSpec,
    device: PathBuf,
    name: String,
    point: PathBuf,
    rules: PathBuf,
    log: PathBuf,
}

impl Bench<'_> {
    fn members(&self) -> Members<'_> {
        Members { device: &self.device, others: &[], journal: None }
    }

    fn mount(&self) -> Result<(), String> {
        let mut options = (self.definition.mount_options)(self.members());
        options.extend(Some(self.spec.mount.clone()).filter(|text| !text.is_empty()));
        let source = self.device.display().to_string();
        mount::mount(self.definition.info.name, &source, &self.point, &options.join(","))
            .map_err(|error| error.to_string())
    }

    fn unmount(&self) -> Result<(), String> {
        mount::unmount_from(&self.point, &self.device).map_err(|error| error.to_string())
    }

    fn set(&self, rules: &[Rule]) -> Result<(), String> {
        faults::set(&self.rules, rules)
            .map_err(|error| format!("write {}: {error}", self.rules.display()))
    }

    /// Whatever is still mounted goes.
    fn give_up(&mut self) {
        let _ = self.set(&[]);
        let is_mounted = |mounts: Vec<mount::MountInfo>| {
            mounts.iter().any(|mounted| mounted.mount_point == self.point)
        };
        if mount::mounts().is_ok_and(is_mounted) {
            let _ = mount::unmount(&self.point).or_else(|_| mount::unmount_lazy(&self.point));
        }
    }

    fn react(&self, fault: &'static Fault) -> Result<Reaction, String> {
        for command in (self.definition.mkfs)(self.members(), &self.spec.mkfs) {
            command::run_checked(&command, COMMAND_LIMIT).map_err(|error| error.to_string())?;
        }
        self.mount()?;
        prepare(&self.point).map_err(|error| format!("before the fault: {error}"))?;
        self.unmount()?;
        let places = places_of_data(&self.log)?;
        self.mount()?;
        // What mounting has read is to be read again.
        caches::drop_caches(CacheLevel::All).map_err(|error| error.to_string())?;
        let mut kernel = KernelLog::from_now();
        self.set(&(fault.rules)(&places))?;
        let mut told = Told { steps: Vec::new(), began: Some(Instant::now()) };
        (fault.act)(&self.point, &mut told);
        let devices = [self.name.clone()];
        let state = self.state(kernel.records(), &devices);
        // A filesystem that lost writes without knowing goes on working with what it remembers.
        self.set(&[])?;
        self.unmount().or_else(|error| mount::unmount_lazy(&self.point).map_err(|_| error))?;
        let first = kernel_log::first_error(kernel.records(), &devices);
        let after = self.after()?;
        Ok(Reaction {
            fault: fault.name.to_owned(),
            steps: told.steps,
            state,
            is_machine_lost: false,
            kernel: first,
            after,
        })
    }

    fn state(&self, records: &[String], devices: &[String]) -> String {
        let mounts = mount::mounts().unwrap_or_default();
        let mounted = mounts.iter().rev().find(|it| it.mount_point == self.point);
        let given_up =
            mounted.and_then(stand::given_up).or_else(|| kernel_log::given_up(records, devices));
        given_up.unwrap_or("it goes on").to_owned()
    }

    fn after(&self) -> Result<After, String> {
        let mut after = After::default();
        match self.mount() {
            Err(error) => after.mount_error = Some(error),
            Ok(()) => {
                let held = versions(&self.point).map(|versions| held(&versions).to_owned());
                after.file = Some(held.unwrap_or_else(|error| words(&error)));
                self.unmount()?;
            }
        }
        // Where there is no check, the file itself has been read.
        let Fsck::Program { command: check, meaning } = self.definition.fsck else {
            return Ok(after);
        };
        let finished = command::run(&check(self.members()), COMMAND_LIMIT)
            .map_err(|error| error.to_string())?;
        let (verdict, meaning) = match finished.exit_code {
            Some(code) => meaning(code),
            None => (Verdict::Operational, "ended by a signal"),
        };
        after.check = (verdict != Verdict::Clean).then(|| meaning.to_owned());
        Ok(after)
    }
}

/// The version of the file's data: the first, and the one that is written while the disk is wrong.
const FIRST: u32 = 1;
const SECOND: u32 = 2;

fn target(root: &Path) -> PathBuf {
    root.join("file")
}

fn prepare(root: &Path) -> io::Result<()> {
    let file = File::create_new(target(root))?;
    file.write_all_at(&content::bytes(SEED, FILE, FIRST, 0, FILE_BYTES), 0)?;
    file.sync_all()?;
    let many = root.join("many");
    fs::create_dir(&many)?;
    for number in 0..MANY {
        File::create_new(many.join(format!("a-file-with-a-longer-name-{number}")))?;
    }
    Ok(rustix::fs::syncfs(File::open(root)?)?)
}

/// Where the file's data lie, from what was written down, sorted: filesystems tell it each in its own way. Where
/// data are written to a journal first, that is one of the places.
fn places_of_data(log: &Path) -> Result<Vec<Place>, String> {
    let log = WriteLog::open(log)?;
    let mut sectors = BTreeSet::new();
    for entry in log.entries() {
        let Entry::Write { offset, bytes, at } = *entry else { continue };
        let mut buffer = vec![0; bytes as usize];
        log.read(at, &mut buffer).map_err(|error| format!("{}: {error}", log.path().display()))?;
        for (index, sector) in buffer.chunks(SECTOR as usize).enumerate() {
            let Some(record) = sector.get(..RECORD as usize) else { continue };
            if matches!(content::look(SEED, record), Found::Record { file: FILE, .. }) {
                sectors.insert(offset + index as u64 * SECTOR);
            }
        }
    }
    if sectors.is_empty() {
        return Err(
            "the file's data were not found on the disk: does the filesystem change them (compress)?"
                .to_owned(),
        );
    }
    Ok(together(sectors))
}

/// Sectors that follow each other are one place.
fn together(sectors: BTreeSet<u64>) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for from in sectors {
        match places.last_mut().filter(|last| last.to == from) {
            Some(last) => last.to += SECTOR,
            None => places.push(Place { from, to: from + SECTOR }),
        }
    }
    places
}

fn versions(root: &Path) -> io::Result<Vec<Option<u32>>> {
    let mut contents = Vec::new();
    File::open(target(root))?.take(2 * FILE_BYTES).read_to_end(&mut contents)?;
    if contents.len() as u64 != FILE_BYTES {
        return Ok(vec![None]);
    }
    let records = contents.chunks_exact(RECORD as usize).enumerate();
    let version = |(index, record): (usize, &[u8])| match content::look(SEED, record) {
        Found::Record { file: FILE, operation, place } if place as usize == index => {
            Some(operation)
        }
        _ => None,
    };
    Ok(records.map(version).collect())
}

/// Reads the file, of which the first version is right.
fn read_file(root: &Path) -> io::Result<Read> {
    let versions = versions(root)?;
    Ok(if versions.iter().all(|it| *it == Some(FIRST)) { Read::Right } else { Read::Wrong })
}

/// Which versions of its data a file holds, in a word.
fn held(versions: &[Option<u32>]) -> &'static str {
    let all = |version| versions.iter().all(|it| *it == Some(version));
    if all(SECOND) {
        "written"
    } else if all(FIRST) {
        "before"
    } else if versions.iter().all(Option::is_some) {
        "mixed"
    } else {
        "wrong"
    }
}

/// Overwrites the file and asks twice that it be durable: the second time a program may be told that all
/// is well.
fn overwrite_told(root: &Path, told: &mut Told) {
    let opened = OpenOptions::new().write(true).open(target(root));
    let file = match opened {
        Ok(file) => file,
        Err(error) => return told.note("open", Err(error)),
    };
    let bytes = content::bytes(SEED, FILE, SECOND, 0, FILE_BYTES);
    told.note("overwrite", file.write_all_at(&bytes, 0).map(|()| Read::Right));
    told.note(FSYNC, file.sync_all().map(|()| Read::Right));
    told.note("fsync again", file.sync_all().map(|()| Read::Right));
}

fn write_new(root: &Path) -> io::Result<Read> {
    let file = File::create(root.join("another"))?;
    file.write_all_at(&[7; 8192], 0)?;
    file.sync_all()?;
    Ok(Read::Right)
}

fn list_many(root: &Path) -> io::Result<Read> {
    let mut count = 0;
    for entry in fs::read_dir(root.join("many"))? {
        entry?.metadata()?;
        count += 1;
    }
    Ok(if count == MANY { Read::Right } else { Read::Wrong })
}

#[cfg(test)]
mod tests {
    use fsdyno_model::device::DeviceSpec;

    use super::*;

    #[test]
    fn a_file_holds_one_version_or_both() {
        assert_eq!(held(&[Some(SECOND); 3]), "written");
        assert_eq!(held(&[Some(FIRST); 3]), "before");
        assert_eq!(held(&[Some(FIRST), Some(SECOND)]), "mixed");
        assert_eq!(held(&[Some(FIRST), None]), "wrong");
    }

    #[test]
    fn metadata_are_everywhere_but_in_the_data() {
        let places = together(BTreeSet::from([512, 1024, 4096]));
        assert_eq!(places, [Place { from: 512, to: 1536 }, Place { from: 4096, to: 4608 }]);
        let ends = |rules: Vec<Rule>| -> Vec<(u64, u64)> {
            rules.iter().map(|rule| (rule.from, rule.to)).collect()
        };
        let inside = ends(inside(On::Read, &places, Effect::Fail));
        assert_eq!(inside, [(512, 1536), (4096, 4608)]);
        let outside = ends(outside(On::Read, &places, Effect::Fail));
        assert_eq!(outside, [(0, 512), (1536, 4096), (4608, u64::MAX)]);
    }

    #[test]
    fn who_asks_for_a_panic_is_known() {
        for (mkfs, mount, expected) in [
            ("", "", false),
            ("", "noatime,errors=panic", true),
            ("", "errors=remount-ro", false),
            ("", "fatal_errors=panic", true),
            ("-q -e panic", "", true),
            ("-epanic", "", true),
            ("-e continue", "", false),
            ("-L panic", "", false),
        ] {
            let spec = FreshSpec {
                filesystem: "ext4".to_owned(),
                mkfs: mkfs.split_whitespace().map(str::to_owned).collect(),
                mount: mount.to_owned(),
                device: DeviceSpec::LoopImage { size_bytes: None },
                journal: None,
                age: None,
                kernel: None,
            };
            assert_eq!(panics(&spec), expected, "{mkfs} {mount}");
        }
    }

    #[test]
    fn faults_have_names_of_their_own() {
        let mut names: Vec<&str> = ALL.iter().map(|fault| fault.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        assert!(ALL.iter().all(|fault| !fault.summary.is_empty()));
    }
}
