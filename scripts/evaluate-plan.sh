#!/usr/bin/env bash
# `make evaluate-plan`: does a plan come true? For redis, sqlite and a python program: records a run
# without a budget, predicts the refaults under three budgets (strata sim), then runs the same load
# under each with strata run, and writes both beside each other to docs/plan-validation.md. Before that
# it records a program whose exact accesses are known and writes what replays of both say to
# docs/recording.md. Needs root, and some 10 minutes. STRATA names another binary, PLAN_SCALE multiplies
# the operations, PLAN_PARTS leaves out parts (recording validation), PLAN_LOADS loads; PLAN_KEEP is a folder that
# recordings and reports are kept in.
source "$(dirname "$0")/lib.sh"

scripts/setup.sh
strata=${STRATA:-$target_dir/release/strata}
[ -n "${STRATA:-}" ] || cargo build --release --quiet -p strata
scripts/servers.sh redis >&2
bin=$target_dir/servers/bin
# What is behind python3, without the scripts of a version manager in between.
python=$(python3 -c 'import sys; print(sys.executable)')
# On a disk: what lies on a tmpfs is no file to the kernel's reclaim.
work=$(mktemp -d "$target_dir/evaluate-plan.XXXXXX")
scale=${PLAN_SCALE:-1}
shares=(50 65 80)
every=50ms
pids=()
finish() {
    [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

declare -A ops=([redis]=$((300000 * scale)) [sqlite]=$((100000 * scale)) [python]=$((3000000 * scale)))
declare -A what=(
    [redis]="redis-server, 150,000 values of 1 KiB, GETs by a Zipf law (0.99)"
    [sqlite]="sqlite, 120 MB mapped, look-ups by a Zipf law and a scan of a tenth every 500"
    [python]="python, a dict of 220,000 lists, look-ups by a Zipf law, every 50th replaces its value"
)

wait_for() { # seconds, command...
    local left=$(($1 * 20))
    shift
    until "$@"; do
        left=$((left - 1))
        [ $left -gt 0 ] || fail "waited in vain: $*"
        sleep 0.05
    done
}
redis_command() {
    printf '%s\n' "$bin/redis-server" --port 0 --unixsocket "$work/redis.sock" --save '' --appendonly no \
        --daemonize no --logfile "$work/redis.log" --dir "$work"
}
target_command() { # name: what has the memory
    case $1 in
    redis) redis_command ;;
    sqlite) printf '%s\n' "$python" scripts/plan/load.py sqlite "$work/sqlite.db" "${ops[sqlite]}" ;;
    python) printf '%s\n' "$python" scripts/plan/load.py python "${ops[python]}" ;;
    esac
}

# Runs a load to its end behind PREFIX...; calls `filled PID` once it is filled, and `over PID` when it has done
# its operations and is still there. Its figures: $work/load.
run_load() { # name, prefix...
    local name=$1 command server='' client pid
    shift
    mapfile -t command < <(target_command "$name")
    rm -f "$work/go" "$work/load" "$work/ready"
    mkfifo "$work/go"
    exec 8<>"$work/go"
    if [ "$name" = redis ]; then
        rm -f "$work/redis.sock"
        "$@" "${command[@]}" </dev/null >/dev/null 2>"$work/prefix" &
        server=$!
        pids+=("$server")
        wait_for 60 test -S "$work/redis.sock"
        "$python" scripts/plan/load.py redis "$work/redis.sock" "${ops[redis]}" \
            <"$work/go" >"$work/load" 2>"$work/ready" &
    else
        "$@" "${command[@]}" <"$work/go" >"$work/load" 2>"$work/ready" &
    fi
    client=$!
    pids+=("$client")
    wait_for 300 grep -q '^ready' "$work/ready"
    pid=$(sed -n 's/^ready //p' "$work/ready")
    filled "$pid"
    echo go >&8
    wait_for 600 grep -q p999_us "$work/load"
    over "$pid"
    echo end >&8
    wait "$client" || fail "$name ended badly: $(tail -n 3 "$work/ready")"
    exec 8>&-
    if [ "$name" = redis ]; then
        "$bin/redis-cli" -s "$work/redis.sock" shutdown nosave >/dev/null 2>&1 || true
        wait "$server" || true
    fi
    pids=()
}

