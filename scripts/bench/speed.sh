#!/usr/bin/env bash
# How fast is a program under its budget? Every load runs at 60 % of its footprint (memcached at 89 %), under Strata and under the
# kernel's limit alone at the same memory, in turns: once with a processor free, once with a busy loop on each.
#
# - In each round Strata goes first. The kernel's limit (`none`) is then set to the mean usage of that run, sampled from outside every
#   100 ms once 95 % of the budget are reached.
# - Operations a second are of wall time (minimum, median, maximum over rounds) and of CPU time (median; program, Strata and kernel
#   threads, the filling included). Faults are major faults. `idle`: processors idle in the last seconds of a run.
# - A ratio is the median over rounds of Strata's run divided by the run of the kernel's limit just after it: a machine that gets slower
#   meanwhile slows both.
# - A run that the kernel's OOM killer ended counts as none and is told; it is tried twice in a round. A round without a pair is left
#   out of the ratio, which then says of how many rounds it is.
# - Two processes begin together 2 s after their start. The slower one counts, both are shown.
# - `memcached` is as Debian starts it: its housekeeping takes most of a second processor. `memcached_plain` has none. `quarter_time`
#   works for a quarter of the time. Servers are asked for 16 keys at a time. A mapped file is as fast as the disk.
#
# BENCH_SECONDS is the length of a run (5; 10 for `zipf_0.99`, `zipf_1.2`, `scan`, `mapped_file` and `two_threads`:
# docs/decisions/22-limits-of-the-gain.md says why), BENCH_RUNS the rounds (3), BENCH_LOADS the loads (all but `huge_pages` and
# `quarter_time`, which have to be named), BENCH_PROCESSORS what the processors are ("free busy").
source "$(dirname "$0")/lib.sh"
scripts/servers.sh redis memcached
bin=$target_dir/servers/bin
seconds=${BENCH_SECONDS:-5} longer_seconds=${BENCH_SECONDS:-10} tries=2
rounds=${BENCH_RUNS:-3}
loads=${BENCH_LOADS:-zipf_0.99 zipf_1.2 scan phases mapped_file two_threads two_processes redis memcached memcached_plain}
trap 'rest; rm -rf "$work" "$target_dir/bench.mapped"' EXIT

# CPU time of each kernel thread so far, in clock ticks; not of the kernel's own watcher of accesses.
kernel_ticks() { cat /proc/[0-9]*/stat 2>/dev/null | awk '$4 == 2 && $2 !~ /kdamond/ {print $1 "/" $22, $14 + $15}'; }
# What kernel threads took between two of these. Workers come and go: one that ended takes its time with
# it, one that is new had none before.
ticks_between() { awk 'NR == FNR {before[$1] = $2; next} {sum += $2 - before[$1]} END {print sum + 0}' "$1" "$2"; }
ticks_per_s=$(getconf CLK_TCK)
# Idle time of all processors together so far, seconds, twice a second after the time of day.
watch_idle() {
    while :; do
        echo "$EPOCHREALTIME $(awk -v hz="$ticks_per_s" '$1 == "cpu" {printf "%.2f", ($5 + $6) / hz}' /proc/stat)"
        sleep 0.5
    done
}

# Runs a command under a budget; leaves $work/report, $work/sample, and in $cpu_s what it took of the
# processors, and in $idle how many were idle.
managed() { # BUDGET_BYTES WHO COMMAND...
    local budget=$1 how=(--actuator "$2") main pid watcher status=0
    shift
    [ "$1" != none ] || how=(--policy none)
    shift
    kernel_ticks >"$work/ticks.before"
    watch_idle >"$work/idle" &
    watcher=$!
    TIMEFORMAT='%U %S'
    { time "$strata" run --quiet --memory "$budget" --swap zram:1G "${how[@]}" --report "$work/report" -- "$@" \
        >"$work/out" 2>"$work/errors"; } 2>"$work/times" &
    main=$!
    pid=$(wait_for_program "$(basename "$1")" $main) &&
        "$programs/sample" --pid "$pid" --after 0 --from $((budget / 100 * 95)) --seconds 600 >"$work/sample" || true
    wait $main || status=$?
    kill $watcher && wait $watcher 2>/dev/null || true
    idle=$(tail -n $((2 * seconds - 2)) "$work/idle" | awk 'NR == 1 {at = $1; idle = $2} END {print ($1 > at ? ($2 - idle) / ($1 - at) : 0)}')
    kernel_ticks >"$work/ticks.after"
    cpu_s=$(awk -v ticks="$(ticks_between "$work/ticks.before" "$work/ticks.after")" -v hz="$ticks_per_s" '{print $1 + $2 + ticks / hz}' "$work/times")
    return $status
}

