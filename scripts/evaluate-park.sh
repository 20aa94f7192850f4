#!/usr/bin/env bash
# `make evaluate-park`: how much memory real idle programs give when they are parked, and how soon they answer again. Rewrites the
# tables of docs/validation/park.md; the words around them stay.
#   PART=programs   (the default) real programs, each never parked, parked and woken, parked and touched cold, and reclaimed by the
#                   kernel alone; ROUNDS (5) rounds
#   PART=many       NUMBER (200) sleeping programs of 30 MiB are parked, and 20 of them woken
# SWAP (zram:4G) is where they go, as strata park has it. QUICK=1 is one round, which rewrites nothing. STRATA names another binary.
# Programs come from this machine or, unpacked, from Debian; one that can't be had is left out.
source "$(dirname "$0")/lib.sh"

part=${PART:-programs}
case $part in
programs) number=${ROUNDS:-5}; [ -z "${QUICK:-}" ] || number=1 ;;
many) number=${NUMBER:-200}; [ -z "${QUICK:-}" ] || number=10 ;;
*) fail "PART is programs or many" ;;
esac
swap=${SWAP:-zram:4G}

scripts/setup.sh
[ -n "${STRATA:-}" ] || cargo build --release --quiet -p strata
strata=${STRATA:-$target_dir/release/strata}
PATH=$PATH:$target_dir/servers/bin
needed() { have "$1" || scripts/servers.sh "$2" || say "$2 can't be had, and is left out"; }
if [ $part = programs ]; then
    needed redis-server redis; needed initdb postgresql; needed chromium-headless-shell chromium
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
"$strata" doctor >"$work/doctor.txt" || { cat "$work/doctor.txt" >&2; fail "what is MISSING above is needed"; }
! have javac || javac -d "$work" scripts/guard/Service.java
python3 -B scripts/park/park.py $part "$strata" "$work" "$number" "$swap" >"$work/found.md"
cat "$work/found.md"
[ -z "${QUICK:-}" ] || exit 0

command="SWAP=$swap make evaluate-park"
case $part in
programs) command="ROUNDS=$number $command" ;;
many) command="NUMBER=$number PART=many $command" ;;
esac
kind=${swap%%:*}
{
    printf '%s, commit %s, kernel %s, %s processors, by\n\n    %s\n\n' "$(date -u +%Y-%m-%d)" "$(git rev-parse --short HEAD)" \
        "$(uname -r)" "$(nproc)" "$command"
    cat "$work/found.md"
} | scripts/evaluate.py splice docs/validation/park.md "$part-$kind"
