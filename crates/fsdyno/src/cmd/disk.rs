//! `fsdyno disk`: models of disks listed, shown, checked, fitted and served.

mod check;
mod fit;
mod list;
mod serve;

/// Arguments of `fsdyno disk`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List the models that are part of fsdyno
    List(list::ListArgs),
    /// Print the text of a model, with its sources
    Show(list::ShowArgs),
    /// Probe a model: alone in its own time and, as root, through the emulator
    Check(check::Args),
    /// Measure a disk that is there, and write a model of it
    Fit(fit::Args),
    /// Serve a file as a disk that takes the time that a model says
    Serve(serve::Args),
}

impl Args {
    /// Does it; false when a check failed.
    ///
    /// # Errors
    /// Bad input: no such model; those of the server and the output.
    pub fn execute(self) -> anyhow::Result<bool> {
        match self.verb {
            Verb::List(args) => args.execute(),
            Verb::Show(args) => args.execute(),
            Verb::Check(args) => args.execute(),
            Verb::Fit(args) => args.execute(),
            Verb::Serve(args) => args.execute(),
        }
    }
}
