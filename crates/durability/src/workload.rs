//! A workload that knows what it was promised: a [mix](mixes) of calls, drawn from a seed, each with the
//! place in the write log at which it began and ended. Several workers run beside each other, each in
//! directories of its own, so that one's `fsync` meets another's writes.

pub mod mixes;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use fsdyno_lab::emulator::write_log::LogClock;
use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use crate::content::{self, RECORD};
use crate::history::{Deed, FileId, History, Names, Operation, directory_of};
use mixes::Mix;

/// Names in each directory; few, so that they are used again.
const NAMES: u64 = 10;
/// Longest file, in bytes.
const MOST_BYTES: u64 = 128 << 10;
/// Longest write, in bytes.
const MOST_WRITE: u64 = 40 << 10;
/// Files of different workers have numbers apart by this.
const WORKER_SHIFT: u32 = 24;
/// Most workers.
pub const MOST_WORKERS: u32 = 16;

/// What the workload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// Which calls it is made of.
    pub mix: &'static Mix,
    /// What is drawn comes from it.
    pub seed: u64,
    /// Workers.
    pub workers: u32,
    /// Operations of each.
    pub operations: u32,
}

/// The directories of a worker; they are to be made, and made durable, before it starts.
#[must_use]
pub fn directories(worker: u32) -> Vec<String> {
    vec![format!("w{worker}a"), format!("w{worker}b")]
}

/// A call that failed.
#[derive(Debug)]
pub struct Failed {
    /// What was tried.
    pub deed: String,
    /// Why it failed.
    pub error: io::Error,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.deed, self.error)
    }
}

/// Runs worker `worker` below `root`. `stop` is asked before each operation.
///
/// # Errors
/// The first call that failed.
pub fn run(
    root: &Path,
    worker: u32,
    amount: Amount,
    clock: &LogClock,
    stop: &dyn Fn() -> bool,
) -> Result<History, Failed> {
    let seed = amount.seed ^ u64::from(worker).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut worker = Worker {
        root: root.to_owned(),
        clock,
        seed: amount.seed,
        random: Xoshiro256StarStar::seed_from_u64(seed),
        next_file: worker << WORKER_SHIFT | 1,
        names: Names::new(),
        sizes: Vec::new(),
        history: History { directories: directories(worker), operations: Vec::new() },
    };
    while (worker.history.operations.len() as u32) < amount.operations && !stop() {
        amount.mix.step(&mut worker)?;
    }
    Ok(worker.history)
}

struct Worker<'c> {
    root: PathBuf,
    clock: &'c LogClock,
    seed: u64,
    random: Xoshiro256StarStar,
    next_file: FileId,
    names: Names,
    /// Length of each file that was ever made.
    sizes: Vec<(FileId, u64)>,
    history: History,
}

