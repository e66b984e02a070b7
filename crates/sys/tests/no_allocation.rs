//! The hot-loop calls must not allocate: a counting allocator watches them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use fsdyno_sys::calls::{Calls, CreateFlags, Null, OpenFlags, Real, dir_buffer};
use fsdyno_sys::clock::Timer;
use fsdyno_sys::counters::DeviceCounters;
use fsdyno_sys::{block, process};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on unchanged to the system allocator; counting touches only a
// constant-initialised thread-local without a destructor, which does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn life_of_a_file<C: Calls>(calls: &C, root: &C::Fd, buffer: &mut [std::mem::MaybeUninit<u8>]) {
    let mut read = [0; 512];
    calls.mkdir(root, c"d").unwrap();
    let directory = calls.open_dir(root, c"d").unwrap();
    let file = calls.create(&directory, c"f", CreateFlags::TRUNCATE).unwrap();
    calls.write_all(&file, &[1; 4096]).unwrap();
    calls.fdatasync(&file).unwrap();
    calls.close(file).unwrap();
    let file = calls.open_read(&directory, c"f").unwrap();
    calls.read(&file, &mut read).unwrap();
    calls.close(file).unwrap();
    calls.stat(&directory, c"f").unwrap();
    let file = calls.open_with(&directory, c"f", OpenFlags::READ_WRITE).unwrap();
    calls.write_all_at(&file, &[2; 64], 4096).unwrap();
    calls.read_at(&file, &mut read, 64).unwrap();
    calls.seek(&file, 1).unwrap();
    calls.stat_open(&file).unwrap();
    // Not every filesystem has it: that path must not allocate either.
    let _ = calls.readahead(&file, 0, 4096);
    calls.close(file).unwrap();
    calls.link(&directory, c"f", root, c"g").unwrap();
    calls.rename(root, c"g", root, c"h").unwrap();
    calls.symlink(c"h", root, c"s").unwrap();
    calls.unlink(root, c"h").unwrap();
    calls.unlink(root, c"s").unwrap();
    calls.list(&directory, buffer, |_, _, _| ()).unwrap();
    // An error on the real one: that path must not allocate either.
    let _ = calls.create(&directory, c"f", CreateFlags::EXCLUSIVE);
    calls.unlink(&directory, c"f").unwrap();
    calls.close(directory).unwrap();
    calls.rmdir(root, c"d").unwrap();
}

fn allocations_of(body: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    body();
    ALLOCATIONS.get() - before
}

#[test]
fn no_call_of_the_hot_loop_allocates() {
    let directory = tempfile::tempdir().unwrap();
    let root = Real.open_root(directory.path()).unwrap();
    let mut buffer = dir_buffer();
    let timer = Timer::new();
    assert!(
        allocations_of(|| drop(std::hint::black_box(Box::new(1)))) > 0,
        "the counter must count"
    );
    assert_eq!(allocations_of(|| life_of_a_file(&Real, &root, &mut buffer)), 0);
    assert_eq!(allocations_of(|| life_of_a_file(&Null, &(), &mut buffer)), 0);
    let timed = allocations_of(|| {
        let start = timer.now();
        std::hint::black_box((timer.elapsed_ns(timer.now() - start), process::interrupted()));
    });
    assert_eq!(timed, 0);
}

#[test]
fn reading_a_device_counter_does_not_allocate() {
    let Some(number) = block::root_device().unwrap().first().copied() else {
        println!("skipped: / is not on a block device");
        return;
    };
    let counters = DeviceCounters::open(number).unwrap();
    let reading = allocations_of(|| assert!(counters.read().is_ok()));
    assert_eq!(reading, 0);
}
