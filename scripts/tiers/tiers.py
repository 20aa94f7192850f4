"""Parts of scripts/evaluate-tiers.sh, in a guest whose second memory node has no processor: counts, no times.

  tiers.py STRATA WORK DISK [PART...]    prints table rows of each part: `of what | counted | found`
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


def nodes_of(pid, addresses):
    """The node of each page; less than 0: it is not in memory."""
    status = (ctypes.c_int * len(addresses))()
    pages = (ctypes.c_void_p * len(addresses))(*addresses)
    LIBC.syscall(MOVE_PAGES, pid, len(addresses), pages, None, status, 0)
    return list(status)


def count(nodes):
    return {FAST: nodes.count(FAST), SLOW: nodes.count(SLOW)}


def file_nodes(path):
    """The node of each page of a file's cache, without a trace: mapped at random, and only what is in memory."""
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        mapped.madvise(mmap.MADV_RANDOM)
        # The address of a read-only map, by way of /proc.
        maps = [line.split() for line in open("/proc/self/maps") if line.rstrip().endswith(path)]
        start = int(maps[-1][0].split("-")[0], 16)
        number = os.path.getsize(path) // PAGE
        resident = (ctypes.c_ubyte * number)()
        LIBC.mincore(ctypes.c_void_p(start), ctypes.c_size_t(number * PAGE), resident)
        for page in range(number):
            if resident[page] & 1:
                mapped.madvise(22, page * PAGE, PAGE)  # MADV_POPULATE_READ
        found = nodes_of(0, [start + page * PAGE for page in range(number)])
        mapped.close()
        return found


