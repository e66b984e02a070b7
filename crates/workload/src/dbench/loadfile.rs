//! Reads load files in the format of dbench 4: one operation a line, with paths in quotes, arguments and
//! the status that it must end with, a time before it where wanted, and the control words of its later
//! versions. What a load does is left to [`super::program`].

use std::fmt;
use std::path::Path;

use super::lines::{Line, LoadPath, Offset, Op, Range, Statement};
use super::status::Expected;

/// Faults that are told one by one.
const TOLD_FAULTS: usize = 10;
/// Longest path and longest part of one, in bytes.
const PATH_BYTES: usize = 3000;
const NAME_BYTES: usize = 255;
/// Most that one operation moves, in bytes.
pub const MOST_BYTES: u64 = 64 << 20;
/// Largest place in a file.
const MOST_OFFSET: u64 = 1 << 60;
/// Most repetitions of a line or a loop.
const MOST_REPEATS: u64 = 1 << 40;
/// Longest time and longest pause, in seconds.
const MOST_SECONDS: f64 = 1e6;

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Number of the line, from 1.
    pub line: u32,
    /// What is wrong, and what was expected.
    pub message: String,
}

/// What is wrong with a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    /// Name of the file.
    pub file: String,
    /// The faults, in the order of the lines; never empty.
    pub faults: Vec<Fault>,
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().take(TOLD_FAULTS).enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{}:{}: {}", self.file, fault.line, fault.message)?;
        }
        match self.faults.len().checked_sub(TOLD_FAULTS) {
            None | Some(0) => Ok(()),
            Some(more) => write!(f, "; and {more} more"),
        }
    }
}

/// Reads the load file at `path`.
///
/// # Errors
/// A sentence: it cannot be read, or what is wrong with which lines.
pub fn read(path: &Path) -> Result<Vec<Line>, String> {
    let bytes = std::fs::read(path).map_err(|error| {
        format!(
            "loadfile: read {}: {error}; give the path of a load file of dbench",
            path.display()
        )
    })?;
    let text = String::from_utf8(bytes)
        .map_err(|_| format!("loadfile: {}: this is no text in UTF-8", path.display()))?;
    parse(&path.display().to_string(), &text).map_err(|faults| faults.to_string())
}

/// Reads the text of a load file called `file`.
///
/// # Errors
/// What is wrong with which lines.
pub fn parse(file: &str, text: &str) -> Result<Vec<Line>, Faults> {
    let mut lines = Vec::new();
    let mut faults = Vec::new();
    for (number, text) in (1..).zip(text.lines()) {
        match statement(text) {
            Ok(Some(statement)) => lines.push(Line { number, statement }),
            Ok(None) => {}
            Err(message) => faults.push(Fault { line: number, message }),
        }
    }
    if faults.is_empty() && !lines.iter().any(|line| matches!(line.statement, Statement::Op { .. }))
    {
        let message = "the load holds no operation".to_owned();
        faults.push(Fault { line: 1, message });
    }
    if faults.is_empty() { Ok(lines) } else { Err(Faults { file: file.to_owned(), faults }) }
}

/// The words of a line, taken one after the other.
struct Words<'a> {
    rest: &'a str,
}

/// One word.
#[derive(Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    is_quoted: bool,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Result<Option<Word<'a>>, String> {
        let rest = self.rest.trim_start();
        if rest.is_empty() {
            self.rest = rest;
            return Ok(None);
        }
        if let Some(quoted) = rest.strip_prefix('"') {
            let (text, rest) =
                quoted.split_once('"').ok_or("a quoted word has no end: expected another `\"`")?;
            self.rest = rest;
            return Ok(Some(Word { text, is_quoted: true }));
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (text, rest) = rest.split_at(end);
        self.rest = rest;
        Ok(Some(Word { text, is_quoted: false }))
    }

    fn expect(&mut self, what: &str) -> Result<Word<'a>, String> {
        self.next()?.ok_or_else(|| format!("the line ends where {what} is expected"))
    }

    fn end(&mut self) -> Result<(), String> {
        match self.next()? {
            None => Ok(()),
            Some(word) => Err(format!("expected the end of the line, not `{}`", shown(word.text))),
        }
    }

    fn number(&mut self, what: &str, most: u64) -> Result<u64, String> {
        let word = self.expect(what)?.text;
        let number = plain_number(word);
        number
            .filter(|number| *number <= most)
            .ok_or_else(|| format!("expected {what}, a number up to {most}, not `{}`", shown(word)))
    }

    fn small(&mut self, what: &str) -> Result<u32, String> {
        self.number(what, u64::from(u32::MAX)).map(|number| number as u32)
    }

    fn handle(&mut self) -> Result<u64, String> {
        self.number("a handle", u64::MAX)
    }

    fn path(&mut self, is_root_fine: bool) -> Result<LoadPath, String> {
        let word = self.expect("a path")?;
        let digit = word.text.strip_prefix('$').and_then(|digits| digits.parse::<u8>().ok());
        if let (false, Some(number @ 1..=9)) = (word.is_quoted, digit) {
            return Ok(LoadPath::Drawn(number));
        }
        let path = normal(word.text)?;
        if path.is_empty() && !is_root_fine {
            return Err("expected a path of at least one name".to_owned());
        }
        Ok(LoadPath::Fixed(path))
    }

    fn offset(&mut self) -> Result<Offset, String> {
        let word = self.expect("an offset")?.text;
        offset(word).ok_or_else(|| {
            format!(
                "expected an offset (a number up to {MOST_OFFSET}, `+number`, or `*%number` with \
                 `/number` and `+number` after it), not `{}`",
                shown(word)
            )
        })
    }

    fn range(&mut self, most_bytes: u64) -> Result<Range, String> {
        let handle = self.handle()?;
        let offset = self.offset()?;
        let size = self.number("a size", most_bytes)?;
        Ok(Range { handle, offset, size })
    }
}

