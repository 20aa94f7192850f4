#!/usr/bin/env bash
# `make evaluate-tiers`: what goes down to slower memory and what comes up, counted in guests with two memory nodes, and the same strategies
# in the simulator. Rewrites the tables of docs/validation/tiering.md; the words around them stay.
# GUEST_KERNELS (6.1 6.12), GUEST_MGLRU (0 7): less than all of them, whose table is printed and put nowhere; so is that of some PARTS (halves cache large fio). QUICK=1 rewrites nothing.
# STRATA names another binary.
source "$(dirname "$0")/lib.sh"

if [ -n "${IN_GUEST:-}" ]; then
    exec python3 -B scripts/tiers/tiers.py "$STRATA" "$(mktemp -d)" /disk ${PARTS:-}
fi
scripts/setup.sh test
[ -n "${STRATA:-}" ] || cargo build --release --quiet -p strata
strata=${STRATA:-$target_dir/release/strata}
page=docs/validation/tiering.md
mkdir -p "$target_dir"

logs=()
for kernel in ${GUEST_KERNELS:-6.1 6.12}; do
    for mglru in ${GUEST_MGLRU:-0 7}; do
        log=$target_dir/evaluate-tiers-$kernel-$mglru
        scripts/guest.sh --kernel "$kernel" --mglru "$mglru" --nodes 2 --mem 3072 --disk 512 --timeout 3600 -- \
            env IN_GUEST=1 PARTS="${PARTS:-}" STRATA="$strata" scripts/evaluate-tiers.sh | tee "$log" >&2 || say "the guest $kernel $mglru did not end well"
        [ "$mglru" = 0 ] && lists='two lists' || lists=MGLRU
        logs+=("$kernel, $lists=$log")
    done
done
scripts/evaluate.py beside "${logs[@]}" >"$target_dir/evaluate-tiers-guests"
cat "$target_dir/evaluate-tiers-guests"
[ -n "${QUICK:-}${GUEST_KERNELS:-}${GUEST_MGLRU:-}${PARTS:-}" ] || {
    printf '%s, commit %s\n\n' "$(date -u +%Y-%m-%d)" "$(git rev-parse --short HEAD)"
    cat "$target_dir/evaluate-tiers-guests"
} | scripts/evaluate.py splice $page guests

simulated() {
    printf '| strategy | zipf, `mglru` | zipf, `two-list` | loop, `mglru` | loop, `two-list` |\n|---|---:|---:|---:|---:|\n'
    local trace policy strategy
    for strategy in never first-access rfc-as-coded refs five-conditions; do
        printf '| `%s` |' $strategy
        for trace in gen:zipf,pages=8000,via=fd gen:loop,pages=8000,via=fd; do
            for policy in mglru two-list; do
                "$strata" sim "$trace" --memory 9000 --tiers "25:75+page-cache=$strategy" --policy $policy --format json |
                    python3 -c 'import json, sys
tiers = json.load(sys.stdin)["runs"][0]["reclaim"]["tiers"]
hits, moved = tiers["hits"], tiers["pgpromote_success"]
print(f" {hits[0] / sum(hits):.1%}; {moved:,} |", end="")'
            done
        done
        echo
    done
}
simulated >"$target_dir/evaluate-tiers-sim"
cat "$target_dir/evaluate-tiers-sim"
[ -n "${QUICK:-}" ] || scripts/evaluate.py splice $page simulated <"$target_dir/evaluate-tiers-sim"
