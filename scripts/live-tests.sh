#!/usr/bin/env bash
# Runs the live tests, each in a process, a run directory and cgroups of its own, three at a time.
# Swap is the machine's. scripts/live-swap.txt names those that need it for themselves (`sole`), which run one after another, and
# beside them only those that make and use none (`none`).
#   live-tests.sh [--beside | --alone | --again FILE] [FILTER]
# FILTER: only tests whose `CRATE MODULE::TEST` contains it. --again: those that FILE names, a line each, one after another.
# --beside, --alone: only those that run beside each other, only those that do not.
# Those that scripts/live-alone.txt names run last, one after another, and nothing else beside them.
# Writes target/live/results, a line `ok|failed SECONDS CRATE MODULE::TEST` each. Exit 1 when a test failed or left something.
source "$(dirname "$0")/lib.sh"

work=$target_dir/live
# A test that takes longer hangs, and must not hold up the rest.
LIVE_LIMIT_S=${LIVE_LIMIT_S:-180}
# How many run beside each other.
LIVE_LANES=${LIVE_LANES:-3}
# The group id of the first; whoever runs another set at the same time takes ids of its own.
LIVE_FIRST_GID=${LIVE_FIRST_GID:-61000}

# What a run of Strata or a test may leave on the machine.
traces() {
    find /sys/fs/cgroup -maxdepth 5 -type d -name '*strata*' 2>/dev/null || true
    awk 'NR > 1 {print "swap", $1}' /proc/swaps
    find /run/strata -mindepth 1 -maxdepth 1 -type d 2>/dev/null || true
    losetup -a 2>/dev/null | sed 's/^/attached /' || true
}

# Undoes traces, a line each.
undo() {
    local what path
    while read -r what path; do
        case $what in
        swap) swapoff "$path" && { [[ $path != /dev/zram* ]] || echo 1 >"/sys/block/${path#/dev/}/reset"; } ;;
        attached) losetup -d "${path%%:*}" ;;
        /sys/fs/cgroup/*) rmdir "$what" ;;
        *) rm -rf "$what" ;;
        esac || true
    done
}

# Ends what a test that failed or took too long left running, which keeps its swap from going: its processes carry its run directory in their environment.
end_processes_of() {
    local signal process
    for signal in TERM KILL; do
        for process in /proc/[0-9]*; do
            ! grep -qzxF "STRATA_RUN_DIR=$1" "$process/environ" 2>/dev/null || kill -s $signal "${process#/proc/}" 2>/dev/null || true
        done
        [ $signal = KILL ] || sleep 5
    done
}

# Undoes what dead sessions of an ended test left in its run directory, as any next start does; what that can't undo stays there, and is told
# by a file beside it.
clean() {
    ! compgen -G "$1/*/state.json" >/dev/null ||
        STRATA_RUN_DIR=$1 timeout 60 "$target_dir/debug/strata" run --quiet --memory 64M -- true </dev/null >/dev/null 2>&1 || true
    if compgen -G "$1/*/state.json" >/dev/null; then touch "$1.left"; else rm -rf "$1" "$1.left"; fi
}

