//! Tests of [`Real`] on a real directory and of [`Null`] on none.

use super::*;
use crate::buffer::AlignedBuffer;
use std::collections::BTreeMap;
use std::fs;

#[test]
fn files_are_made_written_read_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let root = Real.open_root(directory.path()).unwrap();
    Real.mkdir(&root, c"sub").unwrap();
    let sub = Real.open_dir(&root, c"sub").unwrap();
    for (flags, text, expected) in [
        (CreateFlags::EXCLUSIVE, "first", "first"),
        (CreateFlags::APPEND, "second", "firstsecond"),
        (CreateFlags::default(), "FI", "FIrstsecond"),
        (CreateFlags::TRUNCATE, "last", "last"),
    ] {
        let file = Real.create(&sub, c"f", flags).unwrap();
        Real.write_all(&file, text.as_bytes()).unwrap();
        Real.close(file).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("sub/f")).unwrap(), expected);
    }
    let file = Real.open_read(&sub, c"f").unwrap();
    let mut buffer = [0; 16];
    assert_eq!(Real.read(&file, &mut buffer), Ok(4));
    assert_eq!(Real.read(&file, &mut buffer), Ok(0));
    Real.close(file).unwrap();
    let file = Real.create(&sub, c"f", CreateFlags::default()).unwrap();
    Real.truncate(&file, 1000).unwrap();
    Real.fdatasync(&file).unwrap();
    Real.fsync(&file).unwrap();
    Real.syncfs(&file).unwrap();
    assert_eq!(Real.stat(&sub, c"f").unwrap().size, 1000);
    Real.unlink(&sub, c"f").unwrap();
    Real.rmdir(&root, c"sub").unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn errors_come_back_as_the_kernel_gave_them() {
    let directory = tempfile::tempdir().unwrap();
    let root = Real.open_root(directory.path()).unwrap();
    Real.mkdir(&root, c"full").unwrap();
    Real.close(Real.create(&root, c"full/f", CreateFlags::EXCLUSIVE).unwrap()).unwrap();
    assert_eq!(Real.create(&root, c"full/f", CreateFlags::EXCLUSIVE).unwrap_err(), Errno::EXIST);
    assert_eq!(Real.open_read(&root, c"none").unwrap_err(), Errno::NOENT);
    assert_eq!(Real.stat(&root, c"none"), Err(Errno::NOENT));
    assert_eq!(Real.mkdir(&root, c"full"), Err(Errno::EXIST));
    assert_eq!(Real.rmdir(&root, c"full"), Err(Errno::NOTEMPTY));
    assert_eq!(Real.unlink(&root, c"full"), Err(Errno::ISDIR));
    assert_eq!(Real.open_dir(&root, c"full/f").unwrap_err(), Errno::NOTDIR);
    assert_eq!(Real.open_root(Path::new("/dev/null")).unwrap_err(), Errno::NOTDIR);
    let devices = Real.open_root(Path::new("/dev")).unwrap();
    let full = Real.create(&devices, c"full", CreateFlags::default()).unwrap();
    assert_eq!(Real.write_all(&full, b"x"), Err(Errno::NOSPC));
    assert_eq!(Real.write_all(&full, b""), Ok(()));
}

#[test]
fn symbolic_links_are_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let root = Real.open_root(directory.path()).unwrap();
    Real.mkdir(&root, c"d").unwrap();
    std::os::unix::fs::symlink("d", directory.path().join("link")).unwrap();
    assert_eq!(Real.stat(&root, c"link").unwrap().kind, FileKind::Symlink);
    assert_eq!(Real.stat(&root, c"d").unwrap().kind, FileKind::Directory);
    assert!(Real.open_dir(&root, c"link").is_err());
}

