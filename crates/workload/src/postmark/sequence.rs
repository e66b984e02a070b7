//! What PostMark 1.53 does, draw for draw, without doing it: which file is created, read, appended to
//! or deleted next, and how many bytes are moved. What is read or written, and where the files lie, is
//! left to others.
//!
//! Draws in their order: two for each byte of the largest size, with which the original fills the
//! buffer that it writes from; then per created file its subdirectory and its size; per transaction
//! what is done first, to which file (drawn again until the place in the table holds one), how much is
//! appended; then what is done second and to which file.

use super::places::FreePlaces;
use crate::rng::Mt19937;

/// Biases are out of this many.
pub const BIAS_OF: u32 = 10;

/// Everything that the sequence depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceConfig {
    /// Seed of the generator.
    pub seed: u32,
    /// Files that are created first; at most twice as many are there at once.
    pub number: u32,
    /// Transactions: each reads or appends, and creates or deletes.
    pub transactions: u32,
    /// Subdirectories that the files are spread over; 0 and 1 mean none.
    pub subdirectories: u32,
    /// Least size of a new file in bytes, at least 1.
    pub size_low: u32,
    /// New files are smaller than this, unless it equals `size_low`; none ever grows over it.
    pub size_high: u32,
    /// Transactions out of ten that read instead of appending; `None`: they do neither.
    pub bias_read: Option<u32>,
    /// Transactions out of ten that create instead of deleting; `None`: they do neither.
    pub bias_create: Option<u32>,
}

impl SequenceConfig {
    /// Subdirectories that are really made.
    #[must_use]
    pub fn made_subdirectories(&self) -> u32 {
        if self.subdirectories > 1 { self.subdirectories } else { 0 }
    }
}

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is made and written.
    Create,
    /// It is read to its end.
    Read,
    /// It is written to at its end.
    Append,
    /// It is removed.
    Delete,
}

/// Which of the three parts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The files that are there first.
    Create,
    /// The transactions.
    Transactions,
    /// All that is left is removed.
    Delete,
}

impl Stage {
    /// The stages in their order.
    pub const ALL: [Stage; 3] = [Stage::Create, Stage::Transactions, Stage::Delete];
}

/// A file that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// Its number, counted from 1 in the order of creation; also its name.
    pub id: u32,
    /// Index of its subdirectory; `None` where there are none.
    pub subdirectory: Option<u32>,
    /// Its size in bytes, never 0.
    pub size_bytes: u32,
}

/// One operation on one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    /// What is done.
    pub action: Action,
    /// In which part of the run.
    pub stage: Stage,
    /// The file as it is afterwards, or as it was before it is deleted.
    pub file: File,
    /// Bytes that are written or read; of a deleted file none.
    pub count_bytes: u32,
}

impl Op {
    /// Where in the file the bytes begin.
    #[must_use]
    pub fn offset_bytes(&self) -> u32 {
        if self.action == Action::Append { self.file.size_bytes - self.count_bytes } else { 0 }
    }
}

/// The operations in their order.
#[derive(Debug, Clone)]
pub struct Sequence {
    config: SequenceConfig,
    generator: Mt19937,
    /// The table of files: twice as many places as files are created first.
    places: Vec<Option<File>>,
    free: FreePlaces,
    /// The place after that of the file that was created last.
    cursor: usize,
    live: u32,
    created: u32,
    transactions_done: u32,
    is_second_half: bool,
    ended_early: bool,
    next_place: usize,
}

impl Sequence {
    /// The sequence, and the bytes of which the original writes a beginning with each operation:
    /// as many as the largest file can take.
    ///
    /// # Panics
    /// If a size is 0, or `size_high` less than `size_low`: the parameters were checked.
    #[must_use]
    pub fn with_source(config: SequenceConfig) -> (Sequence, Vec<u8>) {
        let mut source = vec![0; config.size_high as usize];
        let sequence = Sequence::start(config, &mut source);
        (sequence, source)
    }

    /// The sequence alone.
    ///
    /// # Panics
    /// As [`Sequence::with_source`].
    #[must_use]
    pub fn new(config: SequenceConfig) -> Sequence {
        Sequence::start(config, &mut [])
    }

    fn start(config: SequenceConfig, source: &mut [u8]) -> Sequence {
        assert!(0 < config.size_low && config.size_low <= config.size_high, "{config:?}");
        let mut generator = Mt19937::of_1999(config.seed);
        for byte in &mut *source {
            // A printable character, the blank included.
            *byte = 32 + (generator.next_u32() % 95) as u8;
        }
        // The original's buffer is twice as long as anything that is written.
        for _ in source.len() as u64..2 * u64::from(config.size_high) {
            generator.next_u32();
        }
        Sequence {
            config,
            generator,
            places: vec![None; 2 * config.number as usize],
            free: FreePlaces::new(2 * config.number as usize),
            cursor: 0,
            live: 0,
            created: 0,
            transactions_done: 0,
            is_second_half: false,
            ended_early: false,
            next_place: 0,
        }
    }

