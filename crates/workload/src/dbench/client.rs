//! One client: goes through the steps of a compiled load, counts, and stops in time. The calls of each
//! operation are in `operations.rs`; when clients begin, and for how long, is left to
//! [`super::run`].

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fsdyno_sys::Errno;
use fsdyno_sys::calls::{CallResult, dir_buffer};
use fsdyno_sys::clock::Timer;
use fsdyno_sys::error::describe;

use super::kinds::{Kind, KindTally};
use super::program::{Action, Program, Step};
use super::status::{END_OF_FILE, NOT_OPEN};
use crate::contents::PayloadBuffer;
use crate::context::Progress;
use crate::failure::{call_failed, check_interrupt};
use crate::payload::{GOLDEN, content_key, mix, name_hash};
use crate::recorder::Recorder;

/// Between two looks at whether to stop.
const LOOK_NS: u64 = 20_000_000;
/// Longest piece of a pause.
const PAUSE: Duration = Duration::from_millis(10);
/// Mismatches that are kept to be told.
const KEPT_MISMATCHES: usize = 10;
const NS_PER_S: u64 = 1_000_000_000;

/// What all clients share.
#[derive(Debug)]
pub struct Shared {
    /// The points that the clients have reached.
    pub points: Vec<AtomicU64>,
}

/// How long a client is to run.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Tick at which it began, for all clients.
    pub start_ticks: u64,
    /// Time after that at which it ends.
    pub end_ns: u64,
    /// Passes over the load after which it ends; 0: any number.
    pub passes: u64,
    /// Bytes per second that are not exceeded; 0: no limit.
    pub bytes_per_s: f64,
}

/// How operations are carried out.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// A path is looked up, and where it is absent its directory is read, as a server does that knows
    /// no difference between upper and lower case.
    pub resolves: bool,
    /// `Deltree` leaves directories.
    pub keeps_directories: bool,
    /// The first operation that ends otherwise than expected is an error.
    pub is_strict: bool,
}

/// An operation that ended otherwise than expected.
#[derive(Debug, Clone, Copy)]
pub struct Mismatch {
    /// Its step.
    pub step: Step,
    /// How it ended.
    pub errno: Option<Errno>,
}

impl Mismatch {
    /// `line 12: ReadX ended with ENOENT, NT_STATUS_OK is expected`.
    #[must_use]
    pub fn text(&self) -> String {
        let kind = self.step.kind.map_or("", |kind| Kind::ALL[kind as usize].1);
        let how = match self.errno {
            None => "succeeded".to_owned(),
            Some(END_OF_FILE) => "moved another number of bytes".to_owned(),
            Some(NOT_OPEN) => "found its handle not open".to_owned(),
            Some(errno) => format!("failed with {}", describe(errno)),
        };
        format!("line {}: {kind} {how}, {} is expected", self.step.line, self.step.expected)
    }
}

/// What is written.
#[derive(Debug)]
pub enum Writing {
    /// One of several buffers, each the same for all files.
    Fixed(Vec<Vec<u8>>),
    /// Payload of stated entropy.
    Made(PayloadBuffer),
}

pub(super) trait Contents {
    fn bytes(&mut self, pattern: usize, key: u64, offset: u64, count: usize) -> &[u8];
}

struct Fixed<'a>(&'a [Vec<u8>]);

impl Contents for Fixed<'_> {
    #[inline(always)]
    fn bytes(&mut self, pattern: usize, _: u64, _: u64, count: usize) -> &[u8] {
        &self.0[pattern][..count]
    }
}

impl Contents for &mut PayloadBuffer {
    #[inline(always)]
    fn bytes(&mut self, _: usize, key: u64, offset: u64, count: usize) -> &[u8] {
        PayloadBuffer::bytes(self, key, offset, count as u64)
    }
}

/// A path and the directory that holds it.
#[derive(Debug)]
pub struct ClientPath {
    /// Below the working directory.
    pub name: CString,
    /// The directory; `.` is the working directory.
    pub parent: CString,
}

/// An open file or directory.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) fd: OwnedFd,
    pub(super) key: u64,
}

/// One client.
#[derive(Debug)]
pub struct Client<'p> {
    state: State<'p>,
    writing: Writing,
}

