#!/usr/bin/env python3
"""The tables of docs/develop/evaluation.md, out of what scripts/evaluate.sh has computed.

evaluate.py sizes CSV                          amounts of memory that `strata sim` replayed, in pages
evaluate.py SECTION FRESH ZOO FILE=TRACE...    prints a table (`ratios`: CSV): FRESH has FILE.fd.csv and FILE.mmap.csv of
                                               `strata sim`, ZOO has FILE.csv of libCacheSim
evaluate.py splice PAGE NAME                   puts stdin between the marks of that name in a page
evaluate.py beside HEAD=LOG...                 tables with the same first two columns as one, in which each has a column
evaluate.py planned PLAN.JSON BYTES            what a plan says of a budget: refaults expected, lowest and highest,
                                               and bytes held, a line each
evaluate.py foretold NAME PLAN.JSON TIMES PAGES WALKS   rows of how much longer a program takes: TIMES has `BUDGET REFAULTS SECONDS` a line,
                                               `free` as BUDGET without one, in turns; PAGES is the footprint,
                                               WALKS how often the recording looked
"""

import csv
import json
import math
import os
import re
import statistics
import sys

OURS = ["mglru", "mglru:v6.1", "two-list", "lru", "fifo", "clock", "sieve", "s3-fifo", "opt"]
MAPPED = ["mglru", "mglru:v6.1", "two-list"]
ZOO = {"ARC": "ARC", "LIRS": "LIRS", "TwoQ": "2Q", "WTinyLFU": "W-TinyLFU", "S3FIFO": "S3-FIFO", "Sieve": "SIEVE"}
# What a cell is measured by. Our own S3-FIFO is among them because libCacheSim's holds nothing in a
# memory of a few pages.
RIVALS = ["ARC", "LIRS", "TwoQ", "S3FIFO", "s3-fifo"]
NO_ZOO = "libCacheSim could not be had from PyPI"


