//! What the block traces show over time, of every trial that was traced.

use fsdyno_model::report_data::ReportData;

use super::{
    Needs, ROLE, RUN, Sink, TARGET, TIME_NS, TRIAL, Table, Timelines, Value, WORKLOAD, integer,
    real, role, text,
};

/// Its entry in the list.
pub static TABLE: Table = Table {
    name: "io",
    doc: "one figure of a block trace in one interval: throughput, requests, seeks, queue depth, latency",
    columns: &[
        RUN,
        WORKLOAD,
        TARGET,
        TRIAL,
        ROLE,
        TIME_NS,
        integer("interval_ns", "length of the interval that begins there"),
        text("series", "name of the series, unit last"),
        text("unit", "`B/s`, `1/s`, `ns` or empty"),
        real("value", "the figure; intervals in which there was nothing to measure have no row"),
    ],
    needs: Needs { timelines: Timelines::Every, graphs: true, activity: false },
    rows,
};

fn rows(runs: &[ReportData], sink: Sink<'_>) -> std::io::Result<()> {
    for run in runs {
        for timeline in &run.timelines {
            let Some(graph) = &timeline.graph else { continue };
            for series in &graph.series {
                let times_ns = (0u64..).map(|bin| graph.start_ns + bin * graph.bin_ns);
                for (time_ns, value) in times_ns.zip(&series.values) {
                    let Some(value) = value.filter(|value| value.is_finite()) else { continue };
                    sink(&[
                        Value::Text(&run.result.run.id),
                        Value::Text(&timeline.workload),
                        Value::Text(&timeline.target),
                        Value::integer(timeline.trial.into()),
                        Value::Text(role(timeline.role)),
                        Value::integer(time_ns),
                        Value::integer(graph.bin_ns),
                        Value::Text(&series.name),
                        Value::Text(&series.unit),
                        Value::Real(value),
                    ])?;
                }
            }
        }
    }
    Ok(())
}
