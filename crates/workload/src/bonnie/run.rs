//! The phases of the workload `bonnie`: what is timed, what lies between them, and the figures that the
//! original would have shown. The loops themselves are in the other modules.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

use fsdyno_model::record::{PhaseRecord, Warning};
use fsdyno_model::units::human_bytes;
use fsdyno_model::wire::{Manifest, ManifestFile};
use fsdyno_sys::buffer::AlignedBuffer;
use fsdyno_sys::caches::sync_all;
use fsdyno_sys::calls::{Calls, OpenFlags, Real};

use super::contents::{Change, Contents};
use super::large_file::LargeFile;
use super::longest::Longest;
use super::names::{Names, Order};
use super::seeks::{self, Tickets};
use super::settings::{Mode, Settings};
use super::small_files::{Loops, file_key};
use crate::contents::{MANIFEST_FILES, PayloadBuffer, Reservoir, verify_now};
use crate::context::Context;
use crate::failure::{call_failed, name_failed};
use crate::fragmentation;
use crate::phase::{Durability, PhaseTally};
use crate::recorder::{Operation, Recorder};
use crate::rng::{Draw, Xoshiro};

const LARGE: &CStr = c"Bonnie.large";
const TOP: &CStr = c"Bonnie.files";
const TOP_NAME: &str = "Bonnie.files";
/// Most chunks that are compared at a time.
const VERIFY_CHUNKS: u64 = 4096;
/// About the most that is compared of the small files.
const VERIFY_BYTES: u64 = 64 << 20;

/// What a phase told besides what was recorded of its calls.
#[derive(Debug, Default)]
struct Told {
    /// The longest iteration.
    longest_ns: u64,
    /// Processor time as the original counts it, where that is not the process's own.
    original_cpu_ns: Option<u64>,
    /// What the figure of the phase counts, by the name of the metric, where that is neither bytes nor
    /// files.
    amount: Option<(&'static str, f64)>,
}

impl Told {
    fn longest(longest: &Longest) -> Told {
        Told { longest_ns: longest.longest_ns(), ..Told::default() }
    }
}

/// One phase.
struct Phase {
    name: &'static str,
    metric: &'static str,
    /// Whether it writes, so that time until durable has a meaning.
    writes: bool,
}

const THROUGHPUT: &str = "throughput_mib_per_s";
const FILES: &str = "files_per_s";
/// Metric of the phase `rewrite`: bytes count once, though each is read and written.
const REWRITE: &str = "rewrite_mib_per_s";
const SEEKS: &str = "seeks_per_s";

/// Does the whole run.
///
/// # Errors
/// What failed first.
pub fn run(context: &mut Context<'_>, settings: &Settings) -> anyhow::Result<()> {
    if let Some(ram) = settings.warm_in_memory_bytes {
        context.warn(Warning {
            code: "smaller-than-memory".to_owned(),
            message: format!(
                "the file of {} is smaller than twice the memory of {} and is read warm: rates \
                 show the page cache",
                human_bytes(settings.size_bytes),
                human_bytes(ram)
            ),
            advice: "use size=auto, or leave cold=none out".to_owned(),
        })?;
    }
    context.progress.set_total(settings.progress_total());
    if settings.size_bytes > 0 {
        let contents = Contents::new(settings.payload, context.seed, settings.chunk_bytes);
        large_phases(&mut Run { context, settings }, &contents)?;
    }
    if settings.file_count > 0 {
        for order in [Order::Sequential, Order::Random] {
            small_phases(&mut Run { context, settings }, order)?;
        }
    }
    let manifest = Manifest { payload: settings.payload, seed: context.seed, files: Vec::new() };
    context.hand_over(manifest)
}

impl Settings {
    /// Units of progress: chunks and files.
    fn progress_total(&self) -> u64 {
        let chars = self.per_char_bytes.div_ceil(self.chunk_bytes as u64);
        let seeks = if self.size_bytes > 0 { self.seek_count } else { 0 };
        2 * chars + 3 * self.chunk_count() + seeks + 6 * self.file_count
    }
}

struct Run<'r, 'c> {
    context: &'r mut Context<'c>,
    settings: &'r Settings,
}

impl Run<'_, '_> {
    fn is_original(&self) -> bool {
        self.settings.mode == Mode::Original
    }

