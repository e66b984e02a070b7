# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are those of bench/run
# What a block trace costs while it is taken: fio on a loop device over memory, with a trace and without, as
# fast as it goes and at a steady rate. Read by bench/run.

# Random writes of 4 KiB, 32 at once, in $capture_seconds. Sets `iops`, and `request_us`, the
# processor time that a request took of fio and of the kernel's workers.
write_blocks() { # EXTRA...
    local workers_from_ns
    workers_from_ns=$(workers_ns)
    measure fio --name=writes --filename="$capture_device" --rw=randwrite --bs=4k --direct=1 \
        --ioengine=libaio --iodepth=32 --time_based --runtime="$capture_seconds" \
        --output-format=json "$@"
    writes=$(jq -er '.jobs[0].write.total_ios' "$scratch/out")
    iops=$(jq -er '.jobs[0].write.iops' "$scratch/out")
    request_us=$(awk -v u="$user_s" -v s="$system_s" -v w=$(($(workers_ns) - workers_from_ns)) -v n="$writes" \
        'BEGIN { print ((u + s) * 1e6 + w / 1e3) / n }')
}

# Processor time of the kernel's workers so far: one of them serves the loop device.
workers_ns() {
    local comm name ns rest sum=0
    for comm in /proc/[0-9]*/comm; do
        if { read -r name <"$comm" && [[ $name == kworker/* ]] && read -r ns rest <"${comm%comm}schedstat"; } 2>/dev/null; then
            sum=$((sum + ns))
        fi
    done
    echo "$sum"
}

record_writes() { # SIDE
    record "rate_$1" "$2" "$iops"
    record "cpu_us_$1" "$2" "$request_us"
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

# What each of the three events of a request takes, from medians: of time, and of the processors, the reader's
# part included.
per_event() { # TEXT WITH WITHOUT READER_NS BOUND
    awk -v text="$1" -v with="$2" -v without="$3" -v reader_ns="$4" -v bound="$5" 'BEGIN {
        us = (with - without) / 3 + reader_ns / 1e3
        printf "%-34s %12.3f %12s %8s  <= %s%s\n", text, us, "-", "-", bound, us <= bound ? " met" : " MISSED"
    }'
}

inverse() { awk -v rate="$1" 'BEGIN { print 1e6 / rate }'; }

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
    local bytes_per_side=0 capture_device traced writes iops request_us
    truncate -s 256M "$outer/capture.img"
    capture_device=$(losetup --find --show --direct-io=on "$outer/capture.img")
    run_rounds untraced fsdyno_trace
    losetup -d "$capture_device"
    rm "$outer/capture.img"
    printf 'capture: fio writes blocks of 4 KiB at random places for %d s, medians of %d interleaved rounds\n' \
        "$capture_seconds" "$rounds"
    row '' traced untraced ratio wanted
    compare 'full speed, requests/s' rate_full untraced min 0.83
    per_event 'full speed, time per event, us' "$(inverse "$(median rate_full fsdyno)")" \
        "$(inverse "$(median rate_full untraced)")" 0 0.35
    per_event 'full speed, CPU per event, us' "$(median cpu_us_full fsdyno)" \
        "$(median cpu_us_full untraced)" "$(median reader_full fsdyno)" 0.35
    compare '20000/s, requests/s' rate_steady untraced min 0.99
    compare '20000/s, CPU per request, us' cpu_us_steady untraced max none
    figure 'full speed, events' events_full -
    figure 'full speed, events lost' lost_full 0
    figure '20000/s, events lost' lost_steady 0
    figure 'full speed, reader ns per event' reader_full -
    figure '20000/s, reader ns per event' reader_steady -
}
