#!/usr/bin/env bash
# `make evaluate-plan`: does a plan come true? For redis, sqlite and a python program: records a run
# without a budget, predicts the refaults under four budgets (strata plan), then runs the same load
# under each with strata run, and puts both beside each other into docs/validation/plan-validation.md. Before that
# it records a program whose exact accesses are known and puts there what replays of both say. Last, it foretells how
# much longer six programs take under two budgets, by what a refault costs here (strata doctor --measure), and
# times them in turns with runs that have more than they need.
# The words of the page stay. Needs root, node and a JDK, and some 30 minutes, 15 of them for the last part. STRATA names another
# binary, PLAN_SHARES other budgets, PLAN_RUNS how often each is run, PLAN_SCALE multiplies the operations, PLAN_PARTS leaves
# out parts (recording validation slowdown), PLAN_LOADS loads (those left out keep their rows); PLAN_SLOW_SHARES and PLAN_ROUNDS are
# budgets and rounds of the last part; PLAN_KEEP is a folder that recordings and reports are kept in. QUICK=1 is one round of the
# last part, which rewrites nothing.
source "$(dirname "$0")/lib.sh"

scripts/setup.sh
strata=${STRATA:-$target_dir/release/strata}
[ -n "${STRATA:-}" ] || cargo build --release --quiet -p strata
scripts/servers.sh redis memcached >&2
bin=$target_dir/servers/bin
# What is behind python3, without the scripts of a version manager in between.
python=$(python3 -c 'import sys; print(sys.executable)')
# On a disk: what lies on a tmpfs is no file to the kernel's reclaim.
work=$(mktemp -d "$target_dir/evaluate-plan.XXXXXX")
scale=${PLAN_SCALE:-1}
read -ra shares <<<"${PLAN_SHARES:-50 65 80 90}"
runs=${PLAN_RUNS:-3}
every=50ms
pids=()
finish() {
    [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

declare -A ops=([redis]=$((300000 * scale)) [sqlite]=$((200000 * scale)) [python]=$((3000000 * scale))
    [memcached]=$((300000 * scale)) [node]=$((8000000 * scale)) [java]=$((12000000 * scale)))
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
    sqlite) printf '%s\n' "$python" scripts/plan/load.py sqlite "${ops[sqlite]}" ;;
    python) printf '%s\n' "$python" scripts/plan/load.py python "${ops[python]}" ;;
    memcached) printf '%s\n' "$bin/memcached" -u root -m 1024 -t 1 -s "$work/memcached.sock" ;;
    node) printf '%s\n' node --max-old-space-size=1024 scripts/plan/load.js "${ops[node]}" ;;
    java) printf '%s\n' java -XX:+UseSerialGC -Xms400m -Xmx400m -cp "$work" Load "${ops[java]}" ;;
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
    if [ "$name" = redis ] || [ "$name" = memcached ]; then
        rm -f "$work/$name.sock"
        "$@" "${command[@]}" </dev/null >/dev/null 2>"$work/prefix" &
        server=$!
        pids+=("$server")
        wait_for 60 test -S "$work/$name.sock"
        "$python" scripts/plan/load.py "$name" "$work/$name.sock" "${ops[$name]}" \
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
    wait_for 600 grep -q seconds "$work/load"
    over "$pid"
    echo end >&8
    wait "$client" || fail "$name ended badly: $(tail -n 3 "$work/ready")"
    exec 8>&-
    [ "$name" != redis ] || "$bin/redis-cli" -s "$work/redis.sock" shutdown nosave >/dev/null 2>&1 || true
    [ "$name" != memcached ] || kill "$pid"
    [ -z "$server" ] || wait "$server" || true
    pids=()
}

