//! The results database: one SQLite file, described in `docs/FORMAT.md`.
//!
//! A trial is committed with `synchronous=FULL` before the next one starts, so that a crash loses
//! at most the trial that was running. What is derived (medians, intervals, verdicts) is never
//! stored; it is computed from the records each time.

mod activity;
pub mod earlier;
pub mod merge;
pub mod merge_traces;
mod power_cuts;
mod trial;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use fsdyno_model::activity::Activity;
use fsdyno_model::environment::Environment;
use fsdyno_model::plan::Plan;
use fsdyno_model::power_cuts::PowerCutTest;
use fsdyno_model::record::{TrialRecord, Warning};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, params};

/// Version of the database's schema.
const SCHEMA_VERSION: u32 = 4;

/// What makes a database of one version one of the next.
const UPGRADES: [&str; SCHEMA_VERSION as usize - 1] =
    [include_str!("upgrade-2.sql"), include_str!("upgrade-3.sql"), include_str!("upgrade-4.sql")];

/// An open results database.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

/// A run as it is stored, without its trials.
#[derive(Debug, Clone)]
pub struct StoredRun {
    /// Identifier.
    pub id: String,
    /// Start, in nanoseconds since 1970 UTC.
    pub started_unix_ns: u64,
    /// End; `None` while it is not finished.
    pub finished_unix_ns: Option<u64>,
    /// The command line that starts it again.
    pub command: String,
    /// The plan.
    pub plan: Plan,
    /// The machine and its software.
    pub environment: Environment,
    /// Remarks about the run as a whole.
    pub warnings: Vec<Warning>,
}

/// One line of `fsdyno runs`.
#[derive(Debug, Clone, serde::Serialize)]
pub struct RunLine {
    /// Identifier.
    pub id: String,
    /// Start, in nanoseconds since 1970 UTC.
    pub started_unix_ns: u64,
    /// End; `None` while it is not finished.
    pub finished_unix_ns: Option<u64>,
    /// Labels of the targets.
    pub targets: Vec<String>,
    /// Labels of the workloads.
    pub workloads: Vec<String>,
    /// Trials planned whose figures count; where their number is not fixed, the least number or, where
    /// more were made, those.
    pub trials_planned: usize,
    /// Those of them that completed.
    pub trials_completed: usize,
}

