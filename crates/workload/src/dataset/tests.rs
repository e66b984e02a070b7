//! Loading datasets, refusing them, and making them from trees.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A directory with the texts as the four files of a dataset.
fn directory(texts: [&[u8]; 4]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (state, text) in State::ALL.into_iter().zip(texts) {
        fs::write(directory.path().join(state.file_name()), text).unwrap();
    }
    directory
}

fn listed(dataset: &Dataset, list: FileList) -> Vec<(&str, u64)> {
    let files = dataset.list(list).iter();
    files.map(|file| (dataset.paths().path(file.path), file.size_bytes)).collect()
}

#[test]
fn the_states_are_stripped_to_lists() {
    let texts: [&[u8]; 4] = [
        b"b/same.c 1\nb/grown.c 2\nold.c 3\n\ta.c   4\r\n",
        b"b/same.c 1\nb/grown.c 20\nb/new.c 5\na.c 4\n",
        b"b/same.c 1\nb/grown.o 6\nb/same.o 7\nb/grown.c 9\nold.o 1\nb/new.c 1\n",
        b"b/same.c 99\nb/grown.o 60\nb/same.o 7\nb/new.o 8\nb/new.c 6\nold.c 3",
    ];
    let temporary = directory(texts);
    let dataset = load(temporary.path()).unwrap();
    let tree = [("a.c", 4), ("old.c", 3), ("b/grown.c", 2), ("b/same.c", 1)];
    assert_eq!(listed(&dataset, FileList::Tree), tree);
    assert_eq!(listed(&dataset, FileList::Patch), [("b/grown.c", 20), ("b/new.c", 5)]);
    // In the order of the file. A file of the patched tree may be an object of the unpatched.
    let objects = [("b/grown.o", 6), ("b/same.o", 7), ("old.o", 1), ("b/new.c", 1)];
    assert_eq!(listed(&dataset, FileList::Objects), objects);
    // Only what the patched tree has is stripped: `old.c` is not in it.
    let patched_objects = [("old.c", 3), ("b/grown.o", 60), ("b/new.o", 8)];
    assert_eq!(listed(&dataset, FileList::PatchedObjects), patched_objects);
    assert_eq!(dataset.state_totals(State::PatchedCompiled), Totals { files: 6, bytes: 183 });
    assert_eq!(dataset.position(FileList::Tree, "b/same.c"), Some(3));
    assert_eq!(dataset.position(FileList::Tree, "b/new.c"), None);
}

#[test]
fn one_file_in_so_many_is_the_same_one_in_all_lists() {
    let whole = Dataset::twin();
    let mut part = whole.clone();
    part.keep_one_in(1);
    assert_eq!(listed(&part, FileList::Patch), listed(&whole, FileList::Patch));
    part.keep_one_in(10);
    for list in FileList::ALL {
        let (all, kept) = (listed(&whole, list), listed(&part, list));
        let share = kept.len() as f64 / all.len() as f64;
        assert!((0.08..0.12).contains(&share), "{list:?}: {share}");
        assert!(kept.iter().all(|file| all.contains(file)), "{list:?}");
    }
    // A file of the tree that the patch changes is in both or in neither.
    for (path, _) in listed(&whole, FileList::Patch) {
        let is_kept = part.position(FileList::Patch, path).is_some();
        let is_in_tree = part.position(FileList::Tree, path).is_some();
        assert_eq!(is_in_tree, is_kept && whole.position(FileList::Tree, path).is_some(), "{path}");
    }
}

#[test]
fn bad_lines_are_refused_with_file_and_line() {
    let long_name = format!("{} 1", "n".repeat(256));
    let long_path = format!("{}n 1", "n/".repeat(2050));
    let long_line = "x".repeat(1 << 20);
    let cases: [(&str, &str); 26] = [
        ("a.c", "found 1 fields"),
        ("", "found 0 fields"),
        ("a b.c 1", "found 3 fields"),
        ("a.c one", "size \"one\" is not a number"),
        ("a.c -1", "size \"-1\" is not a number"),
        ("a.c +1", "size \"+1\" is not a number"),
        ("a.c 1.5", "size \"1.5\" is not a number"),
        ("a.c 9223372036854775808", "over the largest file size"),
        ("a.c 99999999999999999999999", "over the largest file size"),
        ("a.c 9223372036854775807", "add up to more than"),
        ("/a.c 1", "is absolute"),
        ("../a.c 1", "component \"..\""),
        ("a/../../b 1", "component \"..\""),
        ("a/.. 1", "component \"..\""),
        ("./a.c 1", "component \".\""),
        ("a//b.c 1", "component \"\""),
        ("a/ 1", "component \"\""),
        ("a\0b 1", "NUL"),
        ("a\x1b[2Jb 1", "path \"a\\u{1b}[2Jb\" holds a control character"),
        ("d\x7f/b 1", "holds a control character"),
        ("first.c 2", "listed twice"),
        ("first.c/inside.c 2", "which is listed as a file"),
        ("d 2", "files are listed inside it"),
        (&long_name, "component of 256 bytes"),
        (&long_path, "path has at most 4095"),
        (&long_line, "longer than"),
    ];
    for (line, fragment) in cases {
        for state in State::ALL {
            let mut texts: [Vec<u8>; 4] = Default::default();
            texts[0] = b"other.c 1\n".to_vec();
            texts[1] = texts[0].clone();
            texts[state as usize] = format!("first.c 1\nd/e 1\n{line}\nlast.c 1\n").into_bytes();
            let temporary = directory(std::array::from_fn(|index| texts[index].as_slice()));
            let error = load(temporary.path()).unwrap_err().to_string();
            let place = format!("{}:3: ", temporary.path().join(state.file_name()).display());
            assert!(error.starts_with(&place) && error.contains(fragment), "{line:.40}: {error}");
            assert!(error.len() < 1000 && !error.contains('\x1b'), "{error}");
        }
    }
}

