# What the scripts share; sourced, not run. Leaves the caller in the root of the checkout.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# rustup's own place, in case the shell that called us has not been told about it yet.
case ":$PATH:" in *":$HOME/.cargo/bin:"*) ;; *) PATH=$PATH:$HOME/.cargo/bin ;; esac
# Sbin holds swapon, modprobe and mkswap, and is not in every user's path.
case ":$PATH:" in *":/usr/sbin:"*) ;; *) PATH=$PATH:/usr/sbin:/sbin ;; esac

target_dir=${CARGO_TARGET_DIR:-$PWD/target}
me=$(basename "$0" .sh)

say() { printf '%s: %s\n' "$me" "$*" >&2; }
fail() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Runs a command as root: directly, or through sudo when it needs no password (or can ask for one).
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif have sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then sudo -- "$@"
    else return 1; fi
}

apt_lists_are_there() { compgen -G '/var/lib/apt/lists/*Packages*' >/dev/null; }

apt_update() {
    say "apt-get update (the package lists are missing or old)"
    as_root apt-get update -qq >/dev/null || { say "apt-get update failed"; return 1; }
}

# While packages are installed no service may be started by them, whatever else the machine allows.
without_services() {
    local policy=/usr/sbin/policy-rc.d made='' status=0
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null && as_root chmod 755 $policy
        made=yes
    fi
    "$@" || status=$?
    [ -z "$made" ] || as_root rm -f $policy
    return $status
}

apt_install() {
    have apt-get || { say "no apt-get here; install by hand: $*"; return 1; }
    as_root true || { say "needs root or sudo to install: apt-get install $*"; return 1; }
    apt_lists_are_there || apt_update || return 1
    say "installing with apt: $*"
    local command=(env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l apt-get install -y -qq
        --no-install-recommends -o Dpkg::Use-Pty=0 "$@")
    without_services as_root "${command[@]}" >/dev/null 2>&1 && return 0
    # Old lists name packages that the archive no longer has.
    apt_update && without_services as_root "${command[@]}" >/dev/null
}

# Builds test binaries as `cargo build` is told (`--workspace --lib --bins --tests`; those that can be, if some can not), and
# prints a line `SOURCE BINARY` for each.
test_binaries() {
    cargo build "$@" --keep-going --quiet --message-format=json-render-diagnostics |
        sed -n 's/.*"src_path":"\([^"]*\)".*"overflow_checks":[a-z]*,"test":true}.*"executable":"\([^"]*\)".*/\1 \2/p' |
        sort -u
}

# The names of the tests of a binary, without those that take too long for every day.
tests_of() {
    comm -23 <("$1" --list --format terse | sort) <("$1" --list --format terse --ignored | sort) | sed -n 's/: test$//p'
}

# Those lines that name (with -v: that do not name) the live tests of a crate.
is_live() { grep "$@" -E "/tests/live/main\.rs( |$)"; }

# The directory of the package that a source file belongs to.
package_of() { sed -E 's,(.*/crates/[^/]*)/.*,\1,' <<<"$1"; }

# The names of the tests that failed, from a log of libtest: they stand below its last `failures:`.
failed_tests() {
    awk '/^failures:$/ {n = 0} sub(/^    /, "") {name[n++] = $0} END {for (i = 0; i < n; i++) print name[i]}' "$1"
}

# Runs a command with its output both shown and kept: run_logged LOG COMMAND... Ends with the command
# even when somebody it left behind still holds its output open.
run_logged() {
    local log=$1 pid status=0
    shift
    : >"$log"
    "$@" </dev/null >"$log" 2>&1 &
    pid=$!
    tail -n +1 -f --pid=$pid -s 0.2 "$log"
    wait $pid || status=$?
    return $status
}