recorder=''
record_from() { # pid
    "$strata" record --quiet --pid "$1" --every $every --force -o "$work/run.strata" 2>"$work/record" &
    recorder=$!
    wait_for 30 test -s "$work/run.strata"
    sleep 0.5
}
end_record() {
    kill -INT "$recorder"
    wait "$recorder" || fail "recording failed: $(cat "$work/record")"
}
# Pages that came back to the memory group of a process so far, by the kernel's count.
refaulted() { # pid
    local group
    group=$(sed -nE 's,^[0-9]+:memory:,/sys/fs/cgroup/memory,p' "/proc/$1/cgroup")
    [ -n "$group" ] || group=$(sed -n 's,^0::,/sys/fs/cgroup,p' "/proc/$1/cgroup")
    awk '/^workingset_refault_(anon|file) / {sum += $2} END {print sum + 0}' "$group/memory.stat"
}
figure() { sed -nE "s/.*\"$1\": ?([0-9.]+).*/\1/p" "$2" | head -n 1; }
ratio() { awk -v a="$1" -v b="$2" -v format="$3" 'BEGIN {printf format, b ? a / b : 0}'; }

evaluate() { # name
    local name=$1 footprint share bytes predicted real verdict order before
    say "$name: recording"
    filled() { record_from "$1"; }
    over() { end_record; }
    run_load "$name"
    cp "$work/load" "$work/free"
    [ -z "${PLAN_KEEP:-}" ] || cp "$work/run.strata" "$PLAN_KEEP/$name.strata"
    "$strata" trace info "$work/run.strata" --format json >"$work/info.json"
    footprint=$(($(figure distinct_pages "$work/info.json") * 4096))
    filled() { before=$(refaulted "$1"); }
    over() { real=$(($(refaulted "$1") - before)); }
    for share in "${shares[@]}"; do
        bytes=$((footprint * share / 100))
        say "$name: $share %"
        predicted=()
        for order in shuffled best worst; do
            "$strata" sim "$work/run.strata" --memory "$share%" --policy mglru --order $order \
                --format json >"$work/sim.json"
            predicted+=("$(figure refaults "$work/sim.json")")
        done
        run_load "$name" "$strata" run --quiet --memory "$bytes" --swap zram:1G --report "$work/report.json" --
        [ -z "${PLAN_KEEP:-}" ] || cp "$work/report.json" "$PLAN_KEEP/$name.$share.json"
        verdict=$(awk -v p="${predicted[0]}" -v r="$real" -v ops="${ops[$name]}" 'BEGIN {
            off = p > r ? p - r : r - p; print (off <= 0.2 * r || 1000 * off / ops <= 0.5) ? "yes" : "no" }')
        printf '| %s | %s %% | %s | %s | %s | %s to %s | %s | %s / %s | %s | %s | %s |\n' "$name" "$share" \
            $((bytes >> 20)) "$(($(figure mean_bytes "$work/report.json") >> 20))" "${predicted[0]}" "${predicted[1]}" "${predicted[2]}" "$real" \
            "$(ratio $((1000 * predicted[0])) "${ops[$name]}" %.2f)" "$(ratio $((1000 * real)) "${ops[$name]}" %.2f)" \
            "$verdict" "$(ratio "$(figure ops_per_s "$work/load")" "$(figure ops_per_s "$work/free")" %.2f)" \
            "$(for part in p50_us p99_us p999_us; do printf '%s (%s) ' "$(figure $part "$work/load")" "$(figure $part "$work/free")"; done)"
    done
}

refaults_of() { # file, memory in pages, options...
    local file=$1 pages=$2
    shift 2
    "$strata" sim "$file" --memory "$pages" "$@" --format json | sed -nE 's/.*"refaults": ([0-9]+).*/\1/p' | head -n 1
}

