-- From schema version 3 to 4: power cuts.
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