/// A word of a message: not the whole of a file without line ends.
fn shown(word: &str) -> String {
    if word.chars().count() <= 60 {
        return word.to_owned();
    }
    word.chars().take(60).chain("…".chars()).collect()
}

fn plain_number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if word.bytes().all(|byte| byte.is_ascii_digit()) => word.parse().ok(),
        None => None,
    }
}

fn offset(word: &str) -> Option<Offset> {
    let bounded = |text: &str| plain_number(text).filter(|number| *number <= MOST_OFFSET);
    if let Some(step) = word.strip_prefix('+') {
        return bounded(step).map(Offset::Next);
    }
    let Some(mut rest) = word.strip_prefix('*') else {
        return bounded(word).map(Offset::Fixed);
    };
    let (mut below, mut align, mut add) = (None, 1, 0);
    while !rest.is_empty() {
        let (sign, after) = rest.split_at_checked(1)?;
        let end = after.find(['%', '/', '+']).unwrap_or(after.len());
        let number = bounded(&after[..end])?;
        match sign {
            "%" => below = Some(number.max(1)),
            "/" => align = u32::try_from(number).ok()?.max(1),
            "+" => add = number,
            _ => return None,
        }
        rest = &after[end..];
    }
    Some(Offset::Drawn { below: below?, align, add })
}

/// The parts of a path between single slashes.
pub(super) fn normal(text: &str) -> Result<String, String> {
    let mut path = String::with_capacity(text.len());
    for part in text.split(['\\', '/']).filter(|part| !part.is_empty()) {
        if part == "." || part == ".." || part.contains(['\0', '"']) {
            return Err(format!("a path must not hold the part `{}`", shown(part).escape_debug()));
        }
        if part.len() > NAME_BYTES {
            return Err(format!("a name has {} bytes: expected up to {NAME_BYTES}", part.len()));
        }
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(part);
    }
    if path.len() > PATH_BYTES {
        return Err(format!("a path has {} bytes: expected up to {PATH_BYTES}", path.len()));
    }
    Ok(path)
}

/// What a line says; `None` for one without words and for a remark.
fn statement(text: &str) -> Result<Option<Statement>, String> {
    let mut words = Words { rest: text };
    let Some(mut first) = words.next()?.filter(|word| !word.text.starts_with('#')) else {
        return Ok(None);
    };
    let mut at_ns = 0;
    if first.text.starts_with(|letter: char| letter.is_ascii_digit()) {
        let seconds = first.text.parse().ok().filter(|time| (0.0..=MOST_SECONDS).contains(time));
        let seconds: f64 = seconds.ok_or_else(|| {
            format!("expected a time in seconds or an operation, not `{}`", shown(first.text))
        })?;
        at_ns = (seconds * 1e9).round() as u64;
        first = words.expect("an operation")?;
    }
    let control = if at_ns == 0 { control(first.text, &mut words)? } else { None };
    if control.is_some() {
        words.end()?;
        return Ok(control);
    }
    let op = operation(first.text, &mut words)?;
    let word = words.expect("a status")?.text;
    let expected = Expected::parse(word).ok_or_else(|| {
        format!(
            "expected a status (`NT_STATUS_OK`, another known name, `0x…`, `SUCCESS`, `ERROR` or `*`), \
             not `{}`",
            shown(word)
        )
    })?;
    words.end()?;
    Ok(Some(Statement::Op { at_ns, op, expected }))
}

