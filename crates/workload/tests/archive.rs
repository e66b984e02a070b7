//! Archives: what is extracted is what GNU tar extracts, nothing leaves the root, and no bytes, however
//! damaged, make a panic.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use fsdyno_sys::calls::{Calls, Null, Real};
use fsdyno_workload::archive::{Archive, Compression, ExtractOptions, Extracted, Survey, extract};
use fsdyno_workload::recorder::{Operation, Recorder};
use proptest::prelude::*;
use support::SmallFilesystem;

/// Everything about one name that an archive restores.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    mode: u32,
    /// Contents of a file or target of a link.
    bytes: Vec<u8>,
    modified_s: Option<i64>,
    /// First name, in order, of the same file.
    first_name: Option<PathBuf>,
}

fn tree(root: &Path) -> BTreeMap<PathBuf, Found> {
    let mut names = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
            names.push(entry.path());
        }
    }
    names.sort();
    let mut inodes: BTreeMap<u64, PathBuf> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for path in names {
        let facts = fs::symlink_metadata(&path).unwrap();
        let name = path.strip_prefix(root).unwrap().to_owned();
        let kind = facts.file_type();
        let bytes = if kind.is_symlink() {
            fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
        } else if kind.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        let first = kind.is_file().then(|| inodes.entry(facts.ino()).or_insert(name.clone()));
        let first_name = first.map(|first| first.clone());
        // Nobody reads the times of links, and they are not restored.
        let modified_s = (!kind.is_symlink()).then(|| facts.mtime());
        found.insert(name, Found { mode: facts.mode(), bytes, modified_s, first_name });
    }
    found
}

/// A tree with everything that is odd about names, sizes, modes and links.
fn odd_tree(top: &Path) {
    let write = |name: &str, size: usize, mode: u32| {
        let path = top.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let bytes: Vec<u8> = (0..size).map(|index| (index * 31 % 251) as u8 ^ size as u8).collect();
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for size in [0, 1, 511, 512, 513, 4096, 131_072, 262_144, 262_145, 1_500_000] {
        write(&format!("sizes/{size}"), size, 0o644);
    }
    for mode in [0o000, 0o400, 0o444, 0o600, 0o640, 0o666, 0o711, 0o755, 0o777] {
        write(&format!("modes/{mode:o}"), 10, mode);
    }
    let (long, longest) = ("n".repeat(120), "m".repeat(255));
    write(&format!("{long}/{longest}/{long}/file"), 700, 0o644);
    write(&format!("names/{}", "e".repeat(100)), 5, 0o644);
    write("names/with space, ünïcode and\nnewline", 6, 0o644);
    fs::write(top.join("names").join(std::ffi::OsStr::from_bytes(b"not-\xff-utf8")), "x").unwrap();
    fs::create_dir_all(top.join("directories/empty")).unwrap();
    write("directories/closed/inside", 3, 0o644);
    for (name, mode) in [("closed", 0o500), ("empty", 0o1777)] {
        let path = top.join("directories").join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir(top.join("links")).unwrap();
    symlink("../sizes/512", top.join("links/relative")).unwrap();
    symlink("/nowhere/at/all", top.join("links/absolute")).unwrap();
    symlink("t".repeat(300), top.join("links/long")).unwrap();
    fs::hard_link(top.join("sizes/4096"), top.join("links/hard")).unwrap();
    fs::hard_link(top.join(&long).join(&longest).join(&long).join("file"), top.join("links/far"))
        .unwrap();
    let sparse = fs::File::create(top.join("sizes/sparse")).unwrap();
    for start in (0..40u64).map(|index| index * 65_536 + 4096) {
        std::os::unix::fs::FileExt::write_all_at(&sparse, &[7; 4096], start).unwrap();
    }
    sparse.set_len(3_000_000).unwrap();
    fs::File::open(top.join("sizes/1"))
        .unwrap()
        .set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(86_400))
        .unwrap();
}

/// Runs a program; `false`, with the reason printed, where it is absent.
fn program(name: &str, configure: impl FnOnce(&mut Command)) -> bool {
    let mut command = Command::new(name);
    configure(&mut command);
    match command.output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{command:?}: {text}");
            true
        }
        Err(error) => {
            println!("skipped: {name} cannot be run: {error}");
            false
        }
    }
}