def file_on_nodes(path):
    """Pages of a file's cache on each node."""
    return count(file_nodes(path))


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
        if not self.is_guarded:
            # All of it is there then, and stays.
            LIBC.mlockall(1)  # MCL_CURRENT
        for page in range(self.size // PAGE if self.is_guarded else 0):
            memory[page * PAGE : page * PAGE + 8] = page.to_bytes(8, "little")
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        os.write(answers, f"{address}\n".encode())
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
        return count(nodes_of(self.pid, [self.address + page * PAGE for page in range(first, end)]))

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


HALVES = "A program of 96 MiB uses one half, then the other"


def halves(strata, work, _disk):
    """The cold half goes down, the hot one stays; then they trade places."""
    number = 96 * MIB // PAGE
    half, program = number // 2, Program(96 * MIB)
    program.tell(f"use 0 {half}")
    guard = Guard(strata, work, "promote = '64M/s'", "100%/min")
    share = lambda first, end, node: program.on_nodes(first, end).get(node, 0) / (end - first)
    parted = guard.wait(lambda _: share(half, number, SLOW) >= 0.95, 300)
    cold, hot, swapped = share(half, number, SLOW), share(0, half, FAST), swap_used()
    print(f"| {HALVES} | cold half on the slow node, hot half on the fast one | {cold:.1%}, {hot:.1%}, after {parted} walks |")
    print(f"| {HALVES} | swap in use meanwhile | {swapped // 1024} KiB |")
    program.tell(f"use {half} {number}")
    traded = guard.wait(lambda _: share(half, number, FAST) >= 0.95 and share(0, half, SLOW) >= 0.95, 600)
    print(f"| {HALVES} | walks until 95 % of both have traded places; content | {traded}; {'right' if program.is_right() else 'WRONG'} |")
    counts = guard.end()
    program.end()
    print(f"| {HALVES} | `pgdemote_proactive`, `pgpromote_success`, `pgmigrate_fail` | {counts['pgdemote_proactive']:,}, {counts['pgpromote_success']:,}, {counts['pgmigrate_fail']:,} |")


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


TWO_FILES = "Two files of 16 MiB: of that read again and again, of that read once, on the fast node; pages moved; MiB/s at most"


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
        print(f"| {TWO_FILES} | `{strategy}` | {up:.0%}, {stayed:.0%}; {counts['nr_promoted_unmapped_pages']:,}; {most:.1f} |")
        os.remove(often)
        os.remove(once)
    member.end()


def fast_room():
    """What may come up to the fast node, as a guard counts it: free, less the watermark, less the 2 % that it keeps."""
    free = high = managed = 0
    node = None
    for words in (line.split() for line in open("/proc/zoneinfo")):
        if words[0] == "Node":
            node = int(words[1].rstrip(","))
        elif node == FAST:
            free += int(words[2]) if words[:2] == ["pages", "free"] else 0
            high += int(words[1]) if words[0] == "high" else 0
            managed += int(words[1]) if words[0] == "managed" else 0
    return (free - high - managed // 50) * PAGE


class Narrow:
    """All of the fast node is taken but two thirds of a file's size, while that file is read from the slow one."""

    def __init__(self, strata, work, disk):
        self.strata, self.work, self.path, self.number = strata, work, f"{disk}/large", 96 * MIB // PAGE
        self.member = Program(MIB)
        # What a guard's program takes of page cache is there then.
        guard = Guard(strata, work, "page_cache = 'never'")
        guard.wait(lambda told: told["nr_walks"] > 1, 120)
        guard.end()
        # It takes some memory of its own.
        self.hog = Program((fast_room() - (64 + 24) * MIB) // PAGE * PAGE, FAST, is_guarded=False)

    def begin(self, strategy):
        write(self.path, 96)
        read_in(self.path, SLOW)
        self.before = fast_room()
        self.guard = Guard(self.strata, self.work, f"promote = '64M/s'\npage_cache = '{strategy}'")
        self.guard.wait(lambda told: True, 120)

    def found(self, reads):
        """Of these reads, so many by page: what moved, the share that would hit the fast node now, and its room before and after."""
        after = fast_room()
        counts, nodes = self.guard.end(), file_nodes(self.path)
        hits = sum(number for page, number in reads.items() if nodes[page] == FAST) / sum(reads.values())
        os.remove(self.path)
        mib = lambda room: max(0, room) // MIB
        return f"{counts['nr_promoted_unmapped_pages']:,}; {hits:.0%}; {mib(self.before)}, {mib(after)}"

    def end(self):
        self.hog.end()
        self.member.end()


FOUND = "pages moved; reads that hit the fast node; its room before and after, MiB"


def large(strata, work, disk):
    """A hot set of one and a half times what the fast node has left, read by a Zipf law: moves, and hits there."""
    order = list(range(96 * MIB // PAGE))
    weights = [1 / (rank + 1) ** 0.99 for rank in order]
    random.Random(7).shuffle(order)
    narrow = Narrow(strata, work, disk)
    for strategy in ("never", "refs", "first-access"):
        narrow.begin(strategy)
        draws = random.Random(11)
        until = time.monotonic() + 60
        with open(narrow.path, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            while time.monotonic() < until:
                for page in draws.choices(order, weights, k=20000):
                    os.pread(file.fileno(), PAGE, page * PAGE)
        print(f"| A file of 96 MiB, by a Zipf law: {FOUND} | `{strategy}` | {narrow.found(dict(zip(order, weights)))} |")
    narrow.end()


def fio(strata, work, disk):
    """The same with fio: by a Zipf law, and from the beginning to the end. Its log says which pages it read."""
    narrow, log = Narrow(strata, work, disk), f"{work}/fio.log"
    for name, options in (("zipf", ["--rw=randread", "--random_distribution=zipf:0.99", "--norandommap"]), ("linear", ["--rw=read"])):
        for strategy in STRATEGIES:
            narrow.begin(strategy)
            command = ["fio", "--name=reads", "--readonly", f"--filename={narrow.path}", f"--size={narrow.number * PAGE}", "--bs=4k", "--ioengine=psync"]
            command += ["--invalidate=0", "--fadvise_hint=random", "--time_based", "--runtime=40", "--rate_iops=3000", f"--write_iolog={log}"]
            join = lambda: open(f"{GROUP}/cgroup.procs", "w").write("0")
            subprocess.run(command + options, stdout=subprocess.DEVNULL, check=True, preexec_fn=join)
            reads = {}
            # "[MILLISECONDS] FILE read OFFSET LENGTH"
            for words in (line.split() for line in open(log)):
                if "read" in words:
                    page = int(words[words.index("read") + 1]) // PAGE
                    reads[page] = reads.get(page, 0) + 1
            os.remove(log)
            print(f"| The same file, fio, {name} | `{strategy}` | {narrow.found(reads)} |")
    narrow.end()


def main(strata, work, disk, *parts):
    os.makedirs(GROUP, exist_ok=True)
    # The kernel would bring pages up beside us.
    open("/proc/sys/kernel/numa_balancing", "w").write("0")
    print("| what | counted | found |\n|---|---|---|")
    try:
        for part in (halves, cache, large, fio):
            if not parts or part.__name__ in parts:
                part(strata, work, disk)
    finally:
        for _ in range(50):
            try:
                os.rmdir(GROUP)
                break
            except OSError:
                time.sleep(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
