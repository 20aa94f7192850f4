"""Tables of what density.py or tabs.py found, from its lines of JSON on stdin: medians over rounds, and the worst round in parentheses.

  table.py LOW LOW        starts are shown with LOW to LOW + 10 started, and calls from 20 below the first on"""
import json
import statistics
import sys

from host import quantile

ANSWERED_WITHIN_MS = 250


def told(values, worst=max, digits=0):
    values = [value for value in values if value is not None]
    if not values:
        return "-"
    text = f"{statistics.median(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ({worst(values):.{digits}f})"


def row_of(run, kind, low):
    return next((row for row in run["calls"] if row["kind"] == kind and row["from"] == low), {})


def held(run):
    """Sandboxes up to which 99 % of calls are answered in time."""
    rows = [row for row in run["calls"] if row["kind"] == "call" and row["to"] <= run["nr_started"]]
    late = [row["from"] for row in rows if row["p99"] > ANSWERED_WITHIN_MS]
    return min(late, default=run["nr_started"])


def costs(runs):
    """The columns that both kinds of tables end with."""
    cells = [told([run[name] for run in runs]) for name in ("kernel_cpu_s", "guard_cpu_s")]
    return cells + [told([run["counts"][name] / 1000 for run in runs]) for name in ("pswpout", "pswpin", "pgsteal_direct")]


def table(head, rows):
    print(f"| | {' | '.join(head)} |\n" + "|---" * (len(head) + 1) + "|")
    for arm, cells in rows.items():
        print(f"| {arm} | {' | '.join(cells)} |")


def sandboxes(arms, starts):
    lows = sorted({row["from"] for runs in arms.values() for run in runs for row in run["calls"] if row["from"] >= starts[0] - 20})
    # In a guest there are fewer, and times say nothing.
    starts = [low for low in starts if low in lows]
    if starts:
        calls(arms, lows, starts)
    print("\nKilled; frozen, whose calls wait meanwhile; calls answered; CPU seconds in the kernel, in the first 150 s and in all, and of who looks after\nmemory; swapped out and in, thousand pages; direct reclaim.\n")
    head = [name for low in starts for name in (f"{low} on: 50 %", "most")]
    table([*head, "killed", "frozen", "calls", "kernel, 150 s", "kernel", "beside", "out", "in", "direct"], {
        arm: [told([row_of(run, "start", low).get(name) for run in runs]) for low in starts for name in ("p50", "most")]
        + [told([run[name] for run in runs]) for name in ("nr_killed", "nr_frozen")]
        + [told([sum(row["n"] for row in run["calls"] if row["kind"] == "call") for run in runs], worst=min)]
        + [told([run["kernel_cpu_s_at_150_s"] for run in runs])] + costs(runs)
        for arm, runs in arms.items()
    })
    leaky = {arm: of for arm, runs in arms.items() if (of := [run for run in runs if "beside_leak" in run])}
    if leaky:
        leaks(leaky)


def leaks(arms):
    rows = {}
    for arm, runs in arms.items():
        of = [run["beside_leak"] for run in runs]
        p99 = {span: [each[span]["p99"] for each in of] for span in ("before", "after", "later")}
        cells = [told(p99["before"])]
        for span in ("after", "later"):
            both = zip(p99["before"], p99[span])
            cells += [told(p99[span]), told([ms / before for before, ms in both if before and ms], digits=2)]
        cells.append(", ".join(told([each[span]["n"] for each in of], worst=min) for span in p99))
        rows[arm] = [*cells, told([run["nr_frozen"] for run in runs]), ", ".join(sorted({run["leak"] for run in runs}))]
    print(f"\nCalls of the others, ms, 99 %: within {of[0]['seconds']:.0f} s before the group began to leak, as long after, and later; how many calls those were;\nhow many of the others were frozen; what became of the group.\n")
    table(["before", "after", "of before", "later", "of before", "calls", "others frozen", "leak"], rows)


def calls(arms, lows, starts):
    print("Calls, ms: 99 %, by how many were started.\n")
    table([*(f"{low} on" for low in lows), f"within {ANSWERED_WITHIN_MS} ms up to"], {
        arm: [*(told([row_of(run, "call", low).get("p99") for run in runs]) for low in lows), told([held(run) for run in runs], worst=min)]
        for arm, runs in arms.items()
    })
    print(f"\nThe start of a new one, ms, with {' and with '.join(f'{low} to {low + 10}' for low in starts)} started.", end=" ")


def tabs(arms):
    print("Tabs that were open at the end; switches, ms, in all and with 20 to 30 open; an opened one, ms; CPU seconds in the kernel and of who looks\nafter memory; swapped out and in, thousand pages; direct reclaim.\n")
    rows = {}
    for arm, runs in arms.items():
        rows[arm] = [told([run["nr_tabs"] for run in runs], worst=min), ", ".join(sorted({run["ended"] for run in runs}))]
        for low, high in ((0, 1000), (20, 30)):
            took = [[ms for tabs, ms in run["switches"] if low <= tabs < high] for run in runs]
            rows[arm] += [told([quantile(each, share) for each in took if each]) for share in (0.5, 0.99)]
        rows[arm] += [told([quantile(run["opens"], 0.5) for run in runs if run["opens"]]), *costs(runs)]
    table(["tabs", "it ended as", "50 %", "99 %", "20 on: 50 %", "99 %", "opened: 50 %", "kernel", "beside", "out", "in", "direct"], rows)


by_arm = {}
for line in sys.stdin:
    if line.startswith("{"):
        run = json.loads(line)
        by_arm.setdefault(run["arm"], []).append(run)
if any("switches" in run for runs in by_arm.values() for run in runs):
    tabs(by_arm)
elif by_arm:
    sandboxes(by_arm, [int(text) for text in sys.argv[1:]])
