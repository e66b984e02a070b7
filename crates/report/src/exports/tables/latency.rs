//! Latency by percentile, over all measured trials of a target.

use fsdyno_model::report_data::ReportData;

use super::{Needs, PHASE, RUN, Sink, TARGET, Table, Value, WORKLOAD, integer, real, text};

/// Its entry in the list.
pub static TABLE: Table = Table {
    name: "latency",
    doc: "one point of a latency curve, over all measured trials of a target",
    columns: &[
        RUN,
        WORKLOAD,
        TARGET,
        PHASE,
        text("operation", "kind of operation"),
        integer("count", "operations that the curve is made of"),
        real("percentile", "0 to 100; dense toward 100"),
        integer(
            "latency_ns",
            "latency that this share of the operations did not exceed, within 0.1 %",
        ),
    ],
    needs: Needs::DOCUMENT,
    rows,
};

fn rows(runs: &[ReportData], sink: Sink<'_>) -> std::io::Result<()> {
    for run in runs {
        for curve in &run.curves {
            for (percentile, latency_ns) in &curve.points {
                sink(&[
                    Value::Text(&run.result.run.id),
                    Value::Text(&curve.workload),
                    Value::Text(&curve.target),
                    Value::Text(&curve.phase),
                    Value::Text(&curve.operation),
                    Value::integer(curve.count),
                    Value::Real(*percentile),
                    Value::integer(*latency_ns),
                ])?;
            }
        }
    }
    Ok(())
}