#[test]
fn other_faults_name_the_file() {
    let temporary = directory([b"a \xff 1\n", b"", b"", b""]);
    assert!(load(temporary.path()).unwrap_err().to_string().contains(":1: not UTF-8"));
    let temporary = directory([b"", b"a 1\n", b"", b""]);
    let error = load(temporary.path()).unwrap_err().to_string();
    assert!(error.contains("dataset-unpatched lists no file"), "{error}");
    let temporary = directory([b"a 1\n", b"", b"a 1\n", b"a 1\n"]);
    let error = load(temporary.path()).unwrap_err().to_string();
    assert!(error.contains("dataset-patched lists no file"), "{error}");
    let temporary = directory([b"a 1\n"; 4]);
    assert_eq!(load(temporary.path()).unwrap().list(FileList::Objects).len(), 0);
    fs::remove_file(temporary.path().join("dataset-patched")).unwrap();
    let error = load(temporary.path()).unwrap_err().to_string();
    assert!(error.contains("dataset-patched:") && error.contains("from-tree"), "{error}");
    let missing = load(Path::new("/nonexistent")).unwrap_err().to_string();
    assert!(missing.contains("/nonexistent/dataset-unpatched"), "{missing}");
}

#[test]
fn a_cause_is_told_once() {
    let temporary = tempfile::tempdir().unwrap();
    let before = temporary.path().join("before");
    make(&before, &[("a.c", 1)]);
    let trees = Trees { before: &before, built: None, patched: None, patched_built: None };
    let nowhere = Trees { before: Path::new("/nonexistent"), ..trees };
    let output = temporary.path().join("out");
    let errors: [(anyhow::Error, &str); 3] = [
        (load(Path::new("/nonexistent")).unwrap_err().into(), "os error 2"),
        (from_tree(&nowhere, &output).unwrap_err().into(), "os error 2"),
        (from_tree(&trees, &before.join("a.c")).unwrap_err().into(), "os error 17"),
    ];
    for (error, cause) in errors {
        for text in [error.to_string(), format!("{error:#}")] {
            assert_eq!(text.matches(cause).count(), 1, "{text}");
        }
    }
}

fn make(top: &Path, files: &[(&str, usize)]) {
    for (path, size) in files {
        let path = top.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![0; *size]).unwrap();
    }
}

