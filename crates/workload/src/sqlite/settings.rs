//! The parameters of the workload `sqlite`, read and checked against each other.

use fsdyno_model::cold::Cold;
use fsdyno_model::param::Params;
use fsdyno_model::payload::Payload;

use super::order_loading::WAREHOUSE_BYTES;
use crate::phase::Durability;

/// What SQLite adds to a row, at most: the header of the cell and of the record, and its place in the
/// page.
const ROW_HEADER_BYTES: u64 = 20;
/// What SQLite keeps of a page for itself.
const PAGE_HEADER_BYTES: u64 = 35;
/// About what one transaction of the mix leaves behind.
const MIXED_BYTES: u64 = 1024;
/// Room for pages of trees, the schema and what a checkpoint has not copied yet.
const SLACK_BYTES: u64 = 8 << 20;

/// The parameters of a run, read.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Rows that are loaded.
    pub rows: u64,
    /// Size of the contents of each.
    pub row_bytes: u64,
    /// Rows of one transaction while loading.
    pub batch_rows: u64,
    /// `delete`, `truncate` or `wal`.
    pub journal: String,
    /// `full`, `normal` or `off`.
    pub synchronous: String,
    /// Size of a page of the database.
    pub page_bytes: u64,
    /// Size of SQLite's own cache, for each connection.
    pub cache_bytes: u64,
    /// Pages in the write-ahead log that start a checkpoint.
    pub checkpoint_pages: u64,
    /// Rows read by key, by all jobs together.
    pub reads: u64,
    /// Transactions of the phase `updates`.
    pub transactions: u64,
    /// Rows that each of them changes.
    pub operations: u64,
    /// Warehouses of the mix.
    pub warehouses: u64,
    /// Transactions of the mix, of all jobs together.
    pub mixed_transactions: u64,
    /// Connections that work at the same time in `point-reads` and `mixed`.
    pub jobs: usize,
    /// What rows hold.
    pub payload: Payload,
    /// Seed of the payload and of every draw.
    pub seed: u64,
    /// How phases end.
    pub durability: Durability,
    /// How phases that read begin.
    pub cold: Cold,
}

impl Settings {
    /// Reads the parameters; `seed` is that of the trial.
    ///
    /// # Errors
    /// A sentence: parameters that do not go together.
    pub fn new(params: &Params, seed: u64) -> Result<Settings, String> {
        let text = |name: &str| params.text(name).to_owned();
        let page_bytes = params.text("page_size").parse().map_err(|_| "page_size is no number")?;
        let settings = Settings {
            rows: params.number("rows"),
            row_bytes: params.number("row_size"),
            batch_rows: params.number("batch"),
            journal: text("journal"),
            synchronous: text("synchronous"),
            page_bytes,
            cache_bytes: params.number("cache_size"),
            checkpoint_pages: params.number("checkpoint"),
            reads: params.number("reads"),
            transactions: params.number("transactions"),
            operations: params.number("operations"),
            warehouses: params.number("warehouses"),
            mixed_transactions: params.number("mixed_transactions"),
            jobs: params.number("numjobs") as usize,
            payload: Payload::parse(params.text("payload"))?,
            seed,
            durability: if params.flag("sync") { Durability::Target } else { Durability::None },
            cold: Cold::parse(params.text("cold"))?,
        };
        if settings.peak_bytes() > 1 << 46 {
            return Err("rows times row_size is more than 64 TiB: use fewer rows".to_owned());
        }
        Ok(settings)
    }

    /// Whether changes go to a write-ahead log.
    #[must_use]
    pub fn is_wal(&self) -> bool {
        self.journal == "wal"
    }

    /// Upper estimate of the size of the database with its journal.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        let rows = self.rows.saturating_add(self.transactions);
        let table = self.pages(rows).saturating_mul(self.page_bytes);
        let touched = self.batch_rows.min(self.rows).max(self.operations + 1);
        // A journal holds the pages of one transaction; a log those until a checkpoint besides.
        let journal = self.pages(touched) + self.checkpoint_pages * u64::from(self.is_wal());
        let orders = self
            .warehouses
            .saturating_mul(WAREHOUSE_BYTES)
            .saturating_add(self.mixed_transactions.saturating_mul(MIXED_BYTES));
        (table + table / 20)
            .saturating_add(journal.saturating_mul(self.page_bytes + 24))
            .saturating_add(orders)
            .saturating_add(SLACK_BYTES)
    }

    /// Pages that so many rows take.
    fn pages(&self, rows: u64) -> u64 {
        let (row, usable) =
            (self.row_bytes + ROW_HEADER_BYTES, self.page_bytes - PAGE_HEADER_BYTES);
        if row <= usable {
            rows.div_ceil(usable / row)
        } else {
            // The rest of a long row lies in pages of its own.
            rows.saturating_mul(row.div_ceil(usable) + 1)
        }
    }
}
