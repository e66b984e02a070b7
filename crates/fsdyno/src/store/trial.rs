//! Trials in the results database: phases, operations and samples in tables of their own, so that
//! they can be queried; the rest of the record as JSON.

use std::collections::BTreeMap;

use anyhow::Context as _;
use fsdyno_model::cold::Cold;
use fsdyno_model::record::{
    CpuRecord, DeviceRecord, LatencyHistogram, PhaseRecord, Sample, TrialRecord,
};
use rusqlite::{Connection, Row, Transaction, params};

use super::integer;

/// Writes one trial; one that was interrupted before is replaced.
pub(super) fn put(
    connection: &mut Connection,
    run_id: &str,
    record: &TrialRecord,
) -> anyhow::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute(
        "DELETE FROM trial WHERE run_id = ?1 AND target = ?2 AND workload = ?3 AND trial = ?4",
        params![run_id, record.target, record.workload, record.trial],
    )?;
    let without_phases = TrialRecord { phases: Vec::new(), ..record.clone() };
    transaction.execute(
        "INSERT INTO trial (run_id, order_index, target, workload, trial, outcome, explanation, started_unix_ns, elapsed_ns, record) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            run_id,
            record.order,
            record.target,
            record.workload,
            record.trial,
            record.outcome.word(),
            record.outcome.sentence(),
            record.started_unix_ns.map(integer),
            record.elapsed_ns.map(integer),
            serde_json::to_string(&without_phases)?,
        ],
    )?;
    let trial_id = transaction.last_insert_rowid();
    for (position, phase) in record.phases.iter().enumerate() {
        put_phase(&transaction, trial_id, position, phase)
            .with_context(|| format!("phase {} of {}", phase.name, record.target))?;
    }
    if let Some(activity) = &record.activity {
        super::activity::put(&transaction, trial_id, activity)?;
    }
    transaction.commit()?;
    Ok(())
}

/// Writes what became known of a trial after it was written: all but its phases and its activity.
pub(super) fn amend(
    connection: &Connection,
    run_id: &str,
    record: &TrialRecord,
) -> anyhow::Result<()> {
    let without_phases = TrialRecord { phases: Vec::new(), ..record.clone() };
    connection.execute(
        "UPDATE trial SET record = ?5 WHERE run_id = ?1 AND target = ?2 AND workload = ?3 AND trial = ?4",
        params![
            run_id,
            record.target,
            record.workload,
            record.trial,
            serde_json::to_string(&without_phases)?
        ],
    )?;
    Ok(())
}

