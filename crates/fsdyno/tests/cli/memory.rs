//! The phase runner keeps within 64 MiB for a million files.

use std::io::Write as _;
use std::process::{Command, Stdio};

use fsdyno_model::param::Params;
use fsdyno_model::wire::{self, MeasureSpec, Message, Spec, Task, Watch};

use crate::sandbox::{Sandbox, skip};

/// What the runner may allocate: heap, stacks of threads and other private memory.
const LIMIT_BYTES: u64 = 64 << 20;
const FILES: u64 = 1_000_000;

#[test]
fn a_million_files_fit_into_64_mib() {
    let sandbox = Sandbox::in_memory();
    let root = sandbox.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let info = fsdyno_workload::catalog::find("small-files").unwrap().info();
    let mut params = Params::defaults(info.params, false);
    for (name, value) in
        [("files", FILES.to_string()), ("size", "0".into()), ("cold", "none".into())]
    {
        params.set(info.params, name, &value).unwrap();
    }
    let spec = Spec {
        version: wire::VERSION,
        task: Task::Measure(MeasureSpec {
            root,
            workload: "small-files".to_owned(),
            definition: None,
            params,
            seed: 1,
            may_drop_caches: false,
            may_remount: false,
            has_own_cache: false,
            watch: Watch::default(),
        }),
    };
    let spawned = Command::new("prlimit")
        .arg(format!("--data={LIMIT_BYTES}"))
        .args([env!("CARGO_BIN_EXE_fsdyno"), "runner"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = spawned else { return skip("prlimit is not installed") };
    let mut frame = Vec::new();
    wire::write_frame(&mut frame, &spec).unwrap();
    child.stdin.take().unwrap().write_all(&frame).unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut phases = Vec::new();
    let mut last = None;
    while let Some(message) = wire::read_frame::<Message>(&mut output).unwrap() {
        if let Message::Phase(phase) = &message {
            phases.push((phase.name.clone(), phase.files));
        }
        last = Some(message);
    }
    assert!(child.wait().unwrap().success(), "{last:?}");
    assert_eq!(last, Some(Message::Finished));
    let expected = ["create", "stat", "read", "delete"].map(|name| (name.to_owned(), Some(FILES)));
    assert_eq!(phases, expected);
}
