//! Loop devices, mounts and counters on the real kernel. Each test needs root and works in its own
//! mount namespace, so that nothing outlives it; without the means it says why it is skipped.

mod support;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fsdyno_sys::Errno;
use fsdyno_sys::counters::DeviceCounters;
use fsdyno_sys::kthreads::{KernelThreads, charge};
use fsdyno_sys::loopdev::{self, LoopDevice, LoopOptions};
use fsdyno_sys::{block, mount};

use support::{Bench, format, in_namespace};

fn listed(path: &Path) -> Option<loopdev::AttachedLoop> {
    loopdev::list().unwrap().into_iter().find(|found| found.backing_file == path)
}

#[test]
fn an_image_becomes_a_device_and_ceases_to_be_one() {
    in_namespace(|| {
        const SIZE: u64 = 32 << 20;
        let bench = Bench::new(SIZE);
        let options = LoopOptions { block_size: Some(4096), ..LoopOptions::default() };
        let device = LoopDevice::attach(&bench.image, options).unwrap();
        let (path, number) = (device.path().to_owned(), device.device_number());
        assert!(block::is_block_device(&path));
        assert_eq!(block::device_number(&path).unwrap(), number);
        assert_eq!(block::size_bytes(&path).unwrap(), SIZE);
        assert_eq!(block::holders(number).unwrap(), Vec::<String>::new());
        assert_eq!(block::parent_disk(number).unwrap(), None);
        assert!(!block::is_swap(&path).unwrap());
        let queue = block::queue_facts(number).unwrap();
        assert_eq!(queue.logical_block_size_bytes, Some(4096));
        assert!(queue.scheduler.is_some() && queue.write_cache.is_some() && queue.fua.is_some());
        println!("direct i/o: {}; {queue:?}", device.direct_io().unwrap());

        let found = listed(&bench.image).unwrap();
        assert_eq!((&found.path, found.number, found.deleted), (&path, number, false));
        fs::remove_file(&bench.image).unwrap();
        assert!(listed(&bench.image).unwrap().deleted);
        device.detach().unwrap();
        assert_eq!(listed(&bench.image), None);
    });
}

#[test]
fn direct_io_is_what_was_asked_for_where_the_image_allows_it() {
    in_namespace(|| {
        let bench = Bench::new(8 << 20);
        let on_disk = mount::mount_containing(&bench.image).unwrap().unwrap();
        if !["ext4", "xfs", "btrfs"].contains(&on_disk.fs_type.as_str()) {
            println!("skipped: {} may not offer direct i/o", on_disk.fs_type);
            return;
        }
        for direct_io in [true, false] {
            let options = LoopOptions { direct_io, ..LoopOptions::default() };
            let device = LoopDevice::attach(&bench.image, options).unwrap();
            assert_eq!(device.direct_io().unwrap(), direct_io);
            device.detach().unwrap();
        }
    });
}

#[test]
fn dropping_detaches_and_others_devices_can_be_detached_by_path() {
    in_namespace(|| {
        let bench = Bench::new(8 << 20);
        drop(LoopDevice::attach(&bench.image, LoopOptions::default()).unwrap());
        assert_eq!(listed(&bench.image), None);

        let options = LoopOptions { read_only: true, ..LoopOptions::default() };
        let device = LoopDevice::attach(&bench.image, options).unwrap();
        let read_only = fs::read_to_string(device.device_number().sysfs_path().join("ro")).unwrap();
        assert_eq!(read_only.trim(), "1");
        device.detach().unwrap();

        let arguments = ["--find", "--show", bench.image.to_str().unwrap()];
        let Ok(output) = Command::new("losetup").args(arguments).output() else {
            println!("skipped: losetup is not installed");
            return;
        };
        let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        assert_eq!(listed(&bench.image).unwrap().path, path);
        loopdev::detach_path(&path).unwrap();
        assert_eq!(listed(&bench.image), None);
        loopdev::detach_path(&path).unwrap();
    });
}

