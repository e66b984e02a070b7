# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are those of bench/run
# fs-mark beside fs_mark with 1 and 4 processes, without syncing and with an fsync for each file, and
# with the same number and size of files. Both sides give the sum of the rates of their jobs. Read by
# bench/run.

# The method of syncing and the number of jobs of what is under way.
fs_mark_method=0 fs_mark_jobs=1
fs_mark_size=16384

# Files of each job: fewer where each of them waits for the device.
fs_mark_files() {
    local all=$((files / 4))
    if [[ $ext4 ]] && ((fs_mark_method > 0)); then all=$((files / 40)); fi
    echo $((all / fs_mark_jobs))
}

run_our_fs_mark() {
    measure_workload "fs-mark:mode=original,payload=original,sync_method=$fs_mark_method,numjobs=$fs_mark_jobs,files=$(fs_mark_files),size=$fs_mark_size,keep=true"
    record "files_$fs_mark_method-$fs_mark_jobs" fsdyno "$(jq -er \
        '.trials[0].phases[] | select(.name == "create") | .values.jobs_files_per_s' "$scratch/out")"
}

run_their_fs_mark() {
    # It takes no long names of directories.
    measure env -C "$scratch" fs_mark -S "$fs_mark_method" -t "$fs_mark_jobs" -n "$(fs_mark_files)" \
        -s "$fs_mark_size" -L 1 -d work -l fs_mark.log
    # The last row: FSUse%, Count, Size, Files/sec, App Overhead.
    record "files_$fs_mark_method-$fs_mark_jobs" fs_mark \
        "$(awk 'NF == 5 && $2 ~ /^[0-9]+$/ { rate = $4 } END { print rate }' "$scratch/out")"
}

suite_fs_mark() {
    if is_missing fs_mark; then return; fi
    local bytes_per_side=$((files * (fs_mark_size + 1400) / 4))
    for fs_mark_method in 0 1; do
        for fs_mark_jobs in 1 4; do run_rounds our_fs_mark their_fs_mark; done
    done
    printf 'fs-mark: %d files of %d bytes, medians of %d interleaved rounds\n' \
        $((files / 4)) "$fs_mark_size" "$rounds"
    row '' fsdyno peer ratio wanted
    for fs_mark_method in 0 1; do
        for fs_mark_jobs in 1 4; do
            compare "-S $fs_mark_method -t $fs_mark_jobs, files per s, fs_mark" \
                "files_$fs_mark_method-$fs_mark_jobs" fs_mark min 1
        done
    done
}