def read_csv(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


class Cell:
    """Miss ratios of one trace in one amount of memory, by policy."""

    def __init__(self, trace, pages):
        self.trace, self.pages, self.ratios, self.mapped = trace, pages, {}, {}

    def over_best(self, ratio, rivals=RIVALS):
        return ratio / min(self.ratios[name] for name in rivals if name in self.ratios)

    def over_lru(self, ratio):
        return ratio / self.ratios["lru"]

    def __str__(self):
        return f"{self.trace} at {self.pages} pages"


def load(fresh, zoo, names):
    cells = []
    for name in names:
        file, trace = name.split("=", 1)
        of_pages = {}
        for row in read_csv(f"{fresh}/{file}.fd.csv"):
            pages = int(row["memory_pages"])
            cell = of_pages.setdefault(pages, Cell(trace, pages))
            cell.ratios[row["policy"]] = float(row["miss_ratio"])
        for row in read_csv(f"{fresh}/{file}.mmap.csv"):
            of_pages[int(row["memory_pages"])].mapped[row["policy"]] = float(row["miss_ratio"])
        if os.path.exists(f"{zoo}/{file}.csv"):
            for row in read_csv(f"{zoo}/{file}.csv"):
                if row["miss_ratio"]:
                    of_pages[int(row["memory_pages"])].ratios[row["policy"]] = float(row["miss_ratio"])
        cells += of_pages.values()
    return cells


def geometric_mean(values):
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def table(heads, rows):
    print("| " + " | ".join(heads) + " |")
    print("|---|" + "---:|" * (len(heads) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def ratios(cells):
    has_zoo = any(policy in cell.ratios for cell in cells for policy in ZOO)
    columns = OURS + list(ZOO) if has_zoo else OURS
    show = lambda cell, policy: f"{cell.ratios[policy]:.6f}" if policy in cell.ratios else ""
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(["trace", "pages"] + [ZOO.get(policy, policy) for policy in columns])
    rows.writerows([cell.trace, cell.pages] + [show(cell, policy) for policy in columns] for cell in cells)


def relative(cells):
    summary(cells, OURS[:-1] + list(ZOO), lambda cell: cell.ratios)
    if not all("ARC" in cell.ratios for cell in cells):
        print(f"\n{NO_ZOO}: the best is the best of ours.")


def mapped(cells):
    summary(cells, MAPPED, lambda cell: cell.mapped)


def summary(cells, policies, of):
    """For each policy over all cells: the mean, and where it is worst."""
    rows = []
    for policy in policies:
        here = [(of(cell)[policy], cell) for cell in cells if policy in of(cell)]
        if not here:
            continue
        best = [(cell.over_best(ratio), cell) for ratio, cell in here]
        lru = [(cell.over_lru(ratio), cell) for ratio, cell in here]
        worst, where = max(lru, key=lambda pair: pair[0])
        rows.append([ZOO.get(policy, f"`{policy}`"), f"{geometric_mean([r for r, _ in best]):.4f}",
                     f"{geometric_mean([r for r, _ in lru]):.4f}", f"{worst:.3f} ({where})",
                     str(sum(r > 1.05 for r, _ in lru))])
    table(["policy", "mean over the best", "mean over `lru`", "worst cell over `lru`", "cells above 1.05"], rows)


def splice(page, name):
    with open(page) as file:
        text = file.read()
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        sys.exit(f"{page} has no marks of the name {name}")
    fresh = f"{begin}\n{sys.stdin.read().strip()}\n\n{end}"
    with open(page, "w") as file:
        file.write(pattern.sub(lambda _: fresh, text))


def beside(*logs):
    """Lines of three cells: a table for each first cell, with a column for each log that has something of it."""
    heads, paths = zip(*(log.split("=", 1) for log in logs))
    found = {}
    for number, path in enumerate(paths):
        with open(path, errors="replace") as file:
            rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in file if line.startswith("|")]
        for of, counted, cell in (row for row in rows[2:] if len(row) == 3):
            found.setdefault(of, {}).setdefault(counted, [""] * len(paths))[number] = cell
    for of, rows in found.items():
        kept = [number for number in range(len(heads)) if any(cells[number] for cells in rows.values())]
        print(f"{of}:\n")
        table(["", *(heads[number] for number in kept)], [[counted, *(cells[number] for number in kept)] for counted, cells in rows.items()])
        print()


def point_of(plan, budget):
    with open(plan) as file:
        points = json.load(file)["points"]
    point = next((point for point in points if point["memory_bytes"] == int(budget)), None)
    if point is None:
        sys.exit(f"{plan} says nothing of a budget of {budget} bytes")
    return point


def planned(plan, budget):
    point = point_of(plan, budget)
    print(*(point["refaults"][part] for part in ("expected", "lowest", "highest")), point["held_bytes"]["expected"], sep="\n")


def foretold(name, plan, times, pages, walks):
    """The goal is to be within 30 % of the real figure or one point."""
    with open(times) as file:
        rows = [(budget, int(refaults), float(seconds)) for budget, refaults, seconds in map(str.split, file)]
    free = [seconds for budget, _, seconds in rows if budget == "free"]
    for budget in dict.fromkeys(budget for budget, _, _ in rows if budget != "free"):
        point, here = point_of(plan, budget), [(refaults, seconds) for of, refaults, seconds in rows if of == budget]
        longer = [100 * (seconds / without - 1) for (_, seconds), without in zip(here, free)]
        took = [1e6 * (seconds - without) / max(1, refaults) for (refaults, seconds), without in zip(here, free)]
        expected, lowest, highest = (100 * point["longer"][part] for part in ("expected", "lowest", "highest"))
        real = statistics.median(longer)
        is_met = abs(expected - real) <= max(1, 0.3 * abs(real))
        share = round(100 * int(budget) / 4096 / int(pages))
        print(f"| {name} | {walks} | {share} % | {point['refaults']['expected']} / {statistics.median_low(sorted(r for r, _ in here))} | "
              f"{expected:.1f} % | {lowest:.1f} % to {highest:.1f} % | {real:.1f} % | {min(longer):.1f} % to {max(longer):.1f} % | "
              f"{statistics.median(took):.1f} | {'yes' if is_met else 'no'} |")


def main(verb, *arguments):
    if verb == "sizes":
        print(*sorted({int(row["memory_pages"]) for row in read_csv(arguments[0])}))
    elif verb == "splice":
        splice(*arguments)
    elif verb == "beside":
        beside(*arguments)
    elif verb == "planned":
        planned(*arguments)
    elif verb == "foretold":
        foretold(*arguments)
    else:
        sections = {of.__name__: of for of in (ratios, relative, mapped)}
        sections[verb](load(arguments[0], arguments[1], arguments[2:]))


if __name__ == "__main__":
    main(*sys.argv[1:])