fn control(word: &str, words: &mut Words<'_>) -> Result<Option<Statement>, String> {
    let repeats = |words: &mut Words<'_>| words.number("a count", MOST_REPEATS);
    Ok(Some(match word {
        "LOOP" => Statement::Loop(repeats(words)?),
        "ENDLOOP" => Statement::EndLoop,
        "REPEAT" => Statement::Repeat(repeats(words)?),
        "SLEEP" => {
            Statement::Sleep(words.number("a time in microseconds", (MOST_SECONDS * 1e6) as u64)?)
        }
        "SETSP" => Statement::SetPoint(words.number("a point", u64::MAX)?),
        "WAITSP" => {
            let client = words.number("the number of a client", 1023)?;
            Statement::WaitPoint { client, point: words.number("a point", u64::MAX)? }
        }
        "WRITEPATTERN" => {
            let text = std::mem::take(&mut words.rest).trim();
            if text.is_empty() {
                return Err("the line ends where the text to write is expected".to_owned());
            }
            Statement::WritePattern(text.to_owned())
        }
        "RANDOMSTRING" => {
            let number = words.number("the number of the string", 9)? as u8;
            if number == 0 {
                return Err("expected the number of the string, 1 to 9, not `0`".to_owned());
            }
            let template = words.expect("a string in quotes")?.text;
            check_template(template)?;
            Statement::RandomString { number, template: template.to_owned() }
        }
        _ => return Ok(None),
    }))
}

/// Every `[` must have its `]` with something between, and what is drawn must be a path.
fn check_template(template: &str) -> Result<(), String> {
    if template.contains('"') {
        return Err("expected a string in quotes without quotes in it".to_owned());
    }
    let mut rest = template;
    let mut drawn = String::new();
    while let Some((before, after)) = rest.split_once('[') {
        let (letters, after) = after
            .split_once(']')
            .filter(|(letters, _)| !letters.is_empty() && !letters.contains(['/', '\\', '.', '[']))
            .ok_or("expected letters and `]` after `[`")?;
        drawn.push_str(before);
        drawn.extend(letters.chars().max_by_key(|letter| letter.len_utf8()));
        rest = after;
    }
    drawn.push_str(rest);
    match normal(&drawn)?.is_empty() {
        true => Err("expected a path of at least one name".to_owned()),
        false => Ok(()),
    }
}

