# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are those of bench/run
# small-files beside a bare C loop with the same calls, and beside fs_mark -S 0 with one
# process and the same number and size of files. Read by bench/run.

run_fsdyno() {
    measure_workload "small-files:files=$files,size=$payload,directories=1,cold=none"
    local phase elapsed_ns total_ns=0
    while read -r phase elapsed_ns; do
        record "$phase" fsdyno "$(per_file "$elapsed_ns")"
        total_ns=$((total_ns + elapsed_ns))
        if [[ $phase == create ]]; then
            record files_per_s fsdyno "$(awk -v n="$files" -v t="$elapsed_ns" 'BEGIN { print n / t * 1e9 }')"
        fi
    done < <(phases_of_trial)
    ((total_ns > 0)) || fail "no phase create, stat, read or delete in the result of fsdyno"
    record total fsdyno "$(per_file "$total_ns")"
}

# Prints `PHASE ELAPSED_NS` of the four phases that the C loop has too.
phases_of_trial() {
    jq -r '.trials[0]
        | if .outcome == "completed" then . else error("the trial did not complete: \(.)") end
        | .phases[]
        | select(.name | IN("create", "stat", "read", "delete"))
        | "\(.name) \(.elapsed_return_ns)"' "$scratch/out"
}

run_bare_c() {
    measure "$scratch/bare_loop" "$scratch/work" "$files" "$file_bytes"
    local phase elapsed_ns total_ns=0
    while read -r phase elapsed_ns; do
        record "$phase" bare_c "$(per_file "$elapsed_ns")"
        total_ns=$((total_ns + elapsed_ns))
    done <"$scratch/out"
    record total bare_c "$(per_file "$total_ns")"
}

run_fs_mark() {
    # It takes no long names of directories.
    measure env -C "$scratch" fs_mark -S 0 -s "$file_bytes" -n "$files" -L 1 -d work -l fs_mark.log
    # The last row: FSUse%, Count, Size, Files/sec, App Overhead.
    record files_per_s fs_mark "$(awk 'NF == 5 && $2 ~ /^[0-9]+$/ { rate = $4 } END { print rate }' "$scratch/out")"
}

per_file() { awk -v n="$files" -v t="$1" 'BEGIN { print t / n }'; }

suite_small_files() {
    local sides=(fsdyno) round skipped_c='' skipped_fs_mark='' phase
    # Data, and about 1.4 KiB of inode, directory entry and page cache index.
    local bytes_per_side=$((files * (file_bytes + 1400)))
    if ! command -v cc >/dev/null; then
        skipped_c='no C compiler; run: scripts/bootstrap bench'
    else
        cc -O2 -o "$scratch/bare_loop" "$here/bare_loop.c"
        sides+=(bare_c)
    fi
    if ! command -v fs_mark >/dev/null; then
        skipped_fs_mark='no fs_mark; run: scripts/bootstrap bench'
    else
        sides+=(fs_mark)
    fi
    for ((round = 1; round <= rounds; round++)); do interleave "$round" "${sides[@]}"; done
    echo >&2

    printf 'small-files: %d files of %s, one directory, medians of %d interleaved rounds\n' "$files" "$payload" "$rounds"
    row '' fsdyno peer ratio wanted
    for phase in create stat read delete total; do
        if [[ $skipped_c ]]; then break; fi
        compare "$phase, ns per file, bare C" "$phase" bare_c max 1.05
    done
    if [[ $skipped_c ]]; then echo "skipped: bare C: $skipped_c"; fi
    if [[ $skipped_fs_mark ]]; then
        echo "skipped: fs_mark: $skipped_fs_mark"
    else
        compare 'create, files per s, fs_mark' files_per_s fs_mark min 1
    fi
}
