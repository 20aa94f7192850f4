#!/usr/bin/env bash
# What is it worth to know a phase again?
#
# - `sets`: a program of 300 MiB uses one half of its memory for 2 s, then the other, six times, within 180 MiB. What a phase needs has
#   room but is out when it begins.
# - `redis`: a redis-server of 235 MiB within 140 MiB, asked for one half of its keys for 3 s, then for the other. Keys that were set one
#   after the other lie side by side.
# - `none` is the kernel's limit alone. `reclaim` has the kernel reclaim ahead and reads nothing ahead; `auto` does. `foretold`: somebody
#   who knows asks the kernel for all of a half (`MADV_WILLNEED`) 250 ms after its phase began, which is when a walk shows it.
#
# Rounds of all in turns (BENCH_RUNS, 3).
source "$(dirname "$0")/lib.sh"
loads=${BENCH_LOADS:-sets redis}
[[ $loads != *redis* ]] || scripts/servers.sh redis >/dev/null
runs=${BENCH_RUNS:-3} bin=$target_dir/servers/bin

run_sets() { # HOW... -- OPTIONS OF THE PROGRAM...
    "$strata" run --quiet --prefetch --report "$work/report" --swap "$swap" --memory 180M "${how[@]}" -- \
        "$programs/sets" --phases 6 "${when[@]}" >"$work/out" 2>"$work/errors"
}
run_redis() {
    local socket=$work/kv.sock client status=0
    rm -f "$socket"
    (
        for _ in $(seq 200); do [ -S "$socket" ] && break; sleep 0.05; done
        sleep 0.2
        "$programs/kv" --socket "$socket" --keys 200000 --theta 0 --sets 2 --phase 3 --seconds 18 >"$work/out" 2>&1 || true
        pid=$(pgrep -f "^[^ ]*/redis-server .*$socket" | head -n 1)
        [ -z "$pid" ] || kill "$pid"
    ) &
    client=$!
    "$strata" run --quiet --prefetch --report "$work/report" --swap "$swap" --memory 140M "${how[@]}" -- "$bin/redis-server" --port 0 \
        --unixsocket "$socket" --save '' --appendonly no --dir "$work" --loglevel warning >"$work/errors" 2>&1 || status=$?
    wait $client
    [ $status != 137 ] && grep -q '"ops_per_s"' "$work/out"
}
counted() { field "$1" "$work/report" || true; }

echo "| load | swap | who reclaims | foretold after, ms | 1000 operations/s: min / median / max | major faults | read ahead, pages | of those used | killed or failed |"
echo "|---|---|---|---:|---:|---:|---:|---:|---:|"
for load in $loads; do
    for swap in zram:1G "file:$target_dir/bench.swap:1G"; do
        cases=(none, reclaim, auto,)
        [ "$load" = redis ] || cases+=(auto,250)
        for ((run = 0; run < runs; run++)); do
            for case in "${cases[@]}"; do
                how=(--actuator "${case%,*}") when=()
                [ "${case%,*}" != none ] || how=(--policy none)
                [ -z "${case#*,}" ] || when=(--foretold-ms "${case#*,}")
                "run_$load" || { echo failed >>"$work/$case.failed"; continue; }
                echo "$(field ops_per_s "$work/out") $(counted nr_major_faults) $(counted nr_recalled_pages) $(counted nr_recalled_used_pages)" >>"$work/$case"
            done
        done
        for case in "${cases[@]}"; do
            touch "$work/$case" "$work/$case.failed"
            sort -n "$work/$case" | awk -v load="$load" -v swap="${swap%%:*}" -v who="${case%,*}" -v when="${case#*,}" \
                -v failed="$(wc -l <"$work/$case.failed")" '
                {speed[NR] = $1 / 1000; faults[NR] = $2; asked[NR] = $3; used[NR] = $4}
                END {
                    middle = int((NR + 1) / 2)
                    printf "| %s | %s | %s | %s | ", load, swap, who, when == "" ? "never" : when
                    if (!NR) printf "| | | | %d |\n", failed
                    else printf "%.0f / %.0f / %.0f | %d | %d | %d | %d |\n", speed[1], speed[middle], speed[NR], faults[middle],
                        asked[middle], used[middle], failed
                }'
            rm "$work/$case" "$work/$case.failed"
        done
    done
done
