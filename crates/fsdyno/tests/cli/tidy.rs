//! House rules that a compiler does not check.

use std::path::{Path, PathBuf};

const FILE_LINES: usize = 600;
const FUNCTION_LINES: usize = 70;

fn sources() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    let mut open = vec![crates];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    assert!(files.len() > 40, "{}", files.len());
    files
}

#[test]
fn files_open_with_what_they_are_and_stay_short() {
    let mut wrong = Vec::new();
    for path in sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        if !text.starts_with("//!") {
            wrong.push(format!("{} does not open with //!", path.display()));
        }
        let lines = text.lines().count();
        if lines > FILE_LINES {
            wrong.push(format!("{} has {lines} lines", path.display()));
        }
        // Tests hold whole tables as inline snapshots.
        let is_test = path.ends_with("tests.rs");
        for (name, lines) in functions(&text) {
            if lines > FUNCTION_LINES && !is_test {
                wrong.push(format!("{}: fn {name} has {lines} lines", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Functions with their length, by indentation: rustfmt closes a function where it opened it.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        let Some(at) = trimmed.find("fn ").filter(|at| {
            trimmed[..*at].split_whitespace().all(|word| {
                ["pub", "pub(crate)", "pub(super)", "const", "unsafe", "extern", "\"C\"", "async"]
                    .contains(&word)
            })
        }) else {
            continue;
        };
        let signature = lines[start..].iter().position(|line| line.ends_with([';', '{', '}']));
        let closing = format!("{}}}", " ".repeat(indent));
        let end = match signature {
            // A declaration, or a function on one line.
            Some(last) if !lines[start + last].ends_with('{') => Some(last),
            _ => lines[start..].iter().position(|line| **line == closing),
        };
        let name = trimmed[at + 3..].split(['(', '<']).next().unwrap_or_default();
        found.push((name.to_owned(), end.map_or(1, |end| end + 1)));
    }
    found
}

#[test]
fn only_sys_has_unsafe_code() {
    for path in sources() {
        let inside_sys = path.components().any(|part| part.as_os_str() == "sys");
        let text = std::fs::read_to_string(&path).unwrap();
        let is_root = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
        if is_root && !inside_sys {
            assert!(text.contains("#![forbid(unsafe_code)]"), "{}", path.display());
        }
    }
}

#[test]
fn dependencies_point_one_way() {
    let allowed: [(&str, &[&str]); 10] = [
        ("model", &[]),
        ("sys", &[]),
        ("workload", &["model", "sys"]),
        ("lab", &["model", "sys", "disk"]),
        ("disk", &["model"]),
        ("durability", &["model", "sys", "disk", "lab"]),
        ("guest", &["model", "sys"]),
        ("trace", &["model", "sys"]),
        ("analysis", &["model"]),
        ("report", &["model", "analysis"]),
    ];
    for (name, may) in allowed {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../{name}/Cargo.toml"));
        let text = std::fs::read_to_string(manifest).unwrap();
        let dependencies = text.split("[dev-dependencies]").next().unwrap();
        for line in dependencies.lines().filter_map(|line| line.strip_prefix("fsdyno-")) {
            let other = line.split(['.', ' ', '=']).next().unwrap();
            assert!(may.contains(&other), "{name} must not depend on {other}");
        }
    }
}

#[test]
fn nothing_is_left_unfinished() {
    for path in sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        for word in
            [concat!("FIX", "ME"), concat!("TO", "DO"), concat!("XX", "X"), concat!("HA", "CK")]
        {
            for line in text.lines().filter(|line| line.contains(word)) {
                // mktemp templates and hexadecimal text may look alike.
                assert!(!line.contains("//"), "{}: {line}", path.display());
            }
        }
    }
}
