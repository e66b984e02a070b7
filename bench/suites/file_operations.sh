# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are those of bench/run
# The engine of workloads that are data beside fio's engines filecreate, filestat and
# filedelete: one job, one directory. fio keeps a list of its files that it goes through
# for each of them, so that its rate falls with their number: a thousand is kind to it.
# Read by bench/run.

file_operations_count=1000
file_operations_phases=(create stat delete)

run_our_file_operations() {
    local phase
    measure_workload "$here/file_operations.toml:files=$file_operations_count,sync=false,payload=original"
    for phase in "${file_operations_phases[@]}"; do
        record "$phase.rate" fsdyno "$(per_second "$file_operations_count" "$(phase_ns "$phase")")"
    done
}

run_fio_file_operations() {
    local phase
    for phase in "${file_operations_phases[@]}"; do
        local options=(--name=job "--ioengine=file$phase" --directory="$scratch/work" --filesize=4k
            --nrfiles="$file_operations_count" --fallocate=none --openfiles=1 --output-format=json)
        if [[ $phase == create ]]; then options+=(--create_on_open=1); fi
        measure fio "${options[@]}"
        record "$phase.rate" fio "$(jq -er '.jobs[0].read | .total_ios / ([.runtime, 1] | max) * 1000' "$scratch/out")"
    done
}

suite_file_operations() {
    if is_missing fio; then return; fi
    local bytes_per_side=$((16 << 20)) phase
    run_rounds our_file_operations fio_file_operations
    printf 'engine beside fio: %d files in one directory, medians of %d interleaved rounds\n' \
        "$file_operations_count" "$rounds"
    row '' fsdyno fio ratio wanted
    for phase in "${file_operations_phases[@]}"; do
        compare "$phase, files per s" "$phase.rate" fio min 1
    done
}
