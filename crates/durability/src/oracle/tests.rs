//! Histories, what is found after them, and what is broken.

use std::collections::BTreeMap;

use super::*;
use crate::content;
use crate::history::{Deed, Operation};
use crate::promises::MANUAL;

const SEED: u64 = 5;
const RULES: Rules = Rules { seed: SEED, promises: MANUAL };

/// A history in which each operation takes one entry: operation N begins at N - 1 and ends at N.
fn history(deeds: Vec<Deed>) -> History {
    let operation = |(at, deed)| Operation { deed, began: at, ended: at + 1 };
    let operations = (0..).zip(deeds).map(operation).collect();
    History { directories: vec!["d".to_owned()], operations }
}

fn create(name: &str, file: u32) -> Deed {
    Deed::Create { name: format!("d/{name}"), file, inode: u64::from(file) + 100 }
}

fn write(file: u32, offset: u64, length: u64) -> Deed {
    Deed::Write { file, offset, length }
}

fn rename(from: &str, to: &str) -> Deed {
    Deed::Rename { from: format!("d/{from}"), to: format!("d/{to}") }
}

fn fsync(file: u32) -> Deed {
    Deed::Fsync { file, data_only: false }
}

fn directory() -> Deed {
    Deed::SyncDirectory { directory: "d".to_owned() }
}

fn bytes(file: u32, operation: u32, offset: u64, length: u64) -> Vec<u8> {
    content::bytes(SEED, file, operation, offset, length)
}

fn tree(files: &[(&str, u32, Vec<u8>)]) -> FoundTree {
    let found = |(name, file, contents): &(&str, u32, Vec<u8>)| {
        let found = FoundFile { inode: u64::from(*file) + 100, contents: Ok(contents.clone()) };
        (format!("d/{name}"), Ok(found))
    };
    FoundTree { files: files.iter().map(found).collect(), lost_directories: BTreeMap::new() }
}

#[track_caller]
fn assert_judged(
    history: &History,
    cut: u64,
    files: &[(&str, u32, Vec<u8>)],
    expected: Option<Promise>,
) {
    let broken = judge(history, &tree(files), cut, RULES);
    assert_eq!(broken.first().map(|one| one.promise), expected, "{broken:?}");
}

#[test]
fn durable_data_stay_and_newer_ones_may_come() {
    let history =
        history(vec![create("a", 1), write(1, 0, 64), fsync(1), directory(), write(1, 32, 64)]);
    let old = bytes(1, 2, 0, 64);
    let new = [bytes(1, 2, 0, 32), bytes(1, 5, 32, 64)].concat();
    // Before anything was acknowledged.
    assert_judged(&history, 2, &[], None);
    assert_judged(&history, 2, &[("a", 1, Vec::new())], None);
    assert_judged(&history, 2, &[("a", 1, vec![0; 64])], None);
    // Data are durable, the name is not.
    assert_judged(&history, 3, &[], None);
    assert_judged(&history, 3, &[("a", 1, vec![0; 64])], Some(Promise::DataKept));
    assert_judged(&history, 3, &[("a", 1, old[..32].to_vec())], Some(Promise::SizeKept));
    // Both are.
    assert_judged(&history, 4, &[], Some(Promise::NameKept));
    assert_judged(&history, 4, &[("a", 1, old.clone())], None);
    assert_judged(&history, 4, &[("a", 1, new.clone())], Some(Promise::SizeKept));
    // The second write is under way: each record may be old or new.
    let mixed = [bytes(1, 2, 0, 48), bytes(1, 5, 48, 48)].concat();
    let holed = [bytes(1, 2, 0, 64), vec![0; 32]].concat();
    for contents in [&old, &new, &mixed, &holed] {
        assert_judged(&history, 5, &[("a", 1, contents.clone())], None);
    }
    let lost = [vec![0; 32], bytes(1, 5, 32, 64)].concat();
    assert_judged(&history, 5, &[("a", 1, lost)], Some(Promise::DataKept));
}

#[test]
fn anothers_data_are_seen_whatever_was_promised() {
    let history = history(vec![create("a", 1), write(1, 0, 64), create("b", 2), write(2, 0, 64)]);
    let swapped = [("a", 1, bytes(2, 4, 0, 64))];
    assert_judged(&history, 4, &swapped, Some(Promise::OwnData));
    assert_judged(&history, 4, &[("a", 1, vec![7; 64])], Some(Promise::OwnData));
    // Of the right file in the wrong place.
    assert_judged(&history, 4, &[("a", 1, bytes(1, 2, 16, 64))], Some(Promise::OwnData));
}

#[test]
fn what_was_cut_off_does_not_come_back() {
    let history = history(vec![
        create("a", 1),
        write(1, 0, 64),
        Deed::Truncate { file: 1, size: 16 },
        fsync(1),
        write(1, 48, 16),
    ]);
    let good = [bytes(1, 2, 0, 16), vec![0; 32], bytes(1, 5, 48, 16)].concat();
    assert_judged(&history, 5, &[("a", 1, good)], None);
    let stale = [bytes(1, 2, 0, 48), bytes(1, 5, 48, 16)].concat();
    assert_judged(&history, 5, &[("a", 1, stale)], Some(Promise::DataKept));
}

