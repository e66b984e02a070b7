# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are those of bench/run
# bonnie beside bonnie++ 2.00: the same size, chunk, number of files and order of phases, each at the
# rates that bonnie++ itself prints. It prints none for what took it less than half a
# second. Read by bench/run.

# PHASE FIELD-OF-THE-CSV UNITS-PER-SECOND-OF
bonnie_phases() {
    cat <<END
write-char 10 kib_per_char
write-block 12 kib
rewrite 14 kib
read-char 16 kib_per_char
read-block 18 kib
seeks 20 seeks
create-sequential 27 files
stat-sequential 29 files
delete-sequential 31 files
create-random 33 files
stat-random 35 files
delete-random 37 files
END
}

run_our_bonnie() {
    measure_workload "bonnie:mode=original,payload=original,ram=0,size=${bonnie_mib}MiB,files=$bonnie_files,cold=none"
    local phase field of count
    while read -r phase field of; do
        case $of in
            kib) count=$((bonnie_mib * 1024)) ;;
            kib_per_char) count=3072 ;;
            seeks) count=8192 ;;
            files) count=$((bonnie_files * 1024)) ;;
        esac
        record "$phase" fsdyno "$(per_second "$count" "$(phase_ns "$phase")")"
    done < <(bonnie_phases)
}

run_bonnie() {
    measure bonnie++ -q -d "$scratch/work" -r 0 -s "$bonnie_mib" -n "$bonnie_files" -u root -x 1
    local line phase field of rate
    line=$(grep '^1\.9' "$scratch/out")
    while read -r phase field of; do
        rate=$(cut -d, -f "$field" <<<"$line")
        if [[ $rate =~ ^[0-9.]+$ ]]; then record "$phase" bonnie "$rate"; fi
    done < <(bonnie_phases)
}

suite_bonnie() {
    if is_missing bonnie++; then return; fi
    local bytes_per_side=$((bonnie_mib * 1100000 + bonnie_files * 1500000)) phase field of
    local rounds=$(((rounds + 1) / 2))
    run_rounds our_bonnie bonnie
    printf 'bonnie: %d MiB, %d files, medians of %d interleaved rounds\n' \
        "$bonnie_mib" "$((bonnie_files * 1024))" "$rounds"
    row '' fsdyno peer ratio wanted
    while read -r phase field of; do
        if [[ $(median "$phase" bonnie) ]]; then
            compare "$phase, ${of%_per_char} per s, bonnie++" "$phase" bonnie min 1
        else
            row "$phase, bonnie++" "$(median "$phase" fsdyno)" +++++ - 'too fast for bonnie++ to tell'
        fi
    done < <(bonnie_phases)
}
