//! The operations of a load by the names that dbench prints, and what was counted of each. How they are
//! carried out is left to [`super::client`].

/// A kind of operation, in the order of dbench's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are those of the table")]
pub enum Kind {
    NtCreateX,
    Close,
    Rename,
    Unlink,
    Deltree,
    Rmdir,
    Mkdir,
    Qpathinfo,
    Qfileinfo,
    Qfsinfo,
    Sfileinfo,
    Find,
    WriteX,
    ReadX,
    LockX,
    UnlockX,
    Flush,
}

impl Kind {
    /// Number of kinds.
    pub const COUNT: usize = 17;

    /// All kinds, each at the index that is its number, with the name in dbench's table and the word in
    /// the names of our values.
    pub const ALL: [(Kind, &'static str, &'static str); Kind::COUNT] = [
        (Kind::NtCreateX, "NTCreateX", "ntcreatex"),
        (Kind::Close, "Close", "close"),
        (Kind::Rename, "Rename", "rename"),
        (Kind::Unlink, "Unlink", "unlink"),
        (Kind::Deltree, "Deltree", "deltree"),
        (Kind::Rmdir, "Rmdir", "rmdir"),
        (Kind::Mkdir, "Mkdir", "mkdir"),
        (Kind::Qpathinfo, "Qpathinfo", "qpathinfo"),
        (Kind::Qfileinfo, "Qfileinfo", "qfileinfo"),
        (Kind::Qfsinfo, "Qfsinfo", "qfsinfo"),
        (Kind::Sfileinfo, "Sfileinfo", "sfileinfo"),
        (Kind::Find, "Find", "find"),
        (Kind::WriteX, "WriteX", "writex"),
        (Kind::ReadX, "ReadX", "readx"),
        (Kind::LockX, "LockX", "lockx"),
        (Kind::UnlockX, "UnlockX", "unlockx"),
        (Kind::Flush, "Flush", "flush"),
    ];
}

/// What was counted of one kind, in ticks of the timer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindTally {
    /// Operations.
    pub count: u64,
    /// Time of all.
    pub total_ticks: u64,
    /// Time of the longest.
    pub longest_ticks: u64,
}

impl KindTally {
    /// Counts one operation.
    #[inline(always)]
    pub fn add(&mut self, ticks: u64) {
        self.count += 1;
        self.total_ticks += ticks;
        self.longest_ticks = self.longest_ticks.max(ticks);
    }

    /// Adds what another client counted.
    pub fn merge(&mut self, other: &KindTally) {
        self.count += other.count;
        self.total_ticks += other.total_ticks;
        self.longest_ticks = self.longest_ticks.max(other.longest_ticks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_at_its_number() {
        for (index, (kind, name, word)) in Kind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, index);
            assert_eq!(name.to_ascii_lowercase(), *word);
        }
    }
}