/// All of a client but what it writes.
#[derive(Debug)]
pub(super) struct State<'p> {
    pub(super) program: &'p Program,
    pub(super) root: &'p OwnedFd,
    pub(super) shared: &'p Shared,
    pub(super) progress: &'p Progress,
    pub(super) manner: Manner,
    pub(super) timer: Timer,
    pub(super) index: usize,
    pub(super) paths: Vec<ClientPath>,
    /// The key of the contents of each path.
    pub(super) keys: Vec<u64>,
    pub(super) fresh_key: u64,
    pub(super) handles: Vec<Option<Handle>>,
    pub(super) counters: Vec<u64>,
    pub(super) drawn: [u32; 10],
    pub(super) draw_count: u64,
    pub(super) pattern: usize,
    pub(super) place: u64,
    pub(super) step: usize,
    pub(super) pass_ticks: u64,
    pub(super) span: Span,
    /// Tick of the next look at whether to stop.
    pub(super) edge_ticks: u64,
    /// Bytes of the recorder at the start of the span, and those at which to wait for the rate.
    pub(super) base_bytes: u64,
    pub(super) due_bytes: u64,
    pub(super) told_ms: u64,
    /// Bytes moved in the last span.
    pub(super) span_bytes: u64,
    pub(super) passes_done: u64,
    pub(super) read_buffer: Vec<u8>,
    pub(super) list_buffer: Box<[MaybeUninit<u8>]>,
    pub(super) tallies: [KindTally; Kind::COUNT],
    pub(super) mismatch_count: u64,
    pub(super) mismatches: Vec<Mismatch>,
    /// Bytes moved by the end of each full second.
    pub(super) second_bytes: Vec<u64>,
}

impl<'p> Client<'p> {
    /// The client `index`, about to begin.
    #[must_use]
    pub fn new(
        program: &'p Program,
        (root, shared, progress): (&'p OwnedFd, &'p Shared, &'p Progress),
        manner: Manner,
        index: usize,
        writing: Writing,
    ) -> Client<'p> {
        let names = program.paths_of(index as u32);
        let own = |text: &str| CString::new(text).expect("the reader refuses NUL in paths");
        let paths: Vec<ClientPath> = names
            .iter()
            .map(|name| {
                let parent = name.rsplit_once('/').map_or(".", |(parent, _)| parent);
                ClientPath { name: own(name), parent: own(parent) }
            })
            .collect();
        let keys = names.iter().map(|name| content_key(0, name_hash(name.as_bytes()), 0)).collect();
        let state = State {
            program,
            root,
            shared,
            progress,
            manner,
            timer: Timer::new(),
            index,
            paths,
            keys,
            fresh_key: mix(index as u64 ^ GOLDEN),
            handles: (0..program.slot_count).map(|_| None).collect(),
            counters: vec![0; program.counter_count],
            drawn: [0; 10],
            draw_count: 17 * index as u64,
            pattern: 0,
            place: 0,
            step: 0,
            pass_ticks: 0,
            span: Span { start_ticks: 0, end_ns: 0, passes: 0, bytes_per_s: 0.0 },
            edge_ticks: 0,
            base_bytes: 0,
            due_bytes: u64::MAX,
            told_ms: 0,
            span_bytes: 0,
            passes_done: 0,
            read_buffer: vec![0; program.most_bytes.1],
            list_buffer: dir_buffer(),
            tallies: [KindTally::default(); Kind::COUNT],
            mismatch_count: 0,
            mismatches: Vec::with_capacity(KEPT_MISMATCHES),
            second_bytes: Vec::new(),
        };
        Client { state, writing }
    }

    /// Runs on from where it stopped; the first time from the start of the load.
    ///
    /// # Errors
    /// A device that is full or fails, the request to stop, and with strict rules an operation that
    /// ends otherwise than expected.
    pub fn run(&mut self, span: Span, recorder: &mut Recorder) -> anyhow::Result<()> {
        self.state.begin(span, recorder);
        let outcome = match &mut self.writing {
            Writing::Fixed(buffers) => self.state.go(&mut Fixed(buffers), recorder),
            Writing::Made(buffer) => self.state.go(&mut &mut *buffer, recorder),
        };
        self.state.span_bytes = recorder.bytes - self.state.base_bytes;
        outcome
    }