fn compressor(compression: Compression) -> Option<&'static str> {
    match compression {
        Compression::None => None,
        Compression::Gzip => Some("gzip"),
        Compression::Zstd => Some("zstd"),
        Compression::Xz => Some("xz"),
    }
}

fn options(strip_components: u64) -> ExtractOptions {
    ExtractOptions { strip_components, ..ExtractOptions::default() }
}

fn unpack(
    archive: &Path,
    into: &Path,
    strip_components: u64,
) -> anyhow::Result<(Extracted, Recorder)> {
    fs::create_dir_all(into).unwrap();
    let root = Real.open_root(into).unwrap();
    let mut recorder = Recorder::new();
    let archive = Archive::open(archive)?;
    let made = extract(&Real, &root, &archive, options(strip_components), &mut recorder, |_| {})?;
    Ok((made, recorder))
}

#[test]
fn the_result_is_that_of_gnu_tar() {
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("source");
    odd_tree(&source);
    let fifo = source.join("pipe");
    if !program("mkfifo", |it| {
        it.arg(&fifo);
    }) {
        return;
    }
    for (format, compression) in [
        ("gnu", Compression::None),
        ("pax", Compression::None),
        ("gnu", Compression::Gzip),
        ("pax", Compression::Zstd),
        ("gnu", Compression::Xz),
    ] {
        let label = format!("{format}.{}", compression.suffix());
        let archive = scratch.path().join("named-without-any-suffix");
        let made = program("tar", |it| {
            it.arg(format!("--format={format}")).arg("-cf").arg(&archive);
            it.args(compressor(compression).map(|name| format!("--use-compress-program={name}")));
            // Old sparse entries are understood, those of pax are files with names of their own.
            it.args((format == "gnu").then_some("--sparse")).arg("-C").arg(scratch.path());
            it.arg("./source");
        });
        let (theirs, ours) = (scratch.path().join("theirs"), scratch.path().join("ours"));
        fs::create_dir(&theirs).unwrap();
        let extracted = program("tar", |it| {
            it.args(["-p", "--strip-components=2", "-xf"]).arg(&archive).arg("-C").arg(&theirs);
        });
        if !(made && extracted) {
            return;
        }
        fs::remove_file(theirs.join("pipe")).unwrap();
        let opened = Archive::open(&archive).unwrap();
        assert_eq!(opened.compression(), compression);
        let (extracted, recorder) = unpack(&archive, &ours, 1).unwrap();
        let (theirs_found, ours_found) = (tree(&theirs), tree(&ours));
        assert!(ours_found.len() > 35, "{label}: {}", ours_found.len());
        for (name, found) in &theirs_found {
            assert!(ours_found.get(name) == Some(found), "{label}: {}", name.display());
        }
        assert_eq!(theirs_found.len(), ours_found.len(), "{label}");
        let survey = opened.survey().unwrap();
        assert_eq!((extracted.files, extracted.skipped), (survey.files, 1), "{label}");
        assert_eq!((survey.hard_links, survey.symlinks, survey.skipped), (2, 3, 1), "{label}");
        assert_eq!(extracted.bytes, survey.content_bytes, "{label}");
        assert_eq!((recorder.bytes, recorder.files), (extracted.bytes, extracted.files));
        let count = |operation| recorder.count(operation);
        assert_eq!(count(Operation::Create), extracted.files);
        assert_eq!((count(Operation::Link), count(Operation::Symlink)), (2, 3));
        assert_eq!(count(Operation::Close), count(Operation::Create) + count(Operation::Open));
        for directory in [&theirs, &ours] {
            fs::remove_dir_all(directory).unwrap();
        }
    }
}

