//! The parameters of the workload `postgres`, read and checked against each other.

use fsdyno_model::cold::Cold;
use fsdyno_model::param::Params;

use crate::phase::Durability;

/// A cluster that was just made, without its log.
const EMPTY_BYTES: u64 = 48 << 20;
/// What one unit of scale takes at most, with its index.
const SCALE_BYTES: u64 = 18 << 20;
/// What one transaction leaves behind: a row of the history and dead versions of three more.
const TRANSACTION_BYTES: u64 = 400;
/// Transactions a second that are reckoned with.
const FAST: u64 = 5000;
/// Segments of the log that are there whatever its size should be.
const LOG_SLACK_BYTES: u64 = 64 << 20;

/// The parameters of a run, read.
#[derive(Debug, Clone)]
pub struct Settings {
    /// pgbench's scale: 100000 accounts each.
    pub scale: u64,
    /// Connections of pgbench.
    pub clients: u64,
    /// Threads of pgbench.
    pub jobs: u64,
    /// Seconds that a run of pgbench takes, unless `transactions` is given.
    pub runtime_s: u64,
    /// Transactions of each client; 0: as many as fit into the time.
    pub transactions: u64,
    /// Memory of the server for pages.
    pub shared_buffers_bytes: u64,
    /// Size of the log that starts a checkpoint.
    pub max_wal_bytes: u64,
    /// `on`, `off` or `local`.
    pub synchronous_commit: String,
    /// Account for the server; `auto`.
    pub user: String,
    /// Directory of PostgreSQL's programs; `auto`.
    pub programs: String,
    /// How phases end.
    pub durability: Durability,
    /// How phases begin.
    pub cold: Cold,
}

impl Settings {
    /// Reads the parameters.
    ///
    /// # Errors
    /// A sentence: parameters that do not go together.
    pub fn new(params: &Params) -> Result<Settings, String> {
        let settings = Settings {
            scale: params.number("scale"),
            clients: params.number("clients"),
            jobs: params.number("jobs"),
            runtime_s: params.number("runtime"),
            transactions: params.number("transactions"),
            shared_buffers_bytes: params.number("shared_buffers"),
            max_wal_bytes: params.number("max_wal_size"),
            synchronous_commit: params.text("synchronous_commit").to_owned(),
            user: params.text("user").to_owned(),
            programs: params.text("programs").to_owned(),
            durability: if params.flag("sync") { Durability::Target } else { Durability::None },
            cold: Cold::parse(params.text("cold"))?,
        };
        let Settings { clients, jobs, .. } = settings;
        if jobs > clients {
            return Err(format!("jobs={jobs} is more than clients={clients}: use fewer jobs"));
        }
        if settings.transactions == 0 && settings.runtime_s == 0 {
            return Err("transactions=0 with runtime=0 would do nothing: give one".to_owned());
        }
        Ok(settings)
    }

    /// Upper estimate of what is on the target at once.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        let transactions = match self.transactions {
            0 => self.runtime_s.saturating_mul(FAST),
            count => count.saturating_mul(self.clients),
        };
        let tables = self.scale.saturating_mul(SCALE_BYTES);
        // A log is never longer than what was written.
        let written = tables.saturating_add(transactions.saturating_mul(8192));
        let log = (self.max_wal_bytes + self.max_wal_bytes / 4).min(written);
        EMPTY_BYTES
            .saturating_add(tables)
            .saturating_add(transactions.saturating_mul(TRANSACTION_BYTES))
            .saturating_add(log)
            .saturating_add(LOG_SLACK_BYTES)
    }
}
