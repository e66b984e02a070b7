//! Extents of files and of free space on real filesystems. Each test needs root and works in its own
//! mount namespace; without the means it says why it is skipped.

mod support;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fsdyno_sys::Errno;
use fsdyno_sys::fiemap::{Extent, ExtentBuffer, MapOptions, first_extent, visit_extents};
use fsdyno_sys::fsmap::visit_free_extents;
use fsdyno_sys::loopdev::{LoopDevice, LoopOptions};
use fsdyno_sys::mount;
use rustix::fs::FallocateFlags;

use support::{Bench, format, in_namespace};

const BLOCK: u64 = 4096;
const SIZE: u64 = 320 << 20;
const FILESYSTEMS: [(&str, &[&str]); 5] = [
    ("ext2", &["-q", "-b4096"]),
    ("ext3", &["-q", "-b4096"]),
    ("ext4", &["-q"]),
    ("xfs", &["-q", "-f"]),
    ("btrfs", &["-q", "-f"]),
];

/// Runs `body` in each filesystem, freshly made and mounted.
fn in_each_filesystem(body: impl Fn(&str, &Path) + Send + 'static) {
    in_namespace(move || {
        for (fs_type, arguments) in FILESYSTEMS {
            let bench = Bench::new(SIZE);
            let device = LoopDevice::attach(&bench.image, LoopOptions::default()).unwrap();
            if format(device.path(), fs_type, arguments) {
                let target = bench.mount_point();
                // Without it files of xfs take space far ahead, and never come to lie in turn.
                let options = if fs_type == "xfs" { "allocsize=4096" } else { "" };
                let source = device.path().to_str().unwrap();
                mount::mount(fs_type, source, &target, options).unwrap();
                body(fs_type, &target);
                mount::unmount(&target).unwrap();
            }
            device.detach().unwrap();
        }
    });
}

fn extents_of(file: &File, options: MapOptions) -> Vec<Extent> {
    let mut extents = Vec::new();
    visit_extents(file, options, &mut ExtentBuffer::new(), |extent| extents.push(*extent)).unwrap();
    extents
}

fn fragment_count(extents: &[Extent]) -> usize {
    let breaks = extents.windows(2).filter(|pair| !pair[1].continues(&pair[0]));
    breaks.count() + usize::from(!extents.is_empty())
}

/// What filefrag(8) counts; `None` where it is not installed.
fn filefrag(path: &Path) -> Option<usize> {
    let output = Command::new("filefrag").arg(path).output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    // `/path/of/it: 3 extents found`
    let count = text.trim().rsplit_once(": ")?.1.split_whitespace().next()?.parse();
    Some(count.unwrap_or_else(|_| panic!("{text}")))
}

#[test]
fn a_file_with_holes_has_an_extent_between_each_two() {
    in_each_filesystem(|fs_type, target| {
        const PIECES: u64 = 600;
        let path = target.join("f");
        let mut file = File::create_new(&path).unwrap();
        file.write_all(&vec![7; (PIECES * 2 * BLOCK) as usize]).unwrap();
        file.sync_all().unwrap();
        let whole = fragment_count(&extents_of(&file, MapOptions::default()));
        assert!(whole < 10, "{fs_type}: {whole} fragments at first");
        for index in 0..PIECES {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&file, flags, index * 2 * BLOCK, BLOCK).unwrap();
        }
        let extents = extents_of(&file, MapOptions { sync: true, xattr: false });
        assert_eq!(extents.len() as u64, PIECES, "{fs_type}");
        // Nothing moved on the device; a fragment of one block may have gone.
        let fragments = fragment_count(&extents);
        assert!(fragments <= whole, "{fs_type}: {fragments}, {whole} before");
        for (index, extent) in extents.iter().enumerate() {
            let last = index + 1 == extents.len();
            assert_eq!(extent.logical_bytes, (index as u64 * 2 + 1) * BLOCK, "{fs_type}");
            assert_eq!((extent.length_bytes, extent.is_last()), (BLOCK, last), "{fs_type}");
            assert!(!extent.is_unknown() && !extent.is_inline() && !extent.is_unwritten());
            assert!((1..SIZE).contains(&extent.physical_bytes) || fs_type == "btrfs");
        }
        let first = first_extent(&file, MapOptions::default(), &mut ExtentBuffer::new()).unwrap();
        assert_eq!(first.unwrap().physical_bytes, extents[0].physical_bytes, "{fs_type}");
        match filefrag(&path) {
            None => println!("skipped: filefrag is not installed"),
            Some(count) => assert_eq!(count, fragments, "{fs_type}"),
        }
    });
}

#[test]
fn files_that_grow_in_turn_are_fragmented() {
    in_each_filesystem(|fs_type, target| {
        let paths = ["a", "b"].map(|name| target.join(name));
        let mut files = paths.each_ref().map(|path| File::create_new(path).unwrap());
        for _ in 0..300 {
            for file in &mut files {
                file.write_all(&[7; BLOCK as usize]).unwrap();
                file.sync_all().unwrap();
            }
        }
        for (file, path) in files.iter().zip(&paths) {
            let count = fragment_count(&extents_of(file, MapOptions::default()));
            println!("{fs_type}: {count} fragments, filefrag says {:?}", filefrag(path));
            assert!(count > 1, "{fs_type}");
            assert!(filefrag(path).is_none_or(|expected| expected == count), "{fs_type}");
        }
    });
}

