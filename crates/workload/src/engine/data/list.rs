//! Lists of files: one line for each use of a file, in the order of the uses.
//!
//! ```text
//! # path        size    where and how much
//! read usr/bin/env 49152          # the whole file
//! read usr/lib/libc.so 2MiB 0 64KiB
//! stat etc/ld.so.cache 32KiB
//! append var/log/messages 1MiB 200
//! ```

use std::collections::BTreeMap;

use fsdyno_model::param::{SHIPPED, unknown};
use fsdyno_model::units;

use super::shipped;
use crate::engine::definition::{Distribution, Fileset, ListedFile, Tree, Usage};

/// Greatest size of a list, in bytes.
const MAX_LIST_BYTES: u64 = 256 << 20;
/// Longest path.
const MAX_PATH_BYTES: usize = 1024;

/// Reads the list `place`: `shipped:NAME` or the absolute path of a file.
///
/// # Errors
/// A sentence; for a line that is wrong, with its number.
pub(super) fn read(place: &str) -> Result<Vec<ListedFile>, String> {
    if let Some(name) = place.strip_prefix(SHIPPED) {
        return parse(place, shipped::find(name)?);
    }
    if !place.starts_with('/') {
        return Err(format!(
            "the list `{place}` is neither `{SHIPPED}NAME` nor an absolute path; let it be a \
             parameter of kind = \"path\", which is found from where fsdyno is started"
        ));
    }
    let failed = |error: std::io::Error| format!("cannot read the list {place}: {error}");
    let metadata = std::fs::metadata(place).map_err(failed)?;
    if !metadata.is_file() || metadata.len() > MAX_LIST_BYTES {
        return Err(format!("the list {place} is no file of at most 256 MiB"));
    }
    parse(place, &std::fs::read_to_string(place).map_err(failed)?)
}

/// Reads the lines of the list `place`.
///
/// # Errors
/// A sentence for the first line that is wrong, with its number.
pub(super) fn parse(place: &str, text: &str) -> Result<Vec<ListedFile>, String> {
    let mut files = Vec::new();
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let at = |error: String| format!("{place}:{}: {error}", index + 1);
        let content = line.split_once('#').map_or(line, |(content, _)| content);
        let words: Vec<&str> = content.split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        let file = parse_line(&words).map_err(at)?;
        let known = *sizes.entry(words[1]).or_insert(file.size_bytes);
        if known != file.size_bytes {
            return Err(at(format!(
                "{} has {} bytes here and {known} in a line before",
                file.path, file.size_bytes
            )));
        }
        files.push(file);
    }
    if let Some(path) = sizes.keys().find(|path| is_directory_of_other(path, &sizes)) {
        return Err(format!("{place}: {path} is a file and the directory of another"));
    }
    if files.is_empty() {
        return Err(format!("the list {place} names no file"));
    }
    Ok(files)
}

/// Whether one of the paths lies below `path`.
fn is_directory_of_other(path: &str, sizes: &BTreeMap<&str, u64>) -> bool {
    let below = format!("{path}/");
    sizes.range(below.as_str()..).next().is_some_and(|(next, _)| next.starts_with(&below))
}

fn parse_line(words: &[&str]) -> Result<ListedFile, String> {
    let forms = ["read", "stat", "append"];
    if !forms.contains(&words[0]) {
        return Err(unknown("use of a file", words[0], &forms));
    }
    let bytes = |text: &str| units::parse_bytes(text).map_err(|error| error.to_string());
    let (path, size_bytes, usage) = match words {
        ["read", path, size] => {
            let size = bytes(size)?;
            (path, size, Usage::Read { offset_bytes: 0, count_bytes: size })
        }
        ["read", path, size, offset, count] => {
            let (size, offset_bytes, count_bytes) = (bytes(size)?, bytes(offset)?, bytes(count)?);
            if offset_bytes.checked_add(count_bytes).is_none_or(|end| end > size) {
                return Err(format!("{count} bytes from {offset} on reach past the end, {size}"));
            }
            (path, size, Usage::Read { offset_bytes, count_bytes })
        }
        ["stat", path, size] => (path, bytes(size)?, Usage::Stat),
        ["append", path, size, count] => {
            (path, bytes(size)?, Usage::AppendDurably { count_bytes: bytes(count)? })
        }
        _ => {
            return Err("write `read PATH SIZE [OFFSET COUNT]`, `stat PATH SIZE` or `append PATH \
                        SIZE COUNT`"
                .to_owned());
        }
    };
    check_path(path)?;
    Ok(ListedFile { path: (*path).to_owned(), size_bytes, usage })
}

