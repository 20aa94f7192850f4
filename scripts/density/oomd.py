"""systemd-oomd's rule with its default limits, for the groups below one of cgroup v2: it is a service of systemd's, which not every host has.

  oomd.py GROUP MIB

Ends the group with most swap where a tenth of MIB is left of memory and a tenth of the swap; or the one with most pages scanned where all of
them together stood still for memory more than 60 % of ten seconds, for 30 s. Waits 15 s after each."""
import os
import re
import sys
import time

LEFT = 0.1
STALLED_PERCENT, STALLED_S = 60.0, 30.0
LEAST_SWAP = 0.05
AFTER_ONE_S = 15.0

top, mib = sys.argv[1], int(sys.argv[2])


def read(path):
    with open(path) as file:
        return file.read()


def value(path, name=""):
    return int(re.search(rf"^{name}:?\s*(\d+)", read(path), re.M)[1])


def of_all(figure):
    return {name: figure(f"{top}/{name}") for name in os.listdir(top) if os.path.isdir(f"{top}/{name}")}


def scanned(group):
    return value(f"{group}/memory.stat", "pgscan")


def swapped(group):
    return value(f"{group}/memory.swap.current")


def kill(name, why):
    with open(f"{top}/{name}/cgroup.kill", "w") as file:
        file.write("1")
    print(f"{name}: {why}", flush=True)
    time.sleep(AFTER_ONE_S)


before, since = of_all(scanned), None
while True:
    time.sleep(1)
    memory = {name: value("/proc/meminfo", name) for name in ("MemAvailable", "SwapTotal", "SwapFree")}
    if memory["MemAvailable"] < LEFT * mib * 1024 and memory["SwapFree"] < LEFT * memory["SwapTotal"]:
        most = max((bytes, name) for name, bytes in of_all(swapped).items())
        if most[0] > LEAST_SWAP * 1024 * memory["SwapTotal"]:
            kill(most[1], "most swap")
    found = of_all(scanned)
    rate = {name: pages - before.get(name, 0) for name, pages in found.items()}
    stalled = float(re.search(r"^full avg10=([\d.]+)", read(f"{top}/memory.pressure"), re.M)[1])
    if stalled <= STALLED_PERCENT:
        since = None
    since = since or (time.time() if stalled > STALLED_PERCENT else None)
    if since and time.time() - since > STALLED_S and any(rate.values()):
        kill(max(rate, key=rate.get), f"{stalled} % stalled")
        since = None
    before = found
