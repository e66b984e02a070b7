//! pgbench: how it is called, and what its report and its logs say.

use anyhow::{Context as _, ensure};

use super::cluster::{Cluster, run};
use super::settings::Settings;
use crate::program::Program;
use crate::recorder::{Operation, Recorder};

const NS_PER_US: u64 = 1000;

/// One of pgbench's transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// Changes an account, a teller and a branch, and adds a row to the history.
    TpcB,
    /// Reads an account.
    SelectOnly,
}

impl Script {
    /// Name of the phase.
    #[must_use]
    pub const fn phase(self) -> &'static str {
        match self {
            Script::TpcB => "tpcb",
            Script::SelectOnly => "select-only",
        }
    }
}

/// Makes and fills the tables.
///
/// # Errors
/// What pgbench says.
pub fn load(cluster: &Cluster, settings: &Settings) -> anyhow::Result<()> {
    let program = cluster.client("pgbench").arg("--initialize").arg("--quiet");
    run(&program.arg(format!("--scale={}", settings.scale)))?;
    Ok(())
}

/// The program that runs `script`, with a log of every transaction in the scratch directory.
#[must_use]
pub fn program(cluster: &Cluster, settings: &Settings, script: Script, seed: u64) -> Program {
    let program = cluster
        .client("pgbench")
        .arg("--no-vacuum")
        .arg("--log")
        .arg(format!("--log-prefix={}", cluster.scratch().join(script.phase())))
        .arg(format!("--client={}", settings.clients))
        .arg(format!("--jobs={}", settings.jobs))
        // It takes 32 bits.
        .arg(format!("--random-seed={}", seed >> 33));
    let program = match settings.transactions {
        0 => program.arg(format!("--time={}", settings.runtime_s)),
        count => program.arg(format!("--transactions={count}")),
    };
    match script {
        Script::TpcB => program,
        Script::SelectOnly => program.arg("--select-only"),
    }
}

/// The number of transactions that pgbench reports to have been carried out.
///
/// # Errors
/// A report of another form, or one of transactions that failed.
pub fn processed(report: &str) -> anyhow::Result<u64> {
    let value = |name: &str| {
        let lines = report.lines().filter_map(|line| line.trim().split_once(": "));
        lines.filter(|(left, _)| *left == name).map(|(_, right)| right).next()
    };
    let first_number = |text: &str| {
        text.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok())
    };
    let count = value("number of transactions actually processed").and_then(first_number);
    let count = count.context("pgbench: its report does not tell the number of transactions")?;
    let failed = value("number of failed transactions").and_then(first_number).unwrap_or(0);
    ensure!(failed == 0, "pgbench: {failed} of {} transactions failed", count + failed);
    ensure!(count > 0, "pgbench: no transaction ended: increase runtime or transactions");
    Ok(count)
}

/// Takes the latencies from the logs of `script` and removes these.
///
/// # Errors
/// A log that cannot be read, or is of another form.
pub fn take_latencies(
    cluster: &Cluster,
    script: Script,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    let directory = cluster.scratch().path();
    let failed = || format!("read the logs of pgbench in {}", directory.display());
    let prefix = format!("{}.", script.phase());
    for entry in std::fs::read_dir(directory).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with(&prefix) {
            continue;
        }
        let text = std::fs::read_to_string(&path).with_context(failed)?;
        for line in text.lines() {
            let latency_ns = latency_ns(line)
                .with_context(|| format!("{name}: a line of another form: {line:?}"))?;
            recorder.record_ns(Operation::Task, latency_ns);
        }
        std::fs::remove_file(&path).with_context(failed)?;
    }
    Ok(())
}

/// The third field: microseconds.
fn latency_ns(line: &str) -> Option<u64> {
    line.split_ascii_whitespace().nth(2)?.parse::<u64>().ok()?.checked_mul(NS_PER_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_several_versions_are_read() {
        let old = "scaling factor: 1\nduration: 5 s\nnumber of transactions actually processed: 4711\n\
                   latency average = 1 ms\n";
        let new = "number of transactions actually processed: 200/200\n\
                   number of failed transactions: 0 (0.000%)\n";
        assert_eq!(processed(old).unwrap(), 4711);
        assert_eq!(processed(new).unwrap(), 200);
        for (report, expected) in [
            ("", "does not tell"),
            ("number of transactions actually processed: x\n", "does not tell"),
            ("number of transactions actually processed: 0\n", "no transaction ended"),
            (&new.replace(": 0 (0", ": 3 (1"), "3 of 203 transactions failed"),
        ] {
            let error = processed(report).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn logs_are_read() {
        for (line, expected) in [
            ("0 1 2234 0 1795299217 641993", Some(2_234_000)),
            ("1 7 0 0 1 2 33", Some(0)),
            ("1 7 failed 0 1 2", None),
            ("", None),
            ("1 2 18446744073709551615 0 1 1", None),
        ] {
            assert_eq!(latency_ns(line), expected, "{line}");
        }
    }
}
