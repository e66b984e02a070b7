//! The tasks of a group as flat lists of instructions, each operation with its place for what a job
//! keeps of it, and the check that a definition can be run at all. How a definition is written is left
//! to [`crate::engine::data`], what an instruction does to [`super::planner`].

use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};

use super::draw::{Sizes, Weights};
use super::world::World;
use crate::engine::definition::{
    Amount, Definition, End, EntryKind, Group, Op, Phase, Pick, SLOTS, Step,
};

/// Blocks of steps within blocks of steps.
pub const NESTING: usize = 8;
/// Most bytes of one call.
const BLOCK_BYTES: u64 = 1 << 30;
/// Most bytes of one call where the definition does not say.
pub const CHUNK_BYTES: u64 = 1 << 20;
/// Largest extended attribute that Linux takes, in bytes.
const XATTR_BYTES: u64 = 64 << 10;

/// One operation.
#[derive(Debug)]
pub struct Action<'d> {
    /// What it is.
    pub op: &'d Op,
    /// Its number among those of the group.
    pub number: usize,
    /// The numbers of bytes that it draws, where it does.
    pub sizes: Option<Sizes>,
    /// Name of its extended attribute, where it has one.
    pub xattr: Option<CString>,
}

/// One step of a flat task. Counters are those of the lane, `start` and `end` are places in the task.
#[allow(missing_docs, reason = "each field is explained above")]
#[derive(Debug)]
pub enum Instruction<'d> {
    /// Does an operation.
    Do(Action<'d>),
    /// Begins to count down from `count`; the block ends before `end`.
    Repeat { count: u64, counter: usize, end: usize },
    /// Begins the block anew unless that was the last time.
    Again { start: usize, counter: usize },
}

/// What the jobs of a group do, and what they share.
#[derive(Debug)]
pub struct Program<'d> {
    /// The group.
    pub group: &'d Group,
    /// Its tasks, and after them what each job does once before the phase begins.
    pub tasks: Vec<Vec<Instruction<'d>>>,
    /// Number of that among the tasks, where there is something to do.
    pub first: Option<usize>,
    /// How they are chosen.
    pub weights: Weights,
    /// For each operation, how far the jobs are with what each entry is picked for once.
    pub taken: Vec<AtomicU64>,
    /// Most bytes that a call reads.
    pub read_bytes: u64,
    /// Most bytes that a call writes.
    pub write_bytes: u64,
}

impl<'d> Program<'d> {
    /// Flattens the tasks of `group`.
    ///
    /// # Errors
    /// A sentence on what cannot be run.
    pub fn new(world: &World<'_>, group: &'d Group) -> Result<Program<'d>, String> {
        let weights = Weights::new(group.tasks.iter().map(|task| task.weight))?;
        let mut flat = Flat { world, instructions: Vec::new(), actions: 0, read: 0, write: 0 };
        let mut tasks = Vec::new();
        for task in &group.tasks {
            flat.steps(&task.steps, 0)?;
            tasks.push(std::mem::take(&mut flat.instructions));
        }
        let mut first = None;
        if !group.begin.is_empty() {
            flat.steps(&group.begin, 0)?;
            first = Some(tasks.len());
            tasks.push(std::mem::take(&mut flat.instructions));
        }
        Ok(Program {
            group,
            tasks,
            first,
            weights,
            taken: (0..flat.actions).map(|_| AtomicU64::new(0)).collect(),
            read_bytes: flat.read,
            write_bytes: flat.write,
        })
    }

    fn actions(&self) -> impl Iterator<Item = &Action<'d>> {
        self.tasks.iter().flatten().filter_map(|instruction| match instruction {
            Instruction::Do(action) => Some(action),
            _ => None,
        })
    }

    /// Name of the operation `number`.
    #[must_use]
    pub fn op_name(&self, number: usize) -> String {
        let found = self.actions().find(|action| action.number == number);
        // `Create { fileset: 0, …` in the form for developers: its first word is the operation.
        let text = found.map_or_else(String::new, |action| format!("{:?}", action.op));
        let word: String = text.chars().take_while(char::is_ascii_alphanumeric).collect();
        let mut name = String::new();
        for letter in word.chars() {
            if letter.is_ascii_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }

    /// Whether it burns processor time.
    #[must_use]
    pub fn hogs(&self) -> bool {
        self.actions().any(|action| matches!(action.op, Op::Hog { .. }))
    }

    /// Share of its work that is used up, 0 … 1; `None` where it has no end.
    #[must_use]
    pub fn share_taken(&self, world: &World<'_>) -> Option<f64> {
        let shares = self.actions().filter_map(|action| {
            let (fileset, Pick::Once) = action.op.entry()? else { return None };
            let set = &world.sets[fileset];
            let whole = match action.op {
                Op::Replay { .. } => set.lines.len() as u64,
                _ => set.layout.entries,
            };
            let taken = self.taken[action.number].load(Ordering::Relaxed);
            Some(taken as f64 / whole.max(1) as f64)
        });
        shares.reduce(f64::max)
    }

    /// Whether its work is used up at some time.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        // In every task, so that none of them can be drawn for ever.
        let drawn = &self.tasks[..self.first.unwrap_or(self.tasks.len())];
        drawn.iter().all(|task| {
            task.iter().any(|instruction| {
                matches!(instruction, Instruction::Do(action) if action.op.is_finite())
            })
        })
    }
}