fn put_phase(
    transaction: &Transaction<'_>,
    trial_id: i64,
    position: usize,
    phase: &PhaseRecord,
) -> rusqlite::Result<()> {
    let (cpu, device) = (&phase.cpu, &phase.device);
    transaction.execute(
        "INSERT INTO phase (trial_id, position, name, primary_metric, elapsed_return_ns, elapsed_durable_ns, files, bytes, app_user_ns, app_system_ns, filesystem_ns, system_busy_ns, device_reads, device_read_bytes, device_writes, device_write_bytes, device_flushes, device_discards, device_discard_bytes, read_bytes, cold, cpu_groups) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)",
        params![
            trial_id,
            position,
            phase.name,
            phase.primary_metric,
            integer(phase.elapsed_return_ns),
            phase.elapsed_durable_ns.map(integer),
            phase.files.map(integer),
            integer(phase.bytes),
            cpu.app_user_ns.map(integer),
            cpu.app_system_ns.map(integer),
            cpu.filesystem_ns.map(integer),
            cpu.system_busy_ns.map(integer),
            device.reads.map(integer),
            device.read_bytes.map(integer),
            device.writes.map(integer),
            device.write_bytes.map(integer),
            device.flushes.map(integer),
            device.discards.map(integer),
            device.discard_bytes.map(integer),
            integer(phase.read_bytes),
            phase.cold.map(Cold::word),
            groups_text(&cpu.groups_ns),
        ],
    )?;
    let phase_id = transaction.last_insert_rowid();
    let mut operation = transaction.prepare_cached(
        "INSERT INTO operation (phase_id, kind, count, histogram) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for (kind, count) in &phase.operations {
        let histogram = phase.latency.get(kind).map(|histogram| histogram.0.as_slice());
        operation.execute(params![phase_id, kind, integer(*count), histogram])?;
    }
    let mut insert = transaction
        .prepare_cached("INSERT INTO phase_value (phase_id, metric, value) VALUES (?1, ?2, ?3)")?;
    for (metric, value) in &phase.values {
        insert.execute(params![phase_id, metric, value])?;
    }
    let mut insert = transaction.prepare_cached(
        "INSERT INTO sample (phase_id, position, subject, elapsed_return_ns, elapsed_durable_ns, operations, bytes, app_user_ns, app_system_ns, started_ns) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    for (position, sample) in phase.samples.iter().enumerate() {
        insert.execute(params![
            phase_id,
            position,
            sample.subject,
            integer(sample.elapsed_return_ns),
            sample.elapsed_durable_ns.map(integer),
            integer(sample.operations),
            integer(sample.bytes),
            sample.app_user_ns.map(integer),
            sample.app_system_ns.map(integer),
            sample.started_ns.map(integer),
        ])?;
    }
    Ok(())
}

/// The trials of a run in the order of execution.
pub(super) fn all(connection: &Connection, run_id: &str) -> anyhow::Result<Vec<TrialRecord>> {
    let mut statement = connection
        .prepare("SELECT id, record FROM trial WHERE run_id = ?1 ORDER BY order_index, id")?;
    let rows: Vec<(i64, String)> = statement
        .query_map([run_id], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut trials = Vec::with_capacity(rows.len());
    for (id, json) in rows {
        let mut record: TrialRecord =
            serde_json::from_str(&json).with_context(|| format!("trial {id} is damaged"))?;
        record.phases = phases(connection, id)?;
        trials.push(record);
    }
    Ok(trials)
}

fn phases(connection: &Connection, trial_id: i64) -> anyhow::Result<Vec<PhaseRecord>> {
    let mut statement =
        connection.prepare_cached("SELECT * FROM phase WHERE trial_id = ?1 ORDER BY position")?;
    let rows: Vec<(i64, PhaseRecord)> =
        statement.query_map([trial_id], phase_from_row)?.collect::<Result<_, _>>()?;
    let mut phases = Vec::with_capacity(rows.len());
    for (phase_id, mut phase) in rows {
        let mut statement = connection
            .prepare_cached("SELECT kind, count, histogram FROM operation WHERE phase_id = ?1")?;
        let operations = statement.query_map([phase_id], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, u64>(1)?, row.get::<_, Option<Vec<u8>>>(2)?))
        })?;
        for operation in operations {
            let (kind, count, histogram) = operation?;
            if let Some(histogram) = histogram {
                phase.latency.insert(kind.clone(), LatencyHistogram(histogram));
            }
            phase.operations.insert(kind, count);
        }
        let mut statement = connection
            .prepare_cached("SELECT metric, value FROM phase_value WHERE phase_id = ?1")?;
        phase.values = statement
            .query_map([phase_id], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        let mut statement = connection
            .prepare_cached("SELECT * FROM sample WHERE phase_id = ?1 ORDER BY position")?;
        phase.samples =
            statement.query_map([phase_id], sample_from_row)?.collect::<Result<_, _>>()?;
        phases.push(phase);
    }
    Ok(phases)
}

