//! Tests of [`Ring`] in a real directory. Where io_uring is refused they say so and end.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Instant;

use super::*;
use crate::calls::{Calls, OpenFlags, Real};

fn ring(depth: u32, buffer_bytes: usize, registered: bool) -> Option<Ring> {
    match Ring::new(RingSettings { depth, buffer_bytes, registered }) {
        Ok(ring) => Some(ring),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

fn root(ring: &mut Ring, path: &Path) -> RingFile {
    let root = Real.open_root(path).unwrap();
    ring.add_file(root)
}

/// Waits for the one call that is under way.
fn one(ring: &mut Ring) -> Completion {
    loop {
        ring.submit_and_wait(1).unwrap();
        if let Some(completion) = ring.next_completion() {
            assert_eq!(ring.in_flight(), 0);
            return completion;
        }
    }
}

const NEW: OpenFlags = OpenFlags { create: true, exclusive: true, ..OpenFlags::READ_WRITE };

#[test]
fn blocks_are_written_and_read_in_any_order() {
    for registered in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let Some(mut ring) = ring(8, 5000, registered) else { return };
        let dir = root(&mut ring, directory.path());
        ring.open(0, dir, c"f", NEW).unwrap();
        let file = one(&mut ring).opened.unwrap();
        if registered {
            ring.register_files().unwrap();
        }
        for slot in 0..8 {
            ring.buffer_mut(slot).fill(b'a' + slot as u8);
            ring.write(slot, file, slot as u64 * 5000, 5000).unwrap();
        }
        let mut ended = BTreeSet::new();
        while ring.in_flight() > 0 {
            ring.submit_and_wait(1).unwrap();
            while let Some(completion) = ring.next_completion() {
                assert_eq!(completion.result, Ok(5000));
                ended.insert(completion.slot);
            }
        }
        assert_eq!(ended, (0..8).collect());
        let found = fs::read(directory.path().join("f")).unwrap();
        let expected: Vec<u8> = (0..40_000).map(|index| b'a' + (index / 5000) as u8).collect();
        assert!(found == expected);
        ring.read(3, file, 38_000, 5000).unwrap();
        assert_eq!(one(&mut ring), Completion { slot: 3, result: Ok(2000), opened: None });
        assert_eq!(ring.buffer(3)[..2000], [b'h'; 2000]);
        ring.write_from(3, file, 1000, 0, 10).unwrap();
        assert_eq!(one(&mut ring).result, Ok(10));
        assert_eq!(fs::read(directory.path().join("f")).unwrap()[..11], *b"hhhhhhhhhha");
    }
}

#[test]
fn names_are_made_moved_asked_for_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let Some(mut ring) = ring(4, 4096, false) else { return };
    if !ring.makes_metadata_calls() {
        return println!("skipped: the kernel makes no metadata calls through io_uring");
    }
    let dir = root(&mut ring, directory.path());
    let made = |ring: &mut Ring, expected: CallResult<u32>| {
        assert_eq!(one(ring).result, expected);
    };
    ring.mkdir(0, dir, c"sub").unwrap();
    made(&mut ring, Ok(0));
    ring.mkdir(0, dir, c"sub").unwrap();
    made(&mut ring, Err(Errno::EXIST));
    ring.open(1, dir, c"sub/f", NEW).unwrap();
    let file = one(&mut ring).opened.unwrap();
    ring.fallocate(2, file, 0, 10_000).unwrap();
    made(&mut ring, Ok(0));
    ring.fsync(2, file).unwrap();
    made(&mut ring, Ok(0));
    ring.fdatasync(2, file).unwrap();
    made(&mut ring, Ok(0));
    ring.sync_file_range(2, file, 0, 0).unwrap();
    made(&mut ring, Ok(0));
    ring.punch(2, file, 0, 4096).unwrap();
    made(&mut ring, Ok(0));
    let mut size = 10_000;
    if ring.makes_truncate() {
        ring.truncate(2, file, 777).unwrap();
        made(&mut ring, Ok(0));
        size = 777;
    }
    ring.close(2, file).unwrap();
    made(&mut ring, Ok(0));
    assert_eq!(ring.close(2, file), Err(Errno::BADF));
    assert_eq!(ring.read(2, file, 0, 1), Err(Errno::BADF));
    ring.rename(3, (dir, c"sub/f"), (dir, c"g")).unwrap();
    made(&mut ring, Ok(0));
    ring.link(3, (dir, c"g"), (dir, c"sub/h")).unwrap();
    made(&mut ring, Ok(0));
    ring.symlink(3, c"nowhere", dir, c"s").unwrap();
    made(&mut ring, Ok(0));
    for (name, kind) in
        [(c"sub", FileKind::Directory), (c"sub/h", FileKind::File), (c"s", FileKind::Symlink)]
    {
        ring.stat(0, dir, name).unwrap();
        made(&mut ring, Ok(0));
        let facts = ring.facts(0);
        assert_eq!((facts.kind, facts), (kind, Real.stat(&open_root(&directory), name).unwrap()));
    }
    ring.stat(0, dir, c"g").unwrap();
    made(&mut ring, Ok(0));
    assert_eq!(ring.facts(0).size, size);
    for name in [c"g", c"sub/h", c"s"] {
        ring.unlink(0, dir, name).unwrap();
        made(&mut ring, Ok(0));
    }
    ring.rmdir(0, dir, c"sub").unwrap();
    made(&mut ring, Ok(0));
    ring.unlink(0, dir, c"g").unwrap();
    made(&mut ring, Err(Errno::NOENT));
    let long = std::ffi::CString::new(vec![b'x'; 5000]).unwrap();
    assert_eq!(ring.unlink(0, dir, &long), Err(Errno::NAMETOOLONG));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

fn open_root(directory: &tempfile::TempDir) -> OwnedFd {
    Real.open_root(directory.path()).unwrap()
}

#[test]
fn a_time_limit_ends_a_wait_and_dropping_waits_for_the_rest() {
    let Some(mut ring) = ring(2, 0, false) else { return };
    let start = Instant::now();
    ring.timeout(0, Duration::from_secs(1));
    ring.submit_and_wait_for(1, Duration::from_millis(20)).unwrap();
    assert!(ring.next_completion().is_none());
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    drop(ring);
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
}

#[test]
fn files_are_taken_back_and_none_is_left_open() {
    let directory = tempfile::tempdir().unwrap();
    let Some(mut ring) = ring(1, 4096, false) else { return };
    let dir = root(&mut ring, directory.path());
    ring.open(0, dir, c"f", NEW).unwrap();
    let file = one(&mut ring).opened.unwrap();
    ring.buffer_mut(0).fill(b'x');
    ring.write(0, file, 0, 4096).unwrap();
    assert_eq!(ring.take_file(file).unwrap_err(), Errno::BUSY);
    assert_eq!(one(&mut ring).result, Ok(4096));
    let taken = ring.take_file(file).unwrap();
    assert_eq!(Real.stat_open(&taken).unwrap().size, 4096);
    assert_eq!(ring.take_file(file).unwrap_err(), Errno::BADF);
    ring.open(0, dir, c"f", OpenFlags::READ).unwrap();
    let again = one(&mut ring).opened.unwrap();
    let number = ring.files[again.0 as usize].file.as_ref().unwrap().as_raw_fd();
    drop(ring);
    let link = fs::read_link(format!("/proc/self/fd/{number}"));
    assert!(!link.is_ok_and(|path| path == directory.path().join("f")));
}

#[test]
#[should_panic(expected = "is in use")]
fn the_buffer_of_a_call_under_way_cannot_be_touched() {
    let Some(mut ring) = ring(1, 4096, false) else { panic!("slot 0 is in use: skipped") };
    ring.timeout(0, Duration::from_millis(1));
    ring.buffer_mut(0).fill(0);
}

#[test]
fn refusals_are_explained() {
    for (errno, word) in [
        (Errno::NOSYS, "Linux 5.6"),
        (Errno::PERM, "kernel.io_uring_disabled"),
        (Errno::NOMEM, "ulimit -l"),
        (Errno::INVAL, "EINVAL"),
    ] {
        let text = Unavailable { errno }.to_string();
        assert!(text.contains(word), "{text}");
    }
    let refused = Ring::new(RingSettings { depth: 0, buffer_bytes: 1, registered: false });
    assert!(refused.is_err());
}
