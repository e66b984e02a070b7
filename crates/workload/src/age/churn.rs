//! Aging by churn: files are written until the filesystem is as full as wanted, then files chosen by
//! chance are deleted and others created in their place, until as many bytes were written as the age
//! says. What is drawn depends on the seed alone; the filesystem is only asked now and then how full it
//! is, since nobody else knows what its metadata take.
//!
//! Files lie two levels down, in `dXX/dXX` with as many directories in each as the fan-out says. A
//! share of the files grows by appended parts while others are written, and everything is synced every
//! 256th of the capacity, so that parts that belong together come to lie apart, as in a filesystem that
//! is used.

use std::collections::HashMap;
use std::ffi::CString;
use std::fmt::Arguments;
use std::io::Write as _;
use std::os::fd::OwnedFd;

use fsdyno_model::age::{AgeRecord, Churn};
use fsdyno_model::payload::Payload;
use fsdyno_sys::Errno;
use fsdyno_sys::calls::{CallResult, Calls as _, OpenFlags, Real};

use super::{Ground, sizes};
use crate::contents::PayloadBuffer;
use crate::context::Progress;
use crate::failure::{call_failed, check_interrupt};
use crate::payload::content_key;
use crate::rng::{Draw as _, Xoshiro};

/// Bytes per write.
const BUFFER_BYTES: usize = 256 << 10;
/// Unit in which files take room, as counted here.
const BLOCK_BYTES: u64 = 4096;
/// The largest file is this share of the capacity: less than the precision wanted of the utilisation.
const LARGEST_SHARE: u64 = 64;
/// Everything is synced whenever this share of the capacity was written.
const SYNC_SHARE: u64 = 256;
/// The filesystem is asked how full it is whenever this share of the capacity was written.
const LOOK_SHARE: u64 = 4;
/// How far the utilisation may be off, as a share of the capacity.
const TOLERANCE_SHARE: u64 = 128;
/// Corrections at one look, after which the filesystem is taken as it is.
const CORRECTIONS: u32 = 12;
/// Files that grow at the same time.
const GROWING: usize = 16;
/// Parts of a growing file, at most.
const PARTS_MAX: u64 = 8;
/// After being found full so often while it is filled, a filesystem is as full as it can be: it may have no
/// room for more inodes or metadata.
const FULL_ENOUGH: u64 = 4;
/// How often in a row a full filesystem is answered by deleting.
const FULL_MAX: u32 = 32;

/// A file that exists.
#[derive(Debug, Clone, Copy)]
struct Live {
    number: u64,
    leaf: u32,
    size_bytes: u64,
}

/// A file that is not as long yet as it is to become.
#[derive(Debug, Clone, Copy)]
struct Growing {
    number: u64,
    part_bytes: u64,
    left_bytes: u64,
}

struct Run<'a> {
    spec: &'a Churn,
    ground: &'a Ground<'a>,
    progress: &'a Progress,
    record: &'a mut AgeRecord,
    rng: Xoshiro,
    payload: PayloadBuffer,
    leaves: Vec<OwnedFd>,
    live: Vec<Live>,
    /// By number of a file: its place in `live`.
    places: HashMap<u64, usize>,
    growing: Vec<Growing>,
    next_number: u64,
    /// Room that all files take, as counted here.
    live_bytes: u64,
    /// What that is to be.
    goal_bytes: u64,
    largest_bytes: u64,
    unsynced_bytes: u64,
    unlooked_bytes: u64,
}

/// Does it in the directory of `ground`.
///
/// # Errors
/// The call that failed first, the request to stop, or a filesystem that does not become as full as
/// wanted.
pub(super) fn run(
    spec: &Churn,
    ground: &Ground<'_>,
    progress: &Progress,
    record: &mut AgeRecord,
) -> anyhow::Result<()> {
    let capacity = ground.capacity_bytes;
    let age_bytes = share(capacity, spec.age_percent);
    progress.set_total(age_bytes);
    let used = ground.used_bytes()?;
    let mut run = Run {
        spec,
        ground,
        progress,
        record,
        rng: Xoshiro::new(ground.seed),
        payload: PayloadBuffer::new(Payload::DEFAULT, ground.seed, BUFFER_BYTES),
        leaves: Vec::new(),
        live: Vec::new(),
        places: HashMap::new(),
        growing: Vec::new(),
        next_number: 0,
        live_bytes: 0,
        goal_bytes: share(capacity, spec.utilisation_percent).saturating_sub(used),
        largest_bytes: (capacity / LARGEST_SHARE).max(BLOCK_BYTES),
        unsynced_bytes: 0,
        unlooked_bytes: 0,
    };
    run.make_directories()?;
    run.fill()?;
    run.look()?;
    while run.record.written_bytes < age_bytes {
        let left_bytes = age_bytes - run.record.written_bytes;
        run.turn_over(left_bytes)?;
        if run.unlooked_bytes >= capacity / LOOK_SHARE {
            run.look()?;
        }
    }
    run.look()
}

