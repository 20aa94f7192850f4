#!/usr/bin/env bash
# How fast is a program under its budget? zipf over 300 MiB of single pages with 180 MiB, the kernel's
# limit alone against Strata, in turns, with the other processors free and with a busy loop on each.
# Operations a second of wall time (minimum, median, maximum) and of CPU time (median; program, Strata
# and what the kernel does in their name), and major faults per 1000 operations (median). The kernel
# alone has the whole budget; Strata keeps usage one to two percent below it, so the comparison favours
# the kernel. A run that the kernel ended by its OOM killer counts as none and is told.
# BENCH_SECONDS is the length of a run, BENCH_RUNS their number.
source "$(dirname "$0")/lib.sh"
seconds=${BENCH_SECONDS:-8} runs=${BENCH_RUNS:-3}
processors=$(nproc) spinners=()

spin() {
    for ((i = 0; i < processors; i++)); do
        (while :; do :; done) &
        spinners+=($!)
    done
}
rest() {
    [ ${#spinners[@]} = 0 ] || kill "${spinners[@]}"
    [ ${#spinners[@]} = 0 ] || wait "${spinners[@]}" 2>/dev/null || true
    spinners=()
}
trap 'rest; rm -rf "$work"' EXIT

one() { # load's name, who reclaims
    local how=(--actuator "$2") cpu status=0 ops
    [ "$2" != none ] || how=(--policy none)
    TIMEFORMAT='%U %S'
    cpu=$({ time "$strata" run --quiet --memory 180M --swap zram:1G "${how[@]}" -- \
        "$programs/zipf" --size 300M --threads 1 --seconds "$seconds" ${loads[$1]} >"$work/zipf" 2>/dev/null; } 2>&1) || status=$?
    [ $status = 0 ] || { echo killed >>"$work/$1.$2.killed"; return 0; }
    ops=$(field ops "$work/zipf")
    awk -v ops="$ops" -v speed="$(field ops_per_s "$work/zipf")" -v faults="$(field major_faults "$work/zipf")" \
        '{printf "%.0f %.0f %.1f\n", speed / 1000, ops / ($1 + $2) / 1000, 1000 * faults / ops}' \
        <<<"$cpu" >>"$work/$1.$2"
}

spread() { # column of a file: minimum / median / maximum
    awk -v column="$2" '{print $column}' "$1" | sort -n |
        awk '{v[NR] = $1} END {print v[1] " / " v[int((NR + 1) / 2)] " / " v[NR]}'
}
column_median() { awk -v column="$2" '{print $column}' "$1" | sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

declare -A loads=(
    ["zipf 0.99"]="--theta 0.99" ["zipf 1.2"]="--theta 1.2"
    ["zipf 0.99 and scans"]="--theta 0.99 --scan-pages 1800 --scan-every 100000"
)
echo "| processors | load | who reclaims | 1000 operations/s: min / median / max | to the kernel alone | 1000 operations/CPU s | faults per 1000 | killed |"
echo "|---|---|---|---:|---:|---:|---:|---:|"
for crowd in free busy; do
    [ $crowd = free ] || spin
    for load in "zipf 0.99" "zipf 1.2" "zipf 0.99 and scans"; do
        for ((run = 0; run < runs; run++)); do
            for who in none auto reclaim pageout; do one "$load" $who; done
        done
        for who in none auto reclaim pageout; do
            touch "$work/$load.$who.killed"
            killed=$(wc -l <"$work/$load.$who.killed")
            if [ -e "$work/$load.$who" ]; then
                ratio=-
                [ ! -e "$work/$load.none" ] || ratio=$(awk -v a="$(column_median "$work/$load.$who" 1)" -v b="$(column_median "$work/$load.none" 1)" 'BEGIN {printf "%.2f", a / b}')
                echo "| $crowd | $load | $who | $(spread "$work/$load.$who" 1) | $ratio | $(column_median "$work/$load.$who" 2) | $(column_median "$work/$load.$who" 3) | $killed |"
            else
                echo "| $crowd | $load | $who | - | - | - | - | $killed |"
            fi
        done
        rm -f "$work/$load".*
    done
done
rest
echo
echo "\`none\`: only the kernel's limit, at the budget of 180 MiB; $runs runs of $seconds s each, in turns."
