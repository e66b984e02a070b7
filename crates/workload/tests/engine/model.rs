//! A filesystem in memory, as simple as can be: what calls do to names, sizes, contents and numbers of
//! links. Can be told to stand still for a while, or to fail.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use fsdyno_sys::Errno;
use fsdyno_sys::calls::more::MoreCalls;
use fsdyno_sys::calls::{CallResult, Calls, CreateFlags, FileFacts, FileKind, OpenFlags};

use crate::tree::{Node, Tree, hash};

#[derive(Debug, Clone)]
enum Thing {
    File(Vec<u8>),
    Directory,
    Symlink(Vec<u8>),
}

#[derive(Debug, Default)]
struct State {
    /// Numbers of things by path; the root is "".
    names: BTreeMap<String, u64>,
    things: BTreeMap<u64, Thing>,
    last: u64,
}

/// The filesystem.
#[derive(Debug, Default)]
pub struct Model {
    state: Mutex<State>,
    stats: AtomicU64,
    /// Stands still for the time when `stat` is called this often.
    stall: Option<(u64, Duration)>,
    /// Has no room from this number of things on.
    room: Option<u64>,
}

/// An open file or directory.
#[derive(Debug)]
pub struct Handle {
    path: String,
    number: u64,
}

impl Model {
    /// One whose `stat` number `at` takes `time`.
    pub fn stalling(at: u64, time: Duration) -> Model {
        Model { stall: Some((at, time)), ..Model::default() }
    }

