//! How far a run is: a bar with the time left on a terminal, one line for each trial elsewhere.
//! Everything goes to standard error, so that results stay clean.

use std::io::Write as _;
use std::time::{Duration, Instant};

use fsdyno_model::outcome::Outcome;
use fsdyno_model::units;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Steps of the bar for one trial.
const STEPS: u64 = 1000;

/// Progress of a run.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
    total: usize,
    finished: usize,
    started: Instant,
    current: String,
    current_started: Instant,
    done: f64,
    estimate: Estimate,
}

/// Mean durations of finished trials, by case: the base of the time left.
#[derive(Debug, Default)]
struct Estimate {
    cases: Vec<CaseTime>,
}

#[derive(Debug)]
struct CaseTime {
    /// Trials that have not finished.
    left: u32,
    /// Trials that have finished.
    finished: u32,
    /// Their time.
    spent: Duration,
}

impl Estimate {
    /// Expected duration of one trial of a case; of any case when this has not run.
    fn trial(&self, case: usize) -> Option<Duration> {
        let own = self.cases.get(case)?;
        if own.finished > 0 {
            return Some(own.spent / own.finished);
        }
        let finished: u32 = self.cases.iter().map(|case| case.finished).sum();
        let spent: Duration = self.cases.iter().map(|case| case.spent).sum();
        (finished > 0).then(|| spent / finished)
    }

    fn left(&self) -> Option<Duration> {
        let each = self.cases.iter().enumerate();
        each.map(|(index, case)| {
            if case.left == 0 { Some(Duration::ZERO) } else { Some(self.trial(index)? * case.left) }
        })
        .sum()
    }
}

impl Progress {
    /// Progress of trials whose cases (target × workload) are given in the order of execution.
    #[must_use]
    pub fn new(cases: &[usize], quiet: bool) -> Progress {
        let count = cases.iter().max().map_or(0, |max| max + 1);
        let mut estimate = Estimate::default();
        for case in 0..count {
            let left = cases.iter().filter(|other| **other == case).count();
            let left = u32::try_from(left).unwrap_or(u32::MAX);
            estimate.cases.push(CaseTime { left, finished: 0, spent: Duration::ZERO });
        }
        let terminal = fsdyno_sys::process::stderr_is_terminal();
        let bar = (terminal && !quiet).then(|| {
            let bar = ProgressBar::with_draw_target(
                Some(cases.len() as u64 * STEPS),
                ProgressDrawTarget::stderr_with_hz(8),
            );
            let style = ProgressStyle::with_template("{bar:16} {wide_msg}");
            bar.set_style(style.expect("the template is a literal").progress_chars("━╸┄"));
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        let now = Instant::now();
        Progress {
            bar,
            quiet,
            total: cases.len(),
            finished: 0,
            started: now,
            current: String::new(),
            current_started: now,
            done: 0.0,
            estimate,
        }
    }

    /// A trial begins.
    pub fn begin(&mut self, name: &str) {
        name.clone_into(&mut self.current);
        self.current_started = Instant::now();
        self.done = 0.0;
        self.show("start", None);
    }

    /// The running trial is in `stage`, `done` of its phases.
    pub fn at(&mut self, case: usize, stage: &str, done: f64) {
        if done.is_finite() {
            self.done = self.done.max(done.clamp(0.0, 1.0));
        }
        self.show(stage, Some(case));
    }

    /// The running trial has ended.
    pub fn end(&mut self, case: usize, outcome: &Outcome) {
        let spent = self.current_started.elapsed();
        if let Some(times) = self.estimate.cases.get_mut(case) {
            times.left = times.left.saturating_sub(1);
            // A trial that was skipped or failed early says nothing about the next.
            if *outcome == Outcome::Completed {
                times.finished += 1;
                times.spent += spent;
            }
        }
        self.finished += 1;
        self.done = 0.0;
        let took = units::human_duration(u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX));
        let left = self.estimate.left().filter(|left| !left.is_zero());
        let left = left.map_or(String::new(), |left| format!(", about {} left", short(left)));
        let line = match outcome {
            Outcome::Completed => format!("{} in {took}", outcome.word()),
            _ => outcome.sentence(),
        };
        if self.bar.is_none() && !self.quiet {
            let (finished, total) = (self.finished, self.total);
            say(&format!("[{finished}/{total}] {}: {line}{left}", self.current));
        } else if *outcome != Outcome::Completed {
            self.say(&format!("{}: {line}", self.current));
        }
        self.show("", None);
    }

    /// A trial of this case is left out without ado.
    pub fn leave_out(&mut self, case: usize) {
        if let Some(times) = self.estimate.cases.get_mut(case) {
            times.left = times.left.saturating_sub(1);
        }
        self.finished += 1;
        self.done = 0.0;
        self.show("", None);
    }

    /// Prints a line above the bar.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None if self.quiet => {}
            None => say(line),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn show(&self, stage: &str, case: Option<usize>) {
        let Some(bar) = &self.bar else { return };
        let running = case.and_then(|case| self.estimate.trial(case));
        let spent = self.current_started.elapsed();
        let left = match (self.estimate.left(), running) {
            (Some(left), Some(_)) => Some(left.saturating_sub(spent)),
            (Some(left), None) => Some(left),
            // Nothing has finished yet: the share of this trial tells.
            (None, _) if self.done > 0.05 => {
                let trial = spent.div_f64(self.done);
                let total = u32::try_from(self.total).unwrap_or(u32::MAX);
                Some((trial * total).saturating_sub(spent))
            }
            (None, _) => None,
        };
        let within = match running {
            Some(expected) if !expected.is_zero() => spent.div_duration_f64(expected).min(0.99),
            _ => self.done,
        };
        bar.set_position(self.finished as u64 * STEPS + (within * STEPS as f64) as u64);
        let left =
            left.map_or("time left unknown yet".to_owned(), |left| format!("{} left", short(left)));
        let (trial, total) = ((self.finished + 1).min(self.total), self.total);
        let elapsed = short(self.started.elapsed());
        bar.set_message(format!("{trial}/{total} {elapsed}, {left} · {} {stage}", self.current));
    }
}

/// Prints a line to standard error. That nobody reads it any more must not end a run.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Whole seconds: tenths would only flicker.
fn short(duration: Duration) -> String {
    units::human_duration(duration.as_secs().max(1) * 1_000_000_000)
        .replace(".00 s", " s")
        .replace(".0 s", " s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_comes_from_finished_trials() {
        let mut estimate = Estimate::default();
        for left in [2, 2] {
            estimate.cases.push(CaseTime { left, finished: 0, spent: Duration::ZERO });
        }
        assert_eq!(estimate.left(), None);
        estimate.cases[0].finished = 1;
        estimate.cases[0].left = 1;
        estimate.cases[0].spent = Duration::from_secs(10);
        assert_eq!(estimate.left(), Some(Duration::from_secs(30)));
        estimate.cases[1].finished = 2;
        estimate.cases[1].left = 0;
        assert_eq!(estimate.left(), Some(Duration::from_secs(10)));
    }
}
