"""What the parts of scripts/evaluate-guard.sh beside the programs share: a guard that is started, heard, measured and ended;
and whether anything of ours is left."""

import glob
import json
import os
import subprocess
import threading
import time

MIB = 1 << 20
TICKS = os.sysconf("SC_CLK_TCK")


# A size that nobody else's has, by which ours are known.
SWAP_KIB = (2 << 20) + os.getpid() % 4096 * 4
SWAP = f"zram:{SWAP_KIB}K"


def own_swaps():
    """Compressed devices of our size."""
    is_ours = lambda path: int(open(path).read()) == SWAP_KIB * 1024
    return [f"/dev/{path.split('/')[3]}" for path in glob.glob("/sys/block/zram*/disksize") if is_ours(path)]


def left():
    """What of ours is there still."""
    return own_swaps() + glob.glob(f"/sys/fs/cgroup/**/strata-*-{os.getpid()}*", recursive=True)


def vmstat(*names):
    with open("/proc/vmstat") as counts:
        of = dict(line.split() for line in counts)
    return {name: int(of[name]) for name in names}


class Guard:
    """A guard with a run directory of its own; what it tells is kept as (time, walks)."""

    def __init__(self, strata, work, *options):
        self.walks, self.status, self.errors = [], None, f"{work}/guard.err"
        environment = os.environ | {"STRATA_RUN_DIR": f"{work}/run"}
        self.again = lambda *verb: subprocess.run([strata, "guard", *verb], env=environment, capture_output=True, text=True, timeout=120)
        command = [strata, "guard", *options, "--history", f"{work}/history.db", "--format", "json"]
        with open(self.errors, "a") as errors:
            self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.pid, self.begun = self.process.pid, time.monotonic()
        threading.Thread(target=self.hear, daemon=True).start()

    def hear(self):
        for line in self.process.stdout:
            if line.endswith("\n"):
                self.status = json.loads(line)
                self.walks.append((time.monotonic(), self.status["nr_walks"]))

    def wait_for_walks(self, number, patience_s):
        """So many more of them."""
        wanted, deadline = len(self.walks) + number, time.monotonic() + patience_s
        while len(self.walks) < wanted:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no walk within {patience_s} s; the guard said: {self.said()}")
            time.sleep(0.1)

    def said(self):
        with open(self.errors) as errors:
            return errors.read()[-2000:]

    def costs(self):
        """Processor time (s), memory and the most of it (bytes), and how often its threads have slept and been woken."""
        with open(f"/proc/{self.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        slept = 0
        for path in [f"/proc/{self.pid}/status", *glob.glob(f"/proc/{self.pid}/task/*/status")]:
            with open(path) as status:
                of = dict(line.split(":", 1) for line in status)
            if "/task/" in path:
                slept += int(of["voluntary_ctxt_switches"])
            else:
                resident, most = (int(of[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
        return {"cpu_s": (int(fields[11]) + int(fields[12])) / TICKS, "rss": resident, "most": most, "wakeups": slept}

    def longest_wait(self):
        """From one walk, or the start, to the next."""
        times = [self.begun, *(at for at, _ in self.walks)]
        return max(after - before for before, after in zip(times, times[1:])) if self.walks else None

    def stop(self):
        self.process.terminate()
        try:
            status = self.process.wait(180)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        if status:
            raise RuntimeError(f"the guard ended with {status}: {self.said()}")

