#!/usr/bin/env python3
"""How many sandboxes does a host hold? One more starts every few seconds, each in a cgroup of its own; locked memory leaves them so many
MiB. Prints a line each ten seconds, then one line of JSON: what the kernel did, and how long calls took by how many were started.

  density.py ARM [--sandboxes 90] [--mib 6000] [--step 3] [--hold 150] [--leak MIB_A_SECOND]

ARM is kernel, kernel180 (swappiness 180, page-cluster 0), knows (sandboxes page out what they do not use), or a file of rules for strata
guard. As root; 12 GiB of compressed swap in every arm. With --leak one more group grows without an end from the 20th start on. STRATA
names the program, WORK a folder on a disk, TEXT a folder with text to hold. Sandboxes are killed before anything else of this machine."""
import argparse
import ctypes
import json
import mmap
import os
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
COUNTS = """pswpin pswpout pgmajfault oom_kill workingset_refault_anon workingset_refault_file pgsteal_direct pgsteal_kswapd
allocstall_normal allocstall_movable""".split()
LEAK = "import sys, time\nheld = []\nwhile True:\n    held.append(bytes(range(256)) * 4096 * int(sys.argv[1])); time.sleep(1)\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("arm")
    parser.add_argument("--sandboxes", type=int, default=90)
    parser.add_argument("--mib", type=int, default=6000)
    parser.add_argument("--step", type=float, default=3.0)
    parser.add_argument("--hold", type=float, default=150.0)
    parser.add_argument("--leak", type=int, default=0)
    return parser.parse_args()


def write(path, value):
    with open(path, "w") as file:
        file.write(str(value))


def numbers(path):
    with open(path) as file:
        return {key: int(value) for key, value in re.findall(r"(\w+):?\s+(\d+)", file.read())}


def processors():
    """Seconds of all processors: for programs, and in the kernel."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq = (int(text) for text in file.readline().split()[1:8])
    return (user + nice) / 100, (system + irq + softirq) / 100


def hold_locked(mib):
    """A child that locks so much memory and says when it has it."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        memory, libc = mmap.mmap(-1, mib << 20), ctypes.CDLL(None, use_errno=True)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        locked = libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(mib << 20))
        os.write(writes, b"." if locked == 0 else b"!")
        signal.pause()
    if os.read(reads, 1) != b".":
        os.kill(pid, signal.SIGKILL)
        sys.exit(f"density: {mib} MiB can't be locked")
    return pid


class Swap:
    """12 GiB of compressed swap, and the settings of an arm."""

    def __init__(self, settings):
        with open("/sys/class/zram-control/hot_add") as file:
            self.number = int(file.read())
        write(f"/sys/block/zram{self.number}/disksize", "12G")
        subprocess.check_call(["mkswap", f"/dev/zram{self.number}"], stdout=subprocess.DEVNULL)
        subprocess.check_call(["swapon", f"/dev/zram{self.number}"])
        self.kept = {}
        for name, value in settings.items():
            with open(f"/proc/sys/vm/{name}") as file:
                self.kept[name] = file.read()
            write(f"/proc/sys/vm/{name}", value)

    def end(self):
        for name, value in self.kept.items():
            write(f"/proc/sys/vm/{name}", value)
        subprocess.call(["swapoff", f"/dev/zram{self.number}"])
        write(f"/sys/block/zram{self.number}/reset", 1)
        write("/sys/class/zram-control/hot_remove", self.number)


