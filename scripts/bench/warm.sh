#!/usr/bin/env bash
# What is it worth at most to tell the kernel which pages of page cache are warm? A program reads 4 KiB pages of a file of 128 MiB by a Zipf
# law (0.99) in 38 MiB. Every 20,000 reads it touches 8,000 pages, or not, in turns: those that the law draws most often (the bound of
# what could be gained), or those that it saw read in most of the last 8 or 32 of such times, which is what looks at the kernel's flags could
# know if every count of reads was reset after each look. Strata does not touch page cache
# ([28](../../decisions/28-no-touches-of-page-cache.md)). `CPU` is the part of the program's CPU time that touches take; resets are not played.
# BENCH_RUNS, default 5, is the number of rounds.
source "$(dirname "$0")/lib.sh"
runs=${BENCH_RUNS:-5}
files=$(mktemp -d -p "${BENCH_DIR:-/var/tmp}")
trap 'rm -rf "$work" "$files"' EXIT
# A second read makes a page active; where the kernel keeps generations, the fifth fills its count.
touches=2
[ "$(cat /sys/kernel/mm/lru_gen/enabled 2>/dev/null || echo 0x0000)" = 0x0000 ] || touches=5

misses() { # OPTION...
    "$strata" run --quiet --policy none --memory 38M -- "$programs/warm" --file "$files/data" "$@" |
        sed -n 's/.*"misses":\([0-9]*\),.*"touch_percent":\([0-9]*\).*/\1 \2/p'
}
echo "| load | warm pages by | pages not in memory, of 300,000 reads | touched | ratio | worst | CPU |"
echo "|---|---|---|---|---|---|---|"
for load in alone "beside a stream"; do
    options=()
    [ "$load" = alone ] || options=(--stream "$files/stream")
    for windows in 0 8 32; do
        : >"$work/rounds"
        for _ in $(seq "$runs"); do
            echo "$(misses "${options[@]}") $(misses --touches $touches --windows $windows "${options[@]}")" >>"$work/rounds"
        done
        column() { awk -v at="$1" '{print $at}' "$work/rounds" | median; }
        awk '{printf "%.3f\n", $3 / $1}' "$work/rounds" | sort -n >"$work/ratios"
        by="the last $windows times"
        [ $windows != 0 ] || by='the law'
        echo "| $load | $by | $(column 1) | $(column 3) | $(median <"$work/ratios") | $(tail -n 1 "$work/ratios") | $(column 4) % |"
    done
done
