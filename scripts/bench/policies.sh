#!/usr/bin/env bash
# What is each policy worth to a running program that chooses page by page? `zipf` over 300 MiB at 60 % of its footprint, under
# Strata with each policy and under the kernel's limit alone at the same memory, in turns (`strata compare --match-memory`).
#
# - The policies order pages by what `strata sim` knows under the same names. Without a policy the kernel chooses. Models and
#   numbers of generations and tiers have live tests, no row.
# - Each cell has the median over rounds for the kernel's limit alone and for Strata. A ratio is Strata over the kernel within a round: the
#   median, and in parentheses the worst round.
# - Faults are major faults. Operations a CPU second are those for each second of user and system time of the program, of Strata and of all
#   kernel threads.
#
# BENCH_SECONDS is the length of a run (8), BENCH_RUNS the rounds (5), BENCH_LOADS the loads (zipf_0.99 zipf_1.2 scan), BENCH_POLICIES the
# policies. On other kernels: `make bench NAME=guests BENCH_POLICIES='mglru two-list'`.
source "$(dirname "$0")/lib.sh"
seconds=${BENCH_SECONDS:-8} rounds=${BENCH_RUNS:-5}
read -ra loads <<<"${BENCH_LOADS:-zipf_0.99 zipf_1.2 scan}"
read -ra policies <<<"${BENCH_POLICIES:-mglru mglru+distance two-list strata}"
trap 'rm -rf "$work"' EXIT
cargo build --release --quiet -p strata-host --example compared

for load in "${loads[@]}"; do
    options=(--theta 0.99)
    case $load in
    zipf_0.99) ;;
    zipf_1.2) options=(--theta 1.2) ;;
    scan) options+=(--scan-pages 1800 --scan-every 100000) ;;
    phases) options+=(--phase-every 2) ;;
    *) fail "unknown load $load" ;;
    esac
    for policy in "${policies[@]}"; do
        printf '%s|%s\t' "$load" "$policy"
        # A run that failed is in the table.
        "$strata" compare --match-memory --memory 180M --swap zram:1G --runs "$rounds" --format json --policy "$policy" \
            --throughput '"program".*"ops_per_s":([0-9]+)' --operations '"program".*"ops":([0-9]+)' \
            -- "$programs/zipf" --size 300M --seconds "$seconds" "${options[@]}" >"$work/compared" || true
        grep . "$work/compared" || echo "failed"
    done
done >"$work/lines"
"$target_dir/release/examples/compared" 'load|policy' faults operations operations_per_cpu <"$work/lines"
echo
echo "$rounds rounds of $seconds s each, budget 180 MiB."
! grep -q $'\tfailed$' "$work/lines" || fail "a policy could not be compared"