# Each load: its budget in bytes, and a command that leaves lines with "ops_per_s" in $work/out.
zipf() { managed "$1" "$2" "$programs/zipf" --size 300M --seconds "$seconds" --threads 1 "${@:3}"; }
load_zipf_0.99() { zipf "$@" --theta 0.99 --seconds "$longer_seconds"; }
load_zipf_1.2() { zipf "$@" --theta 1.2 --seconds "$longer_seconds"; }
load_scan() { zipf "$@" --seconds "$longer_seconds" --theta 0.99 --scan-pages 1800 --scan-every 100000; }
load_phases() { zipf "$@" --theta 0.99 --phase-every 2; }
load_huge_pages() { zipf "$@" --theta 0.99 --thp; }
load_quarter_time() { zipf "$@" --theta 0.99 --work-percent 25; }
load_two_threads() { zipf "$@" --theta 0.99 --threads 2 --seconds "$longer_seconds"; }
load_mapped_file() {
    # Pages that an earlier run read in would be charged to its group.
    sync "$target_dir/bench.mapped" 2>/dev/null || true
    dd of="$target_dir/bench.mapped" oflag=nocache conv=notrunc,fdatasync count=0 status=none
    zipf "$@" --theta 0.99 --file "$target_dir/bench.mapped" --populate --random --seconds "$longer_seconds"
}
load_two_processes() {
    managed "$1" "$2" sh -c '"$0" --after 2 --size 150M --theta 0.99 --seconds "$1" & "$0" --after 2 --size 150M --theta 0.99 --seed 2 --seconds "$1"; wait' \
        "$programs/zipf" "$seconds" || return
    # The shell does not tell that one of them was killed; the other then has all memory.
    [ "$(grep -c '"program"' "$work/out")" = 2 ] || return 137
}
server() { # BUDGET WHO PROTOCOL THETA SERVER...
    local socket=$work/kv.sock client status=0
    rm -f "$socket"
    (
        until [ -S "$socket" ]; do sleep 0.05; done
        sleep 0.2
        "$programs/kv" --socket "$socket" --protocol "$3" --theta "$4" --keys 200000 --seconds "$seconds" >"$work/kv" 2>&1 || true
        pid=$(pgrep -f "^[^ ]*/$(basename "$5") .*$socket" | head -n 1)
        [ -z "$pid" ] || kill "$pid"
    ) &
    client=$!
    managed "$1" "$2" "${@:5}" || status=$?
    wait $client
    cp "$work/kv" "$work/out"
    # Both servers end by the signal they are sent.
    [ $status = 137 ] && return 137
    grep -q '"ops_per_s"' "$work/out"
}
load_redis() { server "$1" "$2" redis 0.99 "$bin/redis-server" --port 0 --unixsocket "$work/kv.sock" --save '' --appendonly no --dir "$work" --loglevel warning; }
load_memcached() { server "$1" "$2" memcached 0 "$bin/memcached" -s "$work/kv.sock" -m 1024 -u "$(id -un)" -t 2 "${@:3}"; }
load_memcached_plain() { load_memcached "$1" "$2" -o no_lru_maintainer,no_lru_crawler,hashpower=18; }

# What each load takes without a limit, bytes: the peak of a run that has all it wants.
footprint_of() {
    # It is reached as soon as memory is filled.
    seconds=2 longer_seconds=2 "load_$1" 2147483648 none || true
    sed -n '/"usage"/,/}/p' "$work/report" >"$work/usage" && field peak_bytes "$work/usage"
}
usage() { field "usage_$1" "$work/sample"; }

