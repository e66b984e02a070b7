# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are those of bench/run
# dbench beside dbench 4 with its own load, the same clients and the same time: the throughput that both
# print. Read by bench/run.

dbench_seconds=10
dbench_load=/usr/share/dbench/client.txt
dbench_clients=1

run_our_dbench() {
    measure_workload "dbench:mode=original,payload=original,sync=false,loadfile=$dbench_load,clients=$dbench_clients,runtime=${dbench_seconds}s"
    record "clients_$dbench_clients" fsdyno \
        "$(jq -er '.trials[0].phases[] | select(.name == "run") | .values.dbench_mb_per_s' "$scratch/out")"
}

run_dbench() {
    measure dbench -t "$dbench_seconds" -c "$dbench_load" -D "$scratch/work" "$dbench_clients"
    record "clients_$dbench_clients" dbench "$(sed -n 's/^Throughput \([0-9.e+]*\) .*/\1/p' "$scratch/out")"
}

suite_dbench() {
    if is_missing dbench; then return; fi
    if [[ ! -e $dbench_load ]]; then
        echo "skipped: dbench: $dbench_load does not exist"
        return
    fi
    # One pass of a client writes about 1 GB, most of it over and over.
    local bytes_per_side=$((256 << 20))
    if ((rounds == 1)); then dbench_seconds=3; fi
    for dbench_clients in 1 4; do run_rounds our_dbench dbench; done
    printf 'dbench: its own load, %d s, medians of %d interleaved rounds\n' "$dbench_seconds" "$rounds"
    row '' fsdyno peer ratio wanted
    compare 'MB/s with 1 client, dbench 4' clients_1 dbench min 1
    compare 'MB/s with 4 clients, dbench 4' clients_4 dbench min 1
}
