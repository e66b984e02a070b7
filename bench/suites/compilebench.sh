# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are those of bench/run
# compilebench beside the Python original: -i 6 -r 80 --no-sync, the same datasets. Read
# by bench/run.

run_ours_compilebench() {
    measure_workload "compilebench:mode=original,payload=original,rng=cpython-555,datasets=$datasets,trees=$trees,runs=$runs,sync=false"
    record_times fsdyno
}

run_python_compilebench() {
    measure "$python" "$COMPILEBENCH" -D "$scratch/work" -i "$trees" -r "$runs" -s "$datasets" --no-sync
    record_times python
}

record_times() { # SIDE
    record user_s "$1" "$user_s"
    record system_s "$1" "$system_s"
    record wall_s "$1" "$wall_s"
}

why_no_compilebench() {
    local needed_kib=$((trees * 1400000 + 2000000)) available_kib
    available_kib=$(df --output=avail "$dir" | tail -n 1)
    if [[ -z ${COMPILEBENCH:-} ]]; then
        echo 'COMPILEBENCH does not name an upstream script'
    elif [[ ! -r $COMPILEBENCH ]]; then
        echo "$COMPILEBENCH cannot be read"
    elif [[ ! -r $datasets/dataset-unpatched ]]; then
        echo "no datasets in $datasets; set COMPILEBENCH_DATASETS"
    elif ! command -v "$python" >/dev/null; then
        echo "no $python; set PYTHON"
    elif ((available_kib < needed_kib)); then
        echo "$dir has $((available_kib / 1024)) MiB free, $((needed_kib / 1024)) MiB are needed"
    fi
}

suite_compilebench() {
    local compilebench_rounds=$(((rounds + 1) / 2))
    local reason round bytes_per_side=$((trees * 240000000))
    datasets=${COMPILEBENCH_DATASETS:-$(dirname "${COMPILEBENCH:-.}")}
    reason=$(why_no_compilebench)
    if [[ $reason ]]; then
        echo "skipped: compilebench: $reason"
        return
    fi
    datasets=$(cd "$datasets" && pwd)
    # Past any wrapper that chooses between versions: its start is not compilebench's cost.
    python=$("$python" -c 'import sys; print(sys.executable)')
    for ((round = 1; round <= compilebench_rounds; round++)); do
        interleave "$round" ours_compilebench python_compilebench
    done
    echo >&2
    printf 'compilebench: -i %d -r %d --no-sync, original datasets, medians of %d interleaved rounds\n' \
        "$trees" "$runs" "$compilebench_rounds"
    row '' fsdyno peer ratio wanted
    compare 'user CPU, s, Python original' user_s python max 0.125
    compare 'whole run wall, s, Python original' wall_s python max 0.7
    compare 'system CPU, s, Python original' system_s python max none
}