#[test]
fn a_device_in_use_detaches_when_its_user_lets_go() {
    in_namespace(|| {
        let bench = Bench::new(8 << 20);
        let device = LoopDevice::attach(&bench.image, LoopOptions::default()).unwrap();
        let user = File::open(device.path()).unwrap();
        let start = Instant::now();
        drop(device);
        assert!(start.elapsed() < Duration::from_secs(60), "dropping must not hang");
        assert!(listed(&bench.image).is_some());
        drop(user);
        let start = Instant::now();
        while listed(&bench.image).is_some() {
            assert!(start.elapsed() < Duration::from_secs(60), "the device outlived its last user");
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}

#[test]
fn missing_and_refused_images_say_what_is_wrong() {
    in_namespace(|| {
        let missing =
            LoopDevice::attach(Path::new("/no/such/image"), LoopOptions::default()).unwrap_err();
        assert!(
            missing.is_not_found()
                && missing.to_string().starts_with("open /no/such/image: ENOENT")
        );
        let bench = Bench::new(8 << 20);
        let options = LoopOptions { block_size: Some(1000), ..LoopOptions::default() };
        let refused = LoopDevice::attach(&bench.image, options).unwrap_err();
        assert_eq!(refused.errno, Errno::INVAL, "{refused}");
        assert!(refused.to_string().contains("block size"), "{refused}");
        assert_eq!(listed(&bench.image), None);
    });
}

#[test]
fn device_nodes_are_made_where_nobody_else_does() {
    in_namespace(|| {
        let bench = Bench::new(8 << 20);
        mount::mount("tmpfs", "none", Path::new("/dev"), "mode=755,size=1m").unwrap();
        let made =
            Command::new("mknod").args(["/dev/loop-control", "c", "10", "237"]).status().unwrap();
        assert!(made.success());
        let device = LoopDevice::attach(&bench.image, LoopOptions::default()).unwrap();
        assert_eq!(block::device_number(device.path()).unwrap(), device.device_number());
        assert_eq!(block::size_bytes(device.path()).unwrap(), 8 << 20);
        device.detach().unwrap();
    });
}

#[test]
fn discard_gives_the_space_back() {
    in_namespace(|| {
        let bench = Bench::new(16 << 20);
        let device = LoopDevice::attach(&bench.image, LoopOptions::default()).unwrap();
        let counters = DeviceCounters::open(device.device_number()).unwrap();
        let before = counters.read().unwrap();
        match block::discard_all(device.path()) {
            Err(error) if error.errno == Errno::OPNOTSUPP => println!("skipped: {error}"),
            other => {
                other.unwrap();
                let discarded = counters.read().unwrap().since(&before).discard_bytes;
                assert_eq!(discarded, Some(16 << 20));
                assert!(fs::metadata(&bench.image).unwrap().blocks() * 512 < 16 << 20);
            }
        }
        device.detach().unwrap();
    });
}

#[test]
fn ext4_is_mounted_read_back_measured_and_unmounted() {
    in_namespace(|| {
        let bench = Bench::new(64 << 20);
        let device = LoopDevice::attach(&bench.image, LoopOptions::default()).unwrap();
        if !format(device.path(), "ext4", &["-q"]) {
            return;
        }
        let (source, target) = (device.path().to_str().unwrap(), bench.mount_point());
        let error = mount::mount("ext4", source, &target, "nosuchopt").unwrap_err();
        let expected = format!(
            "mount {source} on {}: EINVAL Invalid argument (kernel: ext4: Unknown parameter 'nosuchopt')",
            target.display()
        );
        assert_eq!(error.to_string(), expected);

        mount::mount("ext4", source, &target, "noatime,nodev,data=journal").unwrap();
        let found = mount::mount_containing(&target).unwrap().unwrap();
        assert_eq!(
            (found.mount_point.as_path(), found.device),
            (target.as_path(), device.device_number())
        );
        assert_eq!((found.fs_type.as_str(), found.source.as_str()), ("ext4", source));
        for option in ["rw", "noatime", "nodev", "data=journal"] {
            let effective = found.effective_options();
            assert!(effective.split(',').any(|word| word == option), "{option} not in {effective}");
        }
        assert!(block::open_exclusive(device.path()).unwrap_err().is_busy());
        // A second mount would silently ignore its options; Linux 6.6 and later refuse it.
        let second = bench.directory.path().join("second");
        fs::create_dir(&second).unwrap();
        match mount::mount("ext4", source, &second, "data=writeback") {
            Ok(()) => {
                println!("skipped: this kernel has no exclusive mounts");
                mount::unmount(&second).unwrap();
            }
            Err(error) => assert!(error.is_busy(), "{error}"),
        }

        let counters = DeviceCounters::open(device.device_number()).unwrap();
        let before = counters.read().unwrap();
        let mut written = File::create(target.join("f")).unwrap();
        written.write_all(&vec![7; 4 << 20]).unwrap();
        written.sync_all().unwrap();
        let moved = counters.read().unwrap().since(&before);
        assert!(moved.write_bytes >= 4 << 20 && moved.writes > 0, "{moved:?}");
        assert!(moved.flushes.is_none_or(|flushes| flushes > 0), "{moved:?}");

        // It is busy until the file is closed, a moment later.
        let holder = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(written);
        });
        mount::unmount(&target).unwrap();
        holder.join().unwrap();
        assert_eq!(mount::unmount(&target).unwrap_err().errno, Errno::INVAL);
        device.detach().unwrap();
    });
}

#[test]
fn other_filesystems_mount_with_their_options() {
    in_namespace(|| {
        for (fs_type, arguments, options, effective) in [
            ("ext2", &["-q"][..], "ro", "ro"),
            ("ext3", &["-q"], "data=writeback", "data=writeback"),
            ("xfs", &["-q", "-f"], "logbsize=256k", "logbsize=256k"),
            ("btrfs", &["-q", "-f"], "compress=zstd,lazytime", "compress=zstd:3"),
        ] {
            let bench = Bench::new(320 << 20);
            let device = LoopDevice::attach(&bench.image, LoopOptions::default()).unwrap();
            if !format(device.path(), fs_type, arguments) {
                continue;
            }
            let (source, target) = (device.path().to_str().unwrap(), bench.mount_point());
            mount::mount(fs_type, source, &target, options).unwrap();
            let found = mount::mount_containing(&target).unwrap().unwrap().effective_options();
            assert!(
                found.split(',').any(|word| word == effective),
                "{fs_type}: {effective} not in {found}"
            );
            mount::unmount(&target).unwrap();
            let error = mount::mount(fs_type, source, &target, "nosuchopt").unwrap_err();
            assert!(error.to_string().contains("nosuchopt"), "{error}");
            device.detach().unwrap();
        }
    });
}

#[test]
fn a_wrong_filesystem_or_device_is_explained() {
    in_namespace(|| {
        let bench = Bench::new(32 << 20);
        let target = bench.mount_point();
        let unknown = mount::mount("nosuchfs", "none", &target, "").unwrap_err();
        assert_eq!(unknown.errno, Errno::NODEV);
        assert!(unknown.to_string().contains("no filesystem \"nosuchfs\""), "{unknown}");
        let device = LoopDevice::attach(&bench.image, LoopOptions::default()).unwrap();
        let blank = mount::mount("ext4", device.path().to_str().unwrap(), &target, "").unwrap_err();
        assert!(blank.detail.is_some(), "{blank}");
        assert!(!mount::mounts().unwrap().iter().any(|mount| mount.mount_point == target));
        mount::mount("tmpfs", "none", &target, "size=1m,nosuid").unwrap();
        fs::write(target.join("f"), "x").unwrap();
        let held = File::open(target.join("f")).unwrap();
        mount::unmount_lazy(&target).unwrap();
        drop(held);
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
        device.detach().unwrap();
    });
}

#[test]
fn kernel_threads_are_billed_for_journal_work() {
    in_namespace(|| {
        let Some(mut threads) = KernelThreads::new() else {
            println!("skipped: kernel threads are not visible");
            return;
        };
        let bench = Bench::new(64 << 20);
        let device = LoopDevice::attach(&bench.image, LoopOptions::default()).unwrap();
        if !format(device.path(), "ext4", &["-q"]) {
            return;
        }
        let before = threads.sample();
        let target = bench.mount_point();
        mount::mount("ext4", device.path().to_str().unwrap(), &target, "").unwrap();
        for index in 0..200 {
            let written = File::create(target.join(index.to_string())).unwrap();
            written.sync_all().unwrap();
        }
        let during = threads.sample();
        mount::unmount(&target).unwrap();
        device.detach().unwrap();
        let after = threads.sample();
        let journal = |name: &str| name.starts_with("jbd2/loop");
        let burnt = charge(&before, &during, journal);
        assert!(burnt > 0, "{:?}", during.since(&before).collect::<Vec<_>>());
        assert!(charge(&before, &after, journal) >= burnt, "what an ended thread burnt was lost");
        assert!(charge(&before, &after, |_| true) >= burnt);
        println!("{:?}", after.since(&before).collect::<Vec<_>>());
    });
}

#[test]
fn sampling_kernel_threads_is_cheap() {
    let Some(mut threads) = KernelThreads::new() else {
        println!("skipped: kernel threads are not visible");
        return;
    };
    let count = threads.sample().thread_count();
    let best = (0..50)
        .map(|_| {
            let start = Instant::now();
            threads.sample();
            start.elapsed()
        })
        .min()
        .unwrap();
    println!("{count} threads in {best:?}, {:?} each", best / u32::try_from(count).unwrap());
    assert!(count > 0);
}
