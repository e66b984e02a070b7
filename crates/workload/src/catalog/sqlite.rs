//! The workload `sqlite`: its definition and its parameters. What it does is in [`crate::sqlite`].

use fsdyno_model::info::{PhaseInfo, WorkloadDoc, WorkloadInfo};
use fsdyno_model::param::{ParamDef, Params};

use super::WorkloadDef;
use crate::fragmentation;
use crate::params::{FRAGMENTATION, PAYLOAD, SYNC, bytes, choice, cold, count, numjobs};
use crate::sqlite::run;
use crate::sqlite::settings::Settings;

const PARAMS: &[ParamDef] = &[
    count("rows", (1, 1 << 31), ("200000", Some("5000")), "rows that are loaded"),
    bytes("row_size", (1, 1 << 24), ("500", None), "size of the contents of each row"),
    count("batch", (1, 1 << 31), ("10000", Some("1000")), "rows of one transaction while loading"),
    choice(
        "journal",
        &["delete", "truncate", "wal"],
        "delete",
        "PRAGMA journal_mode: a rollback journal that is deleted or truncated at each commit, or a \
         write-ahead log",
    ),
    choice(
        "synchronous",
        &["full", "normal", "off"],
        "full",
        "PRAGMA synchronous: full makes every commit durable; normal, with wal, only checkpoints; off \
         never asks for anything to be durable",
    ),
    choice(
        "page_size",
        &["512", "1024", "2048", "4096", "8192", "16384", "32768", "65536"],
        "4096",
        "bytes of a page of the database",
    ),
    bytes(
        "cache_size",
        (1024, 1 << 40),
        ("2MiB", None),
        "SQLite's own cache for each connection; what is not in it is read from the filesystem, and by \
         the filesystem from the device where the kernel does not have it cached",
    ),
    count(
        "checkpoint",
        (1, 1 << 31),
        ("1000", Some("1000")),
        "pages in the write-ahead log from which on a commit also copies them into the database",
    ),
    count("reads", (0, 1 << 40), ("20000", Some("1000")), "rows read by key in point-reads"),
    count("transactions", (0, 1 << 31), ("2000", Some("40")), "transactions of updates"),
    count(
        "operations",
        (1, 1 << 20),
        ("4", Some("4")),
        "rows that each transaction of updates changes",
    ),
    count("warehouses", (1, 10_000), ("2", Some("1")), "warehouses of mixed"),
    count("mixed_transactions", (0, 1 << 31), ("2000", Some("60")), "transactions of mixed"),
    numjobs(
        "connections that work at the same time, each in a thread of its own, in point-reads and \
         mixed; reads and transactions are divided among them",
    ),
    PAYLOAD,
    SYNC,
    cold("remount", "how the caches are emptied before point-reads, scan and integrity"),
    FRAGMENTATION,
];

/// The catalogue entry.
pub static DEF: WorkloadDef = WorkloadDef {
    info: WorkloadInfo {
        name: "sqlite",
        summary: "an embedded SQLite: bulk load, reads by key, updates in transactions, scan, a mix",
        doc: WorkloadDoc {
            timed: "Each phase as one sample, from opening its connections until they are closed, which \
                    with journal=wal copies the log into the database and removes it, then syncfs on \
                    the target unless sync=false. An operation is one statement: query (a row that is \
                    read), update (a row that is written), commit, lock (BEGIN). load inserts the rows \
                    in the order of their key, and fills the tables of mixed; a transaction of updates \
                    changes some random rows and adds one; scan reads all rows in the order of their \
                    key. A task is one transaction, from BEGIN until COMMIT has returned.",
            not_timed: "Emptying the caches; comparing the number of rows, and contents of up to 2000 of \
                        them, with what was written, and the tables of mixed with each other. Making the \
                        payload is part of the phase, but of no operation's latency.",
            models: "Programs that keep their data in SQLite: browsers, mail and chat programs, phones, \
                     package managers, small servers. mixed is an order entry after the description of \
                     TPC-C at a tenth of its size (10 districts with 300 customers each to a warehouse, \
                     10000 items): new-order 45 %, payment 43 %, order-status, delivery and stock-level \
                     4 % each; no think times, no rollbacks, no orders of a foreign warehouse. Its \
                     figures are none of the TPC.",
            read_it_as: "updates and mixed: with synchronous=full the cost of fsync, some of them for \
                         each transaction with journal=delete (journal, database, directory) and one \
                         with wal; task_p99 shows journals and checkpoints. point-reads, scan: how fast \
                         small random and large sequential reads of one file are, from cold. Rows per \
                         second are operations_per_s of load, point-reads and scan.",
            caveats: "One writer at a time: SQLite locks the whole database, and further jobs of mixed \
                      wait for it. Reads go through the kernel's page cache (mmap_size is 0): after the \
                      cold start, pages that were read once come from memory where they fit. \
                      wal with normal may lose the last transactions in a power cut, which full does \
                      not: do not compare one with the other as if they were alike. Figures compare only \
                      between builds with the same version of SQLite, which is part of this program.",
        },
        differences: &[],
        params: PARAMS,
        phases: &[
            PhaseInfo {
                name: "load",
                doc: "makes the tables and fills them in large transactions",
            },
            PhaseInfo { name: "point-reads", doc: "reads rows of random keys" },
            PhaseInfo { name: "updates", doc: "changes rows in small transactions" },
            PhaseInfo { name: "scan", doc: "reads the whole table in the order of its key" },
            PhaseInfo { name: "mixed", doc: "transactions of an order entry" },
            PhaseInfo { name: "integrity", doc: "PRAGMA integrity_check; a fault fails the trial" },
            fragmentation::PHASE,
        ],
    },
    check,
    peak_bytes,
    input_bytes: None,
    run: run::run,
    rungs: None,
    dry_run: None,
};

fn check(params: &Params) -> Result<(), String> {
    Settings::new(params, 0).map(drop)
}

fn peak_bytes(params: &Params) -> anyhow::Result<Option<u64>> {
    Ok(Some(Settings::new(params, 0).map_err(anyhow::Error::msg)?.peak_bytes()))
}
