//! How far a run is: a bar with the time left on a terminal, one line for each trial elsewhere.
//! Everything goes to standard error, so that results stay clean.

use std::io::Write as _;
use std::ops::Range;
use std::time::{Duration, Instant};

use fsdyno_model::outcome::Outcome;
use fsdyno_model::units;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::outlook::range;

/// Steps of the bar for one trial.
const STEPS: u64 = 1000;

/// A trial that is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Target and workload, as a number of their own.
    pub case: usize,
    /// Number of its block, from 1.
    pub block: u32,
    /// Whether it is made only while a comparison is open.
    pub only_if_open: bool,
}

/// What ends the trials before the last of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Blocks that are made whatever they show.
    pub min_blocks: u32,
    /// Blocks that are made at most.
    pub max_blocks: u32,
    /// Time from the start after which nothing starts that is made only while a comparison is open.
    pub further_time: Option<Duration>,
}

/// Progress of a run.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
    total: usize,
    finished: usize,
    /// `None` where the number of trials is fixed.
    bounds: Option<Bounds>,
    started: Instant,
    /// Trials that are made at a time.
    jobs: u32,
    running: Vec<Running>,
    /// Block of the trial that began last.
    block: u32,
    estimate: Estimate,
}

/// A trial that is being made.
#[derive(Debug)]
struct Running {
    step: Step,
    name: String,
    started: Instant,
    stage: String,
    /// Share of its phases.
    done: f64,
}

/// Mean durations of finished trials, by case: the base of the time left.
#[derive(Debug, Default)]
struct Estimate {
    cases: Vec<CaseTime>,
}

#[derive(Debug, Default)]
struct CaseTime {
    /// Trials that have not finished and are made whatever the others show.
    left: u32,
    /// Trials that have not finished and are made only while a comparison is open.
    left_if_open: u32,
    /// Trials that have finished.
    finished: u32,
    /// Their time.
    spent: Duration,
}

/// Time that is left at least and at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Left {
    least: Duration,
    most: Duration,
}

impl Left {
    /// `about 2m 05s left`, `about 10 s to 2m 05s left`; `None` where nothing is.
    fn text(self) -> Option<String> {
        if self.most.is_zero() {
            None
        } else if self.least == self.most {
            Some(format!("about {} left", short(self.most)))
        } else if self.least.is_zero() {
            Some(format!("at most about {} left", short(self.most)))
        } else {
            Some(format!("about {} to {} left", short(self.least), short(self.most)))
        }
    }

    fn without(self, spent: Duration) -> Left {
        let (least, most) = (self.least.saturating_sub(spent), self.most.saturating_sub(spent));
        Left { least, most }
    }

    /// The same made by so many at a time.
    fn shared(self, jobs: u32) -> Left {
        Left { least: self.least / jobs, most: self.most / jobs }
    }
}

impl Estimate {
    fn new(steps: &[Step]) -> Estimate {
        let count = steps.iter().map(|step| step.case + 1).max().unwrap_or_default();
        let mut cases: Vec<CaseTime> = (0..count).map(|_| CaseTime::default()).collect();
        for step in steps {
            let case = &mut cases[step.case];
            *if step.only_if_open { &mut case.left_if_open } else { &mut case.left } += 1;
        }
        Estimate { cases }
    }

    /// One trial of a case is no longer to come.
    fn take(&mut self, step: Step) {
        if let Some(case) = self.cases.get_mut(step.case) {
            let left = if step.only_if_open { &mut case.left_if_open } else { &mut case.left };
            *left = left.saturating_sub(1);
        }
    }

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

    /// What is left; `further` is the time for what is made only while a comparison is open.
    fn left(&self, further: Option<Duration>) -> Option<Left> {
        let mut left = Left { least: Duration::ZERO, most: Duration::ZERO };
        for (index, case) in self.cases.iter().enumerate() {
            if case.left + case.left_if_open > 0 {
                let trial = self.trial(index)?;
                left.least += trial * case.left;
                left.most += trial * (case.left + case.left_if_open);
            }
        }
        left.most = left.most.min(further.unwrap_or(left.most).max(left.least));
        Some(left)
    }
}

