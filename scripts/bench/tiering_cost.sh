#!/usr/bin/env bash
# What does tiering cost an access through a descriptor? Instructions under callgrind, an access: of the plain engine, and of the engine with tiers
# while the promotion of page cache is off and on, for pages on the fast node and on the slow one. Each figure is the difference of a run with
# 2,000,000 accesses and one with 1,000,000, so that everything else falls out; 4096 folios in the oldest generation, counts saturated.
source "$(dirname "$0")/../lib.sh"
command -v valgrind >/dev/null || { say "needs valgrind: apt-get install valgrind"; exit 1; }
cargo build --release --quiet -p strata-lru --example fd_access
instructions() { # POLICY NODE ACCESSES
    valgrind --tool=callgrind --callgrind-out-file=/dev/null \
        "$target_dir/release/examples/fd_access" "$@" 2>&1 | sed -n 's/.*Collected : //p'
}
echo "| policy | node | instructions an access |"
echo "|---|---|---:|"
for node in 0 1; do
    for policy in plain tiered never first-access rfc-as-coded refs five-conditions; do
        # A page that comes up is not accessed down there any more.
        case $node$policy in 1first-access | 1rfc-as-coded | 1refs) continue ;; esac
        one=$(instructions $policy $node 1000000) two=$(instructions $policy $node 2000000)
        echo "| $policy | $([ $node = 0 ] && echo fast || echo slow) |" \
            "$(awk -v n=$((two - one)) 'BEGIN {printf "%.6f", n / 1000000}') |"
    done
done
