//! The loops of the workload `small-files`: create, stat, read and delete many files of one size.
//! What they mean and how they are divided into phases is in [`crate::catalog::small_files`].

use std::ffi::CStr;
use std::ops::Range;

use fsdyno_sys::calls::{Calls, CreateFlags};
use fsdyno_sys::{Errno, SysError};

use crate::contents::PayloadBuffer;
use crate::failure::name_failed;
use crate::payload::{content_key, name_hash};
use crate::recorder::{Operation, Recorder};

/// Names of all files, prepared before anything is measured: 10 bytes a file, or 17 where there are
/// several directories.
#[derive(Debug)]
pub struct FileNames {
    arena: Vec<u8>,
    stride: usize,
    file_count: u64,
    directory_count: u64,
}

impl FileNames {
    /// Names of `file_count` files, spread evenly over `directory_count` directories; with one
    /// directory that is the root itself.
    #[must_use]
    pub fn new(file_count: u64, directory_count: u64) -> FileNames {
        let directory_count = directory_count.clamp(1, file_count.max(1));
        let stride = if directory_count == 1 { 10 } else { 17 };
        let mut names = FileNames {
            arena: Vec::with_capacity(file_count as usize * stride),
            stride,
            file_count,
            directory_count,
        };
        for index in 0..file_count {
            if directory_count > 1 {
                names.arena.push(b'd');
                let directory = names.directory_of(index);
                push_decimal(&mut names.arena, directory, 5);
                names.arena.push(b'/');
            }
            names.arena.push(b'f');
            push_decimal(&mut names.arena, index, 8);
            names.arena.push(0);
        }
        names
    }

    /// Number of files.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.file_count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.file_count == 0
    }

    fn directory_of(&self, index: u64) -> u64 {
        // Neighbours share a directory, as files that are made together do.
        index * self.directory_count / self.file_count
    }

    /// Name of the file `index` below the root.
    #[inline(always)]
    #[must_use]
    pub fn file(&self, index: u64) -> &CStr {
        let start = index as usize * self.stride;
        CStr::from_bytes_with_nul(&self.arena[start..start + self.stride])
            .expect("every name ends with the only NUL byte in it")
    }

    /// Names of the directories to be made first; none where the root itself is used.
    pub fn directories(&self) -> impl Iterator<Item = String> + use<> {
        let count = if self.directory_count == 1 { 0 } else { self.directory_count };
        (0..count).map(|directory| format!("d{directory:05}"))
    }
}

fn push_decimal(arena: &mut Vec<u8>, number: u64, digits: u32) {
    for digit in (0..digits).rev() {
        arena.push(b'0' + (number / 10u64.pow(digit) % 10) as u8);
    }
}

/// The key of the contents of the file `index`.
#[inline(always)]
#[must_use]
pub fn file_key(index: u64) -> u64 {
    const OWNER: u64 = name_hash(b"small-files");
    content_key(OWNER, index, 0)
}

/// The files of one workload and how they are called on.
#[derive(Debug)]
pub struct Loops<'a, C: Calls> {
    /// Real calls, or null ones.
    pub calls: &'a C,
    /// The directory that names are relative to.
    pub root: &'a C::Fd,
    /// Names of the files.
    pub names: &'a FileNames,
    /// Size of each file.
    pub size_bytes: u64,
}

