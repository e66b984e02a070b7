//! What can be asked of every operation: what it picks, what it makes, which open file it works on.

use super::{FilesetIndex, Op, Pick, Slot};

impl Op {
    /// The fileset that it is done to an entry of, and how that is picked. A replay does each line once.
    #[must_use]
    pub fn entry(&self) -> Option<(FilesetIndex, Pick)> {
        match self {
            Op::Create { fileset, pick, .. }
            | Op::Open { fileset, pick, .. }
            | Op::Stat { fileset, pick }
            | Op::Readdir { fileset, pick }
            | Op::Unlink { fileset, pick }
            | Op::Mkdir { fileset, pick }
            | Op::Rmdir { fileset, pick }
            | Op::Rename { fileset, pick, .. }
            | Op::Link { fileset, pick, .. }
            | Op::Symlink { fileset, pick, .. }
            | Op::CopyFileRange { fileset, pick, .. }
            | Op::Reflink { fileset, pick, .. } => Some((*fileset, *pick)),
            Op::Replay { fileset } => Some((*fileset, Pick::Once)),
            _ => None,
        }
    }

    /// Whether its work is used up at some time.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        matches!(self.entry(), Some((_, Pick::Once)))
    }

    /// The fileset of the further entry that it makes.
    #[must_use]
    pub fn into(&self) -> Option<FilesetIndex> {
        match self {
            Op::Rename { into, .. }
            | Op::Link { into, .. }
            | Op::Symlink { into, .. }
            | Op::CopyFileRange { into, .. }
            | Op::Reflink { into, .. } => Some(*into),
            _ => None,
        }
    }

    /// The open file that it works on, or opens.
    #[must_use]
    pub fn slot(&self) -> Option<Slot> {
        match self {
            Op::Create { slot, .. }
            | Op::Open { slot, .. }
            | Op::Close { slot }
            | Op::Read { slot, .. }
            | Op::Write { slot, .. }
            | Op::Append { slot, .. }
            | Op::Overwrite { slot, .. }
            | Op::Rewrite { slot, .. }
            | Op::MmapRead { slot, .. }
            | Op::MmapWrite { slot, .. }
            | Op::Fsync { slot }
            | Op::Fdatasync { slot }
            | Op::SyncFileRange { slot }
            | Op::Truncate { slot, .. }
            | Op::Fallocate { slot, .. }
            | Op::Punch { slot, .. }
            | Op::Lock { slot }
            | Op::SetXattr { slot, .. }
            | Op::GetXattr { slot, .. } => Some(*slot),
            _ => None,
        }
    }
}
