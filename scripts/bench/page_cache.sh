#!/usr/bin/env bash
# Files that do not fit into memory: the kernel's limit alone against `strata run` at the same memory, in turns. What was read from the
# disk is the disks' own count from the start of the load to its end, that of Strata and of the first pass included.
# - tree-1.2, tree-1.5: `grep -r` through a tree of files 14 times; the tree is 1.2 and 1.5 times as large as the budget of 200 MiB
# - zipf: fio, 200,000 reads of 4 KiB by a Zipf law (0.99) over 512 MiB in 154 MiB
# - stream: the same beside a reader of 40 MiB/s, in one cgroup
# - uniform: fio, 200,000 reads of 4 KiB all over 512 MiB in 154 MiB
# - mapped: fio reads a mapped file of 240 MiB from end to end 14 times in 200 MiB; mapped-distance: with --policy mglru+distance
# BENCH_RUNS, default 5, is the number of rounds, BENCH_READS how often fio reads, BENCH_LOADS the loads, BENCH_SHRINK, default 1, by what
# files and memory are divided. BENCH_TREES is a directory with trees that were made before, as LOAD.tar.
source "$(dirname "$0")/lib.sh"
runs=${BENCH_RUNS:-5} reads=${BENCH_READS:-200000}
loads=${BENCH_LOADS:-tree-1.2 tree-1.5 zipf stream uniform mapped mapped-distance}
passes=14 shrink=${BENCH_SHRINK:-1}
of() { echo "$(($1 / shrink))"; }
tree_kib=$(($(of 200) * 1024))
scripts/servers.sh fio >/dev/null
fio=$target_dir/servers/bin/fio
# On a disk, also where /tmp is in memory.
files=$(mktemp -d -p "${BENCH_DIR:-/var/tmp}")
trap 'rm -rf "$work" "$files"' EXIT

job() { # LAW: a job file of fio
    cat <<EOF
[global]
ioengine=psync
invalidate=0
[reads]
number_ios=$reads
exitall=1
filename=$files/data
size=$(of 512)m
io_size=64g
rw=randread
bs=4k
norandommap
randseed=7
random_distribution=$1
EOF
    [ "$2" != stream ] || printf '[stream]\nfilename=%s/stream\nsize=%sm\nrw=read\nbs=128k\nrate=40m\n' "$files" "$(of 4096)"
}

mapped_job() {
    printf '[global]\nioengine=mmap\nfadvise_hint=0\ninvalidate=0\n'
    printf '[reads]\nfilename=%s/mapped\nsize=%sm\nrw=read\nbs=4k\nloops=14\n' "$files" "$(of 240)"
}

cat >"$work/load" <<'EOF'
#!/bin/sh
# LOAD FILES PASSES JOB FORGET FIO: forgets what is in memory of the files, then reads.
"$5" "$2"
case $1 in
tree-*)
    for pass in $(seq "$3"); do grep -r unlikelyword "$2/$1" >/dev/null; done
    echo "$(($3 * $(find "$2/$1" -type f | wc -l))) operations"
    ;;
*)
    "$6" --output-format=json "$4" | awk -F '[:,]' '/"jobname"/ {is_it = $2 ~ /reads/}
        is_it && /"total_ios"/ && !n {n = $2} END {print n + 0, "operations"}'
    ;;
esac
EOF
for load in $loads; do
    budget=$(of 154)M options=()
    : >"$work/job"
    case $load in
    tree-*)
        budget=$(of 200)M
        make_tree "${load#tree-}" "$tree_kib" "$files/$load"
        ;;
    mapped*)
        budget=$(of 200)M
        [ "$load" = mapped ] || options=(--policy mglru+distance)
        mapped_job >"$work/job"
        [ -e "$files/mapped" ] || head -c "$(of 240)M" /dev/urandom >"$files/mapped"
        ;;
    uniform) job random uniform >"$work/job" ;;
    *) job zipf:0.99 "$load" >"$work/job" ;;
    esac
    [[ $load != mapped* && -s $work/job ]] && [ ! -e "$files/data" ] && head -c "$(of 512)M" /dev/urandom >"$files/data"
    [ "$load" != stream ] || head -c "$(of 4096)M" /dev/zero | tr '\0' x >"$files/stream"
    sync
    "$strata" compare --runs "$runs" --memory "$budget" "${options[@]}" --operations '([0-9.]+) operations' --format json \
        -- sh "$work/load" "$load" "$files" $passes "$work/job" "$programs/forget" "$fio" >"$work/$load.json" 2>"$work/errors" || { cat "$work/errors" >&2; exit 1; }
    rm -rf "${files:?}/$load"
done
# shellcheck disable=SC2086
compared_table $loads
