# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are those of bench/run
# postmark beside PostMark 1.53 with the same parameters. PostMark counts whole seconds, so
# the time of its whole process is taken, which is that of its phases and 2 ms. Read by
# bench/run.

postmark_number=20000
postmark_subdirectories=10

run_our_postmark() {
    measure_workload "postmark:mode=original,payload=original,number=$postmark_number,transactions=$transactions,subdirectories=$postmark_subdirectories"
    local total_ns
    total_ns=$(jq '[.trials[0].phases[].elapsed_return_ns] | add' "$scratch/out")
    record transactions fsdyno "$(per_second "$transactions" "$total_ns")"
}

run_postmark() {
    measure postmark <<END
set location $scratch/work
set number $postmark_number
set transactions $transactions
set subdirectories $postmark_subdirectories
run
quit
END
    record transactions postmark "$(awk -v n="$transactions" -v t="$wall_s" 'BEGIN { print n / t }')"
}

suite_postmark() {
    if is_missing postmark; then return; fi
    local bytes_per_side=$((postmark_number * 20000))
    if ((transactions < postmark_number)); then postmark_number=$transactions; fi
    run_rounds our_postmark postmark
    printf 'postmark: %d files, %d transactions, medians of %d interleaved rounds\n' \
        "$postmark_number" "$transactions" "$rounds"
    row '' fsdyno peer ratio wanted
    compare 'transactions per s, PostMark' transactions postmark min 1
}
