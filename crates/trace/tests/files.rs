//! Files of traces beside the programs that they come from: blkparse reads what we write, an independent
//! count agrees with what we read, and a trace that the kernel made just now is read whole.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fsdyno_model::trace::{
    Action, Flags, TraceDevice, TraceEvent, TraceInfo, TraceProcess, TraceSource,
};
use fsdyno_sys::loopdev::{LoopDevice, LoopOptions};
use fsdyno_trace::{EventSink, blktrace, open, stored};

fn skip(reason: impl std::fmt::Display) {
    println!("skipped: {reason}");
}

fn has(program: &str) -> bool {
    Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

fn read_all(mut source: Box<dyn TraceSource>) -> (Vec<TraceEvent>, TraceInfo) {
    let (mut batch, mut events) = (Vec::new(), Vec::new());
    while source.next_batch(&mut batch).unwrap() {
        events.append(&mut batch);
    }
    (events, source.info().clone())
}

/// Requests of three processes that are queued, issued and finished; some go otherwise.
fn made_up(requests: u64) -> (Vec<TraceEvent>, TraceInfo) {
    let process = |pid, name: &str| TraceProcess { pid, name: name.to_owned() };
    let info = TraceInfo {
        devices: vec![TraceDevice { number: 8 << 20, name: "sda".to_owned(), sectors: None }],
        processes: vec![process(0, "swapper"), process(100, "fio"), process(203, "kworker/1:2")],
        wall_offset_ns: Some(1_700_000_000_000_000_000),
        ..TraceInfo::default()
    };
    let mut events = Vec::new();
    for index in 0..requests {
        let flags = match index % 10 {
            0..5 => Flags::WRITE,
            5 => Flags::WRITE.with(Flags::SYNC).with(Flags::FUA),
            6 => Flags::DISCARD,
            _ => Flags::default(),
        };
        let event = TraceEvent {
            time_ns: index * 10_000,
            sector: index * 7_919 % 1_000_000 * 8,
            sectors: 8 + (index % 3) as u32 * 8,
            device: 8 << 20,
            process: 1 + (index % 2) as u32,
            flags,
            action: Action::Queue,
        };
        let steps: &[Action] = match index % 10 {
            1 => &[Action::Queue, Action::BackMerge],
            2 => &[Action::Plug, Action::Queue, Action::Unplug, Action::Issue, Action::Complete],
            3 => &[Action::Remap, Action::Queue, Action::Split, Action::Issue, Action::Complete],
            _ => &[
                Action::Queue,
                Action::GetRequest,
                Action::Insert,
                Action::Issue,
                Action::Complete,
            ],
        };
        for (step, action) in steps.iter().enumerate() {
            let time_ns = event.time_ns + step as u64 * 1000;
            events.push(TraceEvent { time_ns, action: *action, ..event });
        }
    }
    (events, info)
}

fn write_to(mut sink: impl EventSink, events: &[TraceEvent], info: &TraceInfo) {
    events.chunks(777).for_each(|events| sink.take(events, info).unwrap());
    sink.finish(info).unwrap();
}

/// Events and bytes by letter of the action and first letter of the kind.
type Totals = BTreeMap<(String, char), [u64; 2]>;

fn letter(action: Action) -> Option<&'static str> {
    let letters = ["Q", "M", "F", "G", "S", "R", "D", "C", "P", "U", "UT", "I", "X", "B", "A"];
    letters.get(action as usize).copied()
}

fn totals_of(events: &[TraceEvent]) -> Totals {
    let mut totals = Totals::new();
    for event in events {
        let Some(letter) = letter(event.action) else { continue };
        let kind = match event.flags {
            flags if flags.contains(Flags::FLUSH) => 'F',
            flags if flags.contains(Flags::DISCARD) => 'D',
            flags if flags.contains(Flags::WRITE) => 'W',
            _ if event.sectors > 0 => 'R',
            _ => 'N',
        };
        let [events, bytes] = totals.entry((letter.to_owned(), kind)).or_default();
        *events += 1;
        *bytes += event.bytes();
    }
    totals
}

/// What blkparse makes of a trace: totals, and the names of processes in lines of ours.
fn blkparse(name: &Path) -> (Totals, BTreeMap<(u32, String), u64>) {
    let output = Command::new("blkparse")
        .args(["-q", "-f", "@ %a %d %N %p %C\n", "-i"])
        .arg(name.file_name().unwrap())
        .current_dir(name.parent().unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut totals, mut processes) = (Totals::new(), BTreeMap::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Some(line) = line.strip_prefix("@ ") else { continue };
        let mut words = line.split_whitespace();
        let action = words.next().unwrap().to_owned();
        let kind = words.next().unwrap().chars().next().unwrap();
        let [events, bytes] = totals.entry((action, kind)).or_default();
        *events += 1;
        *bytes += words.next().unwrap().parse::<u64>().unwrap();
        let pid = words.next().unwrap().parse().unwrap();
        let name = words.collect::<Vec<_>>().join(" ");
        *processes.entry((pid, name)).or_default() += 1;
    }
    (totals, processes)
}

