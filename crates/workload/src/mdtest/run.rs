//! The phases of the workload `mdtest`, and its parameters checked against each other. What is done to
//! each item is in [`super::work`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use fsdyno_model::cold::Cold;
use fsdyno_model::param::Params;
use fsdyno_model::payload::Payload;
use fsdyno_model::units::parse_duration_ns;
use fsdyno_model::wire::{Manifest, ManifestFile};
use fsdyno_sys::calls::{Calls, Real};
use fsdyno_sys::clock::now_ns;

use super::names::{Item, MOST_DIRECTORIES, Names, Shape, c_string, items, tree};
use super::work::{Deed, FileWork, Hands, file_key};
use crate::contents::{MANIFEST_FILES, PayloadBuffer, Reservoir, verify_now};
use crate::context::Context;
use crate::failure::call_failed;
use crate::fragmentation;
use crate::jobs;
use crate::phase::{Durability, PhaseTally};

/// The phases in their order: name, what is done, and to what.
const PHASES: [(&str, Deed, Item); 8] = [
    ("directory-create", Deed::MakeDirectory, Item::Directory),
    ("directory-stat", Deed::Stat, Item::Directory),
    ("directory-rename", Deed::Rename, Item::Directory),
    ("directory-remove", Deed::RemoveDirectory, Item::Directory),
    ("file-create", Deed::CreateFile, Item::File),
    ("file-stat", Deed::Stat, Item::File),
    ("file-read", Deed::ReadFile, Item::File),
    ("file-remove", Deed::RemoveFile, Item::File),
];
const TREE_CREATION: &str = "tree-creation";
const TREE_REMOVAL: &str = "tree-removal";
const METRIC: &str = "files_per_s";
/// Most items of one kind: their names are kept in memory.
const MOST_ITEMS: u64 = 20_000_000;
/// Size of the buffers for reading and writing.
const BUFFER_BYTES: u64 = 256 << 10;
/// About the most that is compared after the phase `file-read` of an iteration.
const SAMPLE_BYTES: u64 = 64 << 20;
/// What a renamed item is called.
const RENAMED: &str = "-renamed";

/// The parameters.
#[derive(Debug)]
pub struct Settings {
    shape: Shape,
    /// Items of each rank in each directory that holds any.
    pub per_directory: u64,
    ranks: usize,
    iterations: u64,
    own_trees: bool,
    stride: usize,
    files: FileWork,
    stonewall_ns: u64,
    with_files: bool,
    with_directories: bool,
    renames: bool,
    payload: Payload,
    cold: Cold,
    durability: Durability,
}

impl Settings {
    /// Reads the parameters.
    ///
    /// # Errors
    /// A sentence: what does not fit.
    pub fn new(params: &Params) -> Result<Settings, String> {
        let (branch, depth) = (params.number("branch"), params.number("depth"));
        let shape = Shape { branch, depth, leaves_only: params.flag("leaves_only") };
        let directories = shape.directory_count().ok_or_else(|| {
            format!(
                "branch={branch} and depth={depth} make more than {MOST_DIRECTORIES} directories"
            )
        })?;
        let holding = shape.holding().end - shape.holding().start;
        let items = params.number("items");
        let per_directory = match params.number("items_per_directory") {
            0 if items < holding => {
                return Err(format!(
                    "items={items} are fewer than the {holding} directories that hold them: use more"
                ));
            }
            0 => items / holding,
            given => given,
        };
        let ranks = params.number("numjobs") as usize;
        if per_directory.saturating_mul(holding).saturating_mul(ranks as u64) > MOST_ITEMS {
            return Err(format!("there are more than {MOST_ITEMS} items: use fewer"));
        }
        let own_trees = params.flag("unique_directories");
        if own_trees && directories.saturating_mul(ranks as u64) > MOST_DIRECTORIES {
            return Err(format!("all trees have more than {MOST_DIRECTORIES} directories"));
        }
        let (write_bytes, read_bytes) = (params.number("write_bytes"), params.number("read_bytes"));
        if read_bytes > write_bytes {
            return Err(format!(
                "read_bytes={read_bytes} are more than write_bytes={write_bytes}, what a file holds"
            ));
        }
        let (with_files, with_directories) = (params.flag("files"), params.flag("directories"));
        if !with_files && !with_directories {
            return Err("files=false and directories=false leave nothing to do".to_owned());
        }
        let stonewall_ns = match params.text("stonewall") {
            "off" => 0,
            text => parse_duration_ns(text).map_err(|error| error.to_string())?,
        };
        Ok(Settings {
            shape,
            per_directory,
            ranks,
            iterations: params.number("iterations"),
            own_trees,
            stride: params.number("stride") as usize,
            files: FileWork {
                write_bytes,
                read_bytes,
                fsyncs: params.flag("fsync"),
                end_ns: u64::MAX,
            },
            stonewall_ns,
            with_files,
            with_directories,
            renames: params.flag("rename"),
            payload: Payload::parse(params.text("payload"))?,
            cold: Cold::parse(params.text("cold"))?,
            durability: if params.flag("sync") { Durability::Target } else { Durability::None },
        })
    }

