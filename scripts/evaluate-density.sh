#!/usr/bin/env bash
# `make evaluate-density`: how many sandboxes, or tabs of a browser, a host holds, under the kernel alone, under strata guard, and beside others.
# Rewrites the tables of docs/validation/density.md; the words around them stay.
#   PART=density    (the default) ROUNDS (3) rounds of ARMS (kernel kernel180 guard knows earlyoom oomd), SANDBOXES (90) of which one more
#                   starts each STEP (3) s, in MIB (6000) MiB; HOLD (150) seconds after the last one
#   PART=leak       the same with one group that grows by 20 MiB a second from start LEAK_AT (20) on, which may be after the last one; the others'
#                   calls within LEAK_SPAN (10) starts before that and after it are told apart; ARMS kernel and guard
#   PART=real       the same with sandboxes of real programs, ARMS kernel and guard, SANDBOXES 45, STEP 6, HOLD 60
#   PART=tabs       one more tab of chromium each STEP (3) s, up to TABS (110), in MIB (2500) MiB, ARMS kernel and guard
# GUEST='--kernel 6.12' runs density or leak in a guest, with cgroup v2 and an emulated processor: counts say something there, times do not.
# SANDBOXES 12, MIB 1200, STEP 15, HOLD 120, LEAK_AT 8, LEAK_SPAN 4 and one round then.
# Locks most of this machine's memory meanwhile: nothing else should run. QUICK=1 is one round, of 60 sandboxes, 30 real ones in 4000 MiB or 60 tabs
# in 1500, which rewrites nothing. STRATA names another binary. Programs that the machine lacks are put below target/; an arm that can't run is told and left out.
source "$(dirname "$0")/lib.sh"

part=${PART:-density} quick=${QUICK:-}
[ -z "${GUEST:-}" ] || : "${SANDBOXES:=12}" "${MIB:=1200}" "${STEP:=15}" "${HOLD:=120}" "${ROUNDS:=1}" "${LEAK_AT:=8}" "${LEAK_SPAN:=4}"
arms="kernel guard" count=${SANDBOXES:-90} mib=${MIB:-6000} step=${STEP:-3} hold=${HOLD:-150} starts="40 50" options=() needed=()
case $part in
density) arms="kernel kernel180 guard knows earlyoom oomd" ;;
leak) options=(--leak 20 --leak-at "${LEAK_AT:=20}" --leak-span "${LEAK_SPAN:=10}") ;;
real) count=${SANDBOXES:-45} step=${STEP:-6} hold=${HOLD:-60} starts="20 30" options=(--real) ;;
tabs) count=${TABS:-110} mib=${MIB:-2500} needed=(chromium-headless-shell:chromium) ;;
*) fail "PART is density, leak, real or tabs" ;;
esac
arms=${ARMS:-$arms} rounds=${ROUNDS:-3}
case "$part $arms " in "real "*" knows "* | "tabs "*" knows "*) fail "the arm knows is of the parts density and leak" ;; esac
[ -z "$quick" ] || case $part in
real) rounds=1 count=${SANDBOXES:-30} mib=${MIB:-4000} hold=${HOLD:-20} starts="10 20" ;;
tabs) rounds=1 count=${TABS:-60} mib=${MIB:-1500} ;;
*) rounds=1 count=${SANDBOXES:-60} hold=${HOLD:-20} ;;
esac

[ -n "${IN_GUEST:-}" ] || scripts/setup.sh
[ -n "${STRATA:-}" ] || cargo build --release --quiet -p strata
export STRATA=${STRATA:-$target_dir/release/strata} TEXT=$PWD/crates TOOLS=$target_dir/density REPOSITORY=$PWD
PATH=$PATH:$target_dir/servers/bin
[[ " $arms " != *" earlyoom "* ]] || needed+=(earlyoom:earlyoom)
for program in "${needed[@]}"; do have "${program%:*}" || scripts/servers.sh "${program#*:}" || fail "${program#*:} can't be had"; done
# What sandboxes of real programs are made of, pandas and the language server of TypeScript, which is of its release 5 the last in JavaScript.
if [ "$part" = real ]; then
    have node && have npm && have git || fail "needs node, npm and git"
    [ -x "$TOOLS/venv/bin/pip" ] || python3 -m venv "$TOOLS/venv" || fail "python3 -m venv fails"
    "$TOOLS/venv/bin/pip" --disable-pip-version-check --quiet install pandas || fail "pandas can't be had"
    [ -d "$TOOLS/node_modules/typescript" ] || npm install --silent --no-audit --no-fund --prefix "$TOOLS" typescript@5 @types/node@20 ||
        fail "the language server of TypeScript can't be had"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Guard-agents.toml with its rule for containers alone, for the groups of this evaluation: others of this machine are nobody's to take from.