fn check_path(path: &str) -> Result<(), String> {
    if path.starts_with('/') {
        return Err(format!("{path} is absolute: paths are below the fileset's directory"));
    }
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != ".." && part.len() < 256;
    if path.len() > MAX_PATH_BYTES || path.contains('\0') || !path.split('/').all(is_plain) {
        return Err(format!(
            "`{}` is not a plain path: no `.`, `..`, empty or overlong part",
            path.escape_debug()
        ));
    }
    Ok(())
}

/// Puts what the list says in place of `entries`, `size` and `tree`: the number of different files, and
/// their sizes.
pub(super) fn apply(fileset: &mut Fileset, files: Vec<ListedFile>) {
    let distinct: BTreeMap<&str, u64> =
        files.iter().map(|file| (file.path.as_str(), file.size_bytes)).collect();
    let mut counts: BTreeMap<u64, f64> = BTreeMap::new();
    for size in distinct.values() {
        *counts.entry(*size).or_default() += 1.0;
    }
    fileset.entries = distinct.len() as u64;
    fileset.size = Distribution::Empirical(counts.into_iter().collect());
    fileset.tree = Tree::Flat;
    fileset.list = Some(files);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let text = "# boot\n\nread bin/sh 100 # all\nread bin/sh 100 50 50\nstat etc 4KiB\n\
                    append log/all 1k 20\n";
        let files = parse("list", text).unwrap();
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["bin/sh", "bin/sh", "etc", "log/all"]);
        assert_eq!(files[0].usage, Usage::Read { offset_bytes: 0, count_bytes: 100 });
        assert_eq!(files[1].usage, Usage::Read { offset_bytes: 50, count_bytes: 50 });
        assert_eq!(files[2].usage, Usage::Stat);
        assert_eq!(files[3].usage, Usage::AppendDurably { count_bytes: 20 });
        assert_eq!(files[3].size_bytes, 1024);
    }

    #[test]
    fn wrong_lines_are_told_with_their_number() {
        for (text, words) in [
            ("", "names no file"),
            ("# nothing\n", "names no file"),
            ("reads a 1\n", "list:1: there is no use of a file `reads`; did you mean `read`"),
            ("read a\n", "list:1: write `read PATH"),
            ("\nread a 1 2\n", "list:2: write `read PATH"),
            ("read a many\n", "`many` is not a size"),
            ("read a 10 5 6\n", "reach past the end"),
            ("read a 10 18446744073709551615 6\n", "reach past the end"),
            ("read /a 10\n", "is absolute"),
            ("stat a/../b 10\n", "not a plain path"),
            ("stat a//b 10\n", "not a plain path"),
            ("stat a 10\nread a 11\n", "list:2: a has 11 bytes here and 10"),
            ("stat a 10\nread a/b 11\n", "a is a file and the directory of another"),
            ("append a 10\n", "append PATH"),
        ] {
            let error = parse("list", text).unwrap_err();
            assert!(error.contains(words), "{text:?}: {error}");
        }
        assert!(read("files.txt").unwrap_err().contains("absolute path"));
        assert!(read("/does/not/exist").unwrap_err().contains("cannot read the list"));
        assert!(read("/").unwrap_err().contains("is no file"));
        assert!(read("shipped:none").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "((read|stat|append) [a-z/.]{0,5} [0-9k]{0,4}( [0-9]{1,20}){0,2}\n|.{0,9}\n){0,6}") {
            let _ = parse("list", &text);
        }
    }
}
