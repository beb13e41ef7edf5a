#!/bin/sh
# fuzz.sh SECONDS TARGET... - runs each libFuzzer target for SECONDS, two at a time and with low priority, and prints a
# line for each: runs, coverage (edges), findings. Inputs that reached new code are kept in build/fuzz/corpus/TARGET,
# where the next run starts; a finding is build/fuzz/TARGET/*, its report build/fuzz/TARGET.log. Exit 1: there is one.
dir=build/fuzz
limits='-timeout=20 -rss_limit_mb=1500 -malloc_limit_mb=300 -close_fd_mask=1'

# The findings that happen again: a machine that stands still for a while makes a timeout of any input.
keep_real() {
    for input in "$dir/$1"/*; do
        [ -f "$input" ] || continue
        "$dir/tests/libfuzzer_$1" $limits "$input" >/dev/null 2>&1 && rm -f "$input"
    done
}

one() {
    seconds=$1 target=$2 runs=0
    end=$(($(date +%s) + seconds))
    mkdir -p "$dir/$target" "$dir/corpus/$target"
    rm -f "$dir/$target"/*
    : >"$dir/$target.log"
    while left=$((end - $(date +%s))) && [ "$left" -gt 0 ]; do
        nice -n 10 "$dir/tests/libfuzzer_$target" $limits -max_total_time="$left" -report_slow_units=1000 -print_final_stats=1 \
            -artifact_prefix="$dir/$target/" "$dir/corpus/$target" "tests/fuzz/corpus/$target" >"$dir/$target.part" 2>&1
        status=$?
        done=$(sed -n 's/^stat::number_of_executed_units: *//p' "$dir/$target.part")
        runs=$((runs + ${done:-0}))
        cat "$dir/$target.part" >>"$dir/$target.log"
        [ "$status" -eq 0 ] && continue
        keep_real "$target"
        [ -z "$(ls "$dir/$target")" ] || break
    done
    edges=$(grep -o 'cov: [0-9]*' "$dir/$target.log" | tail -1)
    found=$(ls "$dir/$target" | wc -l)
    rm -f "$dir/$target.part"
    echo "$target: $runs runs, ${edges#cov: } edges, $found findings"
    [ "$found" -eq 0 ]
}

case $1 in
--one) one "$2" "$3" ;;
*) seconds=$1 && shift && printf '%s\n' "$@" | xargs -P 2 -n 1 sh "$0" --one "$seconds" ;;
esac
