#!/usr/bin/env bash
# `make run`: what Strata is for, on an unmodified redis-server most of whose data is idle. It runs without a limit, under a
# budget of 50 % of that, held by Strata, and under the kernel's limit alone at the memory that Strata used. About two minutes.
# Where that can't be (no root, no BPF, a container) it says why and shows the simulator on a recording instead.
#   demo.sh [--data MIB] [--percent N]
# DEMO=sim shows the simulator wherever it runs; STRATA=FILE is used instead of building one.
# The client (tests/programs/kv.c) asks for 30 % of the keys, some often and most seldom, by a Zipf law; one get in 25 is for any
# key. It waits for each answer and checks it, and reads every key back at the end. The demo shows Strata's generations and
# report, and ends with one table: memory given back, and its price in throughput and latency. Redis listens on a socket in a
# private directory and keeps nothing on disk.
source "$(dirname "$0")/lib.sh"

data_mib=512 percent=50 load_s=15
while [ $# -gt 0 ]; do
    case $1 in
    --data) data_mib=$2 ;; --percent) percent=$2 ;;
    *) fail "unknown option $1" ;;
    esac
    shift 2
done

if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi
headline() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

# Policies side by side on a recording that comes with the source, and a picture. The amounts of memory
# are those around which most of what it references in turn just fits or just fails to.
simulate() {
    local recording=docs/recordings/sqlite.strata plot=$target_dir/demo.svg
    headline "Instead: the simulator, on a recording ($recording)"
    local command=(sim "$recording" --policy mglru,two-list,strata,lru,opt --memory 2%,4%,5%,6%,8% --plot "$plot")
    echo "\$ strata ${command[*]}"
    "$strata" "${command[@]}"
    echo
    echo "Their miss ratios are drawn in $plot"
}

strata=${STRATA:-$target_dir/release/strata}
if [ -z "${STRATA:-}" ]; then
    headline "Setting up and building (the first time takes a minute or two)"
    scripts/setup.sh
    cargo build --release --quiet -p strata
fi
mkdir -p "$target_dir"
bin=$target_dir/servers/bin

if [ "${DEMO:-}" = sim ]; then
    headline "The live demo was not asked for (DEMO=sim)"
    simulate
    exit
fi
if ! "$strata" doctor >"$target_dir/doctor.txt"; then
    if [ "$(id -u)" != 0 ] && have sudo; then
        headline "Strata needs root to manage memory: going on with sudo"
        exec sudo -- env PATH="$PATH" HOME="$HOME" CARGO_TARGET_DIR="$target_dir" "$0" \
            --data "$data_mib" --percent "$percent"
    fi
    cat "$target_dir/doctor.txt"
    headline "The live demo can't run on this machine; what is MISSING above says why"
    simulate
    exit
fi
if ! scripts/servers.sh redis; then
    headline "The live demo can't run on this machine: there is no redis, and none can be fetched"
    simulate
    exit
fi

kv=$(scripts/program.sh kv) && sample=$(scripts/program.sh sample) ||
    fail "the client of tests/programs can't be compiled"
work=$(mktemp -d)
socket=$work/redis.sock
server=''
finish() {
    # Redis is told to end, not strata: the wrapper ends with its program and cleans up.
    cli shutdown nosave >/dev/null 2>&1 || true
    if [ -n "$server" ]; then
        for _ in $(seq 100); do kill -0 "$server" 2>/dev/null || break; sleep 0.1; done
        kill "$server" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

cli() { "$bin/redis-cli" -s "$socket" "$@"; }
redis=("$bin/redis-server" --port 0 --unixsocket "$socket" --save '' --appendonly no --dir "$work"
    --loglevel warning --logfile "$work/redis.log" --daemonize no)
keys=$((data_mib * 1024 * 1024 / 1200))
client=("$kv" --socket "$socket" --keys $keys --pipeline 1 --text --asked 30 --any-every 25)

answers() {
    for _ in $(seq 200); do
        [ "$(cli ping 2>/dev/null)" != PONG ] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.05
    done
    return 1
}
field() { sed -nE "s/.*\"$1\": *([0-9]+).*/\1/p" "$2" | tail -n 1; }
mib() { echo $((($1 + 524288) / 1048576)); }

# Fills a redis under `strata run` with OPTIONS and asks it for some seconds. Leaves NAME.kv (what the client says), NAME.report
# and NAME.sample (its group's memory since it was full) in $work. Fails if redis did not live to the end.
ask_redis() { # NAME FULL_BYTES OPTION...
    local name=$1 full=$2 pid status=0 sampling
    shift 2
    "$strata" run --report "$work/$name.report" "$@" -- "${redis[@]}" &
    server=$!
    answers || { cat "$work/redis.log" >&2 2>/dev/null || true; fail "redis-server does not answer"; }
    pid=$(cli info server | tr -d '\r' | sed -n 's/^process_id://p')
    "$sample" --pid "$pid" --after 0 --from "$full" --seconds 600 >"$work/$name.sample" 2>/dev/null &
    sampling=$!
    "${client[@]}" --fill-only --pipeline 16 >/dev/null 2>"$work/why" &&
        # Not measured: what is asked for comes back into memory first.
        "${client[@]}" --no-fill --seconds 2 >/dev/null 2>"$work/why" || status=$?
    if [ $status = 0 ]; then
        "${client[@]}" --no-fill --seconds "$load_s" --verify >"$work/$name.kv" 2>"$work/why" &
        [ "$name" != strata ] || show_generations "$pid"
        wait $! || status=$?
    fi
    cli shutdown nosave >/dev/null 2>&1 || true
    wait "$server" || [ $status != 0 ] || status=$?
    server=''
    wait $sampling || true
    return $status
}
show_generations() { # PID
    sleep $((load_s / 2))
    awk '/^VmRSS/ {rss = $2} /^VmSwap/ {swap = $2} END {
        printf "\nRedis holds %d MiB in memory, %d MiB are swapped out. Its generations:\n", rss / 1024, swap / 1024
    }' "/proc/$1/status"
    "$strata" lru-gen --pid "$1" --once 2>"$work/err" || cat "$work/err"
}

