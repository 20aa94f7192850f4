"""Parts of scripts/evaluate-tiers.sh, in a guest whose second memory node has no processor: counts, no times.

  tiers.py STRATA WORK DISK    prints a table row for each part: `part | what | found`
"""

import ctypes
import json
import mmap
import os
import random
import signal
import subprocess
import sys
import time

MIB, PAGE = 1 << 20, 4096
LIBC = ctypes.CDLL(None, use_errno=True)
SET_MEMPOLICY, MOVE_PAGES, BIND = 238, 279, 2
FAST, SLOW = 0, 1
GROUP = f"/sys/fs/cgroup/strata-tiers-{os.getpid()}"
STRATEGIES = ("never", "first-access", "rfc-as-coded", "refs", "five-conditions")


def bind(node):
    """What this process asks for from now on comes from this node; None: from anywhere."""
    mask = ctypes.c_ulong(0 if node is None else 1 << node)
    if LIBC.syscall(SET_MEMPOLICY, 0 if node is None else BIND, None if node is None else ctypes.byref(mask), 64):
        raise OSError(ctypes.get_errno(), "set_mempolicy")


def on_nodes(pid, addresses):
    """Pages on each node."""
    status, found = (ctypes.c_int * len(addresses))(), {FAST: 0, SLOW: 0}
    pages = (ctypes.c_void_p * len(addresses))(*addresses)
    LIBC.syscall(MOVE_PAGES, pid, len(addresses), pages, None, status, 0)
    for node in status:
        if node >= 0:
            found[node] = found.get(node, 0) + 1
    return found


def file_on_nodes(path, pages=None):
    """Pages of a file's cache on each node, without a trace: mapped at random."""
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        mapped.madvise(mmap.MADV_RANDOM)
        mapped.madvise(22)  # MADV_POPULATE_READ
        # The address of a read-only map, by way of /proc.
        maps = [line.split() for line in open("/proc/self/maps") if line.rstrip().endswith(path)]
        start = int(maps[-1][0].split("-")[0], 16)
        number = os.path.getsize(path) // PAGE
        found = on_nodes(0, [start + page * PAGE for page in (range(number) if pages is None else pages)])
        mapped.close()
        return found


