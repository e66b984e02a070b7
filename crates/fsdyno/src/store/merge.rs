//! Bringing the runs of one results database into another, row by row as they are stored, so that
//! nothing is lost that this version does not know. The block traces beside them are left to
//! [`super::merge_traces`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, params_from_iter};

use super::{SCHEMA_VERSION, Store, bring_up_to_date, power_cuts};

/// Name under which the other database is attached.
const SOURCE: &str = "source";
/// The table whose rows are runs.
const ROOT: &str = "run";

/// What became of a run of the other database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merged {
    /// It was not there, and now is.
    Added,
    /// It is there already, the same in every row.
    Known,
}

/// A database that runs are taken from. It is only read; one of an older version is copied first and the
/// copy brought up to date.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    /// The file that is attached: the database itself or the copy.
    attached: PathBuf,
    copy: Option<Copy>,
}

/// A copy that is removed in the end.
#[derive(Debug)]
struct Copy(PathBuf);

impl Drop for Copy {
    fn drop(&mut self) {
        for suffix in ["", "-wal", "-shm"] {
            let mut name = self.0.as_os_str().to_owned();
            name.push(suffix);
            let _ = std::fs::remove_file(name);
        }
    }
}

impl Source {
    /// Checks the database at `path`. A copy, where one is needed, is made beside `beside`.
    ///
    /// # Errors
    /// When it cannot be read, is damaged, is no results database, or is of a newer version.
    pub fn open(path: &Path, beside: &Path) -> anyhow::Result<Source> {
        let shown = path.display();
        if !path.is_file() {
            bail!("there is no results database {shown}");
        }
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .with_context(|| format!("cannot open {shown}"))?;
        connection.busy_timeout(std::time::Duration::from_secs(30))?;
        let version: u32 = connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .map_err(|error| match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt) => anyhow::anyhow!("{shown} is damaged: {error}"),
                _ => anyhow::anyhow!("{shown} is no results database: {error}"),
            })?;
        let has_runs: bool = connection
            .query_row(
                "SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = ?1",
                [ROOT],
                |row| row.get(0),
            )
            .with_context(|| format!("{shown} is damaged"))?;
        if version == 0 || !has_runs {
            bail!("{shown} is no results database of fsdyno");
        }
        if version > SCHEMA_VERSION {
            bail!(
                "{shown} has schema version {version}, this fsdyno knows {SCHEMA_VERSION}: merge with the fsdyno that wrote it"
            );
        }
        let damage: String = connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .with_context(|| format!("{shown} is damaged"))?;
        if damage != "ok" {
            bail!("{shown} is damaged: {damage} (sqlite3 FILE .recover may save the rest)");
        }
        let path = path.to_owned();
        if version == SCHEMA_VERSION {
            return Ok(Source { attached: path.clone(), path, copy: None });
        }
        let copy = up_to_date_copy(&connection, beside)
            .with_context(|| format!("cannot bring a copy of {shown} up to date"))?;
        Ok(Source { attached: copy.0.clone(), path, copy: Some(copy) })
    }

    /// The database, as it was named.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it was of an older version, and a copy is read.
    #[must_use]
    pub fn is_copied(&self) -> bool {
        self.copy.is_some()
    }
}

fn up_to_date_copy(connection: &Connection, beside: &Path) -> anyhow::Result<Copy> {
    let mut name = beside.as_os_str().to_owned();
    name.push(format!(".merge-{}", std::process::id()));
    let copy = Copy(PathBuf::from(name));
    // What an earlier process of this number left.
    let _ = std::fs::remove_file(&copy.0);
    let text = copy.0.to_str().context("its path is no UTF-8")?;
    connection.execute("VACUUM INTO ?1", [text])?;
    let mut own = Connection::open(&copy.0)?;
    let transaction = own.transaction()?;
    bring_up_to_date(&transaction)?;
    transaction.commit()?;
    Ok(copy)
}

/// What has been brought in, before it is kept.
#[derive(Debug)]
pub struct Outcome {
    /// The database that it came from, by its place among the sources.
    pub source_index: usize,
    /// Identifier of the run.
    pub run: String,
    /// What became of it.
    pub merged: Merged,
}

impl Store {
    /// Brings the runs and power cuts of `sources` in, all or none; gives what became of the runs and, for each
    /// source, the number of tests of power cuts that were not here. `before_commit` is called with what became of each
    /// run while nothing is kept yet: what it does not want is undone with its error.
    ///
    /// # Errors
    /// When a run is there already with other content, and those of the databases; nothing is changed
    /// then.
    pub fn merge(
        &mut self,
        sources: &[Source],
        before_commit: impl FnOnce(&[Outcome]) -> anyhow::Result<()>,
    ) -> anyhow::Result<(Vec<Outcome>, Vec<usize>)> {
        // A database cannot be attached within a transaction.
        for (index, source) in sources.iter().enumerate() {
            let uri = read_only_uri(&source.attached)?;
            let name = format!("{SOURCE}{index}");
            self.connection
                .execute(&format!("ATTACH DATABASE ?1 AS {name}"), [uri])
                .with_context(|| format!("cannot read {}", source.path.display()))?;
        }
        let merged = self.merge_attached(sources, before_commit);
        for index in 0..sources.len() {
            // Where it fails, the connection's end does it.
            let _ = self.connection.execute_batch(&format!("DETACH DATABASE {SOURCE}{index}"));
        }
        merged
    }

