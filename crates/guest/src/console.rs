//! What the kernel of a guest said on its console, and what that means: a panic, a process killed for
//! want of memory. It is text of another machine, believed no further than it is quoted.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// How much of a console is read, from its end, in bytes.
const READ_BYTES: u64 = 256 << 10;
/// How many of its last lines are quoted.
const QUOTED_LINES: usize = 6;

/// The end of a console; empty where there is none.
#[must_use]
pub fn read(path: &Path) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(READ_BYTES)))?;
        file.take(READ_BYTES).read_to_end(&mut bytes)
    });
    if read.is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    text.chars().filter(|c| *c == '\n' || !c.is_control()).collect()
}

/// A line without the time that the kernel puts before it.
fn without_time(line: &str) -> &str {
    let line = line.trim();
    let Some(rest) = line.strip_prefix('[') else { return line };
    match rest.split_once(']') {
        Some((time, words)) if time.trim().parse::<f64>().is_ok() => words.trim(),
        _ => line,
    }
}

/// What became of the kernel, where its last words tell: a panic with the function in which it was, or
/// that it ran out of memory.
#[must_use]
pub fn verdict(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().map(without_time).collect();
    let after = |start: &str| lines.iter().find_map(|line| line.strip_prefix(start));
    let out_of_memory = || {
        let killed = lines.iter().find(|line| line.starts_with("Out of memory"))?;
        Some(format!("the guest ran out of memory ({killed}): give it more with --guest-memory"))
    };
    let Some(panic) = after("Kernel panic - not syncing:") else { return out_of_memory() };
    if panic.contains("memory") {
        return out_of_memory().or_else(|| {
            Some(format!(
                "the guest ran out of memory ({}): give it more with --guest-memory",
                panic.trim()
            ))
        });
    }
    // `RIP: 0010:jfs_create+0x1f/0x40 [jfs]`: the first is where it began. That of a program is another segment.
    let place = after("RIP: 0010:").map(|place| {
        let (function, module) = place.split_once(' ').unwrap_or((place, ""));
        let function = function.split('+').next().unwrap_or(function);
        format!(" in {} {}", function, module.trim()).trim_end().to_owned()
    });
    Some(format!("kernel panic{}: {}", place.unwrap_or_default(), panic.trim()))
}

/// The last lines, for an error; empty where nothing was said.
#[must_use]
pub fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(without_time).filter(|line| !line.is_empty()).collect();
    let first = lines.len().saturating_sub(QUOTED_LINES);
    lines[first..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PANIC: &str = "\
[    2.301] BUG: kernel NULL pointer dereference, address: 0000000000000008
[    2.302] RIP: 0010:jfs_create+0x1f/0x40 [jfs]
[    2.303] RIP: 0033:0x7f0
[    2.304] Kernel panic - not syncing: Fatal exception
[    2.305] Rebooting in 1 seconds..
";

    #[test]
    fn panics_are_named_with_their_place() {
        assert_eq!(
            verdict(PANIC).as_deref(),
            Some("kernel panic in jfs_create [jfs]: Fatal exception")
        );
        let asked = "[ 1.5] Kernel panic - not syncing: EXT4-fs (device loop0): panic forced after error\n\
            [ 1.6] RIP: 0033:0x7f3b10\n";
        assert_eq!(
            verdict(asked).as_deref(),
            Some("kernel panic: EXT4-fs (device loop0): panic forced after error")
        );
        let sysrq = "[ 1.5] Kernel panic - not syncing: sysrq triggered crash\n";
        assert_eq!(verdict(sysrq).as_deref(), Some("kernel panic: sysrq triggered crash"));
        assert_eq!(verdict("[ 1.5] all is well\n"), None);
        assert!(last_lines(PANIC).ends_with("Fatal exception; Rebooting in 1 seconds.."));
    }

    #[test]
    fn want_of_memory_is_told() {
        let killed = "[ 9.1] Out of memory: Killed process 77 (fsdyno) total-vm:1kB\n";
        assert!(verdict(killed).unwrap().contains("--guest-memory"));
        let panic = "Kernel panic - not syncing: System is deadlocked on memory\n";
        assert!(verdict(panic).unwrap().contains("deadlocked"));
        let both = format!("{killed}{panic}");
        assert!(verdict(&both).unwrap().contains("Killed process 77"));
    }

    #[test]
    fn a_console_is_plain_text() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("console");
        assert_eq!(read(&path), "");
        std::fs::write(&path, b"\x1b[31mred\r\n\xff\n").unwrap();
        assert_eq!(read(&path), "[31mred\n\u{fffd}\n");
    }

    proptest::proptest! {
        #[test]
        fn no_console_panics(text in "(\\[ 1\\.5\\] |Kernel panic - not syncing:|RIP:|:|Out of memory| |é|x|\n){0,40}") {
            let _ = (verdict(&text), last_lines(&text));
        }
    }
}
