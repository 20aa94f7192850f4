#!/usr/bin/env bash
# What does watching cost who is watched? CPU per operation of a redis that `strata top` walks at its
# default interval, against the same redis unwatched, in pairs that follow each other, every second pair the
# other way round. redis holds BENCH_MEGABYTES of values of 1 KiB and is asked for random ones by 16 clients,
# one request at a time each, as fast as it answers: what its threads run (the kernel's work for them
# included) is counted in nanoseconds by the scheduler, so that it matters little who else runs; that redis
# gets less done between two walks then makes watching look dearer, not cheaper. A part has BENCH_SECONDS
# after a warm-up, in which what the part before left behind is gone; BENCH_PAIRS is the number of pairs.
# Given are the median of the ratios, watched to unwatched, and an interval around it by order statistics,
# which assume nothing of how ratios are spread.
source "$(dirname "$0")/lib.sh"
pairs=${BENCH_PAIRS:-24} seconds=${BENCH_SECONDS:-5} megabytes=${BENCH_MEGABYTES:-512}
scripts/servers.sh redis
bin=$target_dir/servers/bin
port=$((20000 + $$ % 20000)) value_bytes=1024
keys=$((megabytes * 1048576 / value_bytes))
server='' watcher=''
stop() {
    local pid
    for pid in $watcher $server; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap stop EXIT

"$bin/redis-server" --port $port --bind 127.0.0.1 --save '' --appendonly no --dir "$work" >"$work/redis.log" 2>&1 &
server=$!
cli() { "$bin/redis-cli" -p $port "$@"; }
load() { "$bin/redis-benchmark" -p $port -r "$keys" -d $value_bytes -q "$@" >/dev/null; }
for _ in $(seq 200); do [ "$(cli ping 2>/dev/null)" != PONG ] || break; sleep 0.05; done
pid=$(cli info server | tr -d '\r' | sed -n 's/^process_id://p')
# Random keys: of three times as many as there are, 95 % are hit.
load -t set -n $((3 * keys)) -P 64

read_keys() { timeout "$1" "$bin/redis-benchmark" -p $port -r "$keys" -t get -c 16 -n 1000000000 -q >/dev/null || true; }
nr_gets() { cli info commandstats | sed -n 's/^cmdstat_get:calls=\([0-9]*\).*/\1/p'; }
cpu_ns() { cat /proc/"$pid"/task/*/schedstat | awk '{s += $1} END {printf "%.0f", s}'; }

# Microseconds of CPU an operation, into a file.
part() {
    local before_ns before
    read_keys 2
    before_ns=$(cpu_ns) before=$(nr_gets)
    read_keys "$seconds"
    awk -v ns=$(($(cpu_ns) - before_ns)) -v n=$(($(nr_gets) - before)) \
        'BEGIN {printf "%.4f\n", ns / 1000 / n}' >"$work/$1"
}
watched() {
    # `--once --for` walks at the default interval as the screen does.
    "$strata" top --once --for 1h --format json --pid "$pid" >/dev/null 2>"$work/strata.log" &
    watcher=$!
    part watched
    kill -0 $watcher 2>/dev/null || fail "strata top ended early: $(cat "$work/strata.log")"
    kill $watcher
    wait $watcher 2>/dev/null || true
    watcher=''
}

for ((pair = 0; pair < pairs; pair++)); do
    if ((pair % 2)); then watched; part unwatched; else part unwatched; watched; fi
    paste -d' ' "$work/unwatched" "$work/watched" >>"$work/pairs"
done

# The median lies between the k-th and the k-th last of n ratios unless fewer than k of them fall on one
# side of it, and each falls there with probability one half.
awk '{print $2 / $1}' "$work/pairs" | sort -n | awk -v level=0.95 '{r[NR] = $1} END {
    n = NR; p = 0.5 ^ n; below = 0; k = 0
    for (i = 0; 2 * (below + p) <= 1 - level; i++) { below += p; k = i + 1; p *= (n - i) / (i + 1) }
    median = n % 2 ? r[(n + 1) / 2] : (r[n / 2] + r[n / 2 + 1]) / 2
    if (k < 1) printf "%.4f too few pairs\n", median
    else printf "%.4f %.4f to %.4f (%.1f %%)\n", median, r[k], r[n - k + 1], 100 * (1 - 2 * below)
}' >"$work/median"
read -r ratio interval <"$work/median"
cpu() { awk -v column="$1" '{print $column}' "$work/pairs" | median; }
resident=$(awk '/^VmRSS/ {print $2 * 1024}' "/proc/$pid/status")
echo "| redis, resident | pairs | CPU an operation unwatched, us | watched, us | ratio, median | interval of the median |"
echo "|---:|---:|---:|---:|---:|---|"
echo "| $(mib "$resident") MiB | $pairs | $(cpu 1) | $(cpu 2) | $ratio | $interval |"
