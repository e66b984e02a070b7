-- Results database of fsdyno, schema version 4 (PRAGMA user_version). Described in docs/FORMAT.md.
CREATE TABLE run (
    id               TEXT PRIMARY KEY,
    started_unix_ns  INTEGER NOT NULL,
    finished_unix_ns INTEGER,
    command          TEXT NOT NULL,
    plan             TEXT NOT NULL,
    environment      TEXT NOT NULL,
    warnings         TEXT NOT NULL
) STRICT;

CREATE TABLE target (
    run_id     TEXT NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    position   INTEGER NOT NULL,
    label      TEXT NOT NULL,
    filesystem TEXT NOT NULL,
    spec       TEXT NOT NULL,
    PRIMARY KEY (run_id, position)
) STRICT;

CREATE TABLE trial (
    id              INTEGER PRIMARY KEY,
    run_id          TEXT NOT NULL REFERENCES run(id) ON DELETE CASCADE,
    order_index     INTEGER NOT NULL,
    target          TEXT NOT NULL,
    workload        TEXT NOT NULL,
    trial           INTEGER NOT NULL,
    outcome         TEXT NOT NULL,
    explanation     TEXT NOT NULL,
    started_unix_ns INTEGER,
    elapsed_ns      INTEGER,
    record          TEXT NOT NULL,
    UNIQUE (run_id, target, workload, trial)
) STRICT;

CREATE TABLE phase (
    id                  INTEGER PRIMARY KEY,
    trial_id            INTEGER NOT NULL REFERENCES trial(id) ON DELETE CASCADE,
    position            INTEGER NOT NULL,
    name                TEXT NOT NULL,
    primary_metric      TEXT NOT NULL,
    elapsed_return_ns   INTEGER NOT NULL,
    elapsed_durable_ns  INTEGER,
    files               INTEGER,
    bytes               INTEGER NOT NULL,
    app_user_ns         INTEGER,
    app_system_ns       INTEGER,
    filesystem_ns       INTEGER,
    system_busy_ns      INTEGER,
    device_reads        INTEGER,
    device_read_bytes   INTEGER,
    device_writes       INTEGER,
    device_write_bytes  INTEGER,
    device_flushes      INTEGER,
    device_discards     INTEGER,
    device_discard_bytes INTEGER,
    read_bytes          INTEGER NOT NULL DEFAULT 0,
    cold                TEXT,
    cpu_groups          TEXT,
    UNIQUE (trial_id, position)
) STRICT;

CREATE TABLE operation (
    phase_id  INTEGER NOT NULL REFERENCES phase(id) ON DELETE CASCADE,
    kind      TEXT NOT NULL,
    count     INTEGER NOT NULL,
    histogram BLOB,
    PRIMARY KEY (phase_id, kind)
) STRICT;

CREATE TABLE phase_value (
    phase_id  INTEGER NOT NULL REFERENCES phase(id) ON DELETE CASCADE,
    metric    TEXT NOT NULL,
    value     REAL NOT NULL,
    PRIMARY KEY (phase_id, metric)
) STRICT;

CREATE TABLE sample (
    phase_id           INTEGER NOT NULL REFERENCES phase(id) ON DELETE CASCADE,
    position           INTEGER NOT NULL,
    subject            TEXT NOT NULL,
    elapsed_return_ns  INTEGER NOT NULL,
    elapsed_durable_ns INTEGER,
    operations         INTEGER NOT NULL,
    bytes              INTEGER NOT NULL,
    app_user_ns        INTEGER,
    app_system_ns      INTEGER,
    started_ns         INTEGER,
    PRIMARY KEY (phase_id, position)
) STRICT;

CREATE TABLE activity (
    trial_id INTEGER PRIMARY KEY REFERENCES trial(id) ON DELETE CASCADE,
    data     BLOB NOT NULL
) STRICT;

CREATE TABLE power_cuts (
    id               TEXT PRIMARY KEY,
    finished_unix_ns INTEGER NOT NULL,
    target           TEXT NOT NULL,
    filesystem       TEXT NOT NULL,
    kernel           TEXT NOT NULL,
    seed             INTEGER NOT NULL,
    cuts             INTEGER NOT NULL,
    kept             INTEGER NOT NULL,
    first_broken     TEXT,
    record           TEXT NOT NULL
) STRICT;
