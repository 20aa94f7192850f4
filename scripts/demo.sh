#!/usr/bin/env bash
# `make run`: what Strata is for, on unmodified programs: a redis of which 30 % is asked for, a python with a cold heap, a
# node service that is idle (where there is node), and a grep that reads file after file. `strata guard` gives back what they do
# not use, within a promise; nobody names a budget. Then the kernel's limit holds redis at the size that the guard found: it has
# to be told the number. About three minutes.
# Where that can't be (no root, no BPF, a container) it says why and shows the simulator on a recording instead.
#   demo.sh [--data MIB] [--promise SHARE/min]
# DEMO=sim shows the simulator wherever it runs; STRATA=FILE is used instead of building one.
# The client (tests/programs/kv.c) asks redis for 30 % of the keys, some often and most seldom, by a Zipf law. It waits for each
# answer and checks it, and reads every key back at the end. Redis listens on a socket in a private directory and keeps nothing
# on disk. Each program has a cgroup of its own, which is removed at the end.
source "$(dirname "$0")/lib.sh"

data_mib=384 promise=1%/min min_age_s=10 guard_s=60 load_s=15
while [ $# -gt 0 ]; do
    case $1 in
    --data) data_mib=$2 ;; --promise) promise=$2 ;;
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
    local command=(sim "$recording" --policy mglru,two-list,lru,opt --memory 2%,4%,5%,6%,8% --plot "$plot")
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
            --data "$data_mib" --promise "$promise"
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

kv=$(scripts/program.sh kv) || fail "the client of tests/programs can't be compiled"
work=$(mktemp -d)
socket=$work/redis.sock
# Where groups with a memory controller are: the hierarchy of that controller, or the unified one.
mount=/sys/fs/cgroup
[ ! -d $mount/memory ] || mount=$mount/memory
prefix=strata-demo-$$ texts=''
names=() guard='' programs=()

