#!/usr/bin/env bash
# What `page_cache` and `one_budget` count, on other kernels: 6.1 and 6.12 with cgroup v2, MGLRU on (`lru_gen/enabled` 7) and off (0), in
# virtual machines with a disk of their own. Files and memory are divided by BENCH_SHRINK (2). Programs are 10 to 30 times slower there and the
# disk is not, so only what was read from the disk tells something.
# BENCH_RUNS (3) is the number of rounds, BENCH_READS (40,000) how often fio reads, BENCH_ROWS (40,000) how many rows sqlite reads, BENCH_LOADS
# ("tree-1.2 stream postgres sqlite") the loads, BENCH_KERNELS ("6.1 6.12"), BENCH_MGLRU ("0 7"), BENCH_GUESTS how many machines run side by side (2).
source "$(dirname "$0")/lib.sh"
shrink=${BENCH_SHRINK:-2}
read -ra loads <<<"${BENCH_LOADS:-tree-1.2 stream postgres sqlite}"
directory=$target_dir/cache-guests
rm -rf "$directory"
mkdir -p "$directory"

# A guest has no network, and looking for files on the machine's own root takes long there.
scripts/servers.sh fio postgresql >/dev/null
for load in "${loads[@]}"; do
    [[ $load == tree-* ]] || continue
    make_tree "${load#tree-}" $((200 / shrink * 1024)) "$directory/$load"
    tar -cf "$directory/$load.tar" -C "$directory/$load" .
    rm -rf "${directory:?}/$load"
done

measure() { # KERNEL MGLRU
    local load name status
    for load in "${loads[@]}"; do
        name=one_budget status=0
        [[ ! $load =~ ^(tree|zipf|stream|uniform|mapped) ]] || name=page_cache
        scripts/guest.sh --kernel "$1" --mglru "$2" --mem 3072 --disk 6144 --timeout "${GUEST_LIMIT_S:-3600}" -- \
            env BENCH_DIR=/disk BENCH_TREES="$directory" BENCH_SHRINK="$shrink" BENCH_RUNS="${BENCH_RUNS:-3}" BENCH_READS="${BENCH_READS:-40000}" \
            BENCH_ROWS="${BENCH_ROWS:-40000}" BENCH_LOADS="$load" "scripts/bench/$name.sh" >>"$directory/$1-$2" 2>&1 || status=$?
        say "kernel $1, lru_gen/enabled $2, $load: ended with status $status ($SECONDS s)"
    done
}

for kernel in ${BENCH_KERNELS:-6.1 6.12}; do
    for mglru in ${BENCH_MGLRU:-0 7}; do
        while [ "$(jobs -rp | wc -l)" -ge "${BENCH_GUESTS:-2}" ]; do wait -n || true; done
        measure "$kernel" "$mglru" &
    done
done
wait

echo "| kernel | MGLRU | load | from the disk, kernel | Strata | ratio | worst |"
echo "|---|---|---|---|---|---|---|"
nr_lines=0
for kernel in ${BENCH_KERNELS:-6.1 6.12}; do
    for mglru in ${BENCH_MGLRU:-0 7}; do
        for load in "${loads[@]}"; do
            cells=$(tr -d '\r' <"$directory/$kernel-$mglru" | sed -n "s/^| $load | //p" | awk -F ' [|] ' '{print $1, "|", $2, "|", $3, "|", $4}')
            [ -z "$cells" ] || nr_lines=$((nr_lines + 1))
            echo "| $kernel | $([ "$mglru" = 0 ] && echo off || echo on) | $load | ${cells:-not measured | | |} |"
        done
    done
done
[ $nr_lines != 0 ] || fail "nothing was measured; see $directory"
