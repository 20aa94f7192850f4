#!/usr/bin/env bash
# What does an operation of the engine cost? Instructions under callgrind, of the multi-generational LRU and of the two lists with each way to
# judge a refault (the kernel's, by distance, and by a trial in small, which follows one page in 16 here). Each
# figure is the difference of a run with 32,768 operations and one with 16,384, so that everything else falls out; one group, 65,536 file
# folios in memory before.
#
# - `read`: an access through a descriptor.
# - `touch`: a walk finds a folio accessed for the first time since it was faulted in.
# - `promote`: a walk finds it accessed again, after a generation began.
# - `appear`: a folio takes a slot that was free.
# - `evict`: a folio of a batch of 32 is isolated, evicted and leaves its shadow, walks included.
# - `refault`: a folio comes back with its shadow.
source "$(dirname "$0")/../lib.sh"
have valgrind || { say "needs valgrind: apt-get install valgrind"; exit 1; }
cargo build --release --quiet -p strata-lru --example engine_op
instructions() { # POLICY OPERATION COUNT
    valgrind --tool=callgrind --callgrind-out-file=/dev/null \
        "$target_dir/release/examples/engine_op" "$@" 2>&1 | sed -n 's/.*Collected : //p'
}
policies=({multi-gen,two-list}{,+distance=always,+distance})
echo "| operation |$(printf ' %s |' "${policies[@]}")"
echo "|---|---:|---:|---:|---:|---:|---:|"
for operation in read touch promote appear evict refault; do
    row="| $operation |"
    for policy in "${policies[@]}"; do
        # They know no walk that promotes: eviction asks for the accessed bit.
        case $operation$policy in promotetwo*) row+=" - |"; continue ;; esac
        one=$(instructions "$policy" $operation 16384) two=$(instructions "$policy" $operation 32768)
        row+=" $(awk -v n=$((two - one)) 'BEGIN {printf "%.1f", n / 16384}') |"
    done
    echo "$row"
done