    /// Upper estimate of the bytes on the target at once.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        const BLOCK_BYTES: u64 = 4096;
        let holding = self.shape.holding();
        let all = self.per_directory * (holding.end - holding.start) * self.ranks as u64;
        let file = self.files.write_bytes.next_multiple_of(BLOCK_BYTES);
        let item = if self.with_directories { BLOCK_BYTES.max(file) } else { file };
        let trees = if self.own_trees { self.ranks as u64 } else { 1 };
        let directories = self.shape.directory_count().unwrap_or(1) * trees + 1;
        // Entries have names of some 24 letters, in blocks that are half full after they were split.
        (all.saturating_mul(item + 96)).saturating_add(2 * BLOCK_BYTES * directories)
    }

    fn does(&self, (_, deed, item): &(&str, Deed, Item)) -> bool {
        let wanted = if *item == Item::File { self.with_files } else { self.with_directories };
        wanted && (self.renames || *deed != Deed::Rename)
    }
}

/// What one rank has: names of its items, and buffers.
struct Rank {
    directories: Names,
    renamed: Names,
    files: Names,
    payload: PayloadBuffer,
    buffer: Vec<u8>,
}

/// Everything made before the clock starts.
struct Stage {
    settings: Settings,
    /// Paths of the directories of each tree.
    trees: Vec<Vec<String>>,
    ranks: Vec<Mutex<Rank>>,
    /// Files that each rank has made.
    made: Vec<AtomicUsize>,
}

impl Stage {
    fn new(settings: Settings, seed: u64) -> Stage {
        let shape = settings.shape;
        let trees: Vec<Vec<String>> = if settings.own_trees {
            (0..settings.ranks).map(|rank| tree(shape, Some(rank))).collect()
        } else {
            vec![tree(shape, None)]
        };
        let ranks = (0..settings.ranks).map(|rank| {
            let paths = trees.get(rank).unwrap_or(&trees[0]);
            let named = |item, wanted, suffix| {
                let count = if wanted { settings.per_directory } else { 0 };
                items((shape, paths), (item, rank), count, suffix)
            };
            let written = settings.files.write_bytes.clamp(1, BUFFER_BYTES) as usize;
            let read = settings.files.read_bytes.clamp(1, BUFFER_BYTES) as usize;
            let renames = settings.with_directories && settings.renames;
            Mutex::new(Rank {
                directories: named(Item::Directory, settings.with_directories, ""),
                renamed: named(Item::Directory, renames, RENAMED),
                files: named(Item::File, settings.with_files, ""),
                payload: PayloadBuffer::new(settings.payload, seed, written),
                buffer: vec![0; read],
            })
        });
        let ranks = ranks.collect();
        let made = (0..settings.ranks).map(|_| AtomicUsize::new(0)).collect();
        Stage { settings, trees, ranks, made }
    }

