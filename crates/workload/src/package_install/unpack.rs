//! Installs the model as dpkg installs packages: every file under a temporary name, made durable as
//! the policy asks, renamed; a list of files for each package; a journal entry for each change of its
//! state, and the status file written anew from time to time. The order of calls was observed on
//! dpkg 1.21. What is timed is left to [`crate::catalog::package_install`].

use std::ffi::CStr;
use std::fmt::Write as _;

use fsdyno_sys::calls::{CallResult, Calls, CreateFlags};
use fsdyno_sys::{Errno, SysError};

use super::model::{DATABASE, Entry, EntryKind, Model, Package, State};
use crate::contents::PayloadBuffer;
use crate::failure::name_failed;
use crate::recorder::{Operation, Recorder};

/// Journal entries after which the status file is written anew.
pub const JOURNAL_ENTRIES: usize = 250;
/// Bytes of one write, as dpkg copies.
pub const WRITE_BYTES: usize = 32 << 10;

const STATUS: &CStr = c"var/lib/dpkg/status";
const STATUS_NEW: &CStr = c"var/lib/dpkg/status-new";
const STATUS_OLD: &CStr = c"var/lib/dpkg/status-old";
const JOURNAL_NEW: &CStr = c"var/lib/dpkg/updates/tmp.i";
const CONTROL: &CStr = c"var/lib/dpkg/tmp.ci";
const CONTROL_FILE: &CStr = c"var/lib/dpkg/tmp.ci/control";
const CONTROL_SUMS: &CStr = c"var/lib/dpkg/tmp.ci/md5sums";
const DATABASE_DIRECTORY: &CStr = c"var/lib/dpkg";
const INFO: &CStr = c"var/lib/dpkg/info";
const JOURNAL: &CStr = c"var/lib/dpkg/updates";

/// What is made durable, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsyncPolicy {
    /// When all files of a package are written, each before it is renamed; and the database.
    Package,
    /// Each file when it is written, then it is renamed; and the database.
    File,
    /// The database only.
    Database,
    /// Nothing.
    Never,
}

impl FsyncPolicy {
    /// The words of the parameter.
    pub const WORDS: &[&str] = &["package", "file", "database", "never"];

    /// The policy of that word.
    #[must_use]
    pub fn parse(word: &str) -> Option<FsyncPolicy> {
        let all =
            [FsyncPolicy::Package, FsyncPolicy::File, FsyncPolicy::Database, FsyncPolicy::Never];
        Self::WORDS.iter().zip(all).find(|(known, _)| **known == word).map(|(_, policy)| policy)
    }

    fn keeps_database(self) -> bool {
        self != FsyncPolicy::Never
    }
}

/// Names of the database files of one package, prepared.
#[derive(Debug)]
struct InfoNames {
    list: Vec<u8>,
    list_new: Vec<u8>,
    sums: Vec<u8>,
}

/// Installs a model through `calls`.
#[derive(Debug)]
pub struct Installer<'a, C: Calls> {
    calls: &'a C,
    root: &'a C::Fd,
    model: &'a Model,
    policy: FsyncPolicy,
    payload: &'a mut PayloadBuffer,
    info: Vec<InfoNames>,
    journal: Vec<Vec<u8>>,
    journal_length: usize,
    states: Vec<Option<State>>,
    /// Room for the whole status file.
    text: Vec<u8>,
}

fn terminated(mut text: String) -> Vec<u8> {
    text.push('\0');
    text.into_bytes()
}

fn name_of(bytes: &[u8]) -> &CStr {
    CStr::from_bytes_with_nul(bytes).expect("these names were made with one NUL byte at the end")
}

