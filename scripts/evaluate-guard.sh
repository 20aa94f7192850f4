#!/usr/bin/env bash
# `make evaluate-guard`: what `strata guard` gives back of real programs, and what that costs them. Rewrites the tables of
# docs/validation/guard.md; the words around them stay.
#   ROUNDS (5) rounds of MINUTES (1.5) for each of ARMS (names with commas), twice that for 0.2%/min; QUICK=1 is one short round of three arms, which rewrites nothing
# Programs come from this machine or, unpacked, from Debian; one that can't be had is left out, and the page says so. Each has a
# cgroup of its own, listens on nothing but sockets and pipes in a private directory, and is ended and removed with it.
source "$(dirname "$0")/lib.sh"

rounds=${ROUNDS:-5} minutes=${MINUTES:-1.5}
arms=(nothing 0.2%/min 1%/min "fixed age" "kernel's limit")
[ -z "${ARMS:-}" ] || IFS=, read -ra arms <<<"$ARMS"
[ -z "${QUICK:-}" ] || { rounds=1 minutes=1; arms=(nothing 1%/min "kernel's limit"); }

scripts/setup.sh
cargo build --release --quiet -p strata
strata=${STRATA:-$target_dir/release/strata}
"$strata" doctor >"$target_dir/doctor.txt" || { cat "$target_dir/doctor.txt"; fail "what is MISSING above is needed"; }
PATH=$PATH:$target_dir/servers/bin
needed() { have "$1" || scripts/servers.sh "$2" || say "$2 can't be had, and is left out"; }
needed redis-server redis; needed initdb postgresql; needed chromium-headless-shell chromium

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
out=$target_dir/evaluate-guard.json
: >"$out"
! have javac || javac -d "$work" scripts/guard/Service.java
# Others on this machine shall disturb little; programs and guard run alike.
{ echo -15 >/proc/$$/autogroup; } 2>/dev/null || true
nice -n -15 python3 -B scripts/guard/arms.py run "$strata" "$work" "$rounds" "$(awk -v m="$minutes" 'BEGIN {print m * 60}')" "$out" "${arms[@]}"
python3 -B scripts/guard/arms.py table "$out" >"$work/tables.md"
cat "$work/tables.md"
[ -z "${QUICK:-}" ] || exit 0

printf '%s, commit %s, kernel %s, %s processors, by\n\n    ROUNDS=%s MINUTES=%s make evaluate-guard\n' "$(date -u +%Y-%m-%d)" \
    "$(git rev-parse --short HEAD)" "$(uname -r)" "$(nproc)" "$rounds" "$minutes" | scripts/evaluate.py splice docs/validation/guard.md made
scripts/evaluate.py splice docs/validation/guard.md arms <"$work/tables.md"