#[test]
fn listings_are_complete_through_any_sufficient_buffer() {
    let directory = tempfile::tempdir().unwrap();
    let root = Real.open_root(directory.path()).unwrap();
    Real.mkdir(&root, c"d").unwrap();
    for index in 0..500 {
        fs::write(directory.path().join(format!("file{index:0200}")), "").unwrap();
    }
    for size in [300, 4096, 32 << 10] {
        let fresh = Real.open_root(directory.path()).unwrap();
        let mut buffer = vec![MaybeUninit::uninit(); size];
        let mut found = BTreeMap::new();
        let visit = |name: &CStr, kind, ino| {
            found.insert(name.to_owned(), (kind, ino));
        };
        Real.list(&fresh, &mut buffer, visit).unwrap();
        assert_eq!(found.len(), 501, "through {size} bytes");
        for (name, (kind, ino)) in found {
            let facts = Real.stat(&root, &name).unwrap();
            assert!(kind == facts.kind || kind == FileKind::Unknown);
            assert_eq!(ino, facts.ino);
        }
    }
    let mut small = [MaybeUninit::uninit(); 100];
    let fresh = Real.open_root(directory.path()).unwrap();
    let mut reader = DirReader::new(fresh.as_fd(), &mut small);
    let error = loop {
        match reader.next_entry() {
            Ok(Some(entry)) => assert!(entry.name().to_bytes().len() < 100),
            Ok(None) => panic!("a name of 204 bytes came through 100"),
            Err(errno) => break errno,
        }
    };
    assert_eq!(error, Errno::INVAL);
}

#[test]
fn files_are_opened_with_flags_and_used_at_offsets() {
    let directory = tempfile::tempdir().unwrap();
    let root = Real.open_root(directory.path()).unwrap();
    let new = OpenFlags { create: true, exclusive: true, ..OpenFlags::READ_WRITE };
    let file = Real.open_with(&root, c"f", new).unwrap();
    assert_eq!(Real.open_with(&root, c"f", new).unwrap_err(), Errno::EXIST);
    Real.write_all_at(&file, b"world", 6).unwrap();
    Real.write_all_at(&file, b"hello ", 0).unwrap();
    let mut buffer = [0; 16];
    assert_eq!(Real.read(&file, &mut buffer), Ok(11), "the file position must stay at 0");
    assert_eq!(&buffer[..11], b"hello world");
    assert_eq!(Real.read_at(&file, &mut buffer[..3], 6), Ok(3));
    assert_eq!(&buffer[..3], b"wor");
    assert_eq!(Real.read_at(&file, &mut buffer, 11), Ok(0));
    Real.seek(&file, 9).unwrap();
    assert_eq!(Real.read(&file, &mut buffer), Ok(2));
    assert_eq!(Real.seek(&file, u64::MAX), Err(Errno::INVAL));
    assert_eq!(Real.stat_open(&file), Real.stat(&root, c"f"));
    assert_eq!(Real.stat_open(&root).unwrap().kind, FileKind::Directory);
    for (flags, text) in [
        (OpenFlags::WRITE, "HELLO world"),
        (OpenFlags { append: true, ..OpenFlags::WRITE }, "HELLO worldHELLO"),
        (OpenFlags { truncate: true, ..OpenFlags::WRITE }, "HELLO"),
    ] {
        let file = Real.open_with(&root, c"f", flags).unwrap();
        assert_eq!(Real.read(&file, &mut buffer), Err(Errno::BADF), "{flags:?}");
        Real.write_all(&file, b"HELLO").unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("f")).unwrap(), text, "{flags:?}");
    }
    for flags in [OpenFlags::READ, OpenFlags::default()] {
        let file = Real.open_with(&root, c"f", flags).unwrap();
        assert_eq!(Real.write_all_at(&file, b"x", 0), Err(Errno::BADF), "{flags:?}");
        assert!(rustix::io::fcntl_getfd(&file).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    }
    assert_eq!(Real.open_with(&root, c"none", OpenFlags::WRITE).unwrap_err(), Errno::NOENT);
}