impl<'a, C: Calls> Installer<'a, C> {
    /// Prepares all names; nothing is called on yet.
    #[must_use]
    pub fn new(
        calls: &'a C,
        root: &'a C::Fd,
        model: &'a Model,
        policy: FsyncPolicy,
        payload: &'a mut PayloadBuffer,
    ) -> Self {
        let info = model.packages.iter().map(|package| {
            let file = |end: &str| terminated(format!("{DATABASE}/info/{}.{end}", package.name));
            InfoNames { list: file("list"), list_new: file("list-new"), sums: file("md5sums") }
        });
        let journal = (0..JOURNAL_ENTRIES).map(|index| {
            let mut name = format!("{DATABASE}/updates/");
            let _ = write!(name, "{index:04}");
            terminated(name)
        });
        let text = model.packages.iter().map(Package::paragraph_bytes).sum();
        Installer {
            calls,
            root,
            model,
            policy,
            payload,
            info: info.collect(),
            journal: journal.collect(),
            journal_length: 0,
            states: vec![None; model.packages.len()],
            text: Vec::with_capacity(text),
        }
    }

    /// Makes the directories of the database, and an empty status file.
    ///
    /// # Errors
    /// The call that failed first, with its path.
    pub fn prepare(&self) -> Result<(), SysError> {
        let directories = [c"var", c"var/lib", DATABASE_DIRECTORY, INFO, JOURNAL];
        for name in directories {
            self.calls.mkdir(self.root, name).map_err(|errno| failed("mkdir", name, errno))?;
        }
        let status = self.calls.create(self.root, STATUS, CreateFlags::EXCLUSIVE);
        let status = status.map_err(|errno| failed("create", STATUS, errno))?;
        self.calls.close(status).map_err(|errno| failed("close", STATUS, errno))
    }

    /// Unpacks the package `index`; `step` is called once an entry and may end it.
    ///
    /// # Errors
    /// The call that failed first, with its path, or that of `step`.
    pub fn unpack(
        &mut self,
        index: usize,
        recorder: &mut Recorder,
        mut step: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let model = self.model;
        let entries = &model.entries[model.packages[index].entries.clone()];
        self.write_control(index, recorder)?;
        self.change_state(index, State::HalfInstalled, recorder)?;
        for entry in entries {
            step()?;
            match entry.kind {
                EntryKind::Directory => self.make_directory(entry, recorder)?,
                EntryKind::File => self.write_file(entry, recorder)?,
                EntryKind::Symlink => self.make_link(entry, recorder)?,
            }
        }
        if self.policy != FsyncPolicy::File {
            for entry in entries.iter().filter(|entry| entry.kind == EntryKind::File) {
                step()?;
                if self.policy == FsyncPolicy::Package {
                    self.sync(model.temporary(entry), recorder)?;
                }
                self.rename(model.temporary(entry), model.name(entry), recorder)?;
            }
        }
        for entry in entries.iter().filter(|entry| entry.kind == EntryKind::Symlink) {
            self.rename(model.temporary(entry), model.name(entry), recorder)?;
        }
        self.write_info(index, recorder)?;
        self.change_state(index, State::Unpacked, recorder)?;
        // Twice, as dpkg does: with and without the mark that it must be installed again.
        self.change_state(index, State::Unpacked, recorder)?;
        Ok(())
    }

    /// Configures the package `index`, which changes nothing but its state.
    ///
    /// # Errors
    /// The call that failed first, with its path.
    pub fn configure(&mut self, index: usize, recorder: &mut Recorder) -> Result<(), SysError> {
        self.change_state(index, State::Unpacked, recorder)?;
        self.change_state(index, State::HalfConfigured, recorder)?;
        self.change_state(index, State::Installed, recorder)
    }