/// One entry of a made-up archive: type, name, link name, contents.
type Made<'a> = (tar::EntryType, &'a [u8], &'a [u8], &'a [u8]);

/// Writes names as they are: the library's own functions refuse the odd ones.
fn archive_of(entries: &[Made<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, name, link, contents) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
        header.set_size(contents.len() as u64);
        header.set_mode(0o4644);
        header.set_mtime(1_000_000);
        header.set_uid(0);
        header.set_gid(0);
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(contents);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

const FILE: tar::EntryType = tar::EntryType::Regular;
const DIRECTORY: tar::EntryType = tar::EntryType::Directory;
const SYMLINK: tar::EntryType = tar::EntryType::Symlink;
const LINK: tar::EntryType = tar::EntryType::Link;

/// A directory with an archive, an empty root and a file outside that must not change.
struct Cell(tempfile::TempDir);

impl Cell {
    fn new() -> Cell {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("root")).unwrap();
        fs::create_dir(directory.path().join("outside")).unwrap();
        fs::write(directory.path().join("outside/victim"), "untouched").unwrap();
        Cell(directory)
    }

    fn extract(&self, bytes: &[u8], strip_components: u64) -> anyhow::Result<Extracted> {
        fs::write(self.archive(), bytes).unwrap();
        unpack(&self.archive(), &self.root(), strip_components).map(|(made, _)| made)
    }

    fn archive(&self) -> PathBuf {
        self.0.path().join("archive")
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("root")
    }

    fn assert_nothing_outside(&self) {
        let outside = self.0.path().join("outside");
        assert_eq!(fs::read(outside.join("victim")).unwrap(), b"untouched");
        assert_eq!(fs::metadata(outside.join("victim")).unwrap().nlink(), 1);
        assert_eq!(fs::read_dir(outside).unwrap().count(), 1);
        assert_eq!(fs::read_dir(self.0.path()).unwrap().count(), 3);
    }
}

