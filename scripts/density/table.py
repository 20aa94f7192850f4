"""Tables of what density.py found, from its lines of JSON on stdin: medians over rounds, and the worst round in parentheses."""
import json
import statistics
import sys

ANSWERED_WITHIN_MS = 250


def told(values, unit=""):
    values = [value for value in values if value is not None]
    if not values:
        return "-"
    middle, worst = statistics.median(values), max(values)
    text = f"{middle:.0f}{unit}"
    return text if len(values) == 1 else f"{text} ({worst:.0f})"


def row_of(run, kind, low):
    return next((row for row in run["calls"] if row["kind"] == kind and row["from"] == low), {})


def held(run):
    """Sandboxes up to which 99 % of calls are answered in time."""
    rows = [row for row in run["calls"] if row["kind"] == "call" and row["to"] <= run["nr_started"]]
    late = [row["from"] for row in rows if row["p99"] > ANSWERED_WITHIN_MS]
    return min(late, default=run["nr_started"])


arms = {}
for line in sys.stdin:
    if line.startswith("{"):
        run = json.loads(line)
        arms.setdefault(run["arm"], []).append(run)
lows = sorted({row["from"] for runs in arms.values() for run in runs for row in run["calls"] if row["from"] >= 20})
print("Calls, ms: 99 %, by how many were started.\n")
print("| | " + " | ".join(f"{low} on" for low in lows) + f" | within {ANSWERED_WITHIN_MS} ms up to |")
print("|---" * (len(lows) + 2) + "|")
for arm, runs in arms.items():
    cells = [told([row_of(run, "call", low).get("p99") for run in runs]) for low in lows]
    print(f"| {arm} | {' | '.join(cells)} | {told([held(run) for run in runs])} |")
print("\nThe start of a new one, ms, with 40 to 50 and with 50 to 60 started; killed; CPU seconds in the kernel within the first 150 s and in all;\nCPU seconds of Strata; swapped out and in, thousand pages; direct reclaim.\n")
print("| | 40 on: 50 % | most | 50 on: 50 % | most | killed | kernel, 150 s | kernel | Strata | out | in | direct |")
print("|---" * 12 + "|")
for arm, runs in arms.items():
    cells = []
    for low in (40, 50):
        cells += [told([row_of(run, "start", low).get(name) for run in runs]) for name in ("p50", "most")]
    cells += [told([run[name] for run in runs]) for name in ("nr_killed", "kernel_cpu_s_at_150_s", "kernel_cpu_s", "guard_cpu_s")]
    cells += [told([run["counts"][name] / 1000 for run in runs]) for name in ("pswpout", "pswpin", "pgsteal_direct")]
    print(f"| {arm} | {' | '.join(cells)} |")
if any(run["has_leak_ended"] for runs in arms.values() for run in runs):
    ended = [f"{arm}: {sum(run['has_leak_ended'] for run in runs)} of {len(runs)}" for arm, runs in arms.items()]
    print(f"\nThe group that leaks was ended: {', '.join(ended)}.")
