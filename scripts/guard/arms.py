"""Arms of scripts/evaluate-guard.sh: what a guard gives back of real programs, and what that costs them.

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
# Nobody takes anything.
ALONE = ["nothing", "nothing again"]
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
    """Each program in turn is asked as fast as it answers: nanoseconds of each answer, and answers a second of each
    turn, by program."""
    taken = {program.name: (array.array("q"), []) for program in running}
    clock = time.perf_counter_ns
    over = clock() + int(seconds * 1e9)
    while clock() < over:
        for program in running:
            if program.name in killed:
                continue
            answers, rates = taken[program.name]
            begin, already = clock(), len(answers)
            try:
                while (before := clock()) < begin + TURN_NS:
                    program.ask()
                    answers.append(clock() - before)
                rates.append((len(answers) - already) * 1e9 / (before - begin))
            except programs.Gone:
                killed.add(program.name)
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
    size, deadline = os.path.getsize(log), time.monotonic() + 20
    while os.path.getsize(log) == size and time.monotonic() < deadline:
        time.sleep(0.05)
    return json.loads(open(log).read().split("\n")[-2])


def speed(taken, counted):
    answers, rates = sorted(taken[0]) or [0], taken[1] or [0]
    return {
        "per_s": len(answers) / (sum(answers) / 1e9 or 1), "median_per_s": statistics.median(rates),
        "p99_us": answers[len(answers) * 99 // 100] / 1000, "cpu_us": counted[1] * 1e6 / len(answers), "faults": max(counted[0], 0),
        "thirds": [statistics.median(rates[len(rates) * n // 3 : len(rates) * (n + 1) // 3] or [0]) for n in range(3)],
    }


def one(strata, work, seconds, arm, limits):
    """One arm: fresh programs, warmed; then asked while the arm takes memory."""
    prefix, log, killed = f"strata-evaluate-{os.getpid()}", f"{work}/guard", set()
    running = []
    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor() as pool:
        for name in filter(lambda name: not programs.missing(name), programs.CATALOG):
            running.append(programs.make(name, prefix, work))
            stack.callback(running[-1].stop)
        list(pool.map(programs.start, running))
        gc.collect()
        gc.disable()
        of_groups = lambda: [program.group.counted() for program in running]
        since = lambda then: [[now - before for now, before in zip(*both)] for both in zip(of_groups(), then)]
        turns(running, WARM_S, killed)
        counted = of_groups()
        base, counted = turns(running, BASE_S, killed), since(counted)
        base = {program.name: speed(base[program.name], counts) for program, counts in zip(running, counted)}
        before = [program.group.charged() for program in running]
        process = stack.enter_context(guard(strata, prefix, arm, log)) if arm not in ALONE else None
        if arm == "kernel's limit":
            programs.wait_for(lambda: zram_bytes() or process.poll() is not None)
            # Setting it takes what is above it: not on the time of who asks.
            limited = [pool.submit(program.group.set_limit, limits[program.name]) for program in running]
        own = lambda: cpu_of(os.getpid()) + (cpu_of(process.pid) if process else 0)
        started, busy, ours, counted = time.monotonic(), busy_s(), own(), of_groups()
        taken = turns(running, seconds, killed)
        counted = since(counted)
        elapsed, busy, ours = time.monotonic() - started, busy_s() - busy, own() - ours + sum(max(cpu, 0) for _, cpu in counted)
        status = told_next(log) if arm in GUARDS else {}
        told = {group["group"].removeprefix(f"/{prefix}-"): group for group in status.get("groups", [])}
        found = {
            "arm": arm, "seconds": elapsed, "foreign": max(busy - ours, 0) / elapsed / os.cpu_count(),
            "price": status["price_bytes"] if status else zram_bytes() if process else 0, "cpu_s": status.get("cpu_ns", 0) / 1e9,
            "programs": {
                program.name: speed(taken[program.name], counts) | {
                    "killed": program.name in killed, "before": charged, "after": program.group.charged(),
                    "guard": told.get(program.name, {}), "base": base[program.name],
                }
                for program, counts, charged in zip(running, counted, before)
            },
        }
        if arm == "kernel's limit":
            for program, setting in zip(running, limited):
                if not setting.done() or setting.exception():
                    print(f"{program.name} can't be brought below its limit", file=sys.stderr)
                program.group.set_limit(1 << 40)
        # Before the guard, which would read back what they have in swap.
        for program in running:
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
            rate = " ".join(f"{name} {of['per_s']:.0f}/s" for name, of in found["programs"].items())
            print(f"round {number + 1}, {arm}: {rate}; foreign {found['foreign']:.0%}", file=sys.stderr)


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
    arms = ["nothing", *[arm for arm in ["nothing again", *GUARDS, "kernel's limit"] if arm in arms]]
    names = list(lines[0]["programs"])
    at = {(line["round"], line["arm"]): line for line in lines}
    rounds = [number for number in sorted({line["round"] for line in lines}) if all((number, arm) in at for arm in arms)]
    median = lambda values: statistics.median(list(values))

    def lost(number, arm, name, rate_of="per_s"):
        """The share of the answers a second that an arm costs: of those that the same process gave before the arm began,
        beside the share that it loses where nothing is done."""
        rate = lambda of: 1 / (of["cpu_us"] or 1) if rate_of == "per_cpu_s" else of[rate_of]
        kept = lambda of: rate(of) / (rate(of["base"]) or 1)
        return 1 - kept(at[number, arm]["programs"][name]) / kept(at[number, "nothing"]["programs"][name])

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
        if arm == "nothing":
            print("| nothing " + "| 0 " * 8 + "|")
            continue
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
                "0" if arm == "nothing" else f"{median(share(number, arm, [name]) for number in rounds):.1%}",
                f"killed {killed} times" if killed else "0" if arm == "nothing" else slow,
                f"{of(lambda one: one['p99_us']):.0f}", f"{of(lambda one: one['faults']):.0f}",
                ", ".join(dict.fromkeys(one.replace("_", " ") for one in why if one)) or "-",
            ]
            print(f"| {name} | {arm} | " + " | ".join(cells) + " |")
    foreign = [line["foreign"] for line in lines]
    alone = [[at[number, "nothing"]["programs"][name]["per_s"] for number in rounds] for name in idle]
    spread = median(max(rates) / min(rates) - 1 for rates in alone)
    print(f"\nFrom round to round the answers a second in `nothing` differ by {spread:.0%} for the median program: what is less is not known.")
    print(f"\nOther programs took {median(foreign):.0%} of the processors in the median arm, {max(foreign):.0%} in the worst.")
    for name in programs.CATALOG:
        if name not in names:
            print(f"\nLeft out: {name}, for this machine has no {' '.join(programs.missing(name))}.")


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(*sys.argv[2:7], sys.argv[7:])
    else:
        table(sys.argv[2])
