#!/usr/bin/env bash
# Unpacks servers and tools for demos, tests and benchmarks under target/servers/; installs nothing.
#   servers.sh NAME...        redis memcached fio sqlite3 postgresql rocksdb perf prometheus chromium earlyoom
# Packages and those libraries of theirs that the machine lacks are fetched with `apt-get download`
# and unpacked with `dpkg -x`. Wrappers in target/servers/bin/ start them with these libraries.
source "$(dirname "$0")/lib.sh"

servers=$target_dir/servers
# Mixing another libc with this machine's loader can't work; these come from the machine itself.
never='^(libc6|libc-bin|libgcc-s1|libstdc\+\+6|gcc-[0-9]+-base|dpkg|debconf|systemd|init-system-helpers)$'

packages_of() {
    case $1 in
    redis) echo redis-server redis-tools ;;
    memcached | fio | sqlite3 | prometheus | earlyoom) echo "$1" ;;
    perf) echo linux-perf ;;
    rocksdb) echo rocksdb-tools ;;
    chromium) echo chromium-headless-shell ;;
    postgresql)
        local newest
        newest=$(apt-cache search --names-only '^postgresql-[0-9]+$' | cut -d' ' -f1 | sort -V | tail -n 1)
        echo "${newest:-postgresql-15} postgresql-client-${newest#postgresql-}" ;;
    *) fail "unknown server $1; there are: redis memcached fio sqlite3 postgresql rocksdb perf prometheus chromium earlyoom" ;;
    esac
}

programs_of() {
    case $1 in
    redis) echo redis-server redis-cli redis-benchmark ;;
    prometheus) echo promtool ;;
    rocksdb) echo db_bench ;;
    chromium) echo chromium-headless-shell ;;
    postgresql) echo initdb postgres pg_ctl psql pgbench ;;
    *) echo "$1" ;;
    esac
}

# The packages that would have to be installed for these, `NAME=VERSION` each.
closure() {
    {
        for package in "$@"; do
            apt-cache policy "$package" | sed -n "s/^  Candidate: \(.*\)/$package=\1/p"
        done
        apt-get install -s --no-install-recommends "$@" 2>/dev/null |
            sed -n 's/^Inst \([^ ]*\) \(\[[^]]*\] \)\?(\([^ ]*\) .*/\1=\3/p'
    } | sort -u | grep -vE "=\(none\)" | awk -F= -v never="$never" '$1 !~ never'
}

fetch() {
    local into=$1 list
    shift
    list=$(closure "$@")
    [ -n "$list" ] || return 1
    # shellcheck disable=SC2086
    (cd "$into" && apt-get download -qq -o APT::Sandbox::User=root $list >/dev/null 2>&1)
}

unpack() {
    local name=$1 root=$servers/$1 packages fresh
    packages=$(packages_of "$name")
    have apt-get && have dpkg || fail "$name: needs apt-get and dpkg; install $packages by hand"
    fresh=$(mktemp -d "$target_dir/servers.XXXXXX")
    # shellcheck disable=SC2064
    trap "rm -rf '$fresh'" EXIT
    say "unpacking $name under ${root#"$PWD"/}"
    apt_lists_are_there || apt_update || true
    # shellcheck disable=SC2086
    fetch "$fresh" $packages || { apt_update && fetch "$fresh" $packages; } ||
        fail "$name: apt can't download $packages"
    mkdir "$fresh/root"
    for package in "$fresh"/*.deb; do dpkg -x "$package" "$fresh/root"; done
    rm -rf "$root"
    mv "$fresh/root" "$root"
    rm -rf "$fresh"
}

wrap() {
    local root=$servers/$1 program=$2 real libraries
    # Of two of that name the smaller is a script that looks for the other in its place when installed.
    real=$(find "$root/usr" -name "$program" -perm -u+x ! -type d ! -path '*/share/*' -printf '%s %p\n' | sort -rn | head -n 1 | cut -d' ' -f2-)
    [ -n "$real" ] || fail "$1: no $program in the package"
    libraries=$(find "$root" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
    mkdir -p "$servers/bin"
    printf '#!/bin/sh\nexport LD_LIBRARY_PATH=%q${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\nexec %q "$@"\n' \
        "$libraries" "$real" >"$servers/bin/$program.fresh"
    chmod +x "$servers/bin/$program.fresh"
    mv "$servers/bin/$program.fresh" "$servers/bin/$program"
}

[ $# -gt 0 ] || fail "which? redis memcached fio sqlite3 postgresql rocksdb perf prometheus chromium earlyoom"
mkdir -p "$target_dir"
# Tests that want the same run side by side.
exec 9>"$target_dir/servers.lock"
flock 9
for name in "$@"; do
    [ -e "$servers/$name.done" ] && continue
    packages_of "$name" >/dev/null
    mkdir -p "$servers"
    unpack "$name"
    for program in $(programs_of "$name"); do wrap "$name" "$program"; done
    touch "$servers/$name.done"
done
