//! Names of files, made from the index of the file when they are needed and read back into it, so that
//! no name is ever kept. Names of directories are here too.

use std::ffi::{CStr, CString};
use std::ops::Range;

/// Most files: indices have this many digits in a name, and fit into 32 bits.
pub const MAX_FILES: u64 = 99_999_999;
const DIGITS: usize = 8;

/// Name of one file, `f00000042`, on the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileName([u8; DIGITS + 2]);

impl FileName {
    /// The name of the file `index`, at most [`MAX_FILES`].
    #[inline(always)]
    #[must_use]
    pub fn new(index: u32) -> FileName {
        let mut bytes = *b"f00000000\0";
        let mut rest = index;
        for digit in bytes[1..=DIGITS].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        FileName(bytes)
    }

    /// The name as the kernel takes it.
    #[inline(always)]
    #[must_use]
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.0).expect("every name ends with the only NUL byte in it")
    }

    /// The index that `name` was made from; `None` for any other name.
    #[inline(always)]
    #[must_use]
    pub fn parse(name: &CStr) -> Option<u32> {
        let [b'f', digits @ ..] = name.to_bytes() else { return None };
        if digits.len() != DIGITS {
            return None;
        }
        digits.iter().try_fold(0, |index: u32, digit| {
            digit.is_ascii_digit().then(|| index * 10 + u32::from(digit - b'0'))
        })
    }
}

/// One job's directory and the files in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Name of the directory below the root; empty where it is the root itself.
    pub directory: String,
    /// The same as the kernel takes it.
    pub path: CString,
    /// Indices of its files.
    pub files: Range<u32>,
}

impl Share {
    /// Divides `file_count` files evenly among `job_count` directories; one job works in the root.
    #[must_use]
    pub fn divide(file_count: u64, job_count: u64) -> Vec<Share> {
        let start_of = |job: u64| (job * file_count / job_count) as u32;
        let share = |job: u64| {
            let directory = if job_count == 1 { String::new() } else { format!("d{job:05}") };
            let path = if job_count == 1 { "." } else { directory.as_str() };
            let path = CString::new(path).expect("a letter and digits hold no NUL byte");
            Share { directory, path, files: start_of(job)..start_of(job + 1) }
        };
        (0..job_count).map(share).collect()
    }

    /// Number of its files.
    #[must_use]
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// Path of the directory for messages.
    #[must_use]
    pub fn shown(&self) -> &str {
        if self.directory.is_empty() { "." } else { &self.directory }
    }

    /// Path of the file `index` below the root.
    #[must_use]
    pub fn path_of(&self, index: u32) -> String {
        let name = FileName::new(index);
        let name = name.as_c_str().to_string_lossy();
        if self.directory.is_empty() {
            name.into_owned()
        } else {
            format!("{}/{name}", self.directory)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for index in (0..MAX_FILES as u32).step_by(99_991).chain([1, 9, 10, MAX_FILES as u32]) {
            let name = FileName::new(index);
            assert_eq!(name.as_c_str().to_str().unwrap(), format!("f{index:08}"));
            assert_eq!(FileName::parse(name.as_c_str()), Some(index));
        }
        for foreign in [
            c"",
            c"f",
            c"f0000001",
            c"f000000001",
            c"F00000001",
            c"f0000000x",
            c"f-0000001",
            c"lost+found",
        ] {
            assert_eq!(FileName::parse(foreign), None, "{foreign:?}");
        }
    }

    #[test]
    fn shares_hold_every_file_once() {
        for (files, jobs) in [(1, 1), (10, 3), (1_000_000, 7), (MAX_FILES, 1024)] {
            let shares = Share::divide(files, jobs);
            assert_eq!(shares.len() as u64, jobs);
            assert_eq!(
                (shares[0].files.start, u64::from(shares[shares.len() - 1].files.end)),
                (0, files)
            );
            assert!(shares.windows(2).all(|pair| pair[0].files.end == pair[1].files.start));
            let counts: Vec<usize> = shares.iter().map(Share::file_count).collect();
            assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
        }
        assert_eq!(Share::divide(10, 1)[0].path_of(3), "f00000003");
        assert_eq!(Share::divide(10, 2)[1].path_of(7), "d00001/f00000007");
    }
}
