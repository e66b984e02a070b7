//! The text of a command line: words that are started as they are, or a line for a shell; and whether
//! its program is there. Running it is left to [`crate::program`].

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fsdyno_model::target::split_mkfs;
use fsdyno_sys::child::find_program;

use crate::program::Program;

/// The shell whose lines [`Program::shell`] runs.
const SHELL: &str = "sh";

/// Words that only a shell knows: its keywords, and commands that it carries out itself. Those that
/// exist as programs too are left out.
const SHELL_WORDS: [&str; 39] = [
    "!", ".", ":", "alias", "bg", "break", "case", "cd", "command", "continue", "eval", "exec",
    "exit", "export", "fg", "for", "function", "getopts", "hash", "if", "jobs", "local", "read",
    "readonly", "return", "set", "shift", "source", "time", "times", "trap", "type", "ulimit",
    "umask", "unalias", "unset", "until", "wait", "while",
];

/// What a command line asks for. Its text is always what one would type into a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandLine {
    /// Program and arguments, nothing in them has a meaning to a shell: started without one.
    Words(Vec<String>),
    /// A line with something that a shell must do.
    Shell(String),
}

/// What the place in which the command will start has in it.
#[derive(Debug, Clone, Copy)]
pub struct Grounds<'a> {
    /// The directory that is copied there.
    pub copy: Option<&'a Path>,
    /// Whether something is run there before, which may make anything.
    pub is_prepared: bool,
    /// The directory in which the user is.
    pub current: &'a Path,
}

impl CommandLine {
    /// Reads the text of a command line.
    ///
    /// # Errors
    /// A sentence: it is empty, or a quote in it is not closed.
    pub fn parse(text: &str) -> Result<CommandLine, String> {
        let text = text.trim();
        if needs_shell(text) {
            return Ok(CommandLine::Shell(text.to_owned()));
        }
        let words = split_mkfs(text)
            .map_err(|_| format!("the command `{text}` has a quote that is not closed"))?;
        match words.first().map(String::as_str) {
            None | Some("") => Err("the command is empty: say what to run".to_owned()),
            Some(first) if SHELL_WORDS.contains(&first) && find_program(first).is_none() => {
                Ok(CommandLine::Shell(text.to_owned()))
            }
            Some(_) => Ok(CommandLine::Words(words)),
        }
    }

    /// The text of the words of another command line, such as those behind `--`: they are kept as they
    /// are. A single word is the text itself, so that `'make && make check'` is a line for a shell.
    #[must_use]
    pub fn text_of(words: &[String]) -> String {
        match words {
            [line] => line.trim().to_owned(),
            [first, rest @ ..] => {
                // A shell would take `A=1` for an assignment.
                let program =
                    if first.contains('=') { always_quoted(first) } else { quoted(first) };
                rest.iter().fold(program, |line, word| line + " " + &quoted(word))
            }
            [] => String::new(),
        }
    }

    /// The program that does it; lines are given to `shell`.
    #[must_use]
    pub fn program(&self, shell: &str) -> Program {
        match self {
            CommandLine::Words(words) => Program::new(words.iter().map(String::as_str)),
            CommandLine::Shell(line) => shell_program(shell, line),
        }
    }

    /// Looks for its program before anything is started. Of a line for a shell, only the first word
    /// can be looked for.
    ///
    /// # Errors
    /// A sentence that says what is not there and what to do.
    pub fn look_for_program(&self, grounds: Grounds<'_>) -> Result<(), String> {
        match self {
            CommandLine::Words(words) => match words.first() {
                Some(program) => look_for(program, grounds),
                None => Ok(()),
            },
            CommandLine::Shell(line) => match first_word(line) {
                Some(word) if !SHELL_WORDS.contains(&word) => look_for(word, grounds),
                _ => Ok(()),
            },
        }
    }
}

/// One word as a shell would take it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=,.^/:@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { always_quoted(word) }
}

fn always_quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// `line` for `shell`, a program that takes lines behind `-c`.
fn shell_program(shell: &str, line: &str) -> Program {
    if shell == SHELL { Program::shell(line) } else { Program::new([shell, "-c", line]) }
}