# Sessions here, and the time between them, are shorter than its park_after.
awk -v RS= -v ORS='\n\n' '!/\[\[rule\]\]/ || /\ncontainer = /' packaging/systemd/guard-agents.toml |
    sed 's|^container = .*|cgroup = "/density/*"|; /^park_after = /d' >"$work/guard"
[ "$(grep -c '^\[\[rule\]\]\|^cgroup = "/density' "$work/guard")" = 2 ] || fail "guard-agents.toml has no rule for containers"
measure() {
    if [ "$part" = tabs ]; then
        python3 -B scripts/density/tabs.py "$1" --tabs "$count" --mib "$mib" --step "$step"
    else
        python3 -B scripts/density/density.py "$1" --sandboxes "$count" --mib "$mib" --step "$step" --hold "$hold" "${options[@]}"
    fi
}
if [[ " $arms " = *" oomd "* ]] && ! { grep -qs memory /sys/fs/cgroup/cgroup.controllers && [ -e /proc/pressure/memory ]; }; then
    skipped="Left out: oomd, whose rule needs cgroup v2 with its memory controller, and pressure."
    say "$skipped"
    arms=$(sed 's/\boomd\b *//' <<<"$arms")
fi
# Lines of JSON, one for each run.
run() {
    for ((round = 0; round < rounds; round++)); do
        for arm in $arms; do
            say "round $((round + 1)): $arm"
            [ "$arm" = guard ] && name=$work/guard || name=$arm
            measure "$name" | tail -n 1
        done
    done
}
in_guest() {
    local asked=(IN_GUEST=1 PART="$part" ROUNDS="$rounds" SANDBOXES="$count" MIB="$mib" HOLD="$hold" STEP="$step" ARMS="$arms" STRATA="$STRATA" WORK=/disk/density
        LEAK_AT="${LEAK_AT:-}" LEAK_SPAN="${LEAK_SPAN:-}")
    # shellcheck disable=SC2086
    scripts/guest.sh --mem 3072 --disk 2048 --timeout 7200 $GUEST -- env "${asked[@]}" scripts/evaluate-density.sh | tr -d '\r'
}
if [ -n "${IN_GUEST:-}" ]; then
    run
    exit
fi
if [ -n "${GUEST:-}" ]; then in_guest; else run; fi | tee "$work/found" >&2
# shellcheck disable=SC2086
{ python3 -B scripts/density/table.py $starts <"$work/found"; [ -z "${skipped:-}" ] || printf '\n%s\n' "$skipped"; } | tee "$work/found.md"
[ -z "$quick" ] || exit 0
[ "$part" = tabs ] && asked="TABS=$count STEP=$step" || asked="SANDBOXES=$count STEP=$step HOLD=$hold"
[ "$part" != leak ] || asked+=" LEAK_AT=$LEAK_AT LEAK_SPAN=$LEAK_SPAN"
{
    printf '%s, commit %s, kernel %s, %s processors, by\n\n    ROUNDS=%s %s MIB=%s ARMS="%s" PART=%s%s make evaluate-density\n\n' "$(date -u +%Y-%m-%d)" \
        "$(git rev-parse --short HEAD)" "$(uname -r)" "$(nproc)" "$rounds" "$asked" "$mib" "$arms" "$part" "${GUEST:+ GUEST=\"$GUEST\"}"
    cat "$work/found.md"
} | scripts/evaluate.py splice docs/validation/density.md "$part${GUEST:+-guest}"
