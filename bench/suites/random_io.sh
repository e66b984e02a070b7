# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are those of bench/run
# random-io beside fio on a file in the page cache, one job: the same engine, block size,
# iodepth and kind of draw (with repetition, fio's norandommap). A core's worth is counted
# as operations per second of processor time of the whole process, threads that the kernel
# runs for it included. At iodepth 32 fio runs twice: as it is by default, where each
# operation goes to the kernel alone, and with the batches that random-io makes. Read by
# bench/run.

random_io_size=256MiB
random_io_seconds=2
random_io_case='' # ENGINE RW IODEPTH

run_our_random_io() {
    local engine rw depth
    read -r engine rw depth <<<"$random_io_case"
    measure_workload "random-io:engine=$engine,rw=$rw,iodepth=$depth,size=$random_io_size,runtime=${random_io_seconds}s,cold=none,sync=false,payload=original"
    jq -er '.trials[0].phases[] | select(.name == "read" or .name == "write")
        | .operations as $n
        | "\($n / .elapsed_return_ns * 1e9) \($n / (.cpu.app_user_ns + .cpu.app_system_ns) * 1e9)"' \
        "$scratch/out" >"$scratch/rates"
    record_rates fsdyno
}

run_fio() { run_fio_as fio; }
run_fio_in_batches() {
    run_fio_as fio_in_batches --iodepth_batch_submit=32 --iodepth_batch_complete_min=1 --iodepth_batch_complete_max=32
}

run_fio_as() { # SIDE OPTION...
    local side=$1 engine rw depth
    shift
    read -r engine rw depth <<<"$random_io_case"
    local options=(--name=job --directory="$scratch/work" --filename=file --size="$random_io_size" --bs=4k --rw="$rw"
        --ioengine="$engine" --iodepth="$depth" --norandommap=1 --invalidate=0 --overwrite=1 "$@")
    # Makes the file, finds it there, works on it.
    measure fio "${options[@]}" --create_only=1
    measure fio "${options[@]}" --create_only=1
    # As our side does by writing it: whole in the page cache, on whatever filesystem.
    (cd "$scratch/work" && cat file >/dev/null)
    local start_s
    start_s=$(awk -v u="$user_s" -v s="$system_s" 'BEGIN { print u + s }')
    measure fio "${options[@]}" --time_based --runtime="$random_io_seconds" --output-format=json
    jq -er --arg side "${rw#rand}" --argjson cpu "$(awk -v u="$user_s" -v s="$system_s" -v b="$start_s" 'BEGIN { print u + s - b }')" \
        '.jobs[0] | .[$side] as $io | "\($io.total_ios / $io.runtime * 1000) \($io.total_ios / $cpu)"' \
        "$scratch/out" >"$scratch/rates"
    record_rates "$side"
}

record_rates() { # SIDE
    local per_second per_core
    read -r per_second per_core <"$scratch/rates"
    record "${random_io_case// /_}.wall" "$1" "$per_second"
    record "${random_io_case// /_}.core" "$1" "$per_core"
}

suite_random_io() {
    if is_missing fio; then return; fi
    local bytes_per_side=$((300 << 20)) sides case item
    local cases=('psync randread 1' 'psync randwrite 1' 'io_uring randread 1' 'io_uring randwrite 1'
        'io_uring randread 32' 'io_uring randwrite 32')
    if ((rounds == 1)); then random_io_size=16MiB random_io_seconds=1; fi
    for case in "${cases[@]}"; do
        random_io_case=$case
        sides=(our_random_io fio)
        if [[ $case == *' 32' ]]; then sides+=(fio_in_batches); fi
        run_rounds "${sides[@]}"
    done
    printf 'random-io: blocks of 4 KiB in a cached file of %s, %d s each, medians of %d interleaved rounds\n' \
        "$random_io_size" "$random_io_seconds" "$rounds"
    row '' fsdyno fio ratio wanted
    for case in "${cases[@]}"; do
        item=${case// /_}
        compare "$case, IOPS per core" "$item.core" fio min 0.95
        compare "$case, IOPS" "$item.wall" fio min none
        if [[ $case == *' 32' ]]; then
            compare "$case, IOPS per core, batches" "$item.core" fio_in_batches min 0.95
        fi
    done
}
