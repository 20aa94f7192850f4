#!/usr/bin/env bash
# Is every page right when Strata is killed? `checksum` runs at half of its footprint, each page carrying its index, version and checksum.
# After a random while SIGKILL goes to Strata, to its keeper, or to both, in turns. Given are the rounds, the pages that the program
# verified, those that were wrong, the rounds in which the program waited for the next Strata to lift its limit, and the
# rounds after which a group or a journal was left. BENCH_ROUNDS (60), BENCH_SEED.
source "$(dirname "$0")/lib.sh"
rounds=${BENCH_ROUNDS:-60}
RANDOM=${BENCH_SEED:-1}
root=/sys/fs/cgroup
[ -e $root/cgroup.controllers ] || root=/sys/fs/cgroup/memory
# What is there of a run: its group and its journal, which goes when all else is undone.
left_of() {
    find $root -maxdepth 4 -type d -name "strata-$1" 2>/dev/null
    [ ! -e "/run/strata/$1" ] || echo "/run/strata/$1"
}
declare -A nr verified wrong left waited
for ((round = 0; round < rounds; round++)); do
    case $((round % 3)) in 0) whom=strata ;; 1) whom=keeper ;; 2) whom=both ;; esac
    "$strata" run --quiet --memory 64M --swap zram:256M -- \
        "$programs/checksum" --size 128M --seconds 4 --threads 2 >"$work/out" 2>"$work/err" &
    run=$!
    program=$(wait_for_program checksum $run) || fail "the program did not start: $(cat "$work/err")"
    keeper=$(pgrep -f "keeper --state /run/strata/$run\$" || true)
    sleep "$((RANDOM % 3)).$((RANDOM % 10))"
    case $whom in
    strata) kill -KILL $run ;;
    keeper) kill -KILL "$keeper" ;;
    both) kill -KILL $run "$keeper" ;;
    esac
    wait $run 2>/dev/null || true
    # On cgroup v1 the kernel's killer is off while Strata holds the budget. With Strata and its keeper gone at once, a
    # program that finds nothing to reclaim at the limit waits, until whoever comes next lifts it.
    for ((tries = 0; tries < 200; tries++)); do
        [ -e "/proc/$program" ] || break
        sleep 0.1
    done
    if [ -e "/proc/$program" ]; then
        waited[$whom]=$((${waited[$whom]:-0} + 1))
        "$strata" run --quiet --memory 64M -- true
        while [ -e "/proc/$program" ]; do sleep 0.1; done
    fi
    # Who was killed with its keeper is cleaned up after by whoever comes next.
    [ $whom != both ] || "$strata" run --quiet --memory 64M -- true
    for ((tries = 0; tries < 50; tries++)); do
        [ -n "$(left_of $run)" ] || break
        sleep 0.1
    done
    [ -z "$(left_of $run)" ] || { left[$whom]=$((${left[$whom]:-0} + 1)); left_of $run >&2; }
    bad=$(field bad "$work/out")
    [ -n "$bad" ] || fail "round $round ($whom): no answer: $(cat "$work/out" "$work/err")"
    nr[$whom]=$((${nr[$whom]:-0} + 1))
    verified[$whom]=$((${verified[$whom]:-0} + $(field verified "$work/out")))
    wrong[$whom]=$((${wrong[$whom]:-0} + bad))
done
echo "| killed | rounds | pages verified | wrong | waited | something left |"
echo "|---|---:|---:|---:|---:|---:|"
for whom in strata keeper both; do
    echo "| $whom | ${nr[$whom]:-0} | ${verified[$whom]:-0} | ${wrong[$whom]:-0} | ${waited[$whom]:-0} | ${left[$whom]:-0} |"
    [ "${wrong[$whom]:-0}" = 0 ] || fail "wrong pages"
done