recorder=''
record_from() { # pid
    "$strata" record --quiet --pid "$1" --every $every --force -o "$work/run.strata" 2>"$work/record" &
    recorder=$!
    wait_for 30 test -s "$work/run.strata"
    sleep 0.2
}
end_record() {
    kill -INT "$recorder"
    wait "$recorder" || fail "recording failed: $(cat "$work/record")"
}
group_of() { # pid
    local group
    group=$(sed -nE 's,^[0-9]+:memory:,/sys/fs/cgroup/memory,p' "/proc/$1/cgroup")
    [ -n "$group" ] || group=$(sed -n 's,^0::,/sys/fs/cgroup,p' "/proc/$1/cgroup")
    printf '%s\n' "$group"
}
# Pages that came back to the memory group of a process so far, by the kernel's count.
refaulted() { # pid
    awk '/^workingset_refault_(anon|file) / {sum += $2} END {print sum + 0}' "$(group_of "$1")/memory.stat"
}
sampler=''
# What the group of a process holds, ten times a second, to $work/held.
sample_from() { # pid
    local group file
    group=$(group_of "$1")
    file=$group/memory.usage_in_bytes
    [ -e "$file" ] || file=$group/memory.current
    while cat "$file"; do sleep 0.1; done >"$work/held" 2>/dev/null &
    sampler=$!
    pids+=("$sampler")
}
end_samples() {
    kill "$sampler" 2>/dev/null || true
    wait "$sampler" 2>/dev/null || true
}
figure() { sed -nE "s/.*\"$1\": ?([0-9.]+).*/\1/p" "$2" | head -n 1; }
mib() { awk -v bytes="${1:-$(cat)}" 'BEGIN {printf "%.1f", bytes / 1048576}'; }
ratio() { awk -v a="$1" -v b="$2" -v format="$3" 'BEGIN {printf format, b ? a / b : 0}'; }

evaluate() { # name
    local name=$1 footprint share bytes predicted real held throughput latencies verdict before run
    say "$name: recording"
    filled() { record_from "$1"; }
    over() { end_record; }
    run_load "$name"
    cp "$work/load" "$work/free"
    [ -z "${PLAN_KEEP:-}" ] || cp "$work/run.strata" "$PLAN_KEEP/$name.strata"
    "$strata" sim "$work/run.strata" --memory 100% --policy lru --format json >"$work/sim.json"
    footprint=$(($(figure footprint_pages "$work/sim.json") * 4096))
    filled() {
        before=$(refaulted "$1")
        sample_from "$1"
    }
    over() {
        real=$(($(refaulted "$1") - before))
        end_samples
    }
    say "$name: planning"
    "$strata" plan "$work/run.strata" --memory "$(printf '%s%%,' "${shares[@]}" | sed 's/,$//')" \
        --format json >"$work/plan.json"
    [ -z "${PLAN_KEEP:-}" ] || cp "$work/plan.json" "$PLAN_KEEP/$name.plan.json"
    for share in "${shares[@]}"; do
        # As strata plan rounds it: the nearest page.
        bytes=$(((footprint / 4096 * share + 50) / 100 * 4096))
        say "$name: $share %"
        mapfile -t predicted < <(scripts/evaluate.py planned "$work/plan.json" "$bytes")
        for ((run = 0; run < runs; run++)); do
            run_load "$name" "$strata" run --quiet --memory "$bytes" --swap zram:1G --report "$work/report.json" --
            [ -z "${PLAN_KEEP:-}" ] || cp "$work/report.json" "$PLAN_KEEP/$name.$share.$run.json"
            printf '%s %s %s %s\n' "$real" "$(awk '{sum += $1} END {print sum / NR}' "$work/held" | mib)" \
                "$(ratio "$(figure ops_per_s "$work/load")" "$(figure ops_per_s "$work/free")" %.2f)" \
                "$(for part in p50_us p99_us p999_us; do printf '%s (%s)\n' "$(figure $part "$work/load")" "$(figure $part "$work/free")"; done | paste -sd' ')"
        done >"$work/runs"
        sort -n -o "$work/runs" "$work/runs"
        # The run in the middle by what came back, with its other figures.
        read -r real held throughput latencies < <(sed -n "$(((runs + 1) / 2))p" "$work/runs")
        verdict=$(awk -v p="${predicted[0]}" -v r="$real" -v ops="${ops[$name]}" 'BEGIN {
            off = p > r ? p - r : r - p; print (off <= 0.2 * r || 1000 * off / ops <= 0.5) ? "yes" : "no" }')
        printf '| %s | %s %% | %s | %s / %s | %s | %s to %s | %s | %s to %s | %s / %s | %s | %s | %s |\n' "$name" "$share" \
            "$(mib "$bytes")" "$(mib "${predicted[3]}")" "$held" \
            "${predicted[0]}" "${predicted[1]}" "${predicted[2]}" "$real" \
            "$(head -n 1 "$work/runs" | cut -d' ' -f1)" "$(tail -n 1 "$work/runs" | cut -d' ' -f1)" \
            "$(ratio $((1000 * predicted[0])) "${ops[$name]}" %.2f)" "$(ratio $((1000 * real)) "${ops[$name]}" %.2f)" \
            "$verdict" "$throughput" "$latencies"
    done
}

