#!/usr/bin/env bash
# `make run`: an unmodified redis-server, loaded by an unmodified redis-benchmark, under a budget of
# 60 % of what it takes without one. About a minute. Where that can't be (no root, no BPF, a container) it
# says why and shows the simulator on a recording instead.
#   demo.sh [--data MIB] [--percent N]
# DEMO=sim shows the simulator wherever it runs; STRATA=FILE is used instead of building one.
# Shows its generations while it runs, reads every key back, and ends with Strata's report. Redis
# listens on a socket in a private directory and keeps nothing on disk.
source "$(dirname "$0")/lib.sh"

data_mib=320 percent=60
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

wait_until_it_answers() {
    for _ in $(seq 200); do
        [ "$(cli ping 2>/dev/null)" != PONG ] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.05
    done
    cat "$work/redis.log" >&2 2>/dev/null || true
    fail "redis-server does not answer"
}

stop_redis() {
    local status=0
    cli shutdown nosave >/dev/null 2>&1 || true
    wait "$server" || status=$?
    server=''
    return $status
}

# Two thirds noise of six bits a character, one third repetition: an ordinary sort of data.
keys=$((data_mib * 1024 * 1024 / 1200))
values='
    function prepare(  i, alphabet, k) {
        srand(7)
        alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        for (k = 0; k < 97; k++)
            for (i = 0; i < 660; i++) noise[k] = noise[k] substr(alphabet, 1 + int(rand() * 64), 1)
        rest = sprintf("%320s", ""); gsub(" ", "-", rest)
    }
    function key_of(i) { return sprintf("key:%012d", i) }
    function value_of(i) { return key_of(i) noise[i % 97] rest }'

# Gives every key a value of its own.
fill() {
    awk -v n="$keys" "$values"'
        BEGIN {
            prepare()
            for (i = 0; i < n; i++) {
                value = value_of(i)
                printf "*3\r\n$3\r\nSET\r\n$16\r\n%s\r\n$%d\r\n%s\r\n", key_of(i), length(value), value
            }
        }' </dev/null | cli --pipe | grep -q 'errors: 0' || fail "redis took not every key"
}

# Reads every key back and compares it with what was written; prints how many are right.
verify() {
    awk -v n="$keys" "$values"'
        BEGIN {
            for (i = 0; i < n; i++) {
                if (i % 64 == 0) printf "%sMGET", (i ? "\n" : "")
                printf " %s", key_of(i)
            }
            print ""
        }' </dev/null | cli |
        awk -v n="$keys" "$values"'
            BEGIN { prepare() }
            $0 == value_of(NR - 1) { right++ }
            END { print right + 0 }'
}

# Reads keys for some seconds, most of them often and some seldom: three clients, each with a wider
# range of keys than the one before. Prints reads a second.
load() {
    local seconds=$1 range pids=() start=$EPOCHREALTIME before after
    before=$(cli info commandstats | sed -n 's/^cmdstat_get:calls=\([0-9]*\).*/\1/p')
    for range in $((keys / 20)) $((keys / 4)) "$keys"; do
        timeout "$seconds" "$bin/redis-benchmark" -s "$socket" -t get -r "$range" -n 1000000000 -c 4 -P 4 \
            >/dev/null 2>&1 &
        pids+=($!)
    done
    wait "${pids[@]}" || true
    after=$(cli info commandstats | sed -n 's/^cmdstat_get:calls=\([0-9]*\).*/\1/p')
    awk -v ops=$((after - ${before:-0})) -v s="$start" -v e="$EPOCHREALTIME" 'BEGIN {printf "%.0f\n", ops / (e - s)}'
}

headline "Redis by itself: $keys keys with values of 1 KB"
"${redis[@]}" &
server=$!
wait_until_it_answers
fill
free_speed=$(load 5)
footprint_kib=$(awk '/^VmRSS/ {print $2}' "/proc/$server/status")
stop_redis || fail "redis-server ended badly"
budget_mib=$((footprint_kib * percent / 100 / 1024))
echo "It takes $((footprint_kib / 1024)) MiB and answers $free_speed reads a second."

headline "The same under a budget of $budget_mib MiB ($percent %)"
command=("$strata" run --memory "${budget_mib}M" --swap "zram:$((footprint_kib / 1024))M"
    --report "$work/report.json" --)
echo "\$ strata ${command[*]:1} redis-server ..."
"${command[@]}" "${redis[@]}" &
server=$!
wait_until_it_answers
pid=$(cli info server | tr -d '\r' | sed -n 's/^process_id://p')
fill
load 25 >"$work/speed" &
loading=$!
for _ in 1 2 3; do
    sleep 7
    awk '/^VmRSS/ {rss = $2} /^VmSwap/ {swap = $2} END {
        printf "\nRedis holds %d MiB in memory, %d MiB are swapped out. Its generations:\n", rss / 1024, swap / 1024
    }' "/proc/$pid/status"
    "$strata" lru-gen --pid "$pid" --once 2>"$work/err" || cat "$work/err"
done
wait $loading
echo
echo "It answers $(cat "$work/speed") reads a second ($free_speed without a budget)."
right=$(verify)
echo "$right of $keys keys were read back right."

headline "Redis is told to end; strata reports"
status=0
stop_redis || status=$?
[ "$right" = "$keys" ] || fail "DATA WAS LOST: only $right of $keys keys are right"
[ $status = 0 ] || fail "strata run ended with status $status"
