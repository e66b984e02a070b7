//! The readings of the yardstick on both sides of every trial: how fast the machine itself was.

use fsdyno_model::report_data::ReportData;
use fsdyno_model::yardstick::FIGURES;

use super::{
    Needs, ROLE, RUN, Sink, TARGET, TRIAL, Table, Value, WORKLOAD, integer, real, role, text,
};

/// Its entry in the list.
pub static TABLE: Table = Table {
    name: "yardstick",
    doc: "one figure of the machine itself, timed before or after one trial",
    columns: &[
        RUN,
        WORKLOAD,
        TARGET,
        TRIAL,
        ROLE,
        text("edge", "`before` or `after` the trial; one reading may serve two trials"),
        integer("started_unix_ns", "start of the reading, in nanoseconds since 1970 UTC"),
        text("place", "directory or block device by which the device was reached"),
        text("figure", "name of the figure, unit last"),
        real("value", "the time, in nanoseconds; figures that are not known have no row"),
    ],
    needs: Needs::DOCUMENT,
    rows,
};

fn rows(runs: &[ReportData], sink: Sink<'_>) -> std::io::Result<()> {
    for run in runs {
        for trial in &run.result.trials {
            let Some(yardstick) = &trial.yardstick else { continue };
            for (edge, reading) in [("before", &yardstick.before), ("after", &yardstick.after)] {
                let Some(reading) = reading else { continue };
                for figure in &FIGURES {
                    let Some(value) = (figure.read)(reading) else { continue };
                    sink(&[
                        Value::Text(&run.result.run.id),
                        Value::Text(&trial.workload),
                        Value::Text(&trial.target),
                        Value::integer(trial.trial.into()),
                        Value::Text(role(trial.role)),
                        Value::Text(edge),
                        Value::integer(reading.started_unix_ns),
                        Value::Text(&reading.place),
                        Value::Text(figure.name),
                        Value::Real(value),
                    ])?;
                }
            }
        }
    }
    Ok(())
}
