# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are those of bench/run
# What a block trace costs while it is taken: fio on a loop device over memory, with a trace and without, as
# fast as it goes and at a steady rate. Read by bench/run.

# Random writes of 4 KiB, 32 at once, in $capture_seconds. Sets `writes` and `iops`.
write_blocks() { # EXTRA...
    measure fio --name=writes --filename="$capture_device" --rw=randwrite --bs=4k --direct=1 \
        --ioengine=libaio --iodepth=32 --time_based --runtime="$capture_seconds" \
        --output-format=json "$@"
    writes=$(jq -er '.jobs[0].write.total_ios' "$scratch/out")
    iops=$(jq -er '.jobs[0].write.iops' "$scratch/out")
}

record_writes() { # SIDE
    record "rate_$1" "$2" "$iops"
    record "cpu_us_$1" "$2" "$(awk -v u="$user_s" -v s="$system_s" -v n="$writes" 'BEGIN { print (u + s) / n * 1e6 }')"
}

run_untraced() {
    write_blocks
    record_writes full untraced
    write_blocks --rate_iops=20000
    record_writes steady untraced
}

run_fsdyno_trace() {
    write_blocks_traced
    record_writes full fsdyno
    record_trace full
    write_blocks_traced --rate_iops=20000
    record_writes steady fsdyno
    record_trace steady
}

write_blocks_traced() { # EXTRA...
    local answer=''
    rm -f "$scratch/writes.fstrace"
    coproc tracer { exec "$trace_cost" "$capture_device" "$scratch/writes.fstrace"; }
    local pid=$tracer_PID from=${tracer[0]} to=${tracer[1]}
    read -r answer <&"$from" || true
    [[ $answer == ready ]] || fail "$trace_cost did not begin"
    write_blocks "$@"
    exec {to}>&-
    read -r traced <&"$from" || fail "$trace_cost did not end well"
    wait "$pid" || fail "$trace_cost did not end well"
}

record_trace() { # WHICH
    local of
    of() { jq -er ".$1" <<<"$traced"; }
    record "lost_$1" fsdyno "$(of lost)"
    record "events_$1" fsdyno "$(of events)"
    record "reader_$1" fsdyno "$(of '| .reader_ns / .events')"
}

# Medians of a figure of both sides, as one line: what a traced request takes more, by each of its three events.
per_event() { # TEXT BOUND
    awk -v text="$1" -v bound="$2" -v with="$(median rate_full fsdyno)" -v without="$(median rate_full untraced)" 'BEGIN {
        us = (1e6 / with - 1e6 / without) / 3
        printf "%-34s %12.3f %12s %8s  <= %s%s\n", text, us, "-", "-", bound, us <= bound ? " met" : " MISSED"
    }'
}

figure() { # TEXT ITEM WANTED
    printf '%-34s %12.1f %12s %8s  %s\n' "$1" "$(median "$2" fsdyno)" - - "$3"
}

suite_trace_capture() {
    if is_missing fio; then return; fi
    local trace_cost=${TRACE_COST:-$(dirname "$fsdyno")/examples/trace_cost}
    if [[ ! -x $trace_cost ]]; then
        echo "skipped: $trace_cost: not built; run: cargo build --release -p fsdyno-trace --example trace_cost"
        return
    fi
    if ((EUID != 0)) || [[ $ext4 ]]; then
        echo 'skipped: needs root, and memory rather than --ext4'
        return
    fi
    local bytes_per_side=0 capture_device traced writes iops
    truncate -s 256M "$outer/capture.img"
    capture_device=$(losetup --find --show --direct-io=on "$outer/capture.img")
    run_rounds untraced fsdyno_trace
    losetup -d "$capture_device"
    rm "$outer/capture.img"
    printf 'capture: fio writes blocks of 4 KiB at random places for %d s, medians of %d interleaved rounds\n' \
        "$capture_seconds" "$rounds"
    row '' traced untraced ratio wanted
    compare 'full speed, requests/s' rate_full untraced min 0.83
    per_event 'full speed, µs per event' 0.35
    compare '20000/s, requests/s' rate_steady untraced min 0.99
    compare '20000/s, CPU µs of fio a request' cpu_us_steady untraced max none
    figure 'full speed, events' events_full -
    figure 'full speed, events lost' lost_full 0
    figure '20000/s, events lost' lost_steady 0
    figure 'full speed, reader ns per event' reader_full -
    figure '20000/s, reader ns per event' reader_steady -
}
