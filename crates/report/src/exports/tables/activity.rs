//! What the machine did during every trial, ten times a second.

use fsdyno_model::activity::Reading;
use fsdyno_model::report_data::ReportData;

use super::{
    Needs, ROLE, RUN, Sink, TARGET, TIME_NS, TRIAL, Table, Timelines, Value, WORKLOAD, real, role,
    text,
};

/// Its entry in the list.
pub static TABLE: Table = Table {
    name: "activity",
    doc: "one figure of the machine at one moment of one trial: processor time by group, memory, devices",
    columns: &[
        RUN,
        WORKLOAD,
        TARGET,
        TRIAL,
        ROLE,
        TIME_NS,
        text(
            "kind",
            "`cpu`, `idle`, `memory`, `vmstat`, `pressure`, `device`; `check`: counted another way, to prove `cpu`",
        ),
        text("series", "name of the series, unit last"),
        text(
            "reading",
            "`gauge`: as it was at that moment; `delta`: what was added since the moment before",
        ),
        real("value", "the figure; figures that could not be read have no row"),
    ],
    needs: Needs { timelines: Timelines::Every, graphs: false, activity: true },
    rows,
};

fn rows(runs: &[ReportData], sink: Sink<'_>) -> std::io::Result<()> {
    for run in runs {
        for timeline in &run.timelines {
            let Some(activity) = &timeline.activity else { continue };
            for series in &activity.series {
                let reading = match series.reading {
                    Reading::Gauge => "gauge",
                    Reading::Delta => "delta",
                };
                for (time_ns, value) in activity.times_ns.iter().zip(&series.values) {
                    let Some(value) = value.filter(|value| value.is_finite()) else { continue };
                    sink(&[
                        Value::Text(&run.result.run.id),
                        Value::Text(&timeline.workload),
                        Value::Text(&timeline.target),
                        Value::integer(timeline.trial.into()),
                        Value::Text(role(timeline.role)),
                        Value::integer(*time_ns),
                        Value::Text(&series.kind),
                        Value::Text(&series.name),
                        Value::Text(reading),
                        Value::Real(value),
                    ])?;
                }
            }
        }
    }
    Ok(())
}
