//! The age of a filesystem: what was done to it before the workload began, how that is written and
//! what is recorded of it,
//!
//! ```text
//! churn[(utilisation=80%,age=3,sizes=agrawal,fanout=16,appended=25%)]
//! compilebench[(trees=10,rounds=30)]
//! ```
//!
//! What is left out has its default. The work itself is the runner's.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::param::unknown;
use crate::units;

/// What is done to a fresh filesystem before the workload begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AgeSpec {
    /// Filled, then files are deleted and created at the same utilisation.
    Churn(Churn),
    /// Source trees are created, compiled, patched, cleaned and deleted.
    Compilebench(Compilebench),
}

/// Filled, then churned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Churn {
    /// Share of the filesystem's capacity that is in use all the time, in percent.
    pub utilisation_percent: u32,
    /// Bytes written, filling included, over the capacity, in percent: 300 is three times the capacity.
    pub age_percent: u32,
    /// Distribution of the sizes of files.
    pub sizes: FileSizes,
    /// Subdirectories of each directory; files lie two levels down.
    pub fanout: u32,
    /// Share of the files that grow by appended parts while others are written, in percent.
    pub appended_percent: u32,
}

impl Default for Churn {
    fn default() -> Churn {
        Churn {
            utilisation_percent: 80,
            age_percent: 300,
            sizes: FileSizes::Agrawal,
            fanout: 16,
            appended_percent: 25,
        }
    }
}

/// The mixture of compilebench's random runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compilebench {
    /// Source trees that are created at first.
    pub trees: u32,
    /// Operations that are drawn after that.
    pub rounds: u64,
}

impl Default for Compilebench {
    fn default() -> Compilebench {
        Compilebench { trees: 10, rounds: 30 }
    }
}

/// A named distribution of the sizes of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileSizes {
    /// Desktop filesystems: a lognormal body with a Pareto tail.
    Agrawal,
    /// A spool of mails: gamma distributed.
    Mail,
    /// The files of PostMark: uniform, 500 to 10,000 bytes.
    Postmark,
    /// Uniform, 4 KiB to 1 MiB.
    Uniform,
}

impl FileSizes {
    /// All of them.
    pub const ALL: [FileSizes; 4] =
        [FileSizes::Agrawal, FileSizes::Mail, FileSizes::Postmark, FileSizes::Uniform];

    /// As it is written.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            FileSizes::Agrawal => "agrawal",
            FileSizes::Mail => "mail",
            FileSizes::Postmark => "postmark",
            FileSizes::Uniform => "uniform",
        }
    }

    /// Where it comes from.
    #[must_use]
    pub fn source(self) -> &'static str {
        match self {
            FileSizes::Agrawal => {
                "sizes of files by count in desktop filesystems: N. Agrawal, W. J. Bolosky, J. R. Douceur, \
                 J. R. Lorch, A Five-Year Study of File-System Metadata (FAST 2007), with the parameters of \
                 N. Agrawal, A. Arpaci-Dusseau, R. Arpaci-Dusseau, Generating Realistic Impressions for \
                 File-System Benchmarking (FAST 2009): lognormal (μ 9.48, σ 2.46) for 99.994 %, else Pareto \
                 (k 0.91, from 512 MiB)"
            }
            FileSizes::Mail => {
                "the personality varmail of filebench: gamma with a mean of 16 KiB and the shape 1.5"
            }
            FileSizes::Postmark => {
                "J. Katcher, PostMark: A New File System Benchmark (NetApp TR-3022, 1997): uniform, 500 to \
                 10,000 bytes"
            }
            FileSizes::Uniform => "uniform, 4 KiB to 1 MiB; no model of anything",
        }
    }

    fn parse(text: &str) -> Result<FileSizes, String> {
        let found = FileSizes::ALL.into_iter().find(|sizes| sizes.word() == text);
        found.ok_or_else(|| unknown("distribution of sizes", text, &words()))
    }
}

fn words() -> Vec<&'static str> {
    FileSizes::ALL.map(FileSizes::word).to_vec()
}

