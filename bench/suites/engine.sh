# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # variables are those of bench/run
# The engine of workloads that are data on calls that do nothing: what two jobs do against one, and beside
# that what two threads do that share nothing at all, since a machine whose processors are shared with
# others gives less than twice as much to anybody. Read by bench/run.

suite_engine() {
    local scaling=${ENGINE_SCALING:-$here/../target/release/examples/engine_scaling} item one two
    if [[ ! -x $scaling ]]; then
        echo "skipped: $scaling does not exist; run: cargo build --release -p fsdyno-workload --example engine_scaling"
        return
    fi
    printf 'engine: tasks on null calls, two jobs against one, the best of rounds in one run\n'
    row '' '2 jobs' '1 job' ratio wanted
    while read -r item one two; do
        record "$item" fsdyno "$two"
        record "$item" single "$one"
        if [[ $item == arithmetic ]]; then
            compare "arithmetic, rounds/s" "$item" single min none
        else
            compare "$item, tasks/s" "$item" single min 1.8
        fi
    done < <("$scaling")
}