finish() {
    [ -z "$guard" ] || { kill -INT "$guard" 2>/dev/null && wait "$guard" 2>/dev/null; } || true
    [ ${#programs[@]} = 0 ] || { kill "${programs[@]}" 2>/dev/null && wait "${programs[@]}" 2>/dev/null; } || true
    local name
    for name in "${names[@]}"; do
        for _ in $(seq 50); do
            rmdir "$mount/$prefix-$name" 2>/dev/null && break
            sleep 0.1
        done
    done
    rm -rf "$work" ${texts:+"$texts"}
}
trap finish EXIT
trap 'exit 130' INT TERM

# Starts COMMAND in a group of its own.
in_group() { # NAME COMMAND...
    local directory=$mount/$prefix-$1
    names+=("$1")
    shift
    [ $mount = /sys/fs/cgroup/memory ] || echo +memory 2>/dev/null >$mount/cgroup.subtree_control || true
    mkdir "$directory"
    sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$directory" "$@" &
    programs+=($!)
}
cli() { "$bin/redis-cli" -s "$socket" "$@"; }
field() { sed -nE "s/.*\"$1\": *([0-9]+).*/\1/p" "$2" | tail -n 1; }
mib() { echo $((($1 + 524288) / 1048576)); }
# Resident memory of all programs, bytes.
resident() {
    local pid sum=0
    for pid in "${programs[@]}"; do
        sum=$((sum + $(awk '/^VmRSS/ {print $2 * 1024}' "/proc/$pid/status")))
    done
    echo $sum
}
ask() { # NAME SECONDS OPTION...
    local name=$1 seconds=$2
    shift 2
    "${client[@]}" --no-fill --seconds "$seconds" "$@" >"$work/$name.kv" 2>"$work/why" || fail "redis: $(cat "$work/why")"
}

keys=$((data_mib * 1024 * 1024 / 1200))
client=("$kv" --socket "$socket" --keys $keys --pipeline 1 --text --asked 30)
headline "Programs that hold more than they use: a redis with $keys keys of which 30 % are asked for, a python with a cold heap$(
    ! have node || echo ', a node service'), a grep over files"
in_group redis "$bin/redis-server" --port 0 --unixsocket "$socket" --save '' --appendonly no --dir "$work" \
    --loglevel warning --logfile "$work/redis.log" --daemonize no
! have python3 || in_group python python3 -c '
import time
cold = [("entry %d" % i) * 3 for i in range(1_500_000)]
while True:
    sum(len(entry) for entry in cold[:20_000])
    time.sleep(0.1)'
! have node || in_group node node -e '
const kept = Array.from({length: 400000}, (_, i) => ({id: i, text: "row " + i}));
setInterval(() => kept.slice(0, 5000).reduce((sum, row) => sum + row.text.length, 0), 100);'
# On a disk, as the cache of a memory file system can't be dropped.
texts=$(mktemp -d "$target_dir/texts.XXXXXX")
for i in $(seq 10 21); do head -c 6M /dev/urandom | base64 | dd of="$texts/$i" status=none conv=fsync oflag=nocache; done
in_group grep sh -c 'for text in "$0"/*; do grep -c strata "$text"; sleep 4; done >/dev/null; exec sleep infinity' "$texts"
for _ in $(seq 200); do
    [ "$(cli ping 2>/dev/null)" != PONG ] || break
    sleep 0.05
done
"${client[@]}" --fill-only --pipeline 16 >/dev/null 2>"$work/why" || fail "redis-server does not answer: $(cat "$work/why")"
ask warm 3
ask before $load_s
before=$(resident)
echo "Together they hold $(mib "$before") MiB; redis answers $(field ops_per_s "$work/before.kv") gets a second."

command=(guard --promise "$promise" --min-age ${min_age_s}s --swap "zram:$(($(mib "$before") * 2))M" --cgroup "/$prefix-*")
headline "strata guard takes what was not used for $min_age_s s, as long as at most ${promise%/min} of a program comes back a minute"
echo "\$ strata ${command[*]}"
"$strata" "${command[@]}" --cpu 5% --history none --release --format json >"$work/guard" 2>"$work/err" &
guard=$!
ask during $guard_s &
asking=$!
while kill -0 $asking 2>/dev/null; do
    sleep 10
    [ ! -s "$work/guard" ] || tail -n 1 "$work/guard" | sed -nE \
        's/.*"watched_ms":([0-9]+)[0-9]{3},.*"resident_bytes":([0-9]+),"away_bytes":([0-9]+),"dropped_cache.*/\1 \2 \3/p' |
        while read -r watched held away; do
            echo "after $watched s: $(mib "$held") MiB in memory, $(mib "$away") MiB away"
        done
done
wait $asking
ask after $load_s
after=$(resident)
last=$(tail -n 1 "$work/guard")
# The figure of the guard comes before those of kinds and groups.
of_guard() { grep -oE "\"$1\":[0-9]+" <<<"$last" | awk -F: 'NR == 1 {print $2}'; }
sum_of() { grep -oE "\"$1\":[0-9]+" <<<"$last" | awk -F: '{sum += $2} END {print sum + 0}'; }
price=$(of_guard price_bytes) away=$(of_guard away_bytes) cpu_ms=$(($(of_guard cpu_ns) / 1000000)) dropped=$(of_guard dropped_cache_bytes)
taken=$(sum_of taken_bytes) back=$(sum_of came_back_bytes)
ask right 1 --verify
right=$(field verified "$work/right.kv")
[ "$right" = "$keys" ] || fail "DATA WAS LOST: only $right of $keys keys are right"
echo "$right of $keys keys were read back right."
kill -INT $guard && wait $guard || true
guard=''

headline "The same by the kernel's limit on redis, once it is told the number that the guard found"
# What redis holds is what the client uses and what the guard left.
redis_now=$(sed -nE "s/.*\"group\":\"\/$prefix-redis\",[^}]*\"resident_bytes\":([0-9]+).*/\1/p" <<<"$last")
"$strata" run --quiet --policy none --cgroup "/$prefix-redis" --memory "$redis_now" --swap "zram:$(($(mib "$before") * 2))M" &
limit=$!
is_killed=''
sleep 3
"${client[@]}" --no-fill --seconds $load_s >"$work/kernel.kv" 2>"$work/why" || is_killed=yes
kill -INT $limit && wait $limit || true

row() { printf '  %-38s %12s %12s %12s %12s\n' "$@"; }
headline "What it comes to"
row '' before 'as it takes' afterwards "kernel's limit"
row 'memory of the programs, MiB' "$(mib "$before")" '' "$(mib "$after")" ''
row '+ compressed swap and ages, MiB' 0 '' "$(mib "$price")" ''
row 'given back net, MiB' 0 '' "$(mib $((away - price)))" ''
row '  part of it page cache, MiB' 0 '' "$(mib "$dropped")" ''
for what in 'gets a second|ops_per_s' '99 % answered within, us|p99_us'; do
    row "${what%|*}" "$(field "${what#*|}" "$work/before.kv")" "$(field "${what#*|}" "$work/during.kv")" \
        "$(field "${what#*|}" "$work/after.kv")" "${is_killed:-$(field "${what#*|}" "$work/kernel.kv")}"
done
echo
echo "Of $(mib "$taken") MiB taken $(mib "$back") MiB came back. Strata used $cpu_ms ms of processor time in $((guard_s + load_s)) s."
echo "Nobody named a budget. The kernel's limit needs one: $(mib "$redis_now") MiB for this redis, for this load."
