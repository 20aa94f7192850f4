#!/usr/bin/env bash
# Runs a command under another Debian kernel, in a virtual machine whose root is this machine's own
# root file system, read-only below a layer of RAM: what the command writes is gone afterwards.
#   guest.sh [OPTIONS] -- COMMAND...
#     --kernel 6.1|6.12      Debian's cloud kernel of that series (6.12)
#     --mem MIB --smp N      the machine (2048, 2)
#     --mglru 0|7            written to /sys/kernel/mm/lru_gen/enabled before the command runs (7)
#     --icount           one instruction a nanosecond of the guest's time: CPU time there stands for instructions, and a fixed job
#                        takes nearly the same each time
#     --disk MIB             an empty disk of its own with ext4 at /disk; what is read from it is counted
#     --nodes 1|2            nodes of memory; the second has half of the memory and no processor, and can be taken away: a memory module
#                        whose blocks go offline and online (1)
#     --append 'ARGS'        more kernel arguments, for example nokaslr or no5lvl
#     --timeout SECONDS      (900)
# The guest has cgroup v2 with the memory controller, zram, BPF and BTF, debugfs. The command's output
# (both streams) comes out on stdout and its status is ours; 125 when no guest can be had here, 124 when
# it ended without a result (out of time, or its kernel panicked).
# The kernel package is downloaded once into $STRATA_GUEST_CACHE (~/.cache/strata/guest). Needs root,
# apt, QEMU, virtiofsd, busybox-static, cpio and kmod (scripts/setup.sh test). The processor is emulated
# (KVM is missing or half there on most virtual machines, and the guest should be the same everywhere),
# 10 to 30 times slower than the machine itself: for behaviour, never for timings.
start_directory=$PWD
source "$(dirname "$0")/lib.sh"
unavailable() { say "$*"; exit 125; }

kernel=6.12 mem=2048 smp=2 mglru=7 append='' limit=900 disk_mib='' drive=() nodes=1 accel=(-accel 'tcg,thread=multi')
while [ $# -gt 0 ]; do
    case $1 in
    # Only one thread of the emulator can count.
    --icount) accel=(-accel 'tcg,thread=single' -icount 'shift=0,sleep=off'); shift; continue ;;
    --kernel) kernel=$2 ;; --mem) mem=$2 ;; --smp) smp=$2 ;; --mglru) mglru=$2 ;;
    --append) append=$2 ;; --timeout) limit=$2 ;; --disk) disk_mib=$2 ;; --nodes) nodes=$2 ;;
    --) shift; break ;;
    *) say "unknown option $1"; exit 2 ;;
    esac
    shift 2
done
[ $# -gt 0 ] || { say "no command"; exit 2; }

[ "$(id -u)" = 0 ] || unavailable "needs root: the file system of the machine is shared with the guest"
for tool in qemu-system-x86_64 busybox cpio depmod; do
    have $tool || unavailable "needs $tool (scripts/setup.sh test installs it)"
done
virtiofsd=$(PATH=$PATH:/usr/lib/qemu:/usr/libexec command -v virtiofsd) || unavailable "needs virtiofsd"

cache=${STRATA_GUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/strata/guest}
tree=$cache/$kernel
mkdir -p "$cache"
work=$(mktemp -d "$cache/run.XXXXXX")
started=()
trap 'kill "${started[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 143' TERM HUP
trap 'exit 130' INT

find_package() {
    apt-cache search --names-only "^linux-image-${kernel//./\\.}\\.[0-9].*cloud-amd64(-unsigned)?\$" |
        cut -d' ' -f1 | sort -V | tail -n 1
}

download_kernel() {
    local package
    have apt-get || unavailable "no apt-get here to download a kernel with"
    package=$(find_package)
    [ -n "$package" ] || { apt_update && package=$(find_package); } || true
    [ -n "$package" ] || unavailable "apt knows no cloud kernel $kernel"
    say "downloading $package"
    (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "$package" >/dev/null 2>&1) ||
        { apt_update && (cd "$work" && apt-get download -qq "$(find_package)"); } ||
        unavailable "$package can't be downloaded"
    mkdir "$work/tree"
    dpkg-deb -x "$work"/*.deb "$work/tree"
    rm "$work"/*.deb
    version=$(basename "$work"/tree/lib/modules/*)
    depmod -b "$work/tree" "$version"
}

# Names of module files, each behind those it depends on.
modules_for() {
    local list=$1/modules.dep module
    shift
    for module in "$@"; do
        awk -v want="$module" -F': *' '{
            name = $1; sub(".*/", "", name); sub(/\.ko.*/, "", name); gsub("-", "_", name)
            if (name == want) { n = split($2, need, " "); for (i = n; i; i--) print need[i]; print $1 }
        }' "$list"
    done | awk '!seen[$0]++'
}

