//! The workload `kernel-source` through the phase runner: a small C project with the targets of a
//! kernel, and the source of the distribution's kernel where it is installed.

mod support;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use fsdyno_model::wire::Message;
use fsdyno_sys::child::find_program;
use fsdyno_workload::catalog;
use fsdyno_workload::runner::EXIT_FAILED;
use support::{Answers, SmallFilesystem, measure, spec};

const SOURCES: u64 = 8;

const MAKEFILE: &str = "\
OBJECTS := $(patsubst %.c,%.o,$(sort $(wildcard src/*/*.c)))

vmlinux: .config $(OBJECTS)
\tcc -o $@ $(OBJECTS)
\techo built >> built.log

tinyconfig olddefconfig:
\ttest -f .config || echo CONFIG_TINY=y > .config

%.o: %.c include/shared.h
\tcc -O1 -Iinclude -c -o $@ $<
\techo $< >> compiled.log

broken:
\t@echo 'this is what went wrong' >&2
\t@exit 7

empty:
\t: > empty

spoil: vmlinux
\techo >> src/d0/f0.c

prepare: .config

.PHONY: tinyconfig olddefconfig prepare spoil broken
";

/// The project as an archive in `place`, `extra_bytes` of data in it; `None`, with the reason printed,
/// where nothing can be built.
fn project(place: &Path, extra_bytes: usize) -> Option<PathBuf> {
    for tool in ["make", "cc"] {
        if find_program(tool).is_none() {
            println!("skipped: {tool} is not installed");
            return None;
        }
    }
    let mut files = vec![
        ("Makefile".to_owned(), MAKEFILE.to_owned()),
        ("include/shared.h".to_owned(), "int f1(int);\n".to_owned()),
        ("data".to_owned(), "x".repeat(extra_bytes)),
    ];
    for index in 0..SOURCES {
        let main = if index == 0 { "int main(void) { return f1(0) - 1; }\n" } else { "" };
        let mut text = format!("#include <shared.h>\n{main}");
        let _ = writeln!(text, "int f{index}(int x) {{ return x * {index} + 1; }}");
        files.push((format!("src/d{}/f{index}.c", index % 3), text));
    }
    let mut builder = tar::Builder::new(Vec::new());
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(1_000_000_000);
        let path = format!("project-1.0/{path}");
        builder.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    let path = place.join(format!("project-{extra_bytes}.tar"));
    std::fs::write(&path, builder.into_inner().unwrap()).unwrap();
    Some(path)
}

fn run(root: &Path, archive: &Path, extra: &[(&str, &str)]) -> Answers {
    let archive = [("archive", archive.to_str().unwrap()), ("cold", "none")];
    measure(root, "kernel-source", &[archive.as_slice(), extra].concat())
}

#[test]
fn the_phases_build_what_they_say() {
    let directory = tempfile::tempdir().unwrap();
    let Some(archive) = project(directory.path(), 10) else { return };
    for (tool, touch, touched) in [("builtin", "3", 3), ("tar", "100", 1)] {
        let root = directory.path().join(tool);
        std::fs::create_dir(&root).unwrap();
        let params = [("target", "vmlinux"), ("tool", tool), ("touch", touch)];
        let answers = run(&root, &archive, &params).expect_finished();
        let names: Vec<&str> = answers.phases().iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["extract", "configure", "compile", "recompile", "remove"]);
        let files = |name| answers.phase(name).files;
        assert_eq!(files("extract"), Some(SOURCES + 3));
        assert_eq!(answers.phase("extract").operations.contains_key("write"), tool == "builtin");
        assert!(answers.phase("extract").bytes > 500);
        assert!(answers.verified().is_some_and(|(files, bytes)| files >= SOURCES && bytes > 500));
        assert_eq!((files("configure"), files("compile")), (None, Some(SOURCES)));
        assert_eq!(files("recompile"), Some(touched));
        // Sources, three files more, objects, two logs, the configuration and the program.
        assert_eq!(files("remove"), Some(SOURCES + 3 + SOURCES + 2 + 2));
        for phase in answers.phases() {
            assert_eq!(phase.primary_metric, "elapsed_s");
            assert!(phase.elapsed_durable_ns >= Some(phase.elapsed_return_ns));
        }
        // The compiler's time counts, and compiling all takes more of it than compiling some.
        let cpu = |name| {
            let cpu = &answers.phase(name).cpu;
            cpu.app_user_ns.unwrap() + cpu.app_system_ns.unwrap()
        };
        assert!(cpu("compile") > 5_000_000 && cpu("compile") > cpu("recompile"));
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0);
    }
}