    /// The next operation of `stage`; `None` at its end. Each stage has to be followed to its end
    /// before the next one.
    #[inline]
    pub fn next_of(&mut self, stage: Stage) -> Option<Op> {
        match stage {
            Stage::Create if self.created < self.config.number => self.create(stage),
            Stage::Create => None,
            Stage::Transactions => self.transact(),
            Stage::Delete => self.delete_next(),
        }
    }

    /// Transactions that were carried out.
    #[must_use]
    pub fn transactions_done(&self) -> u32 {
        self.transactions_done
    }

    /// Whether a transaction found no file, so that the transactions ended there.
    #[must_use]
    pub fn ended_early(&self) -> bool {
        self.ended_early
    }

    /// The files that are there, in the order of their places.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.places.iter().flatten()
    }

    fn below(&mut self, bound: u32) -> u32 {
        if bound == 0 { 0 } else { self.generator.next_u32() % bound }
    }

    fn transact(&mut self) -> Option<Op> {
        let stage = Stage::Transactions;
        loop {
            self.is_second_half = !self.is_second_half;
            if self.is_second_half {
                if self.transactions_done == self.config.transactions || self.live == 0 {
                    self.ended_early = self.transactions_done < self.config.transactions;
                    self.is_second_half = false;
                    return None;
                }
                let Some(bias) = self.config.bias_read else { continue };
                let op = if self.below(BIAS_OF) < bias {
                    Some(self.read(stage))
                } else {
                    self.append(stage)
                };
                if op.is_some() {
                    return op;
                }
            } else {
                self.transactions_done += 1;
                let Some(bias) = self.config.bias_create else { continue };
                let op = if self.below(BIAS_OF) < bias {
                    self.create(stage)
                } else {
                    let place = self.drawn_place();
                    Some(self.delete(place, stage))
                };
                if op.is_some() {
                    return op;
                }
            }
        }
    }

    /// A place that holds a file. There is one: the transactions end otherwise.
    fn drawn_place(&mut self) -> usize {
        let places = self.places.len() as u32;
        loop {
            let place = self.below(places) as usize;
            if !self.free.is_free(place) {
                return place;
            }
        }
    }

    /// Nothing where the table is full.
    fn create(&mut self, stage: Stage) -> Option<Op> {
        // The place after the last one taken, else the first of all.
        let is_next_free = self.free.is_free(self.cursor);
        let place = if is_next_free { self.cursor } else { self.free.first()? };
        self.free.take(place);
        self.cursor = place + 1;
        let SequenceConfig { subdirectories, size_low, size_high, .. } = self.config;
        let subdirectory = (subdirectories > 1).then(|| self.below(subdirectories));
        self.created += 1;
        let size_bytes = size_low + self.below(size_high - size_low);
        let file = File { id: self.created, subdirectory, size_bytes };
        self.places[place] = Some(file);
        self.live += 1;
        Some(Op { action: Action::Create, stage, file, count_bytes: size_bytes })
    }

    fn read(&mut self, stage: Stage) -> Op {
        let place = self.drawn_place();
        let file = self.places[place].expect("the place was drawn because it holds a file");
        Op { action: Action::Read, stage, file, count_bytes: file.size_bytes }
    }

    /// Nothing where the drawn file is as large as files get.
    fn append(&mut self, stage: Stage) -> Option<Op> {
        let place = self.drawn_place();
        let mut file = self.places[place].expect("the place was drawn because it holds a file");
        let room = self.config.size_high - file.size_bytes;
        if room == 0 {
            return None;
        }
        let count_bytes = self.below(room) + 1;
        file.size_bytes += count_bytes;
        self.places[place] = Some(file);
        Some(Op { action: Action::Append, stage, file, count_bytes })
    }

    fn delete(&mut self, place: usize, stage: Stage) -> Op {
        let file = self.places[place].take().expect("the caller found a file in this place");
        self.free.give(place);
        self.live -= 1;
        Op { action: Action::Delete, stage, file, count_bytes: 0 }
    }

    fn delete_next(&mut self) -> Option<Op> {
        while self.next_place < self.places.len() {
            let place = self.next_place;
            self.next_place += 1;
            if self.places[place].is_some() {
                return Some(self.delete(place, Stage::Delete));
            }
        }
        None
    }
}

impl Iterator for Sequence {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        Stage::ALL.into_iter().find_map(|stage| self.next_of(stage))
    }
}
