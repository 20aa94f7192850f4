#!/usr/bin/env bash
# What does Strata cost a program that fits into its budget? Interleaved pairs with and without,
# medians: redis (GET and SET by redis-benchmark) and buffered random reads by fio. BENCH_PAIRS, default 7.
source "$(dirname "$0")/lib.sh"
scripts/servers.sh redis fio
bin=$target_dir/servers/bin
pairs=${BENCH_PAIRS:-7}
under=("$strata" run --quiet --memory 2G --)

redis() { # COMMAND...: prints requests a second of a mixed load on a redis behind that command
    local socket=$work/redis.sock server rate
    "$@" "$bin/redis-server" --port 0 --unixsocket "$socket" --save '' --appendonly no --dir "$work" \
        --loglevel warning --logfile "$work/redis.log" &
    server=$!
    until [ "$("$bin/redis-cli" -s "$socket" ping 2>/dev/null)" = PONG ]; do sleep 0.05; done
    "$bin/redis-benchmark" -s "$socket" -t set -d 1000 -r 100000 -n 200000 -P 8 -q >/dev/null
    rate=$("$bin/redis-benchmark" -s "$socket" -t get,set -d 1000 -r 100000 -n 400000 -P 8 --csv |
        awk -F'","' 'NR > 1 {n++; t += 1 / $2} END {printf "%.0f", n / t}')
    "$bin/redis-cli" -s "$socket" shutdown nosave >/dev/null 2>&1 || true
    wait $server
    echo "$rate"
}
fio() { # COMMAND...: prints reads a second
    "$@" "$bin/fio" --name=reads --filename="$target_dir/fio.data" --size=512M --rw=randread --bs=4k \
        --ioengine=psync --runtime=5 --time_based --minimal 2>/dev/null | awk -F';' '{print $8}'
}

echo "| load | without, 1/s | with, 1/s | ratio (median of $pairs pairs) |"
echo "|---|---:|---:|---:|"
for load in redis fio; do
    : >"$work/without"; : >"$work/with"; : >"$work/ratio"
    $load env >/dev/null # warms up the page cache
    for pair in $(seq "$pairs"); do
        # Each goes first in half of the pairs.
        if [ $((pair % 2)) = 0 ]; then without=$($load env) with=$($load "${under[@]}")
        else with=$($load "${under[@]}") without=$($load env); fi
        say "$load: without $without, with $with"
        echo "$without" >>"$work/without"
        echo "$with" >>"$work/with"
        awk -v a="$with" -v b="$without" 'BEGIN {print a / b}' >>"$work/ratio"
    done
    echo "| $load | $(median <"$work/without") | $(median <"$work/with") | $(median <"$work/ratio") |"
done
rm -f "$target_dir/fio.data"
