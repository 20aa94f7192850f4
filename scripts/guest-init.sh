#!/bin/busybox sh
# The guest's first process (see guest.sh): puts the machine's root file system under a layer of RAM,
# mounts what a Linux system has, runs the command, reports its status, powers off.
PATH=/bin
for tool in $(/bin/busybox --list); do [ $tool = busybox ] || /bin/busybox ln -s busybox /bin/$tool; done

give_up() { echo "guest: $*"; poweroff -f; }
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do
    case $module in
    brd.ko) insmod /modules/$module rd_nr=1 rd_size=524288 ;; # one disk of RAM, 512 MiB
    *) insmod /modules/$module ;;
    esac 2>/dev/null
done

mount -t virtiofs -o ro host /host || give_up "no virtiofs"
mount -t tmpfs -o size=75% ram /ram
mkdir -p /ram/upper /ram/work
mount -t overlay -o lowerdir=/host,upperdir=/ram/upper,workdir=/ram/work root /root || give_up "no overlay"
cd /root
mkdir -p proc sys dev tmp run
mount -t proc proc proc
mount -t sysfs sys sys
mount -t devtmpfs dev dev
ln -s /proc/self/fd dev/fd
ln -s /proc/self/fd/0 dev/stdin && ln -s /proc/self/fd/1 dev/stdout && ln -s /proc/self/fd/2 dev/stderr
mkdir -p dev/shm dev/pts
mount -t tmpfs shm dev/shm
mount -t devpts -o mode=620,ptmxmode=666 pts dev/pts
mount -t tmpfs run run
mount -t cgroup2 cgroup sys/fs/cgroup
mount -t debugfs debug sys/kernel/debug
mount -t tracefs trace sys/kernel/tracing
mount -t bpf bpf sys/fs/bpf
echo +memory >sys/fs/cgroup/cgroup.subtree_control
[ ! -e sys/kernel/mm/lru_gen/enabled ] || cat /job/mglru >sys/kernel/mm/lru_gen/enabled
ip link set lo up
# Files below the layer of RAM can't be swapped to: the disk of RAM has a file system where they can.
chroot /root /sbin/mkfs.ext4 -q /dev/ram0 >/dev/null 2>&1 && mount -t ext4 /dev/ram0 mnt
# With --disk: one that counts what is read from it.
[ ! -e dev/vda ] || { mkdir -p disk; chroot /root /sbin/mkfs.ext4 -q /dev/vda >/dev/null 2>&1 && mount -t ext4 /dev/vda disk; }
cp -r /job run/guest-job

stty -F /dev/ttyS1 raw -echo
chroot /root /bin/bash -c '
    while IFS= read -r -d "" pair; do export "$pair"; done </run/guest-job/environment
    cd "$(cat /run/guest-job/directory)" 2>/dev/null || cd /
    eval "$(cat /run/guest-job/command)"' </dev/null >/dev/ttyS1 2>&1
echo $? >/dev/ttyS2
poweroff -f
