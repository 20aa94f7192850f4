#!/usr/bin/env bash
# Is a budget held? For each actuator and for the kernel's limit alone (`--policy none`): cgroup usage and summed RSS, sampled from
# outside every 100 ms after the first 5 s.
#
# - `steady`: zipf at 60 % of its footprint for 60 s. `bursts`: the same with growth of 500 MiB/s. `alike`: a program that uses all its
#   pages alike and writes a third of them, so that what goes comes back as fast as it can be read.
# - Above the budget means by more than a page. RSS counts the pages of libraries too, which are charged to the group that read them first.
#
# BENCH_SECONDS shortens it.
source "$(dirname "$0")/lib.sh"
seconds=${BENCH_SECONDS:-60} budget=300
echo "| load | who reclaims | samples | usage above budget, % | RSS above budget, % | mean usage, % of budget | mean RSS, % of budget | peak usage, MiB | operations/s | Strata's CPU, % |"
echo "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
for load in steady bursts alike; do
    program=(zipf --size 500M --theta 0.99 --threads 1 --seconds "$seconds")
    [ $load != bursts ] || program+=(--burst 100M --burst-rate 500M --burst-every 5)
    [ $load != alike ] || program=(checksum --size 500M --seconds "$seconds")
    for who in auto pageout reclaim none; do
        how=(--actuator $who)
        [ $who != none ] || how=(--policy none)
        status=0
        "$strata" run --quiet --memory ${budget}M --swap zram:1G "${how[@]}" --report "$work/report" -- \
            "$programs/${program[0]}" "${program[@]:1}" >"$work/out" &
        main=$!
        pid=$(wait_for_program "${program[0]}" $main)
        "$programs/sample" --pid "$pid" --budget ${budget}M --after 5 --seconds "$seconds" >"$work/sample" || true
        wait $main || status=$?
        speed=$(field ops_per_s "$work/out")
        [ $load != alike ] || speed=$(awk -v reads="$(field reads "$work/out")" -v writes="$(field writes "$work/out")" -v s="$seconds" 'BEGIN {printf "%.0f", (reads + writes) / s}')
        [ $status = 0 ] || speed="status $status"
        n=$(field samples "$work/sample")
        echo "| $load | $who | $n | $(percent "$(field usage_above "$work/sample")" "$n") |" \
            "$(percent "$(field rss_above "$work/sample")" "$n") |" \
            "$(percent "$(field usage_mean "$work/sample")" $((budget * 1048576))) |" \
            "$(percent "$(field rss_mean "$work/sample")" $((budget * 1048576))) |" \
            "$(mib "$(field usage_peak "$work/sample")") | $speed |" \
            "$(sed -nE 's/.*"strata_cpu_percent": *([0-9]+(\.[0-9]{1,2})?).*/\1/p' "$work/report") |"
    done
done
echo
echo "Budget $budget MiB; zipf 0.99 over 500 MiB of single pages; \`bursts\`: 100 MiB more at 500 MiB/s every 5 s; \`alike\`: checksum over 500 MiB;"
echo "\`none\`: only the kernel's limit, at the budget."
