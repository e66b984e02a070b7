//! The `fsdyno` command: reads the command line, calls the verb, gives its exit code.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use fsdyno::BadInput;
use fsdyno::cmd::Cli;

/// Exit code when some trial did not complete, or an error other than bad input ended the command.
const INCOMPLETE: u8 = 1;
/// Exit code for bad input; clap uses the same.
const BAD_INPUT: u8 = 2;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.kind() == ErrorKind::UnknownArgument => {
            // The usual advice to quote the option would lead astray where a command is meant.
            match fsdyno::cmd::forgotten_separator(std::env::args()) {
                Some(advice) => {
                    fsdyno::run::progress::say(&format!("fsdyno: {advice}"));
                    return ExitCode::from(BAD_INPUT);
                }
                None => error.exit(),
            }
        }
        Err(error) => error.exit(),
    };
    match cli.verb.execute() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(INCOMPLETE),
        Err(error) => {
            if is_broken_pipe(&error) {
                return ExitCode::SUCCESS;
            }
            let bad_input = error.downcast_ref::<BadInput>().is_some();
            fsdyno::run::progress::say(&format!("fsdyno: {error:#}"));
            ExitCode::from(if bad_input { BAD_INPUT } else { INCOMPLETE })
        }
    }
}

/// Whether the reader of our output went away, as `| head` does.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
