//! Tests of power cuts in the results database: the record whole as JSON, beside it what is asked in SQL.

use anyhow::Context as _;
use fsdyno_model::power_cuts::PowerCutTest;
use rusqlite::{Connection, params};

use super::integer;

/// Writes one.
pub(super) fn put(
    connection: &Connection,
    finished_unix_ns: u64,
    test: &PowerCutTest,
) -> anyhow::Result<()> {
    // Two processes that end in the same nanosecond differ in their number.
    let id = format!("{finished_unix_ns}-{}", std::process::id());
    let first = test.first_broken.as_ref();
    let first = first.map(|broken| format!("{}: {}", broken.promise, broken.what));
    connection.execute(
        "INSERT INTO power_cuts (id, finished_unix_ns, target, filesystem, kernel, seed, cuts, kept, first_broken, record) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            id,
            integer(finished_unix_ns),
            test.target,
            test.spec.filesystem,
            test.kernel,
            integer(test.seed),
            integer(test.cuts),
            integer(test.kept),
            first,
            serde_json::to_string(test)?,
        ],
    )?;
    Ok(())
}

/// All of them, the oldest first.
pub(super) fn all(connection: &Connection) -> anyhow::Result<Vec<PowerCutTest>> {
    let mut statement =
        connection.prepare("SELECT id, record FROM power_cuts ORDER BY finished_unix_ns, id")?;
    let rows = statement
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?
        .collect::<Result<Vec<_>, _>>()?;
    rows.iter()
        .map(|(id, record)| {
            serde_json::from_str(record).with_context(|| format!("{id} is damaged"))
        })
        .collect()
}

/// Brings those of the database that is attached as `schema` in which are not here; gives their number.
pub(super) fn merge(connection: &Connection, schema: &str) -> rusqlite::Result<usize> {
    connection.execute(
        &format!(
            "INSERT OR IGNORE INTO main.power_cuts (id, finished_unix_ns, target, filesystem, kernel, seed, cuts, kept, first_broken, record) SELECT id, finished_unix_ns, target, filesystem, kernel, seed, cuts, kept, first_broken, record FROM {schema}.power_cuts"
        ),
        [],
    )
}