# Lines of a table: a program of known accesses, recorded, replayed, and its exact trace replayed.
known() { # pattern, interval, policy
    local options=(--size 64M --ops 800000 --rate 40000 --pattern "$1") share pages exact figures order
    "$strata" record --quiet --force --every "$2" -o "$work/known.strata" -- "$program" "${options[@]}" >/dev/null
    "$program" "${options[@]}" --trace "$work/known.u32le"
    for share in 25 50 75 90; do
        pages=$((16384 * share / 100))
        exact=$(refaults_of "$work/known.u32le" $pages --policy "$3" --trace-format u32le --via mmap --backing anon)
        figures=()
        for order in shuffled address best worst; do
            figures+=("$(refaults_of "$work/known.strata" $pages --policy "$3" --order $order)")
        done
        printf '| %s | %s | %s | %s %% | %s | %s | %s | %s | %s to %s |\n' "$1" "$2" "$3" $share "$exact" "${figures[0]}" \
            "$(awk -v a="${figures[0]}" -v b="$exact" 'BEGIN {if (b) printf "%+.1f %%", 100 * (a - b) / b; else print "-"}')" \
            "${figures[1]}" "${figures[2]}" "${figures[3]}"
    done
}
header() { # title
    printf '# %s\n\n    make evaluate-plan\n\n' "$1"
    printf '%s, commit %s, kernel %s, %s processors. ' "$(date -u +%Y-%m-%d)" "$(git rev-parse --short HEAD)" "$(uname -r)" "$(nproc)"
}

parts=${PLAN_PARTS:-recording validation}
case " $parts " in *" recording "*)
    program=$(scripts/program.sh known)
    {
        header 'How near a replay of a recording comes to the run'
        printf 'A program whose accesses are\nknown to the last (`tests/programs/known.c`: 64 MiB, 800,000 accesses at 40,000 a second) is recorded\n'
        printf '(`strata record --every INTERVAL -o known.strata -- known --pattern PATTERN ...`), its exact trace is\n'
        printf 'written (`known ... --trace known.u32le`), and both are replayed (`strata sim`). The figures are refaults\n'
        printf 'with so much memory, of 16,384 pages; `shuffled` is the default order of a recording.\n\n'
        printf 'Patterns: `log`, ranks whose logarithm is uniform; `loop`, all pages in turn; `phases`, a tenth of the\n'
        printf 'pages at random, another tenth after each tenth of the time. With an interval of 1 s a large part of the\n'
        printf 'memory is accessed within one; what the order can do shows there, as does what is accessed twice.\n\n'
        printf '| pattern | interval | policy | memory | exact | shuffled | off by | address | best to worst |\n'
        printf '|---|---|---|---:|---:|---:|---:|---:|---:|\n'
        for pattern in log loop phases; do
            for interval in 100ms 1s; do
                say "known accesses: $pattern every $interval"
                known $pattern $interval lru
            done
        done
        known log 100ms mglru
    } >docs/recording.md.new
    mv docs/recording.md.new docs/recording.md ;;
esac
case " $parts " in *" validation "*) ;; *) exit 0 ;; esac

{
    header 'Does a plan come true?'
    printf 'Each load is filled, then recorded without a budget\n(`strata record --pid PID --every %s`); ' $every
    printf 'the recording is replayed (`strata sim run.strata --policy mglru --memory\n50%%,65%%,80%%`), and the same '
    printf 'load is then run with so many bytes (`strata run --memory BYTES --swap zram:1G`).\nPredicted are '
    printf 'the refaults in a random order within intervals and in the best and the worst; real are those the\n'
    printf 'kernel counted in the group (`workingset_refault_*`), from the end of filling on. The goal is 20 %% or 0.5\n'
    printf 'per 1000 operations, whichever is larger; an operation is at least one access. One run each.\n\n'
    for name in redis sqlite python; do printf -- '- `%s`: %s; %s operations\n' $name "${what[$name]}" "${ops[$name]}"; done
    printf '\n| load | of footprint | budget, MiB | held on average, MiB | predicted | whatever the order | real | '
    printf 'per 1000 operations | goal met | throughput, of that without budget | p50, p99, p99.9 in us (without budget) |\n'
    printf '|---|---:|---:|---:|---:|---:|---:|---:|---|---:|---|\n'
    for name in ${PLAN_LOADS:-redis sqlite python}; do evaluate "$name"; done
} >docs/plan-validation.md.new
mv docs/plan-validation.md.new docs/plan-validation.md
