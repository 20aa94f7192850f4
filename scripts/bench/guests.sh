#!/usr/bin/env bash
# What does Strata change on the kernels that people run, and what does it cost? `zipf` over 128 MiB at a budget of 77 MiB, under the kernel's
# limit alone and under `strata run` with the same budget, in turns (`strata compare`), in virtual machines with Debian's kernels.
#
# - Kernels 6.1 and 6.12, cgroup v2, MGLRU on (`lru_gen/enabled` 7) and off (0).
# - The machines count instructions: one instruction takes one nanosecond of their time (`scripts/guest.sh --icount`). CPU time stands for
#   instructions there; a fixed job takes the same within 3 %, and faults repeat within 0.5 %. Wall time says nothing.
# - Each machine has one processor, because an emulator that counts runs several in turn: CPU time of two that are busy together would count
#   twice. No processor is free beside the program.
# - `faults`: major faults for each 1000 operations. `CPU`: user and system time of the program, of Strata and of all kernel threads, for each
#   operation, the filling included. Medians; the ratio is Strata over the kernel within a round, its median, and in parentheses the worst.
# - `scan` reads 1,800 pages in a row every 100,000 operations. `phases` has other hot pages every 2 s. `mixed` is half a mapped file, half
#   anonymous.
#
# BENCH_RUNS is the number of rounds (3), BENCH_SECONDS the length of a run in the machine's time (5), BENCH_LOADS the loads, BENCH_POLICIES
# the policies of `strata run` (auto: none is asked for), BENCH_KERNELS ("6.1 6.12"), BENCH_MGLRU ("0 7"), BENCH_GUESTS how many machines run side by
# side (2), BENCH_PROCESSORS of each (1).
source "$(dirname "$0")/lib.sh"
runs=${BENCH_RUNS:-3} seconds=${BENCH_SECONDS:-5} side_by_side=${BENCH_GUESTS:-2} smp=${BENCH_PROCESSORS:-1}
read -ra names <<<"${BENCH_LOADS:-zipf_0.99 zipf_1.2 scan phases uniform mapped_file mixed}"
loads=()
for policy in ${BENCH_POLICIES:-auto}; do
    for name in "${names[@]}"; do loads+=("$name/$policy"); done
done
directory=$target_dir/guests
rm -rf "$directory"
mkdir -p "$directory"
cargo build --release --quiet -p strata
cargo build --release --quiet -p strata-host --example compared

# The loads of a guest that have no line yet.
missing() { # OUTPUT
    local load
    for load in "${loads[@]}"; do grep -aq "^compared $load {" "$1" 2>/dev/null || echo "$load"; done
}

# One guest, and once more for what is missing if it ended before its time: now and then an emulated processor trips over a patch
# that the kernel makes to its own code.
measure() { # KERNEL MGLRU
    local output=$directory/$1-$2 left status try
    for try in 1 2; do
        mapfile -t left < <(missing "$output")
        [ ${#left[@]} != 0 ] || return 0
        status=0
        scripts/guest.sh --icount --kernel "$1" --mglru "$2" --smp "$smp" --timeout "${GUEST_LIMIT_S:-14400}" \
            --append 'nokaslr no5lvl' -- scripts/guest-bench.sh "$runs" "$seconds" "${left[@]}" >>"$output" 2>"$output.errors" || status=$?
        say "kernel $1, lru_gen/enabled $2: ended with status $status (try $try, $SECONDS s)"
        [ $status != 125 ] || return 0
    done
}

for kernel in ${BENCH_KERNELS:-6.1 6.12}; do
    for mglru in ${BENCH_MGLRU:-0 7}; do
        while [ "$(jobs -rp | wc -l)" -ge "$side_by_side" ]; do wait -n || true; done
        measure "$kernel" "$mglru" &
    done
done
wait

lru_name() { case $1 in 0) echo off ;; 7) echo on ;; *) echo "$1" ;; esac; }
for kernel in ${BENCH_KERNELS:-6.1 6.12}; do
    for mglru in ${BENCH_MGLRU:-0 7}; do
        output=$directory/$kernel-$mglru
        sed -n 's/^said //p' "$output" | tr -d '\r' | sed "s/^/kernel $kernel, lru_gen\/enabled $mglru: /" >&2 || true
        for load in "${loads[@]}"; do
            printf '%s|%s|%s|%s\t' "$kernel" "$(lru_name "$mglru")" "${load%%/*}" "${load#*/}"
            # The last one: serial lines end in carriage return and line feed.
            sed -n "s|^compared $load ||p" "$output" 2>/dev/null | tr -d '\r' | tail -n 1 | grep . ||
                echo "not measured: $(tail -n 1 "$output.errors" 2>/dev/null | tr -d '\r')"
        done
    done
done >"$directory/lines"
"$target_dir/release/examples/compared" 'kernel|MGLRU|load|policy' faults cpu_per_operation memory <"$directory/lines"
echo
echo "$runs rounds of $seconds s each in the machine's time, $smp processor each."
grep -q $'\t{' "$directory/lines" || fail "nothing was measured"
