//! What a line of a load file can say. How it is read is left to [`super::loadfile`], what it does to
//! [`super::program`].

use std::fmt;

use super::kinds::Kind;
use super::status::Expected;

/// A path of a load, its parts between single slashes and without one at either end; or a string that
/// was drawn before.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LoadPath {
    /// As it is written.
    Fixed(String),
    /// The string of `RANDOMSTRING` with this number, 1 … 9.
    Drawn(u8),
}

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offset {
    /// As it is written.
    Fixed(u64),
    /// So many bytes after the place that this client used last.
    Next(u64),
    /// Drawn: below `below`, cut to a multiple of `align`, then moved by `add`.
    Drawn {
        /// Bound.
        below: u64,
        /// Unit.
        align: u32,
        /// Further bytes.
        add: u64,
    },
}

/// A range of an open file, for reading, writing or locking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Number of the handle.
    pub handle: u64,
    /// Where it begins.
    pub offset: Offset,
    /// Bytes.
    pub size: u64,
}

/// What one line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the format")]
pub enum Op {
    NtCreateX { path: LoadPath, options: u32, disposition: u8, handle: u64 },
    Close { handle: u64 },
    Rename { old: LoadPath, new: LoadPath },
    Unlink { path: LoadPath, attributes: u32 },
    Deltree { path: LoadPath },
    Rmdir { path: LoadPath },
    Mkdir { path: LoadPath },
    QueryPath { path: LoadPath, level: u32 },
    QueryFile { handle: u64, level: u32 },
    QueryFs { level: u32 },
    SetFile { handle: u64, level: u32 },
    FindFirst { path: LoadPath, level: u32, most: u32, count: u32 },
    WriteX { range: Range, done: u64 },
    ReadX { range: Range, done: u64 },
    LockX { range: Range },
    UnlockX { range: Range },
    Flush { handle: u64 },
}

impl Op {
    /// Its kind in dbench's table.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Op::NtCreateX { .. } => Kind::NtCreateX,
            Op::Close { .. } => Kind::Close,
            Op::Rename { .. } => Kind::Rename,
            Op::Unlink { .. } => Kind::Unlink,
            Op::Deltree { .. } => Kind::Deltree,
            Op::Rmdir { .. } => Kind::Rmdir,
            Op::Mkdir { .. } => Kind::Mkdir,
            Op::QueryPath { .. } => Kind::Qpathinfo,
            Op::QueryFile { .. } => Kind::Qfileinfo,
            Op::QueryFs { .. } => Kind::Qfsinfo,
            Op::SetFile { .. } => Kind::Sfileinfo,
            Op::FindFirst { .. } => Kind::Find,
            Op::WriteX { .. } => Kind::WriteX,
            Op::ReadX { .. } => Kind::ReadX,
            Op::LockX { .. } => Kind::LockX,
            Op::UnlockX { .. } => Kind::UnlockX,
            Op::Flush { .. } => Kind::Flush,
        }
    }
}

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// An operation, when it is due after the start of the pass (in nanoseconds; 0: at once), and how it
    /// must end.
    Op {
        /// Time within the pass.
        at_ns: u64,
        /// What to do.
        op: Op,
        /// How it must end.
        expected: Expected,
    },
    /// `LOOP count`: what follows is done so often.
    Loop(u64),
    /// `ENDLOOP`.
    EndLoop,
    /// `REPEAT count`: the next line is done so often.
    Repeat(u64),
    /// `SLEEP microseconds`.
    Sleep(u64),
    /// `SETSP point`.
    SetPoint(u64),
    /// `WAITSP client point`.
    WaitPoint {
        /// Number of the other client, from 0.
        client: u64,
        /// The point that it must have reached.
        point: u64,
    },
    /// `WRITEPATTERN text`.
    WritePattern(String),
    /// `RANDOMSTRING number "template"`.
    RandomString {
        /// 1 … 9.
        number: u8,
        /// The string, with `[letters]` where one of them is drawn.
        template: String,
    },
}

/// A line with its number, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Number in the file.
    pub number: u32,
    /// What it says.
    pub statement: Statement,
}

impl fmt::Display for LoadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadPath::Fixed(path) => write!(f, "\"\\{}\"", path.replace('/', "\\")),
            LoadPath::Drawn(number) => write!(f, "${number}"),
        }
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Offset::Fixed(offset) => write!(f, "{offset}"),
            Offset::Next(step) => write!(f, "+{step}"),
            Offset::Drawn { below, align, add } => write!(f, "*%{below}/{align}+{add}"),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.handle, self.offset, self.size)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::NtCreateX { path, options, disposition, handle } => {
                write!(f, "NTCreateX {path} {options:#x} {disposition:#x} {handle}")
            }
            Op::Close { handle } => write!(f, "Close {handle}"),
            Op::Rename { old, new } => write!(f, "Rename {old} {new}"),
            Op::Unlink { path, attributes } => write!(f, "Unlink {path} {attributes:#x}"),
            Op::Deltree { path } => write!(f, "Deltree {path}"),
            Op::Rmdir { path } => write!(f, "Rmdir {path}"),
            Op::Mkdir { path } => write!(f, "Mkdir {path}"),
            Op::QueryPath { path, level } => write!(f, "QUERY_PATH_INFORMATION {path} {level}"),
            Op::QueryFile { handle, level } => write!(f, "QUERY_FILE_INFORMATION {handle} {level}"),
            Op::QueryFs { level } => write!(f, "QUERY_FS_INFORMATION {level}"),
            Op::SetFile { handle, level } => write!(f, "SET_FILE_INFORMATION {handle} {level}"),
            Op::FindFirst { path, level, most, count } => {
                write!(f, "FIND_FIRST {path} {level} {most} {count}")
            }
            Op::WriteX { range, done } => write!(f, "WriteX {range} {done}"),
            Op::ReadX { range, done } => write!(f, "ReadX {range} {done}"),
            Op::LockX { range } => write!(f, "LockX {range}"),
            Op::UnlockX { range } => write!(f, "UnlockX {range}"),
            Op::Flush { handle } => write!(f, "Flush {handle}"),
        }
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Statement::Op { at_ns: 0, op, expected } => write!(f, "{op} {expected}"),
            Statement::Op { at_ns, op, expected } => {
                let (seconds, rest) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
                write!(f, "{seconds}.{rest:09} {op} {expected}")
            }
            Statement::Loop(count) => write!(f, "LOOP {count}"),
            Statement::EndLoop => f.write_str("ENDLOOP"),
            Statement::Repeat(count) => write!(f, "REPEAT {count}"),
            Statement::Sleep(microseconds) => write!(f, "SLEEP {microseconds}"),
            Statement::SetPoint(point) => write!(f, "SETSP {point}"),
            Statement::WaitPoint { client, point } => write!(f, "WAITSP {client} {point}"),
            Statement::WritePattern(text) => write!(f, "WRITEPATTERN {text}"),
            Statement::RandomString { number, template } => {
                write!(f, "RANDOMSTRING {number} \"{template}\"")
            }
        }
    }
}