    /// Whose items a rank works on in a phase: those of a neighbour where a stride is given.
    fn neighbour(&self, rank: usize, deed: Deed) -> usize {
        let strides = match deed {
            Deed::MakeDirectory | Deed::CreateFile | Deed::Rename => 0,
            Deed::Stat => 1,
            Deed::ReadFile => 2,
            Deed::RemoveDirectory | Deed::RemoveFile => 3,
        };
        (rank + strides * self.settings.stride) % self.settings.ranks
    }
}

/// Runs the workload.
///
/// # Errors
/// Parameters that do not fit, the call that failed first, contents that changed.
pub fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let settings = Settings::new(context.params).map_err(anyhow::Error::msg)?;
    let stage = Stage::new(settings, context.seed);
    let settings = &stage.settings;
    let phases: Vec<_> = PHASES.iter().filter(|phase| settings.does(phase)).collect();
    context.progress.set_total(settings.iterations * (phases.len() as u64 + 2));
    let mut creation = PhaseTally::new(TREE_CREATION, METRIC);
    let mut removal = PhaseTally::new(TREE_REMOVAL, METRIC);
    let mut tallies: Vec<PhaseTally> =
        phases.iter().map(|(name, _, _)| PhaseTally::new(name, METRIC)).collect();
    for iteration in 0..settings.iterations {
        let top = format!("test-dir.0-{iteration}");
        Real.mkdir(context.root(), &c_string(&top))
            .map_err(|errno| call_failed("mkdir", top.as_str(), errno))?;
        trees(context, &stage, (&mut creation, &top), true)?;
        for ((_, deed, item), tally) in phases.iter().zip(&mut tallies) {
            let starts_warm = matches!(deed, Deed::MakeDirectory | Deed::CreateFile | Deed::Rename);
            if !starts_warm {
                context.make_cold(settings.cold)?;
            }
            measure(context, &stage, tally, (&top, *deed, *item))?;
            context.progress.advance(1);
            if *deed == Deed::ReadFile {
                compare(context, &stage, &top)?;
                fragmentation::survey(context)?;
            }
        }
        fragmentation::survey(context)?;
        trees(context, &stage, (&mut removal, &top), false)?;
        Real.rmdir(context.root(), &c_string(&top))
            .map_err(|errno| call_failed("rmdir", top.as_str(), errno))?;
    }
    for tally in [creation].into_iter().chain(tallies).chain([removal]) {
        context.finish_phase(tally.into_record())?;
    }
    let (payload, seed) = (stage.settings.payload, context.seed);
    context.hand_over(Manifest { payload, seed, files: Vec::new() })
}

/// Makes or removes the directories of the trees: of a shared one the first rank does, of their own each.
fn trees(
    context: &Context<'_>,
    stage: &Stage,
    (tally, top): (&mut PhaseTally, &str),
    makes: bool,
) -> anyhow::Result<()> {
    let root = Real
        .open_dir(context.root(), &c_string(top))
        .map_err(|errno| call_failed("open", top, errno))?;
    let names: Vec<Names> = stage
        .trees
        .iter()
        .map(|paths| {
            let mut names = Names::default();
            if makes {
                paths.iter().for_each(|path| names.push(path));
            } else {
                paths.iter().rev().for_each(|path| names.push(path));
            }
            names
        })
        .collect();
    let deed = if makes { Deed::MakeDirectory } else { Deed::RemoveDirectory };
    tally.measure(context, top, stage.settings.durability, |recorder| {
        jobs::run(names.len(), recorder, |tree, recorder| {
            let mut rank = stage.ranks[tree].lock().unwrap_or_else(PoisonError::into_inner);
            let Rank { payload, buffer, .. } = &mut *rank;
            let files = stage.settings.files;
            let mut hands = Hands { root: &root, files, payload, buffer };
            let none = Names::default();
            hands.work(deed, (&names[tree], &none), usize::MAX, recorder).map(drop)
        })
    })?;
    context.progress.advance(1);
    Ok(())
}

