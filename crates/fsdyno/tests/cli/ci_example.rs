//! The example for continuous integration on the page about `fsdyno diff`: its steps are taken from the page
//! and run, so that it cannot rot.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::sandbox::{Finished, Sandbox, can_format};

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/DIFF.md");
    std::fs::read_to_string(path).unwrap()
}

/// The YAML texts of the page.
fn examples(page: &str) -> Vec<Vec<String>> {
    let mut examples = Vec::new();
    let mut lines = page.lines();
    while lines.by_ref().any(|line| line == "```yaml") {
        let example = lines.by_ref().take_while(|line| *line != "```");
        examples.push(example.map(str::to_owned).collect());
    }
    examples
}

/// The scripts behind `run:` of an example, in their order: the rest of the line, or the deeper lines
/// below `run: |`.
fn scripts(example: &[String]) -> Vec<String> {
    let mut scripts = Vec::new();
    let indent = |line: &str| line.len() - line.trim_start().len();
    for (index, line) in example.iter().enumerate() {
        let key = line.trim_start().trim_start_matches("- ");
        let Some(rest) = key.strip_prefix("run:") else { continue };
        let column = line.len() - key.len();
        scripts.push(match rest.trim() {
            "|" => {
                let below = example[index + 1..].iter();
                let own = below.take_while(|line| line.trim().is_empty() || indent(line) > column);
                own.map(|line| line.get(column + 2..).unwrap_or_default().to_owned() + "\n")
                    .collect()
            }
            script => script.to_owned(),
        });
    }
    scripts
}

/// The variables of every `env:` of an example: `NAME: VALUE` in the lines below that are deeper.
fn variables(example: &[String]) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    for (index, line) in example.iter().enumerate() {
        let key = line.trim_start().trim_start_matches("- ");
        if key != "env:" {
            continue;
        }
        let lead = " ".repeat(line.len() - key.len() + 2);
        for line in example[index + 1..].iter().take_while(|line| line.starts_with(&lead)) {
            let (name, value) = line.trim().split_once(": ").unwrap();
            variables.insert(name.to_owned(), value.split(" #").next().unwrap().trim().to_owned());
        }
    }
    variables
}

/// Programs of a hosted runner: ours, `sudo`, which root does not need, and `gh`, which notes what it is
/// asked for.
fn runner(sandbox: &Sandbox) -> String {
    let directory = sandbox.path().join("bin");
    std::fs::create_dir(&directory).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_fsdyno"), directory.join("fsdyno")).unwrap();
    for (name, text) in [("sudo", "exec \"$@\""), ("gh", "echo \"$@\" >> gh-was-asked")] {
        let path = directory.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    format!("{}:{}", directory.display(), std::env::var("PATH").unwrap())
}

/// Runs a script as the runner of GitHub does where no shell is named: `bash -e`, with its expressions
/// replaced.
fn step(
    sandbox: &Sandbox,
    script: &str,
    outputs: &str,
    env: &BTreeMap<String, String>,
) -> Finished {
    let mut script = script.to_owned();
    for (expression, value) in [
        ("steps.diff.outputs.code", outputs),
        ("github.event.number", "7"),
        ("github.repository", "owner/name"),
    ] {
        script = script.replace(&format!("${{{{ {expression} }}}}"), value);
    }
    assert!(!script.contains("${{"), "an expression that the test does not know: {script}");
    let path = sandbox.file("step.sh", &script);
    let mut command = Command::new("bash");
    sandbox.surround(command.args(["-e", &path]));
    command.envs(env);
    command.env("GITHUB_OUTPUT", sandbox.path().join("outputs"));
    command.env("GITHUB_STEP_SUMMARY", sandbox.path().join("summary.md"));
    Finished::of(&command.output().unwrap())
}

/// Small sizes in place of those of the example; every other value is the example's own.
fn small(example: &[String], path: String) -> BTreeMap<String, String> {
    let mut variables = variables(example);
    for (name, value) in [("SIZE", "300MiB"), ("TRIALS", "4"), ("WORKLOAD", "small-files:files=50")]
    {
        let known = variables.get_mut(name);
        assert!(known.is_some() || name == "WORKLOAD", "the example has no {name}");
        known.into_iter().for_each(|known| *known = value.to_owned());
    }
    variables.insert("PATH".to_owned(), path);
    variables
}

/// What `cargo install` does is not tried: it would build everything once more.
fn measuring(example: &[String]) -> Vec<String> {
    let scripts = scripts(example);
    scripts.into_iter().filter(|script| !script.starts_with("cargo install")).collect()
}

#[test]
fn the_job_of_a_pull_request_does_what_the_page_says() {
    if !can_format(&["ext4"]) {
        return;
    }
    let example = &examples(&page())[0];
    let steps = measuring(example);
    assert_eq!(steps.len(), 4, "measure, compare, comment, fail: {steps:?}");
    let sandbox = Sandbox::new();
    let env = small(example, runner(&sandbox));
    for (side, seconds) in [("base", "0.1"), ("new", "0.9")] {
        std::fs::create_dir(sandbox.path().join(side)).unwrap();
        sandbox.file(&format!("{side}/work"), &format!("sleep {seconds}\n"));
    }
    for script in &steps[..2] {
        step(&sandbox, script, "", &env).assert_code(0);
    }
    let outputs = std::fs::read_to_string(sandbox.path().join("outputs")).unwrap();
    assert_eq!(outputs, "code=1\n");
    for name in ["comment.md", "summary.md"] {
        let text = std::fs::read_to_string(sandbox.path().join(name)).unwrap();
        assert!(text.starts_with("### fsdyno: slower\n"), "{name}: {text}");
    }
    step(&sandbox, &steps[2], "", &env).assert_code(0);
    let asked = std::fs::read_to_string(sandbox.path().join("gh-was-asked")).unwrap();
    assert_eq!(asked, "pr comment 7 --repo owner/name --body-file comment.md\n");
    step(&sandbox, &steps[3], "1", &env).assert_code(1);
    step(&sandbox, &steps[3], "0", &env).assert_code(0);
    sandbox.assert_nothing_left();
}

#[test]
fn a_stored_baseline_is_compared_as_the_page_says() {
    if !can_format(&["ext4", "xfs"]) {
        return;
    }
    let examples = examples(&page());
    let [_, main_branch, pull_request] = examples.as_slice() else {
        panic!("the page has {} examples", examples.len());
    };
    let sandbox = Sandbox::new();
    let path = runner(&sandbox);
    for example in [main_branch, pull_request] {
        let steps = measuring(example);
        assert_eq!(steps.len(), 1, "{steps:?}");
        let finished = step(&sandbox, &steps[0], "", &small(example, path.clone()));
        // Whether something is slower is chance here; that it could be compared is not.
        assert!(matches!(finished.code, Some(0 | 1)), "{}", finished.stderr);
    }
    let text = std::fs::read_to_string(sandbox.path().join("summary.md")).unwrap();
    assert!(text.starts_with("### fsdyno: ") && text.contains("| phase |"), "{text}");
    sandbox.assert_nothing_left();
}
