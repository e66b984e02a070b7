# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are those of bench/run
# fileio beside sysbench's test of that name: random reads and writes of a cached file with one thread,
# for the same time. Read by bench/run.

fileio_bytes=$((128 << 20)) fileio_seconds=2
fileio_modes=(rndrd rndwr)

run_our_fileio() {
    local mode rate
    measure_workload "fileio:mode=original,payload=original,cold=none,file_num=8,total_size=$fileio_bytes,fsync_freq=0,fsync_end=false,runtime=${fileio_seconds}s,modes=$(
        IFS=+
        echo "${fileio_modes[*]}"
    )"
    for mode in "${fileio_modes[@]}"; do
        rate=$(jq -er --arg mode "$mode" \
            '.trials[0].phases[] | select(.name == $mode) | .values.requests_per_s' "$scratch/out")
        record "$mode" fsdyno "$rate"
    done
}

run_sysbench() {
    local mode options=(--file-num=8 "--file-total-size=$fileio_bytes" --file-fsync-freq=0
        --file-fsync-end=off "--time=$fileio_seconds")
    measure env -C "$scratch/work" sysbench fileio "${options[@]}" prepare
    for mode in "${fileio_modes[@]}"; do
        measure env -C "$scratch/work" sysbench fileio "${options[@]}" "--file-test-mode=$mode" run
        record "$mode" sysbench "$(awk '/reads\/s:|writes\/s:/ { sum += $2 } END { print sum }' "$scratch/out")"
    done
}

suite_fileio() {
    if is_missing sysbench; then return; fi
    local bytes_per_side=$fileio_bytes mode
    run_rounds our_fileio sysbench
    printf 'fileio: %d MiB in 8 files, medians of %d interleaved rounds\n' $((fileio_bytes >> 20)) "$rounds"
    row '' fsdyno peer ratio wanted
    for mode in "${fileio_modes[@]}"; do
        compare "$mode, requests per s, sysbench" "$mode" sysbench min 1
    done
}
