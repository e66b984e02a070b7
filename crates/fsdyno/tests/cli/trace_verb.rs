//! `fsdyno trace`: files of every form into every form, and a loop device while dd runs.

use std::io::{BufRead as _, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::sandbox::{Finished, Sandbox, skip};
use fsdyno_model::trace::{
    Action, Flags, SECTOR_BYTES, TraceDevice, TraceEvent, TraceInfo, TraceProcess,
};
use fsdyno_sys::loopdev::{LoopDevice, LoopOptions};
use fsdyno_trace::EventSink as _;
use serde_json::Value;

const DEVICE: u32 = 7 << 20;
const REQUESTS: u64 = 500;

/// Writes requests of a made-up disk, one each millisecond: reads in sequence, or writes all over it.
fn stored(sandbox: &Sandbox, name: &str, reads: bool) -> String {
    let path = sandbox.path().join(name);
    let info = TraceInfo {
        devices: vec![TraceDevice {
            number: DEVICE,
            name: "loop0".to_owned(),
            sectors: Some(1 << 21),
        }],
        processes: vec![TraceProcess { pid: 42, name: "cp".to_owned() }],
        ..TraceInfo::default()
    };
    let mut events = Vec::new();
    for request in 0..REQUESTS {
        let place = if reads { request * 256 } else { request * 7_919 % 8_000 * 256 };
        for (action, after_ns) in
            [(Action::Queue, 0), (Action::Issue, 5_000), (Action::Complete, 300_000)]
        {
            events.push(TraceEvent {
                time_ns: request * 1_000_000 + after_ns,
                sector: place,
                sectors: 256,
                device: DEVICE,
                process: 0,
                flags: if reads { Flags::default() } else { Flags::WRITE },
                action,
            });
        }
    }
    let mut writer = fsdyno_trace::stored::Writer::create(&path).unwrap();
    writer.take(&events, &info).unwrap();
    writer.finish(&info).unwrap();
    path.display().to_string()
}

fn totals(document: &Value, index: usize) -> (u64, u64, u64, u64) {
    let totals = &document["graphs"][index]["totals"];
    let figure = |name: &str| totals[name].as_u64().unwrap();
    (figure("reads"), figure("read_bytes"), figure("writes"), figure("write_bytes"))
}

const BYTES: u64 = REQUESTS * 256 * SECTOR_BYTES;

#[test]
fn files_become_pictures_pages_and_figures() {
    let sandbox = Sandbox::in_memory();
    let reads = stored(&sandbox, "reads.fstrace", true);
    let writes = stored(&sandbox, "writes.fstrace", false);

    let summary = sandbox.run(["trace", &reads]);
    summary.assert_code(0);
    for words in ["reads", "65.5 MB", "cp", "loop0 of 1.07 GB"] {
        assert!(summary.stdout.contains(words), "{words}: {}", summary.stdout);
    }
    assert!(!summary.stdout.contains('\u{1b}') && !summary.stdout.contains('█'), "{summary:?}");

    let names = ["both.svg", "both.png", "both.html", "both.json", "both.csv"];
    let mut arguments = vec!["trace", &reads, &writes, "--label", "before"];
    for name in names {
        arguments.extend(["-o", name]);
    }
    let finished = sandbox.run(arguments);
    finished.assert_code(0);
    assert_eq!(finished.stdout, "");
    let read = |name: &str| std::fs::read(sandbox.path().join(name)).unwrap();
    let text = |name: &str| String::from_utf8(read(name)).unwrap();
    assert!(text("both.svg").contains(">before<") && text("both.svg").contains(">writes<"));
    assert_eq!(read("both.png")[..8], *b"\x89PNG\r\n\x1a\n");
    assert!(text("both.html").starts_with("<!") && text("both.html").contains("before"));
    let document: Value = serde_json::from_slice(&read("both.json")).unwrap();
    assert_eq!(totals(&document, 0), (REQUESTS, BYTES, 0, 0));
    assert_eq!(totals(&document, 1), (0, 0, REQUESTS, BYTES));
    let seeks = |index: usize| document["graphs"][index]["totals"]["seeks"].as_u64().unwrap();
    assert!(seeks(0) <= 1 && seeks(1) > REQUESTS / 2, "{} {}", seeks(0), seeks(1));
    let csv = text("both.csv");
    assert!(csv.starts_with("trace,time_s,series,unit,value\n"));
    for words in ["\nbefore,", "\nwrites,", ",read_bytes_per_s,B/s,", ",seeks_per_s,1/s,"] {
        assert!(csv.contains(words), "{words}");
    }
}

#[test]
fn a_trace_is_kept_in_other_forms_and_filmed() {
    let sandbox = Sandbox::in_memory();
    let writes = stored(&sandbox, "writes.fstrace", false);
    let kept = ["trace", &writes, "--save", "again.fstrace", "--blktrace", "as", "--json"];
    let original = sandbox.run(kept);
    original.assert_code(0);
    assert_eq!(totals(&original.json(), 0), (0, 0, REQUESTS, BYTES));
    for name in ["again.fstrace", "as", "as.blktrace.0"] {
        let other = sandbox.run(["trace", name, "--json"]);
        other.assert_code(0);
        assert_eq!(totals(&other.json(), 0), totals(&original.json(), 0), "{name}");
    }
    // What a shell gives for `as.blktrace.*` is one trace.
    let parts = (0..64).map(|cpu| format!("as.blktrace.{cpu}"));
    let parts: Vec<String> = parts.filter(|name| sandbox.path().join(name).exists()).collect();
    let arguments = ["trace"].into_iter().chain(parts.iter().map(String::as_str));
    let together = sandbox.run(arguments.chain(["--json"]));
    together.assert_code(0);
    assert_eq!(together.json()["graphs"].as_array().unwrap().len(), 1, "{parts:?}");
    assert_eq!(totals(&together.json(), 0), totals(&original.json(), 0), "{parts:?}");
    // Files are never overwritten by a trace.
    let refused = sandbox.run(["trace", &writes, "--save", "again.fstrace"]);
    refused.assert_code(2);
    assert!(refused.stderr.contains("exists"), "{}", refused.stderr);

    let film = ["trace", &writes, "--frames", "film", "--fps", "5", "--film-seconds", "2", "-q"];
    sandbox.run(film).assert_code(0);
    let frame =
        |number: u32| std::fs::read(sandbox.path().join(format!("film/{number:05}.png"))).unwrap();
    assert_ne!(frame(1), frame(10));
    assert!(!sandbox.path().join("film/00011.png").exists());
}

#[test]
fn bad_input_is_told_in_a_sentence() {
    let sandbox = Sandbox::in_memory();
    let reads = stored(&sandbox, "reads.fstrace", true);
    let text = sandbox.file("notes.txt", "no trace at all, but a text of some length\n");
    let empty = sandbox.file("empty", "");
    let cases: [(&[&str], &str); 10] = [
        (&["missing.fstrace"], "missing.fstrace"),
        (&[&text], "notes.txt: is no trace"),
        (&[&empty], "empty"),
        (&["/dev/null"], "/dev/null"),
        (&[&reads, "-o", "picture.gif"], "-o picture.gif: the form is not known"),
        (&[&reads, "-o", "no/such/place.svg"], "there is no directory no/such"),
        (&[&reads, "--live"], "--live goes with a block device"),
        (&[&reads, "--", "true"], "a command goes with a block device"),
        (&[&reads, &reads, "--frames", "film"], "--frames takes one trace"),
        (&[&reads, "--size", "9"], "--size 9: write for example"),
    ];
    for (arguments, words) in cases {
        let finished = sandbox.run(["trace"].into_iter().chain(arguments.iter().copied()));
        finished.assert_code(2);
        let told = &finished.stderr;
        assert!(told.starts_with("fsdyno: ") && told.contains(words), "{arguments:?}: {told}");
    }
}

/// A loop device on an image of 64 MiB, where devices can be traced; prints the reason when not.
fn traceable(sandbox: &Sandbox) -> Option<LoopDevice> {
    if !fsdyno_sys::process::is_root() {
        skip("needs root for loop devices");
        return None;
    }
    if !Path::new("/dev/loop-control").exists() {
        skip("the kernel has no loop devices");
        return None;
    }
    if let Some(reason) = fsdyno_trace::capture::unavailable() {
        skip(&format!("devices cannot be traced: {reason}"));
        return None;
    }
    let image = sandbox.path().join("image");
    std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    Some(LoopDevice::attach(&image, LoopOptions::default()).unwrap())
}

fn dd(device: &str) -> Vec<String> {
    let of = format!("of={device}");
    let words = ["dd", "if=/dev/zero", &of, "bs=64k", "count=128", "oflag=direct", "status=none"];
    words.map(str::to_owned).to_vec()
}

const DD_BYTES: u64 = 128 * (64 << 10);

/// Names of the private instances of tracefs of a process, if they can be seen.
fn instances(pid: u32) -> Vec<PathBuf> {
    let directories = ["/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"];
    let entries = directories.iter().filter_map(|path| std::fs::read_dir(path).ok()).flatten();
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(|path| path.to_string_lossy().contains(&format!("fsdyno-{pid}"))).collect()
}

#[test]
fn a_device_is_traced_while_dd_runs() {
    let sandbox = Sandbox::new();
    let Some(device) = traceable(&sandbox) else { return };
    let path = device.path().display().to_string();
    let mut command = sandbox.command(["trace", &path, "--json", "--save", "dd.fstrace", "--"]);
    let finished = Finished::of(&command.args(dd(&path)).output().unwrap());
    finished.assert_code(0);
    let document = finished.json();
    let graph = &document["graphs"][0];
    assert_eq!(graph["label"], format!("dd on {}", path.trim_start_matches("/dev/")));
    assert_eq!(graph["lost_events"], 0);
    let (.., writes, bytes) = totals(&document, 0);
    assert!(writes >= 64 && bytes == DD_BYTES, "{writes} {bytes}");
    let processes = graph["processes"].as_array().unwrap();
    let own = processes.iter().find(|process| process["name"] == "dd").expect("dd is named");
    assert_eq!(own["write_bytes"], DD_BYTES);
    // The kept trace says the same.
    let again = sandbox.run(["trace", "dd.fstrace", "--json"]);
    assert_eq!(totals(&again.json(), 0), totals(&document, 0));
    let summary = sandbox.run(["trace", "dd.fstrace", "-o", "dd.svg"]);
    summary.assert_code(0);
    device.detach().unwrap();
}

#[test]
fn the_exit_code_of_the_command_is_given_on() {
    let sandbox = Sandbox::new();
    let Some(device) = traceable(&sandbox) else { return };
    let path = device.path().display().to_string();
    for (script, code) in [("exit 7", 7), ("kill -9 $$", 137), ("true", 0)] {
        let finished = sandbox.run(["trace", &path, "-q", "--", "sh", "-c", script]);
        finished.assert_code(code);
    }
    let finished = sandbox.run(["trace", &path, "--", "no-such-program-anywhere"]);
    finished.assert_code(2);
    assert!(finished.stderr.contains("cannot run no-such-program-anywhere"), "{finished:?}");
    device.detach().unwrap();
}

#[test]
fn a_signal_ends_a_trace_cleanly() {
    let sandbox = Sandbox::new();
    let Some(device) = traceable(&sandbox) else { return };
    let path = device.path().display().to_string();
    let mut command = sandbox.command(["trace", &path]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = String::new();
    let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut told).unwrap();
    assert!(told.contains("Ctrl-C ends"), "{told}");
    let words = dd(&path);
    assert!(Command::new(&words[0]).args(&words[1..]).status().unwrap().success());
    let pid = child.id();
    assert!(Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap().success());
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(text.contains("8.39 MB") && text.contains("dd"), "{text}");
    assert_eq!(instances(pid), Vec::<PathBuf>::new());
    device.detach().unwrap();
}

#[test]
fn the_live_view_gives_the_terminal_back() {
    let sandbox = Sandbox::new();
    let Some(device) = traceable(&sandbox) else { return };
    let path = device.path().display().to_string();
    let script = format!("{} && echo said-by-the-command && sleep 1.2", dd(&path).join(" "));
    let line = format!(
        "stty rows 40 cols 140; {} trace {path} --live -- sh -c '{script}'",
        env!("CARGO_BIN_EXE_fsdyno")
    );
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).env("TERM", "xterm-256color");
    let Ok(output) = command.output() else {
        skip("script is not installed, which gives a terminal");
        return;
    };
    let finished = Finished::of(&output);
    finished.assert_code(0);
    let text = &finished.stdout;
    let (enter, leave) = ("\u{1b}[?1049h", "\u{1b}[?1049l");
    let left = text.rfind(leave).expect("it leaves the other screen");
    assert!(text.find(enter).is_some_and(|entered| entered < left), "{text:?}");
    assert!(text[..left].contains("queue") && text[..left].contains("offset"), "{text:?}");
    // What the command said, and the summary, come after it.
    assert!(text[left..].contains("said-by-the-command"), "{text:?}");
    assert!(text[left..].contains("Who issued it"), "{text:?}");
    device.detach().unwrap();
}

#[test]
fn without_rights_the_reason_is_told() {
    let sandbox = Sandbox::new();
    let is_device = |name: &String| fsdyno_sys::block::is_block_device(Path::new(name));
    let names = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut devices = names.map(|name| format!("/dev/{}", name.file_name().display()));
    let Some(device) = devices.find(is_device) else {
        skip("there is no block device");
        return;
    };
    let Some(finished) = sandbox.run_as_nobody(&["trace", &device, "--", "true"]) else { return };
    finished.assert_code(1);
    let told = format!("fsdyno: cannot trace {device}: ");
    assert!(finished.stderr.starts_with(&told) && finished.stderr.len() > told.len() + 10);
}
