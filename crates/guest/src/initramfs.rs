//! What lies in the initial file system of a guest: this program as the first process, the programs of
//! the filesystems with their libraries at their own paths, modules. It is made anew for each run, which
//! takes a fraction of a second, so that none can be stale.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::cpio::Tree;
use crate::modules::{self, Module};
use crate::{Result, elf, libraries, read};

/// Where this program lies in the guest.
pub const PROGRAM: &str = "/fsdyno/fsdyno";
/// Where modules lie in the guest.
pub const MODULES: &str = "/fsdyno/modules";
/// The list of modules that are loaded before anything is said, one path a line, in order.
pub const BOOT_MODULES: &str = "/fsdyno/boot-modules";
/// More links than this in one path are a circle.
const LINKS: usize = 40;
/// Directories of a system that programs expect.
const DIRECTORIES: [&str; 8] =
    ["/dev", "/proc", "/root", "/run", "/sys", "/tmp", "/var/tmp", "/var/lib"];
/// What tells the loader of the C library where libraries lie, and programs that names are times here.
const FILES: [&str; 2] = ["/etc/ld.so.cache", "/etc/mke2fs.conf"];
/// A library that the C library loads at run time, to end threads.
const AT_RUN_TIME: &str = "libgcc_s.so.1";

/// What to put into an initial file system.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// The first process.
    pub program: PathBuf,
    /// Programs that it calls.
    pub tools: Vec<PathBuf>,
    /// Modules that are loaded before anything is said, in order.
    pub boot_modules: Vec<Module>,
    /// Modules that may be loaded later.
    pub modules: Vec<Module>,
}

/// Makes the archive.
///
/// # Errors
/// A file cannot be read, or a library is missing.
pub fn build(contents: &Contents) -> Result<Vec<u8>> {
    let mut tree = Tree::default();
    for directory in DIRECTORIES {
        tree.directory(directory)?;
    }
    tree.link("/etc/mtab", "/proc/self/mounts")?;
    for path in FILES.iter().map(Path::new).filter(|path| path.is_file()) {
        add_file(&mut tree, path)?;
    }
    let program = read(&contents.program)?;
    tree.file(PROGRAM, elf::loaded_part(program), true)?;
    let of_program = libraries::closure(&contents.program)?;
    for path in of_program.iter().filter(|path| **path != contents.program) {
        add_file(&mut tree, path)?;
        let beside = path.with_file_name(AT_RUN_TIME);
        if beside.is_file() {
            add_file(&mut tree, &beside)?;
        }
    }
    for tool in &contents.tools {
        for path in libraries::closure(tool)? {
            add_file(&mut tree, &path)?;
        }
    }
    for module in contents.boot_modules.iter().chain(&contents.modules) {
        if !tree.contains(&module_path(module)) {
            tree.file(&module_path(module), modules::contents(&module.path)?, false)?;
        }
    }
    let list: Vec<String> = contents.boot_modules.iter().map(module_path).collect();
    tree.file(BOOT_MODULES, list.join("\n").into_bytes(), false)?;
    Ok(tree.archive())
}

/// Where a module lies in the guest.
#[must_use]
pub fn module_path(module: &Module) -> String {
    format!("{MODULES}/{}.ko", module.name)
}

/// Adds the file at an absolute path of this machine, with every symbolic link that leads to it.
fn add_file(tree: &mut Tree, path: &Path) -> Result<()> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match first_link(&path) {
            None => {
                let shown = path.display().to_string();
                return if tree.contains(&shown) {
                    Ok(())
                } else {
                    tree.file(&shown, elf::loaded_part(read(&path)?), true)
                };
            }
            Some((link, rest)) => {
                let target = fs::read_link(&link)
                    .map_err(|error| format!("read {}: {error}", link.display()))?;
                tree.link(&link.display().to_string(), &target.display().to_string())?;
                let parent = link.parent().unwrap_or(Path::new("/"));
                path = plain(&parent.join(target).join(rest));
            }
        }
    }
    Err(format!("{}: too many symbolic links", path.display()))
}

/// The first symbolic link on the way to `path`, and what follows it.
fn first_link(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut ways: Vec<&Path> = path.ancestors().collect();
    ways.reverse();
    let link = ways.into_iter().find(|way| way.is_symlink())?;
    Some((link.to_owned(), path.strip_prefix(link).ok()?.to_owned()))
}

/// The path without `.` and `..`, taken as they are written.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("real")).unwrap();
        fs::write(path("real/tool-1"), "program").unwrap();
        symlink("tool-1", path("real/tool")).unwrap();
        symlink("./real", path("bin")).unwrap();
        symlink("loop", path("loop")).unwrap();
        let mut tree = Tree::default();
        add_file(&mut tree, &path("bin/tool")).unwrap();
        for name in ["bin", "real/tool", "real/tool-1"] {
            assert!(tree.contains(&path(name).display().to_string()), "{name}");
        }
        assert!(!tree.contains(&path("bin/tool").display().to_string()));
        assert!(add_file(&mut tree, &path("loop")).unwrap_err().contains("too many"));
        assert!(add_file(&mut tree, &path("missing")).unwrap_err().contains("missing"));
    }

    #[test]
    fn the_same_contents_are_the_same_bytes() {
        let program = std::env::current_exe().unwrap();
        let contents = Contents { tools: vec![program.clone()], program, ..Contents::default() };
        let first = build(&contents).unwrap();
        assert_eq!(crate::hash(&first), crate::hash(&build(&contents).unwrap()));
    }
}
