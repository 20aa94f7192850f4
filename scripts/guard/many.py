"""PART=many of scripts/evaluate-guard.sh: what a guard costs with 1, 100 and 2,000 groups.

  many.py STRATA WORK SECONDS PROGRAMS    a table; PROGRAMS is where tests/programs are compiled
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import guards
import programs

NR_GROUPS = [int(number) for number in os.environ.get("GROUPS_OF", "1 100 2000").split()]
LATENCY_S = 15


def waited(meter, seconds):
    """Once it has what it was without while it stood still, the longest waits of a program for its own memory management, microseconds: of all and of 99.9 %."""
    ask = lambda: (meter.stdin.write("\n"), meter.stdin.flush(), json.loads(meter.stdout.readline()))[2]
    time.sleep(5)
    ask()
    seconds()
    found = ask()
    steps = ("mmap", "fault", "munmap", "read")
    return max(found[f"{step}_max_us"] for step in steps), max(found[f"{step}_p999_us"] for step in steps)


def one(strata, work, seconds, built, nr_groups):
    prefix = f"strata-many-{os.getpid()}-{nr_groups}"
    groups = []
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: [group.remove() for group in groups])
        groups += [programs.Group(f"{prefix}-{number}") for number in range(nr_groups)]
        path = groups[0].path.removesuffix("0")
        crowd = subprocess.Popen([f"{built}/crowd", "--prefix", path, "--groups", str(nr_groups)], stdout=subprocess.PIPE, text=True)
        stack.callback(lambda: (crowd.kill(), crowd.wait()))
        nr_processes = json.loads(crowd.stdout.readline())["processes"]
        # One that measures how long others hold its memory up; it works only while it is asked.
        groups.append(programs.Group(f"{prefix}-meter"))
        meter = subprocess.Popen(["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', groups[-1].path, f"{built}/latency", "--size", "256M"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stack.callback(lambda: (meter.kill(), meter.wait()))
        meter.stdout.readline()
        alone = waited(meter, lambda: time.sleep(LATENCY_S))
        meter.send_signal(signal.SIGSTOP)
        guard = guards.Guard(strata, work, "--promise", "0.2%/min", "--min-age", os.environ.get("MIN_AGE", "1m"), "--cgroup", f"/{prefix}-*", "--swap", guards.SWAP, "--release")
        stack.callback(guard.stop)
        guard.wait_for_walks(1, 120)
        first = guard.costs()
        time.sleep(seconds)
        then, elapsed, share = guard.costs(), time.monotonic() - guard.walks[0][0], os.cpu_count()
        longest, nr_walks = max(guard.longest_wait(), time.monotonic() - guard.walks[-1][0]), len(guard.walks)
        meter.send_signal(signal.SIGCONT)
        beside = waited(meter, lambda: (time.sleep(LATENCY_S), guard.wait_for_walks(1, 300)))
        status = guard.status
    found = len(status["groups"]) - 1
    if found != nr_groups:
        print(f"\nOf {nr_groups} groups the guard told of {found}: {guard.said()}")
    allowed = 3 * (status["resident_bytes"] + status["away_bytes"]) / 4096 + 40 * guards.MIB
    cells = [nr_groups, nr_processes, f"{(then['cpu_s'] - first['cpu_s']) / elapsed / share:.2%}", f"{first['cpu_s']:.1f}", f"{then['most'] / guards.MIB:.0f}, {allowed / guards.MIB:.0f}"]
    cells += [f"{(then['wakeups'] - first['wakeups']) / elapsed:.1f}", nr_walks, f"{longest:.0f}", f"{alone[0]}, {beside[0]}", f"{alone[1]}, {beside[1]}"]
    return cells + [", ".join(f"{status[key] / guards.MIB:.0f}" for key in ("resident_bytes", "away_bytes", "price_bytes"))]


def main(strata, work, seconds, built):
    print("| groups | processes | processors | until the first walk has ended, CPU s | memory at most, as allowed; MiB | wakeups a second | walks "
          "| longest from walk to walk, s | longest wait alone, beside a guard; us | of 99.9 % | resident, away, price; MiB |")
    print("|---:" * 11 + "|", flush=True)
    for nr_groups in NR_GROUPS:
        print("| " + " | ".join(map(str, one(strata, work, float(seconds), built, nr_groups))) + " |", flush=True)
    for what in guards.left():
        sys.exit(f"left behind: {what}")


if __name__ == "__main__":
    main(*sys.argv[1:])
