//! The block groups of ext2, ext3 and ext4 as their descriptors have them ("Layout of block group descriptors" in
//! the kernel's Documentation/filesystems/ext4). The kernel changes descriptors in the cache of the device, so that
//! reading them takes microseconds and no request; a program that prints them all takes a guest longer than what it
//! waits for.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

const SUPERBLOCK_AT: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 1024;
const MAGIC: u16 = 0xef53;
/// Descriptors lie in each group of groups, not after the superblock.
const META_BG: u32 = 0x10;
const WIDE: u32 = 0x80;
const NARROW_BYTES: usize = 32;
/// Group checksums of either kind: without them groups have no flags.
const CHECKSUMS: u32 = 0x10 | 0x400;
const FLAGS_AT: usize = 0x12;
const INODE_TABLE_ZEROED: u16 = 0x4;
/// Blocks have at most 64 KiB: 1024 bytes times 2 to this power.
const MOST_BLOCK_LOG: u32 = 6;
/// Descriptors that are read at once.
const PIECE: u64 = 1024;

/// Where the descriptors are.
#[derive(Debug, PartialEq, Eq)]
struct Descriptors {
    start: u64,
    each_bytes: usize,
    count: u64,
}

fn le16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u16::from_le_bytes(*chunk))
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

/// What a superblock says of descriptors with flags; `None` where there are none that lie together. The offsets are
/// those of `struct ext4_super_block` in fs/ext4/ext4.h.
fn descriptors(superblock: &[u8]) -> Option<Descriptors> {
    let (incompatible, read_only) = (le32(superblock, 0x60), le32(superblock, 0x64));
    let has_flags = read_only & CHECKSUMS != 0 && incompatible & META_BG == 0;
    if le16(superblock, 0x38) != MAGIC || !has_flags {
        return None;
    }
    let is_wide = incompatible & WIDE != 0;
    let each_bytes = if is_wide { usize::from(le16(superblock, 0xfe)) } else { NARROW_BYTES };
    let high = if is_wide { le32(superblock, 0x150) } else { 0 };
    let first = u64::from(le32(superblock, 0x14));
    let blocks = (u64::from(high) << 32 | u64::from(le32(superblock, 0x4))).checked_sub(first)?;
    let of_group = u64::from(le32(superblock, 0x20));
    let block_log = le32(superblock, 0x18);
    let is_sound =
        of_group > 0 && block_log <= MOST_BLOCK_LOG && (NARROW_BYTES..=1024).contains(&each_bytes);
    is_sound.then(|| Descriptors {
        start: (first + 1) * (1024 << block_log),
        each_bytes,
        count: blocks.div_ceil(of_group),
    })
}

fn count_to_zero(pieces: &[u8], each_bytes: usize) -> usize {
    let is_zeroed = |descriptor: &[u8]| le16(descriptor, FLAGS_AT) & INODE_TABLE_ZEROED != 0;
    pieces.chunks_exact(each_bytes).filter(|descriptor| !is_zeroed(descriptor)).count()
}

/// How many block groups of the filesystem on `device` have an inode table that is not zeroed yet; `None` where
/// groups bear no such flag (no group checksums, as in ext2 and ext3), or do not lie together (`meta_bg`).
///
/// # Errors
/// The device cannot be read.
pub(super) fn groups_to_zero(device: &Path) -> io::Result<Option<usize>> {
    let file = File::open(device)?;
    let mut superblock = [0; SUPERBLOCK_BYTES];
    file.read_exact_at(&mut superblock, SUPERBLOCK_AT)?;
    let Some(all) = descriptors(&superblock) else { return Ok(None) };
    let mut buffer = vec![0; all.each_bytes * PIECE as usize];
    let (mut left, mut at, mut found) = (all.count, all.start, 0);
    while left > 0 {
        let bytes = left.min(PIECE) as usize * all.each_bytes;
        file.read_exact_at(&mut buffer[..bytes], at)?;
        found += count_to_zero(&buffer[..bytes], all.each_bytes);
        (left, at) = (left.saturating_sub(PIECE), at + bytes as u64);
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// The program that prints what this module reads.
    fn told_by_dumpe2fs(image: &Path) -> usize {
        let output = Command::new("dumpe2fs").arg(image).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let groups = text.lines().filter(|line| line.starts_with("Group ") && line.contains(':'));
        let groups = groups.filter(|line| !line.starts_with("Group descriptor size"));
        groups.filter(|line| !line.contains("ITABLE_ZEROED")).count()
    }

    #[test]
    fn groups_are_as_dumpe2fs_tells_them() {
        if !crate::tools::is_installed("mkfs.ext4") {
            println!("skipped: mkfs.ext4 is not installed");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("image");
        for (options, size, flagged) in [
            ("-t ext4", 1_u64 << 30, true),
            ("-t ext4 -O ^64bit", 1 << 30, true),
            ("-t ext4 -b 1024", 200 << 20, true),
            ("-t ext4 -E lazy_itable_init=0", 1 << 30, true),
            ("-t ext4 -O ^metadata_csum,uninit_bg", 1 << 30, true),
            ("-t ext4 -O meta_bg,^resize_inode", 1 << 30, false),
            ("-t ext3", 200 << 20, false),
        ] {
            File::create(&image).unwrap().set_len(size).unwrap();
            let words = options.split(' ').chain(["-q", "-F"]);
            let made = Command::new("mke2fs").args(words).arg(&image).status().unwrap();
            assert!(made.success(), "{options}");
            let expected = flagged.then(|| told_by_dumpe2fs(&image));
            assert_eq!(groups_to_zero(&image).unwrap(), expected, "{options}");
        }
    }

    #[test]
    fn what_is_no_filesystem_has_no_groups() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        std::fs::write(&path, vec![0; 4096]).unwrap();
        assert_eq!(groups_to_zero(&path).unwrap(), None);
        std::fs::write(&path, vec![0; 100]).unwrap();
        assert!(groups_to_zero(&path).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_superblock_panics(mut bytes in proptest::collection::vec(0_u8.., SUPERBLOCK_BYTES)) {
            bytes[0x38..0x3a].copy_from_slice(&MAGIC.to_le_bytes());
            let _ = descriptors(&bytes);
        }
    }
}