# One test: NUMBER MODE CRATE PACKAGE BINARY TEST.
one() {
    local number=$1 mode=$2 name="$3 $6" package=$4 binary=$5 test=$6 status=0 begin=$EPOCHREALTIME seconds verdict=ok
    local left log=$work/logs/$number run_dir=$LIVE_RUN_DIR/$number command=()
    if [ "$mode" != alone ] && [ "$(id -u)" = 0 ]; then
        # What it makes has a group id by which it is known for its own (see leaks.rs).
        mkdir -m 755 "$run_dir"
        command=(env STRATA_RUN_DIR="$run_dir" STRATA_TEST_BESIDE=1 setpriv --regid "$((LIVE_FIRST_GID + number))" --keep-groups)
    fi
    # What failed before may have left swap, which a keeper takes down within half a minute, or the next start where that died, too.
    for _ in {1..20}; do
        [ "$mode" = sole ] && [ "$(wc -l </proc/swaps)" -gt "$LIVE_NR_SWAPS" ] || break
        sleep 2
        for left in "$LIVE_RUN_DIR"/*.left; do [ ! -e "$left" ] || clean "${left%.left}"; done
    done
    "${command[@]}" env -C "$package" CARGO_MANIFEST_DIR="$package" timeout -k 10 "$LIVE_LIMIT_S" \
        "$binary" --exact "$test" --test-threads=1 </dev/null >"$log" 2>&1 || status=$?
    [ "$status" = 0 ] || end_processes_of "$run_dir"
    seconds=$(awk "BEGIN {printf \"%.1f\", $EPOCHREALTIME - $begin}")
    if [ "$status" != 0 ] || ! grep -q '^test result: ok\. 1 passed' "$log"; then
        verdict=failed
        # In one piece, as others write at the same time.
        printf '\n-- %s\n%s\n(status %s; 124: took longer than %s s)\n' "$name" "$(cat "$log")" "$status" "$LIVE_LIMIT_S"
    fi
    # What a test that failed left is undone by those who look after it, then as by any next start.
    for _ in {1..100}; do
        [ $verdict = failed ] && [ -n "$(ls -A "$run_dir" 2>/dev/null)" ] || break
        sleep 0.1
    done
    clean "$run_dir"
    printf '%s %s %s\n' $verdict "$seconds" "$name" | tee -a "$work/results"
}

# Those of the plan with this mode, so many at a time.
lane() { sed -n "s/^\([0-9]* $1 \)/\1/p" "$work/plan" | xargs -r -P "$2" -L 1 scripts/live-tests.sh --one; }

case ${1:-} in
--one | --lane)
    "${1#--}" "${@:2}"
    exit ;;
esac

which=all list=''
case ${1:-} in
--beside | --alone) which=${1#--}; shift ;;
--again) which=again list=$2; shift 2 ;;
esac
mkdir -p "$work/logs"
rm -f "$work"/logs/*
: >"$work/results"
test_binaries -p strata --test live >"$work/binaries" || fail "some live tests do not compile"
while read -r source binary; do
    package=$(package_of "$source")
    tests_of "$binary" | sed "s,^,$(basename "$package") $package $binary ,"
done <"$work/binaries" >"$work/all"
[ -s "$work/all" ] || fail "cargo built no live test"
# Whether a list names a test or its module: FILE WORD CRATE TEST.
is_named() { grep -qxF -e "$2$3 ${4%::*}::" -e "$2$3 $4" "$1"; }

number=0
while read -r crate package binary test; do
    [[ "$crate $test" = *"${1:-}"* ]] || continue
    mode=beside
    if is_named scripts/live-alone.txt '' "$crate" "$test"; then
        mode=alone
    elif is_named scripts/live-swap.txt 'sole ' "$crate" "$test"; then
        mode=sole
    elif is_named scripts/live-swap.txt 'none ' "$crate" "$test"; then
        mode=none
    fi
    case $which in
    beside) [ $mode != alone ] || continue ;;
    alone) [ $mode = alone ] || continue ;;
    again) grep -qxF "$crate $test" "$list" || continue; mode=alone ;;
    esac
    number=$((number + 1))
    echo "$number $mode $crate $package $binary $test"
done <"$work/all" >"$work/unsorted"
# What took longest last time begins first.
touch "$work/times"
awk 'FILENAME == ARGV[1] {seconds[$2 " " $3] = $1; next} {name = $3 " " $6; print name in seconds ? seconds[name] : 5, $0}' \
    "$work/times" "$work/unsorted" | sort -s -k 1,1rn | cut -d ' ' -f 2- >"$work/plan"
[ -s "$work/plan" ] || [ -n "${1:-}" ] || fail "no live test is in the plan"
say "$(wc -l <"$work/plan") live tests"

traces | sort >"$work/traces_before"
LIVE_RUN_DIR=$(mktemp -d /run/strata-tests.XXXXXX 2>/dev/null || mktemp -d)
chmod 755 "$LIVE_RUN_DIR"
LIVE_NR_SWAPS=$(wc -l </proc/swaps)
export LIVE_RUN_DIR LIVE_LIMIT_S LIVE_FIRST_GID LIVE_NR_SWAPS
lane beside "$LIVE_LANES"
printf '%s\n' 'sole 1' "none $((LIVE_LANES > 2 ? LIVE_LANES - 1 : 1))" | xargs -P 2 -L 1 scripts/live-tests.sh --lane
lane alone 1
rmdir "$LIVE_RUN_DIR" 2>/dev/null || say "not undone: $LIVE_RUN_DIR"
# A keeper looks each half minute whether swap can go.
for _ in {1..600}; do
    left=$(traces | sort | comm -13 "$work/traces_before" -)
    [ -n "$left" ] || break
    sleep 0.1
done
# What is left where a test failed half-way tells nothing more than that, but would disturb those that come next.
if [ -n "$left" ] && grep -q '^failed ' "$work/results"; then
    say "left behind where a test failed, and undone: ${left//$'\n'/, }"
    undo <<<"$left"
elif [ -n "$left" ]; then
    echo "failed 0 all live tests: left behind: ${left//$'\n'/, }" | tee -a "$work/results"
fi
sed 's/^[a-z]* //' "$work/results" >>"$work/times"
echo "the slowest:"
sort -k2 -rn "$work/results" | sed -n 1,10p
! grep -q '^failed ' "$work/results"
