#!/usr/bin/env bash
# `make evaluate-density`: how many sandboxes a host holds, under the kernel alone, under strata guard, and where sandboxes know what they do
# not use. Rewrites the tables of docs/validation/density.md; the words around them stay.
#   PART=density    (the default) ROUNDS (3) rounds of ARMS (kernel kernel180 guard knows), SANDBOXES (90) of which one more starts each 3 s,
#                   in MIB (6000) MiB; HOLD (150) seconds after the last one
#   PART=leak       the same with one group that grows by 20 MiB a second from the 20th start on
# Locks most of this machine's memory meanwhile: nothing else should run. QUICK=1 is one round of 60 sandboxes, which rewrites nothing. STRATA
# names another binary.
source "$(dirname "$0")/lib.sh"

part=${PART:-density}
case $part in
density) arms=${ARMS:-kernel kernel180 guard knows} leak=0 ;;
leak) arms=${ARMS:-kernel guard} leak=20 ;;
*) fail "PART is density or leak" ;;
esac
rounds=${ROUNDS:-3} sandboxes=${SANDBOXES:-90} mib=${MIB:-6000} hold=${HOLD:-150}
[ -z "${QUICK:-}" ] || { rounds=1; sandboxes=60; hold=20; }

scripts/setup.sh
[ -n "${STRATA:-}" ] || cargo build --release --quiet -p strata
export STRATA=${STRATA:-$target_dir/release/strata} TEXT=$PWD/crates
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What guard-agents.toml says of containers, for the groups of this evaluation alone: others of this machine are nobody's to take from.
printf '[[rule]]\ncgroup = "/density/*"\npromise = "0.5%%/min"\nwhen_short = "freeze"\n' >"$work/guard"
for ((round = 0; round < rounds; round++)); do
    for arm in $arms; do
        say "round $((round + 1)): $arm"
        [ "$arm" = guard ] && name=$work/guard || name=$arm
        python3 -B scripts/density/density.py "$name" --sandboxes "$sandboxes" --mib "$mib" --hold "$hold" --leak "$leak" |
            tail -n 1 >>"$work/found"
    done
done
python3 -B scripts/density/table.py <"$work/found" | tee "$work/found.md"
[ -z "${QUICK:-}" ] || exit 0
{
    printf '%s, commit %s, kernel %s, %s processors, by\n\n    ROUNDS=%s SANDBOXES=%s MIB=%s HOLD=%s ARMS="%s" PART=%s make evaluate-density\n\n' "$(date -u +%Y-%m-%d)" \
        "$(git rev-parse --short HEAD)" "$(uname -r)" "$(nproc)" "$rounds" "$sandboxes" "$mib" "$hold" "$arms" "$part"
    cat "$work/found.md"
} | scripts/evaluate.py splice docs/validation/density.md "$part"