class Program:
    """A child in the group: memory of this size, and what it does with it, line by line."""

    def __init__(self, size, node=None, is_guarded=True):
        self.size, self.is_guarded = size, is_guarded
        to_child, to_parent = os.pipe(), os.pipe()
        self.pid = os.fork()
        if not self.pid:
            self.live(to_child[0], to_parent[1], node)
        self.ask_end, self.answer_end = os.fdopen(to_child[1], "w"), os.fdopen(to_parent[0])
        self.address = int(self.answer_end.readline())

    def live(self, asks, answers, node):
        if self.is_guarded:
            open(f"{GROUP}/cgroup.procs", "w").write("0")
        bind(node)
        memory = mmap.mmap(-1, self.size)
        memory.madvise(15)  # MADV_NOHUGEPAGE
        for page in range(self.size // PAGE):
            memory[page * PAGE : page * PAGE + 8] = page.to_bytes(8, "little")
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        os.write(answers, f"{address}\n".encode())
        # Else Python would keep a copy of what is to be used.
        first, end = 0, 0
        os.set_blocking(asks, False)
        while True:
            try:
                for line in os.read(asks, 4096).decode().splitlines():
                    word, *numbers = line.split()
                    if word == "use":
                        first, end = map(int, numbers)
                    elif word == "check":
                        right = all(int.from_bytes(memory[at * PAGE : at * PAGE + 8], "little") == at for at in range(self.size // PAGE))
                        os.write(answers, f"{right}\n".encode())
                    else:
                        os._exit(0)
            except BlockingIOError:
                pass
            for at in range(first * PAGE, end * PAGE, PAGE):
                memory[at]
            time.sleep(0.05)

    def tell(self, line):
        print(line, file=self.ask_end, flush=True)

    def on_nodes(self, first, end):
        return on_nodes(self.pid, [self.address + page * PAGE for page in range(first, end)])

    def is_right(self):
        self.tell("check")
        return self.answer_end.readline().strip() == "True"

    def end(self):
        self.tell("end")
        os.waitpid(self.pid, 0)


class Guard:
    """A guard that moves pages of the group, by these lines of rules."""

    def __init__(self, strata, work, tiers, promise="none"):
        rules, self.out = f"{work}/rules.toml", f"{work}/guard.json"
        name = GROUP.removeprefix("/sys/fs/cgroup")
        with open(rules, "w") as file:
            file.write(f"cpu = '50%'\n[tiers]\n{tiers}\n[[rule]]\ncgroup = '{name}'\npromise = '{promise}'\nmin_age = '5s'\ntiers = true\n")
        environment = os.environ | {"STRATA_RUN_DIR": f"{work}/run"}
        command = [strata, "guard", "--config", rules, "--swap", "zram:256M", "--release", "--history", "none", "--format", "json"]
        self.process = subprocess.Popen(command, stdout=open(self.out, "w"), stderr=open(f"{work}/guard.err", "w"), env=environment)

    def told(self):
        lines = open(self.out).read().splitlines()
        return json.loads(lines[-1]) if lines and lines[-1].endswith("}") else None

    def wait(self, is_so, seconds):
        """Walks until it is so; None: in vain."""
        until, begun = time.monotonic() + seconds, None
        while time.monotonic() < until:
            told = self.told()
            if told:
                begun = told["nr_walks"] if begun is None else begun
                if is_so(told):
                    return told["nr_walks"] - begun
            time.sleep(0.5)
        return None

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(120)
        return self.told()["tiers"]


def swap_used():
    return sum(int(line.split()[3]) for line in open("/proc/swaps").read().splitlines()[1:]) << 10


def halves(strata, work):
    """The cold half goes down, the hot one stays; then they trade places."""
    number = 96 * MIB // PAGE
    half, program = number // 2, Program(96 * MIB)
    program.tell(f"use 0 {half}")
    guard = Guard(strata, work, "promote = '64M/s'", "100%/min")
    share = lambda first, end, node: program.on_nodes(first, end).get(node, 0) / (end - first)
    parted = guard.wait(lambda _: share(half, number, SLOW) >= 0.95, 300)
    cold, hot, swapped = share(half, number, SLOW), share(0, half, FAST), swap_used()
    print(f"| a program of 96 MiB, half of it in use | cold half on the slow node, hot half on the fast one | {cold:.1%}, {hot:.1%}, after {parted} walks |")
    print(f"| | swap in use meanwhile | {swapped // 1024} KiB |")
    program.tell(f"use {half} {number}")
    traded = guard.wait(lambda _: share(half, number, FAST) >= 0.95 and share(0, half, SLOW) >= 0.95, 600)
    print(f"| the halves trade places | walks until 95 % of both have; content | {traded}; {'right' if program.is_right() else 'WRONG'} |")
    counts = guard.end()
    program.end()
    print(f"| | `pgdemote_proactive`, `pgpromote_success`, `pgmigrate_fail` | {counts['pgdemote_proactive']:,}, {counts['pgpromote_success']:,}, {counts['pgmigrate_fail']:,} |")


def write(path, mib):
    with open(path, "wb") as file:
        for _ in range(mib):
            file.write(random.randbytes(MIB))
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_in(path, node):
    """Reads a file once, in the group, to this node."""
    pid = os.fork()
    if not pid:
        open(f"{GROUP}/cgroup.procs", "w").write("0")
        bind(node)
        with open(path, "rb", buffering=0) as file:
            while file.read(64 << 10):
                pass
        os._exit(0)
    os.waitpid(pid, 0)


def again(path):
    with open(path, "rb", buffering=0) as file:
        while file.read(64 << 10):
            pass


def cache(strata, work, disk):
    """A file that is read again and again, and one that was read once, both on the slow node: what comes up by each strategy."""
    # A group that nobody is in is not looked after.
    member = Program(MIB)
    for strategy in STRATEGIES:
        often, once = f"{disk}/often-{strategy}", f"{disk}/once-{strategy}"
        for path in (often, once):
            write(path, 16)
            read_in(path, SLOW)
        guard = Guard(strata, work, f"promote = '4M/s'\npage_cache = '{strategy}'")
        until, most, last = time.monotonic() + 45, 0, None
        while time.monotonic() < until and file_on_nodes(often)[FAST] < 4000:
            again(often)
            time.sleep(1)
            told = guard.told()
            now = (told["watched_ms"], told["tiers"]["pgpromote_success"]) if told else None
            if now and last and now[0] > last[0]:
                most = max(most, (now[1] - last[1]) * PAGE / MIB / ((now[0] - last[0]) / 1000))
            last = now or last
        counts = guard.end()
        up, stayed = file_on_nodes(often)[FAST] / 4096, file_on_nodes(once)[FAST] / 4096
        print(f"| two files of 16 MiB, `{strategy}`, at 4 MiB/s | of what is read again and again, of what was read once, on the fast node | {up:.0%}, {stayed:.0%}; {counts['nr_promoted_unmapped_pages']:,} pages moved, {most:.1f} MiB/s at most |")
        os.remove(often)
        os.remove(once)
    member.end()


def large(strata, work, disk):
    """A hot set of one and a half times what the fast node has left, read by a Zipf law: moves, and hits there."""
    free = int(next(line.split()[3] for line in open("/sys/devices/system/node/node0/meminfo") if "MemFree" in line)) << 10
    # A twentieth is more than what the kernel and the guard keep free.
    room, kept, member = 64 * MIB, free // 20, Program(MIB)
    hog = Program((free - room - kept) // PAGE * PAGE, FAST, is_guarded=False)
    path, number = f"{disk}/large", room * 3 // 2 // PAGE
    weights = [1 / (rank + 1) ** 0.99 for rank in range(number)]
    order = list(range(number))
    random.Random(7).shuffle(order)
    for strategy in ("never", "refs", "first-access"):
        write(path, room * 3 // 2 // MIB)
        read_in(path, SLOW)
        guard = Guard(strata, work, f"promote = '64M/s'\npage_cache = '{strategy}'")
        draws = random.Random(11)
        until = time.monotonic() + 60
        with open(path, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            while time.monotonic() < until:
                for page in draws.choices(order, weights, k=20000):
                    os.pread(file.fileno(), PAGE, page * PAGE)
        seconds = (guard.told() or {"watched_ms": 1})["watched_ms"] / 1000
        counts = guard.end()
        hits = 0
        for page in draws.choices(order, weights, k=400):
            hits += file_on_nodes(path, [page])[FAST]
        print(f"| a file of 150 % of the fast node's room, by a Zipf law, `{strategy}` | pages moved a second; reads that hit the fast node | {counts['pgpromote_success'] / seconds:.0f}; {hits / 400:.0%} |")
        os.remove(path)
    hog.end()
    member.end()


def main(strata, work, disk):
    os.makedirs(GROUP, exist_ok=True)
    # The kernel would bring pages up beside us.
    open("/proc/sys/kernel/numa_balancing", "w").write("0")
    print("| what | counted | found |\n|---|---|---|")
    try:
        halves(strata, work)
        cache(strata, work, disk)
        large(strata, work, disk)
    finally:
        for _ in range(50):
            try:
                os.rmdir(GROUP)
                break
            except OSError:
                time.sleep(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
