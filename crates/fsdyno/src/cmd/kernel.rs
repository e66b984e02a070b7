//! `fsdyno kernel`: the kernels that guests can have, listed and fetched.

use std::path::PathBuf;

use fsdyno_guest::fetch::{self, Wanted};
use fsdyno_guest::kernel;
use fsdyno_sys::process;
use serde::Serialize;

use super::output;
use crate::run::progress::say;
use crate::{bad_input, paths};

/// Arguments of `fsdyno kernel`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List the kernels that guests can have by their version: installed ones and those of unpacked packages
    List(ListArgs),
    /// Download the package of a kernel by this distribution's package manager (apt) and unpack it in the
    /// cache directory; nothing is installed, and no root is needed
    Fetch(FetchArgs),
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct FetchArgs {
    /// The newest kernel of this version, such as 6.12 [default: of all]
    #[arg(value_name = "VERSION")]
    wanted: Option<String>,

    /// Look in this suite of the distribution, such as bookworm-backports [default: those that this machine
    /// uses]
    #[arg(long, value_name = "SUITE", value_parser = suite)]
    suite: Option<String>,
}

/// A suite is a word in a list of sources.
fn suite(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._/".contains(c);
    if text.is_empty() || text.starts_with(['-', '.', '/']) || !text.chars().all(is_plain) {
        return Err("a suite is a word such as bookworm-backports".to_owned());
    }
    Ok(text.to_owned())
}

/// One kernel in the list.
#[derive(Debug, Serialize)]
struct Listed {
    release: String,
    /// The package that it was unpacked from; null where it is installed.
    package: Option<String>,
    image: PathBuf,
    modules: PathBuf,
    /// Whether this user can read the image.
    readable: bool,
}

impl Args {
    /// Does it.
    ///
    /// # Errors
    /// Bad input: there is no place for packages, or no such kernel; those of the output.
    pub fn execute(self) -> anyhow::Result<bool> {
        match self.verb {
            Verb::List(args) => args.execute(),
            Verb::Fetch(args) => args.execute(),
        }
    }
}

impl ListArgs {
    fn execute(&self) -> anyhow::Result<bool> {
        let known = paths::guest_directory().map_or_else(Vec::new, |cache| kernel::known(&cache));
        let listed = known.into_iter().map(|known| Listed {
            readable: std::fs::File::open(&known.kernel.image).is_ok(),
            release: known.kernel.release,
            package: known.package,
            image: known.kernel.image,
            modules: known.kernel.modules,
        });
        let listed: Vec<Listed> = listed.collect();
        if self.json {
            output::print(&serde_json::to_string_pretty(&listed)?)?;
            return Ok(true);
        }
        if listed.is_empty() {
            output::print("no kernel is installed or fetched: fsdyno kernel fetch\n")?;
            return Ok(true);
        }
        let width = listed.iter().map(|it| it.release.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for kernel in &listed {
            let from = match &kernel.package {
                Some(package) => format!("unpacked from {package}"),
                None if kernel.readable => format!("installed, {}", kernel.image.display()),
                None => {
                    format!("installed, but {} cannot be read by this user", kernel.image.display())
                }
            };
            text.push_str(&format!("{:width$}  {from}\n", kernel.release));
        }
        output::print(&text)?;
        Ok(true)
    }
}

impl FetchArgs {
    fn execute(&self) -> anyhow::Result<bool> {
        process::install_signal_handlers()?;
        let cache = paths::guest_directory().ok_or_else(|| {
            bad_input("there is no cache directory that is yours alone: set XDG_CACHE_HOME")
        })?;
        let wanted = Wanted { version: self.wanted.as_deref(), suite: self.suite.as_deref() };
        let (package, root) =
            fetch::fetch(&wanted, &cache, &mut |text| say(text)).map_err(bad_input)?;
        let kernel =
            kernel::below(&root).map_err(|error| bad_input(format!("{package}: {error}")))?;
        output::print(&format!(
            "{}: --kernel {0}, or @kernel={0} behind a target, boots it in guests\n",
            kernel.release
        ))?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_is_one_word() {
        assert!(suite("bookworm-backports").is_ok() && suite("stable/updates").is_ok());
        for text in ["", "a b", "-o", "../x", "a\nb", "x]"] {
            assert!(suite(text).is_err(), "{text}");
        }
    }
}
