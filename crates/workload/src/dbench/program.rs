//! What a load is compiled to before the clock starts: steps with numbers in place of paths and handles,
//! so that carrying them out parses, builds and looks up nothing. The calls are in [`super::client`].

use std::collections::HashMap;

use rustix::fs::OFlags;

use super::kinds::Kind;
use super::lines::{Line, LoadPath, Offset, Op, Range, Statement};
use super::loadfile::{Fault, Faults, normal};
use super::status::Expected;

/// The part of a path that stands for the client.
const CLIENT_PART: &str = "client1";
/// Strings that are drawn ahead of each `RANDOMSTRING`.
const VARIANTS: u64 = 64;
/// Bit of a [`PathIndex`] that names a drawn string.
const DRAWN: u32 = 1 << 31;
/// Options of `NTCreateX`: the path is a directory.
const DIRECTORY: u32 = 1;

/// Where a path is in the table of a client; or, above the table, the number of a drawn string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PathIndex(u32);

impl PathIndex {
    /// The index in the table, with the strings that are drawn now.
    #[inline(always)]
    #[must_use]
    pub fn resolve(self, drawn: &[u32; 10]) -> usize {
        if self.0 & DRAWN == 0 { self.0 as usize } else { drawn[(self.0 & 0xF) as usize] as usize }
    }
}

/// A place in a file.
#[derive(Debug, Clone, Copy)]
pub enum Place {
    /// As it is.
    Fixed(u64),
    /// So many bytes after the last one.
    Next(u64),
    /// One of [`Program::places`].
    Drawn(u32),
}

/// A place that is drawn: below `below`, cut to a multiple of `align`, moved by `add`.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "told above")]
pub struct DrawnPlace {
    pub below: u64,
    pub align: u32,
    pub add: u64,
}

/// What an operation ends with, as part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Nothing.
    Nothing,
    /// The handle that was written is made durable.
    SyncFile,
    /// The directory is made durable that holds the path.
    SyncDirectory,
}

/// What a step does. Slots are places in the table of open handles.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Action {
    Open { path: PathIndex, slot: u32, flags: OFlags },
    OpenDirectory { path: PathIndex, slot: u32, makes: bool },
    Close { slot: u32 },
    Rename { old: PathIndex, new: PathIndex },
    Unlink { path: PathIndex },
    Deltree { path: PathIndex },
    Rmdir { path: PathIndex },
    Mkdir { path: PathIndex },
    QueryPath { path: PathIndex },
    QueryFile { slot: u32 },
    QueryFs,
    SetFile { slot: u32 },
    Find { path: PathIndex },
    Write { slot: u32, place: Place, size: u32, done: u32 },
    Read { slot: u32, place: Place, size: u32, done: u32 },
    Lock { slot: u32 },
    Unlock { slot: u32 },
    Flush { slot: u32 },
    Wait { at_ns: u64 },
    Sleep { ns: u64 },
    SetPoint { point: u64 },
    WaitPoint { client: u32, point: u64 },
    Pattern { index: u32 },
    Draw { number: u8, draw: u32 },
    Loop { counter: u32, count: u64, end: u32 },
    EndLoop { counter: u32, body: u32 },
}

/// One step.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// What it does.
    pub action: Action,
    /// Its kind; `None` for what is no operation.
    pub kind: Option<Kind>,
    /// How it must end.
    pub expected: Expected,
    /// What follows as part of it.
    pub then: Then,
    /// Line of the load.
    pub line: u32,
}

/// Options that are compiled in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Files are opened with `O_SYNC`.
    pub sync_io: bool,
    /// Each write is followed by fsync.
    pub fsync_writes: bool,
    /// Each change of a directory is made durable.
    pub sync_directories: bool,
}

/// A compiled load.
#[derive(Debug)]
pub struct Program {
    /// The steps.
    pub steps: Vec<Step>,
    /// Paths, with `client1` where the number of the client belongs.
    paths: Vec<String>,
    /// Size of the table of handles.
    pub slot_count: usize,
    /// Counters of loops.
    pub counter_count: usize,
    /// Texts of `WRITEPATTERN`; the first is a byte 0.
    pub patterns: Vec<String>,
    /// Paths of each `RANDOMSTRING`, in the order of drawing.
    pub draws: Vec<Vec<u32>>,
    /// Places that are drawn.
    pub places: Vec<DrawnPlace>,
    /// Largest number of bytes of a write and of a read.
    pub most_bytes: (usize, usize),
    /// Upper estimate of the bytes of one client's files; `None` where none can be made.
    pub peak_bytes: Option<u64>,
    /// Whether what files hold is known from their paths: no directory is renamed.
    pub is_verifiable: bool,
    /// Number of the highest client that `WAITSP` waits for.
    pub highest_client: Option<u32>,
}