#[test]
fn flags_tell_how_data_is_stored() {
    in_each_filesystem(|fs_type, target| {
        let file = File::create_new(target.join("empty")).unwrap();
        assert_eq!(extents_of(&file, MapOptions::default()), []);
        let first = first_extent(&file, MapOptions::default(), &mut ExtentBuffer::new());
        assert_eq!(first, Ok(None), "{fs_type}");

        let mut file = File::create_new(target.join("small")).unwrap();
        file.write_all(b"a few bytes").unwrap();
        if matches!(fs_type, "ext4" | "xfs") {
            let delayed = extents_of(&file, MapOptions::default());
            assert!(delayed[0].is_delayed() && delayed[0].is_unknown(), "{fs_type}: {delayed:?}");
        }
        let small = extents_of(&file, MapOptions { sync: true, xattr: false });
        assert_eq!(small.len(), 1);
        assert_eq!(small[0].is_inline(), fs_type == "btrfs", "{fs_type}: {small:?}");
        assert!(!small[0].is_delayed());

        if matches!(fs_type, "ext4" | "xfs" | "btrfs") {
            let file = File::create_new(target.join("reserved")).unwrap();
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 1 << 20).unwrap();
            let extents = extents_of(&file, MapOptions { sync: true, xattr: false });
            assert!(extents.iter().all(Extent::is_unwritten), "{fs_type}: {extents:?}");
            assert!(!extents.is_empty());
        }
        let directory = File::open(target).unwrap();
        let visited =
            visit_extents(&directory, MapOptions::default(), &mut ExtentBuffer::new(), |_| ());
        assert!(matches!(visited, Ok(()) | Err(Errno::OPNOTSUPP)), "{fs_type}: {visited:?}");
    });
}

#[test]
fn compressed_extents_say_so() {
    in_namespace(|| {
        let bench = Bench::new(SIZE);
        let device = LoopDevice::attach(&bench.image, LoopOptions::default()).unwrap();
        if !format(device.path(), "btrfs", &["-q", "-f"]) {
            return;
        }
        let (source, target) = (device.path().to_str().unwrap(), bench.mount_point());
        mount::mount("btrfs", source, &target, "compress=zstd").unwrap();
        let mut file = File::create_new(target.join("f")).unwrap();
        file.write_all(&[7; 1 << 20]).unwrap();
        let extents = extents_of(&file, MapOptions { sync: true, xattr: false });
        assert!(extents.len() > 1 && extents.iter().all(Extent::is_encoded), "{extents:?}");
        assert_eq!(fragment_count(&extents), 1, "{extents:?}");
        drop(file);
        mount::unmount(&target).unwrap();
        device.detach().unwrap();
    });
}

/// Count and sum in bytes of the free extents.
fn free_space(root: &File) -> (u64, u64) {
    rustix::fs::syncfs(root).unwrap();
    let (mut count, mut sum) = (0, 0);
    visit_free_extents(root, |start, length| {
        assert!(length > 0 && start % 512 == 0, "{start} {length}");
        (count, sum) = (count + 1, sum + length);
    })
    .unwrap();
    (count, sum)
}

#[test]
fn removed_files_leave_free_extents() {
    in_each_filesystem(|fs_type, target| {
        // So many that btrfs changes over to bitmaps.
        const FILES: u64 = 1600;
        const FILE_SIZE: u64 = 32 << 10;
        let root = File::open(target).unwrap();
        let told = visit_free_extents(&root, |_, _| ());
        if fs_type == "ext2" && told == Err(Errno::OPNOTSUPP) {
            return println!(
                "skipped: this kernel has its own driver for ext2, which does not tell"
            );
        }
        let (count_before, sum_before) = free_space(&root);
        let name = |index: u64| target.join(format!("f{index}"));
        for index in 0..FILES {
            let mut file = File::create_new(name(index)).unwrap();
            file.write_all(&[7; FILE_SIZE as usize]).unwrap();
        }
        let (_, sum_full) = free_space(&root);
        let used = sum_before - sum_full;
        assert!(
            (FILES * FILE_SIZE..2 * FILES * FILE_SIZE).contains(&used),
            "{fs_type}: {used} bytes used"
        );
        for index in (0..FILES).step_by(2) {
            fs::remove_file(name(index)).unwrap();
        }
        // xfs frees in the background.
        let start = Instant::now();
        let (count, sum) = loop {
            let (count, sum) = free_space(&root);
            if count > count_before + FILES / 4 || start.elapsed() > Duration::from_secs(20) {
                break (count, sum);
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        println!("{fs_type}: {count_before} {sum_before}; full {sum_full}; half {count} {sum}");
        assert!(count > count_before + FILES / 4, "{fs_type}: {count_before} and then {count}");
        assert!(sum > sum_full, "{fs_type}");
        let statistics = rustix::fs::fstatvfs(&root).unwrap();
        let free = statistics.f_bfree * statistics.f_frsize;
        println!("{fs_type}: statfs says {free}");
        assert!(sum.abs_diff(free) < SIZE / 8, "{fs_type}: {sum}, but statfs says {free}");
    });
}

#[test]
fn tmpfs_tells_nothing() {
    in_namespace(|| {
        let bench = Bench::new(BLOCK);
        let target = bench.mount_point();
        mount::mount("tmpfs", "none", &target, "size=1m").unwrap();
        fs::write(target.join("f"), "x").unwrap();
        let file = File::open(target.join("f")).unwrap();
        let visited = visit_extents(&file, MapOptions::default(), &mut ExtentBuffer::new(), |_| ());
        assert_eq!(visited, Err(Errno::OPNOTSUPP));
        assert_eq!(visit_free_extents(&file, |_, _| ()), Err(Errno::OPNOTSUPP));
        drop(file);
        mount::unmount(&target).unwrap();
    });
}