    /// Writes the status file anew and empties the journal.
    ///
    /// # Errors
    /// The call that failed first, with its path.
    pub fn checkpoint(&mut self, recorder: &mut Recorder) -> Result<(), SysError> {
        self.text.clear();
        for (package, state) in self.model.packages.iter().zip(&self.states) {
            if let Some(state) = state {
                package.paragraph(*state, &mut self.text);
            }
        }
        let synced = self.policy.keeps_database();
        self.write_text(STATUS_NEW, &self.text, synced, recorder)?;
        match self.calls.unlink(self.root, STATUS_OLD) {
            // The first time there is none.
            Ok(()) | Err(Errno::NOENT) => recorder.end(Operation::Unlink),
            Err(errno) => return Err(failed("unlink", STATUS_OLD, errno)),
        }
        self.calls
            .link(self.root, STATUS, self.root, STATUS_OLD)
            .map_err(|errno| failed("link", STATUS_OLD, errno))?;
        recorder.end(Operation::Link);
        self.rename(STATUS_NEW, STATUS, recorder)?;
        self.sync_directory(DATABASE_DIRECTORY, recorder)?;
        for index in 0..self.journal_length {
            let name = name_of(&self.journal[index]);
            self.done("unlink", name, self.calls.unlink(self.root, name))?;
            recorder.end(Operation::Unlink);
        }
        self.journal_length = 0;
        self.sync_directory(JOURNAL, recorder)
    }

    /// The control files of the archive, which dpkg unpacks and syncs first.
    fn write_control(&mut self, index: usize, recorder: &mut Recorder) -> Result<(), SysError> {
        let package = &self.model.packages[index];
        self.done("mkdir", CONTROL, self.calls.mkdir(self.root, CONTROL))?;
        recorder.end(Operation::Mkdir);
        self.text.clear();
        package.paragraph(State::HalfInstalled, &mut self.text);
        for (name, text) in
            [(CONTROL_FILE, self.text.as_slice()), (CONTROL_SUMS, package.sums.as_bytes())]
        {
            self.write_text(name, text, false, recorder)?;
        }
        if self.policy.keeps_database() {
            self.sync(CONTROL_SUMS, recorder)?;
            self.sync(CONTROL_FILE, recorder)?;
            self.sync_directory(CONTROL, recorder)?;
        }
        Ok(())
    }

    /// The list of files and the digests take their places.
    fn write_info(&mut self, index: usize, recorder: &mut Recorder) -> Result<(), SysError> {
        let InfoNames { list, list_new, sums } = &self.info[index];
        let text = self.model.packages[index].list.as_bytes();
        let synced = self.policy.keeps_database();
        self.write_text(name_of(list_new), text, synced, recorder)?;
        self.rename(name_of(list_new), name_of(list), recorder)?;
        self.sync_directory(INFO, recorder)?;
        self.rename(CONTROL_SUMS, name_of(sums), recorder)?;
        self.done("unlink", CONTROL_FILE, self.calls.unlink(self.root, CONTROL_FILE))?;
        recorder.end(Operation::Unlink);
        self.done("rmdir", CONTROL, self.calls.rmdir(self.root, CONTROL))?;
        recorder.end(Operation::Rmdir);
        self.sync_directory(INFO, recorder)
    }

    fn change_state(
        &mut self,
        index: usize,
        state: State,
        recorder: &mut Recorder,
    ) -> Result<(), SysError> {
        self.states[index] = Some(state);
        self.text.clear();
        self.model.packages[index].paragraph(state, &mut self.text);
        self.write_text(JOURNAL_NEW, &self.text, self.policy.keeps_database(), recorder)?;
        self.rename(JOURNAL_NEW, name_of(&self.journal[self.journal_length]), recorder)?;
        self.sync_directory(JOURNAL, recorder)?;
        self.journal_length += 1;
        if self.journal_length == JOURNAL_ENTRIES { self.checkpoint(recorder) } else { Ok(()) }
    }

    fn make_directory(&self, entry: &Entry, recorder: &mut Recorder) -> Result<(), SysError> {
        let (name, temporary) = (self.model.name(entry), self.model.temporary(entry));
        match self.calls.mkdir(self.root, temporary) {
            Ok(()) => recorder.end(Operation::Mkdir),
            Err(errno) => return Err(failed("mkdir", temporary, errno)),
        }
        // A directory of the database may be there already; the model has none of them.
        self.rename(temporary, name, recorder)
    }

    fn make_link(&self, entry: &Entry, recorder: &mut Recorder) -> Result<(), SysError> {
        let temporary = self.model.temporary(entry);
        let made = self.calls.symlink(self.model.target(entry), self.root, temporary);
        self.done("symlink", temporary, made)?;
        recorder.end(Operation::Symlink);
        Ok(())
    }

