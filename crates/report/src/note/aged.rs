//! What is said of targets that were aged before their workload.

use fsdyno_model::age::AgeRecord;
use fsdyno_model::result::RunResult;

/// What aging did to each target, from its first trial that has a record of it, and in how many trials it
/// was not done but copied. `None` where nothing was aged.
pub fn ages(result: &RunResult) -> Option<String> {
    let told: Vec<String> = (result.targets.iter())
        .filter_map(|target| {
            let own = || {
                (result.trials.iter())
                    .filter(|trial| trial.target == target.label)
                    .filter_map(|trial| trial.aged.as_ref())
            };
            let first = own().next()?;
            Some(format!(
                "{}: {}{}",
                target.label,
                first.sentence(),
                copied(&own().collect::<Vec<_>>())
            ))
        })
        .collect();
    (!told.is_empty()).then(|| format!("Aged before the workload: {}.", told.join("; ")))
}

/// Whether every record is of one state, or how many trials were aged for themselves.
fn copied(records: &[&AgeRecord]) -> String {
    let own = records.iter().filter(|record| !record.from_snapshot).count();
    match own {
        0 => ", kept from an earlier run".to_owned(),
        1 => String::new(),
        own => format!(", {own} trials each aged anew"),
    }
}
