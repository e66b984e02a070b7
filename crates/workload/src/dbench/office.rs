//! A load of our own, so that the workload needs no file: people at desks who open, read and save
//! documents on a file server. It is drawn from a seed; how often each operation occurs follows what was
//! counted in the load that comes with dbench 4.
//!
//! | of 1000 operations | counted there |
//! |---|---|
//! | ReadX 271, WriteX 86 | 12 KiB and 25 KiB each |
//! | NTCreateX 173, Close 127 | 27 % of the opens find nothing |
//! | QUERY_PATH 157, QUERY_FILE 27, QUERY_FS 29 | 34 % of the paths are absent |
//! | FIND_FIRST 61, SET_FILE 14 | half of the searches find nothing |
//! | Unlink 35, Rename 7, Flush 12, LockX 0.6, UnlockX 0.6 | |
//!
//! Work is drawn in pieces: a document is read, and sometimes changed in place; it is saved by writing
//! another file, which takes its name; a scratch file is made, written, read and deleted; a record is
//! changed under a lock; paths are asked for that are there or are not.

use super::lines::{Line, LoadPath, Offset, Op, Range, Statement};
use super::status::Expected;
use crate::payload::{GOLDEN, mix};

const DIRECTORIES: [&str; 6] = ["LETTERS", "SLIDES", "SHEETS", "DATABASE", "WEB", "PLANS"];
const DOCUMENTS: usize = 48;
/// Sizes of documents: 16 KiB … 1 MiB, each twice the one before as often.
const LEAST_DOCUMENT_BYTES: u64 = 16 << 10;
const DOCUMENT_DOUBLINGS: u64 = 7;
const PIECE_BYTES: u64 = 64 << 10;

/// A piece of work.
#[derive(Clone, Copy)]
enum Work {
    ReadDocument,
    SaveDocument,
    ScratchFile,
    LockedRecord,
    AskAbsent,
    OpenAbsent,
    AskPresent,
    AskSpace,
    SearchAbsent,
    SearchPresent,
}

/// How often each occurs, for 10 000 operations.
const WORK: [(Work, u64); 10] = [
    (Work::ReadDocument, 915),
    (Work::SaveDocument, 73),
    (Work::ScratchFile, 276),
    (Work::LockedRecord, 6),
    (Work::AskAbsent, 459),
    (Work::OpenAbsent, 386),
    (Work::AskPresent, 1035),
    (Work::AskSpace, 287),
    (Work::SearchAbsent, 313),
    (Work::SearchPresent, 293),
];
/// Shares of 1000 of sizes of reads and writes.
const READ_BYTES: [(u64, u64); 4] = [(4096, 750), (16_384, 100), (65_536, 110), (512, 40)];
const WRITE_BYTES: [(u64, u64); 4] = [(65_536, 330), (16_384, 150), (4096, 420), (1, 100)];

struct Office {
    lines: Vec<Line>,
    state: u64,
    handle: u64,
    scratch: u64,
    documents: Vec<(String, u64)>,
}

/// About `operations` operations, drawn from `seed`: a tree of documents is made, worked on and deleted.
#[must_use]
pub fn office_load(operations: u64, seed: u64) -> Vec<Line> {
    let mut office = Office {
        lines: Vec::with_capacity(operations as usize + 400),
        state: mix(seed ^ GOLDEN),
        handle: 10_000,
        scratch: 0,
        documents: Vec::new(),
    };
    office.prepare();
    while (office.lines.len() as u64) < operations {
        office.work();
    }
    office.say(Op::Deltree { path: path("") }, Expected::Success);
    office.lines
}

/// A path below the client's own directory.
fn path(name: &str) -> LoadPath {
    let separator = if name.is_empty() { "" } else { "/" };
    LoadPath::Fixed(format!("clients/client1{separator}{name}"))
}

fn range(handle: u64, offset: u64, size: u64) -> Range {
    Range { handle, offset: Offset::Fixed(offset), size }
}

impl Office {
    fn say(&mut self, op: Op, expected: Expected) {
        let number = self.lines.len() as u32 + 1;
        self.lines.push(Line { number, statement: Statement::Op { at_ns: 0, op, expected } });
    }

    fn done(&mut self, op: Op) {
        self.say(op, Expected::Success);
    }

    /// A number below `bound`.
    fn draw(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        ((u128::from(mix(self.state)) * u128::from(bound)) >> 64) as u64
    }

    fn is_drawn(&mut self, of_1000: u64) -> bool {
        self.draw(1000) < of_1000
    }

    /// One of several, each with its weight.
    fn choose<T: Copy>(&mut self, choices: &[(T, u64)]) -> T {
        let total = choices.iter().map(|(_, weight)| weight).sum();
        let mut left = self.draw(total);
        let chosen = choices.iter().find(|(_, weight)| {
            let is_it = left < *weight;
            left = left.saturating_sub(*weight);
            is_it
        });
        chosen.unwrap_or(&choices[0]).0
    }

    fn open(&mut self, name: &str, options: u32, disposition: u8) -> u64 {
        self.handle += 1;
        let handle = self.handle;
        self.done(Op::NtCreateX { path: path(name), options, disposition, handle });
        handle
    }

    fn close(&mut self, handle: u64) {
        self.done(Op::Close { handle });
    }

    fn write(&mut self, handle: u64, offset: u64, size: u64) {
        self.done(Op::WriteX { range: range(handle, offset, size), done: size });
    }

    fn read(&mut self, handle: u64, offset: u64, size: u64) {
        self.done(Op::ReadX { range: range(handle, offset, size), done: size });
    }

