//! The libraries that a program needs, found as the loader of the C library finds them: where the
//! program itself says, in the directories of `/etc/ld.so.conf`, in the usual ones. What is loaded later,
//! at run time, is not seen.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::elf::{self, Links};
use crate::{Result, read};

/// Where every loader looks.
const USUAL: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
/// Files of configuration that include each other deeper than this are a circle.
const DEPTH: usize = 8;

/// Every file that `program` needs to run, itself and its loader included, by the paths under which they
/// are looked for. A script gives itself and its interpreter's.
///
/// # Errors
/// A file cannot be read, or a library is nowhere.
pub fn closure(program: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let configured = configured_directories(Path::new("/etc/ld.so.conf"), DEPTH);
    let mut open = vec![program.to_owned()];
    while let Some(path) = open.pop() {
        if !found.insert(path.clone()) {
            continue;
        }
        let data = read(&path)?;
        if data.starts_with(b"#!") {
            return Err(format!(
                "{} is a script, which cannot be brought into a guest",
                path.display()
            ));
        }
        let links = elf::links(&data).map_err(|error| format!("{}: {error}", path.display()))?;
        open.extend(links.interpreter.iter().map(PathBuf::from));
        let needed = links.needed.iter();
        for name in needed.filter(|name| Some(name.as_str()) != interpreter_name(&links)) {
            let library = find(name, &path, &links, &configured).ok_or_else(|| {
                format!("{}: its library {name} is not installed", path.display())
            })?;
            open.push(library);
        }
    }
    Ok(found)
}

fn interpreter_name(links: &Links) -> Option<&str> {
    links.interpreter.as_deref()?.rsplit('/').next()
}

fn find(name: &str, user: &Path, links: &Links, configured: &[PathBuf]) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name));
    }
    let real = fs::canonicalize(user).ok()?;
    let origin = real.parent().unwrap_or(Path::new("/")).display().to_string();
    let own = links.search.iter().map(|directory| {
        PathBuf::from(directory.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin))
    });
    let usual = USUAL.iter().map(PathBuf::from);
    let mut candidates =
        own.chain(configured.iter().cloned()).chain(usual).map(|directory| directory.join(name));
    candidates.find(|path| {
        let found = read(path).ok().and_then(|data| elf::links(&data).ok());
        found.is_some_and(|found| found.machine == links.machine)
    })
}

/// The directories in a file of the loader's configuration, those of included files in their place.
fn configured_directories(path: &Path, depth: usize) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    let Some(depth) = depth.checked_sub(1) else { return directories };
    let text = fs::read_to_string(path).unwrap_or_default();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        match line.strip_prefix("include ") {
            None if line.starts_with('/') => directories.push(PathBuf::from(line)),
            None => {}
            Some(pattern) => {
                let pattern = path.parent().unwrap_or(Path::new("/")).join(pattern.trim());
                for included in matching(&pattern) {
                    directories.extend(configured_directories(&included, depth));
                }
            }
        }
    }
    directories
}

/// The files that a pattern with `*` in its last part stands for, in their order.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let (Some(parent), Some(name)) = (pattern.parent(), pattern.file_name()) else {
        return Vec::new();
    };
    let name = name.to_string_lossy();
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let fits = |path: &PathBuf| {
        let own = path.file_name().unwrap_or_default().to_string_lossy();
        fsdyno_model::wire::matches(&name, &own)
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(fits).collect();
    paths.sort_unstable();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_finds_its_libraries() {
        let own = std::env::current_exe().unwrap();
        let found = closure(&own).unwrap();
        let has = |start: &str| {
            found.iter().any(|path| path.file_name().unwrap().to_string_lossy().starts_with(start))
        };
        assert!(found.contains(&own) && has("libc.so") && has("ld-linux"), "{found:?}");
    }

    #[test]
    fn scripts_and_missing_files_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        assert!(closure(&script).unwrap_err().contains("is a script"));
        assert!(closure(Path::new("/no/such")).unwrap_err().contains("/no/such"));
    }

    #[test]
    fn configurations_include_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("main.conf"), "# x\ninclude d*.part\n/usr/local/lib # y\n").unwrap();
        fs::write(path("d2.part"), "/two\ninclude main.conf\n").unwrap();
        fs::write(path("d1.part"), "/one\nhwcap 1\n").unwrap();
        let found = configured_directories(&path("main.conf"), 2);
        assert_eq!(found, ["/one", "/two", "/usr/local/lib"].map(PathBuf::from));
    }
}