    fn merge_attached(
        &mut self,
        sources: &[Source],
        before_commit: impl FnOnce(&[Outcome]) -> anyhow::Result<()>,
    ) -> anyhow::Result<(Vec<Outcome>, Vec<usize>)> {
        let path = self.path.clone();
        let transaction =
            self.connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let tables = Tables::of(&transaction)?;
        let (mut outcomes, mut cuts_added) = (Vec::new(), Vec::new());
        for (source_index, source) in sources.iter().enumerate() {
            let schema = format!("{SOURCE}{source_index}");
            for run in runs(&transaction, &schema)? {
                let merged = merge_run(&transaction, &tables, &schema, &run)
                    .with_context(|| format!("run {run} of {}", source.path.display()))?;
                let merged = merged.with_context(|| conflict(&run, source, &path))?;
                outcomes.push(Outcome { source_index, run, merged });
            }
            cuts_added.push(power_cuts::merge(&transaction, &schema)?);
        }
        before_commit(&outcomes)?;
        transaction.commit().context("nothing was merged")?;
        Ok((outcomes, cuts_added))
    }
}

fn conflict(run: &str, source: &Source, into: &Path) -> String {
    let (from, into) = (source.path.display(), into.display());
    format!(
        "run {run} of {from} is in {into} already, with other content; nothing was merged. If one of them is unfinished, finish that run first or delete it; else keep both databases: fsdyno show {run} --db {from} --json > run.json makes a file that fsdyno diff compares"
    )
}

/// The path as a URI that opens it for reading.
fn read_only_uri(path: &Path) -> anyhow::Result<String> {
    let path = std::fs::canonicalize(path)?;
    let text = path.to_str().with_context(|| format!("{} is no UTF-8", path.display()))?;
    let mut uri = "file:".to_owned();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                uri.push(char::from(byte));
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    Ok(uri + "?mode=ro")
}

fn runs(transaction: &Transaction<'_>, schema: &str) -> rusqlite::Result<Vec<String>> {
    let query = format!("SELECT id FROM {schema}.{ROOT} ORDER BY started_unix_ns, id");
    transaction.prepare(&query)?.query_map([], |row| row.get(0))?.collect()
}

/// A table and what hangs on its rows.
#[derive(Debug)]
struct Table {
    name: String,
    columns: Vec<String>,
    /// The column that numbers rows anew in every database.
    row_number: Option<String>,
    /// Column by which it hangs on another table; none of runs.
    parent_column: Option<String>,
    children: Vec<String>,
}

/// The tables of the database by name, with what hangs on what: read from the database itself, so that
/// no table is forgotten.
#[derive(Debug)]
struct Tables(BTreeMap<String, Table>);