note() { # FILE ROUND: a line for a run: operations a second of each process, of CPU, faults, mean, peak, zram, strata, idle, round
    local speeds ops
    speeds=$(grep -h '"program"' "$work/out" | sed -nE 's/.*"ops_per_s":([0-9]+).*/\1/p' | sort -n | paste -sd+)
    ops=$(grep -h '"program"' "$work/out" | sed -nE 's/.*"ops":([0-9]+).*/\1/p' | awk '{sum += $1} END {print sum}')
    echo "${speeds%%+*} $speeds $(awk -v o="$ops" -v c="$cpu_s" 'BEGIN {print o / c}')" \
        "$(awk -v o="$ops" -v f="$(field nr_major_faults "$work/report")" 'BEGIN {print 1000 * f / o}')" \
        "$(usage mean) $(usage peak)" \
        "$(field zram_bytes "$work/report") $(field strata_bytes "$work/report") $idle $2" >>"$1"
}
column() { awk -v column="$2" '{print $column}' "$1" | sort -g; }
middle() { column "$1" "$2" | awk '{v[NR] = $1} END {print (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2}'; }
# The median over the rounds that both have of one column, divided, and how many those are if some are missing; nothing
# if all are.
ratio() { # COLUMN
    awk -v c="$1" 'NR == FNR {of[$10] = $c; next} of[$10] && $c {print of[$10] / $c}' "$work/auto" "$work/none" | sort -g |
        awk -v rounds="$rounds" '{v[NR] = $1}
            END {if (NR) printf "%.2f%s", (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2, NR < rounds ? " of " NR : ""}'
}
thousands() { awk '{v[NR] = $1 / 1000} END {printf "%.0f / %.0f / %.0f", v[1], (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2, v[NR]}'; }

echo "| processors | load | who | 1000 operations/s: min / median / max | ratio | each process, last round | 1000 operations/CPU s | ratio | faults/1000 | ratio | mean, MiB | peak, MiB | zram, MiB | Strata, MiB | idle | killed |"
echo "|---|---|---|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
declare -A budget
for crowd in ${BENCH_PROCESSORS:-free busy}; do
    for load in $loads; do
        percent=60
        [[ $load != memcached* ]] || percent=89
        [ -n "${budget[$load]:-}" ] || budget[$load]=$(($(footprint_of "$load") * percent / 100))
        [ $crowd = free ] || spin
        for who in auto none; do : >"$work/$who" && : >"$work/$who.killed"; done
        for ((run = 0; run < rounds; run++)); do
            limit=${budget[$load]}
            for who in auto none; do
                for ((try = 0; try < tries; try++)); do
                    if "load_$load" "$limit" $who; then note "$work/$who" $run && break; else echo >>"$work/$who.killed"; fi
                done
                mean=$(usage mean)
                limit=${mean:-$limit}
            done
        done
        rest
        for who in auto none; do
            killed=$(wc -l <"$work/$who.killed")
            [ -s "$work/$who" ] || { echo "| $crowd | $load | $who | - | | | | | | | | | | | | $killed |"; continue; }
            ratios=('' '' '')
            [ $who = none ] || ratios=("$(ratio 1)" "$(ratio 3)" "$(ratio 4)")
            echo "| $crowd | $load | $who | $(column "$work/$who" 1 | thousands) | ${ratios[0]} |" \
                "$(tail -n 1 "$work/$who" | awk '{print $2}') | $(middle "$work/$who" 3 | awk '{printf "%.0f", $1 / 1000}') | ${ratios[1]} |" \
                "$(middle "$work/$who" 4 | awk '{printf "%.1f", $1}') | ${ratios[2]} |" \
                "$(mib "$(middle "$work/$who" 5)") | $(mib "$(middle "$work/$who" 6)") | $(mib "$(middle "$work/$who" 7)") | $(mib "$(middle "$work/$who" 8)") | $(middle "$work/$who" 9 | awk '{printf "%.2f", $1}') | $killed |"
        done
    done
done
echo
echo "\`none\`: only the kernel's limit, at the mean of the Strata run before it; $rounds rounds of $seconds s each (zipf_0.99, zipf_1.2, scan, mapped_file and two_threads $longer_seconds s). Strata's"
echo "limit (on v2 memory.high) stands one step below its budget, 1 % or 8 MiB; behind it is the backstop, budget + max(2 %, 8 MiB). Budgets, MiB: $(for load in $loads; do printf '%s %s, ' "$load" "$(mib "${budget[$load]}")"; done | sed 's/, $/./')"