impl Store {
    /// Opens the database at `path`, making it and its directory where they do not exist.
    ///
    /// # Errors
    /// When it cannot be opened, is no results database, or is of a newer version.
    pub fn open(path: &Path) -> anyhow::Result<Store> {
        let what = || format!("results database {}", path.display());
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent).with_context(|| {
                format!("cannot make {} (give another database with --db FILE)", parent.display())
            })?;
        }
        let (mut connection, version) = connect(path).map_err(|error| {
            let advice = match error.sqlite_error_code() {
                Some(ErrorCode::NotADatabase) => {
                    "it is no SQLite file; name another with --db FILE"
                }
                Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => "is its disk full?",
                _ => "try another with --db FILE",
            };
            anyhow::anyhow!("cannot open the {} ({advice}): {error}", what())
        })?;
        match version {
            SCHEMA_VERSION => {}
            0..SCHEMA_VERSION => {
                let transaction = connection
                    .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
                    .with_context(what)?;
                bring_up_to_date(&transaction).with_context(what)?;
                transaction.commit().with_context(what)?;
            }
            newer => bail!(
                "{} has schema version {newer}, this fsdyno knows {SCHEMA_VERSION} (use the fsdyno that wrote it, or another file with --db)",
                what()
            ),
        }
        Ok(Store { connection, path: path.to_owned() })
    }

    /// Opens the database for reading what is there.
    ///
    /// # Errors
    /// When it does not exist, or as [`Store::open`].
    pub fn open_existing(path: &Path) -> anyhow::Result<Store> {
        if !path.exists() {
            bail!(
                "there are no results yet: {} does not exist (fsdyno compare makes it; results of runs under sudo are root's: sudo fsdyno show)",
                path.display()
            );
        }
        Store::open(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a run that begins.
    ///
    /// # Errors
    /// Those of the database.
    pub fn begin_run(&mut self, run: &StoredRun) -> anyhow::Result<()> {
        let transaction = self.connection.transaction()?;
        transaction.execute(
            "INSERT INTO run (id, started_unix_ns, command, plan, environment, warnings) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                run.id,
                integer(run.started_unix_ns),
                run.command,
                serde_json::to_string(&run.plan)?,
                serde_json::to_string(&run.environment)?,
                serde_json::to_string(&run.warnings)?,
            ],
        )?;
        for (position, target) in run.plan.targets.iter().enumerate() {
            transaction.execute(
                "INSERT INTO target (run_id, position, label, filesystem, spec) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![run.id, position, target.label, target.filesystem(), target.unlabelled()],
            )?;
        }
        transaction.commit().with_context(|| self.full_hint())
    }

    /// Replaces what is known of the machine of a run, and the remarks about it.
    ///
    /// # Errors
    /// Those of the database.
    pub fn amend_run(&mut self, run: &StoredRun) -> anyhow::Result<()> {
        let environment = serde_json::to_string(&run.environment)?;
        let warnings = serde_json::to_string(&run.warnings)?;
        self.connection
            .execute(
                "UPDATE run SET environment = ?2, warnings = ?3 WHERE id = ?1",
                params![run.id, environment, warnings],
            )
            .with_context(|| self.full_hint())?;
        Ok(())
    }

    /// Marks a run as finished.
    ///
    /// # Errors
    /// Those of the database.
    pub fn finish_run(&mut self, id: &str, finished_unix_ns: u64) -> anyhow::Result<()> {
        self.connection
            .execute(
                "UPDATE run SET finished_unix_ns = ?2 WHERE id = ?1",
                params![id, integer(finished_unix_ns)],
            )
            .with_context(|| self.full_hint())?;
        Ok(())
    }

    /// Writes a trial durably; one that was interrupted before is replaced.
    ///
    /// # Errors
    /// Those of the database.
    pub fn put_trial(&mut self, run_id: &str, record: &TrialRecord) -> anyhow::Result<()> {
        let hint = self.full_hint();
        trial::put(&mut self.connection, run_id, record).with_context(|| hint)
    }

    /// Puts what became known of a trial later into its record; phases and activity stay as they are.
    ///
    /// # Errors
    /// Those of the database.
    pub fn amend_trial(&mut self, run_id: &str, record: &TrialRecord) -> anyhow::Result<()> {
        trial::amend(&self.connection, run_id, record).with_context(|| self.full_hint())
    }

    /// Writes a test of power cuts that ended at `finished_unix_ns`.
    ///
    /// # Errors
    /// Those of the database.
    pub fn put_power_cuts(
        &mut self,
        finished_unix_ns: u64,
        test: &PowerCutTest,
    ) -> anyhow::Result<()> {
        power_cuts::put(&self.connection, finished_unix_ns, test).with_context(|| self.full_hint())
    }

    /// All tests of power cuts, the oldest first.
    ///
    /// # Errors
    /// Those of the database; a test that cannot be read.
    pub fn power_cuts(&self) -> anyhow::Result<Vec<PowerCutTest>> {
        power_cuts::all(&self.connection)
            .with_context(|| format!("power cuts in {}", self.path.display()))
    }

    /// The trials of a run in the order of execution.
    ///
    /// # Errors
    /// Those of the database; a record that cannot be read.
    pub fn trials(&self, run_id: &str) -> anyhow::Result<Vec<TrialRecord>> {
        trial::all(&self.connection, run_id)
            .with_context(|| format!("trials of run {run_id} in {}", self.path.display()))
    }

    /// What the machine did during one trial; `None` where that was not sampled.
    ///
    /// # Errors
    /// Those of the database; data that cannot be read.
    pub fn activity(&self, run_id: &str, trial: &TrialRecord) -> anyhow::Result<Option<Activity>> {
        activity::get(&self.connection, run_id, trial)
            .with_context(|| format!("activity of run {run_id} in {}", self.path.display()))
    }

    /// The directory of the block traces of a run; it need not exist.
    #[must_use]
    pub fn trace_directory(&self, run_id: &str) -> PathBuf {
        Store::traces_beside(&self.path).join(run_id)
    }

    /// The directory of the block traces of all runs of the database at `path`; it need not exist.
    #[must_use]
    pub fn traces_beside(path: &Path) -> PathBuf {
        path.with_extension("traces")
    }

    /// The directory of what the kernels of a run's guests said; it need not exist.
    #[must_use]
    pub fn console_directory(&self, run_id: &str) -> PathBuf {
        self.path.with_extension("consoles").join(run_id)
    }

    /// The run whose identifier is or begins with `id`, or the latest: `latest` is it too, `latest~1` the
    /// one before it.
    ///
    /// # Errors
    /// When there is none, or more than one begins so.
    pub fn run(&self, id: Option<&str>) -> anyhow::Result<StoredRun> {
        let Some(id) = id else {
            let latest = self.latest("1 = 1")?;
            return latest.with_context(|| format!("there are no runs in {}", self.path.display()));
        };
        if let Some(back) = runs_back(id) {
            let query =
                "SELECT id FROM run ORDER BY started_unix_ns DESC, id DESC LIMIT 1 OFFSET ?1";
            let found: Option<String> =
                self.connection.query_row(query, [back], |row| row.get(0)).optional()?;
            let found = found.with_context(|| {
                format!("there are not so many runs in {}: {id}", self.path.display())
            })?;
            return self.load(&found)?.with_context(|| format!("run {found} vanished"));
        }
        let pattern = format!("{}%", id.replace(['%', '_'], ""));
        let mut statement =
            self.connection.prepare("SELECT id FROM run WHERE id LIKE ?1 ORDER BY id LIMIT 3")?;
        let found: Vec<String> =
            statement.query_map([&pattern], |row| row.get(0))?.collect::<Result<_, _>>()?;
        match found.as_slice() {
            [one] => Ok(self.load(one)?.with_context(|| format!("run {one} vanished"))?),
            [] => bail!("there is no run {id} in {} (fsdyno runs lists them)", self.path.display()),
            _ => match found.iter().find(|candidate| candidate.as_str() == id) {
                Some(exact) => {
                    Ok(self.load(exact)?.with_context(|| format!("run {exact} vanished"))?)
                }
                None => bail!("several runs begin with {id}: {} …", found.join(", ")),
            },
        }
    }

    /// The latest run that is not finished, of `plan` when given; which of its trials are traced makes it
    /// no other plan.
    ///
    /// # Errors
    /// Those of the database.
    pub fn unfinished(&self, plan: Option<&Plan>) -> anyhow::Result<Option<StoredRun>> {
        let mut statement = self.connection.prepare(
            "SELECT id FROM run WHERE finished_unix_ns IS NULL ORDER BY started_unix_ns DESC",
        )?;
        let ids: Vec<String> =
            statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        for id in ids {
            if let Some(run) = self.load(&id)?
                && plan.is_none_or(|plan| {
                    run.plan
                        == Plan {
                            trace: run.plan.trace,
                            yardstick: run.plan.yardstick,
                            ..plan.clone()
                        }
                })
            {
                return Ok(Some(run));
            }
        }
        Ok(None)
    }

    /// All runs, the latest last.
    ///
    /// # Errors
    /// Those of the database.
    pub fn runs(&self) -> anyhow::Result<Vec<RunLine>> {
        let mut statement =
            self.connection.prepare("SELECT id FROM run ORDER BY started_unix_ns")?;
        let ids: Vec<String> =
            statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        let mut lines = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(run) = self.load(&id)? else { continue };
            let (made, completed): (usize, usize) = self.connection.query_row(
                "SELECT count(*), count(*) FILTER (WHERE outcome = 'completed') FROM trial WHERE run_id = ?1 AND record ->> 'role' IS NOT 'explain'",
                [&id],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            lines.push(RunLine {
                id,
                started_unix_ns: run.started_unix_ns,
                finished_unix_ns: run.finished_unix_ns,
                trials_planned: run.plan.least_trial_count().max(made),
                trials_completed: completed,
                targets: run.plan.targets.into_iter().map(|target| target.label).collect(),
                workloads: run.plan.workloads.into_iter().map(|workload| workload.label).collect(),
            });
        }
        Ok(lines)
    }

    fn latest(&self, condition: &str) -> anyhow::Result<Option<StoredRun>> {
        let query =
            format!("SELECT id FROM run WHERE {condition} ORDER BY started_unix_ns DESC LIMIT 1");
        let id: Option<String> =
            self.connection.query_row(&query, [], |row| row.get(0)).optional()?;
        id.map_or(Ok(None), |id| self.load(&id))
    }

    fn load(&self, id: &str) -> anyhow::Result<Option<StoredRun>> {
        type Row = (u64, Option<u64>, String, String, String, String);
        let row: Option<Row> = self
            .connection
            .query_row(
                "SELECT started_unix_ns, finished_unix_ns, command, plan, environment, warnings FROM run WHERE id = ?1",
                [id],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?)),
            )
            .optional()?;
        let Some((started_unix_ns, finished_unix_ns, command, plan, environment, warnings)) = row
        else {
            return Ok(None);
        };
        let what = || format!("run {id} in {} is damaged", self.path.display());
        Ok(Some(StoredRun {
            id: id.to_owned(),
            started_unix_ns,
            finished_unix_ns,
            command,
            plan: serde_json::from_str(&plan).with_context(what)?,
            environment: serde_json::from_str(&environment).with_context(what)?,
            warnings: serde_json::from_str(&warnings).with_context(what)?,
        }))
    }

    fn full_hint(&self) -> String {
        format!(
            "cannot write the results database {} (is its disk full? finished trials are kept; go on with run --resume)",
            self.path.display()
        )
    }
}

/// Opens the file and gives the version of its schema, 0 for a new one.
fn connect(path: &Path) -> rusqlite::Result<(Connection, u32)> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(30))?;
    let version = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    Ok((connection, version))
}

/// Makes the schema of a new database, or the changes that an older one needs.
fn bring_up_to_date(connection: &Connection) -> rusqlite::Result<()> {
    // Another process may have done it since the version was read.
    let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == 0 {
        connection.execute_batch(include_str!("schema.sql"))?;
    } else {
        UPGRADES
            .iter()
            .skip(version as usize - 1)
            .try_for_each(|sql| connection.execute_batch(sql))?;
    }
    connection.pragma_update(None, "user_version", SCHEMA_VERSION)
}

/// How many runs before the latest `latest~N` is; `None` of an identifier.
fn runs_back(id: &str) -> Option<u32> {
    match id.strip_prefix("latest")? {
        "" => Some(0),
        rest => rest.strip_prefix('~')?.parse().ok(),
    }
}

/// SQLite's integers are signed; a number that does not fit is kept as the greatest that does.
fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
