//! The verbs: one file each. Help, completions and man pages are generated from these definitions.

mod advise;
mod check;
mod clean;
mod compare;
mod completions;
mod dataset;
mod diff;
mod disk;
mod doctor;
mod dry_run;
mod durability;
mod faults;
mod gallery;
mod guest_init;
mod history;
mod kernel;
mod list;
mod man;
mod merge;
mod output;
mod query;
mod report;
mod reproduce;
mod run;
mod runner;
mod runs;
mod selftest;
mod show;
mod trace;

use clap::{Parser, Subcommand};
pub use output::{result_of, use_color};

/// A dynamometer for filesystems: which filesystem, with which options, for this work on this disk?
#[derive(Debug, Parser)]
#[command(name = "fsdyno", version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 every trial completed, 1 some did not, or targets are not\ncomparable under --strict, 2 bad input."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The list of verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run workloads on targets and say which is faster
    Compare(compare::Args),
    /// Run a plan
    Run(run::Args),
    /// Check a plan and report all its errors
    Check(check::Args),
    /// Print what would be done without touching a filesystem
    DryRun(dry_run::Args),
    /// Show the results of a run
    Show(show::Args),
    /// Write results as a page, a picture or a file for other programs
    Report(report::Args),
    /// Compare two runs: what became faster or slower, and what moved with it
    Diff(diff::Args),
    /// Make a run in virtual time again, and say whether its figures are identical
    Reproduce(reproduce::Args),
    /// Make pages of the published comparisons that were run again
    Gallery(gallery::Args),
    /// Show a figure over many runs, and where its level changed
    History(history::Args),
    /// Say which target to take for somebody's work, by what was measured
    Advise(advise::Args),
    /// Put the runs of other results databases into one
    Merge(merge::Args),
    /// Ask the results database in SQL
    Query(query::Args),
    /// Trace a disk, or read traces: what was done to it, when, where and by whom
    Trace(trace::Args),
    /// List the runs in the results database
    Runs(runs::Args),
    /// List workloads, filesystems, devices, metrics or rules of the audit
    List(list::Args),
    /// List, check and serve models of disks
    Disk(disk::Args),
    /// List and fetch kernels for guests
    Kernel(kernel::Args),
    /// Cut the power under a filesystem and see whether it kept its promises
    Durability(durability::Args),
    /// Let disks go wrong and see what each filesystem does
    Faults(faults::Args),
    /// Make a dataset for compilebench
    Dataset(dataset::Args),
    /// Say what this machine can do and how to mend what it cannot
    Doctor(doctor::Args),
    /// Measure how often verdicts are false on this machine, and how small a difference is found
    Selftest(selftest::Args),
    /// Remove what killed runs left behind
    Clean(clean::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Print the manual page, or write all of them to a directory
    Man(man::Args),
    /// Run the phases of one trial: a spec on standard input, records on standard output
    #[command(hide = true)]
    Runner(runner::Args),
    /// Be the first process of a guest
    #[command(hide = true)]
    GuestInit(guest_init::Args),
}

impl Verb {
    /// Does it; the value says whether everything that was asked completed.
    ///
    /// # Errors
    /// [`crate::BadInput`] for bad input; anything else that ended the command.
    pub fn execute(self) -> anyhow::Result<bool> {
        match self {
            Verb::Compare(args) => args.execute(),
            Verb::Run(args) => args.execute(),
            Verb::Check(args) => args.execute(),
            Verb::DryRun(args) => args.execute(),
            Verb::Show(args) => args.execute(),
            Verb::Report(args) => args.execute(),
            Verb::Diff(args) => args.execute(),
            Verb::Reproduce(args) => args.execute(),
            Verb::Gallery(args) => args.execute(),
            Verb::History(args) => args.execute(),
            Verb::Advise(args) => args.execute(),
            Verb::Merge(args) => args.execute(),
            Verb::Query(args) => args.execute(),
            Verb::Trace(args) => args.execute(),
            Verb::Runs(args) => args.execute(),
            Verb::List(args) => args.execute(),
            Verb::Disk(args) => args.execute(),
            Verb::Kernel(args) => args.execute(),
            Verb::Durability(args) => args.execute(),
            Verb::Faults(args) => args.execute(),
            Verb::Dataset(args) => args.execute(),
            Verb::Doctor(args) => args.execute(),
            Verb::Selftest(args) => args.execute(),
            Verb::Clean(args) => args.execute(),
            Verb::Completions(args) => args.execute(),
            Verb::Man(args) => args.execute(),
            Verb::Runner(args) => args.execute(),
            Verb::GuestInit(args) => args.execute(),
        }
    }
}

/// What to say of a `compare` whose targets are followed by the name of a program with options of its
/// own: the `--` before it is missing.
#[must_use]
pub fn forgotten_separator(words: impl Iterator<Item = String>) -> Option<String> {
    let words: Vec<String> = words.skip(1).collect();
    let (verb, rest) = words.split_first()?;
    let is_program = |word: &String| {
        let is_target = fsdyno_lab::filesystem::by_name(word).is_some();
        !word.starts_with('-') && !is_target && fsdyno_sys::child::find_program(word).is_some()
    };
    if verb != "compare" || rest.iter().any(|word| word == "--") {
        return None;
    }
    let (targets, command) = rest.split_at(rest.iter().position(is_program)?);
    Some(format!(
        "a command to run goes behind `--`: fsdyno compare {} -- {}",
        targets.join(" "),
        fsdyno_model::target::join_mkfs(command)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn a_forgotten_separator_is_told() {
        let advice = |line: &str| forgotten_separator(line.split(' ').map(str::to_owned));
        assert_eq!(
            advice("fsdyno compare ext4 btrfs sh -c true").as_deref(),
            Some("a command to run goes behind `--`: fsdyno compare ext4 btrfs -- sh -c true")
        );
        for line in [
            "fsdyno compare ext4 btrfs --tirals 3",
            "fsdyno compare ext4 --x -- sh -c",
            "fsdyno run sh -c",
        ] {
            assert_eq!(advice(line), None, "{line}");
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_option_is_documented() {
        for verb in Cli::command().get_subcommands() {
            assert!(verb.get_about().is_some(), "{}", verb.get_name());
            for argument in verb.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {}", verb.get_name(), argument.get_id());
            }
        }
    }
}