/// The kinds, as they are written.
pub const KINDS: [&str; 2] = ["churn", "compilebench"];
const CHURN_SETTINGS: [&str; 5] = ["utilisation", "age", "sizes", "fanout", "appended"];
const COMPILEBENCH_SETTINGS: [&str; 2] = ["trees", "rounds"];

/// Why a directory of the user's cannot be aged.
pub const DIRECTORY_ERROR: &str = "a directory cannot be aged: it lies on a filesystem that was not made for the trial and keeps what \
     is done to it; name a filesystem, such as ext4~churn";

impl AgeSpec {
    /// Reads an age.
    ///
    /// # Errors
    /// A sentence that says which part is wrong and what is accepted.
    pub fn parse(text: &str) -> Result<AgeSpec, String> {
        let text = text.trim();
        let (kind, settings) = match text.split_once('(') {
            None => (text, ""),
            Some((kind, rest)) => match rest.strip_suffix(')') {
                Some(settings) => (kind.trim_end(), settings),
                None => return Err(format!("age `{text}`: the parenthesis is not closed")),
            },
        };
        let mut spec = match kind {
            "churn" => AgeSpec::Churn(Churn::default()),
            "compilebench" => AgeSpec::Compilebench(Compilebench::default()),
            other => return Err(unknown("kind of age", other, &KINDS)),
        };
        for part in settings.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((name, value)) = part.split_once('=') else {
                return Err(format!("age `{text}`: `{part}` has no value: write NAME=VALUE"));
            };
            let (name, value) = (name.trim(), value.trim());
            match &mut spec {
                AgeSpec::Churn(churn) => churn.set(name, value),
                AgeSpec::Compilebench(compilebench) => compilebench.set(name, value),
            }?;
        }
        if let AgeSpec::Churn(churn) = &spec
            && churn.age_percent < churn.utilisation_percent
        {
            return Err(format!(
                "age={} is less than utilisation={}%: filling alone writes as much; give age={} or more",
                decimal(churn.age_percent),
                churn.utilisation_percent,
                decimal(churn.utilisation_percent)
            ));
        }
        Ok(spec)
    }

    /// The kind alone.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            AgeSpec::Churn(_) => "churn",
            AgeSpec::Compilebench(_) => "compilebench",
        }
    }

    /// The text with every setting, defaults too.
    #[must_use]
    pub fn full(&self) -> String {
        self.text(|_| true)
    }

    /// Share of the capacity that it leaves in use, in percent, where it says so.
    #[must_use]
    pub fn utilisation_percent(&self) -> Option<u32> {
        match self {
            AgeSpec::Churn(churn) => Some(churn.utilisation_percent),
            AgeSpec::Compilebench(_) => None,
        }
    }

    fn text(&self, wanted: impl Fn(&(&str, String)) -> bool) -> String {
        let settings: Vec<String> = (self.settings().into_iter())
            .filter(wanted)
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        match settings.as_slice() {
            [] => self.kind().to_owned(),
            settings => format!("{}({})", self.kind(), settings.join(",")),
        }
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        match self {
            AgeSpec::Churn(churn) => CHURN_SETTINGS
                .into_iter()
                .zip([
                    format!("{}%", churn.utilisation_percent),
                    decimal(churn.age_percent),
                    churn.sizes.word().to_owned(),
                    churn.fanout.to_string(),
                    format!("{}%", churn.appended_percent),
                ])
                .collect(),
            AgeSpec::Compilebench(Compilebench { trees, rounds }) => COMPILEBENCH_SETTINGS
                .into_iter()
                .zip([trees.to_string(), rounds.to_string()])
                .collect(),
        }
    }
}

/// The shortest text that [`AgeSpec::parse`] reads back to the same.
impl fmt::Display for AgeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let defaults = match self {
            AgeSpec::Churn(_) => AgeSpec::Churn(Churn::default()),
            AgeSpec::Compilebench(_) => AgeSpec::Compilebench(Compilebench::default()),
        }
        .settings();
        f.write_str(&self.text(|setting| !defaults.contains(setting)))
    }
}

