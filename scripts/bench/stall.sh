#!/usr/bin/env bash
# Does watching hold up who is watched? A program reads all of its memory again and again, and maps, touches and unmaps a page all the
# time. It times each step: alone; under `strata top`, `strata wss --window 1s` and `strata record`; at 95 % of its memory under the kernel
# alone (`limit`) and under `strata run`.
#
# - Microseconds: the median over rounds of what 99.9 % of the steps stayed below, and of the longest step.
# - `longest call`: the longest call of Strata that held the lock of the address space, over all rounds. `share`: the time that all such
#   calls took, the most of any round.
#
# BENCH_ROUNDS rounds of BENCH_SECONDS each; BENCH_SIZES names the sizes, BENCH_PAGES their pages (base, huge).
source "$(dirname "$0")/lib.sh"
sizes=${BENCH_SIZES:-300M 2G 6G} pages=${BENCH_PAGES:-base huge} by=${BENCH_WATCHERS:-alone top wss record limit run}
rounds=${BENCH_ROUNDS:-5} seconds=${BENCH_SECONDS:-8}
program=0
stop() {
    [ $program = 0 ] || kill $program 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap stop EXIT
mkfifo "$work/ask" "$work/answer"

start() { # SIZE PAGES [COMMAND...]: starts it under a command
    local option=() size=$1
    [ "$2" = base ] || option=(--huge)
    shift 2
    "$@" "$programs/latency" --size "$size" "${option[@]}" <"$work/ask" >"$work/answer" 2>"$work/program.err" &
    program=$!
    exec 7>"$work/ask" 8<"$work/answer"
    read -r -u 8 _
}
end() {
    exec 7>&- 8<&-
    wait $program || fail "the program failed: $(cat "$work/program.err")"
    program=0
}
# What the program saw since it was asked before.
ask() { echo >&7 && read -r -u 8 line && echo "$line"; }

watch() { # WHO: starts it, `watcher` is its process
    local span=$((seconds + 3))s
    watcher=0
    case $1 in alone | limit | run) return ;; esac
    : >"$work/out" >"$work/err"
    case $1 in
    top) exec "$strata" top --once --for $span --format json --pid $program ;;
    wss) exec "$strata" wss --pid $program --window 1s --for $span --format json ;;
    record) exec "$strata" record --pid $program --for $span --force -o "$work/run.strata" ;;
    *) fail "no watcher called $1" ;;
    esac >"$work/out" 2>"$work/err" 7>&- 8<&- &
    watcher=$!
}
# The longest call (microseconds) and the share (percent) that the watcher tells of itself.
held() { # WHO
    case $1 in
    alone | limit) echo 0 0 ;;
    record) sed -nE 's/.*held up ([0-9.]+) ms at the longest, ([0-9.]+) %.*/\1 \2/p' "$work/err" | awk '{print $1 * 1000, $2}' ;;
    run) tr -d ' \n' <"$work/report" | sed -nE 's/.*"hold_up":\{"longest_us":([0-9]+),"share_percent":([0-9.]+).*/\1 \2/p' ;;
    *) sed -nE 's/.*"hold_up":\{"longest_us":([0-9]+),"share_percent":([0-9.]+).*/\1 \2/p' "$work/out" | tail -n 1 ;;
    esac
}

echo "| size | pages | by | mmap 99.9 % | mmap worst | fault 99.9 % | fault worst | read worst | munmap worst | longest call | share |"
echo "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
for size in $sizes; do
    for kind in $pages; do
        rm -f "$work"/rows.*
        killed=0
        budget=$(($(numfmt --from=iec "$size") / 20 * 19))
        for ((round = 0; round < rounds; round++)); do
            for who in $by; do
                under=()
                [[ $who != limit && $who != run ]] ||
                    under=("$strata" run --quiet --memory $budget --swap zram:2G --report "$work/report")
                [ "$who" != limit ] || under+=(--policy none)
                start "$size" "$kind" "${under[@]}" ${under:+--}
                ask >/dev/null
                # From its first walk on, which clears all that is in use.
                watch "$who"
                sleep "$seconds"
                if ! line=$(ask); then
                    # The kernel alone kills at such a limit now and then, with room in swap.
                    [ "$who" = limit ] || fail "the program ended under $who: $(cat "$work/program.err")"
                    exec 7>&- 8<&-
                    wait $program || true
                    program=0
                    killed=$((killed + 1))
                    continue
                fi
                [ $watcher = 0 ] || wait $watcher || fail "$who failed: $(cat "$work/err")"
                end
                row=
                for name in mmap_p999 mmap_max fault_p999 fault_max read_max munmap_max; do
                    row+=" $(sed -E "s/.*\"${name}_us\":([0-9]+).*/\1/" <<<"$line")"
                done
                echo "$row $(held "$who")" >>"$work/rows.$who"
            done
        done
        for who in $by; do
            [ -e "$work/rows.$who" ] || { echo "| $size | $kind | $who: killed each time |||||||||"; continue; }
            column() { awk -v c="$1" '{print $c}' "$work/rows.$who"; }
            echo "| $size | $kind | $who | $(for c in 1 2 3 4 5 6; do column $c | median; done | paste -sd'|' | sed 's/|/ | /g') | $(column 7 | sort -n | tail -n 1) | $(column 8 | sort -n | tail -n 1) % |"
        done
        [ $killed = 0 ] || echo "| | | killed by the kernel under \`limit\`: $killed of $rounds |||||||||"
    done
done
