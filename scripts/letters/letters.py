"""The rows of scripts/evaluate-letters.sh: what the letters of the multi-generational LRU claim, tried at this machine's size.

  letters.py run STRATA WORK PROGRAMS ROUNDS COMMIT ROW...   lines of the CSV
  letters.py keep CSV           puts lines from stdin in the place of those of the same rows and the same kind of machine
  letters.py table CSV ROW      the table of a row, for each kernel
  letters.py prices STRATA COMMIT   what the letters saw on big machines, by the simulator's prices
  letters.py summary CSV COMMIT     claimed, found, same point made or not
"""

import collections
import contextlib
import csv
import datetime
import functools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys

HEAD = ["date", "kernel", "commit", "row", "case", "arm", "round", "figure", "value"]
KERNEL, STRATA = "kernel alone", "Strata"
ARMS = {KERNEL: "kernel", STRATA: "strata"}
QUICK, IN_GUEST = os.environ.get("QUICK"), os.environ.get("IN_GUEST")
VALIDATION = f"{os.path.dirname(os.path.abspath(__file__))}/../../docs/validation"


def length(seconds):
    return 3 if QUICK else seconds


def ours(command, **options):
    """Runs a command out of the reach of a Ctrl-C at the terminal; where we are to end it gets one, and time to undo what it has made."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **options)
    try:
        return process, *process.communicate(timeout=900)
    except BaseException:
        process.send_signal(signal.SIGINT)
        process.wait()
        raise


class Bench:
    def __init__(self, strata, work, built):
        self.strata, self.work, self.built = strata, work, built

    def counted(self, where):
        """Pages that the machine's reclaim has looked at and freed, and 4 KiB that the device below a directory has read."""
        found = {"scanned": 0, "freed": 0, "read": 0}
        with open("/proc/vmstat") as counts:
            for name, count in (line.split() for line in counts):
                if name in ("pgscan_anon", "pgscan_file", "pgsteal_anon", "pgsteal_file"):
                    found["scanned" if "scan" in name else "freed"] += int(count)
        device = os.stat(where).st_dev
        with contextlib.suppress(OSError), open(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat") as told:
            found["read"] = int(told.read().split()[2]) // 8
        return found

    def measured(self, arm, memory, swap, command, where=None):
        """What a command says at its end, as JSON, and what `strata compare` and the machine's counters say of its run."""
        said, where = f"{self.work}/said", where or self.work
        before = self.counted(where)
        compare = [self.strata, "compare", "--arms", ARMS.get(arm, arm), "--runs", "1", "--memory", memory, "--swap", swap, "--format", "json"]
        process, out, err = ours([*compare, "--", "sh", "-c", 'exec >"$0" && exec "$@"', said, *command])
        if process.returncode:
            raise RuntimeError(f"{err.strip()} {out[-1000:]}")
        now = self.counted(where)
        of_run = {name: of["median"] for name, of in json.loads(out)["summaries"][0]["figures"].items()}
        with open(said) as told:
            text = told.read()
        # All that fio says is one object; of the others the last line is.
        return json.loads(text[text.index("{") :] if "fio version" in text else text.strip().splitlines()[-1]), of_run | {name: now[name] - before[name] for name in now}

    def forget(self, *paths):
        for path in paths:
            subprocess.run([f"{self.built}/forget", path], check=True)


def zram_disk(stack, work, mib):
    """A directory with a file system on a compressed disk of its own."""
    with open("/sys/class/zram-control/hot_add") as added:
        number = added.read().strip()

    def remove():
        with open("/sys/class/zram-control/hot_remove", "w") as removed:
            removed.write(number)

    stack.callback(remove)
    with open(f"/sys/block/zram{number}/disksize", "w") as size:
        size.write(f"{mib}M")
    where = f"{work}/zram"
    os.mkdir(where)
    subprocess.run(["mkfs.ext4", "-q", f"/dev/zram{number}"], check=True)
    subprocess.run(["mount", f"/dev/zram{number}", where], check=True)
    stack.callback(subprocess.run, ["umount", where], check=True)
    return where


def row_1(bench, stack):
    """The letter's line of fio, with 2 jobs for 72 and 512 MiB for 99 GiB, in 186 MiB for 36 GiB."""
    # Of 264 MiB, for 1408, fio reads 18 % by its Zipf law, of a power of two all.
    fio = ["fio", "-name=mglru", "--numjobs=2", "--size=256m", "--buffered=1", "--rw=randread"]
    letters = ["--ioengine=io_uring", "--iodepth=128", "--iodepth_batch_submit=32", "--iodepth_batch_complete=32", "--norandommap", "--time_based"]
    on_disk = f"{bench.work}/disk"
    os.mkdir(on_disk)

    def run(where, law, arm):
        bench.forget(where)
        command = [*fio, *letters, f"--directory={where}", f"--random_distribution={law}", f"--runtime={length(10)}", "--group_reporting", "--output-format=json"]
        told, of = bench.measured(arm, "186M", "existing", command, where)
        read = told["jobs"][0]["read"]
        ios = read["total_ios"]
        return {"iops": read["iops"], "read": of["read"] * 1000 / ios, "cpu_us": of["total_cpu_ms"] * 1000 / ios}

    for name, where in (("zram", zram_disk(stack, bench.work, 640)), ("disk", on_disk)):
        subprocess.run([*fio, f"--directory={where}", "--create_only=1"], check=True, stdout=subprocess.DEVNULL)
        for law in ("random", "zipf:0.99"):
            yield f"{law.replace('random', 'uniform')}, {name}", functools.partial(run, where, law)


def row_2(bench, stack):
    """memcached with values of 2000 bytes: all set in order, then any of them got, 8 at a time."""
    socket = f"{bench.work}/memcached"
    kv = [f"{bench.built}/kv", "--socket", socket, "--protocol", "memcached", "--keys", "150000", "--value", "2000", "--theta", "0", "--pipeline", "8"]
    command = ["scripts/served.sh", socket, *kv, "--seconds", str(length(15)), "--", "memcached", "-s", socket, "-m", "1024", "-u", "root", "-t", "2"]
    footprint = functools.cache(lambda: bench.measured("none", "1G", "existing", command)[1]["peak_bytes"])

    def run(arm):
        told, of = bench.measured(arm, str(int(footprint() * 0.89)), "zram:512M", command)
        gets = told["ops"]
        return {"per_s": told["ops_per_s"], "p99_us": told["p99_us"], "faults": of["nr_major_faults"] * 1000 / gets, "cpu_us": of["total_cpu_ms"] * 1000 / gets, "missing": told["missing"]}

    yield "gets at random", run


def row_5(bench, stack):
    """300 MiB of single pages in 181 MiB."""

    def run(load, arm):
        command = [f"{bench.built}/zipf", "--size", "300M", "--theta", "0.99", "--seconds", str(length(10)), *load]
        told, of = bench.measured(arm, "181M", "zram:512M", command)
        return {"scanned": of["scanned"] / of["freed"], "freed": of["freed"], "per_s": told["ops_per_s"], "faults": told["major_faults"] * 1000 / told["ops"]}

    for name, load in (("zipf", []), ("phases", ["--phase-every", "2"]), ("hot set and scan", ["--scan-pages", "1800", "--scan-every", "100000"])):
        yield name, functools.partial(run, load)


def row_7(bench, stack):
    """30 apps, a seed a round; one is killed whenever 5 % of the pages of files came back to that in front."""
    for name, groups in (("one group", []), ("a group each", [f"--group=app{number}" for number in range(30)])):
        for memory in ("30%", "45%", "60%"):

            def run(arm, groups=groups, memory=memory):
                trace = f"gen:apps,accesses=3000000,seed={bench.round}"
                (of,) = simulated(bench, trace, "--policy", arm, "--memory", memory, "--kill-at", "5%", *groups).values()
                return of["reclaim"]["apps"]

            yield f"{name}, {memory}", run


BESIDE = """
"$1/idle" --size 256M >"$2/idle" & idle=$!
until [ -s "$2/idle" ]; do kill -0 $idle || exit 1; sleep 0.1; done
fio --name=stream --filename="$2/stream" --size=1g --rw=read --bs=128k --ioengine=psync --invalidate=0 --time_based --runtime=1h >/dev/null & fio=$!
"$2/code" --calls "$3" --every-ms 500
status=$?
kill $idle $fio
wait
rm "$2/idle"
exit $status
"""


def row_8(bench, stack):
    """64 MiB of code, 256 MiB that nobody uses and a file that is read from end to end, in 224 MiB."""
    code, stream = f"{bench.work}/code", f"{bench.work}/stream"
    shutil.copy(f"{bench.built}/code", code)
    subprocess.run(["fio", "--name=stream", f"--filename={stream}", "--size=1g", "--rw=read", "--create_only=1"], check=True, stdout=subprocess.DEVNULL)
    calls = length(20) * 2

    def run(arm):
        subprocess.run(["sync", code, stream], check=True)
        bench.forget(code, stream)
        told, of = bench.measured(arm, "224M", "zram:512M", ["sh", "-c", BESIDE, "sh", bench.built, bench.work, str(calls)])
        return {"faults": told["major_faults"] / calls, "p50_us": told["p50_us"], "p99_us": told["p99_us"], "read": of["read"] / 256}

    yield "code beside idle memory and a stream", run


def simulated(bench, *arguments):
    process, out, err = ours([bench.strata, "sim", *arguments, "--format", "json"])
    if process.returncode:
        raise RuntimeError(err)
    return {run["policy"]: run for run in json.loads(out)["runs"]}


def row_10(bench, stack):
    """Replicas of which one is asked."""
    traces = {
        "two replicas": ("gen:replicas,groups=2,ahead=2,accesses=1000000", "ab"),
        "three replicas": ("gen:replicas,ahead=2,accesses=1000000", "abc"),
        "three with anon": ("gen:replicas,anon=3000,pages=4500,ahead=2,accesses=600000", "abc"),
    }
    for name, (trace, groups) in traces.items():
        # The series is of the days of v2022.
        for model in ("v2022", "v6.1", "v6.14"):

            def run(arm, trace=trace, groups=groups, model=model):
                policy = f"mglru:{model}{'' if arm == WINDOW else arm}"
                (of,) = simulated(bench, trace, "--policy", policy, "--memory", "15000", *(f"--group={group}" for group in groups)).values()
                return {"misses": of["misses"], "seconds": of["estimated_time"]["total_ns"] / 1e9}

            yield f"{name}, {model}", run


def row_11(bench, stack):
    """A file that is read round and round, on the slow node of two at first."""

    def run(policy, arm):
        strategy, start = PROMOTING[arm]
        tiers, trace = f"50:50+page-cache={strategy}{start}+phases=12", "gen:loop,pages=4000,accesses=48000"
        (of,) = simulated(bench, trace, "--tiers", tiers, "--memory", "8000", "--policy", policy, "--cost", "hit=400,slow=450,move=3000").values()
        # Of the first pass, which reads the disk, nothing is told.
        inline, background = ([phase[by] / 1e6 for phase in of["phases"][1:]] for by in ("inline_ns", "background_ns"))
        return {"second": inline[0], "inline": max(inline), "background": max(background), "last": inline[-1], "moved": of["reclaim"]["tiers"]["pgpromote_success"]}

    for name, policy in (("MGLRU", "mglru"), ("two lists", "two-list")):
        yield name, functools.partial(run, policy)


WINDOW = "the kernel's test"
PROMOTING = {"not promoted": ("never", "+start=slow"), "refs": ("refs", "+start=slow"), "rfc-as-coded": ("rfc-as-coded", "+start=slow"), "on the fast node": ("never", "")}
FASTER, FEWER = 1, -1
# What is run: the cases, the arms of which the second is held against the first, the figures with their heads, and the one that is judged.
ROWS = {
    1: (row_1, list(ARMS), {"iops": "IOPS", "read": "4 KiB of the device for 1000 reads", "cpu_us": "CPU for each read, us"}, "iops", FASTER),
    2: (row_2, list(ARMS), {"per_s": "gets a second", "p99_us": "99 % of 8 gets within, us", "faults": "major faults for 1000 gets", "cpu_us": "CPU for each get, us", "missing": "values missing"}, "per_s", FASTER),
    5: (row_5, list(ARMS), {"scanned": "scanned for each reclaimed", "freed": "reclaimed, pages", "per_s": "operations a second", "faults": "major faults for 1000 operations"}, "scanned", FEWER),
    7: (row_7, ["two-list", "mglru"], {"kills": "kills"}, "kills", FEWER),
    8: (row_8, list(ARMS), {"faults": "major faults for each call", "p50_us": "half of the calls within, us", "p99_us": "99 % within, us", "read": "read from the disk, MiB"}, "faults", FEWER),
    10: (row_10, [WINDOW, "+distance", "+distance=always", "+distance=series"], {"seconds": "seconds, by the simulator's prices"}, "seconds", FEWER),
    11: (row_11, list(PROMOTING), {"second": "second pass, ms", "inline": "slowest, pages moved by the reader", "background": "slowest, moved by another", "last": "last", "moved": "pages that came up"}, "last", FEWER),
}
CLAIMED = {
    1: "fio, buffered random reads: 2,463k to 3,484k IOPS; +14 % on an SSD",
    2: "memcached that is partly in swap: 771k to 1,121k gets a second",
    3: "memcached beside fio in two groups: 1.60 and 3.31 of what the kernel did before",
    4: "kswapd: rmap 40.5 to 19.4 % of its time, compression 20.4 to 36.0 %",
    5: "more than 7 pages scanned for each reclaimed; fewer with generations",
    6: "tabs: processor time of kswapd -51 %, direct reclaim at 99 % -22 %, tabs lost -96 %",
    7: "Android: 18 % fewer kills, 16 % fewer cold starts",
    8: "executable pages are evicted, and programs stall; not with generations",
    9: "no swap storms on a desktop of 8 GiB with zswap",
    10: "MongoDB, three replicas of which one is asked: STOCK_LEVEL 577 to 2,542 (4.4 times)",
    11: "promoted page cache: 3.2 s on the slow node, 1.6 s once it came up, 1.5 s on the fast one",
    12: "jobs of a cluster are given less memory, and do not notice",
}
# How many times better, where a letter says it; of fio the lesser.
GAINS = {1: 1.14, 2: 1.45, 7: 1 / 0.82, 10: 4.4, 11: 2}
# Of a row, the arms that are held against the first, where they are more than the second.
JUDGED = {10: ["+distance", "+distance=series"]}
# Seconds of row 11 by the letter, and by whom and when they are found here.
PASSES = {
    "MGLRU": [(3.2, "not promoted", "last"), (6.6, "refs", "inline"), (1.6, "refs", "last")],
    "two lists": [(4.2, "rfc-as-coded", "second"), (3.4, "not promoted", "last"), (5.6, "rfc-as-coded", "inline"), (1.6, "rfc-as-coded", "last")],
}
ON_FAST_NODE_S = 1.5
# Figures that other evaluations have found: page, marks, kernel's and Strata's row, column (or columns that are added up), what is better.
ELSEWHERE = {
    3: [("guard.md", "mixed", ["kernel alone"], ["guard"], column, FASTER) for column in ("gets a second", "reads a second")],
    4: [("benchmarks/scan_cost.md", None, ["zram", "none"], ["zram", "auto"], column, better) for column, better in (("us per freed page", FEWER), ("rmap / us per freed page", FEWER), ("compression / us per freed page", FASTER))],
    6: [("density.md", "tabs", ["kernel"], ["guard"], column, better) for column, better in (("tabs", FASTER), ("99 %", FEWER), ("kernel + beside", FEWER), ("direct", FEWER))],
}
HEADS_ELSEWHERE = {"99 %": "99 % of switches within, ms", "kernel + beside": "CPU seconds in the kernel and of who looks after memory", "direct": "direct reclaim, 1000 pages", "rmap / us per freed page": "of it rmap, %", "compression / us per freed page": "compression, %"}
GAINS_ELSEWHERE = {"rmap / us per freed page": 40.5 / 19.4, "compression / us per freed page": 36 / 20.4}
NOT_HERE = "zswap is the whole machine's, others run on this one, and in a guest a browser is emulated, 10 to 30 times slower: its stalls would say nothing"
# What is replayed, what of it is told (the time beside that of `two-list`, or a share of both), and what a letter says: least and most, or before and
# after.
PROFILE = "--policy two-list,mglru:v2022"
FIO = f"{PROFILE} gen:uniform,pages=32768,accesses=1600000 --memory 36.36% --cost hit=1000:1330:2000,read=1500:4000:6000,threads="
MEMCACHED = f"{PROFILE} gen:uniform,pages=32768,accesses=1600000,backing=anon --memory 89% --cost hit=15000:22000:30000,compress=0,threads="
KSWAPD = f"{PROFILE} gen:zipf,pages=32768,accesses=1600000,backing=anon --memory 75% --cost mappers="
MIXED = f"{PROFILE}+group_order=rounds-sparing gen:mixed-groups --memory 30000 --group anon --group file --background 128 --cost read=1500:4000:6000,threads="
TIME = "time_of_first"
PRICED = {
    "fio, 36 threads": (f"{FIO}36", TIME, (0.71, 0.71)),
    "fio, 72 threads": (f"{FIO}72", TIME, (0.71, 0.71)),
    "memcached, 36 threads": (f"{MEMCACHED}36", TIME, (0.69, 0.69)),
    "memcached, 72 threads": (f"{MEMCACHED}72", TIME, (0.69, 0.69)),
    "kswapd, one mapper: rmap, %": (f"{KSWAPD}1", "rmap", (40.5, 19.4)),
    "one mapper: compression, %": (f"{KSWAPD}1", "compression", (20.4, 36.0)),
    "eight mappers: rmap, %": (f"{KSWAPD}8", "rmap", (40.5, 19.4)),
    "eight mappers: compression, %": (f"{KSWAPD}8", "compression", (20.4, 36.0)),
    "memcached and fio, one thread": (f"{MIXED}1", TIME, (0.30, 0.63)),
    "memcached and fio, 72 threads": (f"{MIXED}72", TIME, (0.30, 0.63)),
}


def run(strata, work, built, rounds, commit, *rows):
    def end(number, _):
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    out = csv.writer(sys.stdout, lineterminator="\n")
    lists = "two lists"
    with contextlib.suppress(OSError), open("/sys/kernel/mm/lru_gen/enabled") as enabled:
        lists = "MGLRU" if int(enabled.read(), 16) else lists
    kernel = f"{os.uname().release} ({lists}{', guest' if IN_GUEST else ''})"
    failed = False
    for row in (int(row) for row in rows if int(row) in ROWS):
        of_row, arms, _, _, _ = ROWS[row]
        nr_rounds = 1 if of_row in (row_10, row_11) else int(rounds)
        with contextlib.ExitStack() as stack:
            work_of_row = f"{work}/{row}"
            os.mkdir(work_of_row)
            stack.callback(shutil.rmtree, work_of_row)
            bench = Bench(strata, work_of_row, built)
            cases = list(of_row(bench, stack))
            for number in range(nr_rounds):
                bench.round = number + 1
                for case, measure in cases:
                    for arm in arms if number % 2 == 0 else reversed(arms):
                        try:
                            found = measure(arm)
                        except (RuntimeError, ValueError, LookupError, ArithmeticError) as error:
                            print(f"row {row}, {case}, round {number + 1}, {arm} does not count: {error!r}", file=sys.stderr)
                            failed = True
                            continue
                        print(f"row {row}, {case}, round {number + 1}, {arm}: {found}", file=sys.stderr, flush=True)
                        today = datetime.datetime.now(datetime.timezone.utc).date()
                        out.writerows([today, kernel, commit, row, case, arm, number + 1, figure, f"{value:.6g}"] for figure, value in found.items())
                        sys.stdout.flush()
    sys.exit(1 if failed else 0)


def load(path):
    if not os.path.exists(path):
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def keep(path):
    fresh = list(csv.DictReader(sys.stdin, HEAD))
    kind = lambda line: (line["row"], line["kernel"] if "guest" in line["kernel"] else "here")
    kept = [line for line in load(path) if kind(line) not in {kind(line) for line in fresh}]
    with open(path, "w", newline="") as file:
        out = csv.DictWriter(file, HEAD, lineterminator="\n")
        out.writeheader()
        out.writerows(sorted(kept + fresh, key=lambda line: int(line["row"])))


def values(lines, **of):
    """By round, what was found."""
    return {int(line["round"]): float(line["value"]) for line in lines if all(line[name] == value for name, value in of.items())}


def unique(lines, name):
    return list(dict.fromkeys(line[name] for line in lines))


def number(value):
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def spread(lines, **of):
    """Least, median and most of the rounds, as a cell."""
    found = list(values(lines, **of).values())
    shown = ", ".join(map(number, [min(found), statistics.median(found), max(found)] if len(found) > 1 else found))
    return f"[{shown}]" if len(found) > 1 else shown or "-"


def table(path, row):
    """A row a case and arm, or where there is one figure, a row a case."""
    lines = [line for line in load(path) if line["row"] == row]
    _, arms, figures, figure, _ = ROWS[int(row)]
    head = figures[figure]
    for kernel in unique(lines, "kernel"):
        of_kernel = [line for line in lines if line["kernel"] == kernel]
        last, rounds = of_kernel[-1], max(int(line["round"]) for line in of_kernel)
        guest = f"GUEST='--kernel {'.'.join(kernel.split('.')[:2])}{'' if 'MGLRU' in kernel else ' --mglru 0'}' " if "guest" in kernel else ""
        print(f"{last['date']}, commit {last['commit']}, kernel {kernel}, by\n\n    {guest}ROUNDS={rounds} ROW={row} make evaluate-letters\n")
        if len(figures) == 1:
            print(f"{head[0].upper() + head[1:]}:\n\n| | " + " | ".join(arms) + " |\n|---" + "|---:" * len(arms) + "|")
            for case in unique(of_kernel, "case"):
                print("| " + " | ".join([case, *(spread(of_kernel, case=case, arm=arm, figure=figure) for arm in arms)]) + " |")
            print()
            continue
        print("| | arm | " + " | ".join(figures.values()) + " |\n|---|---" + "|---:" * len(figures) + "|")
        for case in unique(of_kernel, "case"):
            for arm in arms:
                counted = len(values(of_kernel, case=case, arm=arm, figure=figure))
                label = arm if counted == rounds else f"{arm} ({counted} of {rounds} rounds count)"
                print("| " + " | ".join([case, label, *(spread(of_kernel, case=case, arm=arm, figure=figure) for figure in figures)]) + " |")
        print()
    if not lines:
        print("Not measured.")


def judged(ratios, claimed=1):
    """Whether ours over theirs (more is better) makes the point: by 5 % at least in the median, in each round, and by half of what was
    claimed."""
    middle = statistics.median(ratios)
    if middle < 1.05:
        return "no"
    return "not in each round" if min(ratios) <= 1 else "yes" if middle - 1 >= (claimed - 1) / 2 else "by less than half"


def listed(texts):
    return " and ".join(part for part in (", ".join(texts[:-1]), texts[-1]) if part)


def together(verdicts):
    """One text for those of several figures."""
    counts = collections.Counter(verdicts)
    return ", ".join(f"{verdict} in {count}" if len(counts) > 1 else verdict for verdict, count in counts.items())


def marked(page, marks):
    """The text of another page, or that between marks."""
    with open(f"{VALIDATION}/{page}") as file:
        text = file.read()
    return text.split(f"<!-- {marks}: begin -->")[1].split(f"<!-- {marks}: end -->")[0] if marks else text


def source(page, marks):
    """A link to a table of another page, with its date and rounds."""
    text = marked(page, marks)
    rounds = re.search(r"ROUNDS=(\d+)", text)
    told = f"{rounds[1]} rounds" if rounds and rounds[1] != "1" else "1 round"
    return f"([{page.split('/')[-1]}]({page}), {re.search(r'20[0-9]{2}-[0-9]{2}-[0-9]{2}', text)[0]}, {told})"


def cell(page, marks, row, column):
    """A number of a table of another page."""
    head = []
    for line in marked(page, marks).splitlines():
        cells = [part.strip() for part in line.strip("|").split("|")]
        if head and cells[: len(row)] == row:
            return float(re.match(r"[-+]?[\d.]+", cells[head.index(column)].replace(",", ""))[0])
        if not head and column in cells:
            head = cells
    raise LookupError(f"{page} has no {row} with {column}")


def found_here(lines, row):
    _, arms, figures, figure, better = ROWS[row]
    against = JUDGED.get(row, arms[1:2])
    said, verdicts = [], {arm: [] for arm in against}
    for kernel in unique(lines, "kernel"):
        of_kernel = [line for line in lines if line["kernel"] == kernel]
        for case in unique(of_kernel, "case"):
            base, *others = (values(of_kernel, case=case, arm=arm, figure=figure) for arm in (arms[0], *against))
            times = []
            for arm, mine in zip(against, others):
                both = sorted(base.keys() & mine.keys())
                if both and any(base[at] or mine[at] for at in both):
                    # One that is none counts as a tenth.
                    ratios = [max(mine[at], 0.1) / max(base[at], 0.1) for at in both]
                    verdicts[arm].append(judged([ratio**better for ratio in ratios], GAINS.get(row, 1)))
                    spread = f" [{number(min(ratios))}, {number(max(ratios))}]" if len(ratios) > 1 else ""
                    times.append((number(statistics.median(ratios)), spread))
                else:
                    verdicts[arm].append("nothing to tell apart")
            middle = listed([number(statistics.median(of.values())) if of else "-" for of in (base, *others)])
            where = f" ({kernel})" if "guest" in kernel else ""
            spread = "".join(spread for _, spread in times)
            said.append(f"{case}{where}: {middle}" + (f", {listed([ratio for ratio, _ in times])} times{spread}" if times else ""))
    if not said:
        return "not measured", "-"
    found, verdict = [f"{figures[figure]}, {listed([arms[0], *against])}: " + "; ".join(said)], [together(of) if len(against) == 1 else f"{arm}: {together(of)}" for arm, of in verdicts.items()]
    if row == 11:
        passes, of_passes = found_passes(lines)
        found.append(passes)
        verdict.append(f"by pass: {of_passes}")
    return ". ".join(found), "; ".join(verdict)


def found_passes(lines):
    """The letter's seconds beside what is found, for which the fast node takes as long; a pass is as claimed if it is so within a tenth."""
    value = lambda case, arm, figure: next(iter(values(lines, case=case, arm=arm, figure=figure).values()))
    scale = ON_FAST_NODE_S / value("MGLRU", "on the fast node", "last")
    said, verdicts = [], []
    for case, passes in PASSES.items():
        found = [(claimed, value(case, arm, figure) * scale) for claimed, arm, figure in passes]
        said.append(f"{case}: " + ", ".join(f"{number(of)} for {claimed}" for claimed, of in found))
        verdicts += ["yes" if abs(of / claimed - 1) < 0.1 else "no" for claimed, of in found]
    return f"By pass, with {ON_FAST_NODE_S} s on the fast node, found for claimed: {'; '.join(said)}", together(verdicts)


def found_elsewhere(row):
    said, verdicts = [], []
    for page, marks, theirs, mine, column, better in ELSEWHERE[row]:
        if " / " in column:
            part, whole = column.split(" / ")
            base, strata = (100 * cell(page, marks, row, part) / cell(page, marks, row, whole) for row in (theirs, mine))
        else:
            base, strata = (sum(cell(page, marks, row, one) for one in column.split(" + ")) for row in (theirs, mine))
        said.append(f"{HEADS_ELSEWHERE.get(column, column)} {number(base)} and {number(strata)}")
        verdicts.append(judged([(strata / base) ** better], GAINS_ELSEWHERE.get(column, 1)) if base and strata else "nothing to tell apart" if base == strata else "no")
    return f"{KERNEL} and {STRATA}: {'; '.join(said)} {source(page, marks)}", together(verdicts)


def made(commit):
    return f"{datetime.datetime.now(datetime.timezone.utc).date()}, commit {commit}, by\n\n"


def prices(strata, commit):
    print(f"{made(commit)}    ROW=prices make evaluate-letters\n\n| | claimed | found | within |\n|---|---|---|---|")
    for label, (line, part, claimed) in PRICED.items():
        _, out, _ = ours([strata, "sim", "--profile", *line.split(), "--format", "json"])
        found = [run["profile"][part] for run in json.loads(out)["runs"]]
        if part == TIME:
            (low, usual, high), (least, most) = found[1], claimed
            shown, verdict = [f"{usual:.2f} [{low:.2f}, {high:.2f}]"], ["yes"]
            if high < least or low > most:
                verdict = ["no"]
            elif 1 - usual < (1 - most) / 2:
                verdict = ["at one end only"]
        else:
            percent = [[100 * share for share in shares] for shares in found]
            shown = [f"{usual:.1f} [{low:.1f}, {high:.1f}]" for low, usual, high in percent]
            verdict = ["yes" if low <= of <= high else "no" for of, (low, _, high) in zip(claimed, percent)]
        print(f"| {label} | {' to '.join(f'{of:.{2 if part == TIME else 1}f}' for of in dict.fromkeys(claimed))} | {' to '.join(shown)} | {', '.join(dict.fromkeys(verdict))} |")


def summary(path, commit):
    print(f"{made(commit)}    make evaluate-letters\n\n| # | claimed | found | same point made |\n|---:|---|---|---|")
    lines = load(path)
    for row, claimed in CLAIMED.items():
        if row in ROWS:
            found, verdict = found_here([line for line in lines if line["row"] == str(row)], row)
        elif row in ELSEWHERE:
            found, verdict = found_elsewhere(row)
        elif row == 12:
            net, slower = (cell("guard.md", "arms", ["1%/min"], column) for column in ("of what was held", "slowdown"))
            found, verdict = f"six programs gave back {net:.0f} % net, slowdown {slower:+.1f} % {source('guard.md', 'made')}", "yes" if net >= 5 and slower < 5 else "no"
        else:
            found, verdict = NOT_HERE, "not here"
        print(f"| {row} | {claimed} | {found} | {verdict} |")


if __name__ == "__main__":
    {of.__name__: of for of in (run, keep, table, prices, summary)}[sys.argv[1]](*sys.argv[2:])