/// Counts the records of files of this machine's order of bytes, knowing nothing of our reader.
fn count_records(files: &[PathBuf]) -> Totals {
    let letters = "?QMFGSRDCPU?IXBA";
    let mut totals = Totals::new();
    for file in files {
        let bytes = fs::read(file).unwrap();
        let mut rest = bytes.as_slice();
        while rest.len() >= 48 {
            let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
            assert_eq!(word(0), 0x6561_7407);
            let (bytes, action) = (word(24), word(28));
            let pdu_bytes = u16::from_le_bytes([rest[46], rest[47]]);
            let number = (action & 0xff) as usize;
            let category = |bit: u32| action >> (16 + bit) & 1 == 1;
            if !category(10) && number <= 15 {
                let name = if number == 11 { "UT" } else { &letters[number..=number] };
                let kind = match () {
                    () if category(2) => 'F',
                    () if category(13) => 'D',
                    () if category(1) => 'W',
                    () if bytes > 0 => 'R',
                    () => 'N',
                };
                let [events, total] = totals.entry((name.to_owned(), kind)).or_default();
                *events += 1;
                *total += u64::from(bytes);
            }
            rest = &rest[48 + usize::from(pdu_bytes)..];
        }
        assert!(rest.is_empty());
    }
    totals
}

#[test]
fn blkparse_reads_what_is_written() {
    if !has("blkparse") {
        return skip("blkparse is not installed; run: scripts/bootstrap test");
    }
    let (events, info) = made_up(5000);
    let mut by_process = BTreeMap::new();
    for event in &events {
        let process = &info.processes[event.process as usize];
        *by_process.entry((process.pid, process.name.clone())).or_default() += 1;
    }
    for processors in [1, 2] {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("made-up");
        let writer = blktrace::Writer::create(&name, processors).unwrap();
        write_to(writer, &events, &info);
        let (totals, processes) = blkparse(&name);
        assert_eq!(totals, totals_of(&events), "{processors} processors");
        assert_eq!(processes, by_process, "{processors} processors");
        let (read_back, found) = read_all(open::open(&name).unwrap());
        assert_eq!(totals_of(&read_back), totals);
        assert_eq!(found.wall_offset_ns, info.wall_offset_ns);
    }
}

#[test]
fn a_name_stands_for_the_files_of_all_processors() {
    let (events, info) = made_up(100);
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    write_to(blktrace::Writer::create(&at("t"), 3).unwrap(), &events, &info);
    File::create(at("t.blktrace.3")).unwrap();
    File::create(at("t.blktrace.old")).unwrap();
    write_to(stored::Writer::create(&at("t.txt")).unwrap(), &events, &info);
    let count = |path: &str| open::open(&at(path)).map(|source| read_all(source).0.len());
    for path in ["t", "t.blktrace", "t.blktrace.0", "t.blktrace.*", "t.txt"] {
        assert_eq!(count(path).unwrap(), events.len(), "{path}");
    }
    let one = count("t.blktrace.1").unwrap();
    assert!(one > 0 && one < events.len());
    let shell: Vec<PathBuf> =
        ["t.blktrace.0", "t.blktrace.1", "t.blktrace.2", "t.txt"].map(at).into();
    let groups = open::group(&shell).unwrap();
    assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [4, 1]);
    assert_eq!(read_all(open::open_files(&groups[0]).unwrap()).0.len(), events.len());
    let two = open::group(&shell[1..3]).unwrap();
    assert_eq!(two, [shell[1..3].to_vec()], "without that of processor 0 only those named");
}

#[test]
fn what_is_no_trace_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("text"), "some text that is no trace of anything\n").unwrap();
    fs::write(at("empty.blktrace.0"), "").unwrap();
    fs::write(at("newer"), [&[9, 0x74, 0x61, 0x65], [0; 60].as_slice()].concat()).unwrap();
    for (name, message) in [
        ("text", "is no trace"),
        ("empty", "nothing was traced"),
        ("newer", "blktrace version 9"),
        ("absent", "no such file, nor"),
        ("", "is a directory"),
    ] {
        let error = open::open(&at(name)).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(message), "{name}: {error}");
    }
}

/// The global `blk` tracer, set on one device; put back when dropped.
struct Tracer {
    directory: tempfile::TempDir,
    switch: PathBuf,
}