/// Whether something in `text` is more than a word to a shell.
fn needs_shell(text: &str) -> bool {
    let mut chars = text.chars();
    let (mut at_start, mut in_first) = (true, true);
    while let Some(c) = chars.next() {
        match c {
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' | '*' | '?' | '[' | '{' | '}'
            | '\n' => return true,
            '#' | '~' if at_start => return true,
            '=' if in_first => return true,
            '\\' if matches!(chars.next(), None | Some('\n')) => return true,
            '\'' => {
                chars.by_ref().find(|c| *c == '\'');
            }
            '"' if expands(&mut chars) => return true,
            _ => {}
        }
        let is_gap = matches!(c, ' ' | '\t');
        in_first &= !is_gap || at_start;
        at_start = is_gap;
    }
    false
}

/// Goes on behind the closing double quote; true where something before it is expanded.
fn expands(chars: &mut std::str::Chars<'_>) -> bool {
    while let Some(c) = chars.next() {
        match c {
            '"' => return false,
            '$' | '`' => return true,
            '\\' if chars.next() == Some('\n') => return true,
            _ => {}
        }
    }
    false
}

/// The first word of a line where it is the name of a program or a word of the shell's.
fn first_word(line: &str) -> Option<&str> {
    let end = line.find(|c: char| c.is_ascii_whitespace() || "|&;<>".contains(c));
    let word = &line[..end.unwrap_or(line.len())];
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_+./:@,%".contains(c);
    (!word.is_empty() && word.chars().all(is_plain)).then_some(word)
}

fn look_for(program: &str, grounds: Grounds<'_>) -> Result<(), String> {
    let is_there = |path: &Path| {
        path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    let own = grounds.current.join(program);
    if !program.contains('/') {
        let hint = if is_there(&own) { format!(", or write ./{program}") } else { String::new() };
        return match find_program(program) {
            Some(_) => Ok(()),
            None => {
                Err(format!("{program} is not found: install it, or give its whole path{hint}"))
            }
        };
    }
    if Path::new(program).is_absolute() {
        return match is_there(Path::new(program)) {
            true => Ok(()),
            false => Err(format!("{program} is no program that can be run")),
        };
    }
    match grounds.copy {
        _ if grounds.is_prepared => Ok(()),
        Some(copy) if is_there(&copy.join(program)) => Ok(()),
        Some(copy) => Err(format!(
            "{program} is no program that can be run in {}, which is copied to the target",
            copy.display()
        )),
        None if is_there(&own) => Err(format!(
            "the command runs in an empty directory on the target, where there is no {program}: \
             take this directory along (`--copy .`), or give the whole path {}",
            own.display()
        )),
        None => Err(format!(
            "the command runs in an empty directory on the target, where there is no {program}: \
             copy a directory that has it (--copy), make it (--prepare), or give its whole path"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn only_what_a_shell_must_do_needs_one() {
        for (text, expected) in [
            ("make -j2", &["make", "-j2"][..]),
            (
                "  dd if=/dev/zero of=f bs=1M\tcount=3 ",
                &["dd", "if=/dev/zero", "of=f", "bs=1M", "count=3"],
            ),
            (
                "sh -c 'for i in $(seq 9); do echo $i > f$i; done'",
                &["sh", "-c", "for i in $(seq 9); do echo $i > f$i; done"],
            ),
            (r#"echo "a b" c\ d "\$HOME" '*'"#, &["echo", "a b", "c d", "$HOME", "*"]),
            ("'A=1' x", &["A=1", "x"]),
            ("cp a#b ~", &[]),
            ("cp a#b c~", &["cp", "a#b", "c~"]),
            ("tar xf a.tar && sync", &[]),
            ("CC=gcc make", &[]),
            ("echo $HOME", &[]),
            ("echo \"$HOME\"", &[]),
            ("echo `id`", &[]),
            ("cat *.c", &[]),
            ("make # all", &[]),
            ("a\nb", &[]),
            ("cd src", &[]),
            ("ls {a,b}", &[]),
        ] {
            let expected = match expected {
                [] => CommandLine::Shell(text.trim().to_owned()),
                list => CommandLine::Words(words(list)),
            };
            assert_eq!(CommandLine::parse(text), Ok(expected), "{text}");
        }
        for text in ["", " ", "''", "'' a", "make 'x", "make \"x"] {
            assert!(CommandLine::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn one_word_is_a_line_and_several_are_kept() {
        for (given, text) in [
            (&["make"][..], "make"),
            (&["make && make check"], "make && make check"),
            (&["make", "-j2"], "make -j2"),
            (&["sh", "-c", "echo $1"], "sh -c 'echo $1'"),
            (&["A=1", "b"], "'A=1' b"),
            (&["dd", "if=a"], "dd if=a"),
            (&["echo", "", "*"], "echo '' '*'"),
            (&[], ""),
        ] {
            assert_eq!(CommandLine::text_of(&words(given)), text);
        }
    }

    #[test]
    fn programs_are_looked_for_before_a_run() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("build.sh");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        std::fs::write(directory.path().join("text"), "").unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        let here = directory.path();
        let none = Grounds { copy: None, is_prepared: false, current: Path::new("/") };
        let inside = Grounds { current: here, ..none };
        let copied = Grounds { copy: Some(here), ..none };
        let prepared = Grounds { is_prepared: true, ..none };
        let absolute = script.display().to_string();
        for (text, grounds, words) in [
            ("sh -c true", none, ""),
            (absolute.as_str(), none, ""),
            ("./build.sh", copied, ""),
            ("./build.sh", prepared, ""),
            ("./build.sh && sync", copied, ""),
            ("cd src && make", none, ""),
            ("A=1 no-such-program-x", none, ""),
            ("no-such-program-x", none, "is not found: install it"),
            ("no-such-program-x | cat", none, "is not found: install it"),
            ("build.sh", inside, "or write ./build.sh"),
            ("./build.sh", inside, "--copy ."),
            ("./build.sh", none, "(--copy)"),
            ("./text", copied, "no program that can be run"),
            ("./absent", copied, "no program that can be run"),
            ("/no/such/program", none, "no program that can be run"),
        ] {
            let found = CommandLine::parse(text).unwrap().look_for_program(grounds);
            match found {
                Ok(()) => assert_eq!(words, "", "{text}"),
                Err(error) => assert!(!words.is_empty() && error.contains(words), "{error}"),
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn words_come_back_as_they_were(
            given in proptest::collection::vec("[^\0\r]{0,9}|[ '\"\\\\$`#~=!a*?{}\n\t-]{0,6}", 2..6)
        ) {
            let text = CommandLine::text_of(&given);
            let first = given[0].as_str();
            match CommandLine::parse(&text) {
                Ok(CommandLine::Words(words)) => proptest::prop_assert_eq!(words, given),
                Ok(CommandLine::Shell(_)) => proptest::prop_assert!(SHELL_WORDS.contains(&first)),
                Err(_) => proptest::prop_assert!(first.is_empty()),
            }
        }

        #[test]
        fn no_text_panics(text in "[^\0]{0,20}|[ '\"\\\\$`#~=!a*?{}\n]{0,9}") {
            let _ = CommandLine::parse(&text);
        }
    }

    /// A shell takes the text for the same words, whichever of the two forms it has.
    #[test]
    fn a_shell_agrees() {
        for text in [
            r#"a "b c" d\ e 'f $g' "\$h" i"#,
            r#"a'b'"c"\d =x y# "" '' -- %1 ^ ! ]"#,
            r#""a\b" "a\\b" "it's" 'say "so"'"#,
        ] {
            let line = format!("printf '%s\\n' {text}");
            let Ok(CommandLine::Words(words)) = CommandLine::parse(&line) else {
                panic!("{text} needs no shell");
            };
            let direct = Program::new(words).run().unwrap().stdout;
            assert_eq!(Program::shell(line).run().unwrap().stdout, direct);
        }
    }
}
