# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are those of bench/run
# Extraction by web-cache beside GNU tar, from one archive in four forms. Read by bench/run.

# FORM OPTION-OF-TAR
archive_forms() {
    printf '%s\n' 'tar' 'tar.gz gzip' 'tar.zst zstd' 'tar.xz xz'
}

run_our_archive() {
    local form program
    while read -r form program; do
        fresh_directory
        measure_workload "web-cache:archive=$outer/archive.$form,cold=none"
        record "$form" fsdyno "$(awk -v t="$(phase_ns extract)" 'BEGIN { print t / 1e9 }')"
    done < <(archive_forms)
}

run_tar() {
    local form program
    while read -r form program; do
        fresh_directory
        measure tar -xf "$outer/archive.$form" -C "$scratch/work"
        record "$form" tar "$wall_s"
    done < <(archive_forms)
}

suite_archive() {
    if is_missing tar || is_missing zstd || is_missing xz; then return; fi
    local bytes_per_side=$((archive_mib * 1200000)) form program
    local rounds=$(((rounds + 1) / 2))
    fresh_directory
    # The archive of the workload itself, as it makes it.
    measure_workload "web-cache:size=${archive_mib}MiB,cold=none"
    mv "$(find "$XDG_CACHE_HOME" -name '*.tar')" "$outer/archive.tar"
    gzip -1 <"$outer/archive.tar" >"$outer/archive.tar.gz"
    zstd -q <"$outer/archive.tar" >"$outer/archive.tar.zst"
    xz -0 <"$outer/archive.tar" >"$outer/archive.tar.xz"
    run_rounds our_archive tar
    printf 'web-cache: extraction of %d MiB, medians of %d interleaved rounds\n' "$archive_mib" "$rounds"
    row '' fsdyno peer ratio wanted
    while read -r form program; do
        compare ".$form, s, GNU tar" "$form" tar max 1
    done < <(archive_forms)
}