def text_of(folder):
    text = b""
    for below, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in ("target", ".git")]
        for name in sorted(names):
            if name.endswith((".rs", ".md", ".c", ".py", ".sh")):
                with open(os.path.join(below, name), "rb") as file:
                    text += file.read()
    return (text * (1 + (24 << 20) // max(len(text), 1)))[: 24 << 20]


def started(group, command):
    os.makedirs(group, exist_ok=True)
    shell = 'echo $$ >"$0/cgroup.procs"; echo 1000 >/proc/$$/oom_score_adj; exec "$@"'
    return subprocess.Popen(["sh", "-c", shell, group, *command], stderr=subprocess.DEVNULL)


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def told(log, began, asked):
    """Milliseconds by how many were started."""
    with open(log) as file:
        events = [(float(at) - began, kind, float(ms)) for at, _, kind, ms in map(str.split, file)]
    rows, edges = [], [*range(0, asked.sandboxes, 10), asked.sandboxes, 10 * asked.sandboxes]
    for low, high in zip(edges, edges[1:]):
        for kind in ("call", "first", "start"):
            took = [ms for at, of, ms in events if of == kind and low * asked.step <= at < high * asked.step]
            if took:
                ms = {f"p{share}": quantile(took, share / 100) for share in (50, 90, 99)}
                rows.append({"from": low, "to": high, "kind": kind, "n": len(took), "most": max(took), **ms})
    return rows


def main():
    asked = arguments()
    work = os.environ.get("WORK", "/var/tmp/density")
    v1 = os.path.isdir("/sys/fs/cgroup/memory")
    mount = "/sys/fs/cgroup/memory" if v1 else "/sys/fs/cgroup"
    top, log = f"{mount}/density", f"{work}/log"
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    with open(f"{work}/text", "wb") as file:
        file.write(text_of(os.environ.get("TEXT", ".")))
    ballast = hold_locked(numbers("/proc/meminfo")["MemAvailable"] // 1024 - asked.mib)
    os.makedirs(top, exist_ok=True)
    if not v1:
        write(f"{mount}/cgroup.subtree_control", "+memory")
        write(f"{top}/cgroup.subtree_control", "+memory")
    guard = swap = None
    if asked.arm in ("kernel", "kernel180", "knows"):
        swap = Swap({"swappiness": 180, "page-cluster": 0} if asked.arm == "kernel180" else {})
    else:
        command = [os.environ.get("STRATA", "target/release/strata"), "guard", "--config", asked.arm]
        with open(f"{work}/guard.out", "w") as file:
            options = ["--swap", "zram:12G", "--release", "--history", "none"]
            guard = subprocess.Popen([*command, *options], stdout=file, stderr=subprocess.STDOUT)
    time.sleep(2)
    counts, spent, began = numbers("/proc/vmstat"), processors(), time.time()
    sandboxes, dead, leak, next_start, next_line, kernel_150_s = [], set(), None, 0.0, 0.0, None
    try:
        while (at := time.time() - began) < asked.sandboxes * asked.step + asked.hold:
            if len(sandboxes) < asked.sandboxes and at >= next_start:
                number = len(sandboxes)
                command = [sys.executable, f"{HERE}/sandbox.py", str(number), log, work, "75", "450", "4"]
                command += ["knows"] if asked.arm == "knows" else []
                sandboxes.append(started(f"{top}/s{number}", command))
                next_start += asked.step
            if asked.leak and leak is None and len(sandboxes) >= 20:
                leak = started(f"{top}/leak", [sys.executable, "-c", LEAK, str(asked.leak)])
            dead |= {i for i, one in enumerate(sandboxes) if one.poll() is not None}
            if kernel_150_s is None and at >= 150:
                kernel_150_s = processors()[1] - spent[1]
            if at >= next_line:
                memory = numbers("/proc/meminfo")
                mib = {key: memory[key] // 1024 for key in ("MemFree", "MemAvailable", "SwapTotal", "SwapFree")}
                swapped = mib["SwapTotal"] - mib["SwapFree"]
                print(f"{at:5.0f} s: {len(sandboxes)} started, {len(dead)} dead; MiB free {mib['MemFree']}, available {mib['MemAvailable']}, in swap {swapped}", file=sys.stderr, flush=True)
                next_line += 10
            time.sleep(0.1)
        after, now = numbers("/proc/vmstat"), processors()
        guard_s = 0.0
        if guard and guard.poll() is None:
            with open(f"/proc/{guard.pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            guard_s = (int(fields[11]) + int(fields[12])) / 100
        ended_leak = leak is not None and leak.poll() is not None
    finally:
        for one in [*sandboxes, *([leak] if leak else [])]:
            if one.poll() is None:
                one.kill()
            one.wait()
        if guard:
            guard.send_signal(signal.SIGTERM)
            guard.wait(180)
        if swap:
            swap.end()
        os.kill(ballast, signal.SIGKILL)
        os.waitpid(ballast, 0)
        time.sleep(1)
        for name in [*os.listdir(top)]:
            if os.path.isdir(f"{top}/{name}"):
                os.rmdir(f"{top}/{name}")
        os.rmdir(top)
    print(json.dumps({
        "arm": os.path.basename(asked.arm),
        "nr_started": len(sandboxes),
        "nr_killed": len(dead),
        "has_leak_ended": ended_leak,
        "guard_cpu_s": guard_s,
        "programs_cpu_s": now[0] - spent[0],
        "kernel_cpu_s": now[1] - spent[1],
        "kernel_cpu_s_at_150_s": kernel_150_s,
        "counts": {key: after.get(key, 0) - counts.get(key, 0) for key in COUNTS},
        "calls": told(log, began, asked),
    }))


main()