struct Flat<'w, 'd> {
    world: &'w World<'w>,
    instructions: Vec<Instruction<'d>>,
    actions: usize,
    read: u64,
    write: u64,
}

impl<'d> Flat<'_, 'd> {
    fn steps(&mut self, steps: &'d [Step], depth: usize) -> Result<(), String> {
        for step in steps {
            match step {
                Step::Do(op) => {
                    let action = self.action(op)?;
                    self.instructions.push(Instruction::Do(action));
                }
                Step::Repeat { .. } if depth == NESTING => {
                    return Err(format!(
                        "steps are repeated within each other over {NESTING} times"
                    ));
                }
                Step::Repeat { count, steps } => {
                    let start = self.instructions.len();
                    self.instructions.push(Instruction::Repeat {
                        count: *count,
                        counter: depth,
                        end: 0,
                    });
                    self.steps(steps, depth + 1)?;
                    self.instructions.push(Instruction::Again { start: start + 1, counter: depth });
                    let past = self.instructions.len();
                    if let Instruction::Repeat { end, .. } = &mut self.instructions[start] {
                        *end = past;
                    }
                }
            }
        }
        Ok(())
    }

    fn action(&mut self, op: &'d Op) -> Result<Action<'d>, String> {
        self.check_places(op)?;
        let (mut sizes, mut xattr) = (None, None);
        match op {
            Op::Read { amount, .. } | Op::MmapRead { amount, .. } => {
                self.read = self.read.max(block_of(amount)?);
            }
            Op::Write { amount, .. }
            | Op::Overwrite { amount, .. }
            | Op::MmapWrite { amount, .. } => self.write = self.write.max(block_of(amount)?),
            Op::Rewrite { amount, .. } => self.read = self.read.max(block_of(amount)?),
            Op::Append { bytes, .. } => {
                sizes = Some(Sizes::new(bytes)?);
                self.write = self.write.max(CHUNK_BYTES);
            }
            Op::Truncate { size, .. } | Op::Fallocate { size, .. } => {
                sizes = Some(Sizes::new(size)?);
            }
            Op::Punch { bytes: 0, .. } => return Err("a hole must have a byte at least".to_owned()),
            Op::SetXattr { name, bytes, .. } => {
                if *bytes > XATTR_BYTES {
                    return Err(format!("an extended attribute has {XATTR_BYTES} bytes at most"));
                }
                self.write = self.write.max(*bytes);
                xattr = Some(attribute(name)?);
            }
            Op::GetXattr { name, .. } => {
                self.read = self.read.max(XATTR_BYTES);
                xattr = Some(attribute(name)?);
            }
            Op::Replay { .. } => {
                self.read = self.read.max(CHUNK_BYTES);
                self.write = self.write.max(CHUNK_BYTES);
            }
            _ => {}
        }
        self.actions += 1;
        Ok(Action { op, number: self.actions - 1, sizes, xattr })
    }

    /// That filesets, slots and semaphores exist and are of the right kind.
    fn check_places(&self, op: &Op) -> Result<(), String> {
        let sets = &self.world.sets;
        let kind_of = |index: usize| {
            sets.get(index).map(|set| set.kind).ok_or("there is no such fileset".to_owned())
        };
        if op.slot().is_some_and(|slot| slot >= SLOTS) {
            return Err(format!("slots are 0 … {}", SLOTS - 1));
        }
        let from = op.entry().map(|(fileset, _)| kind_of(fileset)).transpose()?;
        let into = op.into().map(kind_of).transpose()?;
        let wants = |wanted: &[EntryKind], found: Option<EntryKind>| match found {
            Some(kind) if !wanted.contains(&kind) => Err(format!("{op:?}: a fileset of {kind:?}")),
            _ => Ok(()),
        };
        use EntryKind::{Directory, File, Symlink};
        match op {
            Op::Create { .. } | Op::Open { .. } | Op::Replay { .. } => wants(&[File], from)?,
            Op::Unlink { .. } => wants(&[File, Symlink], from)?,
            Op::Mkdir { .. } | Op::Rmdir { .. } => wants(&[Directory], from)?,
            Op::Rename { .. } => wants(&[from.unwrap_or(File)], into)?,
            Op::Link { .. } | Op::CopyFileRange { .. } | Op::Reflink { .. } => {
                wants(&[File], from).and_then(|()| wants(&[File], into))?;
            }
            Op::Symlink { .. } => {
                wants(&[File], from).and_then(|()| wants(&[Symlink], into))?;
            }
            Op::Post { semaphore, .. } | Op::Wait { semaphore, .. }
                if *semaphore >= self.world.definition.semaphores.len() =>
            {
                return Err("there is no such semaphore".to_owned());
            }
            _ => {}
        }
        if let Some((fileset, Pick::Index(index))) = op.entry() {
            let set = &sets[fileset];
            if index >= set.layout.entries {
                let (name, entries) = (&set.layout.name, set.layout.entries);
                return Err(format!("fileset {name} has no entry {index}, only {entries}"));
            }
        }
        match op {
            Op::Replay { fileset } if sets[*fileset].lines.is_empty() => {
                Err(format!("fileset {} has no list to replay", sets[*fileset].layout.name))
            }
            _ => Ok(()),
        }
    }
}

