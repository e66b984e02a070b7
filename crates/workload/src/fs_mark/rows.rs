//! The figures of one iteration as fs_mark adds those of its processes up: rates and the time between
//! calls are summed, shortest and longest calls are those of all, and means are those of the jobs' means.
//! How a row is printed is left to the report.

use std::collections::BTreeMap;

use crate::recorder::{Operation, Recorder, Spread};

/// Calls whose times a row tells, by the word in its names, in the original's order.
pub const CALLS: [(&str, Operation); 6] = [
    ("create", Operation::Create),
    ("write", Operation::Write),
    ("fsync", Operation::Fsync),
    ("sync", Operation::Sync),
    ("close", Operation::Close),
    ("unlink", Operation::Unlink),
];

/// What one job did in one iteration.
#[derive(Debug, Clone, Copy, Default)]
pub struct JobFigures {
    /// Files created.
    pub files: u64,
    /// From its first call to the return of its last, without the removal.
    pub elapsed_ns: u64,
    /// Of that, the time within calls.
    pub in_calls_ns: f64,
    /// Shortest, mean and longest time of each of [`CALLS`], in nanoseconds.
    pub times_ns: [[f64; 3]; CALLS.len()],
}

impl JobFigures {
    /// The figures of the calls that `recorder` counted while `files` files were created.
    #[must_use]
    pub fn new(recorder: &Recorder, files: u64, elapsed_ns: u64) -> JobFigures {
        let sum = |spread: Spread| spread.count as f64 * spread.mean_ns;
        let mut figures = JobFigures { files, elapsed_ns, ..JobFigures::default() };
        for (times, (_, operation)) in figures.times_ns.iter_mut().zip(CALLS) {
            let spread = recorder.spread(operation);
            figures.in_calls_ns += sum(spread);
            let (least, most) = (spread.min_ns as f64, spread.max_ns as f64);
            *times = match operation {
                // One call for all files, of which the original tells the time alone.
                Operation::Sync => [0.0, sum(spread), 0.0],
                // As often as there are files, or once, when the original tells a share of it.
                Operation::Fsync if spread.count < files => {
                    [0.0, sum(spread) / files.max(1) as f64, 0.0]
                }
                _ => [least, spread.mean_ns, most],
            };
        }
        figures.in_calls_ns += sum(recorder.spread(Operation::Open));
        figures
    }

    /// Adds the calls that removed the files.
    pub fn add_unlink(&mut self, recorder: &Recorder) {
        let spread = recorder.spread(Operation::Unlink);
        self.times_ns[CALLS.len() - 1] =
            [spread.min_ns as f64, spread.mean_ns, spread.max_ns as f64];
    }
}

/// The sum of the rates of the jobs, each with its own time, in files per second.
#[must_use]
pub fn sum_of_rates(jobs: &[JobFigures]) -> f64 {
    jobs.iter().map(|job| job.files as f64 / job.elapsed_ns.max(1) as f64 * 1e9).sum()
}

/// The row of one iteration, by the names of its figures: `files_per_s`, `app_overhead_us` and, for each
/// of [`CALLS`], `NAME_min_us`, `NAME_mean_us` and `NAME_max_us`.
#[must_use]
pub fn row(jobs: &[JobFigures]) -> BTreeMap<String, f64> {
    let mut row = BTreeMap::new();
    let overhead: f64 =
        jobs.iter().map(|job| (job.elapsed_ns as f64 - job.in_calls_ns).max(0.0)).sum();
    row.insert("files_per_s".to_owned(), sum_of_rates(jobs));
    row.insert("app_overhead_us".to_owned(), overhead / 1e3);
    for (index, (name, _)) in CALLS.into_iter().enumerate() {
        let times = || jobs.iter().map(|job| job.times_ns[index]);
        let least = times().map(|[least, _, _]| least).fold(f64::INFINITY, f64::min);
        let mean = times().map(|[_, mean, _]| mean).sum::<f64>() / jobs.len() as f64;
        let most = times().map(|[_, _, most]| most).fold(0.0, f64::max);
        for (word, value) in [("min", least), ("mean", mean), ("max", most)] {
            row.insert(format!("{name}_{word}_us"), value / 1e3);
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(files: u64, elapsed_ns: u64, create_ns: [f64; 3]) -> JobFigures {
        let mut figures =
            JobFigures { files, elapsed_ns, in_calls_ns: 400.0, ..JobFigures::default() };
        figures.times_ns[0] = create_ns;
        figures
    }

    #[test]
    fn jobs_are_added_up_as_processes_are() {
        let jobs = [
            job(10, 1_000_000_000, [2_000.0, 3_000.0, 9_000.0]),
            job(10, 500_000_000, [1_000.0, 5_000.0, 8_000.0]),
        ];
        let row = row(&jobs);
        assert_eq!(row.len(), 20);
        // Faster than both together, which took a second for 20 files.
        assert_eq!(row["files_per_s"], 30.0);
        assert_eq!(row["app_overhead_us"], 1_499_999.2);
        let create = ["create_min_us", "create_mean_us", "create_max_us"].map(|name| row[name]);
        assert_eq!(create, [1.0, 4.0, 9.0]);
        assert_eq!(row["unlink_max_us"], 0.0);
    }

    #[test]
    fn one_sync_for_many_files_is_told_as_the_original_tells_it() {
        let mut recorder = Recorder::new();
        recorder.record_ns(Operation::Sync, 5_000);
        recorder.record_ns(Operation::Fsync, 1_000);
        let figures = JobFigures::new(&recorder, 4, 10_000);
        assert_eq!(figures.times_ns[2], [0.0, 250.0, 0.0]);
        assert_eq!((figures.times_ns[3][0], figures.times_ns[3][2]), (0.0, 0.0));
        assert!((4_900.0..5_100.0).contains(&figures.times_ns[3][1]));
        let every = JobFigures::new(&recorder, 1, 10_000);
        assert!(every.times_ns[2][0] >= 999.0);
    }
}
