"""Parts of scripts/evaluate-park.sh: real programs that are put away and brought back.

  park.py programs STRATA WORK ROUNDS SWAP   each program in each way, in turns; prints the tables
  park.py many STRATA WORK NUMBER SWAP       so many sleeping programs of 30 MiB
"""

import json
import os
import random
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "guard"))
import programs  # noqa: E402

MIB = 1 << 20
PREFIX = f"strata-park-{os.getpid()}"
NR_ASKS, SETTLE_S, IDLE_S = 100, 2, 3
WAYS = ("never parked", "woken", "touched cold", "kernel, touched cold")


class Strata:
    """Its verbs, with a run directory of its own."""

    def __init__(self, binary, work):
        self.binary, self.environment = binary, os.environ | {"STRATA_RUN_DIR": f"{work}/run"}

    def ask(self, *words):
        done = subprocess.run([self.binary, *words], env=self.environment, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise RuntimeError(f"{words}: {done.stderr}")
        lines = done.stdout.splitlines()
        return json.loads(lines[0]) if lines else None


class Swap:
    """Swap of its own for all ways alike: a sleeper is parked in it, and stays so."""

    def __init__(self, strata, spec):
        self.strata, self.spec, self.sleeper = strata, spec, subprocess.Popen(["sleep", "infinity"])
        self.begin()

    def begin(self):
        self.strata.ask("park", "--pid", str(self.sleeper.pid), "--swap", self.spec, "--look", "10ms", "--format", "json")

    def renew(self):
        """All that is in it comes back: the last wake takes the swap down."""
        self.strata.ask("wake", "--all", "--format", "json")
        self.begin()

    def end(self):
        self.strata.ask("wake", "--all", "--format", "json")
        self.sleeper.kill()
        self.sleeper.wait()


def reclaim_all(group):
    """What anybody can do with the kernel alone: as much as it takes of a group."""
    for _ in range(4):
        file, text = ("memory.reclaim", str(group.charged())) if group.limit == "memory.max" else ("memory.force_empty", "0")
        try:
            with open(f"{group.path}/{file}", "w") as control:
                control.write(text)
        except OSError:
            pass


def asked(program):
    """Milliseconds to the first answer, and to the last of NR_ASKS."""
    begin = time.perf_counter()
    program.ask()
    first = time.perf_counter()
    for _ in range(NR_ASKS - 1):
        program.ask()
    return (first - begin) * 1e3, (time.perf_counter() - begin) * 1e3


def put_away(strata, program, way):
    if way == "kernel, touched cold":
        before = program.group.charged()
        reclaim_all(program.group)
        return {"resident_before_bytes": before, "resident_after_bytes": program.group.charged()}
    return strata.ask("park", "--cgroup", program.group.path, "--format", "json")


def one_round(strata, swap, program):
    """In turns, so that what disturbs one disturbs all; each begins with all in memory."""
    found = {}
    for way in random.sample(WAYS, len(WAYS)):
        for _ in range(NR_ASKS):
            program.ask()
        time.sleep(IDLE_S)
        told = None
        if way != "never parked":
            told = put_away(strata, program, way)
            time.sleep(SETTLE_S)
        if way == "woken":
            told["wake"] = strata.ask("wake", told["id"], "--format", "json")
        found[way] = (*asked(program), told)
        swap.renew()
    return found


def of_programs(strata, work, rounds, spec):
    names = [name for name in programs.CATALOG if name != "busy" and not programs.missing(name)]
    found, wrong = {name: [] for name in names}, []
    for name in names:
        program = programs.make(name, PREFIX, work)
        try:
            programs.start(program)
            held = program.proof()
            swap = Swap(strata, spec)
            try:
                found[name] = [one_round(strata, swap, program) for _ in range(rounds)]
                wrong += [name] if program.proof() != held else []
            finally:
                swap.end()
        finally:
            program.stop()
    middle = lambda rounds, way, part: statistics.median(one[way][part] for one in rounds)
    print("| program | before, MiB | after, MiB | given back net | parked in, s | woken in, s | reads back, MiB |\n|---|---|---|---|---|---|---|")
    for name, rounds in found.items():
        told = [one["woken"][2] for one in rounds]
        mid = lambda value: statistics.median(value(one) for one in told)
        before = mid(lambda one: one["resident_before_bytes"])
        cells = [
            f"{before / MIB:.0f}", f"{mid(lambda one: one['resident_after_bytes']) / MIB:.1f}",
            f"{mid(lambda one: one['net_freed_bytes']) / before * 100:.0f} %", f"{mid(lambda one: one['seconds']):.2f}",
            f"{mid(lambda one: one['wake']['seconds']):.2f}", f"{mid(lambda one: one['wake']['read_back_bytes']) / MIB:.0f}",
        ]
        print(f"| {name} | {' | '.join(cells)} |")
    print(f"\n| first answer / {NR_ASKS} answers (the worst first answer), ms | " + " | ".join(WAYS) + " |\n|---|" + "---|" * len(WAYS))
    for name, rounds in found.items():
        worst = lambda way: max(one[way][0] for one in rounds)
        cells = [f"{middle(rounds, way, 0):.1f} / {middle(rounds, way, 1):.0f} ({worst(way):.1f})" for way in WAYS]
        print(f"| {name} | {' | '.join(cells)} |")
    print(f"\nWhat each holds was asked for before and afterwards, all of it: {', '.join(wrong) or 'nobody'} has lost anything.")
    if wrong:
        sys.exit(1)


SLEEPER = """
import hashlib, sys
held = b"".join(hashlib.sha256(b"%d" % number).digest() + bytes(32) for number in range(30 * 16384))
print(hashlib.sha256(held).hexdigest(), flush=True)
for line in sys.stdin:
    print(hashlib.sha256(held).hexdigest(), flush=True)
"""


def of_many(strata, work, number, spec):
    path = f"{work}/sleeper.py"
    with open(path, "w") as program:
        program.write(SLEEPER)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    sleepers = [subprocess.Popen([sys.executable, path], **pipes) for _ in range(number)]
    try:
        sums = [sleeper.stdout.readline() for sleeper in sleepers]
        begin = time.perf_counter()
        told = [strata.ask("park", "--tree", str(one.pid), "--swap", spec, "--look", "10ms", "--format", "json") for one in sleepers]
        took = time.perf_counter() - begin
        before = sum(one["resident_before_bytes"] for one in told)
        net = sum(one["net_freed_bytes"] for one in told)
        woken = random.sample(range(number), min(20, number))
        wrong = 0
        for place in woken:
            strata.ask("wake", told[place]["id"], "--format", "json")
            sleepers[place].stdin.write("\n")
            sleepers[place].stdin.flush()
            wrong += sleepers[place].stdout.readline() != sums[place]
        strata.ask("wake", "--all", "--format", "json")
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
    print("| programs | before, MiB | given back net | parked in, s | woken | of them wrong |\n|---|---|---|---|---|---|")
    print(f"| {number} | {before / MIB:.0f} | {net / before * 100:.0f} % | {took:.1f} | {len(woken)} | {wrong} |")
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    part, binary, work, number, spec = sys.argv[1:]
    {"programs": of_programs, "many": of_many}[part](Strata(binary, work), work, int(number), spec)
