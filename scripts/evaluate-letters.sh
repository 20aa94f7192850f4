#!/usr/bin/env bash
# `make evaluate-letters`: what the letters of the multi-generational LRU claim, tried at this machine's size. Rewrites the tables of
# docs/validation/letters.md and docs/validation/letters.csv; the words around the tables stay.
#   ROW=n      one row, or some ("1 5"): 1 fio, 2 memcached, 5 scanned for each reclaimed, 8 code, 7 apps, 10 replicas and 11 promotion in
#              the simulator; of the others the last table tells what other evaluations have found. `prices`: what the letters saw on big machines,
#              by the simulator's prices. All of them by default
#   ROUNDS     (5) of each arm, in turns
# GUEST='--kernel 6.12' ROW=5 runs in a guest: counts say something there, times do not. With '--mglru 0' the two lists.
# QUICK=1 is one round of 3 s each, which rewrites nothing. STRATA names another binary. Files lie in WORK (/var/tmp), on a disk.
# Nothing else should run meanwhile: counters are the machine's.
source "$(dirname "$0")/lib.sh"

rows=${ROW:-1 2 3 4 5 6 7 8 9 10 11 12 prices} rounds=${ROUNDS:-5} quick=${QUICK:-}
[ -z "$quick" ] || rounds=1
for row in $rows; do [[ $row = prices || $row =~ ^[0-9]+$ && $row -ge 1 && $row -le 12 ]] || fail "ROW is 1 to 12, or prices"; done
[ -z "${GUEST:-}" ] || [ "$rows" = 5 ] || fail "in a guest only ROW=5"
[ -n "${IN_GUEST:-}" ] || scripts/setup.sh
[ -n "${STRATA:-}" ] || cargo build --release --quiet -p strata
strata=${STRATA:-$target_dir/release/strata}
PATH=$PATH:$target_dir/servers/bin
needed() { [[ " $rows " != *" $1 "* ]] || have "$2" || scripts/servers.sh "$2" || fail "$2 can't be had"; }
needed 1 fio && needed 8 fio && needed 2 memcached
for program in forget kv zipf idle code; do scripts/program.sh $program >/dev/null; done

page=docs/validation/letters.md raw=docs/validation/letters.csv letters=(python3 -B scripts/letters/letters.py)
commit=${COMMIT:-$(git rev-parse --short HEAD)}
work=$(mktemp -d -p "${WORK:-/var/tmp}")
started=''
finish() {
    # It unmounts, and ends what it has started.
    [ -z "$started" ] || { kill "$started" 2>/dev/null && wait "$started" || true; }
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 143' TERM HUP
trap 'exit 130' INT
# In the background, so that a signal comes to us at once.
if [ -n "${GUEST:-}" ]; then
    # shellcheck disable=SC2086
    scripts/guest.sh --mem 2048 --timeout 7200 $GUEST -- env IN_GUEST=1 WORK=/tmp ROW=5 ROUNDS="$rounds" QUICK="$quick" COMMIT="$commit" \
        STRATA="$strata" scripts/evaluate-letters.sh >"$work/told" &
else
    # shellcheck disable=SC2086
    "${letters[@]}" run "$strata" "$work" "$target_dir/test-programs" "$rounds" "$commit" ${rows//prices/} >"$work/told" &
fi
started=$! status=0
wait $started || status=$?
started=''
# Both streams of a guest are one.
tr -d '\r' <"$work/told" | grep '^20[0-9-]*,' >"$work/fresh" || true
[ -z "${GUEST:-}" ] || grep -v '^20[0-9-]*,' "$work/told" >&2 || true
[ -z "${IN_GUEST:-}" ] || { cat "$work/fresh"; exit $status; }
[ -z "$quick" ] || raw=$work/raw
"${letters[@]}" keep "$raw" <"$work/fresh"
for row in 1 2 5 7 8 10 11; do
    [[ " $rows " = *" $row "* ]] || continue
    "${letters[@]}" table "$raw" $row >"$work/table"
    if [ -n "$quick" ]; then cat "$work/table"; else scripts/evaluate.py splice "$page" "row-$row" <"$work/table"; fi
done
if [[ " $rows " = *" prices "* ]]; then
    "${letters[@]}" prices "$strata" "$commit" >"$work/table"
    if [ -n "$quick" ]; then cat "$work/table"; else scripts/evaluate.py splice "$page" prices <"$work/table"; fi
fi
"${letters[@]}" summary "$raw" "$commit" >"$work/table"
cat "$work/table"
[ -n "$quick" ] || scripts/evaluate.py splice "$page" summary <"$work/table"
exit $status
