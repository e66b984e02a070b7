//! Every figure of every phase of every trial: the table that most questions need.

use fsdyno_model::disturbance::is_disturbance;
use fsdyno_model::metric;
use fsdyno_model::report_data::ReportData;

use super::{
    Column, Kind, Needs, OUTCOME, PHASE, ROLE, RUN, Sink, TARGET, TRIAL, Table, Value, WORKLOAD,
    real, role, text,
};

/// Its entry in the list.
pub static TABLE: Table = Table {
    name: "results",
    doc: "one figure of one phase of one trial",
    columns: &[
        RUN,
        WORKLOAD,
        TARGET,
        TRIAL,
        ROLE,
        OUTCOME,
        Column {
            name: "is_disturbed",
            kind: Kind::Flag,
            doc: "whether something outside disturbed the trial, which counts all the same",
        },
        PHASE,
        text("metric", "name of the metric, see [metrics](catalog/metrics.md)"),
        text("unit", "its unit; empty for a plain number"),
        Column {
            name: "is_primary",
            kind: Kind::Flag,
            doc: "whether it is the figure that tables show for the phase",
        },
        real("value", "the figure; figures that are not known have no row"),
    ],
    needs: Needs::DOCUMENT,
    rows,
};

fn rows(runs: &[ReportData], sink: Sink<'_>) -> std::io::Result<()> {
    for run in runs {
        for trial in &run.result.trials {
            let is_disturbed = trial.warnings.iter().any(is_disturbance);
            for phase in &trial.phases {
                let record = phase.record();
                for metric in metric::ALL {
                    let Some(value) = (metric.read)(&record).filter(|value| value.is_finite())
                    else {
                        continue;
                    };
                    sink(&[
                        Value::Text(&run.result.run.id),
                        Value::Text(&trial.workload),
                        Value::Text(&trial.target),
                        Value::integer(trial.trial.into()),
                        Value::Text(role(trial.role)),
                        Value::Text(trial.outcome.word()),
                        Value::Flag(is_disturbed),
                        Value::Text(&phase.name),
                        Value::Text(metric.name),
                        Value::Text(metric.unit),
                        Value::Flag(metric.name == phase.primary_metric),
                        Value::Real(value),
                    ])?;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::exports::tables::fixture;

    #[test]
    fn the_primary_figures_are_those_of_the_summary() {
        let run = fixture::run();
        let mut by_hand: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
        rows(std::slice::from_ref(&run), &mut |row| {
            if let [
                _,
                _,
                Value::Text(target),
                _,
                _,
                _,
                _,
                Value::Text(phase),
                _,
                _,
                Value::Flag(true),
                Value::Real(value),
            ] = row
            {
                let key = ((*target).to_owned(), (*phase).to_owned());
                by_hand.entry(key).or_default().push(*value);
            }
            Ok(())
        })
        .unwrap();
        let primary: Vec<_> = run.result.summary.iter().filter(|row| row.primary).collect();
        assert_eq!(by_hand.len(), primary.len());
        for row in primary {
            let values = &by_hand[&(row.target.clone(), row.phase.clone())];
            let median = fsdyno_analysis::interval::median(values).unwrap();
            assert!((median / row.median - 1.0).abs() < 1e-12, "{row:?} {values:?}");
        }
    }
}
