//! The gallery: its pages are fresh, are made by anyone of the stored results, and results can be stored.

use std::path::{Path, PathBuf};

use crate::sandbox::Sandbox;
use serde_json::Value;

/// Greatest size of a stored result.
const RESULT_BYTES: u64 = 600_000;

fn gallery() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gallery")
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn the_gallery_is_fresh() {
    let sandbox = Sandbox::in_memory();
    let gallery = gallery().display().to_string();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        sandbox.run(["gallery", "-o", &gallery]).assert_code(0);
    }
    let checked = sandbox.run(["gallery", "--check", "-o", &gallery]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}

#[test]
fn every_stored_result_is_small_holds_to_the_schema_and_is_compared() {
    let sandbox = Sandbox::in_memory();
    let root = gallery().join("../..");
    let schema = std::fs::read_to_string(root.join("docs/results.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let results = gallery().join("results");
    let listed = sandbox.run(["list", "plans", "--json"]).json();
    for plan in listed.as_array().unwrap() {
        let name = plan["name"].as_str().unwrap();
        let path = results.join(format!("{name}.json"));
        let bytes = std::fs::metadata(&path).unwrap().len();
        assert!(bytes < RESULT_BYTES, "{name}: {bytes}");
        let text = std::fs::read_to_string(&path).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let errors: Vec<String> = validator.iter_errors(&value).map(|it| it.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
        assert!(value["run"]["environment"]["kernel_cmdline"].is_null(), "{name}");
        let path = path.display().to_string();
        let told = sandbox.run(["diff", &path, &path, "--json"]);
        assert_eq!(told.code, Some(0), "{name}: {}", told.stderr);
    }
}

#[test]
fn results_are_stored_and_what_is_stale_is_told() {
    let sandbox = Sandbox::in_memory();
    let name = "btrfs-wiki-2007-create";
    let stored = gallery().join(format!("results/{name}.json"));
    let pages = sandbox.path().join("pages");
    let nothing = sandbox.run(["gallery", "-o", "pages"]);
    nothing.assert_code(2);
    assert!(nothing.stderr.contains("run --published"), "{}", nothing.stderr);

    sandbox.run(["gallery", &stored.display().to_string(), "-o", "pages"]).assert_code(0);
    let again = pages.join(format!("results/{name}.json"));
    let text = std::fs::read_to_string(&again).unwrap();
    let figures = |text: &str| {
        let result: Value = serde_json::from_str(text).unwrap();
        [result["summary"].clone(), result["trials"].clone()]
    };
    assert_eq!(figures(&text), figures(&std::fs::read_to_string(&stored).unwrap()));
    // What is reduced already stays as it is.
    sandbox.run(["gallery", &again.display().to_string(), "-o", "pages"]).assert_code(0);
    assert_eq!(std::fs::read_to_string(&again).unwrap(), text);
    let page = std::fs::read_to_string(pages.join(format!("{name}.md"))).unwrap();
    assert_eq!(page, std::fs::read_to_string(gallery().join(format!("{name}.md"))).unwrap());
    let index = std::fs::read_to_string(pages.join("README.md")).unwrap();
    assert!(index.contains("not run yet"), "{index}");
    for file in names(&pages).iter().filter(|name| name.ends_with(".svg")) {
        assert!(page.contains(&format!("({file})")), "{file}: {page}");
    }
    sandbox.run(["gallery", "--check", "-o", "pages"]).assert_code(0);

    std::fs::write(pages.join(format!("{name}.md")), page + "x").unwrap();
    std::fs::write(pages.join("web-cache-2003.svg"), "<svg/>").unwrap();
    let stale = sandbox.run(["gallery", "--check", "-o", "pages"]);
    stale.assert_code(1);
    for words in ["create.md is stale", "web-cache-2003.svg is of no stored result"] {
        assert!(stale.stderr.contains(words), "{words}: {}", stale.stderr);
    }
    sandbox.run(["gallery", "-o", "pages"]).assert_code(0);
    sandbox.run(["gallery", "--check", "-o", "pages"]).assert_code(0);
    assert!(!pages.join("web-cache-2003.svg").exists());
}

#[test]
fn what_repeats_nothing_is_refused() {
    let sandbox = Sandbox::in_memory();
    std::fs::create_dir(sandbox.path().join("a")).unwrap();
    let compare = ["compare", "dir:a", "-n", "1", "-w", "small-files:files=5", "--quiet"];
    sandbox.run(compare.into_iter().chain(["--json", "own.json"])).assert_code(0);
    let refused = sandbox.run(["gallery", "own.json", "-o", "pages"]);
    refused.assert_code(2);
    assert!(refused.stderr.contains("repeats nothing"), "{}", refused.stderr);
    assert!(!sandbox.path().join("pages").exists());
}
