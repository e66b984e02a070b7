//! The files of one directory in the order in which they are to be worked on. Kept are an index and a key
//! for each file, 12 bytes; names are made again from the index. What is done with the files is left to
//! [`super::visit`].

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use fsdyno_sys::calls::{Calls, DirReader, Real};
use fsdyno_sys::{Errno, SysError};

use super::name::{FileName, Share};
use super::place::{FirstExtent, Mapper};
use crate::failure::{call_failed, check_interrupt, name_failed};
use crate::recorder::{Operation, Recorder};

/// Entries between two looks at whether to stop.
const PATIENCE: usize = 4096;
/// Keys from here on are places on the device, below it are inode numbers.
const PLACED: u64 = 1 << 63;

/// One file, 12 bytes: what it is sorted by, and which one it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, packed(4))]
pub struct Entry {
    /// What it is sorted by: its inode number until [`Order::sort_by_place`].
    pub key: u64,
    /// Its index.
    pub index: u32,
}

/// Files in an order.
#[derive(Debug)]
pub struct Order {
    entries: Vec<Entry>,
}

/// Lists `directory`, which must hold the files of `share` and nothing else, and calls `visit` with the
/// index and the inode number of each.
///
/// # Errors
/// The call that failed; a name that is not one of the files; another number of files.
pub fn list_files(
    directory: &OwnedFd,
    share: &Share,
    buffer: &mut [MaybeUninit<u8>],
    mut visit: impl FnMut(u32, u64),
) -> anyhow::Result<()> {
    let failed = |errno| call_failed("getdents64", share.shown(), errno);
    let mut reader = DirReader::new(directory.as_fd(), buffer);
    let mut count = 0;
    while let Some(entry) = reader.next_entry().map_err(failed)? {
        if entry.is_dot() {
            continue;
        }
        let index = FileName::parse(entry.name()).filter(|index| share.files.contains(index));
        let Some(index) = index else {
            return Err(foreign(share, &entry.name().to_string_lossy()).into());
        };
        count += 1;
        // More entries than files: one name occurs twice. The memory of the caller stays bounded.
        if count > share.file_count() {
            break;
        }
        visit(index, entry.ino());
        if count % PATIENCE == 0 {
            check_interrupt()?;
        }
    }
    if count != share.file_count() {
        let (found, expected) = (count, share.file_count());
        let more = if found > expected { "more than " } else { "" };
        let found = found.min(expected);
        return Err(SysError::new("getdents64", share.shown(), Errno::IO)
            .with_detail(format!(
                "the directory lists {more}{found} files, {expected} were made in it"
            ))
            .into());
    }
    Ok(())
}

#[cold]
fn foreign(share: &Share, name: &str) -> SysError {
    let path = if share.directory.is_empty() {
        name.to_owned()
    } else {
        format!("{}/{name}", share.directory)
    };
    SysError::new("getdents64", path, Errno::EXIST).with_detail(
        "this file was not made by the workload: let nothing else write into its directory",
    )
}

impl Order {
    /// The files of `share` in readdir order, keyed by inode number. Counts one [`Operation::List`]: the
    /// directory is opened, read to its end and closed.
    ///
    /// # Errors
    /// As [`list_files`].
    pub fn list(root: &OwnedFd, share: &Share, recorder: &mut Recorder) -> anyhow::Result<Order> {
        let mut buffer = fsdyno_sys::calls::dir_buffer();
        let mut entries = Vec::with_capacity(share.file_count());
        recorder.begin();
        let failed = |call| move |errno| call_failed(call, share.shown(), errno);
        let directory = Real.open_dir(root, &share.path).map_err(failed("open"))?;
        list_files(&directory, share, &mut buffer, |index, ino| {
            entries.push(Entry { key: ino, index });
        })?;
        Real.close(directory).map_err(failed("close"))?;
        recorder.end(Operation::List);
        Ok(Order { entries })
    }

    /// The files, in this order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Ascending by key: by inode number.
    pub fn sort(&mut self) {
        self.entries.sort_unstable_by_key(|entry| (entry.key, entry.index));
    }

    /// Ascending by the first extent on the device. Files that have none there come first, by inode
    /// number. Each file is opened, mapped and closed, in inode order.
    ///
    /// # Errors
    /// The call that failed first, with the name of its file.
    pub fn sort_by_place(
        &mut self,
        directory: &OwnedFd,
        share: &Share,
        mapper: &mut Mapper,
        recorder: &mut Recorder,
    ) -> anyhow::Result<()> {
        self.sort();
        recorder.begin();
        for chunk in self.entries.chunks_mut(PATIENCE) {
            check_interrupt()?;
            for entry in chunk {
                if !mapper.is_able() {
                    break;
                }
                let name = FileName::new(entry.index);
                let failed =
                    |call| move |errno| name_failed(call, &share.directory, name.as_c_str(), errno);
                let file = Real.open_read(directory, name.as_c_str()).map_err(failed("open"))?;
                recorder.end(Operation::Open);
                let first = mapper.first_extent(&file).map_err(failed("ioctl FS_IOC_FIEMAP"))?;
                recorder.end(Operation::Map);
                Real.close(file).map_err(failed("close"))?;
                recorder.end(Operation::Close);
                entry.key = sorting_key(first, entry.key);
            }
        }
        self.sort();
        recorder.begin();
        Ok(())
    }
}

/// Places sort after inode numbers, whatever these are.
fn sorting_key(first: FirstExtent, ino: u64) -> u64 {
    match first {
        FirstExtent::At { physical_bytes } => PLACED | physical_bytes,
        FirstExtent::Inline | FirstExtent::None => ino.min(PLACED - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::super::BYTES_PER_FILE;
    use super::*;

    #[test]
    fn an_order_is_small() {
        assert!(size_of::<Entry>() <= BYTES_PER_FILE);
        assert_eq!(size_of::<Entry>(), 12);
        let directory = tempfile::tempdir().unwrap();
        let share = &Share::divide(1000, 1)[0];
        for index in share.files.clone() {
            std::fs::write(directory.path().join(share.path_of(index)), "").unwrap();
        }
        let root = Real.open_root(directory.path()).unwrap();
        let order = Order::list(&root, share, &mut Recorder::new()).unwrap();
        assert!(order.entries.capacity() * size_of::<Entry>() <= 1000 * BYTES_PER_FILE);
    }

    #[test]
    fn files_without_a_place_come_first_by_inode() {
        let at = |physical_bytes| FirstExtent::At { physical_bytes };
        let mut order = Order {
            entries: (0..)
                .zip([
                    (at(4096), 10),
                    (FirstExtent::None, 30),
                    (at(0), 11),
                    (FirstExtent::Inline, 20),
                    (FirstExtent::None, u64::MAX),
                ])
                .map(|(index, (first, ino))| Entry { key: sorting_key(first, ino), index })
                .collect(),
        };
        order.sort();
        let indices: Vec<u32> = order.entries().iter().map(|entry| entry.index).collect();
        assert_eq!(indices, [3, 1, 4, 2, 0]);
    }
}
