//! Figures over time in bounded memory: one column for each figure, one row for each moment. When there
//! are too many rows, each two become one, and so do those that follow. What is sampled is left to
//! [`crate::sampler`].

use fsdyno_model::activity::{Activity, ActivitySeries, Reading};

/// More rows than this are halved: an hour at ten a second.
pub(crate) const MOST_ROWS: usize = 36_000;

/// What a column is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    /// Name with its unit.
    pub name: String,
    /// What it belongs to.
    pub kind: &'static str,
    /// For people.
    pub title: String,
    /// State or increase.
    pub reading: Reading,
}

/// Rows so far.
#[derive(Debug)]
pub(crate) struct Recording {
    columns: Vec<Column>,
    most_rows: usize,
    times_ns: Vec<u64>,
    /// By column, then by row.
    values: Vec<Vec<Option<f64>>>,
    /// So many samples make a row.
    samples_per_row: u32,
    /// Samples of the row that is being made, and what they come to.
    pending_samples: u32,
    pending_time_ns: u64,
    pending: Vec<Option<f64>>,
}

impl Recording {
    /// Holds at most `most_rows` rows, an even number.
    pub(crate) fn new(columns: Vec<Column>, most_rows: usize) -> Recording {
        Recording {
            most_rows: most_rows.max(2).next_multiple_of(2),
            times_ns: Vec::new(),
            values: vec![Vec::new(); columns.len()],
            samples_per_row: 1,
            pending_samples: 0,
            pending_time_ns: 0,
            pending: vec![None; columns.len()],
            columns,
        }
    }

    /// Adds a sample, a value for each column.
    pub(crate) fn push(&mut self, time_ns: u64, sample: &[Option<f64>]) {
        debug_assert_eq!(sample.len(), self.columns.len());
        for ((pending, value), column) in self.pending.iter_mut().zip(sample).zip(&self.columns) {
            *pending = match self.pending_samples {
                0 => *value,
                before => merged(column.reading, (*pending, before), (*value, 1)),
            };
        }
        self.pending_samples += 1;
        self.pending_time_ns = time_ns;
        if self.pending_samples >= self.samples_per_row {
            self.end_row();
        }
    }

    fn end_row(&mut self) {
        if self.pending_samples == 0 {
            return;
        }
        if self.times_ns.len() == self.most_rows {
            self.halve();
        }
        self.times_ns.push(self.pending_time_ns);
        for (values, value) in self.values.iter_mut().zip(&self.pending) {
            values.push(*value);
        }
        self.pending_samples = 0;
    }

    fn halve(&mut self) {
        let pairs = self.times_ns.len() / 2;
        for pair in 0..pairs {
            // A row tells of the time up to its own.
            self.times_ns[pair] = self.times_ns[2 * pair + 1];
        }
        self.times_ns.truncate(pairs);
        for (values, column) in self.values.iter_mut().zip(&self.columns) {
            for pair in 0..pairs {
                let (first, second) = (values[2 * pair], values[2 * pair + 1]);
                values[pair] = merged(column.reading, (first, 1), (second, 1));
            }
            values.truncate(pairs);
        }
        self.samples_per_row *= 2;
    }

    /// All rows. Columns of which nothing was ever known are left out.
    pub(crate) fn into_activity(mut self, processors: u32) -> Activity {
        self.end_row();
        let series = self.columns.into_iter().zip(self.values).filter_map(|(column, values)| {
            let Column { name, kind, title, reading } = column;
            let is_known = values.iter().any(Option::is_some);
            is_known.then(|| ActivitySeries { name, kind: kind.to_owned(), title, reading, values })
        });
        Activity { processors, series: series.collect(), times_ns: self.times_ns }
    }
}

/// Two values as one, each with the number of samples that it stands for. An increase over a time of
/// which a part is unknown is unknown; of a state, what is known counts.
fn merged(reading: Reading, a: (Option<f64>, u32), b: (Option<f64>, u32)) -> Option<f64> {
    match (a.0, b.0, reading) {
        (Some(x), Some(y), Reading::Delta) => Some(x + y),
        (Some(x), Some(y), Reading::Gauge) => {
            let (m, n) = (f64::from(a.1), f64::from(b.1));
            Some((x * m + y * n) / (m + n))
        }
        (_, _, Reading::Delta) => None,
        (x, y, Reading::Gauge) => x.or(y),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<Column> {
        let column = |name: &str, reading| Column {
            name: name.to_owned(),
            kind: "cpu",
            title: name.to_owned(),
            reading,
        };
        vec![
            column("delta", Reading::Delta),
            column("gauge", Reading::Gauge),
            column("never", Reading::Gauge),
        ]
    }

    #[test]
    fn rows_are_bounded_and_nothing_is_lost() {
        for count in [0u64, 1, 7, 8, 9, 16, 17, 100, 1001] {
            let mut recording = Recording::new(columns(), 8);
            for sample in 1..=count {
                recording.push(sample * 10, &[Some(1.0), Some(5.0), None]);
            }
            let activity = recording.into_activity(2);
            assert!(activity.times_ns.len() <= 8, "{count}");
            assert!(activity.times_ns.is_sorted());
            assert_eq!(activity.times_ns.last().copied().unwrap_or(0), count * 10);
            assert!(activity.series("never").is_none());
            let Some(delta) = activity.series("delta") else {
                assert_eq!(count, 0);
                continue;
            };
            assert_eq!(delta.values.len(), activity.times_ns.len());
            assert_eq!(delta.values.iter().flatten().sum::<f64>(), count as f64, "{count}");
            let gauge = activity.series("gauge").unwrap();
            assert!(gauge.values.iter().all(|value| *value == Some(5.0)), "{gauge:?}");
        }
    }

    #[test]
    fn a_row_means_its_samples_and_the_unknown_stays_unknown() {
        let mut recording = Recording::new(columns(), 2);
        let samples = [(None, Some(1.0)), (Some(2.0), Some(3.0)), (Some(3.0), None)];
        for (index, (delta, gauge)) in samples.into_iter().enumerate() {
            recording.push(index as u64, &[delta, gauge, None]);
        }
        // The third sample has halved the first two, and waits for a fourth to make a row with.
        let halved = recording.into_activity(1);
        assert_eq!(halved.times_ns, [1, 2]);
        assert_eq!(halved.series("delta").unwrap().values, [None, Some(3.0)]);
        assert_eq!(halved.series("gauge").unwrap().values, [Some(2.0), None]);
    }
}
