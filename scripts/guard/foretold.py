"""PART=foretold of scripts/evaluate-guard.sh: does `strata plan --promise` foretell what `strata guard` does? Each program is recorded
while it is asked for its rows, and then guarded while it is asked alike.

  foretold.py STRATA WORK ROUNDS SECONDS    a table
"""

import json
import os
import statistics
import subprocess
import sys

import arms
import guards
import programs

PROMISE = ["--promise", "1%/min", "--min-age", "20s"]


def strata_says(strata, *words):
    done = subprocess.run([strata, *words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{words}: {done.stderr}")
    return done.stdout


def one(strata, work, seconds, name):
    """What is in memory at the end and what came back, bytes, as foretold and as it was."""
    prefix, recording, killed = f"strata-foretold-{os.getpid()}", f"{work}/{name}.strata", set()
    program = programs.make(name, prefix, work)
    asked = lambda length: arms.turns([(program,)], length, killed)
    try:
        programs.start(program)
        asked(arms.WARM_S)
        recorder = subprocess.Popen([strata, "record", "--cgroup", program.group.path, "--for", f"{seconds:.0f}s", "--every", "2s", "-o", recording, "--force", "--quiet"])
        asked(seconds + 2)
        if recorder.wait(60):
            raise RuntimeError(f"{name} was not recorded")
        (foretold,) = json.loads(strata_says(strata, "plan", recording, *PROMISE, "--format", "json"))["groups"]
        guard = guards.Guard(strata, work, *PROMISE, "--cgroup", f"/{prefix}-{name}", "--swap", guards.SWAP, "--release")
        asked(seconds)
        (found,) = guard.status["groups"]
        program.stop()
        guard.stop()
    finally:
        program.stop()
    end = foretold["at_end"]
    held = end["resident_bytes"] + end["away_bytes"]
    return held, end["resident_bytes"], found["resident_bytes"], foretold["came_back_bytes"], found["came_back_bytes"]


def main(strata, work, rounds, seconds):
    print("| program | held, MiB | in memory at the end: foretold, found; MiB | found beside foretold | came back: foretold, found; MiB |\n|---|---:|---:|---:|---:|")
    for name in os.environ.get("PROGRAMS", ",".join(programs.CATALOG)).split(","):
        if programs.missing(name):
            print(f"{name} is left out: this machine has no {' '.join(programs.missing(name))}", file=sys.stderr)
            continue
        try:
            all_rounds = [one(strata, work, float(seconds), name) for _ in range(int(rounds))]
        except (programs.Gone, RuntimeError, ValueError) as error:
            print(f"{name} does not count: {error!r}", file=sys.stderr)
            continue
        held, foretold, found, came, comes = (statistics.median(values) / guards.MIB for values in zip(*all_rounds))
        print(f"| {name} | {held:.0f} | {foretold:.0f}, {found:.0f} | {found / foretold - 1:+.0%} | {came:.1f}, {comes:.1f} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