    /// Measures one phase in one sample and hands it over.
    fn phase(
        &self,
        phase: &Phase,
        body: impl FnOnce(&mut Recorder) -> anyhow::Result<Told>,
    ) -> anyhow::Result<()> {
        // What the original makes durable lies within its own calls.
        let durability = match self.settings.mode {
            Mode::Corrected if phase.writes && self.settings.sync => Durability::Target,
            _ => Durability::None,
        };
        let mut told = Told::default();
        let mut tally = PhaseTally::new(phase.name, phase.metric);
        tally.measure(self.context, "all", durability, |recorder| {
            told = body(recorder)?;
            Ok(())
        })?;
        let mut record = tally.into_record();
        add_figures(&mut record, &told);
        self.context.finish_phase(record)
    }

    /// Opens the large file.
    fn open(&self, flags: OpenFlags) -> anyhow::Result<OwnedFd> {
        let opened = Real.open_with(self.context.root(), LARGE, flags);
        Ok(opened.map_err(|errno| call_failed("open", LARGE.to_string_lossy(), errno))?)
    }

    /// Removes the large file, and in corrected mode waits until that is over.
    fn remove(&self) -> anyhow::Result<()> {
        Real.unlink(self.context.root(), LARGE)
            .map_err(|errno| call_failed("unlink", LARGE.to_string_lossy(), errno))?;
        self.settle()
    }

    /// In corrected mode what was done before a phase does not go on within it.
    fn settle(&self) -> anyhow::Result<()> {
        if self.settings.mode == Mode::Corrected && self.settings.sync {
            let root = || self.context.root_path().display().to_string();
            Real.syncfs(self.context.root())
                .map_err(|errno| call_failed("syncfs", root(), errno))?;
        }
        Ok(())
    }

    fn make_cold(&mut self) -> anyhow::Result<()> {
        self.context.make_cold(self.settings.cold)
    }
}

/// The figures that the original shows of a phase, and what they should have been.
fn add_figures(record: &mut PhaseRecord, told: &Told) {
    let elapsed_ns = record.elapsed_durable_ns.unwrap_or(record.elapsed_return_ns) as f64;
    let own_ns = record.cpu.app_user_ns.zip(record.cpu.app_system_ns);
    let own_ns = own_ns.map(|(user_ns, system_ns)| user_ns + system_ns);
    let percent = |cpu_ns: u64| 100.0 * cpu_ns as f64 / elapsed_ns;
    let values = [
        ("max_latency_ns", (told.longest_ns > 0).then_some(told.longest_ns as f64)),
        ("original_cpu_percent", told.original_cpu_ns.or(own_ns).map(percent)),
        (
            "true_cpu_percent",
            own_ns.zip(record.cpu.filesystem_ns).map(|(own, threads)| percent(own + threads)),
        ),
    ];
    for (name, value) in values {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            record.values.insert(name.to_owned(), value);
        }
    }
    if let Some((name, amount)) = told.amount.filter(|_| elapsed_ns > 0.0) {
        record.values.insert(name.to_owned(), amount * 1e9 / elapsed_ns);
    }
}

/// Closes the file within the timed region, as the original does, which makes it durable first.
fn close(
    large: &LargeFile<'_, Real>,
    file: OwnedFd,
    fsync: bool,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    if fsync {
        Real.fsync(&file).map_err(|errno| large.failed("fsync", errno))?;
        recorder.end(Operation::Fsync);
    }
    Real.close(file).map_err(|errno| large.failed("close", errno))?;
    recorder.end(Operation::Close);
    Ok(())
}

const CREATE: OpenFlags = OpenFlags { create: true, exclusive: true, ..OpenFlags::READ_WRITE };

fn large_phases(run: &mut Run<'_, '_>, contents: &Contents) -> anyhow::Result<()> {
    let settings = run.settings;
    let original = run.is_original();
    // bonnie++ 2.00a forgets to ask for direct I/O when it opens the file again.
    let direct = settings.direct;
    let direct_again = direct && !original;
    let progress = run.context.progress;
    let large = |direct| LargeFile {
        calls: &Real,
        name: LARGE,
        contents,
        chunk_count: settings.chunk_count(),
        direct,
        progress,
    };
    if settings.per_char_bytes > 0 {
        let file = run.open(CREATE)?;
        in_order(run, &large(false), "write-char", file, |large, file, recorder, longest| {
            large.write_chars(file, settings.per_char_bytes, recorder, longest)
        })?;
        run.remove()?;
    }
    let file = run.open(OpenFlags { direct, ..CREATE })?;
    in_order(run, &large(direct), "write-block", file, LargeFile::write_chunks)?;
    run.make_cold()?;
    let again = OpenFlags { direct: direct_again, ..OpenFlags::READ_WRITE };
    let file = run.open(again)?;
    in_order(run, &large(direct_again), "rewrite", file, LargeFile::rewrite_chunks)?;
    if settings.per_char_bytes > 0 {
        run.make_cold()?;
        let file = run.open(OpenFlags::READ_WRITE)?;
        in_order(run, &large(false), "read-char", file, |large, file, recorder, longest| {
            large.read_chars(file, settings.per_char_bytes, recorder, longest)
        })?;
    }
    run.make_cold()?;
    let file = run.open(again)?;
    in_order(run, &large(direct_again), "read-block", file, LargeFile::read_chunks)?;
    verify_all(run, &large(false))?;
    if settings.seek_count > 0 {
        seek_phase(run, &large(direct_again), again)?;
    }
    fragmentation::survey(run.context)?;
    run.remove()
}

