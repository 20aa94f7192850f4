#!/usr/bin/env bash
# Who is killed although swap is nearly empty? A program fills its memory fast and then uses it by a zipf law, held at 82 and 90 % of its
# footprint: by the kernel's limit alone (`none`) and by Strata (`mglru+heat`), in turn. `killed`: by the kernel's OOM killer. `gave way`: how
# often Strata raised the limit, in all runs together. BENCH_RUNS, default 30, is the number of runs of each.
source "$(dirname "$0")/lib.sh"
runs=${BENCH_RUNS:-30} footprint_mib=300
echo "| budget, % of footprint | who decides | runs | killed | gave way |"
echo "|---:|---|---:|---:|---:|"
for share in 82 90; do
    declare -A killed=([none]=0 [mglru+heat]=0) raised=([none]=0 [mglru+heat]=0)
    for _ in $(seq "$runs"); do
        for policy in none mglru+heat; do
            status=0
            "$strata" run --quiet --memory $((footprint_mib * share / 100))M --swap zram:512M --policy $policy \
                --report "$work/report" -- "$programs/zipf" --size ${footprint_mib}M --seconds 2 \
                >"$work/zipf" 2>"$work/errors" || status=$?
            case $status in
            0) ;;
            137)
                grep -q '"is_oom_kill": *true' "$work/report" || { say "killed by somebody else"; exit 1; }
                killed[$policy]=$((killed[$policy] + 1))
                ;;
            *) say "ended with status $status: $(cat "$work/errors")"; exit 1 ;;
            esac
            raises=$(field nr_raises "$work/report")
            raised[$policy]=$((raised[$policy] + ${raises:-0}))
        done
    done
    for policy in none mglru+heat; do
        echo "| $share | $policy | $runs | ${killed[$policy]} | ${raised[$policy]} |"
    done
done
