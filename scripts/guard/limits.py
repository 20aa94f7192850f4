"""PART=mixed, services and damon of scripts/evaluate-guard.sh: groups under a limit of their parent, and a guard beside the
kernel's DAMON_RECLAIM.

  limits.py mixed|services|damon STRATA WORK ROUNDS SECONDS PROGRAMS    a table
"""

import concurrent.futures
import contextlib
import glob
import json
import os
import statistics
import subprocess
import sys
import time

import arms
import guards
import programs

MIB = guards.MIB
SIZE_MIB = int(os.environ.get("SIZE_MIB", "384"))
VALUE, SHARE, NR_SERVICES, NR_WORKING = 2000, 0.79, 12, 4


def rules(work, parent, arm):
    """A file with the rules of an arm. Page cache goes first below a parent's limit, but where that is switched off."""
    off = "[host]\ncache_first_below_limits = false" if arm == NOT_FIRST else ""
    below = parent if arm in (GUARD, NOT_FIRST) else "/of-nobody"
    with open(f"{work}/rules.toml", "w") as file:
        file.write(f'[[rule]]\ncgroup = "{below}/*"\npromise = "1%/min"\nmin_age = "10s"\n\n{off}\n')
    return file.name


@contextlib.contextmanager
def guard(strata, work, parent, arm):
    """The guard of an arm; of the kernel, one that only makes the swap."""
    running = guards.Guard(strata, work, "--config", rules(work, parent, arm), "--swap", guards.SWAP, "--release")
    try:
        programs.wait_for(lambda: guards.own_swaps() or running.process.poll() is not None)
        if running.process.poll() is not None:
            raise RuntimeError(running.said())
        yield running
    finally:
        if running.process.poll() is None:
            running.stop()
    if guards.own_swaps():
        raise RuntimeError(f"the guard has left {guards.own_swaps()}")


def counted(parent, groups):
    """Pages in and out of swap (of the host), major faults of the groups, processes that the kernel has killed (of the host), and
    how long some task of the groups waited for memory, s (None: the kernel does not tell)."""
    of = guards.vmstat("pswpin", "pswpout", "oom_kill")
    of["faults"] = sum(int(dict(zip(words[::2], words[1::2]))["pgmajfault"]) for words in (group.read("memory.stat") for group in groups))
    waits = [open(path).read().split("total=")[1].split()[0] for group in groups for path in glob.glob(f"{group.path}/memory.pressure")]
    of["waited_s"] = sum(map(int, waits)) / 1e6 if waits else None
    return of


def since(before, now):
    return {name: None if now[name] is None else now[name] - before[name] for name in now}


def enter(group, *command):
    return ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', group.path, *command]


