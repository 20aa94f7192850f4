#!/usr/bin/env bash
# One budget over program memory and files: the kernel's limit alone against `strata run` at the same memory, in turns.
# - postgres: 14 scans of a table of 240 MiB (a cache of 16 MiB in postgres itself) in 200 MiB; -noswap: the same without swap
# - wiredtiger: the same scans of a table of wiredtiger (a cache of 16 MiB of its own), which is built from PyPI: needs cmake, ninja and swig
# - postgres-rows: rows at random, all equally likely, of the same table in the same memory
# - sqlite: rows at random by a Zipf law (0.99) of a database of 240 MiB, beside 192 MiB of memory that another program of the cgroup
#   filled once and does not use, in 216 MiB
# - code: a program of 64 MiB of own code that runs all of it every 500 ms, beside a reader of another file as fast as it can, in 96 MiB
# BENCH_RUNS, default 5, is the number of rounds, BENCH_SECONDS, default 20, how long sqlite, the rows and the code run, BENCH_LOADS the loads.
# With BENCH_ROWS sqlite runs until it has had so many rows. BENCH_SHRINK, default 1, is by what memory, tables and idle memory are divided.
source "$(dirname "$0")/lib.sh"
runs=${BENCH_RUNS:-5} seconds=${BENCH_SECONDS:-20}
shrink=${BENCH_SHRINK:-1} rows=${BENCH_ROWS:-0}
of() { echo "$(($1 / shrink))"; }
loads=${BENCH_LOADS:-postgres postgres-noswap postgres-rows sqlite code}
scripts/servers.sh fio postgresql >/dev/null
servers=$target_dir/servers/bin
# On a disk, also where /tmp is in memory. Postgres runs as another user and has to get there.
files=$(mktemp -d -p "${BENCH_DIR:-/var/tmp}")
chmod 711 "$files"
finish() {
    [ ! -e "$files/pg/postmaster.pid" ] || as_postgres "$servers/pg_ctl" -D "$files/pg" -m immediate stop >/dev/null || true
    rm -rf "$work" "$files"
}
trap finish EXIT
# Postgres does not run as root.
as_postgres() { setpriv --reuid nobody --regid nogroup --clear-groups "$@"; }

make_postgres() {
    mkdir "$files/pg" && chown nobody:nogroup "$files/pg"
    as_postgres "$servers/initdb" -D "$files/pg" -U strata >/dev/null
    cat >>"$files/pg/postgresql.conf" <<CONF
shared_buffers = 16MB
unix_socket_directories = '$files/pg'
listen_addresses = ''
max_parallel_workers_per_gather = 0
autovacuum = off
synchronize_seqscans = off
CONF
    as_postgres "$servers/pg_ctl" -D "$files/pg" -w -l "$files/pg/log" start >/dev/null
    "$servers/psql" -q -h "$files/pg" -U strata postgres -c "create table t (id int, b text)" \
        -c "alter table t alter b set storage plain" \
        -c "insert into t select i, repeat(md5(i::text), 30) from generate_series(1, $(of 236000)) i" \
        -c "create index on t (id)" -c "vacuum freeze analyze t" -c checkpoint
    as_postgres "$servers/pg_ctl" -D "$files/pg" -w stop >/dev/null
    for _ in $(seq 14); do echo 'select sum(length(b)) from t;'; done >"$files/scans"
}

cat >"$work/postgres" <<'EOS'
#!/bin/sh
# postgres FILES SERVERS FORGET WHAT SECONDS: starts the server, scans or looks for rows, ends the server.
"$3" "$1/pg"
# A child of ours, so that its CPU time counts.
setpriv --reuid nobody --regid nogroup --clear-groups "$2/postgres" -D "$1/pg" >"$1/pg/log" 2>&1 &
server=$!
until "$2/psql" -q -h "$1/pg" -U strata postgres -c 'select 1' >/dev/null 2>&1; do
    kill -0 $server || exit 1
    sleep 0.1