#[test]
fn only_what_was_touched_is_compiled_again() {
    let directory = tempfile::tempdir().unwrap();
    let Some(archive) = project(directory.path(), 0) else { return };
    let root = directory.path().join("root");
    std::fs::create_dir(&root).unwrap();
    // A target that fails the comparison leaves the tree to be looked at.
    let answers = run(&root, &archive, &[("target", "spoil"), ("touch", "4")]);
    let (stage, error) = answers.failure().unwrap();
    assert_eq!(stage, "verify");
    assert!(error.starts_with("src/d0/f0.c is not as it is in the archive"), "{error}");
    let log = std::fs::read_to_string(root.join("source/compiled.log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len() as u64, SOURCES + 2, "{log}");
    let mut again = lines[SOURCES as usize..].to_vec();
    again.sort_unstable();
    // In the order of paths: d0 holds f0, f3 and f6, d1 begins with f1 and f4.
    assert_eq!(again, ["src/d0/f0.c", "src/d1/f4.c"]);
}

#[test]
fn a_configuration_can_be_given() {
    let directory = tempfile::tempdir().unwrap();
    let Some(archive) = project(directory.path(), 0) else { return };
    let config = directory.path().join("mine");
    std::fs::write(&config, "CONFIG_MINE=y\n").unwrap();
    let root = directory.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let params = [("target", "empty"), ("config", config.to_str().unwrap())];
    let answers = run(&root, &archive, &params);
    let (stage, error) = answers.failure().unwrap();
    assert_eq!(stage, "verify");
    assert!(error.ends_with("source/empty is empty though make succeeded"), "{error}");
    let found = std::fs::read_to_string(root.join("source/.config")).unwrap();
    assert_eq!(found, "CONFIG_MINE=y\n");
}

#[test]
fn a_build_that_fails_is_told_in_its_words() {
    let directory = tempfile::tempdir().unwrap();
    let Some(archive) = project(directory.path(), 0) else { return };
    for (name, value, stage) in [("target", "broken", "compile"), ("config", "broken", "configure")]
    {
        let root = tempfile::tempdir().unwrap();
        let answers = run(root.path(), &archive, &[("jobs", "1"), (name, value)]);
        let (found, error) = answers.failure().unwrap();
        assert_eq!((found, answers.exit_code), (stage, EXIT_FAILED));
        assert!(error.starts_with("make -j1 broken: exit code 2"), "{error}");
        assert!(error.contains("this is what went wrong"), "{error}");
    }
}

#[test]
fn a_full_filesystem_fails_the_phase_and_names_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let Some(archive) = project(directory.path(), 3 << 20) else { return };
    let Some(filesystem) = SmallFilesystem::mount("2m") else { return };
    for (tool, words) in [("builtin", "write data: ENOSPC"), ("tar", "No space left on device")] {
        let answers = run(&filesystem.path(), &archive, &[("tool", tool)]);
        let (stage, error) = answers.failure().unwrap();
        assert_eq!(stage, "extract");
        assert!(error.contains(words), "{error}");
        std::fs::remove_dir_all(filesystem.path().join("source")).unwrap();
    }
    // Room for the source, not for what the compiler makes of it.
    let Some(archive) = project(directory.path(), (2 << 20) - (90 << 10)) else { return };
    let answers = run(&filesystem.path(), &archive, &[("target", "vmlinux"), ("jobs", "1")]);
    let (stage, error) = answers.failure().unwrap();
    assert_eq!(stage, "compile");
    assert!(error.starts_with("make -j1 vmlinux: exit code 2"), "{error}");
    assert!(error.contains("No space left on device"), "{error}");
}

#[test]
fn what_cannot_be_read_is_refused_before_anything_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let text = directory.path().join("text");
    std::fs::write(&text, "no archive").unwrap();
    let workload = catalog::find("kernel-source").unwrap();
    for (params, words) in [
        ([("archive", "/no/such.tar"), ("jobs", "1")], "/no/such.tar"),
        ([("archive", text.to_str().unwrap()), ("jobs", "1")], "is no archive"),
        ([("archive", "auto"), ("config", "/no/such/config")], "there is no such file"),
    ] {
        let found = workload.check(&spec(&root, "kernel-source", &params).params);
        assert!(found.unwrap_err().contains(words));
        let answers = measure(&root, "kernel-source", &params);
        assert_eq!(answers.failure().unwrap().0, "prepare");
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0);
    }
    for (name, value) in [("config", "a/b"), ("config", "-f x"), ("jobs", "0"), ("target", "")] {
        let param = workload.info().params.iter().find(|param| param.name == name).unwrap();
        assert!(param.parse(value).is_err(), "{name}={value}");
    }
}

#[test]
fn what_is_on_the_target_is_estimated_from_above() {
    let directory = tempfile::tempdir().unwrap();
    let Some(archive) = project(directory.path(), 1 << 20) else { return };
    let params = [("archive", archive.to_str().unwrap())];
    let spec = spec(directory.path(), "kernel-source", &params);
    let peak = catalog::find("kernel-source").unwrap().peak_bytes(&spec.params);
    let peak = peak.unwrap().unwrap();
    assert!((2 << 20..3 << 20).contains(&peak), "{peak}");
}

/// The real thing, without the minutes that compiling takes.
#[test]
fn the_kernel_of_the_distribution_is_extracted_and_configured() {
    let directory = tempfile::tempdir().unwrap();
    let params = [("cold", "none"), ("target", "prepare")];
    let answers = measure(directory.path(), "kernel-source", &params);
    // Skipped, not failed: what a trial says that lacks something.
    if let Some(Message::Skipped { reason }) = answers.messages.last() {
        assert!(reason.contains("install"), "{reason}");
        assert_eq!(answers.exit_code, fsdyno_workload::runner::EXIT_FINISHED);
        println!("skipped: {reason}");
        return;
    }
    let answers = answers.expect_finished();
    let extract = answers.phase("extract");
    assert!(extract.files > Some(50_000) && extract.bytes > 500 << 20, "{extract:?}");
    assert!(answers.phase("compile").files > Some(0), "scripts/kconfig has objects");
    assert!(answers.phase("remove").files > extract.files);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
