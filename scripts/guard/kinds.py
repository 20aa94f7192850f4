"""PART=kinds of scripts/evaluate-guard.sh: what goes of each kind of idle memory, and whether all is as it was.

  kinds.py STRATA WORK SECONDS    a table
  kinds.py hold KIND FOLDER       holds 64 MiB of one kind; a line on stdin asks whether they are as they were
"""

import contextlib
import mmap
import os
import select
import signal
import subprocess
import sys
import time

import guards
import programs

MIB = 1 << 20
SIZE = 64 * MIB
NR_SMALL, SMALL = 4096, 16384
# What has gone is told after so long, and at the end. At the last of these times the guard is killed, and another begins.
SAMPLES_S = (60, 150)
KILLED_S = SAMPLES_S[-1]
# Half of each page compresses to nothing.
CHUNK = b"".join(os.urandom(2048) + bytes(2048) for _ in range(MIB // 4096))
KINDS = {
    "anon": "private, 4 KiB pages", "huge": "huge pages", "sparse": "huge pages, one 4 KiB page of each in use",
    "shared1": "shared anonymous, one process", "shared4": "shared anonymous, four processes",
    "forked": "private, shared by fork with three children", "forkedhuge": "the same in huge pages",
    "tmpfs": "file on tmpfs, not mapped", "memfd": "memfd, not mapped", "mapped1": "mapped file, one process",
    "written": "the same, written through the mapping", "mapped4": "mapped file, four processes", "cache": "page cache of a file",
    "small": f"{NR_SMALL:,} files of 16 KiB", "slab": "names that do not exist (slab)", "locked": "locked", "used": "all of it in use",
}
KINDS = {kind: label for kind, label in KINDS.items() if kind in os.environ.get("KINDS", kind).split()}


def filled(area):
    for at in range(0, SIZE, MIB):
        area[at : at + MIB] = CHUNK
    return area


def anonymous(flags, advice=None):
    area = mmap.mmap(-1, SIZE, flags=flags | mmap.MAP_ANONYMOUS)
    if advice is not None:
        area.madvise(advice)
    return filled(area)


def is_whole(area):
    return all(area[at : at + MIB] == CHUNK for at in range(0, SIZE, MIB))


def written(path):
    with open(path, "wb") as file:
        for _ in range(SIZE // MIB):
            file.write(CHUNK)
        file.flush()
        os.fsync(file.fileno())


def mapped(path, protection):
    written(path)
    with open(path, "r+b") as file:
        area = mmap.mmap(file.fileno(), SIZE, prot=protection)
    return area


def hold(kind, folder):
    """Prints "ready", then an answer for each line of stdin."""
    private, shared, path = mmap.MAP_PRIVATE, mmap.MAP_SHARED, f"{folder}/{kind}"
    small, touched = mmap.MADV_NOHUGEPAGE, 0
    if kind in ("anon", "locked", "used", "forked"):
        area = anonymous(private, small)
    elif kind in ("huge", "sparse", "forkedhuge"):
        area = anonymous(private, mmap.MADV_HUGEPAGE)
    elif kind in ("shared1", "shared4"):
        area = anonymous(shared)
    elif kind in ("mapped1", "mapped4"):
        area = mapped(path, mmap.PROT_READ)
    elif kind == "written":
        area = mapped(path, mmap.PROT_READ | mmap.PROT_WRITE)
        filled(area)
        area.flush()
    if kind == "locked":
        import ctypes

        # All that is mapped now.
        assert ctypes.CDLL(None).mlockall(1) == 0
    check = lambda: is_whole(area)
    if kind in ("tmpfs", "cache"):
        path = f"/dev/shm/strata-kinds-{os.getpid()}" if kind == "tmpfs" else path
        written(path)
        check = lambda: open(path, "rb").read() == CHUNK * (SIZE // MIB)
    elif kind == "memfd":
        memfd = os.memfd_create("kinds")
        for _ in range(SIZE // MIB):
            os.write(memfd, CHUNK)
        check = lambda: all(os.pread(memfd, MIB, at) == CHUNK for at in range(0, SIZE, MIB))
    elif kind == "small":
        for number in range(NR_SMALL):
            os.makedirs(f"{path}/{number // 256}", exist_ok=True)
            with open(f"{path}/{number // 256}/{number}", "wb") as file:
                file.write(CHUNK[:SMALL])
        os.sync()
        check = lambda: all(open(f"{path}/{one // 256}/{one}", "rb").read() == CHUNK[:SMALL] for one in range(NR_SMALL))
    elif kind == "slab":
        for number in range(300_000):
            os.path.exists(f"{folder}/no-such-file-with-a-rather-long-name-{number}")
        check = lambda: True
    if kind.endswith("4") or kind.startswith("forked"):
        for _ in range(3):
            if os.fork() == 0:
                is_whole(area)
                while True:
                    signal.pause()
    # Written, and read once.
    if kind not in ("tmpfs", "memfd"):
        check()
    print("ready", flush=True)
    step = {"sparse": 2 * MIB, "used": 4096}.get(kind, SIZE)
    while True:
        if select.select([sys.stdin], [], [], 0.3 if step < SIZE else None)[0]:
            if not sys.stdin.readline():
                return
            print("right" if check() else "WRONG", flush=True)
        for at in range(0, SIZE if step < SIZE else 0, step):
            touched += area[at]


def reasons(kind, group):
    """Every program has some of the kernel's memory."""
    of_kinds = [of for of in group["kinds"] if of.get("stays_because") and (of["kind"] != "kernel" or kind == "slab")]
    told = {of["kind"].replace("_", " "): of["stays_because"] for of in of_kinds}
    return "; ".join(f"{kind}: {why}" for kind, why in told.items()) or "-"


def measured(strata, work, seconds):
    folder = os.environ.get("DISK", work)
    prefix, groups, holders = f"strata-kinds-{os.getpid()}", {}, {}
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: [group.remove() for group in groups.values()])
        for kind in KINDS:
            groups[kind] = programs.Group(f"{prefix}-{kind}")
            command = ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', groups[kind].path, sys.executable, "-B", __file__, "hold", kind, folder]
            holders[kind] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.callback(lambda kind=kind: [os.kill(int(pid), signal.SIGKILL) for pid in groups[kind].read("cgroup.procs")] and holders[kind].wait())
        for kind, holder in holders.items():
            if holder.stdout.readline() != "ready\n":
                raise RuntimeError(f"{kind} can't be made")
        before = {kind: group.charged() for kind, group in groups.items()}
        # An emulated processor needs many times as long for a walk.
        cpu = "50%" if os.environ.get("IN_GUEST") else "2%"
        options = ["--promise", "1%/min", "--min-age", "10s", "--cpu", cpu, "--cgroup", f"/{prefix}-*", "--swap", guards.SWAP, "--release"]
        guard = guards.Guard(strata, work, *options)
        stack.callback(lambda: guard.stop())
        guard.wait_for_walks(1, 120)
        begun, given = time.monotonic(), []
        for after in (*SAMPLES_S, seconds):
            time.sleep(max(0, begun + after - time.monotonic()))
            given.append({kind: (before[kind] - group.charged()) / MIB for kind, group in groups.items()})
            if after == KILLED_S:
                guard.process.kill()
                guard.process.wait()
                guard = guards.Guard(strata, work, *options)
        guard.status or guard.wait_for_walks(1, 120)
        of_group = {group["group"].rsplit("-", 1)[1]: group for group in guard.status["groups"]}
        wrong, nr_gone = [], 0
        for kind, label in KINDS.items():
            holders[kind].stdin.write("\n")
            holders[kind].stdin.flush()
            right = holders[kind].stdout.readline().strip()
            wrong.extend([label] if right != "right" else [])
            # On the page a guest's table names what stays.
            if "IN_GUEST" in os.environ and given[SAMPLES_S.index(KILLED_S)][kind] * MIB >= 0.9 * before[kind]:
                nr_gone += 1
                continue
            row = [label, f"{before[kind] / MIB:.0f}", *(f"{of[kind]:.0f}" for of in given), reasons(kind, of_group[kind])]
            print(f"| {' | '.join(row)} |", flush=True)
        print(f"\n{f'Of {nr_gone} other kinds 90 % or more went within {KILLED_S} s. ' if nr_gone else ''}Contents that were not as they had been: {', '.join(wrong) or 'none'}.", flush=True)
        if os.environ.get("STRATA_LOG"):
            with open(guard.errors) as errors:
                sys.stderr.write(errors.read())
        if "tmpfs" in holders:
            os.remove(f"/dev/shm/strata-kinds-{holders['tmpfs'].pid}")


if sys.argv[1] == "hold":
    hold(*sys.argv[2:])
else:
    strata, work, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    print(f"| 64 MiB each | held, MiB | given after {SAMPLES_S[0]} s | after {KILLED_S} s | after {seconds:.0f} s | what stays, and why |\n|---|---|---|---|---|---|")
    measured(strata, work, seconds)