#[test]
fn names_are_renamed_linked_and_made_symbolic() {
    let directory = tempfile::tempdir().unwrap();
    let root = Real.open_root(directory.path()).unwrap();
    Real.mkdir(&root, c"d").unwrap();
    let sub = Real.open_dir(&root, c"d").unwrap();
    Real.close(Real.create(&root, c"f", CreateFlags::EXCLUSIVE).unwrap()).unwrap();
    let ino = Real.stat(&root, c"f").unwrap().ino;
    Real.link(&root, c"f", &sub, c"second").unwrap();
    assert_eq!(Real.link(&root, c"f", &sub, c"second"), Err(Errno::EXIST));
    Real.rename(&root, c"f", &sub, c"g").unwrap();
    assert_eq!(Real.stat(&root, c"f"), Err(Errno::NOENT));
    for name in [c"second", c"g"] {
        assert_eq!(Real.stat(&sub, name).unwrap().ino, ino);
    }
    Real.symlink(c"d/g", &root, c"s").unwrap();
    assert_eq!(fs::read_link(directory.path().join("s")).unwrap(), Path::new("d/g"));
    assert_eq!(Real.stat(&root, c"s").unwrap().kind, FileKind::Symlink);
    Real.link(&root, c"s", &root, c"t").unwrap();
    assert_eq!(Real.stat(&root, c"t").unwrap().kind, FileKind::Symlink);
    assert_eq!(Real.rename(&root, c"f", &root, c"h"), Err(Errno::NOENT));
}

#[test]
fn read_ahead_and_direct_io_work_on_a_disk() {
    let program = std::env::current_exe().unwrap();
    let directory = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
    let on_disk = crate::mount::mount_containing(directory.path()).unwrap().unwrap();
    let root = Real.open_root(directory.path()).unwrap();
    let new = OpenFlags { create: true, direct: true, ..OpenFlags::READ_WRITE };
    let mut block = AlignedBuffer::new(8192);
    block.fill(7);
    let file = match Real.open_with(&root, c"f", new) {
        Err(Errno::INVAL) => return println!("skipped: {} has no direct i/o", on_disk.fs_type),
        other => other.unwrap(),
    };
    Real.write_all_at(&file, &block, 8192).unwrap();
    assert!(rustix::fs::fcntl_getfl(&file).unwrap().contains(OFlags::DIRECT));
    block.fill(0);
    assert_eq!(Real.read_at(&file, &mut block, 8192), Ok(8192));
    assert!(block.iter().all(|&byte| byte == 7));
    let file = Real.open_read(&root, c"f").unwrap();
    Real.readahead(&file, 0, 16384).unwrap();
    assert_eq!(Real.readahead(&file, u64::MAX, 1), Err(Errno::INVAL));
    assert!(Real.readahead(&root, 0, 4096).is_err(), "a directory has no data to read ahead");
}

/// Everything that a workload does, through any implementation.
fn exercise<C: Calls>(calls: &C, root: &Path) -> CallResult<usize> {
    let root = calls.open_root(root)?;
    calls.mkdir(&root, c"d")?;
    let directory = calls.open_dir(&root, c"d")?;
    let file = calls.create(&directory, c"f", CreateFlags::TRUNCATE)?;
    calls.write_all(&file, &[1; 5000])?;
    calls.truncate(&file, 4000)?;
    calls.fsync(&file)?;
    calls.close(file)?;
    let file = calls.open_read(&directory, c"f")?;
    let count = calls.read(&file, &mut [0; 8192])?;
    calls.close(file)?;
    calls.stat(&directory, c"f")?;
    let file = calls.open_with(&directory, c"f", OpenFlags::READ_WRITE)?;
    calls.seek(&file, 10)?;
    calls.readahead(&file, 0, 4000)?;
    calls.write_all_at(&file, &[1; 10], 10)?;
    assert_eq!(calls.stat_open(&file)?.size, calls.stat(&directory, c"f")?.size);
    assert_eq!(calls.read_at(&file, &mut [0; 100], 3950)?.min(50), count.min(50));
    calls.close(file)?;
    calls.link(&directory, c"f", &root, c"g")?;
    calls.rename(&root, c"g", &root, c"h")?;
    calls.symlink(c"h", &root, c"s")?;
    calls.unlink(&root, c"h")?;
    calls.unlink(&root, c"s")?;
    calls.list(&directory, &mut dir_buffer(), |name, _, _| assert_eq!(name, c"f"))?;
    calls.unlink(&directory, c"f")?;
    calls.rmdir(&root, c"d")?;
    Ok(count)
}

#[test]
fn null_calls_succeed_and_touch_nothing() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(exercise(&Real, directory.path()), Ok(4000));
    assert_eq!(exercise(&Null, Path::new("/no/such/directory")), Ok(0));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
