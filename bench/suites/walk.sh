# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are those of bench/run
# The walks of million-files beside find(1) and tar(1), over files that are in the page
# cache. tar writes its archive into a pipe: into /dev/null it would not read the files.
# Read by bench/run.

run_our_walk() {
    measure_workload "million-files:files=$files,size=$payload,operations=create+list+find+read-tar,cold=none"
    local phase
    for phase in list find read-tar; do record "$phase" fsdyno "$(per_file "$(phase_ns "$phase")")"; done
}

run_programs() {
    "$scratch/bare_loop" "$scratch/work" "$files" "$file_bytes" create >/dev/null
    measure find "$scratch/work"
    record list programs "$(wall_per_file)"
    measure find "$scratch/work" -newermt 2100-01-01
    record find programs "$(wall_per_file)"
    # shellcheck disable=SC2016 # expanded by the inner shell
    measure bash -c 'tar -cf - -C "$1" . | cat >/dev/null' - "$scratch/work"
    record read-tar programs "$(wall_per_file)"
}

wall_per_file() { awk -v n="$files" -v t="$wall_s" 'BEGIN { print t / n * 1e9 }'; }

suite_walk() {
    if is_missing cc; then return; fi
    local bytes_per_side=$((files * (file_bytes + 1400)))
    cc -O2 -o "$scratch/bare_loop" "$here/bare_loop.c"
    run_rounds our_walk programs
    printf 'million-files: walks over %d files of %s, medians of %d interleaved rounds\n' "$files" "$payload" "$rounds"
    row '' fsdyno peer ratio wanted
    compare 'list, ns per file, find' list programs max 1
    compare 'find, ns per file, find -newermt' find programs max 1
    compare 'read-tar, ns per file, tar' read-tar programs max 1
}