impl Tables {
    fn of(connection: &Connection) -> anyhow::Result<Tables> {
        let mut tables = BTreeMap::new();
        let names: Vec<String> = connection
            .prepare("SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for name in &names {
            let columns: Vec<(String, String, bool)> = connection
                .prepare("SELECT name, type, pk > 0 FROM pragma_table_info(?1, 'main')")?
                .query_map([name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect::<Result<_, _>>()?;
            let keys: Vec<(String, String)> = connection
                .prepare("SELECT \"table\", \"from\" FROM pragma_foreign_key_list(?1, 'main')")?
                .query_map([name], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<Result<_, _>>()?;
            let parent_column = keys.first().map(|(_, column)| column.clone());
            let is_number = |column: &&(String, String, bool)| {
                column.2 && column.1 == "INTEGER" && parent_column.as_ref() != Some(&column.0)
            };
            let only_key = columns.iter().filter(|column| column.2).count() == 1;
            let row_number = columns.iter().find(is_number).filter(|_| only_key);
            let row_number = row_number.map(|column| column.0.clone());
            let columns = columns.into_iter().map(|column| column.0).collect();
            let (name, children) = (name.clone(), Vec::new());
            let table = Table { name, columns, row_number, parent_column, children };
            tables.insert(table.name.clone(), (table, keys));
        }
        let mut children: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, (_, keys)) in &tables {
            for (parent, _) in keys {
                children.entry(parent.clone()).or_default().push(name.clone());
            }
        }
        let linked = tables.into_iter().map(|(name, (table, _))| {
            let children = children.remove(&name).unwrap_or_default();
            (name, Table { children, ..table })
        });
        Ok(Tables(linked.collect()))
    }
}

/// Brings one run in; `None` where it is there with other content.
fn merge_run(
    transaction: &Transaction<'_>,
    tables: &Tables,
    schema: &str,
    run: &str,
) -> anyhow::Result<Option<Merged>> {
    let id = Value::Text(run.to_owned());
    let is_there: bool = transaction.query_row(
        &format!("SELECT count(*) > 0 FROM main.{ROOT} WHERE id = ?1"),
        [run],
        |row| row.get(0),
    )?;
    let walk = Walk { transaction, tables };
    if is_there {
        let [mut own, mut other] = [Vec::new(), Vec::new()];
        walk.dump("main", ROOT, "id", &id, &mut own)?;
        walk.dump(schema, ROOT, "id", &id, &mut other)?;
        return Ok((own == other).then_some(Merged::Known));
    }
    walk.copy(schema, ROOT, "id", &id, &id)?;
    Ok(Some(Merged::Added))
}

struct Walk<'a> {
    transaction: &'a Transaction<'a>,
    tables: &'a Tables,
}

impl Walk<'_> {
    /// The rows of `table` whose `column` is `key`, in the order of their contents.
    fn rows(
        &self,
        schema: &str,
        table: &Table,
        column: &str,
        key: &Value,
    ) -> rusqlite::Result<Vec<Vec<Value>>> {
        let names: Vec<String> = table.columns.iter().map(|name| format!("\"{name}\"")).collect();
        let order: Vec<String> = table
            .columns
            .iter()
            .filter(|name| table.row_number.as_ref() != Some(*name))
            .map(|name| format!("\"{name}\""))
            .collect();
        let query = format!(
            "SELECT {} FROM {schema}.\"{}\" WHERE \"{column}\" = ?1 ORDER BY {}",
            names.join(", "),
            table.name,
            order.join(", ")
        );
        let mut statement = self.transaction.prepare_cached(&query)?;
        let count = table.columns.len();
        let rows =
            statement.query_map([key], |row| (0..count).map(|index| row.get(index)).collect())?;
        rows.collect()
    }

    /// All that hangs on a row, without the numbers of rows.
    fn dump(
        &self,
        schema: &str,
        name: &str,
        column: &str,
        key: &Value,
        out: &mut Vec<Vec<Value>>,
    ) -> rusqlite::Result<()> {
        let table = &self.tables.0[name];
        for row in self.rows(schema, table, column, key)? {
            let own = table.columns.iter().zip(&row);
            let kept = own.filter(|(name, _)| {
                table.row_number.as_ref() != Some(*name)
                    && table.parent_column.as_ref() != Some(*name)
            });
            let mut shown = vec![Value::Text(name.to_owned())];
            shown.extend(kept.map(|(_, value)| value.clone()));
            out.push(shown);
            for child in &table.children {
                let (parent_key, column) = self.link(table, child, &row);
                self.dump(schema, child, &column, &parent_key, out)?;
            }
        }
        Ok(())
    }

    /// Copies the rows of `name` whose `column` is `key` in the other database; here they hang on
    /// `new_key`.
    fn copy(
        &self,
        schema: &str,
        name: &str,
        column: &str,
        key: &Value,
        new_key: &Value,
    ) -> rusqlite::Result<()> {
        let table = &self.tables.0[name];
        for row in self.rows(schema, table, column, key)? {
            let kept: Vec<(&String, &Value)> = table
                .columns
                .iter()
                .zip(&row)
                .filter(|(name, _)| table.row_number.as_ref() != Some(*name))
                .map(|(name, value)| if name == column { (name, new_key) } else { (name, value) })
                .collect();
            let names: Vec<String> = kept.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            let marks: Vec<String> = (1..=kept.len()).map(|index| format!("?{index}")).collect();
            let (names, marks) = (names.join(", "), marks.join(", "));
            let insert = format!("INSERT INTO main.\"{name}\" ({names}) VALUES ({marks})");
            let values = params_from_iter(kept.iter().map(|(_, value)| *value));
            self.transaction.prepare_cached(&insert)?.execute(values)?;
            let number = Value::Integer(self.transaction.last_insert_rowid());
            for child in &table.children {
                let (parent_key, column) = self.link(table, child, &row);
                let new_key = if table.row_number.is_some() { &number } else { &parent_key };
                self.copy(schema, child, &column, &parent_key, new_key)?;
            }
        }
        Ok(())
    }

    /// The key of a row, and the column by which `child` hangs on it.
    fn link(&self, table: &Table, child: &str, row: &[Value]) -> (Value, String) {
        let key = table.row_number.as_deref().unwrap_or("id");
        let place = table.columns.iter().position(|name| name == key);
        let value = place.map_or(Value::Null, |place| row[place].clone());
        let column = self.tables.0[child].parent_column.clone();
        (value, column.expect("a child has a column by which it hangs on its parent"))
    }
}