impl Progress {
    /// Progress of trials in the order of execution, so many `jobs` at a time; `bounds` where their number is not
    /// fixed.
    #[must_use]
    pub fn new(steps: &[Step], bounds: Option<Bounds>, jobs: usize, quiet: bool) -> Progress {
        let terminal = fsdyno_sys::process::stderr_is_terminal();
        let bar = (terminal && !quiet).then(|| {
            let bar = ProgressBar::with_draw_target(
                Some(steps.len() as u64 * STEPS),
                ProgressDrawTarget::stderr_with_hz(8),
            );
            let style = ProgressStyle::with_template("{bar:16} {wide_msg}");
            bar.set_style(style.expect("the template is a literal").progress_chars("━╸┄"));
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Progress {
            bar,
            quiet,
            total: steps.len(),
            finished: 0,
            bounds,
            started: Instant::now(),
            jobs: u32::try_from(jobs).unwrap_or(u32::MAX).max(1),
            running: Vec::new(),
            block: 1,
            estimate: Estimate::new(steps),
        }
    }

    /// A trial begins.
    pub fn begin(&mut self, name: &str, step: Step) {
        self.block = step.block;
        let (name, stage) = (name.to_owned(), "start".to_owned());
        self.running.push(Running { step, name, started: Instant::now(), stage, done: 0.0 });
        self.show();
    }

    /// A running trial is in `stage`, `done` of its phases.
    pub fn at(&mut self, step: Step, stage: &str, done: f64) {
        if let Some(running) = self.running.iter_mut().find(|running| running.step == step) {
            stage.clone_into(&mut running.stage);
            if done.is_finite() {
                running.done = running.done.max(done.clamp(0.0, 1.0));
            }
        }
        self.show();
    }

    /// A running trial has ended.
    pub fn end(&mut self, step: Step, outcome: &Outcome) {
        let Some(index) = self.running.iter().position(|running| running.step == step) else {
            return;
        };
        let ended = self.running.remove(index);
        let spent = ended.started.elapsed();
        self.estimate.take(step);
        // A trial that was skipped or failed early says nothing about the next.
        if *outcome == Outcome::Completed
            && let Some(times) = self.estimate.cases.get_mut(step.case)
        {
            times.finished += 1;
            times.spent += spent;
        }
        self.finished += 1;
        let took = units::human_duration(u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX));
        let left =
            self.left().and_then(Left::text).map_or(String::new(), |left| format!(", {left}"));
        let line = match outcome {
            Outcome::Completed => format!("{} in {took}", outcome.word()),
            _ => outcome.sentence(),
        };
        if self.bar.is_none() && !self.quiet {
            say(&format!("[{}] {}: {line}{left}", self.place(), ended.name));
        } else if *outcome != Outcome::Completed {
            self.say(&format!("{}: {line}", ended.name));
        }
        self.show();
    }

    /// A trial is left out without ado.
    pub fn leave_out(&mut self, step: Step) {
        self.estimate.take(step);
        self.finished += 1;
        self.show();
    }

    /// Nothing is open any more in these cases.
    pub fn settle(&mut self, cases: Range<usize>) {
        for case in self.estimate.cases.get_mut(cases).into_iter().flatten() {
            case.left_if_open = 0;
        }
    }

    /// Tells after the first block how long all will take, where their number is not fixed.
    pub fn tell_after_first_block(&self) {
        let Some(bounds) = self.bounds.filter(|it| it.min_blocks < it.max_blocks) else { return };
        let Some(left) = self.left() else { return };
        let time = |left: Duration| short(self.started.elapsed() + left);
        self.say(&format!(
            "the first block took {}: the least number, {}, will take about {}, the greatest, {}, at most about {}",
            short(self.started.elapsed()),
            bounds.min_blocks,
            time(left.least),
            bounds.max_blocks,
            time(left.most),
        ));
    }

    /// What is left of the time, without what the running trials have had of theirs.
    fn left(&self) -> Option<Left> {
        let further_time = self.bounds.and_then(|bounds| bounds.further_time);
        let further = further_time.map(|limit| limit.saturating_sub(self.started.elapsed()));
        let spent = self.running.iter().filter_map(|running| {
            let expected = self.estimate.trial(running.step.case)?;
            Some(running.started.elapsed().min(expected))
        });
        let left = self.estimate.left(further)?;
        Some(left.without(spent.sum()).shared(self.jobs))
    }

    /// `3/12`; where the number of trials is not fixed `block 4 of 5 to 20`.
    fn place(&self) -> String {
        match self.bounds {
            None => format!("{}/{}", self.finished, self.total),
            Some(bounds) => {
                let Bounds { min_blocks, max_blocks, .. } = bounds;
                // Trials that only explain come behind the last.
                let block = self.block.min(max_blocks);
                let most = range(min_blocks as usize, max_blocks as usize);
                format!("block {block} of {most}")
            }
        }
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

    fn show(&self) {
        let Some(bar) = &self.bar else { return };
        let left = self.left().or_else(|| {
            // Nothing has finished yet: the share of the first trial tells.
            let first = self.running.first().filter(|running| running.done > 0.05)?;
            let spent = first.started.elapsed();
            let total = u32::try_from(self.total).unwrap_or(u32::MAX);
            let all = spent.div_f64(first.done).saturating_mul(total) / self.jobs;
            let most = all.saturating_sub(spent);
            Some(Left { least: if self.bounds.is_some() { Duration::ZERO } else { most }, most })
        });
        let within = |running: &Running| match self.estimate.trial(running.step.case) {
            Some(expected) if !expected.is_zero() => {
                running.started.elapsed().div_duration_f64(expected).min(0.99)
            }
            _ => running.done,
        };
        let within: f64 = self.running.iter().map(within).sum();
        bar.set_position(self.finished as u64 * STEPS + (within * STEPS as f64) as u64);
        let unknown = || "time left unknown yet".to_owned();
        let left = left
            .map_or_else(unknown, |left| left.text().unwrap_or_else(|| "almost done".to_owned()));
        let place = match self.bounds {
            None => {
                let begun = self.finished + self.running.len();
                format!("{}/{}", begun.clamp(1, self.total.max(1)), self.total)
            }
            Some(_) => self.place(),
        };
        let elapsed = short(self.started.elapsed());
        let names: Vec<String> =
            self.running.iter().map(|it| format!("{} {}", it.name, it.stage)).collect();
        bar.set_message(format!("{place} {elapsed}, {left} · {}", names.join(" · ")));
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

    fn steps(least: u32, most: u32) -> Vec<Step> {
        let blocks = (1..=most).flat_map(|block| [(block, 0), (block, 1)]);
        blocks.map(|(block, case)| Step { case, block, only_if_open: block > least }).collect()
    }

    fn seconds(least: u64, most: u64) -> Option<Left> {
        Some(Left { least: Duration::from_secs(least), most: Duration::from_secs(most) })
    }

    #[test]
    fn the_time_left_comes_from_finished_trials() {
        let steps = steps(2, 2);
        let mut estimate = Estimate::new(&steps);
        assert_eq!(estimate.left(None), None);
        let case = &mut estimate.cases[0];
        (case.finished, case.left, case.spent) = (1, 1, Duration::from_secs(10));
        assert_eq!(estimate.left(None), seconds(30, 30));
        let case = &mut estimate.cases[1];
        (case.finished, case.left) = (2, 0);
        assert_eq!(estimate.left(None), seconds(10, 10));
    }

    #[test]
    fn an_unknown_end_has_a_least_and_a_greatest_time() {
        let steps = steps(5, 20);
        let mut estimate = Estimate::new(&steps);
        for step in &steps[..2] {
            estimate.take(*step);
            let case = &mut estimate.cases[step.case];
            (case.finished, case.spent) = (1, Duration::from_secs(1));
        }
        assert_eq!(estimate.left(None), seconds(8, 38));
        // A bound on the time holds for what need not be made.
        assert_eq!(estimate.left(Some(Duration::from_secs(12))), seconds(8, 12));
        assert_eq!(estimate.left(Some(Duration::from_secs(2))), seconds(8, 8));
        let texts = [seconds(8, 38), seconds(8, 8), seconds(0, 8), seconds(0, 0)];
        let texts = texts.map(|left| left.and_then(Left::text).unwrap_or_default());
        let expected = ["about 8 s to 38 s left", "about 8 s left", "at most about 8 s left", ""];
        assert_eq!(texts, expected);
        for step in &steps[2..10] {
            estimate.take(*step);
        }
        assert_eq!(estimate.left(None), seconds(0, 30));
        // It is settled.
        for step in &steps[10..] {
            estimate.take(*step);
        }
        assert_eq!(estimate.left(None), seconds(0, 0));
    }

    #[test]
    fn the_place_is_that_of_the_block_where_the_end_is_unknown() {
        let bounds = |max_blocks| Bounds { min_blocks: 5, max_blocks, further_time: None };
        let mut progress = Progress::new(&steps(5, 20), Some(bounds(20)), 1, true);
        progress.begin("a w trial 4", Step { case: 0, block: 4, only_if_open: false });
        assert_eq!(progress.place(), "block 4 of 5 to 20");
        progress.begin("a w explain trial", Step { case: 0, block: 21, only_if_open: false });
        assert_eq!(progress.place(), "block 20 of 5 to 20");
        let fixed = Progress::new(&steps(3, 3), None, 1, true);
        assert_eq!(fixed.place(), "0/6");
    }
}