    fn write_file(&mut self, entry: &Entry, recorder: &mut Recorder) -> Result<(), SysError> {
        let (calls, model) = (self.calls, self.model);
        let temporary = model.temporary(entry);
        let file = calls
            .create(self.root, temporary, CreateFlags::EXCLUSIVE)
            .map_err(|errno| failed("create", temporary, errno))?;
        recorder.end(Operation::Create);
        let mut offset = 0;
        while offset < entry.size_bytes {
            let count = (entry.size_bytes - offset).min(WRITE_BYTES as u64);
            let bytes = self.payload.bytes(entry.content_key, offset, count);
            recorder.begin();
            calls.write_all(&file, bytes).map_err(|errno| failed("write", temporary, errno))?;
            recorder.end(Operation::Write);
            offset += count;
        }
        if self.policy == FsyncPolicy::File {
            calls.fsync(&file).map_err(|errno| failed("fsync", temporary, errno))?;
            recorder.end(Operation::Fsync);
        }
        calls.close(file).map_err(|errno| failed("close", temporary, errno))?;
        recorder.end(Operation::Close);
        recorder.bytes += entry.size_bytes;
        recorder.files += 1;
        if self.policy == FsyncPolicy::File {
            self.rename(temporary, model.name(entry), recorder)?;
        }
        Ok(())
    }

    /// Writes a file of the database whole.
    fn write_text(
        &self,
        name: &CStr,
        text: &[u8],
        synced: bool,
        recorder: &mut Recorder,
    ) -> Result<(), SysError> {
        let calls = self.calls;
        recorder.begin();
        let file = calls
            .create(self.root, name, CreateFlags::TRUNCATE)
            .map_err(|errno| failed("create", name, errno))?;
        recorder.end(Operation::Create);
        if !text.is_empty() {
            self.done("write", name, calls.write_all(&file, text))?;
            recorder.end(Operation::Write);
        }
        if synced {
            self.done("fsync", name, calls.fsync(&file))?;
            recorder.end(Operation::Fsync);
        }
        self.done("close", name, calls.close(file))?;
        recorder.end(Operation::Close);
        recorder.bytes += text.len() as u64;
        Ok(())
    }

    /// Opens a file that was written before, makes it durable and closes it.
    fn sync(&self, name: &CStr, recorder: &mut Recorder) -> Result<(), SysError> {
        let flags = fsdyno_sys::calls::OpenFlags::WRITE;
        let file = self.calls.open_with(self.root, name, flags);
        let file = file.map_err(|errno| failed("open", name, errno))?;
        self.sync_open(name, file, recorder)
    }

    fn sync_directory(&self, name: &CStr, recorder: &mut Recorder) -> Result<(), SysError> {
        if !self.policy.keeps_database() {
            return Ok(());
        }
        let directory = self.calls.open_dir(self.root, name);
        let directory = directory.map_err(|errno| failed("open", name, errno))?;
        self.sync_open(name, directory, recorder)
    }

    fn sync_open(&self, name: &CStr, fd: C::Fd, recorder: &mut Recorder) -> Result<(), SysError> {
        recorder.end(Operation::Open);
        self.done("fsync", name, self.calls.fsync(&fd))?;
        recorder.end(Operation::Fsync);
        self.done("close", name, self.calls.close(fd))?;
        recorder.end(Operation::Close);
        Ok(())
    }

    fn rename(&self, from: &CStr, to: &CStr, recorder: &mut Recorder) -> Result<(), SysError> {
        self.done("rename", from, self.calls.rename(self.root, from, self.root, to))?;
        recorder.end(Operation::Rename);
        Ok(())
    }

    #[inline(always)]
    fn done(
        &self,
        call: &'static str,
        name: &CStr,
        result: CallResult<()>,
    ) -> Result<(), SysError> {
        result.map_err(|errno| failed(call, name, errno))
    }
}

#[cold]
fn failed(call: &'static str, name: &CStr, errno: Errno) -> SysError {
    name_failed(call, "", name, errno)
}