fn share(capacity: u64, percent: u32) -> u64 {
    u64::try_from(u128::from(capacity) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

/// Room that a file of so many bytes takes, as counted here.
fn room(size_bytes: u64) -> u64 {
    size_bytes.next_multiple_of(BLOCK_BYTES)
}

fn file_name(number: u64) -> CString {
    name(format_args!("f{number:08x}"))
}

fn name(text: Arguments<'_>) -> CString {
    let mut bytes = Vec::with_capacity(16);
    bytes.write_fmt(text).expect("a vector takes all");
    CString::new(bytes).expect("it has letters and digits only")
}

impl Run<'_> {
    fn make_directories(&mut self) -> anyhow::Result<()> {
        for top in 0..self.spec.fanout {
            let top = name(format_args!("d{top:02}"));
            let opened = make_directory(self.ground.root, &top);
            let directory = opened.map_err(|errno| self.failed("mkdir", &top, errno))?;
            for leaf in 0..self.spec.fanout {
                let leaf = name(format_args!("d{leaf:02}"));
                let opened = make_directory(&directory, &leaf);
                self.leaves.push(opened.map_err(|errno| self.failed("mkdir", &leaf, errno))?);
            }
        }
        Ok(())
    }

    fn failed(&self, call: &'static str, name: &CString, errno: Errno) -> anyhow::Error {
        call_failed(call, format!("{}/{}", self.ground.path, name.to_string_lossy()), errno).into()
    }

    /// Writes files until they take as much room as they should.
    fn fill(&mut self) -> anyhow::Result<()> {
        let full_before = self.record.times_full;
        while self.live_bytes < self.goal_bytes {
            let left_bytes = self.goal_bytes - self.live_bytes;
            self.create(left_bytes)?;
            self.grow()?;
            if self.record.times_full - full_before >= FULL_ENOUGH {
                self.goal_bytes = self.live_bytes;
            }
        }
        Ok(())
    }

    /// Deletes files until there is room for another, then writes that, and a part of one that grows.
    fn turn_over(&mut self, left_bytes: u64) -> anyhow::Result<()> {
        let most = left_bytes.min(self.largest_bytes);
        let size_bytes = sizes::draw(self.spec.sizes, most, &mut self.rng);
        while self.live_bytes + room(size_bytes) > self.goal_bytes && !self.live.is_empty() {
            self.delete_one()?;
        }
        self.begin_file(size_bytes)?;
        self.grow()
    }

    fn create(&mut self, most_bytes: u64) -> anyhow::Result<()> {
        let most = most_bytes.clamp(1, self.largest_bytes);
        let size_bytes = sizes::draw(self.spec.sizes, most, &mut self.rng);
        self.begin_file(size_bytes)
    }

    /// Makes a file; one that grows gets its first part only.
    fn begin_file(&mut self, size_bytes: u64) -> anyhow::Result<()> {
        check_interrupt()?;
        let grows = self.rng.below(100) < u64::from(self.spec.appended_percent);
        let parts = if grows { self.rng.randint(2, PARTS_MAX) } else { 1 };
        let part_bytes = room(size_bytes.div_ceil(parts)).min(size_bytes);
        let leaf = self.rng.below(self.leaves.len() as u64) as u32;
        let number = self.next_number;
        self.next_number += 1;
        self.places.insert(number, self.live.len());
        self.live.push(Live { number, leaf, size_bytes: 0 });
        self.record.created_files += 1;
        self.append(number, part_bytes)?;
        let left_bytes = size_bytes - part_bytes;
        if left_bytes > 0 {
            if self.growing.len() == GROWING {
                let finished = self.rng.choice_index(GROWING);
                let finished = self.growing.swap_remove(finished);
                self.append(finished.number, finished.left_bytes)?;
            }
            self.growing.push(Growing { number, part_bytes, left_bytes });
        }
        Ok(())
    }

    /// Appends a part to one of the files that grow.
    fn grow(&mut self) -> anyhow::Result<()> {
        if self.growing.is_empty() {
            return Ok(());
        }
        let index = self.rng.choice_index(self.growing.len());
        let Growing { number, part_bytes, left_bytes } = self.growing[index];
        let bytes = part_bytes.min(left_bytes);
        if left_bytes == bytes {
            self.growing.swap_remove(index);
        } else {
            self.growing[index].left_bytes = left_bytes - bytes;
        }
        self.append(number, bytes)
    }

    /// Appends to the file `number`, which is made where it is not there; a full filesystem is answered by
    /// deleting files. Where that one goes too there is nothing left to append to.
    fn append(&mut self, number: u64, bytes: u64) -> anyhow::Result<()> {
        let mut left_bytes = bytes;
        let mut full = 0;
        while left_bytes > 0 {
            let Some(place) = self.places.get(&number).copied() else { return Ok(()) };
            let before = left_bytes;
            let written = self.write(self.live[place], &mut left_bytes);
            self.book(place, before - left_bytes)?;
            match written {
                Ok(()) => return Ok(()),
                Err(Errno::NOSPC) if full < FULL_MAX => full += 1,
                Err(errno) => return Err(self.failed("write", &file_name(number), errno)),
            }
            self.record.times_full += 1;
            self.make_room()?;
        }
        Ok(())
    }

    fn write(&mut self, file: Live, left_bytes: &mut u64) -> CallResult<()> {
        const APPEND: OpenFlags =
            OpenFlags { write: true, create: true, append: true, ..OpenFlags::NONE };
        let directory = &self.leaves[file.leaf as usize];
        let opened = Real.open_with(directory, &file_name(file.number), APPEND)?;
        let key = content_key(0, file.number, 1);
        let mut offset = file.size_bytes;
        while *left_bytes > 0 {
            let count = (*left_bytes).min(BUFFER_BYTES as u64);
            Real.write_all(&opened, self.payload.bytes(key, offset, count))?;
            offset += count;
            *left_bytes -= count;
        }
        Real.close(opened)
    }

    /// Counts what was written to the file at `place`.
    fn book(&mut self, place: usize, bytes: u64) -> anyhow::Result<()> {
        let file = &mut self.live[place];
        self.live_bytes += room(file.size_bytes + bytes) - room(file.size_bytes);
        file.size_bytes += bytes;
        self.record.written_bytes += bytes;
        self.progress.advance(bytes);
        self.unlooked_bytes += bytes;
        self.unsynced_bytes += bytes;
        if self.unsynced_bytes >= self.ground.capacity_bytes / SYNC_SHARE {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> anyhow::Result<()> {
        self.unsynced_bytes = 0;
        self.ground.sync()
    }

    /// Deletes what takes the room of the largest file, and has the filesystem give it back.
    fn make_room(&mut self) -> anyhow::Result<()> {
        let wanted = self.live_bytes.saturating_sub(self.largest_bytes);
        while self.live_bytes > wanted && !self.live.is_empty() {
            self.delete_one()?;
        }
        self.goal_bytes = self.goal_bytes.min(self.live_bytes);
        self.sync()
    }

    fn delete_one(&mut self) -> anyhow::Result<()> {
        check_interrupt()?;
        let place = self.rng.choice_index(self.live.len());
        let file = self.live.swap_remove(place);
        self.places.remove(&file.number);
        if let Some(moved) = self.live.get(place) {
            self.places.insert(moved.number, place);
        }
        self.growing.retain(|one| one.number != file.number);
        self.live_bytes -= room(file.size_bytes);
        let name = file_name(file.number);
        match Real.unlink(&self.leaves[file.leaf as usize], &name) {
            // It could not even be made.
            Err(Errno::NOENT) if file.size_bytes == 0 => Ok(()),
            other => other.map_err(|errno| self.failed("unlink", &name, errno)),
        }
    }

    /// Asks the filesystem how full it is, and writes or deletes until it is as full as wanted.
    fn look(&mut self) -> anyhow::Result<()> {
        let capacity = self.ground.capacity_bytes;
        let wanted = share(capacity, self.spec.utilisation_percent);
        // Room that is set aside in steps cannot be met more closely than a step.
        let step = (capacity / 512).max(BLOCK_BYTES);
        for _ in 0..CORRECTIONS {
            self.unlooked_bytes = 0;
            self.sync()?;
            let used = self.ground.used_bytes()?;
            if used.abs_diff(wanted) <= capacity / TOLERANCE_SHARE {
                return Ok(());
            }
            if used < wanted {
                self.goal_bytes = self.live_bytes + (wanted - used).next_multiple_of(step);
                let full_before = self.record.times_full;
                self.fill()?;
                if self.record.times_full > full_before {
                    return Ok(());
                }
            } else {
                let excess = (used - wanted).next_multiple_of(step);
                self.goal_bytes = self.live_bytes.saturating_sub(excess);
                while self.live_bytes > self.goal_bytes && !self.live.is_empty() {
                    self.delete_one()?;
                }
            }
        }
        Ok(())
    }
}

fn make_directory(parent: &OwnedFd, name: &CString) -> CallResult<OwnedFd> {
    Real.mkdir(parent, name)?;
    Real.open_dir(parent, name)
}