def mixed(stack, strata, work, seconds, built, arm, prefix):
    """memcached, filled first and then asked, beside fio, which reads a file at random, below 0.79 of both."""
    parent = programs.Group(prefix)
    stack.callback(parent.remove)
    parent.delegate()
    cache, file = programs.Group(f"{prefix}/memcached"), programs.Group(f"{prefix}/fio")
    stack.callback(file.remove)
    stack.callback(cache.remove)
    socket, nr_keys, where = f"{work}/memcached", SIZE_MIB * MIB // (VALUE + 160), os.environ.get("DISK", work)
    server = subprocess.Popen(enter(cache, "memcached", "-u", "root", "-s", socket, "-m", str(SIZE_MIB * 2), "-t", "2"), stderr=subprocess.DEVNULL)
    stack.callback(lambda: (cache.remove(), server.wait(), os.remove(socket)))
    programs.wait_for(lambda: os.path.exists(socket))
    kv = [f"{built}/kv", "--socket", socket, "--protocol", "memcached", "--keys", str(nr_keys), "--value", str(VALUE), "--theta", os.environ.get("THETA", "0")]
    subprocess.run([*kv, "--fill-only"], check=True, stdout=subprocess.DEVNULL)
    fio = ["fio", "--name=reads", f"--filename={where}/fio.data", f"--size={SIZE_MIB}m", "--rw=randread", "--bs=4k", "--ioengine=psync", "--output-format=json"]
    # The file is there, and none of it in memory.
    subprocess.run([*fio, "--create_only=1"], check=True, stdout=subprocess.DEVNULL, cwd=work)
    subprocess.run(["dd", f"of={where}/fio.data", "oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"], check=True)
    stack.callback(os.remove, f"{where}/fio.data")
    parent.set_limit(int(SHARE * (cache.charged() + SIZE_MIB * MIB)) // 4096 * 4096)
    stack.enter_context(guard(strata, work, f"/{prefix}", arm))
    before, ends = counted(parent, [cache, file]), f"{seconds:.0f}"
    reads = subprocess.Popen(enter(file, *fio, "--time_based", f"--runtime={ends}", "--invalidate=0"), stdout=subprocess.PIPE, text=True, cwd=work)
    gets = subprocess.Popen([*kv, "--no-fill", "--seconds", ends], stdout=subprocess.PIPE, text=True)
    of_gets, of_reads = (json.loads(process.communicate(timeout=seconds * 20 + 120)[0] or "{}") for process in (gets, reads))
    found = since(before, counted(parent, [cache, file]))
    gone = of_gets.get("missing", 0) + of_gets.get("bad", 0)
    return found | {"gets_per_s": of_gets.get("ops_per_s", 0), "reads_per_s": of_reads["jobs"][0]["read"]["iops"] if of_reads else 0, "gone": gone}


def services(stack, strata, work, seconds, built, arm, prefix):
    """Twelve services below one limit: four are asked all the time, for a fifth of their rows, while the others start one by one and
    then idle."""
    parent = programs.Group(prefix)
    stack.callback(parent.remove)
    parent.delegate()
    running = []
    for number in range(NR_SERVICES):
        running.append(programs.Service(f"service-{number}", f"{prefix}/own", work))
        stack.callback(running[-1].stop)
    rows, working = SIZE_MIB * 4000 // NR_SERVICES, running[:NR_WORKING]
    start = lambda service: service.start(rows, 0.2, "python3", f"{programs.HERE}/service.py")
    start(working[0])
    parent.set_limit(int(0.6 * NR_SERVICES * working[0].group.charged()) // 4096 * 4096)
    stack.enter_context(guard(strata, work, f"/{prefix}", arm))
    # A guard that ends leaves swap there as long as a group has no room for what is in it.
    stack.callback(parent.set_limit, 1 << 40)
    for service in working[1:]:
        start(service)
    killed = set()
    pairs = [(service,) for service in working]
    calm = arms.turns(pairs, 3, killed)
    usual = {name: sorted(answers)[len(answers) * 99 // 100] for name, (answers, _) in calm.items()}
    before = counted(parent, [service.group for service in working])
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        others = pool.submit(lambda: [(start(service), time.sleep(1)) for service in running[NR_WORKING:]])
        taken = arms.turns(pairs, seconds, killed)
        others.result()
    found = since(before, counted(parent, [service.group for service in working]))
    late = sum(max(took - usual[name], 0) for name, (answers, _) in taken.items() for took in answers)
    nr_answers = sum(len(answers) for answers, _ in taken.values())
    ended = sum(service.process.poll() is not None for service in running)
    return found | {"answers_per_s": nr_answers / seconds, "late": late / 1e9 / seconds, "gone": ended}


@contextlib.contextmanager
def reclaiming(arm):
    """DAMON_RECLAIM of the whole host, whatever is free: as the kernel has it, or as soon and as much as the guard."""
    if arm not in (DAMON, DAMON_SOON):
        yield
        return
    where = "/sys/module/damon_reclaim/parameters"
    set_to = {"wmarks_high": 1000, "wmarks_mid": 1000, "wmarks_low": 0} | ({"min_age": 10_000_000, "quota_sz": 1 << 30, "quota_ms": 100} if arm == DAMON_SOON else {})
    for name, value in [*set_to.items(), ("enabled", "Y")]:
        with open(f"{where}/{name}", "w") as parameter:
            parameter.write(str(value))
    yield
    with open(f"{where}/enabled", "w") as parameter:
        parameter.write("N")


def damon(stack, strata, work, seconds, built, arm, prefix):
    """Three services that are asked for a fifth of their rows, and one that is asked for all: what goes, and what comes back."""
    if not os.environ.get("IN_GUEST"):
        raise RuntimeError("DAMON_RECLAIM is of the whole host: in a guest only")
    parent = programs.Group(prefix)
    stack.callback(parent.remove)
    parent.delegate()
    rows, running = SIZE_MIB * 4000, []
    for name, kind, part, *command in [("python", programs.Service, 1, "python3", f"{programs.HERE}/service.py"), ("node", programs.Service, 1, "node", f"{programs.HERE}/service.js"),
                                       ("python-2", programs.Service, 2, "python3", f"{programs.HERE}/service.py"), ("busy", programs.Swept, 4, "python3", f"{programs.HERE}/service.py")]:
        running.append(kind(name, f"{prefix}/own", work))
        stack.callback(running[-1].stop)
        running[-1].start(rows // part, 1 if name == "busy" else 0.2, *command)
    pairs = [(service,) for service in running]
    arms.turns(pairs, 15, killed := set())
    stack.enter_context(guard(strata, work, f"/{prefix}", arm))
    groups = [service.group for service in running]
    before, held = counted(parent, groups), [group.charged() for group in groups]
    with reclaiming(arm):
        arms.turns(pairs, seconds, killed)
    went = [was - group.charged() for was, group in zip(held, groups)]
    idle, of_busy = sum(went[:-1]) - arms.zram_bytes(), went[-1] / held[-1]
    return since(before, counted(parent, groups)) | {"held": sum(held[:-1]) / MIB, "net": idle / sum(held[:-1]), "busy": of_busy, "gone": len(killed)}


COLUMNS = {
    damon: [("held", "held, MiB", "{:.0f}"), ("net", "given back net", "{:.1%}"), ("busy", "of the one that uses all", "{:.1%}"), ("gone", "programs ended", "{:.0f}")],
    mixed: [("gets_per_s", "gets a second", "{:.0f}"), ("reads_per_s", "reads a second", "{:.0f}"), ("gone", "values missing", "{:.0f}")],
    services: [("answers_per_s", "answers a second", "{:.0f}"), ("late", "of the time later than 99 % were before", "{:.1%}"), ("gone", "services ended", "{:.0f}")],
}
COMMON = [("pswpin", "pages in from swap", "{:.0f}"), ("pswpout", "out to swap", "{:.0f}"), ("faults", "major faults", "{:.0f}"),
          ("waited_s", "waited for memory, s", "{:.2f}"), ("oom_kill", "killed by the kernel", "{:.0f}")]
ALONE, GUARD, NOT_FIRST, DAMON, DAMON_SOON = "kernel alone", "guard", "guard without cache first", "DAMON_RECLAIM", "DAMON_RECLAIM after 10 s"
ARMS = {mixed: [ALONE, GUARD, NOT_FIRST], services: [ALONE, GUARD], damon: [ALONE, GUARD, DAMON, DAMON_SOON]}


def main(part, strata, work, rounds, seconds, built):
    of = {of.__name__: of for of in ARMS}[part]
    names = os.environ["ARMS"].split(",") if "ARMS" in os.environ else ARMS[of]
    checked = {name: subprocess.run([strata, "guard", "--check", "--config", rules(work, "/x", name)], capture_output=True, text=True) for name in names}
    found = {name: [] for name in names if not checked[name].returncode}
    names = list(found)
    for number in range(int(rounds)):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            try:
                with contextlib.ExitStack() as stack:
                    one = of(stack, strata, work, float(seconds), built, name, f"strata-{part}-{os.getpid()}")
            except (programs.Gone, OSError, RuntimeError, subprocess.SubprocessError) as error:
                print(f"round {number + 1}, {name} does not count: {error!r}", file=sys.stderr)
                continue
            found[name].append(one)
            print(f"round {number + 1}, {name}: {one}", file=sys.stderr, flush=True)
    columns = COLUMNS[of] + COMMON
    print("| arm | rounds | " + " | ".join(head for _, head, _ in columns) + " |\n|---" + "|---:" * (len(columns) + 1) + "|")
    for name, some in found.items():
        values = lambda key: [one[key] for one in some if one[key] is not None]
        middle = [(shown.format(statistics.median(values(key))) if values(key) else "-") for key, _, shown in columns]
        print("| " + " | ".join([name, str(len(some)), *middle]) + " |")
    for name in set(checked) - set(found):
        print(f"\nLeft out: {name}; this guard has no such switch: {checked[name].stderr.strip()}")
    left = guards.left()
    if left or not all(found.values()):
        sys.exit(f"left behind: {left}" if left else "an arm has failed in all rounds")


if __name__ == "__main__":
    main(*sys.argv[1:])
