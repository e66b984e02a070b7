# shellcheck shell=bash
# shellcheck disable=SC2154 # variables are those of bench/run
# Whether figures in virtual time rank filesystems as this machine's clock does: the same workloads on the same
# filesystems, natively and in guests, in memory and on the same emulated disk. Read by bench/run.

# What both sides run; large enough for times that a host's clock tells apart, small enough for an emulator.
virtual_workloads=(
    'million-files:files=2000'
    'postmark:number=1000,transactions=1000'
    'compilebench:trees=2,runs=6,one_in=20'
)
# Natively closer than this counts as no order.
readonly virtual_tie=1.05

# Sets nothing: leaves the result document in $outer/SIDE.json.
run_ranked() { # SIDE SUFFIX ARGUMENTS...
    local side=$1 suffix=$2 workloads=() workload
    shift 2
    for workload in "${virtual_workloads[@]}"; do workloads+=(--workload "$workload"); done
    "$fsdyno" compare "${virtual_filesystems[@]/%/$suffix}" "${workloads[@]}" --size 1GiB --quiet --trace none \
        --no-yardstick --json "$outer/$side.json" "$@" >"$outer/$side.out" 2>&1 ||
        fail "exit code $? from the side $side: $(tail -n 5 "$outer/$side.out")"
}

# Times of phases by workload, phase and filesystem: medians over the trials.
phase_times() { # SIDE
    jq '[.trials[] | select(.outcome == "completed") | (.target | split("@")[0]) as $target | .workload as $workload |
        .phases[] | select(.name | IN("mkfs", "fsck", "mount", "unmount") | not) |
        {key: ($workload + " " + .name), $target, ns: (.elapsed_durable_ns // .elapsed_return_ns)}] |
        group_by(.key) | map({key: .[0].key, value: (group_by(.target) |
            map({key: .[0].target, value: (map(.ns) | sort | .[(length - 1) / 2 | floor])}) | from_entries)}) |
        from_entries' "$outer/$1.json"
}

# For each phase the pairs that this machine's clock orders, and how many virtual time orders alike.
print_ranks() { # TEXT NATIVE VIRTUAL
    printf '%s\n%-44s %8s %8s %8s\n' "$1" 'workload and phase' pairs alike tau
    jq -rn --argjson tie "$virtual_tie" --argjson native "$(phase_times "$2")" --argjson virtual "$(phase_times "$3")" '
        def order($a; $b; $tie): if $a > $b * $tie then 1 elif $b > $a * $tie then -1 else 0 end;
        [$native | to_entries[] | .key as $key | .value as $times | ($virtual[$key] // {}) as $others |
            [$times | keys[]] as $names |
            [range($names | length) as $i | range($i + 1; $names | length) as $j |
                [order($times[$names[$i]]; $times[$names[$j]]; $tie),
                 order($others[$names[$i]] // 0; $others[$names[$j]] // 0; 1)] | select(.[0] != 0)] |
            {$key, pairs: length, alike: (map(select(.[0] == .[1])) | length),
             against: (map(select(.[0] == -.[1])) | length)}] |
        . + [{key: "all", pairs: (map(.pairs) | add), alike: (map(.alike) | add), against: (map(.against) | add)}] |
        .[] | [.key, .pairs, .alike, (if .pairs > 0 then (.alike - .against) / .pairs * 100 | round / 100 else "-" end)] | @tsv' |
        awk -F '\t' '{ printf "%-44s %8s %8s %8s\n", $1, $2, $3, $4 }'
}

suite_virtual_time() {
    if is_missing qemu-system-x86_64; then return; fi
    if ((EUID != 0)) || ((${#virtual_filesystems[@]} == 0)); then
        echo 'skipped: virtual time beside native time needs root, and more than --smoke'
        return
    fi
    run_ranked native '' --trials "$rounds" --dir "$outer"
    run_ranked virtual '' --clock virtual --dir "$outer"
    print_ranks "in memory: pairs that differ by over 5 % natively, medians of $rounds trials" native virtual
    run_ranked native_disk @disk:hdd-7200-2007 --trials 1 --dir "$outer"
    run_ranked virtual_disk @disk:hdd-7200-2007 --clock virtual --dir "$outer"
    print_ranks 'on hdd-7200-2007: one trial natively' native_disk virtual_disk
}
