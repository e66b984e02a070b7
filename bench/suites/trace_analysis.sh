# shellcheck shell=bash
# shellcheck disable=SC2154 # variables are those of bench/run
# All trace passes over synthetic events, on one core: events a second, and whether memory
# grows with the trace. Read by bench/run.

suite_trace_analysis() {
    local speed round out
    speed=${TRACE_SPEED:-$(dirname "$fsdyno")/examples/trace_speed}
    if [[ ! -x $speed ]]; then
        echo "skipped: $speed: not built; run: cargo build --release -p fsdyno-analysis --example trace_speed"
        return
    fi
    for ((round = 1; round <= rounds; round++)); do
        out=$("$speed" "$trace_events")
        record analysed fsdyno "$(jq .events_per_s <<<"$out")"
        record memory short "$(jq .peak_rss_kib <<<"$out")"
    done
    record memory fsdyno "$("$speed" $((trace_events * 5)) | jq .peak_rss_kib)"
    printf 'trace passes: %d synthetic events, all passes, one core, medians of %d rounds\n' "$trace_events" "$rounds"
    row '' fsdyno peer ratio wanted
    alone 'analysed events/s' analysed min 10000000
    compare 'peak KiB, beside a fifth of it' memory short max 1.1
}
