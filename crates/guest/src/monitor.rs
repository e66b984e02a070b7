//! What QEMU itself is told while it runs: its machine protocol (QMP), lines of JSON over a socket that is
//! its standard output, which it needs for nothing else. What is asked of it is left to the caller.

use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use fsdyno_sys::pass;
use serde_json::{Value, json};

use crate::Result;

/// Arguments that make standard output the monitor.
pub const ARGUMENTS: [&str; 4] =
    ["-chardev", "socket,id=monitor,fd=1", "-mon", "chardev=monitor,mode=control"];
/// How long an answer may take: the machine may be emulated, and busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// The way to a QEMU that runs.
#[derive(Debug)]
pub struct Monitor {
    socket: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Monitor {
    /// A pair of sockets; the second value is QEMU's standard output, with [`ARGUMENTS`].
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn pair() -> Result<(Monitor, Stdio)> {
        let failed = |error| format!("make a socket: {error}");
        let (socket, its_end) = UnixStream::pair().map_err(failed)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        socket.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        let lines = BufReader::new(socket.try_clone().map_err(failed)?);
        Ok((Monitor { socket, lines }, Stdio::from(OwnedFd::from(its_end))))
    }

    /// Has QEMU do something; gives what it returns.
    ///
    /// # Errors
    /// It refuses, says nothing, or has ended.
    pub fn ask(&mut self, command: &str, arguments: Value) -> Result<Value> {
        let line = line(command, arguments);
        self.socket.write_all(&line).map_err(|error| failed(command, &why(&error)))?;
        self.answer(command)
    }

    /// Gives QEMU a descriptor, which it then knows by `name`.
    ///
    /// # Errors
    /// As [`Monitor::ask`].
    pub fn give(&mut self, name: &str, descriptor: OwnedFd) -> Result<()> {
        let line = line("getfd", json!({ "fdname": name }));
        pass::send_with(&self.socket, &line, descriptor.as_fd())
            .map_err(|error| failed("getfd", &error.to_string()))?;
        self.answer("getfd").map(drop)
    }

    /// Waits until QEMU tells of an event, such as `STOP`.
    ///
    /// # Errors
    /// It says nothing, or has ended.
    pub fn hear_of(&mut self, event: &str) -> Result<()> {
        let failed = |error: &str| format!("QEMU did not tell of {event}: {error}");
        loop {
            let mut line = String::new();
            let count = self.lines.read_line(&mut line);
            match count.map_err(|error| failed(&error.to_string()))? {
                0 => return Err(failed("it has ended")),
                _ if tells_of(&line, event) => return Ok(()),
                _ => {}
            }
        }
    }

    fn answer(&mut self, command: &str) -> Result<Value> {
        loop {
            let mut line = String::new();
            let count = self.lines.read_line(&mut line);
            match count.map_err(|error| failed(command, &why(&error)))? {
                0 => return Err(failed(command, "it has ended")),
                _ => match answer(&line) {
                    Some(answer) => return answer.map_err(|error| failed(command, &error)),
                    // Its greeting, or an event.
                    None => continue,
                },
            }
        }
    }
}

/// What an error of the socket means.
fn why(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => "it has ended".to_owned(),
        _ => error.to_string(),
    }
}

fn failed(command: &str, error: &str) -> String {
    format!("QEMU did not do {command}: {error}")
}

fn line(command: &str, arguments: Value) -> Vec<u8> {
    let mut line = json!({ "execute": command, "arguments": arguments }).to_string().into_bytes();
    line.push(b'\n');
    line
}

/// What a line of QEMU's answers; `None` where it is no answer.
fn answer(line: &str) -> Option<Result<Value>> {
    let mut said: Value = match serde_json::from_str(line) {
        Ok(said) => said,
        Err(error) => return Some(Err(format!("it answered what is no JSON: {error}"))),
    };
    if let Some(error) = said.get("error") {
        let words = error.get("desc").and_then(Value::as_str).unwrap_or("it does not say why");
        return Some(Err(words.to_owned()));
    }
    said.get_mut("return").map(|returned| Ok(returned.take()))
}

/// Whether a line of QEMU's is an event of this name.
fn tells_of(line: &str, event: &str) -> bool {
    serde_json::from_str(line).is_ok_and(|said: Value| said["event"] == event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_from_news() {
        assert_eq!(answer(r#"{"return": {}}"#), Some(Ok(json!({}))));
        let told = answer(r#"{"return": {"status": "completed"}}"#).unwrap().unwrap();
        assert_eq!(told["status"], "completed");
        let refused = answer(r#"{"error": {"class": "GenericError", "desc": "no such fd"}}"#);
        assert_eq!(refused, Some(Err("no such fd".to_owned())));
        assert_eq!(answer(r#"{"QMP": {"version": {}}}"#), None);
        assert_eq!(answer(r#"{"event": "STOP", "timestamp": {}}"#), None);
        assert!(tells_of(r#"{"timestamp": {}, "event": "STOP"}"#, "STOP"));
        assert!(!tells_of(r#"{"event": "RESUME"}"#, "STOP") && !tells_of("QEMU", "STOP"));
        assert!(answer("QEMU").unwrap().unwrap_err().contains("no JSON"));
    }

    #[test]
    fn an_end_is_no_answer() {
        let (mut monitor, its_end) = Monitor::pair().unwrap();
        drop(its_end);
        let error = monitor.ask("query-migrate", json!({})).unwrap_err();
        assert!(error.starts_with("QEMU did not do query-migrate: "), "{error}");
    }
}