/// Compiles `lines`, read from the file called `file`.
///
/// # Errors
/// Loops without an end or a beginning, a `REPEAT` without an operation after it, a string that is used
/// before it is drawn.
pub fn compile(file: &str, lines: &[Line], options: Options) -> Result<Program, Faults> {
    let mut compiler = Compiler::new(options);
    for line in lines {
        let outcome = compiler.line(line);
        compiler.faults.extend(outcome.err().map(|message| Fault { line: line.number, message }));
    }
    let last = lines.last().map_or(1, |line| line.number);
    if compiler.repeat.is_some() {
        let message = "the file ends where an operation is expected after REPEAT".to_owned();
        compiler.faults.push(Fault { line: last, message });
    }
    for (line, _) in std::mem::take(&mut compiler.loops) {
        let message = "LOOP has no ENDLOOP".to_owned();
        compiler.faults.push(Fault { line, message });
    }
    if !compiler.faults.is_empty() {
        return Err(Faults { file: file.to_owned(), faults: compiler.faults });
    }
    Ok(compiler.finish())
}

struct Compiler {
    options: Options,
    program: Program,
    index_of: HashMap<String, u32>,
    /// Open handles: their slot and path.
    handles: HashMap<u64, (u32, Option<u32>)>,
    free_slots: Vec<u32>,
    /// Line and step of each loop that is open.
    loops: Vec<(u32, u32)>,
    repeat: Option<u64>,
    drawn: [bool; 10],
    extents: HashMap<u32, u64>,
    renamed: Vec<u32>,
    faults: Vec<Fault>,
}

/// The slot that is never filled.
const NEVER: u32 = 0;
/// The slot of what must not open.
const SCRATCH: u32 = 1;

impl Compiler {
    fn new(options: Options) -> Compiler {
        let program = Program {
            steps: Vec::new(),
            paths: Vec::new(),
            slot_count: 2,
            counter_count: 0,
            patterns: vec!["\0".to_owned()],
            draws: Vec::new(),
            places: Vec::new(),
            most_bytes: (0, 0),
            peak_bytes: Some(0),
            is_verifiable: true,
            highest_client: None,
        };
        Compiler {
            options,
            program,
            index_of: HashMap::new(),
            handles: HashMap::new(),
            free_slots: Vec::new(),
            loops: Vec::new(),
            repeat: None,
            drawn: [false; 10],
            extents: HashMap::new(),
            renamed: Vec::new(),
            faults: Vec::new(),
        }
    }

