//! What processes that do not end are doing: their state, and where in the kernel they wait. For the text
//! of an error; what is done about them is left to the callers.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use crate::process::{ProcessIdentity, ProcessStat, is_alive, parse_stat};

/// Functions of a kernel stack that are quoted, the innermost first.
const QUOTED_FRAMES: usize = 6;
/// Tasks that are described.
const MOST_TASKS: usize = 4;
/// Letters of a command line that are quoted.
const QUOTED_LETTERS: usize = 120;

/// A thread of a process, as `/proc` describes it at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingTask {
    /// Number of the process.
    pub pid: u32,
    /// Number of the thread; that of the process for its first.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// The command line of the process; empty where it cannot be read.
    pub command: String,
    /// Its state, as in `/proc/PID/stat`: `S`, `D`, …
    pub state: char,
    /// Functions of the kernel in which it waits, the innermost first; empty where they cannot be read.
    pub stack: Vec<String>,
}

impl WaitingTask {
    /// Whether no signal, not even SIGKILL, reaches it.
    #[must_use]
    pub fn is_out_of_reach(&self) -> bool {
        self.state == 'D'
    }
}

/// `process 41 (mkfs.ext4), run as "mkfs.ext4 -q /dev/loop0", in state D (…), in a < b < c`.
impl fmt::Display for WaitingTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.pid, self.name.escape_debug())?;
        if !self.command.is_empty() {
            write!(f, ", run as \"{}\"", self.command.escape_debug())?;
        }
        write!(f, ", in state {} ({})", self.state, state_words(self.state))?;
        if self.stack.is_empty() { Ok(()) } else { write!(f, ", in {}", self.stack.join(" < ")) }
    }
}

fn state_words(state: char) -> &'static str {
    match state {
        'R' => "running",
        'S' => "waiting for an event",
        'D' => "waiting in the kernel, where no signal reaches it",
        'T' | 't' => "stopped",
        'Z' | 'X' | 'x' => "ended",
        'I' => "idle",
        _ => "an unknown state",
    }
}

/// The processes of the group that `leader` leads, or led, and all that descend from it: of each the
/// threads that no signal reaches, or else the first. Those that have ended are left out.
#[must_use]
pub fn tasks(leader: u32) -> Vec<WaitingTask> {
    let stats = all_stats();
    let mut found = Vec::new();
    for pid in stats.iter().filter(|(pid, stat)| belongs(&stats, **pid, stat, leader)) {
        found.extend(tasks_of(*pid.0));
    }
    found
}

/// The same processes, so that it can be asked later whether they are gone.
#[must_use]
pub fn family(leader: u32) -> Vec<ProcessIdentity> {
    let stats = all_stats();
    let own = stats.iter().filter(|(pid, stat)| belongs(&stats, **pid, stat, leader));
    own.map(|(pid, stat)| ProcessIdentity { pid: *pid, start_ticks: stat.start_ticks }).collect()
}

/// [`tasks`] in words, for an error: `no process of it is left` where there is none.
#[must_use]
pub fn describe(leader: u32) -> String {
    words(tasks(leader))
}

/// Those of `processes` that still run, in words; `None` where all have ended.
#[must_use]
pub fn describe_living(processes: &[ProcessIdentity]) -> Option<String> {
    let living: Vec<&ProcessIdentity> =
        processes.iter().filter(|process| is_alive(process)).collect();
    let tasks = living.iter().flat_map(|process| tasks_of(process.pid)).collect();
    (!living.is_empty()).then(|| words(tasks))
}

fn words(mut tasks: Vec<WaitingTask>) -> String {
    // Those that are out of reach are the reason.
    tasks.sort_by_key(|task| !task.is_out_of_reach());
    let more = tasks.len().saturating_sub(MOST_TASKS);
    let mut words: Vec<String> =
        tasks.iter().take(MOST_TASKS).map(WaitingTask::to_string).collect();
    if more > 0 {
        words.push(format!("{more} more"));
    }
    if words.is_empty() { "no process of it is left".to_owned() } else { words.join("; ") }
}

fn all_stats() -> BTreeMap<u32, ProcessStat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers
        .filter_map(|pid| {
            Some((pid, parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))
        })
        .collect()
}

fn belongs(stats: &BTreeMap<u32, ProcessStat>, pid: u32, stat: &ProcessStat, leader: u32) -> bool {
    if !stat.is_alive() {
        return false;
    }
    if pid == leader || stat.group == leader {
        return true;
    }
    // Bounded: processes may come and go while the list is read.
    let mut parent = stat.parent_pid;
    for _ in 0..stats.len() {
        if parent == leader {
            return true;
        }
        match stats.get(&parent) {
            Some(next) if next.parent_pid != 0 => parent = next.parent_pid,
            _ => return false,
        }
    }
    false
}

