#!/usr/bin/env python3
"""How many sandboxes does a host hold? One more starts every few seconds, each in a cgroup of its own; locked memory leaves them so many
MiB. Prints a line each ten seconds, then one line of JSON: what the kernel did, and how long calls took by how many were started.

  density.py ARM [--sandboxes 90] [--mib 6000] [--step 3] [--hold 150] [--leak MIB_A_SECOND] [--real]

Host.py says what an ARM is. With --leak one more group grows without an end from the 20th start on. With --real sandboxes are those of
real.py, which needs TOOLS. WORK names a folder on a disk, TEXT a folder with text to hold."""
import argparse
import json
import os
import shutil
import sys
import time

from host import HERE, Host, quantile, text_of

LEAK = "import sys, time\nheld = []\nwhile True:\n    held.append(bytes(range(256)) * 4096 * int(sys.argv[1])); time.sleep(1)\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("arm")
    parser.add_argument("--sandboxes", type=int, default=90)
    parser.add_argument("--mib", type=int, default=6000)
    parser.add_argument("--step", type=float, default=3.0)
    parser.add_argument("--hold", type=float, default=150.0)
    parser.add_argument("--leak", type=int, default=0)
    parser.add_argument("--real", action="store_true")
    return parser.parse_args()


def told(log, began, asked):
    """Milliseconds by how many were started."""
    with open(log) as file:
        events = [(float(at) - began, kind, float(ms)) for at, _, kind, ms in map(str.split, file)]
    rows, edges = [], [*range(0, asked.sandboxes, 10), asked.sandboxes, 10 * asked.sandboxes]
    for low, high in zip(edges, edges[1:]):
        for kind in sorted({kind for _, kind, _ in events}):
            took = [ms for at, of, ms in events if of == kind and low * asked.step <= at < high * asked.step]
            if took:
                ms = {f"p{share}": quantile(took, share / 100) for share in (50, 90, 99)}
                rows.append({"from": low, "to": high, "kind": kind, "n": len(took), "most": max(took), **ms})
    return rows


def main():
    asked = arguments()
    work = os.environ.get("WORK", "/var/tmp/density")
    log = f"{work}/log"
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    with open(f"{work}/text", "wb") as file:
        file.write(text_of(os.environ.get("TEXT", ".")))
    one_of = [f"{os.environ['TOOLS']}/venv/bin/python3", f"{HERE}/real.py"] if asked.real else [sys.executable, f"{HERE}/sandbox.py"]
    sandboxes, dead, leak, next_start, next_line, kernel_150_s = [], set(), None, 0.0, 0.0, None
    with Host(asked.arm, asked.mib, work) as host:
        host.callback(lambda: host.kill([*sandboxes, *([leak] if leak else [])]))
        while (at := time.time() - host.began) < asked.sandboxes * asked.step + asked.hold:
            if len(sandboxes) < asked.sandboxes and at >= next_start:
                number = len(sandboxes)
                command = [*one_of, str(number), log, work, "75", "450", "4"]
                command += ["knows"] if asked.arm == "knows" else []
                sandboxes.append(host.start(f"s{number}", command))
                next_start += asked.step
            if asked.leak and leak is None and len(sandboxes) >= 20:
                leak = host.start("leak", [sys.executable, "-c", LEAK, str(asked.leak)])
            dead |= {i for i, one in enumerate(sandboxes) if one.poll() is not None}
            if kernel_150_s is None and at >= 150:
                kernel_150_s = host.kernel_s()
            if at >= next_line:
                host.say(f"{len(sandboxes)} started, {len(dead)} dead")
                next_line += 10
            time.sleep(0.1)
        found = host.found() | {
            "nr_started": len(sandboxes),
            "nr_killed": len(dead),
            "has_leak_ended": leak is not None and leak.poll() is not None,
            "kernel_cpu_s_at_150_s": kernel_150_s,
        }
    print(json.dumps(found | {"calls": told(log, host.began, asked)}))
    shutil.rmtree(work)


main()
