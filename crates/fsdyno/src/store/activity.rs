//! What the machine did during a trial, in the results database: one compressed blob beside the trial,
//! read only when somebody draws it.

use anyhow::Context as _;
use fsdyno_model::activity::Activity;
use fsdyno_model::record::TrialRecord;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

/// Level of zstd: ten samples a second are little.
const LEVEL: i32 = 3;
/// More than a week of samples is no activity of ours.
const LIMIT_BYTES: usize = 1 << 30;

/// Writes what belongs to the trial with this row.
pub(super) fn put(
    transaction: &Transaction<'_>,
    trial_id: i64,
    activity: &Activity,
) -> anyhow::Result<()> {
    let data = zstd::bulk::compress(&serde_json::to_vec(activity)?, LEVEL)?;
    transaction.execute(
        "INSERT INTO activity (trial_id, data) VALUES (?1, ?2)",
        params![trial_id, data],
    )?;
    Ok(())
}

/// Reads what belongs to a trial.
pub(super) fn get(
    connection: &Connection,
    run_id: &str,
    trial: &TrialRecord,
) -> anyhow::Result<Option<Activity>> {
    let data: Option<Vec<u8>> = connection
        .query_row(
            "SELECT activity.data FROM activity JOIN trial ON trial.id = activity.trial_id WHERE run_id = ?1 AND target = ?2 AND workload = ?3 AND trial = ?4",
            params![run_id, trial.target, trial.workload, trial.trial],
            |row| row.get(0),
        )
        .optional()?;
    let Some(data) = data else { return Ok(None) };
    let mut text = Vec::new();
    let decoder = zstd::stream::read::Decoder::new(data.as_slice())?;
    std::io::Read::read_to_end(&mut std::io::Read::take(decoder, LIMIT_BYTES as u64), &mut text)
        .context("it is damaged")?;
    Ok(Some(serde_json::from_slice(&text).context("it is damaged")?))
}