    fn finish(mut self) -> Program {
        let bytes: u64 = self.extents.values().map(|bytes| bytes.next_multiple_of(4096)).sum();
        let entries = 4096 * self.program.paths.len() as u64;
        self.program.peak_bytes = self.program.peak_bytes.map(|_| bytes + entries);
        let is_inside = |path: &String, directory: &String| {
            path.strip_prefix(directory.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        let paths = &self.program.paths;
        self.program.is_verifiable = !self.renamed.iter().any(|old| {
            let old = &paths[*old as usize];
            let is_shared = !old.split('/').any(|part| part == CLIENT_PART);
            is_shared || paths.iter().any(|path| is_inside(path, old))
        });
        self.program
    }

    fn line(&mut self, line: &Line) -> Result<(), String> {
        let repeat = self.repeat.take();
        if repeat.is_some() && !matches!(line.statement, Statement::Op { .. }) {
            return Err("expected an operation after REPEAT".to_owned());
        }
        match &line.statement {
            Statement::Op { at_ns, op, expected } => {
                if *at_ns > 0 {
                    self.control(line, Action::Wait { at_ns: *at_ns });
                }
                let begin = repeat.map(|count| self.begin_loop(line, count));
                self.operation(line, op, *expected)?;
                if let Some(begin) = begin {
                    self.end_loop(line, begin);
                }
                return Ok(());
            }
            Statement::Loop(count) => {
                let begin = self.begin_loop(line, *count);
                self.loops.push((line.number, begin));
            }
            Statement::EndLoop => {
                let (_, begin) = self.loops.pop().ok_or("ENDLOOP without a LOOP before it")?;
                self.end_loop(line, begin);
            }
            Statement::Repeat(count) => self.repeat = Some(*count),
            Statement::Sleep(microseconds) => {
                self.control(line, Action::Sleep { ns: microseconds * 1000 });
            }
            Statement::SetPoint(point) => self.control(line, Action::SetPoint { point: *point }),
            Statement::WaitPoint { client, point } => {
                let client = *client as u32;
                let highest = &mut self.program.highest_client;
                *highest = (*highest).max(Some(client));
                self.control(line, Action::WaitPoint { client, point: *point });
            }
            Statement::WritePattern(text) => {
                let index = self.program.patterns.len() as u32;
                self.program.patterns.push(text.clone());
                self.control(line, Action::Pattern { index });
            }
            Statement::RandomString { number, template } => {
                let draw = self.program.draws.len() as u32;
                let variants: Result<Vec<u32>, String> = (0..VARIANTS)
                    .map(|variant| Ok(self.intern(&normal(&draw_string(template, variant))?)))
                    .collect();
                self.program.draws.push(variants?);
                self.drawn[usize::from(*number)] = true;
                self.control(line, Action::Draw { number: *number, draw });
            }
        }
        Ok(())
    }

    fn control(&mut self, line: &Line, action: Action) {
        let (expected, then) = (Expected::Anything, Then::Nothing);
        self.program.steps.push(Step { action, kind: None, expected, then, line: line.number });
    }

    fn begin_loop(&mut self, line: &Line, count: u64) -> u32 {
        let begin = self.program.steps.len() as u32;
        let counter = self.program.counter_count as u32;
        self.program.counter_count += 1;
        self.control(line, Action::Loop { counter, count, end: 0 });
        begin
    }

    fn end_loop(&mut self, line: &Line, begin: u32) {
        let after = self.program.steps.len() as u32 + 1;
        if let Action::Loop { counter, end, .. } = &mut self.program.steps[begin as usize].action {
            *end = after;
            let counter = *counter;
            self.control(line, Action::EndLoop { counter, body: begin + 1 });
        }
    }

    fn intern(&mut self, path: &str) -> u32 {
        if let Some(index) = self.index_of.get(path) {
            return *index;
        }
        let index = self.program.paths.len() as u32;
        self.program.paths.push(path.to_owned());
        self.index_of.insert(path.to_owned(), index);
        index
    }

    fn path(&mut self, path: &LoadPath) -> Result<PathIndex, String> {
        match path {
            LoadPath::Fixed(path) => Ok(PathIndex(self.intern(path))),
            LoadPath::Drawn(number) if self.drawn[usize::from(*number)] => {
                Ok(PathIndex(DRAWN | u32::from(*number)))
            }
            LoadPath::Drawn(number) => {
                Err(format!("${number} is used before RANDOMSTRING {number} draws it"))
            }
        }
    }

    fn slot(&self, handle: u64) -> u32 {
        self.handles.get(&handle).map_or(NEVER, |(slot, _)| *slot)
    }

    /// The slot that a handle is opened in.
    fn open(&mut self, handle: u64, path: PathIndex, expected: Expected) -> u32 {
        if !Expected::agrees(expected, None) {
            return SCRATCH;
        }
        let known = (path.0 & DRAWN == 0).then_some(path.0);
        if let Some((slot, of)) = self.handles.get_mut(&handle) {
            *of = known;
            return *slot;
        }
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.program.slot_count += 1;
            self.program.slot_count as u32 - 1
        });
        self.handles.insert(handle, (slot, known));
        slot
    }

    fn close(&mut self, handle: u64) -> u32 {
        if !self.loops.is_empty() {
            // Another turn of the loop may use the handle again.
            return self.slot(handle);
        }
        let Some((slot, _)) = self.handles.remove(&handle) else { return NEVER };
        self.free_slots.push(slot);
        slot
    }

