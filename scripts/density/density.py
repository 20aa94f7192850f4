#!/usr/bin/env python3
"""How many sandboxes does a host hold? One more starts every few seconds, each in a cgroup of its own; locked memory leaves them so many
MiB. Prints a line each ten seconds, then one line of JSON: what the kernel did, and how long calls took by how many were started.

  density.py ARM [--sandboxes 90] [--mib 6000] [--step 3] [--hold 150] [--leak MIB_A_SECOND [--leak-at 20] [--leak-span 10]] [--real]

Host.py says what an ARM is. With --leak one more group grows without an end, by text, from the start of this number on (or when it would be);
calls within the span of so many starts before that, and after it, are told apart. With --real sandboxes are those of real.py, which needs TOOLS.
WORK names a folder on a disk, TEXT a folder with text to hold."""
import argparse
import json
import os
import shutil
import sys
import time

from host import HERE, Host, quantile, text_of

LEAK = """import random, sys, time
text, held = open(sys.argv[1], "rb").read(), []
while True:
    for _ in range(int(sys.argv[2])):
        start = random.randrange(len(text) - (1 << 20))
        held.append(text[start : start + (1 << 20)])
    time.sleep(1)
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("arm")
    parser.add_argument("--sandboxes", type=int, default=90)
    parser.add_argument("--mib", type=int, default=6000)
    parser.add_argument("--step", type=float, default=3.0)
    parser.add_argument("--hold", type=float, default=150.0)
    parser.add_argument("--leak", type=int, default=0)
    parser.add_argument("--leak-at", type=int, default=20)
    parser.add_argument("--leak-span", type=int, default=10)
    parser.add_argument("--real", action="store_true")
    return parser.parse_args()


def events_of(log, began):
    """Seconds since then, kind, and milliseconds."""
    with open(log) as file:
        return [(float(at) - began, kind, float(ms)) for at, _, kind, ms in map(str.split, file)]


def told(events, asked):
    """Milliseconds by how many were started."""
    rows, edges = [], [*range(0, asked.sandboxes, 10), asked.sandboxes, 10 * asked.sandboxes]
    for low, high in zip(edges, edges[1:]):
        for kind in sorted({kind for _, kind, _ in events}):
            took = [ms for at, of, ms in events if of == kind and low * asked.step <= at < high * asked.step]
            if took:
                ms = {f"p{share}": quantile(took, share / 100) for share in (50, 90, 99)}
                rows.append({"from": low, "to": high, "kind": kind, "n": len(took), "most": max(took), **ms})
    return rows


def beside_leak(events, leaks_at, span_s):
    """Calls of the others, before somebody leaks and after, as many seconds each, and later."""
    spans = {"before": (leaks_at - span_s, leaks_at), "after": (leaks_at, leaks_at + span_s), "later": (leaks_at + span_s, float("inf"))}
    told = {"seconds": span_s}
    for name, (low, high) in spans.items():
        took = [ms for at, kind, ms in events if kind == "call" and low <= at < high]
        told[name] = {"n": len(took), "p99": quantile(took, 0.99) if took else None}
    return told


def main():
    asked = arguments()
    work = os.environ.get("WORK", "/var/tmp/density")
    log = f"{work}/log"
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    with open(f"{work}/text", "wb") as file:
        file.write(text_of(os.environ.get("TEXT", ".")))
    one_of = [f"{os.environ['TOOLS']}/venv/bin/python3", f"{HERE}/real.py"] if asked.real else [sys.executable, f"{HERE}/sandbox.py"]
    sandboxes, dead, frozen, leak, leaks_at, kernel_150_s = [], set(), set(), None, None, None
    next_start, next_look, next_line = 0.0, 0.0, 0.0
    with Host(asked.arm, asked.mib, work) as host:
        host.callback(lambda: host.kill([*sandboxes, *([leak] if leak else [])]))
        while (at := time.time() - host.began) < asked.sandboxes * asked.step + asked.hold:
            if len(sandboxes) < asked.sandboxes and at >= next_start:
                number = len(sandboxes)
                command = [*one_of, str(number), log, work, "75", "450", "4"]
                command += ["knows"] if asked.arm == "knows" else []
                sandboxes.append(host.start(f"s{number}", command))
                next_start += asked.step
            if asked.leak and leak is None and at >= (asked.leak_at - 1) * asked.step:
                leak, leaks_at = host.start("leak", [sys.executable, "-c", LEAK, f"{work}/text", str(asked.leak)]), at
            dead |= {i for i, one in enumerate(sandboxes) if one.poll() is not None}
            if at >= next_look:
                frozen |= host.frozen()
                next_look += 1
            if kernel_150_s is None and at >= 150:
                kernel_150_s = host.kernel_s()
            if at >= next_line:
                host.say(f"{len(sandboxes)} started, {len(dead)} dead")
                next_line += 10
            time.sleep(0.1)
        found = host.found() | {
            "nr_started": len(sandboxes),
            "nr_killed": len(dead),
            "nr_frozen": len(frozen - {"leak"}),
            "leak": None if leak is None else "ended" if leak.poll() is not None else "frozen" if "leak" in frozen else "goes on",
            "kernel_cpu_s_at_150_s": kernel_150_s,
        }
    events = events_of(log, host.began)
    found |= {"calls": told(events, asked)}
    if leak:
        found |= {"beside_leak": beside_leak(events, leaks_at, asked.leak_span * asked.step)}
    print(json.dumps(found))
    shutil.rmtree(work)


main()