/// One phase on the large file, in one thread; closes `file`.
fn in_order<'a>(
    run: &Run<'_, '_>,
    large: &LargeFile<'a, Real>,
    name: &'static str,
    file: OwnedFd,
    body: impl FnOnce(&LargeFile<'a, Real>, &OwnedFd, &mut Recorder, &mut Longest) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let rewrites = name == "rewrite";
    let phase = Phase {
        name,
        metric: if rewrites { REWRITE } else { THROUGHPUT },
        writes: !name.starts_with("read"),
    };
    let fsync = run.is_original();
    let size_mib = run.settings.size_bytes as f64 / f64::from(1 << 20);
    run.phase(&phase, |recorder| {
        let mut longest = Longest::new();
        body(large, &file, recorder, &mut longest)?;
        close(large, file, fsync, recorder)?;
        let amount = rewrites.then_some((REWRITE, size_mib));
        Ok(Told { amount, ..Told::longest(&longest) })
    })
}

/// Compares chunks from all over the file, or all where they are few, as the last phase read them.
fn verify_all(run: &Run<'_, '_>, large: &LargeFile<'_, Real>) -> anyhow::Result<()> {
    run.context.progress.enter("verify");
    let count = large.chunk_count;
    let mut rng = Xoshiro::new(run.context.seed);
    let mut sample: Vec<u64> = if count <= VERIFY_CHUNKS {
        (0..count).collect()
    } else {
        (0..VERIFY_CHUNKS).map(|_| rng.below(count)).collect()
    };
    sample.sort_unstable();
    let file = run.open(OpenFlags::READ)?;
    let sample = sample.into_iter().map(|index| (index, Change::Rewritten));
    run.context.note_verified(large.verify(&file, sample)?);
    Ok(())
}

fn seek_phase(
    run: &mut Run<'_, '_>,
    large: &LargeFile<'_, Real>,
    flags: OpenFlags,
) -> anyhow::Result<()> {
    run.make_cold()?;
    let settings = run.settings;
    let tickets = Tickets {
        seed: run.context.seed,
        count: settings.seek_count,
        chunk_count: settings.chunk_count(),
    };
    let files: Vec<OwnedFd> =
        (0..settings.seekers).map(|_| run.open(flags)).collect::<anyhow::Result<_>>()?;
    let fsync = run.is_original();
    let phase = Phase { name: "seeks", metric: SEEKS, writes: true };
    run.phase(&phase, |recorder| {
        let told = seeks::run(large, files, tickets, fsync, recorder)?;
        Ok(Told {
            longest_ns: told.longest_ns,
            original_cpu_ns: Some(told.summed_cpu_ns),
            amount: Some((SEEKS, tickets.count as f64)),
        })
    })?;
    run.context.progress.enter("verify");
    run.make_cold()?;
    let mut chunks = tickets.written_chunks();
    chunks.truncate(VERIFY_CHUNKS as usize);
    let file = run.open(OpenFlags::READ)?;
    let large = LargeFile { direct: false, ..*large };
    let sample = chunks.into_iter().map(|index| (index, Change::Sought));
    run.context.note_verified(large.verify(&file, sample)?);
    Ok(())
}