impl Tracer {
    fn start(device: &LoopDevice, options: &[&str]) -> Result<Tracer, String> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tracefs", "none"])
            .arg(directory.path())
            .output()
            .map_err(|e| format!("mount: {e}"))?;
        if !mounted.status.success() {
            return Err(format!("tracefs: {}", String::from_utf8_lossy(&mounted.stderr).trim()));
        }
        let number = device.device_number();
        let switch = PathBuf::from(format!("/sys/dev/block/{number}/trace/enable"));
        let tracer = Tracer { directory, switch };
        let set = |path: &Path, text: &str| {
            fs::write(path, text).map_err(|e| format!("the blk tracer: {}: {e}", path.display()))
        };
        let current = fs::read_to_string(tracer.file("current_tracer")).unwrap_or_default();
        if current.trim() != "nop" {
            return Err(format!("the tracer {} is in use", current.trim()));
        }
        set(&tracer.file("current_tracer"), "blk")?;
        set(&tracer.switch, "1")?;
        for option in options {
            set(&tracer.file("trace_options"), option)?;
        }
        Ok(tracer)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// What the trace has until it is silent for a while.
    fn take(&self) -> Vec<u8> {
        // O_NONBLOCK
        let mut options = File::options();
        let mut pipe =
            options.read(true).custom_flags(0o4000).open(self.file("trace_pipe")).unwrap();
        let (mut bytes, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        let mut last = Instant::now();
        while last.elapsed() < Duration::from_millis(300) {
            match pipe.read(&mut buffer) {
                Ok(0) => {}
                Ok(read) => {
                    bytes.extend_from_slice(&buffer[..read]);
                    last = Instant::now();
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => panic!("{e}"),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        bytes
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = fs::write(&self.switch, "0");
        for option in ["nobin", "context-info"] {
            let _ = fs::write(self.file("trace_options"), option);
        }
        let _ = fs::write(self.file("current_tracer"), "nop");
        let _ = Command::new("umount").arg(self.directory.path()).status();
    }
}

/// Bytes of a trace of `dd` on a loop device, by the `blk` tracer.
fn traced(options: &[&str]) -> Result<Vec<u8>, String> {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    File::create(&image).and_then(|file| file.set_len(16 << 20)).unwrap();
    let device = LoopDevice::attach(&image, LoopOptions::default()).map_err(|e| e.to_string())?;
    let tracer = Tracer::start(&device, options)?;
    let mut of = std::ffi::OsString::from("of=");
    of.push(device.path());
    let status = Command::new("dd")
        .args(["if=/dev/zero", "bs=64k", "count=64", "conv=fsync", "status=none"])
        .arg(of)
        .status()
        .unwrap();
    assert!(status.success());
    let bytes = tracer.take();
    drop(tracer);
    device.detach().unwrap();
    Ok(bytes)
}

#[test]
fn streams_of_the_blk_tracer_are_read() {
    for options in [["bin", "nocontext-info"].as_slice(), &["bin"]] {
        let bytes = match traced(options) {
            Ok(bytes) => bytes,
            Err(reason) => return skip(reason),
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stream");
        fs::write(&path, &bytes).unwrap();
        let (events, info) = read_all(open::open(&path).unwrap());
        assert_eq!((info.lost_events, &info.warnings), (0, &Vec::new()), "{options:?}");
        let totals = totals_of(&events);
        for action in ["Q", "D", "C"] {
            let written = totals.get(&(action.to_owned(), 'W')).map(|total| total[1]);
            assert_eq!(written, Some(4 << 20), "{options:?} {action}: {totals:?}");
        }
        assert!(totals[&("C".to_owned(), 'F')][0] >= 1, "{totals:?}");
        assert!(info.processes.iter().all(|process| !process.name.is_empty()));
        if options.len() == 2 {
            assert_eq!(totals, count_records(std::slice::from_ref(&path)));
            pipe_to_example(&bytes, events.len());
            let name = directory.path().join("again");
            write_to(blktrace::Writer::create(&name, 2).unwrap(), &events, &info);
            if has("blkparse") {
                assert_eq!(blkparse(&name).0, totals);
            }
        }
        // There and back again through our own form.
        let ours = directory.path().join("ours");
        write_to(stored::Writer::create(&ours).unwrap(), &events, &info);
        assert_eq!(read_all(open::open(&ours).unwrap()), (events, info));
    }
}

/// Standard input is a trace as well.
fn pipe_to_example(bytes: &[u8], events: usize) {
    let test = std::env::current_exe().unwrap();
    let example = test.parent().unwrap().with_file_name("examples").join("trace_convert");
    if !example.exists() {
        return skip("the example trace_convert is not built");
    }
    let mut child = Command::new(example)
        .args(["-", "count"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    let first = format!("events {events}\n");
    assert!(output.stdout.starts_with(first.as_bytes()), "{output:?}");
}
