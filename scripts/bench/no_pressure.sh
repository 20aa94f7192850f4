#!/usr/bin/env bash
# What does Strata cost a program that fits into its budget? A redis (GET and SET by redis-benchmark) and a fio (buffered random reads, from
# the page cache) run all the time, in a group of their own. Strata manages the group for 2 s, then not for 2 s, in turn. Each stretch with it
# is set against the mean of its two neighbours without; the moments in between do not count. Separate runs differ by 5 to 10 %,
# neighbouring stretches of one run much less. Below the table is the most that Strata did in one of these stretches, by its report.
# BENCH_PAIRS, default 20.
source "$(dirname "$0")/lib.sh"
scripts/servers.sh redis fio
bin=$target_dir/servers/bin
pairs=${BENCH_PAIRS:-20} stretch_s=2
# A group of nobody else.
hierarchy=/sys/fs/cgroup
[ -e $hierarchy/cgroup.controllers ] || hierarchy=/sys/fs/cgroup/memory
group_directory=$hierarchy/no_pressure
mkdir "$group_directory"
finish() {
    local pid
    while read -r pid; do kill "$pid" || true; done <"$group_directory/cgroup.procs"
    for _ in $(seq 50); do ! rmdir "$group_directory" 2>/dev/null || break; sleep 0.1; done
    rm -rf "$work" "$target_dir/fio.data"
}
trap finish EXIT
in_a_group() {
    # shellcheck disable=SC2016
    sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group_directory" "$@"
    true
}
now_ms() { date +%s%3N; }

# Calls `stretch LABEL` in turn with Strata on the process (with) and without it.
take_turns() { # PID
    local ours
    for _ in $(seq "$pairs"); do
        stretch without
        "$strata" run --quiet --memory 2G --pid "$1" --report "$work/report" &
        ours=$!
        sleep 1
        kill -0 $ours || { say "strata did not stay"; return 1; }
        stretch with
        kill -INT $ours
        wait $ours
        cp "$work/report" "$work/report.$ours"
        sleep 0.5
    done
    stretch without
}
# Lines `LABEL RATE` in order -> a table row.
summary() { # NAME FILE
    awk -v name="$1" '{label[NR] = $1; rate[NR] = $2}
        END {for (i = 2; i < NR; i++) if (label[i] == "with")
            print rate[i] / ((rate[i - 1] + rate[i + 1]) / 2) > "/dev/stderr"}' "$2" 2>"$work/ratio"
    echo "| $1 | $(awk '$1 == "without" {print $2}' "$2" | median) | $(awk '$1 == "with" {print $2}' "$2" | median) |" \
        "$(median <"$work/ratio" | awk '{printf "%.3f", $1}') | $(sort -n "$work/ratio" | awk '{v[NR] = $1}
        END {printf "%.3f to %.3f", v[int((NR + 3) / 4)], v[int((3 * NR + 1) / 4)]}') |"
}

redis() {
    local socket=$work/redis.sock group server client
    commands() { "$bin/redis-cli" -s "$socket" info stats | sed -n 's/^total_commands_processed:\([0-9]*\).*/\1/p'; }
    stretch() {
        local commands_before ms_before
        commands_before=$(commands) ms_before=$(now_ms)
        sleep $stretch_s
        echo "$1 $((($(commands) - commands_before) * 1000 / ($(now_ms) - ms_before)))" >>"$work/redis"
    }
    in_a_group "$bin/redis-server" --port 0 --unixsocket "$socket" --save '' --appendonly no --dir "$work" \
        --loglevel warning --logfile "$work/redis.log" &
    group=$!
    server=$(wait_for_program redis-server $group)
    until [ "$("$bin/redis-cli" -s "$socket" ping 2>/dev/null)" = PONG ]; do sleep 0.05; done
    "$bin/redis-benchmark" -s "$socket" -t set -d 1000 -r 100000 -n 200000 -P 8 -q >/dev/null
    "$bin/redis-benchmark" -s "$socket" -t get,set -d 1000 -r 100000 -n 400000 -P 8 -l -q >/dev/null 2>&1 &
    client=$!
    sleep 1
    take_turns "$server"
    kill $client
    wait $client 2>/dev/null || true
    "$bin/redis-cli" -s "$socket" shutdown nosave >/dev/null 2>&1 || true
    wait $group
    summary redis "$work/redis"
}

fio() {
    local group server
    stretch() {
        local ms_before
        ms_before=$(now_ms)
        sleep $stretch_s
        echo "$1 $ms_before $(now_ms)" >>"$work/stretches"
    }
    in_a_group "$bin/fio" --name=reads --filename="$target_dir/fio.data" --size=512M --rw=randread --bs=4k \
        --ioengine=psync --invalidate=0 --pre_read=1 --runtime=$((pairs * 7 + 30)) --time_based --write_iops_log="$work/fio" --log_avg_msec=100 \
        --log_unix_epoch=1 --output="$work/fio.out" &
    group=$!
    server=$(wait_for_program fio $group)
    sleep 5 # until the file is in the page cache
    take_turns "$server"
    kill -INT "$server"
    wait $group || true
    # Means of the tenths of a second that lie wholly within a stretch.
    awk -F'[ ,]+' 'FILENAME ~ /stretches$/ {label[++n] = $1; from[n] = $2; to[n] = $3; next}
        {for (i = 1; i <= n; i++) if ($1 - 100 >= from[i] && $1 <= to[i]) {sum[i] += $2; count[i]++}}
        END {for (i = 1; i <= n; i++) if (count[i]) print label[i], sum[i] / count[i]}' \
        "$work/stretches" "$work"/fio_iops*.log >"$work/rates"
    summary fio "$work/rates"
    rm -f "$target_dir/fio.data"
}

echo "| load | without, 1/s | with, 1/s | ratio (median of $pairs) | half of the ratios |"
echo "|---|---:|---:|---:|---:|"
redis
fio
echo
python3 - "$work"/report.* <<'PYTHON'
import json, sys

reports = [json.load(open(path)) for path in sys.argv[1:]]
most = lambda of: max(of(report) for report in reports)
cache = lambda report: report["page_cache"] or {}
dropped = lambda report: sum(cache(report).get(kind, {}).get("dropped_bytes", 0) for kind in ("once", "again", "newcomers"))
print(f"The most in one of {len(reports)} stretches: {most(lambda of: of['walks']['nr_walks'])} walks,",
      f"{most(lambda of: cache(of).get('nr_censuses', 0))} censuses of page cache,",
      f"{most(dropped)} bytes of page cache dropped, {most(lambda of: of['eviction']['nr_applied_pages'])} pages evicted,",
      f"{most(lambda of: of['strata_cpu_ms'])} ms of CPU time of Strata, its start and end included.")
PYTHON
