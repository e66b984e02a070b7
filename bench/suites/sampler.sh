# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are those of bench/run
# What the sampler costs that looks at the machine ten times a second: small-files with it and without,
# and the processor time of its thread, as the kernel counts it. Read by bench/run.

run_sampled() {
    local watcher
    : >"$outer/sampler"
    watch_sampler >"$outer/sampler" &
    watcher=$!
    measure_small_files fsdyno
    wait "$watcher" || true
    local percent
    percent=$(<"$outer/sampler")
    # A run may be over before its thread was seen twice.
    if [[ $percent ]]; then record percent fsdyno "$percent"; fi
}

run_unsampled() { FSDYNO_SAMPLER=off measure_small_files unsampled; }

measure_small_files() { # SIDE
    measure_workload "small-files:files=$files,size=$payload,directories=1,cold=none"
    record elapsed_s "$1" "$(jq -er '[.trials[0].phases[].elapsed_return_ns // 0] | add / 1e9' "$scratch/out")"
    record cpu_s "$1" "$(jq -er '[.trials[0].phases[].cpu | (.app_user_ns // 0) + (.app_system_ns // 0)] | add / 1e9' "$scratch/out")"
}

# Prints what the sampler's thread burns, in percent of one processor, from its first second sight to its
# last.
watch_sampler() {
    mkfifo -m 600 "$outer/never" 2>/dev/null || true
    local runner='' thread='' ns rest from_ns='' from_us to_ns to_us tries
    for ((tries = 0; tries < 600; tries++)); do
        runner=$(pgrep -n -f "^$fsdyno runner" || true)
        if [[ $runner ]]; then
            thread=$(grep -lx sampler "/proc/$runner/task/"*/comm 2>/dev/null | head -n 1 || true)
        fi
        if [[ $thread ]]; then break; fi
        sleep 0.05
    done
    if [[ ! $thread ]]; then return; fi
    while { read -r ns rest <"${thread%comm}schedstat"; } 2>/dev/null; do
        to_ns=$ns to_us=${EPOCHREALTIME/./}
        if [[ ! $from_ns ]]; then from_ns=$to_ns from_us=$to_us; fi
        # A sleep that starts no process: the sampler would look at each.
        read -r -t 0.1 <>"$outer/never" || true
    done
    if [[ $from_ns ]] && ((to_us > from_us)); then
        awk -v ns=$((to_ns - from_ns)) -v us=$((to_us - from_us)) 'BEGIN { print ns / us / 10 }'
    fi
}

suite_sampler() {
    local bytes_per_side=$((files * (file_bytes + 1400)))
    if ! command -v pgrep >/dev/null; then
        echo 'skipped: pgrep: not installed (package procps)'
        return
    fi
    run_rounds sampled unsampled
    printf 'sampler: small-files with %d files of %s, medians of %d interleaved rounds\n' "$files" "$payload" "$rounds"
    row '' sampled without ratio wanted
    compare 'all phases, s' elapsed_s unsampled max 1.005
    compare 'processor time of the workload, s' cpu_s unsampled max 1.005
    local percent
    percent=$(median percent fsdyno)
    if [[ ! $percent ]]; then
        echo 'the thread, % of one processor: not seen for long enough: take more files'
        return
    fi
    awk -v percent="$percent" 'BEGIN {
        printf "%-34s %12.3f %12s %8s  %s\n", "the thread, % of one processor", percent, "", "",
            "<= 0.5" (percent <= 0.5 ? " met" : " MISSED")
    }'
}
