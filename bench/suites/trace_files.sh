# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are those of bench/run
# Reading the files of blktrace beside blkparse, and the cost of our own form. Read by bench/run.

# What the example printed last under a name.
printed() { awk -v name="$1" '$1 == name { print $2 }' "$scratch/out"; }

# Both sides read the same files, and the page cache has them. Each gives its totals at the end:
# blkparse with an empty format prints no events, only its summary.
run_our_trace_reader() {
    measure "$trace_convert" "$outer/trace" count
    record read fsdyno "$(awk -v n="$trace_events" -v t="$wall_s" 'BEGIN { print n / t }')"
    record cpu fsdyno "$(awk -v u="$user_s" -v s="$system_s" 'BEGIN { print u + s }')"
    record decode fsdyno "$(printed read_events_per_s)"
}

# All that `fsdyno trace` finds out of it, as figures.
run_our_analysis() {
    measure "$fsdyno" trace "$outer/trace" --json --quiet
    record analysis fsdyno "$(awk -v n="$trace_events" -v t="$wall_s" 'BEGIN { print n / t }')"
}

run_blkparse() {
    measure blkparse -D "$outer" -i trace -f ''
    record read blkparse "$(awk -v n="$trace_events" -v t="$wall_s" 'BEGIN { print n / t }')"
    record analysis blkparse "$(awk -v n="$trace_events" -v t="$wall_s" 'BEGIN { print n / t }')"
    record cpu blkparse "$(awk -v u="$user_s" -v s="$system_s" 'BEGIN { print u + s }')"
    grep -q "^Events (trace): *$trace_events entries" "$scratch/out" ||
        fail "blkparse did not see $trace_events events: $(grep '^Events' "$scratch/out")"
}

run_blkparse_lines() {
    measure blkparse -D "$outer" -i trace
    record read lines "$(awk -v n="$trace_events" -v t="$wall_s" 'BEGIN { print n / t }')"
    record analysis lines "$(awk -v n="$trace_events" -v t="$wall_s" 'BEGIN { print n / t }')"
}

run_our_form() {
    rm -f "$outer/trace.fstrace"
    measure "$trace_convert" "$outer/trace" "stored:$outer/trace.fstrace"
    record write fsdyno "$(printed write_events_per_s)"
    record size fsdyno "$(awk -v n="$trace_events" -v b="$(stat -c %s "$outer/trace.fstrace")" 'BEGIN { print b / n }')"
    measure "$trace_convert" "$outer/trace.fstrace" count
    record stored fsdyno "$(printed read_events_per_s)"
}

# A figure of ours that has no peer. SENSE and BOUND as of `compare`.
alone() { # TEXT ITEM SENSE BOUND
    awk -v text="$1" -v ours="$(median "$2" fsdyno)" -v sense="$3" -v bound="$4" 'BEGIN {
        met = sense == "max" ? ours <= bound : ours >= bound
        wanted = (sense == "max" ? "<= " : ">= ") sprintf("%d", bound) (met ? " met" : " MISSED")
        printf "%-34s %12s %12s %8s  %s\n", text, sprintf(ours < 100 ? "%.3f" : "%.0f", ours), "-", "-", wanted
    }'
}

suite_trace_files() {
    if is_missing blkparse; then return; fi
    local trace_convert=${TRACE_CONVERT:-$(dirname "$fsdyno")/examples/trace_convert}
    if [[ ! -x $trace_convert ]]; then
        echo "skipped: $trace_convert: not built; run: cargo build --release -p fsdyno-trace --example trace_convert"
        return
    fi
    local bytes_per_side=0 rounds=$(((rounds + 1) / 2))
    fresh_directory
    measure "$trace_convert" "synthetic:$trace_events" "blktrace:$outer/trace:2"
    run_rounds our_trace_reader blkparse our_analysis our_form
    run_blkparse_lines
    rm -f "$outer"/trace.*
    printf 'block traces: %d events of two processors, medians of %d interleaved rounds\n' "$trace_events" "$rounds"
    row '' fsdyno peer ratio wanted
    compare 'events/s, blkparse, summary only' read blkparse min 20
    compare 'CPU s, blkparse, summary only' cpu blkparse max 0.05
    compare 'events/s, blkparse, all lines' read lines min 20
    compare 'analysed/s, blkparse, summary only' analysis blkparse min 20
    compare 'analysed/s, blkparse, all lines' analysis lines min 20
    alone 'decoded events/s' decode min 20000000
    alone 'own form, events written/s' write min 5000000
    alone 'own form, events read/s' stored min 20000000
    alone 'own form, bytes/event' size max 8
}
