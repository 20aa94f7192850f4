#!/usr/bin/env bash
# What does a real kernel read back, in cases that nobody recorded? Debian's kernel replays sequences
# of the simulator's own (`strata sim oracle:MODE/PATTERN`) in a virtual machine, in a memory cgroup, with
# the classic lists and with generations, each case in a fresh cgroup; the simulator replays them in
# the memory the kernel had left for pages. The runs are kept in crates/sim/tests/measured.jsonl, where a run
# takes the place of older ones of its case; docs/validation/fidelity.md has the table, a test holds it.
#
# BENCH_KERNEL is the kernel (6.1), BENCH_RUNS how often each case is repeated (1), BENCH_CASES the cases,
# `MODE/PATTERN,SEQUENCE,MEMORY,SWAPPINESS` each (all that stand below). Needs what scripts/guest.sh
# needs; some 15 seconds a run on an idle processor.
source "$(dirname "$0")/lib.sh"
kernel=${BENCH_KERNEL:-6.1} runs=${BENCH_RUNS:-1}
kept=crates/sim/tests/measured.jsonl

# The first three were recorded by others as well: what is measured here has to agree with that.
usual=(
    fdread/zipf,16384,16384,60 anon/phase,16384,16384,60 mmapread/hotscan,16384,16384,60
    fdread/hotscan,16384,16384,60 mmapread/zipf,16384,16384,60 mmapread/phase,16384,16384,60
    anon/uniform,16384,16384,60 anon/hotscan,16384,16384,60
    mixed/mixed,16384,16384,10 mixed/mixed,16384,16384,150
    fdread/phase,16384,8192,60 mmapread/hotscan,16384,8192,60 anon/zipf,16384,8192,60 mixed/mixed,16384,8192,60
    fdread/zipf,16384,24576,60 mixed/mixed,16384,24576,60
    fdread/hotscan,8192,8192,60 mmapread/zipf,8192,8192,60 anon/hotscan,8192,8192,60 mixed/mixed,8192,8192,100
)
read -ra cases <<<"${BENCH_CASES:-${usual[*]}}"

directory=$target_dir/kernels
mkdir -p "$directory"
: >"$directory/plan"
for case in "${cases[@]}"; do
    IFS=, read -r name sequence memory swappiness <<<"$case"
    trace=$directory/${name/\//-}-$sequence.csv
    [ -e "$trace" ] || {
        "$strata" trace convert "oracle:$name,memory=$sequence" - --to csv >"$trace.new"
        mv "$trace.new" "$trace"
    }
    for lru in classic mglru; do
        for _ in $(seq "$runs"); do
            echo "$name $sequence $memory $swappiness $lru $(realpath "$trace")"
        done
    done
done >"$directory/plan"

# One processor and addresses that stay where they are: what is left of chance is the timer.
status=0
scripts/guest.sh --kernel "$kernel" --mem 1536 --smp 1 --append 'nokaslr norandmaps no5lvl' --timeout 14400 -- \
    scripts/replay-guest.sh "$directory/plan" "$programs/replay" |
    tee "$directory/output" >&2 || status=$?
[ "$status" != 125 ] || fail "no guest can be had here"

# A run that was made is a run, also if a later one could not be.
grep -a '^{"kernel"' "$directory/output" >"$directory/runs" || fail "nothing was measured (status $status)"
touch $kept
sed 's/"release".*//' "$directory/runs" >"$directory/keys"
{ grep -vFf "$directory/keys" $kept || true; cat "$directory/runs"; } >"$directory/kept"
sort -V "$directory/kept" >$kept
[ "$status" = 0 ] || fail "the guest did not finish (status $status)"
cargo run --release --quiet -p strata-sim --example fidelity -- measured | tee "$directory/table"
scripts/evaluate.py splice docs/validation/fidelity.md measured <"$directory/table"