    /// The tree and its documents.
    fn prepare(&mut self) {
        self.done(Op::Deltree { path: path("") });
        self.done(Op::Mkdir { path: LoadPath::Fixed("clients".to_owned()) });
        for directory in std::iter::once("").chain(DIRECTORIES) {
            let handle = self.open(directory, 1, 2);
            self.close(handle);
        }
        for index in 0..DOCUMENTS {
            let name = format!("{}/DOC{index:05}.DAT", DIRECTORIES[index % DIRECTORIES.len()]);
            let size = LEAST_DOCUMENT_BYTES << self.draw(DOCUMENT_DOUBLINGS);
            let handle = self.open(&name, 0x40, 2);
            for offset in (0..size).step_by(PIECE_BYTES as usize) {
                self.write(handle, offset, PIECE_BYTES.min(size - offset));
            }
            self.close(handle);
            self.documents.push((name, size));
        }
    }

    fn document(&mut self) -> (usize, String, u64) {
        let index = self.draw(DOCUMENTS as u64) as usize;
        let (name, size) = self.documents[index].clone();
        (index, name, size)
    }

    fn directory(&mut self) -> &'static str {
        DIRECTORIES[self.draw(DIRECTORIES.len() as u64) as usize]
    }

    /// A name that no file has.
    fn new_name(&mut self) -> String {
        self.scratch += 1;
        let directory = self.directory();
        // As few names as programs use for such files.
        format!("{directory}/~TMP{:04}.TMP", self.scratch % 97)
    }

    fn work(&mut self) {
        match self.choose(&WORK) {
            Work::ReadDocument => self.read_document(),
            Work::SaveDocument => self.save_document(),
            Work::ScratchFile => self.scratch_file(),
            Work::LockedRecord => self.locked_record(),
            Work::AskAbsent => {
                let path = path(&self.new_name());
                self.say(Op::QueryPath { path, level: 1004 }, Expected::NotFound);
            }
            Work::OpenAbsent => {
                let path = path(&self.new_name());
                self.handle += 1;
                let handle = self.handle;
                let op = Op::NtCreateX { path, options: 0x40, disposition: 1, handle };
                self.say(op, Expected::NotFound);
            }
            Work::AskPresent => {
                let path = path(&self.document().1);
                self.done(Op::QueryPath { path, level: 1004 });
            }
            Work::AskSpace => self.done(Op::QueryFs { level: 259 }),
            Work::SearchAbsent => {
                let path = path(&format!("{}/*.JNK", self.directory()));
                let op = Op::FindFirst { path, level: 260, most: 1366, count: 0 };
                self.say(op, Expected::NotFound);
            }
            Work::SearchPresent => {
                let path = path(&format!("{}/*", self.directory()));
                self.done(Op::FindFirst { path, level: 260, most: 1366, count: 8 });
            }
        }
    }

    fn read_document(&mut self) {
        let (_, name, size) = self.document();
        let handle = self.open(&name, 0x40, 1);
        if self.is_drawn(300) {
            self.done(Op::QueryFile { handle, level: 258 });
        }
        // 2.66 reads on average.
        for _ in 0..self.choose(&[(1, 250), (2, 250), (3, 250), (4, 140), (5, 110)]) {
            let count = self.choose(&READ_BYTES).min(size);
            let offset = self.draw((size - count) / 512 + 1) * 512;
            self.read(handle, offset, count);
        }
        if self.is_drawn(74) {
            self.done(Op::SetFile { handle, level: 1004 });
        }
        if self.is_drawn(100) {
            let count = self.choose(&WRITE_BYTES).min(size);
            let offset = self.draw((size - count) / 512 + 1) * 512;
            self.write(handle, offset, count);
            if self.is_drawn(520) {
                self.done(Op::Flush { handle });
            }
        }
        self.close(handle);
    }

    /// The new contents are written beside the old ones, whose name they take.
    fn save_document(&mut self) {
        let (index, name, _) = self.document();
        let new = self.new_name();
        self.say(Op::QueryPath { path: path(&new), level: 1004 }, Expected::NotFound);
        self.handle += 1;
        let absent = self.handle;
        let (options, disposition) = (0x40, 1);
        let op = Op::NtCreateX { path: path(&new), options, disposition, handle: absent };
        self.say(op, Expected::NotFound);
        let handle = self.open(&new, 0x40, 2);
        let mut size = 0;
        for _ in 0..3 {
            let count = self.choose(&WRITE_BYTES);
            self.write(handle, size, count);
            size += count;
        }
        self.done(Op::Flush { handle });
        self.done(Op::SetFile { handle, level: 1004 });
        self.close(handle);
        self.done(Op::Unlink { path: path(&name), attributes: 6 });
        self.done(Op::Rename { old: path(&new), new: path(&name) });
        self.documents[index].1 = size;
    }

    fn scratch_file(&mut self) {
        let name = self.new_name();
        let handle = self.open(&name, 0x40, 5);
        let count = self.choose(&WRITE_BYTES);
        self.write(handle, 0, count);
        let more = self.choose(&WRITE_BYTES);
        self.write(handle, count, more);
        let count = self.choose(&READ_BYTES).min(count + more);
        self.read(handle, 0, count);
        self.close(handle);
        self.done(Op::Unlink { path: path(&name), attributes: 6 });
    }

    fn locked_record(&mut self) {
        let (_, name, size) = self.document();
        let handle = self.open(&name, 0x40, 1);
        let lock = range(handle, 0x7FFF_FFFF, 1);
        self.done(Op::LockX { range: lock });
        let count = 512.min(size);
        self.read(handle, 0, count);
        self.write(handle, 0, count);
        self.done(Op::UnlockX { range: lock });
        self.close(handle);
    }
}