# The first half of the initial RAM disk: busybox, modules, the init script. The same every time.
pack_base() {
    local modules=$work/tree/lib/modules/$version root=$work/base file
    mkdir -p "$root"/{bin,modules,proc,sys,dev,host,ram,root}
    cp "$(command -v busybox)" "$root/bin/busybox"
    for file in $(modules_for "$modules" virtio_pci virtiofs virtio_blk overlay zram brd lzo_rle lz4_compress lzo_compress crc32c_intel crc32c_generic \
        loop ext4); do
        cp "$modules/$file" "$root/modules/"
        file=$(basename "$file")
        case $file in *.xz) unxz "$root/modules/$file" ;; esac
        echo "${file%.xz}" >>"$root/modules/order"
    done
    cp scripts/guest-init.sh "$root/init"
    chmod +x "$root/init"
    (cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/tree/base.cpio.gz"
}

exec {lock}>"$cache/$kernel.lock"
flock "$lock"
if [ ! -e "$tree/base.cpio.gz" ] || [ scripts/guest.sh -nt "$tree/base.cpio.gz" ] ||
    [ scripts/guest-init.sh -nt "$tree/base.cpio.gz" ]; then
    if [ -e "$tree/base.cpio.gz" ]; then mv "$tree" "$work/tree"; version=$(basename "$work"/tree/lib/modules/*)
    else download_kernel; fi
    pack_base
    rm -rf "$tree"
    mv "$work/tree" "$tree"
fi
exec {lock}>&-

# The second half: what to run, where, and with which environment. The kernel unpacks both.
mkdir "$work/job"
printf '%q ' "$@" >"$work/job/command"
printf '%s' "$start_directory" >"$work/job/directory"
printf '%s' "$mglru" >"$work/job/mglru"
env -0 | grep -zE '^(PATH|HOME|LANG|CARGO_[A-Z_]*|RUST[A-Z_]*|STRATA_[A-Z_]*)=' >"$work/job/environment" || true
(cd "$work" && find job | cpio --quiet -o -H newc | gzip -1) | cat "$tree/base.cpio.gz" - >"$work/initrd"

"$virtiofsd" --socket-path="$work/fs" -o source=/ -o sandbox=chroot -o cache=always >"$work/fs.log" 2>&1 &
started+=($!)
for _ in $(seq 100); do [ ! -S "$work/fs" ] || break; sleep 0.05; done
[ -S "$work/fs" ] || unavailable "virtiofsd did not start: $(tail -n 1 "$work/fs.log")"

if [ -n "$disk_mib" ]; then
    truncate -s "${disk_mib}M" "$work/disk"
    drive=(-drive "file=$work/disk,format=raw,if=virtio,cache=unsafe")
fi
node_mib=$((mem / nodes)) memory=()
for ((node = 0; node < nodes; node++)); do
    memory+=(-object "memory-backend-memfd,id=ram$node,size=${node_mib}M,share=on")
done
memory+=(-numa "node,nodeid=0,memdev=ram0,cpus=0-$((smp - 1))")
if [ "$nodes" = 2 ]; then
    memory+=(-numa node,nodeid=1 -device pc-dimm,memdev=ram1,node=1)
    append+=' memhp_default_state=online_movable'
fi
: >"$work/status"
# Serial lines: 0 the kernel's console, 1 the command's output, 2 its exit status.
timeout --foreground -k 5 "$limit" qemu-system-x86_64 -M q35 "${accel[@]}" -cpu max -smp "$smp" -m "${node_mib}M,slots=1,maxmem=$((mem + 1024))M" "${memory[@]}" \
    -kernel "$tree"/boot/vmlinuz-* -initrd "$work/initrd" -nodefaults -no-reboot -display none \
    -chardev socket,id=fs,path="$work/fs" -device vhost-user-fs-pci,chardev=fs,tag=host "${drive[@]}" \
    -chardev stdio,id=output,signal=off -serial file:"$work/console" -serial chardev:output \
    -serial file:"$work/status" -append "console=ttyS0 panic=-1 mitigations=off quiet $append" \
    </dev/null 2>"$work/qemu.log" &
started+=($!)
# In the background, so that a signal ends the guest at once instead of waiting for it.
wait $! || true

status=$(tr -cd '0-9' <"$work/status")
if [ -z "$status" ]; then
    { tail -n 80 "$work/console"; cat "$work/qemu.log"; } >&2
    say "the guest ended without a result (limit $limit s)"
    exit 124
fi
exit "$status"