# Rows of a table: a program recorded, how much longer it takes under each budget as foretold, and as it is. Runs under these budgets
# and under one that is twice what the program needs are in turns: alone the scheduler may place client and server otherwise.
foretell() { # name
    local name=$1 before=0 real=0 round share bytes footprint budgets=()
    say "$name: recording"
    filled() { record_from "$1"; }
    over() { end_record; }
    run_load "$name"
    [ -z "${PLAN_KEEP:-}" ] || cp "$work/run.strata" "$PLAN_KEEP/$name.strata"
    "$strata" sim "$work/run.strata" --memory 100% --policy lru --format json >"$work/sim.json"
    footprint=$(figure footprint_pages "$work/sim.json")
    # As strata plan rounds it: the nearest page.
    for share in $slow_shares; do budgets+=($(((footprint * share + 50) / 100 * 4096))); done
    "$strata" plan "$work/run.strata" --memory "$(printf '%sB,' "${budgets[@]}" | sed 's/,$//')" --cost "$cost" --format json >"$work/plan.json"
    [ -z "${PLAN_KEEP:-}" ] || cp "$work/plan.json" "$PLAN_KEEP/$name.slow.json"
    filled() { before=$(refaulted "$1"); }
    over() { real=$(($(refaulted "$1") - before)); }
    : >"$work/times"
    for ((round = 0; round < slow_rounds; round++)); do
        say "$name: round $((round + 1))"
        run_load "$name" "$strata" run --quiet --memory $((2 * footprint * 4096)) --report "$work/report.json" --
        printf 'free 0 %s\n' "$(figure seconds "$work/load")" >>"$work/times"
        for bytes in "${budgets[@]}"; do
            run_load "$name" "$strata" run --quiet --memory "$bytes" --swap zram:1G --report "$work/report.json" --
            printf '%s %s %s\n' "$bytes" "$real" "$(figure seconds "$work/load")" >>"$work/times"
        done
    done
    [ -z "${PLAN_KEEP:-}" ] || cp "$work/times" "$PLAN_KEEP/$name.times"
    scripts/evaluate.py foretold "$name" "$work/plan.json" "$work/times" "$footprint" \
        "$("$strata" trace info "$work/run.strata" | sed -nE 's/^ *walks +([0-9,]+),.*/\1/p' | tr -d ,)"
}

refaults_of() { # file, memory in pages, options...
    local file=$1 pages=$2
    shift 2
    "$strata" sim "$file" --memory "$pages" "$@" --format json | sed -nE 's/.*"refaults": ([0-9]+).*/\1/p' | head -n 1
}

# Lines of a table: a program of known accesses, recorded, replayed, and its exact trace replayed.
known() { # pattern, interval, policy...
    local pattern=$1 interval=$2 options=(--size 64M --ops 800000 --rate 40000 --pattern "$1") share pages policy exact replayed
    shift 2
    "$strata" record --quiet --force --every "$interval" -o "$work/known.strata" -- "$program" "${options[@]}" >/dev/null
    "$program" "${options[@]}" --trace "$work/known.u32le"
    for policy in "$@"; do
        printf '| %s | %s | %s |' "$pattern" "$interval" "$policy"
        for share in 25 50 75 90; do
            pages=$((16384 * share / 100))
            exact=$(refaults_of "$work/known.u32le" $pages --policy "$policy" --trace-format u32le --via mmap --backing anon)
            replayed=$(refaults_of "$work/known.strata" $pages --policy "$policy")
            awk -v a="$replayed" -v b="$exact" 'BEGIN {printf " %d: ", b; if (b) printf "%+.1f %%", 100 * (a - b) / b; else printf "-"; printf " |"}'
        done
        echo
    done
}
kept() { # name, table: its rows as they stand in the page
    sed -n "/<!-- $2: begin/,/<!-- $2: end/p" docs/validation/plan-validation.md | grep "^| $1 |" || true
}
made() { # says when and where the tables were made
    printf '%s, commit %s, kernel %s, %s processors.\n' "$(date -u +%Y-%m-%d)" "$(git rev-parse --short HEAD)" "$(uname -r)" "$(nproc)" |
        scripts/evaluate.py splice docs/validation/plan-validation.md made
}

