#!/usr/bin/env bash
# How fast is a simulation? The NT workstation trace of the ARC paper (Megiddo, Modha, FAST 2003: 12.7 million requests of 773,770 pages) at
# 131072 pages, beside libCacheSim 0.3.5 from PyPI, which is written in C. A run is one thread, timed by its CPU clock; the two take turns for
# BENCH_ROUNDS rounds (3), and the least time of each counts.
#
# - Both read the same uncompressed file (oracleGeneral, 24 bytes a request, in the page cache). Both times begin with the first byte and end
#   with the last request: for libCacheSim `process_trace`, for Strata reading, giving pages dense numbers, and the replay. A further policy or
#   memory size in the same call of Strata costs the replay alone.
# - Memory is the policy's: for Strata what it allocates, the trace in memory told apart; for libCacheSim the growth of its anonymous memory
#   over the run.
source "$(dirname "$0")/lib.sh"
pages=131072
shared=${STRATA_SHARED:-$PWD/../shared}
trace=$shared/traces/arc-p6.lis.zst
[ -e "$trace" ] || { say "no $trace: set STRATA_SHARED to where traces/ lies"; exit 1; }

scripts/zoo.sh
python=$target_dir/bench-venv/bin/python
expanded=$target_dir/arc-p6.oracleGeneral
if [ ! -e "$expanded" ]; then
    "$strata" trace convert "$trace" - --to csv | "$python" scripts/zoo.py expand "$work/expanded"
    mv "$work/expanded" "$expanded"
fi
cargo build --release --quiet -p strata-sim --example sim_speed
cat "$expanded" >/dev/null

for _ in $(seq "${BENCH_ROUNDS:-3}"); do
    "$python" scripts/zoo.py run "$expanded" $pages LRU S3FIFO >>"$work/theirs"
    for policy in lru s3-fifo mglru two-list; do
        "$target_dir/release/examples/sim_speed" "$expanded" $pages $policy >>"$work/ours"
    done
done

# The least of column 2 in the lines of a name.
least() { awk -F'\t' -v name="$1" '$1 == name && (!least || $2 < least) {least = $2} END {print least}' "$2"; }
column() { awk -F'\t' -v name="$1" -v at="$3" '$1 == name {print $at; exit}' "$2"; }
requests=$(column load "$work/ours" 5)
distinct=$(column load "$work/ours" 6)
load=$(least load "$work/ours")
row() { # simulator policy seconds replay ratio bytes
    awk -v simulator="$1" -v policy="$2" -v s="$3" -v replay="$4" -v ratio="$5" -v bytes="$6" \
        -v n="$requests" -v distinct="$distinct" -v pages=$pages 'BEGIN {
        printf "| %s | %s | %.2f | %s | %.1f | %s | %.1f | %.1f |\n",
            simulator, policy, s, replay, n / s / 1e6, ratio, bytes / distinct, bytes / pages}'
}
echo "| simulator | policy | CPU seconds | of that the replay | million requests/s | miss ratio | policy's bytes a distinct page | a cached page |"
echo "|---|---|---:|---:|---:|---:|---:|---:|"
for policy in LRU S3FIFO; do
    row libCacheSim $policy "$(least $policy "$work/theirs")" "-" "$(column $policy "$work/theirs" 3)" \
        "$(column $policy "$work/theirs" 4)"
done
for policy in lru s3-fifo mglru two-list; do
    replay=$(least $policy "$work/ours")
    row Strata $policy "$(awk -v a="$load" -v b="$replay" 'BEGIN {print a + b}')" \
        "$(awk -v b="$replay" 'BEGIN {printf "%.2f", b}')" \
        "$(awk -v m="$(column $policy "$work/ours" 3)" -v n="$requests" 'BEGIN {printf "%.6f", m / n}')" \
        "$(column $policy "$work/ours" 4)"
done
echo
echo "The trace in Strata's memory: $(awk -v b="$(column load "$work/ours" 7)" -v n="$distinct" -v r="$requests" \
    'BEGIN {printf "%.1f MB, %.1f bytes a request, %.1f a distinct page", b / 1e6, b / r, b / n}'), whatever the policies."