impl Worker<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        // Bounds are tiny: the bias of a remainder does not matter.
        self.random.next_u64() % bound.max(1)
    }

    fn free_name(&mut self) -> Option<String> {
        (0..8).find_map(|_| {
            let directory = (self.random.next_u64() % 2) as usize;
            self.draw_free_name(directory)
        })
    }

    fn free_name_in(&mut self, directory: usize) -> Option<String> {
        (0..8).find_map(|_| self.draw_free_name(directory))
    }

    fn draw_free_name(&mut self, directory: usize) -> Option<String> {
        let directory = &self.history.directories[directory];
        let name = format!("{directory}/f{}", self.random.next_u64() % NAMES);
        (!self.names.contains_key(&name)).then_some(name)
    }

    fn taken_name(&mut self) -> Option<(String, FileId)> {
        let index = self.below(self.names.len() as u64) as usize;
        self.names.iter().nth(index).map(|(name, file)| (name.clone(), *file))
    }

    fn size(&self, file: FileId) -> u64 {
        self.sizes.iter().find(|(own, _)| *own == file).map_or(0, |(_, size)| *size)
    }

    fn set_size(&mut self, file: FileId, size: u64) {
        if let Some(known) = self.sizes.iter_mut().find(|(own, _)| *own == file) {
            known.1 = size;
        }
    }

    fn length(&mut self) -> u64 {
        let most = if self.below(3) == 0 { MOST_WRITE } else { 6000 };
        (self.below(most) / RECORD + 1) * RECORD
    }

    /// Makes a call and writes down when.
    fn act(
        &mut self,
        deed: Deed,
        call: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<(), Failed> {
        let failed = |error, deed: &Deed| Failed { deed: deed.to_string(), error };
        let began = self.clock.now().map_err(|error| failed(error, &deed))?;
        call(&self.root).map_err(|error| failed(error, &deed))?;
        let ended = self.clock.now().map_err(|error| failed(error, &deed))?;
        deed.apply(&mut self.names);
        self.history.operations.push(Operation { deed, began, ended });
        Ok(())
    }

    fn create_as(&mut self, name: &str) -> Result<FileId, Failed> {
        let file = self.next_file;
        self.next_file += 1;
        let deed = Deed::Create { name: name.to_owned(), file, inode: 0 };
        let mut found = 0;
        self.act(deed, |root| {
            let made = OpenOptions::new().write(true).create_new(true).open(root.join(name))?;
            found = made.metadata()?.ino();
            Ok(())
        })?;
        if let Some(Deed::Create { inode, .. }) =
            self.history.operations.last_mut().map(|operation| &mut operation.deed)
        {
            *inode = found;
        }
        self.sizes.push((file, 0));
        Ok(file)
    }

    fn write(&mut self, name: &str, file: FileId, offset: u64, length: u64) -> Result<(), Failed> {
        let operation = self.history.operations.len() as u32 + 1;
        let bytes = content::bytes(self.seed, file, operation, offset, length);
        self.act(Deed::Write { file, offset, length }, |root| {
            OpenOptions::new().write(true).open(root.join(name))?.write_all_at(&bytes, offset)
        })?;
        let size = self.size(file).max(offset + length);
        self.set_size(file, size);
        Ok(())
    }

    fn fsync(&mut self, name: &str, file: FileId, data_only: bool) -> Result<(), Failed> {
        self.act(Deed::Fsync { file, data_only }, |root| {
            let opened = OpenOptions::new().write(true).open(root.join(name))?;
            if data_only { opened.sync_data() } else { opened.sync_all() }
        })
    }

    fn fsync_directory(&mut self, directory: &str) -> Result<(), Failed> {
        let deed = Deed::SyncDirectory { directory: directory.to_owned() };
        self.act(deed, |root| File::open(root.join(directory))?.sync_all())
    }

    fn rename_to(&mut self, from: &str, to: &str) -> Result<(), Failed> {
        let deed = Deed::Rename { from: from.to_owned(), to: to.to_owned() };
        self.act(deed, |root| fs::rename(root.join(from), root.join(to)))
    }

    fn create(&mut self) -> Result<(), Failed> {
        let Some(name) = self.free_name() else { return self.unlink() };
        let file = self.create_as(&name)?;
        let length = self.length();
        self.write(&name, file, 0, length)?;
        if self.below(4) == 0 {
            self.fsync(&name, file, false)?;
            if self.below(2) == 0 {
                return self.fsync_directory(directory_of(&name));
            }
        }
        Ok(())
    }

    fn append(&mut self) -> Result<(), Failed> {
        let Some((name, file)) = self.taken_name() else { return self.create() };
        self.append_to(&name, file)
    }

    fn append_to(&mut self, name: &str, file: FileId) -> Result<(), Failed> {
        let (size, length) = (self.size(file), self.length());
        if size + length > MOST_BYTES {
            return self.truncate();
        }
        self.write(name, file, size, length)
    }

    fn overwrite(&mut self) -> Result<(), Failed> {
        let Some((name, file)) = self.taken_name() else { return self.create() };
        if self.size(file) < RECORD { self.append() } else { self.overwrite_in(&name, file) }
    }

    fn overwrite_in(&mut self, name: &str, file: FileId) -> Result<(), Failed> {
        let records = self.size(file) / RECORD;
        if records == 0 {
            return self.append_to(name, file);
        }
        let offset = self.below(records) * RECORD;
        let length = self.length().min(MOST_BYTES - offset);
        self.write(name, file, offset, length)
    }

    fn truncate(&mut self) -> Result<(), Failed> {
        let Some((name, file)) = self.taken_name() else { return self.create() };
        let size = self.below(self.size(file) / RECORD + 1) * RECORD;
        self.act(Deed::Truncate { file, size }, |root| {
            OpenOptions::new().write(true).open(root.join(&name))?.set_len(size)
        })?;
        self.set_size(file, size);
        Ok(())
    }

    fn sync_file(&mut self) -> Result<(), Failed> {
        let Some((name, file)) = self.taken_name() else { return self.create() };
        let data_only = self.below(3) == 0;
        self.fsync(&name, file, data_only)
    }

    /// The way in which programs save: a new file, then its name.
    fn replace(&mut self) -> Result<(), Failed> {
        let (Some(new), Some((old, _))) = (self.free_name(), self.taken_name()) else {
            return self.create();
        };
        let file = self.create_as(&new)?;
        let length = self.length();
        self.write(&new, file, 0, length)?;
        let (is_careful, is_sure) = (self.below(2) == 0, self.below(2) == 0);
        if is_careful {
            self.fsync(&new, file, false)?;
        }
        self.rename_to(&new, &old)?;
        if is_sure {
            self.fsync_directory(directory_of(&old))?;
        }
        Ok(())
    }

    fn rename(&mut self) -> Result<(), Failed> {
        let Some((from, file)) = self.taken_name() else { return self.create() };
        let to = match self.taken_name() {
            // Renaming to another name of the same file does nothing.
            Some((to, other)) if other != file && self.below(2) == 0 => Some(to),
            _ => self.free_name(),
        };
        let Some(to) = to else { return self.unlink() };
        self.rename_to(&from, &to)?;
        if self.below(3) == 0 { self.fsync(&to, file, false) } else { Ok(()) }
    }

    fn link(&mut self) -> Result<(), Failed> {
        let (Some((from, _)), Some(to)) = (self.taken_name(), self.free_name()) else {
            return self.unlink();
        };
        let deed = Deed::Link { from: from.clone(), to: to.clone() };
        self.act(deed, |root| fs::hard_link(root.join(&from), root.join(&to)))
    }

    fn unlink(&mut self) -> Result<(), Failed> {
        let Some((name, _)) = self.taken_name() else { return self.create() };
        self.unlink_name(&name)
    }

    fn unlink_name(&mut self, name: &str) -> Result<(), Failed> {
        let deed = Deed::Unlink { name: name.to_owned() };
        self.act(deed, |root| fs::remove_file(root.join(name)))
    }

    fn sync_directory(&mut self) -> Result<(), Failed> {
        let index = self.below(2) as usize;
        let directory = self.history.directories[index].clone();
        self.fsync_directory(&directory)
    }

    fn sync(&mut self) -> Result<(), Failed> {
        self.act(Deed::Sync, |root| rustix::fs::syncfs(File::open(root)?).map_err(io::Error::from))
    }
}
