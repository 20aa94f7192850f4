#!/usr/bin/env bash
# What would it be worth to know a phase again? A program of 300 MiB uses one half of its memory for 2 s, then the other,
# six times, within 180 MiB, so that what a phase needs has room but is out when it begins. `foretold`: somebody who
# knows asks the kernel for all of it (`MADV_WILLNEED`) 20 ms after the phase began, or 250 ms, which is when a walk would
# show it. Strata knows no phase again; this is what could be had if it did. Rounds of all in turns (BENCH_RUNS, 3).
source "$(dirname "$0")/lib.sh"
runs=${BENCH_RUNS:-3} phases=6

echo "| swap | who reclaims | foretold after, ms | 1000 operations/s: min / median / max | major faults |"
echo "|---|---|---:|---:|---:|"
for swap in zram:1G "file:$target_dir/bench.swap:1G"; do
    for ((run = 0; run < runs; run++)); do
        for case in none, auto, auto,20 auto,250; do
            how=(--actuator auto) when=()
            [ "${case%,*}" != none ] || how=(--policy none)
            [ -z "${case#*,}" ] || when=(--foretold-ms "${case#*,}")
            "$strata" run --quiet --memory 180M --swap "$swap" "${how[@]}" -- \
                "$programs/sets" --phases $phases "${when[@]}" >"$work/out" 2>"$work/errors" ||
                continue
            echo "$(field ops_per_s "$work/out") $(field major_faults "$work/out")" >>"$work/$case"
        done
    done
    for case in none, auto, auto,20 auto,250; do
        [ -e "$work/$case" ] || { echo "| ${swap%%:*} | ${case%,*} | ${case#*,} | killed or failed, $runs times | |"; continue; }
        sort -n "$work/$case" | awk -v swap="${swap%%:*}" -v who="${case%,*}" -v when="${case#*,}" '
            {speed[NR] = $1 / 1000; faults[NR] = $2}
            END {
                middle = int((NR + 1) / 2)
                printf "| %s | %s | %s | %.0f / %.0f / %.0f | %d |\n", swap, who, when == "" ? "never" : when,
                    speed[1], speed[middle], speed[NR], faults[middle]
            }'
        rm "$work/$case"
    done
done