#[test]
fn nothing_leaves_the_root() {
    let cases: &[(&[Made<'_>], &str, &str)] = &[
        (&[(FILE, b"/tmp/evil", b"", b"x")], "/tmp/evil", "absolute"),
        (&[(FILE, b"../outside/victim", b"", b"x")], "../outside/victim", "upwards"),
        (&[(FILE, b"a/../../outside/new", b"", b"x")], "a/../../outside/new", "upwards"),
        (&[(DIRECTORY, b"..", b"", b"")], "..", "upwards"),
        (
            &[(SYMLINK, b"way", b"../outside", b""), (FILE, b"way/victim", b"", b"x")],
            "way/victim",
            "symbolic link",
        ),
        (
            &[(SYMLINK, b"way", b"../outside", b""), (DIRECTORY, b"way/new", b"", b"")],
            "way/new",
            "symbolic link",
        ),
        (&[(SYMLINK, b"way", b"../outside", b""), (DIRECTORY, b"way/", b"", b"")], "way/", "link"),
        (
            &[(SYMLINK, b"way", b"../outside", b""), (LINK, b"own", b"way/victim", b"")],
            "own",
            "symbolic link",
        ),
        (&[(LINK, b"own", b"../outside/victim", b"")], "own", "upwards"),
        (&[(LINK, b"own", b"/etc/passwd", b"")], "own", "absolute"),
        (
            &[(FILE, b"plain", b"", b"x"), (FILE, b"plain/below", b"", b"x")],
            "plain/below",
            "a file",
        ),
    ];
    for (entries, entry, word) in cases {
        let cell = Cell::new();
        let error = cell.extract(&archive_of(entries), 0).unwrap_err().to_string();
        assert!(error.contains(&format!("entry `{entry}` at byte ")), "{error}");
        assert!(error.contains(word), "{error}");
        cell.assert_nothing_outside();
    }
    // A link itself may lead anywhere; what replaces it is not written through it.
    let cell = Cell::new();
    let entries: &[Made<'_>] =
        &[(SYMLINK, b"way", b"../outside/victim", b""), (FILE, b"way", b"", b"mine")];
    cell.extract(&archive_of(entries), 0).unwrap();
    assert_eq!(fs::read(cell.root().join("way")).unwrap(), b"mine");
    assert!(fs::symlink_metadata(cell.root().join("way")).unwrap().is_file());
    cell.assert_nothing_outside();
}

#[test]
fn names_are_stripped_and_later_entries_win() {
    let cell = Cell::new();
    let bytes = archive_of(&[
        (DIRECTORY, b"top/", b"", b""),
        (FILE, b"top/a/one", b"", b"first"),
        (LINK, b"top/two", b"top/a/one", b""),
        (FILE, b"top/a/one", b"", b"second"),
        (FILE, b"stray", b"", b"left out"),
        (tar::EntryType::Char, b"top/null", b"", b""),
        (tar::EntryType::XGlobalHeader, b"pax_global_header", b"", b"16 comment=hello\n"),
    ]);
    let made = cell.extract(&bytes, 1).unwrap();
    let expected =
        Extracted { files: 2, hard_links: 1, skipped: 1, bytes: 11, ..Extracted::default() };
    assert_eq!(made, expected);
    let read = |name: &str| fs::read(cell.root().join(name)).unwrap();
    assert_eq!((read("a/one"), read("two")), (b"second".to_vec(), b"first".to_vec()));
    assert_eq!(fs::read_dir(cell.root()).unwrap().count(), 2);
    let facts = fs::metadata(cell.root().join("two")).unwrap();
    assert_eq!(facts.mode() & 0o7777, 0o644, "set-user-ID means nothing without the owner");
    assert_eq!(facts.mtime(), 1_000_000);
    let survey = Archive::open(&cell.archive()).unwrap().survey().unwrap();
    let counted = Survey {
        files: 3,
        directories: 1,
        hard_links: 1,
        symlinks: 0,
        skipped: 1,
        content_bytes: 19,
        rounded_bytes: 4 * 4096,
    };
    assert_eq!(survey, counted);
}

fn compressed(bytes: &[u8], compression: Compression) -> Vec<u8> {
    match compression {
        Compression::None => bytes.to_vec(),
        Compression::Gzip => {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Zstd => {
            let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
            encoder.include_checksum(true).unwrap();
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Compression::Xz => {
            let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
    }
}

fn small_archive() -> Vec<u8> {
    let noise: Vec<u8> = (0..3000u32).map(|index| (index.wrapping_mul(index) >> 5) as u8).collect();
    archive_of(&[
        (DIRECTORY, b"d/", b"", b""),
        (FILE, b"d/first", b"", &noise),
        (tar::EntryType::GNULongName, b"././@LongLink", b"", &[b'l'; 150]),
        (FILE, b"short", b"", b"long"),
        (tar::EntryType::XHeader, b"pax", b"", b"18 path=d/by-pax-\n"),
        (FILE, b"other", b"", &noise[..700]),
        (SYMLINK, b"d/s", b"first", b""),
        (LINK, b"d/h", b"d/first", b""),
    ])
}

#[test]
fn what_is_cut_short_or_damaged_is_told_with_its_place() {
    let whole = small_archive();
    for compression in Compression::ALL {
        let bytes = compressed(&whole, compression);
        let cell = Cell::new();
        let made = cell.extract(&bytes, 0).unwrap();
        assert_eq!((made.files, made.hard_links, made.symlinks), (3, 1, 1), "{compression:?}");
        let steps = (0..bytes.len()).step_by(if compression == Compression::None { 97 } else { 7 });
        for length in steps.chain([512, 1024, bytes.len() - 1]) {
            // Two blocks of zeros mark the end, and the first of them is enough.
            if compression == Compression::None && length >= whole.len() - 512 {
                continue;
            }
            let cell = Cell::new();
            let error = match cell.extract(&bytes[..length], 0) {
                Ok(made) => panic!("{compression:?} cut to {length}: {made:?}"),
                Err(error) => error.to_string(),
            };
            let known = error.contains("is damaged or cut short at byte ") || length < 512;
            assert!(known, "{compression:?} cut to {length}: {error}");
        }
        if compression != Compression::None {
            let mut flipped = bytes.clone();
            let middle = flipped.len() / 2;
            flipped[middle] ^= 0x40;
            let error = Cell::new().extract(&flipped, 0).unwrap_err().to_string();
            assert!(error.contains("damaged"), "{compression:?}: {error}");
        }
    }
    let error = Cell::new().extract(&whole[..2000], 0).unwrap_err().to_string();
    assert!(
        error.contains("at byte 2000 of its decompressed bytes, in or after `d/first`"),
        "{error}"
    );
    for wrong in [&b""[..], b"hello", &[b'x'; 4096]] {
        let error = Cell::new().extract(wrong, 0).unwrap_err().to_string();
        assert!(error.contains("is no archive"), "{error}");
    }
}

#[test]
fn headers_that_never_end_are_not_held_in_memory() {
    // 1 GiB of a name, some kilobytes of zstd.
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_size(1 << 30);
    header.set_cksum();
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.write_all(header.as_bytes()).unwrap();
    for _ in 0..1024 {
        encoder.write_all(&[b'a'; 1 << 20]).unwrap();
    }
    let error = Cell::new().extract(&encoder.finish().unwrap(), 0).unwrap_err().to_string();
    assert!(error.contains("too long"), "{error}");
}

#[test]
fn a_full_target_is_told_with_call_and_path() {
    let Some(small) = SmallFilesystem::mount("1m") else { return };
    let cell = Cell::new();
    let contents = vec![7; 600 << 10];
    let entries: &[Made<'_>] = &[(FILE, b"d/a", b"", &contents), (FILE, b"d/b", b"", &contents)];
    fs::write(cell.archive(), archive_of(entries)).unwrap();
    let error = unpack(&cell.archive(), &small.path(), 0).unwrap_err().to_string();
    assert!(error.starts_with("write d/b: ENOSPC"), "{error}");
}

#[test]
fn null_calls_go_the_same_way() {
    let cell = Cell::new();
    fs::write(cell.archive(), small_archive()).unwrap();
    let archive = Archive::open(&cell.archive()).unwrap();
    let mut told = 0;
    let advance = |bytes| told += bytes;
    let mut recorder = Recorder::new();
    let made = extract(&Null, &(), &archive, options(0), &mut recorder, advance).unwrap();
    assert_eq!((made.files, made.bytes, told), (3, 3704, 3704));
    let mut loaded = 0;
    archive.preload(|bytes| loaded += bytes).unwrap();
    assert_eq!(loaded, archive.size_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_make_a_panic_or_leave_the_root(
        changes in proptest::collection::vec((0usize..10_000, any::<u8>()), 1..12),
        cut in 0usize..12_000,
        kind in 0usize..4,
        fix_checksums in any::<bool>(),
    ) {
        let mut bytes = small_archive();
        let length = bytes.len();
        for (place, byte) in &changes {
            bytes[place % length] = *byte;
        }
        if fix_checksums {
            // So that the changes are looked at and not only the sum.
            for block in bytes.as_chunks_mut::<512>().0 {
                if block[257..262] == *b"ustar" {
                    let mut header = tar::Header::from_byte_slice(block).clone();
                    header.set_cksum();
                    block.copy_from_slice(header.as_bytes());
                }
            }
        }
        let compression = Compression::ALL[kind];
        let mut bytes = compressed(&bytes, compression);
        if compression != Compression::None && !fix_checksums {
            let length = bytes.len();
            bytes[changes[0].0 % length] ^= changes[0].1;
        }
        bytes.truncate(cut.max(1));
        let cell = Cell::new();
        // Either outcome will do.
        let _ = cell.extract(&bytes, 0);
        cell.assert_nothing_outside();
    }
}
