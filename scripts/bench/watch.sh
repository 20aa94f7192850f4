#!/usr/bin/env bash
# What does watching cost who is watched? CPU time an operation of a redis that `strata top` or `strata record` (BENCH_WATCHERS) walks at
# its default interval, against the same redis unwatched.
#
# - One load never ends. The watcher is stopped and goes on in short parts; a part and its neighbour make a pair, every second pair the
#   other way round.
# - redis holds BENCH_MEGABYTES of values of 1 KiB and is asked for random keys, of all or of a tenth (BENCH_SHARES, percent), by 16
#   clients, one request at a time each.
# - The scheduler counts what the threads of redis run, in nanoseconds. A redis that gets less done between two walks makes watching look
#   dearer, not cheaper.
# - Given are the median of the ratios, an interval around it by order statistics, and what the watcher itself runs.
#
# A part has BENCH_SECONDS, after a second in which the part before fades; BENCH_PAIRS is the number of pairs.
source "$(dirname "$0")/lib.sh"
watchers=${BENCH_WATCHERS:-top record} shares=${BENCH_SHARES:-100 10} pairs=${BENCH_PAIRS:-30} seconds=${BENCH_SECONDS:-3} megabytes=${BENCH_MEGABYTES:-512}
scripts/servers.sh redis
bin=$target_dir/servers/bin
port=$((20000 + $$ % 20000)) value_bytes=1024
keys=$((megabytes * 1048576 / value_bytes))
pids=()
stop() {
    local pid
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null || true
        kill -CONT "$pid" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap stop EXIT

"$bin/redis-server" --port $port --bind 127.0.0.1 --save '' --appendonly no --dir "$work" >"$work/redis.log" 2>&1 &
pids+=($!)
cli() { "$bin/redis-cli" -p $port "$@"; }
load() { "$bin/redis-benchmark" -p $port -d $value_bytes -q "$@" >/dev/null 2>&1; }
for _ in $(seq 200); do [ "$(cli ping 2>/dev/null)" != PONG ] || break; sleep 0.05; done
pid=$(cli info server | tr -d '\r' | sed -n 's/^process_id://p')
# Random keys: of three times as many as there are, 95 % are hit.
load -t set -r $keys -n $((3 * keys)) -P 64

watcher=''
# `--once --for` walks at the default interval as the screen does.
start_watcher() { # top or record
    case $1 in
    top) "$strata" top --once --for 1h --format json --pid "$pid" >/dev/null 2>"$work/strata.log" & ;;
    record) "$strata" record --quiet --pid "$pid" --max-size 256M -o "$work/run.strata" 2>"$work/strata.log" & ;;
    *) fail "no watcher called $1: use top or record" ;;
    esac
    watcher=$!
    pids+=("$watcher")
    sleep 1
}
end_watcher() {
    kill -CONT "$watcher" 2>/dev/null || true
    kill "$watcher" 2>/dev/null || true
    wait "$watcher" 2>/dev/null || true
    rm -f "$work"/run.strata*
}

cpu_ns() { cat /proc/"$1"/task/*/schedstat | awk '{s += $1} END {printf "%.0f", s}'; }
nr_gets() { cli info commandstats | sed -n 's/^cmdstat_get:calls=\([0-9]*\).*/\1/p'; }

# part SIGNAL NAME: sends the watcher the signal, and writes microseconds of CPU an operation into a file.
part() {
    local redis_ns watcher_ns gets start_us
    kill "-$1" "$watcher" || fail "the watcher ended early: $(cat "$work/strata.log")"
    sleep 1
    redis_ns=$(cpu_ns "$pid") watcher_ns=$(cpu_ns "$watcher") gets=$(nr_gets) start_us=${EPOCHREALTIME/./}
    sleep "$seconds"
    awk -v ns=$(($(cpu_ns "$pid") - redis_ns)) -v n=$(($(nr_gets) - gets)) \
        'BEGIN {printf "%.4f\n", ns / 1000 / n}' >"$work/$2"
    echo $(($(cpu_ns "$watcher") - watcher_ns)) $((${EPOCHREALTIME/./} - start_us)) |
        awk '{print $1 / 1000 / $2 * 100}' >>"$work/$2.cpu"
}
# The median lies between the k-th and the k-th last of n ratios unless fewer than k of them fall on one
# side of it, and each falls there with probability one half.
median_and_interval() {
    awk '{print $2 / $1}' "$work/pairs" | sort -n | awk -v level=0.95 '{r[NR] = $1} END {
        n = NR; p = 0.5 ^ n; below = 0; k = 0
        for (i = 0; 2 * (below + p) <= 1 - level; i++) { below += p; k = i + 1; p *= (n - i) / (i + 1) }
        median = n % 2 ? r[(n + 1) / 2] : (r[n / 2] + r[n / 2 + 1]) / 2
        if (k < 1) printf "%.4f | too few pairs\n", median
        else printf "%.4f | %.4f to %.4f (%.1f %%)\n", median, r[k], r[n - k + 1], 100 * (1 - 2 * below)
    }'
}
cpu() { awk -v column="$1" '{print $column}' "$work/pairs" | median; }

echo "| by | redis, resident | keys asked for | pairs | CPU an operation unwatched, us | watched, us | ratio, median | interval of the median | the watcher itself, % of a core |"
echo "|---|---:|---:|---:|---:|---:|---:|---|---:|"
for by in $watchers; do
    for share in $shares; do
        start_watcher "$by"
        rm -f "$work/pairs" "$work/watched.cpu"
        load -t get -r $((keys * share / 100)) -c 16 -n 1000000000 &
        asking=$!
        pids+=($asking)
        sleep 3
        for ((pair = 0; pair < pairs; pair++)); do
            if ((pair % 2)); then part CONT watched; part STOP unwatched; else part STOP unwatched; part CONT watched; fi
            paste -d' ' "$work/unwatched" "$work/watched" >>"$work/pairs"
        done
        resident=$(awk '/^VmRSS/ {print $2 * 1024}' "/proc/$pid/status")
        own=$(median <"$work/watched.cpu" | awk '{printf "%.1f", $1}')
        echo "| $by | $(mib "$resident") MiB | $share % | $pairs | $(cpu 1) | $(cpu 2) | $(median_and_interval) | $own |"
        pkill -P $asking || true
        wait $asking 2>/dev/null || true
        end_watcher
    done
done
