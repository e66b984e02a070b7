-- What `fsdyno query` adds to the tables of the results database: the same columns by the same names
-- everywhere, so that nothing has to be joined. Described in docs/EXPORTS.md.
CREATE TEMP VIEW trials AS
SELECT run_id AS run, workload, target, trial,
       coalesce(record ->> 'role', 'measured') AS role,
       outcome, order_index, explanation,
       strftime('%Y-%m-%dT%H:%M:%SZ', started_unix_ns / 1000000000, 'unixepoch') AS started,
       elapsed_ns,
       (record ->> 'harness_floor_ns') AS harness_floor_ns,
       (record -> 'trace' ->> 'file') AS trace_file,
       id AS trial_id
FROM main.trial;

CREATE TEMP VIEW phases AS
SELECT run, workload, target, trial, role, outcome,
       name AS phase, primary_metric,
       phase.elapsed_return_ns, phase.elapsed_durable_ns, files, bytes, read_bytes, cold,
       app_user_ns, app_system_ns, filesystem_ns, system_busy_ns, cpu_groups,
       device_reads, device_read_bytes, device_writes, device_write_bytes,
       device_flushes, device_discards, device_discard_bytes,
       phase.id AS phase_id
FROM main.phase JOIN trials USING (trial_id);

CREATE TEMP VIEW operations AS
SELECT run, workload, target, trial, role, outcome, phase,
       kind AS operation, count, histogram
FROM main.operation JOIN phases USING (phase_id);

CREATE TEMP VIEW samples AS
SELECT run, workload, target, trial, role, outcome, phase,
       position AS sample_index, subject, started_ns,
       sample.elapsed_return_ns, sample.elapsed_durable_ns,
       operations, sample.bytes, sample.app_user_ns, sample.app_system_ns
FROM main.sample JOIN phases USING (phase_id);

CREATE TEMP VIEW yardstick AS
SELECT run_id AS run, workload, target, trial, edge.key AS edge,
       edge.value ->> 'place' AS place,
       edge.value ->> 'started_unix_ns' AS started_unix_ns,
       edge.value ->> 'elapsed_ns' AS elapsed_ns,
       edge.value ->> 'compute_ns' AS compute_ns,
       edge.value ->> 'copy_ns_per_kib' AS copy_ns_per_kib,
       edge.value ->> 'device_read_ns' AS device_read_ns,
       edge.value ->> 'device_write_ns' AS device_write_ns,
       edge.value ->> 'device_flush_ns' AS device_flush_ns
FROM main.trial, json_each(trial.record, '$.yardstick') AS edge
WHERE edge.type = 'object';

CREATE TEMP TABLE warnings (
    run TEXT, workload TEXT, target TEXT, trial INTEGER, code TEXT, message TEXT, advice TEXT
);

CREATE TEMP TABLE results (
    run TEXT, workload TEXT, target TEXT, trial INTEGER, role TEXT, outcome TEXT,
    is_disturbed INTEGER, phase TEXT, metric TEXT, unit TEXT, is_primary INTEGER, value REAL
);

CREATE TEMP TABLE summary (
    run TEXT, workload TEXT, target TEXT, phase TEXT, metric TEXT, unit TEXT, is_primary INTEGER,
    n INTEGER, median REAL, mean REAL, ci95_low REAL, ci95_high REAL,
    is_best INTEGER, is_tied_with_best INTEGER
);
