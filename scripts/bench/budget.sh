#!/usr/bin/env bash
# Is a budget held? zipf at 60 % of its footprint for 60 s, with and without growth bursts of
# 500 MiB/s; cgroup usage and summed RSS sampled from outside every 100 ms, after the first 5 s.
# BENCH_SECONDS shortens it.
source "$(dirname "$0")/lib.sh"
seconds=${BENCH_SECONDS:-60} budget=300
echo "| load | actuator | samples | usage above budget, % | RSS above budget, % | mean usage, % of budget | peak usage, MiB | operations/s |"
echo "|---|---|---:|---:|---:|---:|---:|---:|"
for load in steady bursts; do
    bursts=()
    [ $load = steady ] || bursts=(--burst 100M --burst-rate 500M --burst-every 5)
    for actuator in pageout reclaim; do
        "$strata" run --quiet --memory ${budget}M --swap zram:1G --actuator $actuator --report "$work/report" -- \
            "$programs/zipf" --size 500M --theta 0.99 --threads 1 --seconds "$seconds" "${bursts[@]}" >"$work/zipf" &
        pid=$(wait_for_program zipf $!)
        "$programs/sample" --pid "$pid" --budget ${budget}M --after 5 --seconds "$seconds" >"$work/sample"
        wait $!
        n=$(field samples "$work/sample")
        echo "| $load | $actuator | $n | $(percent "$(field usage_above "$work/sample")" "$n") |" \
            "$(percent "$(field rss_above "$work/sample")" "$n") |" \
            "$(percent "$(field usage_mean "$work/sample")" $((budget * 1048576))) |" \
            "$(mib "$(field usage_peak "$work/sample")") | $(field ops_per_s "$work/zipf") |"
    done
done
echo
echo "Budget $budget MiB; zipf 0.99 over 500 MiB of single pages; \`bursts\`: 100 MiB more at 500 MiB/s every 5 s."