fn phase_from_row(row: &Row<'_>) -> rusqlite::Result<(i64, PhaseRecord)> {
    let phase = PhaseRecord {
        name: row.get("name")?,
        primary_metric: row.get("primary_metric")?,
        elapsed_return_ns: row.get("elapsed_return_ns")?,
        elapsed_durable_ns: row.get("elapsed_durable_ns")?,
        operations: BTreeMap::new(),
        files: row.get("files")?,
        bytes: row.get("bytes")?,
        read_bytes: row.get("read_bytes")?,
        cold: row.get::<_, Option<String>>("cold")?.and_then(|word| Cold::parse(&word).ok()),
        values: BTreeMap::new(),
        cpu: CpuRecord {
            app_user_ns: row.get("app_user_ns")?,
            app_system_ns: row.get("app_system_ns")?,
            filesystem_ns: row.get("filesystem_ns")?,
            system_busy_ns: row.get("system_busy_ns")?,
            groups_ns: row
                .get::<_, Option<String>>("cpu_groups")?
                .map_or_else(BTreeMap::new, groups),
        },
        device: DeviceRecord {
            reads: row.get("device_reads")?,
            read_bytes: row.get("device_read_bytes")?,
            writes: row.get("device_writes")?,
            write_bytes: row.get("device_write_bytes")?,
            flushes: row.get("device_flushes")?,
            discards: row.get("device_discards")?,
            discard_bytes: row.get("device_discard_bytes")?,
        },
        latency: BTreeMap::new(),
        samples: Vec::new(),
    };
    Ok((row.get("id")?, phase))
}

/// Groups of processor time as the database has them; null where nothing was sampled.
fn groups_text(groups_ns: &BTreeMap<String, u64>) -> Option<String> {
    let is_known = !groups_ns.is_empty();
    is_known.then(|| serde_json::to_string(groups_ns).expect("numbers by name are JSON"))
}

/// What cannot be read is as if it had not been sampled.
fn groups(text: String) -> BTreeMap<String, u64> {
    serde_json::from_str(&text).unwrap_or_default()
}

