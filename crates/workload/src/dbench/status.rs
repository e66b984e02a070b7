//! The NT status that a line of a load expects, and whether the result of a call is it. Which calls are
//! made is left to [`super::client`].

use std::fmt;

use fsdyno_sys::Errno;

/// What an operation is expected to end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Expected {
    /// Success.
    Success,
    /// Anything.
    Anything,
    /// Any error.
    Error,
    /// No such name, or no such directory on the way to it.
    NotFound,
    /// The name exists.
    Exists,
    /// Not permitted.
    Denied,
    /// The directory holds something.
    NotEmpty,
    /// A directory stands where a file should.
    IsDirectory,
    /// Something else stands where a directory should.
    NotDirectory,
    /// No bytes that far.
    EndOfFile,
    /// No space left.
    Full,
    /// Another one holds the lock.
    Locked,
}

/// Names and numbers, the first of each meaning being the one that is written.
const STATUSES: &[(&str, u32, Expected)] = &[
    ("NT_STATUS_OK", 0, Expected::Success),
    ("SUCCESS", 0, Expected::Success),
    ("ERROR", 0xC000_0001, Expected::Error),
    ("NT_STATUS_UNSUCCESSFUL", 0xC000_0001, Expected::Error),
    ("NT_STATUS_OBJECT_NAME_NOT_FOUND", 0xC000_0034, Expected::NotFound),
    ("NT_STATUS_OBJECT_PATH_NOT_FOUND", 0xC000_003A, Expected::NotFound),
    ("NT_STATUS_NO_SUCH_FILE", 0xC000_000F, Expected::NotFound),
    ("NT_STATUS_NO_MORE_FILES", 0x8000_0006, Expected::NotFound),
    ("NT_STATUS_OBJECT_NAME_COLLISION", 0xC000_0035, Expected::Exists),
    ("NT_STATUS_ACCESS_DENIED", 0xC000_0022, Expected::Denied),
    ("NT_STATUS_SHARING_VIOLATION", 0xC000_0043, Expected::Error),
    ("NT_STATUS_DIRECTORY_NOT_EMPTY", 0xC000_0101, Expected::NotEmpty),
    ("NT_STATUS_FILE_IS_A_DIRECTORY", 0xC000_00BA, Expected::IsDirectory),
    ("NT_STATUS_NOT_A_DIRECTORY", 0xC000_0103, Expected::NotDirectory),
    ("NT_STATUS_END_OF_FILE", 0xC000_0011, Expected::EndOfFile),
    ("NT_STATUS_DISK_FULL", 0xC000_007F, Expected::Full),
    ("NT_STATUS_FILE_LOCK_CONFLICT", 0xC000_0054, Expected::Locked),
    ("NT_STATUS_LOCK_NOT_GRANTED", 0xC000_0055, Expected::Locked),
    ("NT_STATUS_RANGE_NOT_LOCKED", 0xC000_007E, Expected::Error),
    ("NT_STATUS_INVALID_PARAMETER", 0xC000_000D, Expected::Error),
    ("NT_STATUS_INVALID_HANDLE", 0xC000_0008, Expected::Error),
    ("NT_STATUS_NOT_SUPPORTED", 0xC000_00BB, Expected::Error),
    ("NT_STATUS_CANNOT_DELETE", 0xC000_0121, Expected::Error),
    ("NT_STATUS_DELETE_PENDING", 0xC000_0056, Expected::Error),
];

impl Expected {
    /// What a word of a load file stands for: a name, a number `0x…`, or `*`. A number that is not in
    /// the list stands for any error.
    #[must_use]
    pub fn parse(word: &str) -> Option<Expected> {
        if word == "*" {
            return Some(Expected::Anything);
        }
        if let Some(digits) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
            let number = u32::from_str_radix(digits, 16).ok()?;
            let known = STATUSES.iter().find(|(_, value, _)| *value == number);
            return Some(known.map_or(Expected::Error, |(_, _, expected)| *expected));
        }
        STATUSES.iter().find(|(name, _, _)| *name == word).map(|(_, _, expected)| *expected)
    }

    /// The names that [`Expected::parse`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        STATUSES.iter().map(|(name, _, _)| *name)
    }

    /// Whether a call that ended with `errno` (`None`: without error) ended so.
    #[must_use]
    pub fn agrees(self, errno: Option<Errno>) -> bool {
        let Some(errno) = errno else {
            return matches!(self, Expected::Success | Expected::Anything);
        };
        match self {
            Expected::Success => false,
            Expected::Anything | Expected::Error => true,
            Expected::NotFound => errno == Errno::NOENT || errno == Errno::NOTDIR,
            Expected::Exists => errno == Errno::EXIST,
            Expected::Denied => [Errno::ACCESS, Errno::PERM].contains(&errno),
            Expected::NotEmpty => [Errno::NOTEMPTY, Errno::EXIST].contains(&errno),
            Expected::IsDirectory => errno == Errno::ISDIR,
            Expected::NotDirectory => errno == Errno::NOTDIR,
            Expected::EndOfFile => errno == END_OF_FILE,
            Expected::Full => [Errno::NOSPC, Errno::DQUOT].contains(&errno),
            Expected::Locked => [Errno::AGAIN, Errno::ACCESS].contains(&errno),
        }
    }
}

/// Stands for fewer bytes read than were asked for: no error of a call.
pub const END_OF_FILE: Errno = Errno::NODATA;
/// Stands for an operation on a handle that is not open.
pub const NOT_OPEN: Errno = Errno::BADF;

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = STATUSES.iter().find(|(_, _, expected)| expected == self);
        f.write_str(named.map_or("*", |(name, _, _)| *name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_errors() {
        for (word, errno, agrees) in [
            ("NT_STATUS_OK", None, true),
            ("0x00000000", None, true),
            ("SUCCESS", Some(Errno::NOENT), false),
            ("*", None, true),
            ("*", Some(Errno::EXIST), true),
            ("ERROR", None, false),
            ("0xC0000034", Some(Errno::NOENT), true),
            ("0xc0000034", Some(Errno::EXIST), false),
            ("0xC0009999", Some(Errno::EXIST), true),
            ("NT_STATUS_NO_SUCH_FILE", Some(Errno::NOENT), true),
            ("NT_STATUS_NO_SUCH_FILE", None, false),
            ("NT_STATUS_END_OF_FILE", Some(END_OF_FILE), true),
        ] {
            let expected = Expected::parse(word).unwrap();
            assert_eq!(expected.agrees(errno), agrees, "{word} {errno:?}");
        }
        for word in ["", "NT_STATUS_", "OK", "0x", "0xg", "**", "0x123456789"] {
            assert_eq!(Expected::parse(word), None, "{word}");
        }
        for name in Expected::names() {
            let expected = Expected::parse(name).unwrap();
            assert_eq!(Expected::parse(&expected.to_string()), Some(expected));
        }
    }
}