fn tasks_of(pid: u32) -> Vec<WaitingTask> {
    let directory = format!("/proc/{pid}/task");
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    let all: Vec<WaitingTask> = numbers.into_iter().filter_map(|tid| task(pid, tid)).collect();
    let stuck: Vec<WaitingTask> =
        all.iter().filter(|task| task.is_out_of_reach()).cloned().collect();
    if stuck.is_empty() { all.into_iter().take(1).collect() } else { stuck }
}

fn task(pid: u32, tid: u32) -> Option<WaitingTask> {
    let place = format!("/proc/{pid}/task/{tid}");
    let stat = parse_stat(&fs::read_to_string(format!("{place}/stat")).ok()?)?;
    let name = fs::read_to_string(format!("{place}/comm")).unwrap_or_default();
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    Some(WaitingTask {
        pid,
        tid,
        name: name.trim_end().to_owned(),
        command: command_line(&command),
        state: stat.state,
        stack: stack(Path::new(&place)),
    })
}

fn command_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words: Vec<&str> = text.split('\0').filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(QUOTED_LETTERS) {
        Some((end, _)) => format!("{} …", &line[..end]),
        None => line,
    }
}

/// The kernel's stack of a thread, or else the one function that everybody may read.
fn stack(place: &Path) -> Vec<String> {
    let frames = fs::read_to_string(place.join("stack")).map(|text| parse_stack(&text));
    match frames {
        Ok(frames) if !frames.is_empty() => frames,
        _ => {
            let place = fs::read_to_string(place.join("wchan")).unwrap_or_default();
            let place = place.trim();
            if place.is_empty() || place == "0" { Vec::new() } else { vec![place.to_owned()] }
        }
    }
}

/// Lines have the form `[<0>] FUNCTION+0x12/0x34`.
fn parse_stack(text: &str) -> Vec<String> {
    let function = |line: &str| {
        let name = line.rsplit_once("] ").map_or(line, |(_, name)| name);
        let name = name.split('+').next().unwrap_or_default().trim();
        (!name.is_empty()).then(|| name.to_owned())
    };
    text.lines().filter_map(function).take(QUOTED_FRAMES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_read_whatever_they_hold() {
        let text = "[<0>] folio_wait_bit_common+0x138/0x310\n[<0>] fsync+0x1/0x2\n";
        assert_eq!(parse_stack(text), ["folio_wait_bit_common", "fsync"]);
        assert_eq!(parse_stack("[<0>] do_wait\n\n"), ["do_wait"]);
        assert_eq!(parse_stack(""), Vec::<String>::new());
        assert_eq!(parse_stack(&"[<0>] f+0x1/0x2\n".repeat(40)).len(), QUOTED_FRAMES);
    }

    #[test]
    fn a_process_that_waits_is_described_with_its_children() {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "sleep 600 & sleep 600"]).stdout(std::process::Stdio::null());
        let mut child = crate::process::own_process_group(&mut command).spawn().unwrap();
        let start = std::time::Instant::now();
        let mut told = String::new();
        while start.elapsed().as_secs() < 20 && told.matches("(sleep)").count() < 2 {
            told = describe(child.id());
        }
        let family = family(child.id());
        let living = describe_living(&family);
        crate::process::kill_group(child.id(), crate::process::Signal::KILL).unwrap();
        child.wait().unwrap();
        assert_eq!(family.len(), 3, "{family:?}");
        assert!(living.is_some_and(|living| living.contains("(sleep)")));
        while start.elapsed().as_secs() < 20 && describe_living(&family).is_some() {}
        assert_eq!(describe_living(&family), None);
        assert_eq!(told.matches("(sleep), run as \"sleep 600\", in state ").count(), 2, "{told}");
        assert!(told.contains(&format!("process {} (sh)", child.id())), "{told}");
    }

    #[test]
    fn long_command_lines_are_cut_and_strange_ones_escaped() {
        assert_eq!(command_line(b"a\0b c\0"), "a b c");
        assert!(command_line(&[b'x'; 900]).ends_with("x …"));
        let task = WaitingTask {
            pid: 7,
            tid: 7,
            name: "a\nb".to_owned(),
            command: "a \u{1b}".to_owned(),
            state: 'D',
            stack: vec!["f".to_owned(), "g".to_owned()],
        };
        assert_eq!(
            task.to_string(),
            "process 7 (a\\nb), run as \"a \\u{1b}\", in state D (waiting in the kernel, where no signal reaches it), in f < g"
        );
    }
}
