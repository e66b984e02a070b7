//! Texts of load files: read and compiled without a panic, and what is read means the same when it is
//! written and read again.
#![no_main]

use fsdyno_workload::dbench::loadfile::parse;
use fsdyno_workload::dbench::program::{Options, compile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(lines) = parse("load", text) else { return };
    let said: Vec<String> = lines.iter().map(|line| line.statement.to_string()).collect();
    let again = parse("load", &said.join("\n")).expect("what was read is written as it is read");
    assert!(again.iter().map(|line| &line.statement).eq(lines.iter().map(|line| &line.statement)));
    if let Ok(program) = compile("load", &lines, Options::default()) {
        assert!(program.steps.len() >= lines.len());
        let _ = program.paths_of(3);
    }
});
