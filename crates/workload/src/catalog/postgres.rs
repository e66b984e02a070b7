//! The workload `postgres`: its definition and its parameters. What it does is in [`crate::postgres`].

use fsdyno_model::info::{PhaseInfo, WorkloadDoc, WorkloadInfo};
use fsdyno_model::param::{ParamDef, Params};

use super::WorkloadDef;
use crate::fragmentation;
use crate::params::{FRAGMENTATION, SYNC, bytes, choice, cold, count, free_text, path};
use crate::postgres::run;
use crate::postgres::settings::Settings;

const PARAMS: &[ParamDef] = &[
    count(
        "scale",
        (1, 100_000),
        ("10", Some("1")),
        "size of the database: 100000 accounts, about 15 MiB, for each unit; below the number of \
         clients these wait for each other's branches",
    ),
    count("clients", (1, 1000), ("4", None), "connections that work at the same time"),
    count("jobs", (1, 1000), ("2", None), "threads of pgbench, which share the clients"),
    count(
        "runtime",
        (0, 1_000_000),
        ("30", None),
        "seconds that tpcb and select-only take each, unless transactions is given",
    ),
    count(
        "transactions",
        (0, 1 << 31),
        ("0", Some("25")),
        "transactions of each client in tpcb and in select-only; 0: as many as runtime allows",
    ),
    choice(
        "synchronous_commit",
        &["on", "off", "local"],
        "on",
        "whether a commit returns only when it is durable",
    ),
    bytes(
        "shared_buffers",
        (1 << 20, 1 << 40),
        ("32MiB", None),
        "the server's own cache; small, so that the filesystem is asked. What is not in it comes from the \
         kernel's page cache, or from the device",
    ),
    bytes(
        "max_wal_size",
        (32 << 20, 1 << 40),
        ("1GiB", Some("128MiB")),
        "size of the write-ahead log that starts a checkpoint; the other reason is an age of 5 minutes",
    ),
    free_text(
        "user",
        "auto",
        "account that PostgreSQL runs as where fsdyno runs as root; `auto`: postgres, or else nobody",
    ),
    path(
        "programs",
        "auto",
        "directory with initdb, postgres, pgbench and psql; `auto`: that of the PATH, or the newest that \
         is installed",
    ),
    SYNC,
    cold("remount", "how the caches are emptied before tpcb, select-only and the check"),
    FRAGMENTATION,
];

/// The catalogue entry.
pub static DEF: WorkloadDef = WorkloadDef {
    info: WorkloadInfo {
        name: "postgres",
        summary: "a PostgreSQL server on the target: initdb, load, TPC-B by pgbench, reads",
        doc: WorkloadDoc {
            timed: "initdb: making the cluster, which it makes durable itself. load: pgbench -i. tpcb and \
                    select-only: one run of pgbench each. Time to return ends with the program; time \
                    until durable goes on until the server, which serves one phase only, was stopped in \
                    good order (it checkpoints: all pages are written and synced) and syncfs on the \
                    target has returned, unless sync=false. A task is one transaction as pgbench logs it.",
            not_timed: "Starting the server; emptying the caches; reading pgbench's logs, which lie in the \
                        directory for temporary files and not on the target; the check at the end: sums \
                        that all transactions keep equal, as many rows of the history as were committed, \
                        pg_amcheck --heapallindexed, and pg_checksums over every page.",
            models: "A database server whose clients change a few rows in each transaction, with a \
                     durable commit each: fsync of a log that several processes share, random reads and \
                     writes of tables, checkpoints that write much at once.",
            read_it_as: "return_transactions_per_s is what pgbench calls tps, with the time that it takes \
                         to connect; transactions_per_s counts the checkpoint at the end too, so that a \
                         run which ends before its first checkpoint does not get it for nothing. \
                         task_p99_ms shows what clients notice of checkpoints.",
            caveats: "The server, pgbench and their versions are the machine's: figures compare only \
                      between runs of the same version. Both run on the same processors. Processor time \
                      of the application is that of pgbench and of the server with all its processes, from \
                      its start on. Settings are PostgreSQL's own but for those that are parameters and \
                      max_connections, huge_pages=off, listen_addresses (none: a private socket); fsync \
                      and full_page_writes are on, pages have checksums, the locale is C. Autovacuum is on \
                      and begins when it likes. pgbench fills its rows with blanks, which compress to \
                      nothing: there is no payload parameter. scale=10 fits into the kernel's page cache \
                      of most machines: after the cold start, reads come from there.",
        },
        differences: &[],
        params: PARAMS,
        phases: &[
            PhaseInfo { name: "initdb", doc: "makes an empty cluster of about 1000 files" },
            PhaseInfo {
                name: "load",
                doc: "makes the tables, fills them and builds their indexes",
            },
            PhaseInfo { name: "tpcb", doc: "transactions that change three rows and add one" },
            PhaseInfo { name: "select-only", doc: "transactions that read one row" },
            fragmentation::PHASE,
        ],
    },
    check: run::check,
    peak_bytes,
    input_bytes: None,
    run: run::run,
    rungs: None,
    dry_run: None,
};

fn peak_bytes(params: &Params) -> anyhow::Result<Option<u64>> {
    Ok(Some(Settings::new(params).map_err(anyhow::Error::msg)?.peak_bytes()))
}