impl Churn {
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "utilisation" => self.utilisation_percent = percent(name, value, 5, 95)?,
            "age" => self.age_percent = hundredths(name, value)?,
            "sizes" => self.sizes = FileSizes::parse(value)?,
            "fanout" => self.fanout = within(name, value, 1, 32)?,
            "appended" => self.appended_percent = percent(name, value, 0, 100)?,
            other => return Err(unknown("setting of churn", other, &CHURN_SETTINGS)),
        }
        Ok(())
    }
}

impl Compilebench {
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "trees" => self.trees = within(name, value, 1, 10_000)?,
            "rounds" => self.rounds = within(name, value, 0, 100_000)?.into(),
            other => return Err(unknown("setting of compilebench", other, &COMPILEBENCH_SETTINGS)),
        }
        Ok(())
    }
}

fn within(name: &str, value: &str, min: u32, max: u32) -> Result<u32, String> {
    let number = value.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("{name} is a whole number from {min} to {max}, not `{value}`"))
}

fn percent(name: &str, value: &str, min: u32, max: u32) -> Result<u32, String> {
    let number = value.strip_suffix('%').unwrap_or(value).trim_end().parse().ok();
    let number = number.filter(|number| (min..=max).contains(number));
    number
        .ok_or_else(|| format!("{name} is a whole percentage from {min}% to {max}%, not `{value}`"))
}

