-- From schema version 2 to 3: when each sample began, processor time by group, what the machine did.
ALTER TABLE phase ADD COLUMN cpu_groups TEXT;
ALTER TABLE sample ADD COLUMN started_ns INTEGER;
CREATE TABLE activity (
    trial_id INTEGER PRIMARY KEY REFERENCES trial(id) ON DELETE CASCADE,
    data     BLOB NOT NULL
) STRICT;
