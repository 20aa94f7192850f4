#!/usr/bin/env bash
# Makes sure that what the build (and with `setup.sh test` the tests) needs is there.
#   setup.sh [test]
# Installs build packages through apt when root or sudo is there, and the Rust toolchain through
# rustup; says what it installs; starts no service. Exit 1 when something needed can't be had.
source "$(dirname "$0")/lib.sh"

missing=()
need() { have "$1" || missing+=("$2"); }
need_header() {
    compgen -G "/usr/include/$1" >/dev/null || compgen -G "/usr/include/*/$1" >/dev/null ||
        missing+=("$2")
}

need clang clang; need gcc gcc; need make make; need pkg-config pkg-config
need_header stdio.h libc6-dev; need_header libelf.h libelf-dev; need_header zlib.h zlib1g-dev
[ ${#missing[@]} = 0 ] || apt_install "${missing[@]}" || fail "the build needs ${missing[*]}"

if [ "${1:-}" = test ]; then
    missing=()
    need qemu-system-x86_64 qemu-system-x86; need cpio cpio; need depmod kmod
    busybox_is_static() { have busybox && ! ldd "$(command -v busybox)" >/dev/null 2>&1; }
    busybox_is_static || missing+=(busybox-static)
    virtiofsd_is_there() { have virtiofsd || [ -x /usr/lib/qemu/virtiofsd ] || [ -x /usr/libexec/virtiofsd ]; }
    # Only the tests in a guest need these, and they can be skipped: not having them is no failure.
    [ ${#missing[@]} = 0 ] || apt_install "${missing[@]}" || say "guest tests need ${missing[*]}"
    # Debian 12 ships it with QEMU, later releases as a package of its own.
    virtiofsd_is_there || ! have qemu-system-x86_64 || apt_install virtiofsd ||
        say "guest tests need virtiofsd"
    have mkfs.xfs || [ -x /sbin/mkfs.xfs ] || apt_install xfsprogs || say "the test of files on xfs needs xfsprogs"
    python3 -c 'import ensurepip' 2>/dev/null || apt_install python3-venv || say "the tests of the wheel for Python need python3-venv"
    have fio || apt_install fio || say "make evaluate-tiers needs fio"
    have tmux || apt_install tmux || say "the tests of strata top on a terminal need tmux"
fi

channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

if ! have cargo && ! have rustup; then
    have curl || apt_install curl ca-certificates || true
    installer=$(mktemp)
    trap 'rm -f "$installer"' EXIT
    if have curl && curl -sSf --proto '=https' --max-time 60 https://sh.rustup.rs -o "$installer" 2>/dev/null; then
        say "installing rustup into ~/.cargo and ~/.rustup"
        sh "$installer" -y -q --no-modify-path --profile minimal --default-toolchain none >/dev/null
    elif ! apt_install rustup 2>/dev/null; then
        fail "no Rust here and rustup can't be reached: install Rust $oldest or later (https://rustup.rs)"
    fi
fi

if have rustup; then
    # Asked of the disk and not of rustup: this runs before everything else and has to be quick.
    toolchain=${RUSTUP_HOME:-$HOME/.rustup}/toolchains/$channel-x86_64-unknown-linux-gnu/bin
    if [ ! -x "$toolchain/cargo-clippy" ] || [ ! -x "$toolchain/rustfmt" ]; then
        if rustup toolchain install "$channel" --profile minimal --component clippy --component rustfmt \
            --no-self-update >/dev/null 2>&1; then
            say "installed Rust $channel through rustup"
        else
            fail "rustup can't install Rust $channel (named in rust-toolchain.toml); try: rustup toolchain install $channel"
        fi
    fi
else
    found=$(rustc --version | cut -d' ' -f2)
    [ "$(printf '%s\n' "$oldest" "$found" | sort -V | head -n 1)" = "$oldest" ] ||
        fail "Rust $found is too old: needs $oldest or later (https://rustup.rs)"
fi