    /// Bytes read and written since the last start.
    #[must_use]
    pub fn span_bytes(&self) -> u64 {
        self.state.span_bytes
    }

    /// What was counted of each kind since the last start.
    #[must_use]
    pub fn tallies(&self) -> &[KindTally; Kind::COUNT] {
        &self.state.tallies
    }

    /// Operations that ended otherwise than expected, the warm-up included, and the first of them.
    #[must_use]
    pub fn mismatches(&self) -> (u64, &[Mismatch]) {
        (self.state.mismatch_count, &self.state.mismatches)
    }

    /// Bytes moved by the end of each full second since the last start.
    #[must_use]
    pub fn second_bytes(&self) -> &[u64] {
        &self.state.second_bytes
    }

    /// Passes over the load that were finished since the last start.
    #[must_use]
    pub fn passes_done(&self) -> u64 {
        self.state.passes_done
    }

    /// Its paths, each with the key of what it holds.
    pub fn contents(&self) -> impl Iterator<Item = (&ClientPath, u64)> {
        self.state.paths.iter().zip(self.state.keys.iter().copied())
    }

    /// Closes what is open.
    pub fn close_all(&mut self) {
        self.state.handles.iter_mut().for_each(|handle| *handle = None);
    }
}

impl State<'_> {
    fn begin(&mut self, span: Span, recorder: &mut Recorder) {
        self.span = span;
        self.pass_ticks = span.start_ticks;
        self.tallies = [KindTally::default(); Kind::COUNT];
        (self.passes_done, self.told_ms) = (0, 0);
        let seconds = if span.passes > 0 { 3600 } else { span.end_ns / NS_PER_S + 1 };
        self.second_bytes = Vec::with_capacity(seconds.min(1 << 20) as usize);
        self.base_bytes = recorder.bytes;
        self.due_bytes = if span.bytes_per_s > 0.0 { recorder.bytes } else { u64::MAX };
        self.edge_ticks = 0;
        recorder.begin();
    }

    #[inline]
    fn go<W: Contents>(&mut self, writing: &mut W, recorder: &mut Recorder) -> anyhow::Result<()> {
        let program = self.program;
        let mut since = self.timer.now();
        loop {
            let Some(step) = program.steps.get(self.step) else {
                if self.end_pass(since) {
                    return Ok(());
                }
                continue;
            };
            self.step += 1;
            let outcome = match step.action {
                Action::Write { slot, place, size, done } => {
                    let count = self.write(writing, (slot, place, size), &mut since, recorder);
                    moved(count, done, &mut recorder.bytes)
                }
                _ => self.carry_out(step, recorder),
            };
            let now = self.timer.now();
            if let Some(kind) = step.kind {
                self.tallies[kind as usize].add(now.saturating_sub(since));
            }
            if !step.expected.agrees(outcome.err()) {
                self.mismatch(step, outcome.err())?;
            }
            since = now;
            if recorder.bytes >= self.due_bytes {
                self.wait_for_rate(recorder);
                since = self.timer.now();
            }
            if now >= self.edge_ticks {
                if self.edge(now, recorder.bytes)? {
                    return Ok(());
                }
                since = self.timer.now();
                recorder.begin();
            }
        }
    }

    /// At the end of the load: everything is closed, and it begins anew. Gives whether that was the last.
    fn end_pass(&mut self, now: u64) -> bool {
        self.handles.iter_mut().for_each(|handle| *handle = None);
        (self.step, self.pattern, self.pass_ticks) = (0, 0, now);
        self.passes_done += 1;
        self.passes_done == self.span.passes
    }

    /// Looks whether to stop; notes what was moved by the end of each second.
    #[cold]
    fn edge(&mut self, now: u64, bytes: u64) -> anyhow::Result<bool> {
        check_interrupt()?;
        let elapsed_ns = self.timer.between_ns(self.span.start_ticks, now);
        while elapsed_ns >= (self.second_bytes.len() as u64 + 1) * NS_PER_S
            && self.second_bytes.len() < self.second_bytes.capacity()
        {
            self.second_bytes.push(bytes - self.base_bytes);
        }
        if self.index == 0 {
            let ms = elapsed_ns.min(self.span.end_ns) / 1_000_000;
            self.progress.advance(ms - self.told_ms);
            self.told_ms = ms;
        }
        let left_ns = self.span.end_ns.saturating_sub(elapsed_ns);
        let ticks_per_ns = (1u64 << 32) as f64 / self.timer.elapsed_ns(1 << 32).max(1) as f64;
        self.edge_ticks = now + (left_ns.min(LOOK_NS) as f64 * ticks_per_ns) as u64;
        Ok(left_ns == 0)
    }

    /// Waits until so many bytes may have been moved, and says when to wait next.
    #[cold]
    fn wait_for_rate(&mut self, recorder: &mut Recorder) {
        let moved = (recorder.bytes - self.base_bytes) as f64;
        let due_ns = (moved / self.span.bytes_per_s * 1e9) as u64;
        self.pause_until(self.span.start_ticks, due_ns);
        self.due_bytes = recorder.bytes + 1;
        recorder.begin();
    }

    /// Sleeps until `ns` after `start`, at most to the end of the span.
    fn pause_until(&self, start: u64, ns: u64) {
        while self.timer.between_ns(start, self.timer.now()) < ns && !self.is_over() {
            let left = ns - self.timer.between_ns(start, self.timer.now()).min(ns);
            std::thread::sleep(Duration::from_nanos(left).min(PAUSE));
        }
    }

    pub(super) fn is_over(&self) -> bool {
        let elapsed_ns = self.timer.between_ns(self.span.start_ticks, self.timer.now());
        elapsed_ns >= self.span.end_ns || check_interrupt().is_err()
    }

    #[cold]
    fn mismatch(&mut self, step: &Step, errno: Option<Errno>) -> anyhow::Result<()> {
        const FATAL: [Errno; 7] = [
            Errno::NOSPC,
            Errno::DQUOT,
            Errno::IO,
            Errno::ROFS,
            Errno::UCLEAN,
            Errno::MFILE,
            Errno::NFILE,
        ];
        if let Some(errno) = errno.filter(|errno| FATAL.contains(errno)) {
            let kind = step.kind.map_or("", |kind| Kind::ALL[kind as usize].1);
            let target = format!("(client {}, line {} of the load)", self.index, step.line);
            return Err(call_failed(kind, target, errno).into());
        }
        let mismatch = Mismatch { step: *step, errno };
        if self.manner.is_strict {
            anyhow::bail!(
                "client {}, {}; mend the load, or use strict=false",
                self.index,
                mismatch.text()
            );
        }
        self.mismatch_count += 1;
        if self.mismatches.len() < KEPT_MISMATCHES {
            self.mismatches.push(mismatch);
        }
        Ok(())
    }

    /// What is no operation.
    pub(super) fn control(&mut self, step: &Step) {
        match step.action {
            Action::Wait { at_ns } => self.pause_until(self.pass_ticks, at_ns),
            Action::Sleep { ns } => self.pause_until(self.timer.now(), ns),
            Action::SetPoint { point } => {
                self.shared.points[self.index].store(point, Ordering::Release);
            }
            Action::WaitPoint { client, point } => {
                let reached = &self.shared.points[client as usize];
                while reached.load(Ordering::Acquire) < point && !self.is_over() {
                    std::thread::sleep(Duration::from_micros(100));
                }
                // The time may be up: it is looked at right after this step.
                self.edge_ticks = 0;
            }
            Action::Pattern { index } => self.pattern = index as usize,
            Action::Draw { number, draw } => {
                let variants = &self.program.draws[draw as usize];
                self.drawn[usize::from(number)] =
                    variants[(self.draw_count % variants.len() as u64) as usize];
                self.draw_count += 1;
            }
            Action::Loop { counter, count, end } => {
                self.counters[counter as usize] = count;
                if count == 0 {
                    self.step = end as usize;
                }
            }
            Action::EndLoop { counter, body } => {
                let left = &mut self.counters[counter as usize];
                *left = left.saturating_sub(1);
                if *left > 0 {
                    self.step = body as usize;
                }
            }
            _ => unreachable!("operations are carried out before"),
        }
    }
}

/// Counts what was moved; another number than expected is an error of its own.
#[inline(always)]
pub(super) fn moved(count: CallResult<usize>, expected: u32, bytes: &mut u64) -> CallResult<()> {
    let count = count?;
    *bytes += count as u64;
    if count == expected as usize { Ok(()) } else { Err(END_OF_FILE) }
}