/// Measures one phase of one iteration.
fn measure(
    context: &Context<'_>,
    stage: &Stage,
    tally: &mut PhaseTally,
    (top, deed, item): (&str, Deed, Item),
) -> anyhow::Result<()> {
    let settings = &stage.settings;
    let root = Real
        .open_dir(context.root(), &c_string(top))
        .map_err(|errno| call_failed("open", top, errno))?;
    // The names are another rank's where a stride is given, so they are taken out for the phase.
    let names: Vec<(Names, Names)> = stage
        .ranks
        .iter()
        .map(|rank| {
            let mut rank = rank.lock().unwrap_or_else(PoisonError::into_inner);
            match item {
                Item::File => (std::mem::take(&mut rank.files), Names::default()),
                Item::Directory => {
                    (std::mem::take(&mut rank.directories), std::mem::take(&mut rank.renamed))
                }
            }
        })
        .collect();
    let outcome = tally.measure(context, top, settings.durability, |recorder| {
        jobs::run(settings.ranks, recorder, |rank, recorder| {
            let mut files = settings.files;
            if settings.stonewall_ns > 0 {
                files.end_ns = now_ns().saturating_add(settings.stonewall_ns);
            }
            let of = stage.neighbour(rank, deed);
            let (first, second) = &names[of];
            // After a renaming the new names are there.
            let is_renamed = deed == Deed::RemoveDirectory && settings.renames;
            let current = if is_renamed { second } else { first };
            let count = match (item, deed) {
                (Item::File, Deed::CreateFile) | (Item::Directory, _) => usize::MAX,
                (Item::File, _) => stage.made[of].load(Ordering::Relaxed),
            };
            let mut own = stage.ranks[rank].lock().unwrap_or_else(PoisonError::into_inner);
            let Rank { payload, buffer, .. } = &mut *own;
            let mut hands = Hands { root: &root, files, payload, buffer };
            let done = hands.work(deed, (current, second), count, recorder)?;
            if deed == Deed::CreateFile {
                stage.made[rank].store(done, Ordering::Relaxed);
            }
            Ok(())
        })
    });
    for (rank, (first, second)) in stage.ranks.iter().zip(names) {
        let mut rank = rank.lock().unwrap_or_else(PoisonError::into_inner);
        match item {
            Item::File => rank.files = first,
            Item::Directory => (rank.directories, rank.renamed) = (first, second),
        }
    }
    outcome
}

/// Compares a sample of the files with what was written.
fn compare(context: &Context<'_>, stage: &Stage, top: &str) -> anyhow::Result<()> {
    context.progress.enter("verify");
    let settings = &stage.settings;
    let size_bytes = settings.files.write_bytes;
    let affordable = 1 + (SAMPLE_BYTES / size_bytes.max(1)) as usize;
    let mut chosen = Reservoir::new(MANIFEST_FILES.min(affordable), context.seed);
    for (rank, made) in stage.ranks.iter().zip(&stage.made) {
        let rank = rank.lock().unwrap_or_else(PoisonError::into_inner);
        for index in 0..made.load(Ordering::Relaxed) {
            let name = rank.files.get(index);
            chosen.offer(|| ManifestFile {
                path: format!("{top}/{}", name.to_string_lossy()),
                size_bytes,
                content_key: if rank.payload.is_constant() { 0 } else { file_key(name) },
            });
        }
    }
    let (payload, seed) = (settings.payload, context.seed);
    let manifest = Manifest { payload, seed, files: chosen.into_vec() };
    context.note_verified(verify_now(context.root_path(), manifest)?);
    Ok(())
}