impl<C: Calls> Loops<'_, C> {
    /// Makes the files and writes `size_bytes` into each.
    ///
    /// # Errors
    /// The call that failed first, with the name of its file.
    #[inline]
    pub fn create(
        &self,
        files: Range<u64>,
        buffer: &mut PayloadBuffer,
        recorder: &mut Recorder,
    ) -> Result<(), SysError> {
        let Loops { calls, root, names, size_bytes } = *self;
        for index in files {
            let content = (file_key(index), size_bytes);
            create_one(calls, (root, "", names.file(index)), content, buffer, recorder)?;
        }
        Ok(())
    }

    /// Asks for the attributes of the files.
    ///
    /// # Errors
    /// The call that failed first, with the name of its file.
    #[inline]
    pub fn stat(&self, files: Range<u64>, recorder: &mut Recorder) -> Result<(), SysError> {
        let Loops { calls, root, names, .. } = *self;
        for index in files {
            let name = names.file(index);
            calls.stat(root, name).map_err(|errno| name_failed("stat", "", name, errno))?;
            recorder.end(Operation::Stat);
            recorder.files += 1;
        }
        Ok(())
    }

    /// Reads the files until their end.
    ///
    /// # Errors
    /// The call that failed first, with the name of its file; `EIO` for a file of another size.
    #[inline]
    pub fn read(
        &self,
        files: Range<u64>,
        buffer: &mut [u8],
        recorder: &mut Recorder,
    ) -> Result<(), SysError> {
        let Loops { calls, root, names, size_bytes } = *self;
        for index in files {
            let name = names.file(index);
            let failed = |call| move |errno: Errno| name_failed(call, "", name, errno);
            let file = calls.open_read(root, name).map_err(failed("open"))?;
            recorder.end(Operation::Open);
            let mut total = 0;
            loop {
                let count = calls.read(&file, buffer).map_err(failed("read"))?;
                recorder.end(Operation::Read);
                total += count as u64;
                if count == 0 {
                    break;
                }
            }
            calls.close(file).map_err(failed("close"))?;
            recorder.end(Operation::Close);
            if total != size_bytes {
                return Err(failed("read")(Errno::IO)
                    .with_detail(format!("the file holds {total} bytes instead of {size_bytes}")));
            }
            recorder.bytes += total;
            recorder.read_bytes += total;
            recorder.files += 1;
        }
        Ok(())
    }

    /// Removes the files.
    ///
    /// # Errors
    /// The call that failed first, with the name of its file.
    #[inline]
    pub fn delete(&self, files: Range<u64>, recorder: &mut Recorder) -> Result<(), SysError> {
        let Loops { calls, root, names, .. } = *self;
        for index in files {
            let name = names.file(index);
            calls.unlink(root, name).map_err(|errno| name_failed("unlink", "", name, errno))?;
            recorder.end(Operation::Unlink);
            recorder.files += 1;
        }
        Ok(())
    }
}

/// Makes one file, which must not exist, writes its contents (their key and their size in bytes) and
/// closes it. `place` is the open directory, its path for errors (empty: the root), and the file's name.
///
/// # Errors
/// The call that failed, with the name of the file.
#[inline(always)]
pub fn create_one<C: Calls>(
    calls: &C,
    place: (&C::Fd, &str, &CStr),
    content: (u64, u64),
    buffer: &mut PayloadBuffer,
    recorder: &mut Recorder,
) -> Result<(), SysError> {
    let ((directory, owner, name), (content_key, size_bytes)) = (place, content);
    let failed = |call| move |errno: Errno| name_failed(call, owner, name, errno);
    let file = calls.create(directory, name, CreateFlags::EXCLUSIVE).map_err(failed("create"))?;
    recorder.end(Operation::Create);
    let mut offset = 0;
    while offset < size_bytes {
        let count = buffer.size_bytes().min(size_bytes - offset);
        let is_constant = buffer.is_constant();
        let bytes = buffer.bytes(content_key, offset, count);
        if !is_constant {
            recorder.begin();
        }
        calls.write_all(&file, bytes).map_err(failed("write"))?;
        recorder.end(Operation::Write);
        offset += count;
    }
    calls.close(file).map_err(failed("close"))?;
    recorder.end(Operation::Close);
    recorder.bytes += size_bytes;
    recorder.files += 1;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_short_and_below_their_directory() {
        for (files, directories) in [(1, 1), (1000, 1), (1000, 7), (10, 100), (99_999, 300)] {
            let names = FileNames::new(files, directories);
            let made: Vec<String> = names.directories().collect();
            let mut seen = std::collections::HashSet::new();
            for index in 0..names.len() {
                let name = names.file(index).to_str().unwrap();
                assert!(seen.insert(name.to_owned()), "{name} occurs twice");
                match name.split_once('/') {
                    Some((directory, _)) => assert!(made.iter().any(|made| made == directory)),
                    None => assert!(made.is_empty()),
                }
            }
            assert!(names.arena.len() as u64 <= 17 * files);
        }
    }
}