    /// One that takes so many things.
    pub fn with_room(room: u64) -> Model {
        Model { room: Some(room), ..Model::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn tree(&self) -> Tree {
        let state = self.lock();
        let node = |number: &u64| {
            let links = state.names.values().filter(|other| *other == number).count() as u64;
            match &state.things[number] {
                Thing::File(bytes) => {
                    Node { kind: 'f', size: bytes.len() as u64, links, hash: hash(bytes) }
                }
                Thing::Directory => Node { kind: 'd', size: 0, links: 1, hash: 0 },
                Thing::Symlink(target) => Node { kind: 'l', size: 0, links: 1, hash: hash(target) },
            }
        };
        let named = state.names.iter().filter(|(name, _)| !name.is_empty());
        named.map(|(name, number)| (name.clone(), node(number))).collect()
    }

    fn with_file<T>(&self, fd: &Handle, work: impl FnOnce(&mut Vec<u8>) -> T) -> CallResult<T> {
        match self.lock().things.get_mut(&fd.number) {
            Some(Thing::File(bytes)) => Ok(work(bytes)),
            _ => Err(Errno::BADF),
        }
    }

    fn write(&self, fd: &Handle, bytes: &[u8], offset: u64) -> CallResult<()> {
        self.with_file(fd, |content| {
            let end = offset as usize + bytes.len();
            if content.len() < end {
                content.resize(end, 0);
            }
            content[offset as usize..end].copy_from_slice(bytes);
        })
    }

    fn make(&self, dir: &Handle, name: &CStr, thing: Thing) -> CallResult<Handle> {
        let mut state = self.lock();
        let path = join(dir, name);
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let parent = state.names.get(parent).and_then(|number| state.things.get(number));
        if !matches!(parent, Some(Thing::Directory)) {
            return Err(Errno::NOENT);
        }
        if state.names.contains_key(&path) {
            return Err(Errno::EXIST);
        }
        if self.room.is_some_and(|room| state.last >= room) {
            return Err(Errno::NOSPC);
        }
        state.last += 1;
        let number = state.last;
        state.things.insert(number, thing);
        state.names.insert(path.clone(), number);
        Ok(Handle { path, number })
    }

    fn find(&self, dir: &Handle, name: &CStr) -> CallResult<Handle> {
        let path = if name == c"." { dir.path.clone() } else { join(dir, name) };
        let number = *self.lock().names.get(&path).ok_or(Errno::NOENT)?;
        Ok(Handle { path, number })
    }

    fn facts(&self, number: u64) -> FileFacts {
        let (size, kind) = match &self.lock().things[&number] {
            Thing::File(bytes) => (bytes.len() as u64, FileKind::File),
            Thing::Directory => (0, FileKind::Directory),
            Thing::Symlink(_) => (0, FileKind::Symlink),
        };
        FileFacts { size, kind, ino: number }
    }

    fn remove(&self, dir: &Handle, name: &CStr, directory: bool) -> CallResult<()> {
        let found = self.find(dir, name)?;
        let mut state = self.lock();
        let is_directory = matches!(state.things[&found.number], Thing::Directory);
        if is_directory != directory {
            return Err(if directory { Errno::NOTDIR } else { Errno::ISDIR });
        }
        let below = format!("{}/", found.path);
        if state.names.keys().any(|path| path.starts_with(&below)) {
            return Err(Errno::NOTEMPTY);
        }
        state.names.remove(&found.path);
        Ok(())
    }
}

fn join(dir: &Handle, name: &CStr) -> String {
    let name = name.to_str().unwrap();
    if dir.path.is_empty() { name.to_owned() } else { format!("{}/{name}", dir.path) }
}

impl Calls for Model {
    type Fd = Handle;

    fn open_root(&self, _: &Path) -> CallResult<Handle> {
        let mut state = self.lock();
        state.things.insert(0, Thing::Directory);
        state.names.insert(String::new(), 0);
        Ok(Handle { path: String::new(), number: 0 })
    }
    fn open_dir(&self, dir: &Handle, name: &CStr) -> CallResult<Handle> {
        let found = self.find(dir, name)?;
        let is_directory = self.facts(found.number).kind == FileKind::Directory;
        if is_directory { Ok(found) } else { Err(Errno::NOTDIR) }
    }
    fn open_read(&self, dir: &Handle, name: &CStr) -> CallResult<Handle> {
        self.open_with(dir, name, OpenFlags::READ)
    }
    fn create(&self, _: &Handle, _: &CStr, _: CreateFlags) -> CallResult<Handle> {
        Err(Errno::NOSYS)
    }
    fn open_with(&self, dir: &Handle, name: &CStr, flags: OpenFlags) -> CallResult<Handle> {
        if flags.create {
            assert!(flags.exclusive);
            return self.make(dir, name, Thing::File(Vec::new()));
        }
        self.find(dir, name)
    }
    fn write_all(&self, _: &Handle, _: &[u8]) -> CallResult<()> {
        Err(Errno::NOSYS)
    }
    fn write_all_at(&self, fd: &Handle, bytes: &[u8], offset_bytes: u64) -> CallResult<()> {
        self.write(fd, bytes, offset_bytes)
    }
    fn read(&self, _: &Handle, _: &mut [u8]) -> CallResult<usize> {
        Err(Errno::NOSYS)
    }
    fn read_at(&self, fd: &Handle, buffer: &mut [u8], offset_bytes: u64) -> CallResult<usize> {
        self.with_file(fd, |content| {
            let rest = content.get(offset_bytes as usize..).unwrap_or_default();
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            count
        })
    }
    fn seek(&self, _: &Handle, _: u64) -> CallResult<()> {
        Err(Errno::NOSYS)
    }
    fn readahead(&self, _: &Handle, _: u64, _: usize) -> CallResult<()> {
        Ok(())
    }
    fn close(&self, _: Handle) -> CallResult<()> {
        Ok(())
    }
    fn unlink(&self, dir: &Handle, name: &CStr) -> CallResult<()> {
        self.remove(dir, name, false)
    }
    fn rmdir(&self, dir: &Handle, name: &CStr) -> CallResult<()> {
        self.remove(dir, name, true)
    }
    fn rename(&self, old_dir: &Handle, old: &CStr, new_dir: &Handle, new: &CStr) -> CallResult<()> {
        let found = self.find(old_dir, old)?;
        let mut state = self.lock();
        state.names.remove(&found.path);
        state.names.insert(join(new_dir, new), found.number);
        Ok(())
    }
    fn link(&self, old_dir: &Handle, old: &CStr, new_dir: &Handle, new: &CStr) -> CallResult<()> {
        let found = self.find(old_dir, old)?;
        let before = self.lock().names.insert(join(new_dir, new), found.number);
        if before.is_some() { Err(Errno::EXIST) } else { Ok(()) }
    }
    fn symlink(&self, target: &CStr, dir: &Handle, name: &CStr) -> CallResult<()> {
        self.make(dir, name, Thing::Symlink(target.to_bytes().to_vec())).map(drop)
    }
    fn mkdir(&self, dir: &Handle, name: &CStr) -> CallResult<()> {
        self.make(dir, name, Thing::Directory).map(drop)
    }
    fn stat(&self, dir: &Handle, name: &CStr) -> CallResult<FileFacts> {
        let count = self.stats.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some((at, time)) = self.stall
            && count == at
        {
            std::thread::sleep(time);
        }
        self.find(dir, name).map(|found| self.facts(found.number))
    }
    fn stat_open(&self, fd: &Handle) -> CallResult<FileFacts> {
        Ok(self.facts(fd.number))
    }
    fn truncate(&self, fd: &Handle, size_bytes: u64) -> CallResult<()> {
        self.with_file(fd, |content| content.resize(size_bytes as usize, 0))
    }
    fn fsync(&self, _: &Handle) -> CallResult<()> {
        Ok(())
    }
    fn fdatasync(&self, _: &Handle) -> CallResult<()> {
        Ok(())
    }
    fn syncfs(&self, _: &Handle) -> CallResult<()> {
        Ok(())
    }
    fn list<F>(&self, dir: &Handle, _: &mut [MaybeUninit<u8>], mut visit: F) -> CallResult<()>
    where
        F: FnMut(&CStr, FileKind, u64),
    {
        let below = format!("{}/", dir.path);
        for (path, number) in &self.lock().names {
            if path.strip_prefix(&below).is_some_and(|rest| !rest.contains('/')) {
                visit(c"name", FileKind::Unknown, *number);
            }
        }
        Ok(())
    }
}

impl MoreCalls for Model {
    fn duplicate(&self, _: &Self::Fd) -> CallResult<Option<std::os::fd::OwnedFd>> {
        Ok(None)
    }

    fn sync_file_range(&self, _: &Handle, _: u64, _: u64) -> CallResult<()> {
        Ok(())
    }
    fn fallocate(&self, fd: &Handle, offset_bytes: u64, count_bytes: u64) -> CallResult<()> {
        let end = (offset_bytes + count_bytes) as usize;
        self.with_file(fd, |content| content.resize(content.len().max(end), 0))
    }
    fn punch(&self, fd: &Handle, offset_bytes: u64, count_bytes: u64) -> CallResult<()> {
        self.with_file(fd, |content| {
            let end = ((offset_bytes + count_bytes) as usize).min(content.len());
            if let Some(hole) = content.get_mut(offset_bytes as usize..end) {
                hole.fill(0);
            }
        })
    }
    fn mmap_read(&self, fd: &Handle, buffer: &mut [u8], offset_bytes: u64) -> CallResult<()> {
        let count = self.read_at(fd, buffer, offset_bytes)?;
        assert_eq!(count, buffer.len(), "beyond the end of a mapping");
        Ok(())
    }
    fn mmap_write(&self, fd: &Handle, bytes: &[u8], offset_bytes: u64) -> CallResult<()> {
        let size = self.with_file(fd, |content| content.len())?;
        assert!(offset_bytes as usize + bytes.len() <= size, "beyond the end of a mapping");
        self.write(fd, bytes, offset_bytes)
    }
    fn copy_file_range(
        &self,
        from: &Handle,
        to: &Handle,
        offset_bytes: u64,
        count_bytes: usize,
    ) -> CallResult<usize> {
        let mut bytes =
            self.with_file(from, |content| content[offset_bytes as usize..].to_vec())?;
        bytes.truncate(count_bytes);
        self.write(to, &bytes, offset_bytes)?;
        Ok(bytes.len())
    }
    fn reflink(&self, _: &Handle, _: &Handle) -> CallResult<()> {
        Err(Errno::OPNOTSUPP)
    }
    fn set_xattr(&self, _: &Handle, _: &CStr, _: &[u8]) -> CallResult<()> {
        Ok(())
    }
    fn get_xattr(&self, _: &Handle, _: &CStr, _: &mut [u8]) -> CallResult<usize> {
        Err(Errno::NODATA)
    }
    fn lock(&self, _: &Handle) -> CallResult<()> {
        Ok(())
    }
    fn unlock(&self, _: &Handle) -> CallResult<()> {
        Ok(())
    }
    fn statfs(&self, _: &Handle) -> CallResult<()> {
        Ok(())
    }
}