fn sample_from_row(row: &Row<'_>) -> rusqlite::Result<Sample> {
    Ok(Sample {
        subject: row.get("subject")?,
        started_ns: row.get("started_ns")?,
        elapsed_return_ns: row.get("elapsed_return_ns")?,
        elapsed_durable_ns: row.get("elapsed_durable_ns")?,
        operations: row.get("operations")?,
        bytes: row.get("bytes")?,
        app_user_ns: row.get("app_user_ns")?,
        app_system_ns: row.get("app_system_ns")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use fsdyno_model::activity::Activity;
    use fsdyno_model::outcome::Outcome;
    use fsdyno_model::plan::Plan;

    fn record(outcome: Outcome) -> TrialRecord {
        let mut record = TrialRecord::planned("ext4", "compilebench", 1, 0, outcome);
        let mut phase = PhaseRecord::new("create", "throughput_mib_per_s");
        phase.elapsed_return_ns = 5;
        phase.bytes = 7;
        phase.read_bytes = 4;
        phase.cold = Some(Cold::Remount);
        phase.values.insert("extents_per_file".to_owned(), 1.5);
        phase.files = Some(3);
        phase.operations.insert("create".to_owned(), 3);
        phase.operations.insert("write".to_owned(), 4);
        phase.latency.insert("create".to_owned(), LatencyHistogram(vec![1, 2, 3]));
        phase.cpu.app_user_ns = Some(9);
        phase.cpu.groups_ns.insert("journal".to_owned(), 4);
        phase.device.flushes = Some(2);
        phase.samples.push(Sample {
            subject: "kernel-0".to_owned(),
            started_ns: Some(11),
            elapsed_return_ns: 5,
            elapsed_durable_ns: None,
            operations: 7,
            bytes: 7,
            app_user_ns: None,
            app_system_ns: Some(1),
        });
        record.phases.push(phase);
        record
    }

    fn store_with_run() -> (tempfile::TempDir, Store) {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::open(&directory.path().join("deep/er/results.sqlite")).unwrap();
        store
            .begin_run(&crate::store::StoredRun {
                id: "20260101-000000-0001".to_owned(),
                started_unix_ns: 1,
                finished_unix_ns: None,
                command: "fsdyno compare ext4".to_owned(),
                plan: Plan::new(false),
                environment: Default::default(),
                warnings: Vec::new(),
            })
            .unwrap();
        (directory, store)
    }

    #[test]
    fn a_trial_comes_back_whole() {
        let (_directory, mut store) = store_with_run();
        let record = record(Outcome::Completed);
        store.put_trial("20260101-000000-0001", &record).unwrap();
        assert_eq!(store.trials("20260101-000000-0001").unwrap(), [record]);
    }

    #[test]
    fn activity_is_kept_apart() {
        let (_directory, mut store) = store_with_run();
        let id = "20260101-000000-0001";
        let mut record = record(Outcome::Completed);
        store.put_trial(id, &record).unwrap();
        assert_eq!(store.activity(id, &record).unwrap(), None);
        let activity = Activity { processors: 2, times_ns: vec![5, 9], series: Vec::new() };
        record.activity = Some(activity.clone());
        store.put_trial(id, &record).unwrap();
        assert_eq!(store.trials(id).unwrap()[0].activity, None);
        assert_eq!(store.activity(id, &record).unwrap(), Some(activity));
    }

    /// The columns and tables of a database, as SQLite describes them.
    fn layout(connection: &Connection) -> Vec<(String, String, String)> {
        let mut statement = connection
            .prepare("SELECT m.name, c.name, c.type FROM sqlite_schema m JOIN pragma_table_info(m.name) c ORDER BY 1, 2")
            .unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn a_database_of_the_first_version_is_brought_up_to_date() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("old.sqlite");
        let fresh = Connection::open_in_memory().unwrap();
        fresh.execute_batch(include_str!("schema.sql")).unwrap();
        let old = Connection::open(&path).unwrap();
        old.execute_batch(include_str!("schema.sql")).unwrap();
        old.execute_batch(
            "DROP TABLE power_cuts; DROP TABLE phase_value; ALTER TABLE phase DROP COLUMN read_bytes; ALTER TABLE phase DROP COLUMN cold; DROP TABLE activity; ALTER TABLE phase DROP COLUMN cpu_groups; ALTER TABLE sample DROP COLUMN started_ns; PRAGMA user_version = 1",
        )
        .unwrap();
        drop(old);
        drop(Store::open(&path).unwrap());
        assert_eq!(layout(&Connection::open(&path).unwrap()), layout(&fresh));
    }

    #[test]
    fn an_interrupted_trial_is_replaced() {
        let (_directory, mut store) = store_with_run();
        let id = "20260101-000000-0001";
        store.put_trial(id, &record(Outcome::Interrupted { stage: "create".to_owned() })).unwrap();
        store.put_trial(id, &record(Outcome::Completed)).unwrap();
        let trials = store.trials(id).unwrap();
        assert_eq!(trials.len(), 1);
        assert_eq!(trials[0].outcome, Outcome::Completed);
    }

    #[test]
    fn runs_are_found_by_prefix_and_by_plan() {
        let (_directory, mut store) = store_with_run();
        assert_eq!(store.run(Some("20260101")).unwrap().id, "20260101-000000-0001");
        assert!(store.run(Some("2027")).is_err());
        assert!(store.unfinished(Some(&Plan::new(false))).unwrap().is_some());
        assert!(store.unfinished(Some(&Plan::new(true))).unwrap().is_none());
        store.finish_run("20260101-000000-0001", 5).unwrap();
        assert!(store.unfinished(None).unwrap().is_none());
        assert_eq!(store.runs().unwrap().len(), 1);
    }

    #[test]
    fn a_file_that_is_no_database_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        std::fs::write(&path, "this is not a database at all, only text, and long enough").unwrap();
        let error = format!("{:#}", Store::open(&path).unwrap_err());
        assert!(error.contains("--db FILE"), "{error}");
    }
}