/// A number with at most two digits behind the point, in hundredths.
fn hundredths(name: &str, value: &str) -> Result<u32, String> {
    let wrong =
        || format!("{name} is a number from 0.05 to 1000 with at most two decimals, not `{value}`");
    let (whole, decimals) = value.split_once('.').unwrap_or((value, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > 2 || whole.len() > 4 {
        return Err(wrong());
    }
    let number = |text: String| text.parse::<u32>().map_err(|_| wrong());
    let sum = number(whole.to_owned())? * 100 + number(format!("{decimals:0<2}"))?;
    if (5..=100_000).contains(&sum) { Ok(sum) } else { Err(wrong()) }
}

/// Hundredths as a number: 300 is `3`, 250 is `2.5`.
fn decimal(hundredths: u32) -> String {
    let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What aging did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgeRecord {
    /// The age with every setting, as it is written.
    pub age: String,
    /// Seed of what was drawn: of the plan, so that every trial starts from the same state.
    pub seed: u64,
    /// Capacity of the filesystem in bytes, by statfs.
    pub capacity_bytes: u64,
    /// Of these, in use at the end.
    pub used_bytes: u64,
    /// Bytes written into files.
    pub written_bytes: u64,
    /// Files at the end.
    pub files: u64,
    /// Directories at the end.
    pub directories: u64,
    /// Files created.
    pub created_files: u64,
    /// Times that the filesystem said it was full; files were deleted then.
    pub times_full: u64,
    /// Time that it took, in nanoseconds.
    pub elapsed_ns: u64,
    /// Files of which the extents were asked for.
    pub sampled_files: u64,
    /// Extents of one file in the mean; null where the filesystem tells none.
    pub extents_per_file: Option<f64>,
    /// Share of the files in more than one extent.
    pub fragmented_share: Option<f64>,
    /// Share of the free space in pieces of less than 1 MiB; null where the filesystem does not tell.
    pub free_space_fragmentation: Option<f64>,
    /// Whether it was done in an earlier trial or run, of whose state the trial began with a copy.
    pub from_snapshot: bool,
}

impl AgeRecord {
    /// Share of the capacity in use at the end.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        ratio(self.used_bytes, self.capacity_bytes)
    }

    /// Bytes written over the capacity.
    #[must_use]
    pub fn age_ratio(&self) -> f64 {
        ratio(self.written_bytes, self.capacity_bytes)
    }

    /// `churn to 80 %, 3.0 × capacity written, 1234 files, 12 % of them in more than one extent, 8 % of the
    /// free space in pieces of less than 1 MiB`.
    #[must_use]
    pub fn sentence(&self) -> String {
        let kind = self.age.split('(').next().unwrap_or_default();
        let mut parts = vec![
            format!("{kind} to {:.0} %", 100.0 * self.utilisation()),
            format!(
                "{:.1} × capacity ({}) written",
                self.age_ratio(),
                units::human_bytes(self.capacity_bytes)
            ),
            format!("{} files", self.files),
        ];
        let share = |share: Option<f64>| share.map(|share| format!("{:.0} %", 100.0 * share));
        parts.extend(
            share(self.fragmented_share).map(|it| format!("{it} of them in more than one extent")),
        );
        parts.extend(
            share(self.free_space_fragmentation)
                .map(|it| format!("{it} of the free space in pieces of less than 1 MiB")),
        );
        parts.join(", ")
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_written_back() {
        for (text, short) in [
            ("churn", "churn"),
            ("churn()", "churn"),
            (" churn ( utilisation = 80% , age=3.0) ", "churn"),
            ("churn(utilisation=90)", "churn(utilisation=90%)"),
            ("churn(age=0.85)", "churn(age=0.85)"),
            ("churn(age=2.50,sizes=mail)", "churn(age=2.5,sizes=mail)"),
            ("churn(fanout=1,appended=0%)", "churn(fanout=1,appended=0%)"),
            ("compilebench(rounds=30)", "compilebench"),
            ("compilebench(trees=2,rounds=0)", "compilebench(trees=2,rounds=0)"),
        ] {
            let spec = AgeSpec::parse(text).expect(text);
            assert_eq!(spec.to_string(), short, "{text}");
            assert_eq!(AgeSpec::parse(short).as_ref(), Ok(&spec));
            assert_eq!(AgeSpec::parse(&spec.full()).as_ref(), Ok(&spec));
            let json = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<AgeSpec>(&json).unwrap(), spec);
        }
        let full = "churn(utilisation=80%,age=3,sizes=agrawal,fanout=16,appended=25%)";
        assert_eq!(AgeSpec::parse("churn").unwrap().full(), full);
    }

    #[test]
    fn errors_say_what_to_write() {
        for (text, words) in [
            ("", "there is no kind of age"),
            ("churm", "did you mean `churn`"),
            ("churn(age=3", "not closed"),
            ("churn(age)", "NAME=VALUE"),
            ("churn(ages=3)", "did you mean `age`"),
            ("churn(utilisation=99%)", "from 5% to 95%"),
            ("churn(age=three)", "at most two decimals"),
            ("churn(age=1.234)", "at most two decimals"),
            ("churn(age=-1)", "at most two decimals"),
            ("churn(age=99999999999)", "at most two decimals"),
            ("churn(age=0.5)", "give age=0.8 or more"),
            ("churn(sizes=agraval)", "did you mean `agrawal`"),
            ("churn(fanout=0)", "from 1 to 32"),
            ("compilebench(runs=3)", "rounds"),
            ("compilebench(trees=0)", "from 1 to 10000"),
        ] {
            let error = AgeSpec::parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(churn|compilebench|[a-z]{0,5})\\(?([a-z]{0,5}=?[0-9.%]{0,12},?){0,3}\\)?") {
            if let Ok(spec) = AgeSpec::parse(&text) {
                proptest::prop_assert_eq!(AgeSpec::parse(&spec.to_string()), Ok(spec));
            }
        }
    }

    #[test]
    fn a_record_is_told_in_a_sentence() {
        let record = AgeRecord {
            age: AgeSpec::parse("churn").unwrap().full(),
            seed: 1,
            capacity_bytes: 1 << 30,
            used_bytes: 858_993_459,
            written_bytes: 3 << 30,
            files: 1200,
            directories: 272,
            created_files: 9000,
            times_full: 0,
            elapsed_ns: 5,
            sampled_files: 1200,
            extents_per_file: Some(1.5),
            fragmented_share: Some(0.12),
            free_space_fragmentation: None,
            from_snapshot: false,
        };
        assert_eq!(
            record.sentence(),
            "churn to 80 %, 3.0 × capacity (1.00 GiB) written, 1200 files, 12 % of them in more than one \
             extent"
        );
    }
}