    fn place(&mut self, range: &Range) -> Place {
        match range.offset {
            Offset::Fixed(offset) => Place::Fixed(offset),
            Offset::Next(step) => Place::Next(step),
            Offset::Drawn { below, align, add } => {
                self.program.places.push(DrawnPlace { below, align, add });
                Place::Drawn(self.program.places.len() as u32 - 1)
            }
        }
    }

    /// Notes how far a file may grow.
    fn grow(&mut self, range: &Range) {
        let end = match range.offset {
            Offset::Fixed(offset) => Some(offset + range.size),
            Offset::Drawn { below, add, .. } => Some(below + add + range.size),
            Offset::Next(_) => None,
        };
        let path = self.handles.get(&range.handle).and_then(|(_, path)| *path);
        match (end, path) {
            (Some(end), Some(path)) => {
                let extent = self.extents.entry(path).or_default();
                *extent = end.max(*extent);
            }
            _ => self.program.peak_bytes = None,
        }
    }

    fn operation(&mut self, line: &Line, op: &Op, expected: Expected) -> Result<(), String> {
        let mut then = Then::Nothing;
        let changes =
            if self.options.sync_directories { Then::SyncDirectory } else { Then::Nothing };
        let action = match op {
            Op::NtCreateX { path, options, disposition, handle } => {
                let path = self.path(path)?;
                let slot = self.open(*handle, path, expected);
                if options & DIRECTORY != 0 {
                    then = changes;
                    Action::OpenDirectory { path, slot, makes: ![1, 4].contains(disposition) }
                } else {
                    let flags = self.open_flags(*disposition, expected);
                    if flags.contains(OFlags::CREATE) {
                        then = changes;
                    }
                    Action::Open { path, slot, flags }
                }
            }
            Op::Close { handle } => Action::Close { slot: self.close(*handle) },
            Op::Rename { old, new } => {
                let (old, new) = (self.path(old)?, self.path(new)?);
                self.renamed.extend((old.0 & DRAWN == 0).then_some(old.0));
                let extent = self.extents.get(&old.0).copied().unwrap_or(0);
                let grown = self.extents.entry(new.0).or_default();
                *grown = extent.max(*grown);
                then = changes;
                Action::Rename { old, new }
            }
            Op::Unlink { path, .. } => {
                then = changes;
                Action::Unlink { path: self.path(path)? }
            }
            Op::Deltree { path } => Action::Deltree { path: self.path(path)? },
            Op::Rmdir { path } => {
                then = changes;
                Action::Rmdir { path: self.path(path)? }
            }
            Op::Mkdir { path } => {
                then = changes;
                Action::Mkdir { path: self.path(path)? }
            }
            Op::QueryPath { path, .. } => Action::QueryPath { path: self.path(path)? },
            Op::QueryFile { handle, .. } => Action::QueryFile { slot: self.slot(*handle) },
            Op::QueryFs { .. } => Action::QueryFs,
            Op::SetFile { handle, .. } => Action::SetFile { slot: self.slot(*handle) },
            Op::FindFirst { path, .. } => Action::Find { path: self.path(path)? },
            Op::WriteX { range, done } => {
                if self.options.fsync_writes {
                    then = Then::SyncFile;
                }
                self.grow(range);
                self.write(range, *done as u32)
            }
            Op::ReadX { range, done } => self.read(range, *done as u32),
            Op::LockX { range } => Action::Lock { slot: self.slot(range.handle) },
            Op::UnlockX { range } => Action::Unlock { slot: self.slot(range.handle) },
            Op::Flush { handle } => Action::Flush { slot: self.slot(*handle) },
        };
        let step = Step { action, kind: Some(op.kind()), expected, then, line: line.number };
        self.program.steps.push(step);
        Ok(())
    }

    fn write(&mut self, range: &Range, done: u32) -> Action {
        let most = &mut self.program.most_bytes.0;
        *most = (*most).max(range.size as usize);
        let (place, slot) = (self.place(range), self.slot(range.handle));
        Action::Write { slot, place, size: range.size as u32, done }
    }

    fn read(&mut self, range: &Range, done: u32) -> Action {
        let most = &mut self.program.most_bytes.1;
        *most = (*most).max(range.size as usize);
        let (place, slot) = (self.place(range), self.slot(range.handle));
        Action::Read { slot, place, size: range.size as u32, done }
    }

