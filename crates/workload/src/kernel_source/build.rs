//! The build: which tools it needs, how make is called, which sources were compiled, and the change of
//! some of them before it is done again.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use fsdyno_sys::child::find_program;

use crate::failure::{Unavailable, check_interrupt};
use crate::program::Program;

/// What any build needs, and what one of a kernel needs besides: the program and its Debian package.
const TOOLS: [(&str, &str); 2] = [("make", "make"), ("cc", "gcc")];
const KERNEL_TOOLS: [(&str, &str); 5] =
    [("gcc", "gcc"), ("ld", "binutils"), ("flex", "flex"), ("bison", "bison"), ("bc", "bc")];
/// Filesystems that keep whole seconds must see that a file is newer than another.
const TIME_STEP: Duration = Duration::from_millis(1100);
const POLL: Duration = Duration::from_millis(20);
/// The word of `jobs` for one job each processor.
pub const AUTO: &str = "auto";

/// Looks for the tools of a build.
///
/// # Errors
/// [`Unavailable`], with all that are missing.
pub fn require_tools(is_kernel: bool) -> anyhow::Result<()> {
    missing(is_kernel, |program| find_program(program).is_some())
}

fn missing(is_kernel: bool, is_there: impl Fn(&str) -> bool) -> anyhow::Result<()> {
    let further = if is_kernel { KERNEL_TOOLS.as_slice() } else { &[] };
    let absent = TOOLS.iter().chain(further).filter(|(program, _)| !is_there(program));
    let (programs, mut packages): (Vec<&str>, Vec<&str>) = absent.copied().unzip();
    if programs.is_empty() {
        return Ok(());
    }
    packages.dedup();
    let verb = if programs.len() == 1 { "is" } else { "are" };
    Err(Unavailable(format!(
        "{} {verb} not installed, which the build needs: install {} (by the names of Debian's packages)",
        programs.join(", "),
        packages.join(" ")
    ))
    .into())
}

/// The number of jobs that `text` asks for.
///
/// # Errors
/// A sentence when it is neither `auto` nor 1 … 1024.
pub fn jobs(text: &str) -> Result<usize, String> {
    if text == AUTO {
        return Ok(std::thread::available_parallelism().map_or(1, usize::from));
    }
    let number = text.parse().ok().filter(|jobs| (1..=1024).contains(jobs));
    number.ok_or_else(|| format!("jobs is `{AUTO}` or a number from 1 to 1024, not `{text}`"))
}

/// Checks a text of make targets.
///
/// # Errors
/// A sentence when it is empty, or a word of it is an option or an assignment.
pub fn check_targets(text: &str) -> Result<(), String> {
    let is_target = |word: &str| !word.starts_with('-') && !word.contains('=');
    if text.split_whitespace().next().is_some() && text.split_whitespace().all(is_target) {
        return Ok(());
    }
    Err(format!("`{text}` names no target of make: give one, as `vmlinux` or `prepare`"))
}

/// make in `tree`, about to build `targets`; what it makes depends on nothing but the source, the
/// configuration and the tools.
#[must_use]
pub fn make(tree: &Path, jobs: usize, targets: &str) -> Program {
    let mut program = Program::new(["make"]).arg(format!("-j{jobs}"));
    for target in targets.split_whitespace() {
        program = program.arg(target);
    }
    let fixed = [
        ("LC_ALL", "C"),
        ("KBUILD_BUILD_TIMESTAMP", "1970-01-01 00:00:00 UTC"),
        ("KBUILD_BUILD_USER", "fsdyno"),
        ("KBUILD_BUILD_HOST", "fsdyno"),
        ("KBUILD_BUILD_VERSION", "1"),
        ("SOURCE_DATE_EPOCH", "0"),
        // Those of a make that runs us would be taken for our own.
        ("MAKEFLAGS", ""),
        ("MFLAGS", ""),
        ("MAKELEVEL", "0"),
    ];
    for (name, value) in fixed {
        program = program.env(name, value);
    }
    program.current_dir(tree)
}