headline "Redis without a limit: $keys keys with values of 1 KB, of which 30 % are asked for"
all_kib=$(awk '/^MemTotal/ {print $2}' /proc/meminfo)
ask_redis free 0 --quiet --memory "${all_kib}K" --policy none || fail "redis-server ended badly: $(cat "$work/why")"
free_bytes=$(field usage_peak "$work/free.sample")
echo "It takes $(mib "$free_bytes") MiB and answers $(field ops_per_s "$work/free.kv") gets a second."

budget=$((free_bytes * percent / 100))
budget_mib=$(mib $budget)
headline "The same under a budget of $budget_mib MiB ($percent %), held by Strata"
swap=zram:$(($(mib "$free_bytes") * 2))M
echo "\$ strata run --memory ${budget_mib}M --swap $swap -- redis-server ..."
status=0
ask_redis strata $((budget / 100 * 95)) --memory "${budget_mib}M" --swap "$swap" || status=$?
right=$(field verified "$work/strata.kv" 2>/dev/null)
[ $status = 0 ] || fail "redis under Strata ended with status $status: $(cat "$work/why"); ${right:-0} of $keys keys were right"
[ "$right" = "$keys" ] || fail "DATA WAS LOST: only $right of $keys keys are right"
echo "$right of $keys keys were read back right."

matched=$(field usage_mean "$work/strata.sample")
headline "The same under the kernel's limit alone, at the memory that Strata used: $(mib "$matched") MiB"
# The kernel may kill a program whose memory grows fast; that is a result, too.
is_killed=''
ask_redis kernel $((matched / 100 * 95)) --quiet --memory "$matched" --policy none --swap "$swap" || is_killed=yes

# What a run took in all, bytes: its memory, what its compressed swap takes, and Strata itself where it acts.
taken() { # NAME
    local of_strata=0
    [ "$1" != strata ] || of_strata=$(field strata_bytes "$work/strata.report")
    echo $(($(field usage_mean "$work/$1.sample") + $(field zram_bytes "$work/$1.report") + of_strata))
}
row() { printf '  %-34s %12s %12s %12s\n' "$@"; }
killed=${is_killed:+killed}
of_kernel() { [ -n "$is_killed" ] && echo killed || "$@"; }
headline "What it comes to"
row '' 'no limit' Strata 'kernel alone'
row 'memory, MiB' "$(mib "$free_bytes")" "$(mib "$matched")" "$(of_kernel mib "$(field usage_mean "$work/kernel.sample")")"
row '+ compressed swap and Strata, MiB' 0 "$(mib $(($(taken strata) - matched)))" \
    "${killed:-$(mib $(($(taken kernel) - $(field usage_mean "$work/kernel.sample"))))}"
row 'given back, MiB' 0 "$(mib $((free_bytes - $(taken strata))))" "${killed:-$(mib $((free_bytes - $(taken kernel))))}"
for what in 'gets a second|ops_per_s' 'half of all answered within, us|p50_us' '99 % answered within, us|p99_us'; do
    row "${what%|*}" "$(field "${what#*|}" "$work/free.kv")" "$(field "${what#*|}" "$work/strata.kv")" \
        "${killed:-$(field "${what#*|}" "$work/kernel.kv")}"
done