#[test]
fn names_that_are_durably_gone_stay_away() {
    let unlink = Deed::Unlink { name: "d/a".to_owned() };
    let history = history(vec![create("a", 1), directory(), unlink, directory()]);
    assert_judged(&history, 2, &[], Some(Promise::NameKept));
    assert_judged(&history, 3, &[], None);
    assert_judged(&history, 3, &[("a", 1, Vec::new())], None);
    assert_judged(&history, 4, &[("a", 1, Vec::new())], Some(Promise::NameGone));
    assert_judged(&history, 4, &[("never", 1, Vec::new())], Some(Promise::NameGone));
}

#[test]
fn renames_are_atomic() {
    let history = history(vec![
        create("a", 1),
        create("b", 2),
        directory(),
        rename("a", "b"),
        rename("b", "c"),
    ]);
    let (one, two) = (|name| (name, 1, Vec::new()), |name| (name, 2, Vec::new()));
    // The first is under way: b is one or the other, and file 1 is somewhere.
    assert_judged(&history, 4, &[one("a"), two("b")], None);
    assert_judged(&history, 4, &[one("b")], None);
    assert_judged(&history, 4, &[one("a")], Some(Promise::RenameAtomic));
    // The old name may still be there, as rename(2) warns.
    assert_judged(&history, 4, &[one("a"), one("b")], None);
    assert_judged(&history, 4, &[two("b")], Some(Promise::RenameAtomic));
    // The second too.
    assert_judged(&history, 5, &[one("c")], None);
    assert_judged(&history, 5, &[one("b"), one("c")], None);
    assert_judged(&history, 5, &[two("c")], Some(Promise::NameKept));
    assert_judged(&history, 5, &[], Some(Promise::RenameAtomic));
}

#[test]
fn links_may_be_there_together() {
    let link = Deed::Link { from: "d/a".to_owned(), to: "d/b".to_owned() };
    let history = history(vec![create("a", 1), link, directory()]);
    assert_judged(&history, 3, &[("a", 1, Vec::new()), ("b", 1, Vec::new())], None);
    assert_judged(&history, 3, &[("a", 1, Vec::new())], Some(Promise::NameKept));
}

/// fsync(2) of a directory does not speak of the names of its files in other directories.
#[test]
fn a_name_by_a_link_holds_a_file_only_where_links_are_in_order() {
    let link = Deed::Link { from: "d/a".to_owned(), to: "e/b".to_owned() };
    let unlink = Deed::Unlink { name: "d/a".to_owned() };
    let history = history(vec![create("a", 1), directory(), link, unlink]);
    assert_judged(&history, 4, &[], None);
    let ordered = Promises { ordered_links: true, ..MANUAL };
    let broken = judge(&history, &tree(&[]), 4, Rules { seed: SEED, promises: ordered });
    assert_eq!(broken.first().map(|one| one.promise), Some(Promise::RenameAtomic), "{broken:?}");
}

#[test]
fn what_a_filesystem_documents_counts_too() {
    let promises =
        Promises { names_by_file_fsync: true, replace_by_rename: true, ordered_links: true };
    let rules = Rules { promises, ..RULES };
    let history = history(vec![
        create("a", 1),
        write(1, 0, 64),
        fsync(1),
        create("n", 2),
        write(2, 0, 32),
        rename("n", "a"),
    ]);
    let judged = |cut, files: &[(&str, u32, Vec<u8>)]| {
        judge(&history, &tree(files), cut, rules).first().map(|one| one.promise)
    };
    assert_eq!(judged(3, &[]), Some(Promise::NameKept));
    assert_eq!(judged(6, &[("a", 1, bytes(1, 2, 0, 64))]), None);
    assert_eq!(judged(6, &[("a", 2, bytes(2, 5, 0, 32))]), None);
    assert_eq!(judged(6, &[("a", 2, Vec::new())]), Some(Promise::ReplaceWhole));
    assert_judged(&history, 6, &[("a", 2, Vec::new())], None);
}

/// ext4 lost a name after `fdatasync` once in some hundred cuts, and may.
#[test]
fn a_name_is_promised_by_fsync_and_not_by_fdatasync() {
    let promises =
        Promises { names_by_file_fsync: true, replace_by_rename: false, ordered_links: true };
    let rules = Rules { promises, ..RULES };
    let data_only = |data_only| Deed::Fsync { file: 1, data_only };
    for (last, expected) in [(true, None), (false, Some(Promise::NameKept))] {
        let deeds = vec![create("a", 1), fsync(1), rename("a", "b"), data_only(last)];
        let before = tree(&[("a", 1, Vec::new())]);
        let judged = judge(&history(deeds), &before, 4, rules);
        assert_eq!(judged.last().map(|one| one.promise), expected, "{judged:?}");
    }
}

#[test]
fn what_cannot_be_read_is_told() {
    let history = history(vec![create("a", 1), directory()]);
    let mut found = tree(&[]);
    found.files.insert("d/a".to_owned(), Err("Input/output error".to_owned()));
    assert_eq!(judge(&history, &found, 2, RULES)[0].promise, Promise::Readable);
    let mut found = tree(&[]);
    found.lost_directories.insert("d".to_owned(), "Structure needs cleaning".to_owned());
    let broken = judge(&history, &found, 2, RULES);
    assert_eq!((broken.len(), broken[0].promise), (1, Promise::NameKept));
}