fn attribute(name: &str) -> Result<CString, String> {
    let fine = !name.is_empty() && name.len() < 200 && !name.contains('\0');
    let text = format!("user.{name}");
    let made = CString::new(text).ok().filter(|_| fine);
    made.ok_or_else(|| format!("{name:?} cannot be the name of an extended attribute"))
}

fn block_of(amount: &Amount) -> Result<u64, String> {
    match amount {
        Amount::Whole { block_bytes } | Amount::Blocks { block_bytes, .. } => match *block_bytes {
            bytes @ 1..=BLOCK_BYTES => Ok(bytes),
            bytes => Err(format!("a block has 1 … {BLOCK_BYTES} bytes, not {bytes}")),
        },
    }
}

/// The programs of the groups of `phase`.
///
/// # Errors
/// A sentence that names the phase and the group.
pub fn programs<'d>(world: &World<'d>, phase: &'d Phase) -> Result<Vec<Program<'d>>, String> {
    let of_phase = |error: String| format!("phase {}: {error}", phase.name);
    if phase.groups.iter().all(|group| group.background) {
        return Err(of_phase("one group at least must be no background".to_owned()));
    }
    let endless = phase.end == End { runtime: None, tasks: None };
    let mut programs = Vec::new();
    for group in &phase.groups {
        let of_group = |error: String| of_phase(format!("group {}: {error}", group.name));
        let program = Program::new(world, group).map_err(of_group)?;
        if group.jobs == 0 {
            return Err(of_group("it has no jobs".to_owned()));
        }
        if group.rate_per_s.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
            return Err(of_group("the rate must be a positive number".to_owned()));
        }
        if endless && !group.background && !program.is_finite() {
            let advice = "give the phase a runtime or a number of tasks";
            return Err(of_group(format!("its work is never used up: {advice}")));
        }
        programs.push(program);
    }
    Ok(programs)
}

/// Checks that a definition can be run, as [`super::run`] does before it begins.
///
/// # Errors
/// A sentence on the first fault.
pub fn check(definition: &Definition) -> Result<(), String> {
    let world = World::new(definition, 0)?;
    for (index, phase) in definition.phases.iter().enumerate() {
        programs(&world, phase)?;
        if phase.baseline.is_some_and(|baseline| baseline >= index) {
            return Err(format!("phase {}: its baseline must be a phase before it", phase.name));
        }
    }
    Ok(())
}
