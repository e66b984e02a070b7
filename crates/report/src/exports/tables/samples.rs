//! The samples of every phase: what happened to the phase's pieces, in the order of execution.

use fsdyno_model::report_data::ReportData;

use super::{
    Needs, OUTCOME, PHASE, ROLE, RUN, Sink, TARGET, TRIAL, Table, Value, WORKLOAD, integer, role,
    text,
};

/// Its entry in the list.
pub static TABLE: Table = Table {
    name: "samples",
    doc: "one piece of one phase of one trial, such as one tree of compilebench",
    columns: &[
        RUN,
        WORKLOAD,
        TARGET,
        TRIAL,
        ROLE,
        OUTCOME,
        PHASE,
        integer("sample_index", "place in the order of execution, from 0"),
        text("subject", "what it was done to"),
        integer("started_ns", "the first call, in nanoseconds of `CLOCK_MONOTONIC`"),
        integer("elapsed_return_ns", "until the last operation had returned"),
        integer(
            "elapsed_durable_ns",
            "until the data were on the device; null where nothing asked for that",
        ),
        integer("operations", "operations done"),
        integer("bytes", "bytes that the application read or wrote"),
        integer("app_user_ns", "user time of the application"),
        integer("app_system_ns", "system time of the application"),
    ],
    needs: Needs::DOCUMENT,
    rows,
};

fn rows(runs: &[ReportData], sink: Sink<'_>) -> std::io::Result<()> {
    for run in runs {
        for trial in &run.result.trials {
            for phase in &trial.phases {
                for (index, sample) in phase.samples.iter().enumerate() {
                    sink(&[
                        Value::Text(&run.result.run.id),
                        Value::Text(&trial.workload),
                        Value::Text(&trial.target),
                        Value::integer(trial.trial.into()),
                        Value::Text(role(trial.role)),
                        Value::Text(trial.outcome.word()),
                        Value::Text(&phase.name),
                        Value::integer(index as u64),
                        Value::Text(&sample.subject),
                        Value::maybe(sample.started_ns),
                        Value::integer(sample.elapsed_return_ns),
                        Value::maybe(sample.elapsed_durable_ns),
                        Value::integer(sample.operations),
                        Value::integer(sample.bytes),
                        Value::maybe(sample.app_user_ns),
                        Value::maybe(sample.app_system_ns),
                    ])?;
                }
            }
        }
    }
    Ok(())
}