    /// Dispositions: 0 replace, 1 open, 2 create, 3 open or create, 4 overwrite, 5 overwrite or create.
    fn open_flags(&self, disposition: u8, expected: Expected) -> OFlags {
        let mut flags = OFlags::RDWR | OFlags::CLOEXEC;
        if [0, 2, 3, 5].contains(&disposition) {
            flags |= OFlags::CREATE;
        }
        if [0, 4, 5].contains(&disposition) {
            flags |= OFlags::TRUNC;
        }
        if disposition == 2 && expected == Expected::Exists {
            flags |= OFlags::EXCL;
        }
        if self.options.sync_io {
            flags |= OFlags::SYNC;
        }
        flags
    }
}

/// The string `variant` of a template: each `[letters]` replaced with one of them.
fn draw_string(template: &str, variant: u64) -> String {
    let mut drawn = String::new();
    let mut rest = template;
    let mut state = variant;
    while let Some((before, after)) = rest.split_once('[') {
        let (letters, after) = after.split_once(']').unwrap_or((after, ""));
        state = crate::payload::mix(state.wrapping_add(crate::payload::GOLDEN));
        let count = letters.chars().count().max(1) as u64;
        drawn.push_str(before);
        drawn.extend(letters.chars().nth((state % count) as usize));
        rest = after;
    }
    drawn.push_str(rest);
    drawn
}

impl Program {
    /// The paths of the client with this number, from 0, below the working directory; `.` is that itself.
    #[must_use]
    pub fn paths_of(&self, client: u32) -> Vec<String> {
        let own = format!("client{client}");
        let replaced = |path: &String| {
            let parts: Vec<&str> = path
                .split('/')
                .map(|part| if part == CLIENT_PART { own.as_str() } else { part })
                .collect();
            if path.is_empty() { ".".to_owned() } else { parts.join("/") }
        };
        self.paths.iter().map(replaced).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::loadfile::parse;
    use super::*;

    fn compiled(text: &str) -> Result<Program, String> {
        let lines = parse("f", text).map_err(|faults| faults.to_string())?;
        compile("f", &lines, Options::default()).map_err(|faults| faults.to_string())
    }

    #[test]
    fn faults_of_the_whole() {
        for (text, told) in [
            ("LOOP 2\n", "f:2: LOOP has no ENDLOOP"),
            ("ENDLOOP\n", "f:2: ENDLOOP without"),
            ("REPEAT 2\nLOOP 2\nENDLOOP\n", "f:3: expected an operation after REPEAT"),
            ("REPEAT 2\n", "f:2: the file ends"),
            ("Unlink $1 0 *\n", "f:2: $1 is used before"),
        ] {
            let error = compiled(&format!("Flush 1 *\n{text}")).err();
            assert!(error.as_deref().is_some_and(|it| it.contains(told)), "{text}: {error:?}");
        }
    }

    #[test]
    fn slots_are_few_and_paths_are_the_clients() {
        let mut text = String::new();
        for handle in 0..100 {
            text += &format!(
                "NTCreateX \"\\clients\\client1\\f\" 0x40 0x2 {handle} NT_STATUS_OK\n\
                 NTCreateX \"\\client10\\f\" 0x40 0x1 1{handle} NT_STATUS_NO_SUCH_FILE\n\
                 WriteX {handle} 0 {handle} {handle} NT_STATUS_OK\nClose {handle} NT_STATUS_OK\n"
            );
        }
        let program = compiled(&text).unwrap();
        assert_eq!(program.slot_count, 3);
        assert_eq!(program.paths_of(7), ["clients/client7/f", "client10/f"]);
        assert_eq!(program.most_bytes, (99, 0));
        assert_eq!(program.peak_bytes, Some(4096 * 3));
        assert!(size_of::<Step>() <= 48);
    }

    #[test]
    fn drawn_strings_are_of_their_template() {
        let drawn: Vec<String> = (0..64).map(|it| draw_string("a[xyz][01]/b", it)).collect();
        assert!(drawn.iter().all(|it| it.len() == 5 && it.ends_with("/b")));
        let distinct: std::collections::HashSet<_> = drawn.iter().collect();
        assert_eq!(distinct.len(), 6);
    }
}