/// The sources that were compiled: every `.c` file beside an object file of its name, sorted by path.
///
/// # Errors
/// A directory cannot be read, or a signal asked to stop.
pub fn compiled_sources(tree: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut directories = vec![tree.to_owned()];
    while let Some(directory) = directories.pop() {
        check_interrupt()?;
        let told = || format!("read {}", directory.display());
        for entry in std::fs::read_dir(&directory).with_context(told)? {
            let entry = entry.with_context(told)?;
            let (kind, path) = (entry.file_type().with_context(told)?, entry.path());
            if kind.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "o") {
                let source = path.with_extension("c");
                if source.is_file() {
                    found.push(source);
                }
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Gives every `step`-th of `sources`, from the first on, the present time, which is later than that of
/// any object by then; gives their count.
///
/// # Errors
/// A file cannot be changed, or a signal asked to stop.
pub fn touch(sources: &[PathBuf], step: u64) -> anyhow::Result<u64> {
    let begin = std::time::Instant::now();
    while begin.elapsed() < TIME_STEP {
        check_interrupt()?;
        std::thread::sleep(POLL);
    }
    let now = SystemTime::now();
    let mut count = 0;
    for source in sources.iter().step_by(usize::try_from(step).unwrap_or(usize::MAX).max(1)) {
        let touched = File::options().write(true).open(source);
        touched
            .and_then(|file| file.set_modified(now))
            .with_context(|| format!("touch {}", source.display()))?;
        count += 1;
    }
    Ok(count)
}

/// Checks what a build left: every target that is a file has something in it, and `vmlinux` is one.
///
/// # Errors
/// The file that is missing or empty.
pub fn check_output(tree: &Path, targets: &str) -> anyhow::Result<()> {
    for target in targets.split_whitespace() {
        let path = tree.join(target);
        let size_bytes = std::fs::symlink_metadata(&path).ok().map(|found| found.len());
        ensure!(
            size_bytes != Some(0) && !(target == "vmlinux" && size_bytes.is_none()),
            "{} is {} though make succeeded",
            path.display(),
            if size_bytes.is_none() { "missing" } else { "empty" }
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tools_are_named_with_their_packages() {
        missing(true, |_| true).unwrap();
        missing(false, |program| program != "flex").unwrap();
        for (is_kernel, absent, words) in [
            (true, "flex", "flex is not installed"),
            (
                true,
                "flex bison",
                "flex, bison are not installed, which the build needs: install flex bison",
            ),
            (true, "cc gcc", "install gcc (by"),
            (false, "make", "make is not installed"),
        ] {
            let error = missing(is_kernel, |program| !absent.split(' ').any(|it| it == program));
            let error = error.unwrap_err();
            assert!(error.is::<Unavailable>() && error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn texts_are_checked() {
        assert!(jobs("auto").unwrap() >= 1);
        assert_eq!(jobs("7"), Ok(7));
        assert!(["0", "", "x", "-1", "1025"].iter().all(|text| jobs(text).is_err()));
        for targets in ["vmlinux", "prepare scripts", "fs/ext4/"] {
            check_targets(targets).unwrap();
        }
        assert!(["", " ", "-k", "all CC=rm"].iter().all(|text| check_targets(text).is_err()));
        let line = make(Path::new("/"), 3, "prepare scripts").to_string();
        assert_eq!(line, "make -j3 prepare scripts");
    }

    #[test]
    fn what_was_compiled_is_touched() {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path();
        std::fs::create_dir(tree.join("d")).unwrap();
        for name in ["a.c", "a.o", "b.c", "d/c.c", "d/c.o", "d/e.o", "d/f.c", "d/f.o"] {
            std::fs::write(tree.join(name), "x").unwrap();
        }
        let sources = compiled_sources(tree).unwrap();
        assert_eq!(sources, ["a.c", "d/c.c", "d/f.c"].map(|name| tree.join(name)));
        assert_eq!(touch(&sources, 2).unwrap(), 2);
        let modified = |name: &str| tree.join(name).metadata().unwrap().modified().unwrap();
        assert!(modified("a.c") > modified("a.o") + Duration::from_secs(1));
        assert!(modified("d/c.c") < modified("a.o") + Duration::from_secs(1));
        assert_eq!((touch(&sources, 100).unwrap(), touch(&[], 1).unwrap()), (1, 0));
    }

    #[test]
    fn an_output_must_hold_something() {
        let directory = tempfile::tempdir().unwrap();
        check_output(directory.path(), "prepare").unwrap();
        let error = check_output(directory.path(), "prepare vmlinux").unwrap_err().to_string();
        assert!(error.ends_with("vmlinux is missing though make succeeded"), "{error}");
        std::fs::write(directory.path().join("vmlinux"), "").unwrap();
        assert!(
            check_output(directory.path(), "vmlinux").unwrap_err().to_string().contains("empty")
        );
        std::fs::write(directory.path().join("vmlinux"), "x").unwrap();
        check_output(directory.path(), "vmlinux").unwrap();
    }
}
