#!/usr/bin/env bash
# How near do steered runs of the simulator come to live ones? Faults of pages that had been in memory before, per 1000 operations of `zipf`.
#
# - Live: under `strata run`, and under the kernel's limit alone at the same budget (`--policy none`).
# - Predicted: by `strata sim --steered` and by `strata sim` on the same sequence of accesses (`tests/programs/zipf_trace.c`), as many as the
#   live run made.
# - `small` is 128 MiB within 77 MiB, the others are 300 MiB within 181 MiB (the mapped file 186). Phases change by the clock live, and in the
#   trace after as many operations as that was on average.
# - The played kernel is the one that the benchmark runs on; scripts/guest.sh runs it on others.
#
# BENCH_SECONDS is the length of a run (8), BENCH_RUNS the number of live runs of each, whose median counts (1).
source "$(dirname "$0")/lib.sh"
seconds=${BENCH_SECONDS:-8}
runs=${BENCH_RUNS:-1}
loads=${BENCH_LOADS:-zipf_0.99 zipf_1.2 small scan phases mapped_file two_threads}
trap 'rm -rf "$work" "$target_dir/bench.mapped"' EXIT
cgroup=v1 kernel=two-list
[ ! -e /sys/fs/cgroup/cgroup.controllers ] || cgroup=v2
case $(cat /sys/kernel/mm/lru_gen/enabled 2>/dev/null || echo 0) in 0 | 0x0000) ;; *) kernel=mglru ;; esac
# The rules of this kernel, by its number.
newer() { [ "$(printf '%s\n' "$1" "$(uname -r)" | sort -V | head -n 1)" = "$1" ]; }
if [ $kernel = mglru ] && ! newer 6.14; then
    kernel=mglru:v6.1
    ! newer 6.7 || kernel+=+group_order=memcg-lru+aborting=v6.14
fi

live() { # WHO BUDGET OPTION...: operations and faults, and faults per 1000 operations
    local who=(--actuator auto) budget=$2
    [ "$1" != none ] || who=(--policy none)
    shift 2
    if [ "$load" = mapped_file ]; then
        # Pages that an earlier run read in would be charged to its group.
        sync "$target_dir/bench.mapped" 2>/dev/null || true
        dd of="$target_dir/bench.mapped" oflag=nocache conv=notrunc,fdatasync count=0 status=none
    fi
    "$strata" run --quiet --memory "$budget" --swap zram:1G "${who[@]}" --report "$work/report" -- \
        "$programs/zipf" --seconds "$seconds" "$@" >"$work/out" 2>"$work/errors" || return
    ops=$(field ops "$work/out") faults=$(field major_faults "$work/out")
    per_thousand "$faults" "$ops"
}
per_thousand() { awk -v faults="$1" -v ops="$2" 'BEGIN {printf "%.1f", 1000 * faults / ops}'; }
lives() { # as `live`, the median of all runs
    local run
    for ((run = 0; run < runs; run++)); do
        live "$@" || true
        [ ! -s "$work/report" ] || [ "$1" = none ] || echo "$ops" >"$work/ops"
    done | median
}
replay() { # BUDGET OPS OPTION...: faults per 1000 operations
    local budget=$1 ops=$2 misses
    shift 2
    "$strata" sim "$work/trace" --trace-format u32le --via mmap --backing "$backing" --policy "$kernel" --memory "$budget" \
        --format json "$@" >"$work/sim" 2>"$work/errors"
    misses=$(sed -n 's/^ *"refaults": \([0-9]*\),*$/\1/p' "$work/sim")
    per_thousand "$misses" "$ops"
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN {if (a > 0 && b > 0) printf "%.2f", a / b; else printf "-"}'; }

echo "| load | who | predicted | live | ratio |"
echo "|---|---|---:|---:|---:|"
for load in $loads; do
    budget=181MiB size=300M theta=0.99 backing=anon options=() traced=() steered=()
    case $load in
    zipf_1.2) theta=1.2 ;;
    small) budget=77MiB size=128M ;;
    scan) options=(--scan-pages 1800 --scan-every 100000) traced=("${options[@]}") ;;
    phases) options=(--phase-every 2) ;;
    mapped_file) budget=186MiB backing=file options=(--file "$target_dir/bench.mapped" --populate --random) ;;
    two_threads) options=(--threads 2) steered=(--threads 2) ;;
    esac
    options+=(--size "$size" --theta "$theta")
    auto=$(lives auto "$budget" "${options[@]}")
    [ -s "$work/ops" ] || { echo "| $load | auto | - | killed | - |"; continue; }
    ops=$(cat "$work/ops")
    none=$(lives none "$budget" "${options[@]}")
    [ "$load" != phases ] || traced=(--phase-every $((ops * 2 / seconds)))
    "$programs/zipf_trace" --size "$size" --theta "$theta" --ops "$ops" "${traced[@]}" >"$work/trace"
    predicted=$(replay "$budget" "$ops" --steered --cgroup "$cgroup" "${steered[@]}")
    echo "| $load | auto | $predicted | $auto | $(ratio "$predicted" "$auto") |"
    predicted=$(replay "$budget" "$ops")
    echo "| $load | none | $predicted | ${none:-killed} | $(ratio "$predicted" "${none:-0}") |"
    rm -f "$work/ops"
done
echo
echo "Live: $kernel, cgroup $cgroup, $runs runs of $seconds s."