fn operation(word: &str, words: &mut Words<'_>) -> Result<Op, String> {
    Ok(match word {
        "NTCreateX" => {
            let path = words.path(true)?;
            let options = words.small("options")?;
            let disposition = words.number("a disposition", 5)? as u8;
            Op::NtCreateX { path, options, disposition, handle: words.handle()? }
        }
        "Close" => Op::Close { handle: words.handle()? },
        "Rename" => Op::Rename { old: words.path(false)?, new: words.path(false)? },
        "Unlink" => Op::Unlink { path: words.path(false)?, attributes: words.small("attributes")? },
        "Deltree" => Op::Deltree { path: words.path(false)? },
        "Rmdir" => Op::Rmdir { path: words.path(false)? },
        "Mkdir" => Op::Mkdir { path: words.path(false)? },
        "QUERY_PATH_INFORMATION" => {
            Op::QueryPath { path: words.path(true)?, level: words.small("a level")? }
        }
        "QUERY_FILE_INFORMATION" => {
            Op::QueryFile { handle: words.handle()?, level: words.small("a level")? }
        }
        "QUERY_FS_INFORMATION" => Op::QueryFs { level: words.small("a level")? },
        "SET_FILE_INFORMATION" => {
            Op::SetFile { handle: words.handle()?, level: words.small("a level")? }
        }
        "FIND_FIRST" => {
            let path = words.path(false)?;
            let level = words.small("a level")?;
            let most = words.small("the most entries")?;
            Op::FindFirst { path, level, most, count: words.small("a count of entries")? }
        }
        "WriteX" | "ReadX" => {
            let range = words.range(MOST_BYTES)?;
            let done = words.number("a count of bytes", MOST_BYTES)?;
            if word == "ReadX" { Op::ReadX { range, done } } else { Op::WriteX { range, done } }
        }
        "LockX" => Op::LockX { range: words.range(u64::MAX)? },
        "UnlockX" => Op::UnlockX { range: words.range(u64::MAX)? },
        "Flush" => Op::Flush { handle: words.handle()? },
        _ => {
            return Err(format!(
                "there is no operation `{}`: expected one of dbench (NTCreateX, Close, Rename, \
                 Unlink, Deltree, Rmdir, Mkdir, QUERY_PATH_INFORMATION, QUERY_FILE_INFORMATION, \
                 QUERY_FS_INFORMATION, SET_FILE_INFORMATION, FIND_FIRST, WriteX, ReadX, LockX, \
                 UnlockX, Flush) or a control word (LOOP, ENDLOOP, REPEAT, SLEEP, SETSP, WAITSP, \
                 WRITEPATTERN, RANDOMSTRING)",
                shown(word)
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn faults_are_told_with_their_lines() {
        for (text, line, words) in [
            ("", 1, "no operation"),
            ("# only a remark\n\n", 1, "no operation"),
            ("Close 1 NT_STATUS_OK\nClose x NT_STATUS_OK", 2, "expected a handle"),
            ("Close 1", 1, "the line ends where a status is expected"),
            ("Close 1 NT_STATUS_FINE", 1, "expected a status"),
            ("Close 1 NT_STATUS_OK more", 1, "expected the end of the line, not `more`"),
            ("Bogus 1 NT_STATUS_OK", 1, "there is no operation `Bogus`"),
            ("Mkdir \"\\clients NT_STATUS_OK", 1, "expected another `\"`"),
            ("Mkdir \"\\a\\..\\b\" NT_STATUS_OK", 1, "must not hold the part `..`"),
            ("Mkdir \"\\\" NT_STATUS_OK", 1, "at least one name"),
            ("NTCreateX \"a\" 0x40 9 1 NT_STATUS_OK", 1, "expected a disposition"),
            ("ReadX 1 * 1 1 NT_STATUS_OK", 1, "expected an offset"),
            ("WriteX 1 0 99999999999 1 NT_STATUS_OK", 1, "expected a size"),
            ("1.5x Close 1 NT_STATUS_OK", 1, "expected a time in seconds"),
            ("LOOP many", 1, "expected a count"),
            ("RANDOMSTRING 1 \"a[bc\"", 1, "`]` after `[`"),
            ("RANDOMSTRING 0 \"a\"", 1, "1 to 9"),
            ("WRITEPATTERN", 1, "the text to write"),
        ] {
            let faults = parse("load.txt", text).unwrap_err();
            let told = faults.to_string();
            assert_eq!(faults.faults[0].line, line, "{text}: {told}");
            assert!(
                told.starts_with(&format!("load.txt:{line}: ")) && told.contains(words),
                "{told}"
            );
        }
        let many = "x\n".repeat(30);
        let told = parse("f", &many).unwrap_err().to_string();
        assert!(
            told.contains("f:10: ") && !told.contains("f:11: ") && told.ends_with("and 20 more")
        );
    }

    #[test]
    fn what_lines_say() {
        let text = "\
# a remark
0.250 NTCreateX \"\\clients\\client1\\~dmtmp\\A B.DOC\" 0x40 0x2 9938 NT_STATUS_OK\r
  WriteX 9938 +32768 0x1000 4096 0x00000000
ReadX 9938 *%5000000/0x1000+8 10 0 ERROR
RANDOMSTRING 3 \"/test[0123].file\"
Unlink $3 0x6 *
WAITSP 0 7
WRITEPATTERN 12 34
";
        let lines = parse("f", text).unwrap();
        let said: Vec<String> = lines.iter().map(|line| line.statement.to_string()).collect();
        assert_eq!(
            said,
            [
                "0.250000000 NTCreateX \"\\clients\\client1\\~dmtmp\\A B.DOC\" 0x40 0x2 9938 NT_STATUS_OK",
                "WriteX 9938 +32768 4096 4096 NT_STATUS_OK",
                "ReadX 9938 *%5000000/4096+8 10 0 ERROR",
                "RANDOMSTRING 3 \"/test[0123].file\"",
                "Unlink $3 0x6 *",
                "WAITSP 0 7",
                "WRITEPATTERN 12 34",
            ]
        );
        let numbers: Vec<u32> = lines.iter().map(|line| line.number).collect();
        assert_eq!(numbers, [2, 3, 4, 5, 6, 7, 8]);
        // What is written is read again as it was.
        let again = parse("f", &said.join("\n")).unwrap();
        assert!(again.iter().zip(&lines).all(|(a, b)| a.statement == b.statement));
    }

    fn word() -> impl Strategy<Value = String> {
        let known = "NTCreateX|Close|Rename|FIND_FIRST|WriteX|LOOP|ENDLOOP|REPEAT|RANDOMSTRING|NT_STATUS_OK\
             |\\$1|\\*|\\+1|\\*%9/2|0x1|1|99999999999999999999|\"\\\\a\\\\b\"|\"|WAITSP|#|1\\.5|-1|ReadX|LockX";
        prop_oneof![8 => known.prop_map(|text: String| text), 1 => ".{0,8}"]
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in ".{0,200}", words in prop::collection::vec(word(), 0..20)) {
            let _ = parse("f", &text);
            if let Ok(lines) = parse("f", &words.join(" ")) {
                let said: Vec<String> = lines.iter().map(|line| line.statement.to_string()).collect();
                let again = parse("f", &said.join("\n")).unwrap();
                prop_assert!(again.iter().zip(&lines).all(|(a, b)| a.statement == b.statement));
            }
        }
    }
}
