-- From schema version 1 to 2: what was read, how caches were emptied, figures of a phase by metric.
ALTER TABLE phase ADD COLUMN read_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE phase ADD COLUMN cold TEXT;
CREATE TABLE phase_value (
    phase_id  INTEGER NOT NULL REFERENCES phase(id) ON DELETE CASCADE,
    metric    TEXT NOT NULL,
    value     REAL NOT NULL,
    PRIMARY KEY (phase_id, metric)
) STRICT;