done
case $4 in
scans) "$2/psql" -q -t -h "$1/pg" -U strata postgres -f "$1/scans" | awk 'NF {n++; if (first && $1 != first) exit 1; first = $1}
    END {if (n != 14) exit 1; print n, "operations"}' ;;
rows) "$2/pgbench" -n -h "$1/pg" -U strata -T "$5" -c 2 -f "$1/row" postgres >"$1/told" &&
    sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1 operations/p' "$1/told" ;;
esac
status=$?
kill -TERM $server
wait $server || exit 1
exit $status
EOS

cat >"$work/scans.py" <<'EOS'
"""scans.py DIRECTORY ROWS SCANS: scans a table of wiredtiger of so many rows, which is made first where SCANS is 0."""
import sys, wiredtiger

directory, rows, scans = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
connection = wiredtiger.wiredtiger_open(directory, "create,cache_size=16MB")
session = connection.open_session()
if not scans:
    session.create("table:t", "key_format=q,value_format=S")
    cursor = session.open_cursor("table:t", None, "bulk")
    for row in range(1, rows + 1):
        cursor[row] = f"{row:064}" * 15
    cursor.close()
for _ in range(scans):
    found = 0
    for row, content in session.open_cursor("table:t"):
        found += int(content[-64:]) == row
    if found != rows:
        sys.exit(f"{found} rows are right, not {rows}")
connection.close()
print(scans, "operations")
EOS

cat >"$work/wiredtiger" <<'EOS'
#!/bin/sh
# wiredtiger FILES FORGET PYTHON SCRIPT ROWS
"$2" "$1/wiredtiger"
"$3" "$4" "$1/wiredtiger" "$5" 14
EOS

cat >"$work/rows.py" <<'EOS'
"""rows.py FILES SECONDS ROWS WANTED: rows of ROWS of sqlite at random by a Zipf law (0.99), each checked: WANTED, or where that is 0 as
many as can be had in SECONDS."""
import bisect, itertools, random, sqlite3, sys, time

files, seconds, rows, wanted = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
with sqlite3.connect(f"file:{files}/sqlite.db?mode=ro", uri=True) as db:
    db.execute("pragma cache_size = -2000")
    # Ranks are of groups of three neighbours, which lie on a page of their own or nearly.
    sums = list(itertools.accumulate(1 / rank**0.99 for rank in range(1, rows // 3 + 1)))
    draw, where = random.Random(7), list(range(rows // 3))
    draw.shuffle(where)
    done, end = 0, time.monotonic() + seconds
    while done < wanted if wanted else time.monotonic() < end:
        for _ in range(50):
            row = 3 * where[bisect.bisect(sums, draw.random() * sums[-1])] + draw.randrange(3) + 1
            (content,) = db.execute("select b from t where id = ?", (row,)).fetchone()
            if not content.startswith(f"{row}:"):
                sys.exit(f"row {row} is wrong")
            done += 1
print(done, "operations")
EOS

cat >"$work/sqlite" <<'EOS'
#!/bin/sh
# sqlite FILES PROGRAMS SCRIPT SECONDS IDLE ROWS WANTED
"$2/forget" "$1/sqlite.db"
: >"$1/idle"
"$2/idle" --size "$5" >"$1/idle" &
idle=$!
until [ -s "$1/idle" ]; do
    kill -0 $idle || exit 1
    sleep 0.1
done
python3 "$3" "$1" "$4" "$6" "$7"
status=$?
kill $idle
exit $status
EOS

cat >"$work/code" <<'EOS'
#!/bin/sh
# code FILES PROGRAMS SECONDS SERVERS: a line of what the program saw goes to FILES/seen.
"$2/forget" "$1/code" "$1/stream"
"$4/fio" --name=stream --filename="$1/stream" --size=3g --rw=read --bs=128k --ioengine=psync --invalidate=0 \
    --time_based --runtime=1h >/dev/null &
fio=$!
"$1/code" --calls "$(($3 * 2))" | tee "$1/seen"
kill $fio || exit 1
wait $fio
[ -s "$1/seen" ]
EOS

compare() { # LOAD MEMORY SWAP COMMAND...
    local load=$1 memory=$2 swap=$3
    shift 3
    "$strata" compare --runs "$runs" --memory "$memory" --swap "$swap" --operations '([0-9.]+) operations' --format json \
        -- "$@" >"$work/$load.json" 2>"$work/errors" || { cat "$work/errors" >&2; exit 1; }
}

for load in $loads; do
    case $load in postgres*) [ -d "$files/pg" ] || make_postgres ;; esac
    case $load in
    postgres) compare "$load" "$(of 200)M" zram:256M sh "$work/postgres" "$files" "$servers" "$programs/forget" scans ;;
    postgres-noswap) compare "$load" "$(of 200)M" existing sh "$work/postgres" "$files" "$servers" "$programs/forget" scans ;;
    wiredtiger)
        python=$target_dir/wiredtiger/bin/python
        [ -x "$python" ] || python3 -m venv "$target_dir/wiredtiger"
        "$python" -c 'import wiredtiger' 2>/dev/null || "$python" -m pip install --quiet wiredtiger || fail "wiredtiger does not build here"
        mkdir "$files/wiredtiger"
        "$python" "$work/scans.py" "$files/wiredtiger" "$(of 236000)" 0 >/dev/null
        sync
        compare "$load" "$(of 200)M" zram:256M sh "$work/wiredtiger" "$files" "$programs/forget" "$python" "$work/scans.py" "$(of 236000)"
        ;;
    postgres-rows)
        printf '\\set id random(1, %s)\nselect length(b) from t where id = :id;\n' "$(of 236000)" >"$files/row"
        compare "$load" "$(of 200)M" zram:256M sh "$work/postgres" "$files" "$servers" "$programs/forget" rows "$seconds"
        ;;
    sqlite)
        python3 - "$files/sqlite.db" "$(of 240000)" <<'EOS'
