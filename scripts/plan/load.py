"""Loads whose memory is worth planning, for scripts/evaluate-plan.sh. Each fills, says `ready PID` on
stderr (who has the memory) and reads a line from stdin, does OPS operations as fast as it can, prints one
JSON line (ops, seconds, ops_per_s, and latencies in microseconds) and reads another line before it ends.
The same operations every time.

  load.py redis SOCKET OPS    GETs of values of 1 KiB, keys by a Zipf law (0.99)
  load.py memcached SOCKET OPS   the same
  load.py sqlite OPS          a database in memory: point look-ups by that law, and a scan of a tenth of
                              the rows every 500
  load.py python OPS          a dict of lists: look-ups by that law, some of which replace their value
"""

import array
import bisect
import itertools
import json
import os
import random
import re
import socket
import sqlite3
import sys
import time

COUNTED_TENTHS = 10_000
KEYS = 150_000
ROWS = 150_000
ENTRIES = 220_000


def zipf(count, exponent=0.99):
    """Ranks of 0..count, scattered so that hot ones are no neighbours."""
    total, sums = 0.0, []
    for rank in range(1, count + 1):
        total += rank**-exponent
        sums.append(total)
    rng = random.Random(1)
    return lambda: bisect.bisect(sums, rng.random() * total) * 2_654_435_761 % count


def measured(ops, operation, pid):
    """Waits to be let go, does the operations, prints, waits."""
    print("ready", pid, file=sys.stderr, flush=True)
    sys.stdin.readline()
    clock = time.perf_counter_ns
    # Counted by tenths of a microsecond, the slow ones by name: a list of all would be most of what a
    # load has in memory.
    counts, slow = array.array("L", bytes(8 * COUNTED_TENTHS)), []
    start = clock()
    for number in range(ops):
        before = clock()
        operation(number)
        tenths = (clock() - before) // 100
        if tenths < COUNTED_TENTHS:
            counts[tenths] += 1
        else:
            slow.append(tenths)
    seconds = (clock() - start) / 1e9
    sums = list(itertools.accumulate(counts))
    slow.sort()

    def part(share):
        index = min(ops - 1, int(ops * share))
        return (bisect.bisect(sums, index) if index < sums[-1] else slow[index - sums[-1]]) / 10

    print(json.dumps({
        "ops": ops, "seconds": round(seconds, 3), "ops_per_s": round(ops / seconds),
        "p50_us": part(0.5), "p99_us": part(0.99), "p999_us": part(0.999),
    }), flush=True)
    sys.stdin.readline()


def redis(path, ops):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    stream = connection.makefile("rb")
    value = os.urandom(512).hex().encode()
    for first in range(0, KEYS, 1000):
        batch = [b"*3\r\n$3\r\nSET\r\n$%d\r\n%d\r\n$1024\r\n%s\r\n" % (len(str(key)), key, value)
                 for key in range(first, first + 1000)]
        connection.sendall(b"".join(batch))
        for _ in batch:
            stream.readline()
    connection.sendall(b"INFO server\r\n")
    told = stream.read(int(stream.readline()[1:]) + 2)
    pid = int(re.search(rb"process_id:(\d+)", told)[1])
    rank = zipf(KEYS)

    def get(_):
        key = rank()
        connection.sendall(b"*2\r\n$3\r\nGET\r\n$%d\r\n%d\r\n" % (len(str(key)), key))
        if not stream.readline().startswith(b"$1024"):
            sys.exit("redis gave something else")
        stream.read(1026)

    measured(ops, get, pid)


def memcached(path, ops):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    stream = connection.makefile("rb")
    value = os.urandom(512).hex().encode()
    for first in range(0, KEYS, 1000):
        connection.sendall(b"".join(b"set %d 0 0 1024\r\n%s\r\n" % (key, value) for key in range(first, first + 1000)))
        for _ in range(1000):
            stream.readline()
    connection.sendall(b"stats\r\n")
    stats = dict(line.split()[1:3] for line in iter(stream.readline, b"END\r\n"))
    rank = zipf(KEYS)

    def get(_):
        connection.sendall(b"get %d\r\n" % rank())
        if not stream.readline().startswith(b"VALUE"):
            sys.exit("memcached gave something else")
        stream.read(1031)

    measured(ops, get, int(stats[b"pid"]))


def sqlite(ops):
    db = sqlite3.connect(":memory:")
    db.execute("create table t (id integer primary key, a integer, b text)")
    rng = random.Random(7)
    rows = ((n, rng.randrange(1000), rng.randbytes(400).hex()) for n in range(ROWS))
    db.executemany("insert into t values (?, ?, ?)", rows)
    db.commit()
    rank, rng = zipf(ROWS), random.Random(3)

    def ask(number):
        if number % 500 == 499:
            first = rng.randrange(ROWS * 9 // 10)
            query = "select sum(a), sum(length(b)) from t where id between ? and ?"
            db.execute(query, (first, first + ROWS // 10)).fetchone()
        else:
            db.execute("select a, b from t where id = ?", (rank(),)).fetchone()

    measured(ops, ask, os.getpid())


def python(ops):
    rng = random.Random(5)
    table = {n: [rng.randbytes(900), n] for n in range(ENTRIES)}
    rank = zipf(ENTRIES)

    def look(number):
        entry = table[rank()]
        entry[1] += entry[0][number % 900]
        if number % 50 == 0:
            entry[0] = rng.randbytes(900)

    measured(ops, look, os.getpid())


if __name__ == "__main__":
    kind, *rest, ops = sys.argv[1:]
    {"redis": redis, "memcached": memcached, "sqlite": sqlite, "python": python}[kind](*rest, int(ops))
