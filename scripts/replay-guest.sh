#!/usr/bin/env bash
# Runs inside a guest, for scripts/bench/kernels.sh: replays the traces of a plan in a memory cgroup and
# prints what the kernel read back, a JSON object for each run.
#   replay-guest.sh PLAN REPLAY    lines `CASE SEQUENCE_PAGES MEMORY_PAGES SWAPPINESS LRU TRACE`
# LRU is classic or mglru. Nothing but the policy may decide what is read: no readahead, no neighbours
# mapped along, base pages, disk and swap in memory (charged to nobody), and for every run a fresh mount,
# a fresh swap and a fresh cgroup, so that it knows nothing of the last one.
source "$(dirname "$0")/lib.sh"

plan=$1 replay=$2
disk=/dev/ram0 group=/sys/fs/cgroup/kernels mount=/mnt
data=$mount/data
# What the largest sequence of file pages needs; the disk holds 512 MiB.
data_pages=100000

put() { echo "$1" >"$2" || fail "can't set $2 to $1"; }

set_up() {
    put 0 /proc/sys/vm/page-cluster
    put false /sys/kernel/mm/swap/vma_ra_enabled
    put 4096 /sys/kernel/debug/fault_around_bytes
    put never /sys/kernel/mm/transparent_hugepage/enabled
    umount $mount 2>/dev/null || true
    mkfs.ext4 -q -b 4096 -O ^has_journal -E lazy_itable_init=0 $disk
    mount $disk $mount
    "$replay" --make $data --pages $data_pages
    umount $mount
    put 0 /sys/block/ram0/queue/read_ahead_kb
}

fresh() { # MEMORY_PAGES SWAPPINESS LRU
    swapoff /dev/zram0 2>/dev/null || true
    umount $mount 2>/dev/null || true
    [ ! -d $group ] || rmdir $group
    case $3 in classic) put 0 /sys/kernel/mm/lru_gen/enabled ;; *) put 7 /sys/kernel/mm/lru_gen/enabled ;; esac
    put "$2" /proc/sys/vm/swappiness
    sync
    put 3 /proc/sys/vm/drop_caches
    put 1 /sys/block/zram0/reset
    put 1G /sys/block/zram0/disksize
    mkswap -q /dev/zram0 >/dev/null
    swapon /dev/zram0
    mount -o ro,noatime $disk $mount
    mkdir $group
    put $(($1 * 4096)) $group/memory.max
}

# Generations begun since the cgroup has its first four.
ageing_passes() {
    awk -v group="/${group##*/}" '$1 == "memcg" {is_ours = $3 == group}
        is_ours && $1 ~ /^[0-9]+$/ {youngest = $1} END {print youngest - 3}' /sys/kernel/debug/lru_gen
}

set_up
release=$(uname -r)
series=$(cut -d. -f1,2 <<<"$release")
while read -r name sequence memory swappiness lru trace; do
    fresh "$memory" "$swappiness" "$lru"
    result=$("$replay" --trace "$trace" --file $data --group $group) || fail "$name: status $? $result"
    ageing=null
    [ "$lru" = classic ] || ageing=$(ageing_passes)
    printf '{"kernel":"%s","case":"%s","sequence_pages":%s,"memory_pages":%s,"swappiness":%s,"lru":"%s",' \
        "$series" "$name" "$sequence" "$memory" "$swappiness" "$lru"
    printf '"release":"%s","date":"%s","ageing_passes":%s,%s\n' "$release" "$(date -u +%F)" "$ageing" "${result#*,}"
done <"$plan"