import hashlib, sqlite3, sys
with sqlite3.connect(sys.argv[1]) as db:
    db.execute("create table t (id integer primary key, b text)")
    db.executemany("insert into t values (?, ?)", ((i, f"{i}:" + hashlib.sha512(b"%d" % i).hexdigest() * 8) for i in range(1, int(sys.argv[2]) + 1)))
EOS
        sync
        compare "$load" "$(of 216)M" zram:256M sh "$work/sqlite" "$files" "$programs" "$work/rows.py" "$seconds" "$(of 192)M" \
            "$(of 240000)" "$rows"
        ;;
    code)
        cp "$programs/code" "$files/code"
        head -c 3G /dev/zero | tr '\0' x >"$files/stream"
        sync
        for round in $(seq "$runs"); do
            arms='kernel strata'
            [ $((round % 2)) = 1 ] || arms='strata kernel'
            for arm in $arms; do
                "$strata" compare --arms "$arm" --runs 1 --memory 96M --swap zram:256M --operations '"calls":([0-9]+)' \
                    -- sh "$work/code" "$files" "$programs" "$seconds" "$servers" >/dev/null 2>"$work/errors" ||
                    { cat "$work/errors" >&2; exit 1; }
                echo "$arm $(cat "$files/seen")" >>"$work/code.seen"
            done
        done
        ;;
    esac
done
compared=${loads//code/}
# shellcheck disable=SC2086
[ -z "${compared// /}" ] || compared_table $compared
[ -e "$work/code.seen" ] || exit 0
python3 - "$work" <<'PYTHON'
import json, statistics, sys

seen = {"kernel": [], "strata": []}
with open(f"{sys.argv[1]}/code.seen") as file:
    for line in file:
        arm, told = line.split(" ", 1)
        seen[arm].append(json.loads(told))
print("\n| code, medians | kernel | Strata |\n|---|---|---|")
for figure in ("major_faults", "p50_us", "p99_us", "max_us"):
    print(f"| {figure} | " + " | ".join(f"{statistics.median(of[figure] for of in seen[arm]):,.0f}" for arm in seen) + " |")
PYTHON
