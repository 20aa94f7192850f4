#!/usr/bin/env bash
# Files that do not fit into memory: the kernel's limit alone against `strata run` at the same memory, in turns. What was read from the
# disk is the disks' own count from the start of the load to its end, that of Strata and of the first pass included.
# - tree-1.2, tree-1.5: `grep -r` through a tree of files 14 times; the tree is 1.2 and 1.5 times as large as the budget of 200 MiB
# - zipf: fio, reads of 4 KiB by a Zipf law (0.99) over 512 MiB in 154 MiB
# - stream: the same beside a reader of 40 MiB/s, in one cgroup
# - uniform: fio, reads of 4 KiB all over 512 MiB in 154 MiB
# BENCH_RUNS, default 5, is the number of rounds, BENCH_SECONDS, default 20, how long fio reads, BENCH_LOADS the loads.
source "$(dirname "$0")/lib.sh"
runs=${BENCH_RUNS:-5} seconds=${BENCH_SECONDS:-20}
loads=${BENCH_LOADS:-tree-1.2 tree-1.5 zipf stream uniform}
passes=14 tree_kib=$((200 * 1024))
have fio || apt_install fio >/dev/null || fail "this benchmark needs fio"
# On a disk, also where /tmp is in memory.
files=$(mktemp -d -p "${BENCH_DIR:-/var/tmp}")
trap 'rm -rf "$work" "$files"' EXIT

# A tree of real files of so many times the budget, counted in pages.
tree() {
    local wanted_kib=$1 at=$2 copy
    for copy in $(seq 40); do
        find /usr/include /usr/share /usr/lib -xdev -type f -size -256k -printf '%s %p\n' 2>/dev/null | LC_ALL=C sort -k 2 |
            awk -v left="$((wanted_kib - $(in_pages_kib "$at")))" \
                'left > 0 {left -= int(($1 + 4095) / 4096) * 4; sub(/^[0-9]+ /, ""); print}' |
            cpio --quiet -pdm "$at/$copy" 2>/dev/null
        [ "$(in_pages_kib "$at")" -lt "$wanted_kib" ] || break
    done
}
in_pages_kib() { find "$1" -type f -printf '%s\n' 2>/dev/null | awk '{kib += int(($1 + 4095) / 4096) * 4} END {print kib + 0}'; }

job() { # LAW: a job file of fio
    cat <<EOF
[global]
ioengine=psync
invalidate=0
time_based=1
runtime=$seconds
[reads]
filename=$files/data
size=512m
rw=randread
bs=4k
norandommap
randseed=7
random_distribution=$1
EOF
    [ "$2" != stream ] || printf '[stream]\nfilename=%s/stream\nsize=4g\nrw=read\nbs=128k\nrate=40m\n' "$files"
}

cat >"$work/load" <<'EOF'
#!/bin/sh
# LOAD FILES PASSES JOB FORGET: forgets what is in memory of the files, then reads.
"$5" "$2"
case $1 in
tree-*)
    for pass in $(seq "$3"); do grep -r unlikelyword "$2/$1" >/dev/null; done
    echo "$(($3 * $(find "$2/$1" -type f | wc -l))) operations"
    ;;
*)
    fio --output-format=json "$4" | awk -F '[:,]' '/"jobname"/ {is_it = $2 ~ /reads/}
        is_it && /"total_ios"/ && !n {n = $2} END {print n + 0, "operations"}'
    ;;
esac
EOF
for load in $loads; do
    budget=154M
    : >"$work/job"
    case $load in
    tree-*)
        budget=200M
        tree "$(awk -v all=$tree_kib -v times="${load#tree-}" 'BEGIN {printf "%d", all * times}')" "$files/$load"
        ;;
    uniform) job random uniform >"$work/job" ;;
    *) job zipf:0.99 "$load" >"$work/job" ;;
    esac
    [ -s "$work/job" ] && [ ! -e "$files/data" ] && head -c 512M /dev/urandom >"$files/data"
    [ "$load" != stream ] || head -c 4G /dev/zero | tr '\0' x >"$files/stream"
    sync
    "$strata" compare --runs "$runs" --memory "$budget" --operations '([0-9.]+) operations' --format json \
        -- sh "$work/load" "$load" "$files" $passes "$work/job" "$programs/forget" >"$work/$load.json" 2>"$work/errors" || { cat "$work/errors" >&2; exit 1; }
    rm -rf "${files:?}/$load"
done
python3 - "$work" $loads <<'EOF'
import json, sys

print("| load | from the disk, kernel | Strata | ratio | worst | operations/s | worst | operations/CPU s | worst |")
print("|---" * 9 + "|")
for load in sys.argv[2:]:
    with open(f"{sys.argv[1]}/{load}.json") as file:
        report = json.loads(file.readlines()[-1])
    read = {of["arm"]: of["figures"]["disk_read_bytes"]["median"] / 2**20 for of in report["summaries"]}
    cells = [f"{read[arm]:,.0f} MiB" for arm in ("kernel", "strata")]
    ratios = report["ratios"][0]["ratios"]
    for name in ("disk_read_bytes", "throughput_per_s", "operations_per_cpu_s"):
        cells += [f"{ratios[name]['median']:.2f}", f"{ratios[name]['worst']:.2f}"]
    print(f"| {load} | " + " | ".join(cells) + " |")
EOF
