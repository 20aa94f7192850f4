"""Arms of scripts/evaluate-guard.sh: what a guard gives back of real programs, and what that costs them. Each program has a
twin that nobody looks after; both are asked the same in turns of a tenth of a second, so that what the machine does to one it
does to the other.

  arms.py run STRATA WORK ROUNDS SECONDS OUT ARM...   all programs in each arm, in turns; a JSON line for each arm
  arms.py table OUT                                   the tables of docs/validation/guard.md
"""

import array
import concurrent.futures
import contextlib
import gc
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import time

import guards
import programs

MIB = 1 << 20
TURN_NS, WARM_S, BASE_S = 100_000_000, 15, 40
GUARDS = {
    "0.2%/min": ["0.2%/min", "--min-age", "20s"], "1%/min": ["1%/min", "--min-age", "20s"],
    "fixed age": ["100%/min", "--min-age", "30s"], "walks": ["1%/min", "--min-age", "20s", "--dry-run"],
}
# A small promise learns slowly; a limit holds at once.
LENGTHS = {"0.2%/min": 2, "kernel's limit": 0.7}
# The arm whose size the kernel's limit is told.
MODEL = "1%/min"


def cpu_of(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy_s():
    with open("/proc/stat") as stat:
        ticks = [int(field) for field in stat.readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def zram_bytes():
    """Memory that swap on zram takes."""
    with open("/proc/swaps") as swaps:
        devices = [line.split()[0] for line in swaps if line.startswith("/dev/zram")]
    return sum(int(open(f"/sys/block/{device[5:]}/mm_stat").read().split()[2]) for device in devices)


def turns(running, seconds, killed):
    """Each program and its twin in turn are asked as fast as they answer: nanoseconds of each answer, and answers a second of
    each turn, by program."""
    taken = {program: (array.array("q"), []) for pair in running for program in pair}
    clock = time.perf_counter_ns
    over, number = clock() + int(seconds * 1e9), 0
    while clock() < over:
        number += 1
        for pair in running:
            for program in pair if number % 2 else reversed(pair):
                if program in killed:
                    continue
                answers, rates = taken[program]
                begin, already = clock(), len(answers)
                try:
                    while (before := clock()) < begin + TURN_NS:
                        program.ask()
                        answers.append(clock() - before)
                    rates.append((len(answers) - already) * 1e9 / (before - begin))
                except programs.Gone:
                    killed.add(program)
    return taken


@contextlib.contextmanager
def guard(strata, prefix, arm, log):
    """A guard of this arm; of the kernel's limit, one that only makes the swap."""
    cgroup = f"/{prefix}-*" if arm in GUARDS else "/of-nobody"
    command = [strata, "guard", "--promise", *GUARDS.get(arm, GUARDS[MODEL]), "--cgroup", cgroup]
    command += [] if arm == "walks" else ["--swap", guards.SWAP, "--release"]
    with open(log, "w") as out, open(f"{log}.err", "w") as err:
        environment = os.environ | {"STRATA_RUN_DIR": f"{log}.run"}
        process = subprocess.Popen([*command, "--history", "none", "--format", "json"], stdout=out, stderr=err, env=environment)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            if process.wait(120):
                raise RuntimeError(open(f"{log}.err").read())
    if left := guards.own_swaps():
        raise RuntimeError(f"a guard has left {left}")


def told_next(log):
    """What a guard tells after its next walk: charged then is what it tells of."""
    # A walk waits for pages that go, and for the processor time that they took.
    size, deadline = os.path.getsize(log), time.monotonic() + 120
    while os.path.getsize(log) == size and time.monotonic() < deadline:
        time.sleep(0.05)
    return json.loads(open(log).read().split("\n")[-2])


def speed(taken, counted):
    answers, rates = sorted(taken[0]) or [0], taken[1] or [0]
    return {
        "per_s": len(answers) / (sum(answers) / 1e9 or 1), "median_per_s": statistics.median(rates),
        "p99_us": answers[len(answers) * 99 // 100] / 1000, "cpu_us": counted[1] * 1e6 / len(answers), "faults": max(counted[0], 0),
    }


def pair(name, prefix, work):
    """A program and its twin, of which nobody takes anything."""
    both = []
    for group, directory in [(prefix, work), (f"{prefix}twin", f"{work}/twin")]:
        os.makedirs(directory, exist_ok=True)
        both.append(programs.make(name, group, directory))
    return both


def measure(running, seconds, killed):
    """Asks for so long: speeds of each program and its twin."""
    everybody = [program for both in running for program in both]
    before = [program.group.counted() for program in everybody]
    taken = turns(running, seconds, killed)
    counted = [[now - then for now, then in zip(program.group.counted(), was)] for program, was in zip(everybody, before)]
    speeds = [speed(taken[program], counts) for program, counts in zip(everybody, counted)]
    return dict(zip(everybody, speeds)), sum(max(cpu, 0) for _, cpu in counted)


def one(strata, work, seconds, arm, limits):
    """One arm: fresh programs, warmed; then asked while the arm takes memory."""
    prefix, log, killed = f"strata-evaluate-{os.getpid()}", f"{work}/guard", set()
    running = []
    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor() as pool:
        for name in filter(lambda name: not programs.missing(name), programs.CATALOG):
            running.append(pair(name, prefix, work))
            for program in running[-1]:
                stack.callback(program.stop)
        everybody = [program for both in running for program in both]
        list(pool.map(programs.start, everybody))
        gc.collect()
        gc.disable()
        turns(running, WARM_S, killed)
        base, _ = measure(running, BASE_S, killed)
        before = {program: program.group.charged() for program in everybody}
        process = stack.enter_context(guard(strata, prefix, arm, log)) if arm != "nothing" else None
        if arm == "kernel's limit":
            programs.wait_for(lambda: zram_bytes() or process.poll() is not None)
            # Setting it takes what is above it: not on the time of who asks.
            limited = [pool.submit(program.group.set_limit, limits[program.name]) for program, _ in running]
        own = lambda: cpu_of(os.getpid()) + (cpu_of(process.pid) if process else 0)
        started, busy, ours = time.monotonic(), busy_s(), own()
        speeds, cpu_s = measure(running, seconds, killed)
        elapsed, busy, ours = time.monotonic() - started, busy_s() - busy, own() - ours + cpu_s
        status = told_next(log) if arm in GUARDS else {}
        told = {group["group"].removeprefix(f"/{prefix}-"): group for group in status.get("groups", [])}
        found = {
            "arm": arm, "seconds": elapsed, "foreign": max(busy - ours, 0) / elapsed / os.cpu_count(),
            "price": status["price_bytes"] if status else zram_bytes() if process else 0, "cpu_s": status.get("cpu_ns", 0) / 1e9,
            "programs": {
                program.name: speeds[program] | {
                    "killed": program in killed, "before": before[program], "after": program.group.charged(),
                    "guard": told.get(program.name, {}), "base": base[program], "twin": speeds[twin], "twin_base": base[twin],
                }
                for program, twin in running
            },
        }
        if arm == "kernel's limit":
            for (program, _), setting in zip(running, limited):
                if not setting.done() or setting.exception():
                    print(f"{program.name} can't be brought below its limit", file=sys.stderr)
                program.group.set_limit(1 << 40)
        # Before the guard, which would read back what they have in swap.
        for program in everybody:
            program.stop()
    gc.enable()
    return found


def run(strata, work, rounds, seconds, out, arms):
    for number in range(int(rounds)):
        limits = {}
        # Who is first changes; the kernel's limit has to be told what a guard found.
        first = [arm for arm in arms if arm != "kernel's limit"]
        first = first[number % len(first) :] + first[: number % len(first)]
        for arm in first + [arm for arm in arms if arm not in first]:
            try:
                found = one(strata, work, float(seconds) * LENGTHS.get(arm, 1), arm, limits)
            except (programs.Gone, OSError, RuntimeError, KeyError, subprocess.SubprocessError) as error:
                print(f"round {number + 1} does not count: {arm} failed: {error!r}", file=sys.stderr)
                break
            if arm == MODEL:
                limits = {name: of["after"] for name, of in found["programs"].items()}
            with open(out, "a") as file:
                print(json.dumps({"round": number} | found), file=file)
            lost = " ".join(f"{name} {slowdown(of):+.1%}" for name, of in found["programs"].items())
            print(f"round {number + 1}, {arm}: {lost}; foreign {found['foreign']:.0%}", file=sys.stderr)


def slowdown(of, rate_of="per_s"):
    """The share of the answers a second that a program lost against its twin, beside what the two differed by before."""
    rate = lambda of: 1 / (of["cpu_us"] or 1) if rate_of == "per_cpu_s" else of[rate_of]
    beside = lambda of, twin: rate(of) / (rate(twin) or 1)
    return 1 - beside(of, of["twin"]) / beside(of["base"], of["twin_base"])


def net(found, name):
    """Bytes that a program had and has no more, less its part of the price, and what it had."""
    of = found["programs"][name]
    told = {one: other["guard"] for one, other in found["programs"].items()}
    if told[name]:
        away = {one: guard.get("away_anon_bytes", 0) for one, guard in told.items()}
        price = found["price"] * away[name] / (sum(away.values()) or 1)
        return told[name]["away_bytes"] - price, told[name]["away_bytes"] + told[name]["resident_bytes"]
    given = {one: max(other["before"] - other["after"], 0) for one, other in found["programs"].items()}
    return given[name] - found["price"] * given[name] / (sum(given.values()) or 1), of["before"]


def table(out):
    lines = [json.loads(line) for line in open(out)]
    arms = list(dict.fromkeys(line["arm"] for line in lines))
    arms = [arm for arm in ["nothing", *GUARDS, "kernel's limit"] if arm in arms]
    names = list(lines[0]["programs"])
    at = {(line["round"], line["arm"]): line for line in lines}
    rounds = [number for number in sorted({line["round"] for line in lines}) if all((number, arm) in at for arm in arms)]
    median = lambda values: statistics.median(list(values))

    def lost(number, arm, name, rate_of="per_s"):
        return slowdown(at[number, arm]["programs"][name], rate_of)

    def share(number, arm, some):
        had = [net(at[number, arm], name) for name in some]
        return sum(given for given, _ in had) / sum(had for _, had in had)

    idle = [name for name in names if name != "busy"]
    print("| arm | given back net, MiB | of what was held | slowdown | of the worst | `busy`: slowdown, given back | taken, MiB | came back, MiB | CPU of Strata, s |")
    print("|---" + "|---:" * 8 + "|")
    for arm in arms:
        of = lambda value: median(value(number) for number in rounds)
        mean = of(lambda number: 1 - math.exp(statistics.mean(math.log(max(1 - lost(number, arm, name), 1e-9)) for name in idle)))
        worst = max((of(lambda number: lost(number, arm, name)), name) for name in idle)
        told = lambda key: of(lambda number: sum(at[number, arm]["programs"][name]["guard"].get(key, 0) for name in idle)) / MIB
        given = of(lambda number: sum(net(at[number, arm], name)[0] for name in idle)) / MIB
        cells = [f"{given:.0f}", f"{of(lambda number: share(number, arm, idle)):.1%}", f"{mean:+.1%}", f"{worst[1]} {worst[0]:+.1%}"]
        cells += [f"{of(lambda number: lost(number, arm, 'busy')):+.1%}, {of(lambda number: share(number, arm, ['busy'])):.1%}"]
        cells += [f"{told('taken_bytes'):.0f}", f"{told('came_back_bytes'):.0f}"] if arm in GUARDS else ["-", "-"]
        print("| " + " | ".join([arm, *cells, f"{of(lambda number: at[number, arm]['cpu_s']):.1f}"]) + " |")
    print("\n| program | arm | held, MiB | charged before, after | given back net | slowdown, of the median turn, by processor time | 99 % within, us | major faults | why not more |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---|")
    for name in names:
        for arm in arms:
            of = lambda value: median(value(at[number, arm]["programs"][name]) for number in rounds)
            killed = sum(at[number, arm]["programs"][name]["killed"] for number in rounds)
            slow = ", ".join(f"{median(lost(number, arm, name, key) for number in rounds):+.1%}" for key in ("per_s", "median_per_s", "per_cpu_s"))
            why = [at[number, arm]["programs"][name]["guard"].get("why_not_more") or "" for number in rounds]
            cells = [
                f"{median(net(at[number, arm], name)[1] for number in rounds) / MIB:.0f}",
                f"{of(lambda one: one['before']) / MIB:.0f}, {of(lambda one: one['after']) / MIB:.0f}",
                f"{median(share(number, arm, [name]) for number in rounds):.1%}",
                f"killed {killed} times" if killed else slow,
                f"{of(lambda one: one['p99_us']):.0f}", f"{of(lambda one: one['faults']):.0f}",
                ", ".join(dict.fromkeys(one.replace("_", " ") for one in why if one)) or "-",
            ]
            print(f"| {name} | {arm} | " + " | ".join(cells) + " |")
    foreign = [line["foreign"] for line in lines]
    print(f"\nOther programs took {median(foreign):.0%} of the processors in the median arm, {max(foreign):.0%} in the worst.")
    for name in programs.CATALOG:
        if name not in names:
            print(f"\nLeft out: {name}, for this machine has no {' '.join(programs.missing(name))}.")


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(*sys.argv[2:7], sys.argv[7:])
    else:
        table(sys.argv[2])