parts=${PLAN_PARTS:-recording validation slowdown}
[ -z "${QUICK:-}" ] || parts=slowdown
slow_shares=${PLAN_SLOW_SHARES:-70 85} slow_rounds=${PLAN_ROUNDS:-5}
[ -z "${QUICK:-}" ] || slow_shares=75 slow_rounds=1
case " $parts " in *" slowdown "*)
    for program in node java javac; do have "$program" || fail "the part slowdown needs $program"; done ;;
esac
case " $parts " in *" recording "*)
    program=$(scripts/program.sh known)
    {
        printf '| pattern | interval | policy | in 25 %% | in 50 %% | in 75 %% | in 90 %% |\n'
        printf '|---|---|---|---:|---:|---:|---:|\n'
        for pattern in log loop phases; do
            for interval in 100ms 1s; do
                say "known accesses: $pattern every $interval"
                policies=(lru)
                [ "$pattern $interval" != "log 100ms" ] || policies+=(mglru)
                known $pattern $interval "${policies[@]}"
            done
        done
    } >"$work/known.md"
    scripts/evaluate.py splice docs/validation/plan-validation.md known <"$work/known.md" ;;
esac
case " $parts " in *" validation "*)
    {
        printf '| load | of footprint | budget, MiB | of it held, MiB: predicted / real | predicted | best to worst case | real | of runs | '
        printf 'per 1000 operations | goal met | throughput, of that without budget | p50, p99, p99.9 in us (without budget) |\n'
        printf '|---|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|---|\n'
        for name in redis sqlite python; do
            case " ${PLAN_LOADS:-redis sqlite python} " in
            *" $name "*) evaluate "$name" ;;
            *) kept "$name" plans ;;
            esac
        done
    } >"$work/plans.md"
    scripts/evaluate.py splice docs/validation/plan-validation.md plans <"$work/plans.md" ;;
esac
case " $parts " in *" slowdown "*)
    javac -d "$work" scripts/plan/Load.java
    say "what a refault costs"
    "$strata" doctor --measure --swap zram:1G --directory "$work" >"$work/doctor.txt" || { cat "$work/doctor.txt" >&2; fail "what is MISSING above is needed"; }
    sed -n '/^refault/,$p' "$work/doctor.txt" >&2
    cost=$(sed -n 's/^strata plan RECORDING --cost //p' "$work/doctor.txt")
    {
        printf '%s, commit %s, %s rounds, by `--cost %s`%s.\n\n' "$(date -u +%Y-%m-%d)" "$(git rev-parse --short HEAD)" "$slow_rounds" "$cost" "${PLAN_LOADS:+ ($PLAN_LOADS)}"
        printf '| program | walks | of footprint | refaults: foretold / real | longer: foretold | best to worst case | real | of rounds | a refault took, us | goal met |\n'
        printf '|---|---:|---:|---:|---:|---:|---:|---:|---:|---|\n'
        for name in redis sqlite python memcached node java; do
            case " ${PLAN_LOADS:-redis sqlite python memcached node java} " in
            *" $name "*) foretell "$name" ;;
            *) kept "$name" slowdown ;;
            esac
        done
    } >"$work/slowdown.md"
    if [ -n "${QUICK:-}" ]; then
        cat "$work/slowdown.md"
        exit 0
    fi
    scripts/evaluate.py splice docs/validation/plan-validation.md slowdown <"$work/slowdown.md" ;;
esac
case " $parts " in *" recording "* | *" validation "*) made ;; esac