fn small_phases(run: &mut Run<'_, '_>, order: Order) -> anyhow::Result<()> {
    let settings = run.settings;
    let [create, stat, delete] = match order {
        Order::Sequential => ["create-sequential", "stat-sequential", "delete-sequential"],
        Order::Random => ["create-random", "stat-random", "delete-random"],
    };
    let seed = run.context.seed ^ order as u64;
    let names = Names::new(settings.file_count, settings.directory_count, order, seed);
    make_directories(run, &names)?;
    let buffer_bytes = settings.chunk_bytes.min(settings.small_file_max_bytes().max(1) as usize);
    let mut payload = PayloadBuffer::new(settings.payload, run.context.seed, buffer_bytes);
    let mut buffer = AlignedBuffer::new(settings.chunk_bytes);
    let mut rng = Xoshiro::new(seed);

    small_phase(run, &names, create, true, |loops, recorder, longest| {
        loops.create(&mut payload, recorder, longest)
    })?;
    run.make_cold()?;
    let listed = order == Order::Sequential;
    let random = |rng: &mut Xoshiro| (!listed).then(|| names.shuffled(rng));
    let shuffled = random(&mut rng);
    small_phase(
        run,
        shuffled.as_ref().unwrap_or(&names),
        stat,
        false,
        |loops, recorder, longest| {
            if listed {
                loops.stat_listed(&mut buffer, recorder, longest)
            } else {
                loops.stat_named(&mut buffer, recorder, longest)
            }
        },
    )?;
    verify_small(run, &names)?;
    fragmentation::survey(run.context)?;
    let shuffled = random(&mut rng);
    small_phase(
        run,
        shuffled.as_ref().unwrap_or(&names),
        delete,
        true,
        |loops, recorder, longest| {
            if listed {
                loops.delete_listed(recorder, longest)?;
            } else {
                loops.delete_named(recorder, longest)?;
            }
            Real.rmdir(run.context.root(), TOP)
                .map_err(|errno| call_failed("rmdir", TOP_NAME, errno))?;
            recorder.end(Operation::Rmdir);
            Ok(())
        },
    )
}

fn open_top(context: &Context<'_>) -> anyhow::Result<OwnedFd> {
    let opened = Real.open_dir(context.root(), TOP);
    Ok(opened.map_err(|errno| call_failed("open", TOP_NAME, errno))?)
}

fn make_directories(run: &Run<'_, '_>, names: &Names) -> anyhow::Result<()> {
    Real.mkdir(run.context.root(), TOP).map_err(|errno| call_failed("mkdir", TOP_NAME, errno))?;
    let top = open_top(run.context)?;
    for name in names.directories() {
        Real.mkdir(&top, &name).map_err(|errno| name_failed("mkdir", TOP_NAME, &name, errno))?;
    }
    run.settle()
}

/// What the loops do with small files, given the file descriptor of their directory.
fn small_loops<'a>(run: &Run<'a, '_>, names: &'a Names, top: &'a OwnedFd) -> Loops<'a, Real> {
    Loops {
        calls: &Real,
        top,
        top_name: TOP_NAME,
        names,
        kind: run.settings.small_files,
        seed: run.context.seed,
        progress: run.context.progress,
    }
}

fn small_phase(
    run: &Run<'_, '_>,
    names: &Names,
    name: &'static str,
    writes: bool,
    body: impl FnOnce(&Loops<'_, Real>, &mut Recorder, &mut Longest) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let top = open_top(run.context)?;
    let loops = small_loops(run, names, &top);
    run.phase(&Phase { name, metric: FILES, writes }, |recorder| {
        let mut longest = Longest::new();
        body(&loops, recorder, &mut longest)?;
        if writes && run.is_original() {
            sync_all();
        }
        Ok(Told::longest(&longest))
    })
}

/// Compares the contents of small files, of which there are none where all are empty.
fn verify_small(run: &Run<'_, '_>, names: &Names) -> anyhow::Result<()> {
    let settings = run.settings;
    if settings.small_file_max_bytes() == 0 {
        return Ok(());
    }
    run.context.progress.enter("verify");
    let top = open_top(run.context)?;
    let loops = small_loops(run, names, &top);
    let affordable = VERIFY_BYTES / settings.small_file_max_bytes();
    let mut chosen = Reservoir::new(MANIFEST_FILES.min(1 + affordable as usize), run.context.seed);
    for index in 0..names.len() {
        chosen.offer(|| ManifestFile {
            path: format!("{TOP_NAME}/{}", names.file(index).to_string_lossy()),
            size_bytes: loops.size_bytes(index),
            content_key: file_key(index),
        });
    }
    let (payload, seed) = (settings.payload, run.context.seed);
    let sample = Manifest { payload, seed, files: chosen.into_vec() };
    run.context.note_verified(verify_now(run.context.root_path(), sample)?);
    Ok(())
}