#[test]
fn a_dataset_from_trees_loads_again() {
    let temporary = tempfile::tempdir().unwrap();
    let top = |name: &str| temporary.path().join(name);
    make(&top("before"), &[("src/main.c", 10), ("src/old.c", 5), ("Makefile", 3)]);
    make(&top("before"), &[(".git/HEAD", 3), ("white space", 1), ("src/deep/er/x.h", 0)]);
    std::os::unix::fs::symlink("/etc", top("before").join("link")).unwrap();
    std::os::unix::fs::symlink("..", top("before").join("src/up")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(top("before").join("socket")).unwrap();
    make(
        &top("built"),
        &[("src/main.c", 10), ("src/old.c", 5), ("Makefile", 3), ("src/main.o", 40)],
    );
    make(&top("patched"), &[("src/main.c", 11), ("Makefile", 3), ("src/new.c", 6)]);

    let (before, built, patched) = (top("before"), top("built"), top("patched"));
    let trees = Trees {
        before: &before,
        built: Some(&built),
        patched: Some(&patched),
        patched_built: None,
    };
    let made = from_tree(&trees, &top("out/dataset")).unwrap();
    let expected =
        Skipped { symlinks: 2, special: 1, names: 1, version_control: 1, ..Skipped::default() };
    assert_eq!(made.skipped, expected);
    assert!(made.built_given);

    let loaded = load(&top("out/dataset")).unwrap();
    for list in FileList::ALL {
        assert_eq!(listed(&made.dataset, list), listed(&loaded, list));
    }
    let tree = [("Makefile", 3), ("src/main.c", 10), ("src/old.c", 5), ("src/deep/er/x.h", 0)];
    assert_eq!(listed(&loaded, FileList::Tree), tree);
    assert_eq!(listed(&loaded, FileList::Patch), [("src/main.c", 11), ("src/new.c", 6)]);
    assert_eq!(listed(&loaded, FileList::Objects), [("src/main.o", 40)]);
    // Taken from the build before, and no different from it.
    assert_eq!(loaded.state_totals(State::PatchedCompiled), Totals { files: 4, bytes: 60 });
    assert_eq!(listed(&loaded, FileList::PatchedObjects), []);

    let error = from_tree(&trees, &top("out/dataset")).unwrap_err().to_string();
    assert!(error.contains("holds no dataset"), "{error}");
    assert!(load(&top("out/dataset")).is_ok(), "what is there is left alone");
}

#[test]
fn one_tree_is_enough_and_none_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let before = temporary.path().join("before");
    make(&before, &[("a/b.c", 7)]);
    let trees = Trees { before: &before, built: None, patched: None, patched_built: None };
    let made = from_tree(&trees, &temporary.path().join("out")).unwrap();
    assert!(!made.built_given);
    let loaded = load(&temporary.path().join("out")).unwrap();
    assert_eq!(
        State::ALL.map(|state| loaded.state_totals(state)),
        [Totals { files: 1, bytes: 7 }; 4]
    );
    assert_eq!(FileList::ALL.map(|list| loaded.list(list).len()), [1, 0, 0, 0]);

    let (empty, blanks) = (temporary.path().join("empty"), temporary.path().join("blanks"));
    fs::create_dir(&empty).unwrap();
    make(&blanks, &[("white space", 1), ("bell\x07", 1)]);
    for (tree, fragment) in [
        (&empty, "no regular file"),
        (&before.join("none"), "cannot read"),
        (
            &blanks,
            "no file whose name the format can carry (2 have white space or control characters",
        ),
    ] {
        let first = Trees { before: tree, ..trees };
        let patched = Trees { patched: Some(tree), ..trees };
        for trees in [first, patched] {
            let error = from_tree(&trees, &temporary.path().join("other")).unwrap_err().to_string();
            assert!(error.contains(fragment), "{error}");
            assert!(!temporary.path().join("other").exists());
        }
    }

    // A file here, a directory there.
    let built = temporary.path().join("built");
    make(&built, &[("a", 1)]);
    let trees = Trees { before: &before, built: Some(&built), patched: None, patched_built: None };
    let error = from_tree(&trees, &temporary.path().join("other")).unwrap_err().to_string();
    assert!(error.contains("dataset-unpatched-compiled: path \"a\""), "{error}");
}

#[test]
fn the_twin_is_written_and_loaded_like_any_other() {
    let temporary = tempfile::tempdir().unwrap();
    write(temporary.path(), &twin::states()).unwrap();
    let (loaded, twin) = (load(temporary.path()).unwrap(), Dataset::twin());
    for list in FileList::ALL {
        assert!(listed(&loaded, list) == listed(&twin, list), "{list:?}");
    }
}

proptest! {
    #[test]
    fn loading_never_panics(
        texts in proptest::array::uniform4(prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..200),
            "([./ab\u{0}\u{e9}]{0,6} [0-9x]{0,20}\n?){0,8}".prop_map(String::into_bytes),
        ]),
    ) {
        let temporary = directory(std::array::from_fn(|index| texts[index].as_slice()));
        if let Ok(dataset) = load(temporary.path()) {
            for list in FileList::ALL {
                for file in dataset.list(list) {
                    let path = dataset.paths().path(file.path);
                    prop_assert!(!path.starts_with('/') && path.split('/').all(|part| !matches!(part, "" | "." | "..")));
                }
            }
        }
    }

    #[test]
    fn what_is_listed_is_loaded(sizes in proptest::collection::btree_map("[a-d]{1,3}(/[a-c]{1,2}){0,3}\\.c", 0_u64..1 << 40, 1..40)) {
        let text: String = sizes.iter().map(|(path, size)| format!("{path} {size}\n")).collect();
        let temporary = directory([text.as_bytes(); 4]);
        let dataset = load(temporary.path()).unwrap();
        let totals = Totals { files: sizes.len() as u64, bytes: sizes.values().sum() };
        prop_assert_eq!(State::ALL.map(|state| dataset.state_totals(state)), [totals; 4]);
        for (path, &size) in &sizes {
            let place = dataset.position(FileList::Tree, path).unwrap();
            prop_assert_eq!(dataset.list(FileList::Tree)[place].size_bytes, size);
        }
    }
}
