"""PART=soak of scripts/evaluate-guard.sh: a guard under random load. Programs that verify their own memory come, fork, map and
unmap, end and are killed; groups are removed; rules change and are garbage; the guard is killed (in the first half: then its
memory is watched). Then swap is taken away under it. A report, and status 1 if something did not hold.

  soak.py STRATA WORK SECONDS PROGRAMS
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import guards
import programs

SEED = int(os.environ.get("SEED", "1"))
NR_GROUPS, NR_PROGRAMS = 6, 10
LOADS = [
    ("checksum", "--size", "64M", "--threads", "2", "--write-percent", "30", "--seconds", "{}"),
    ("forker", "--children", "8", "--size", "8M", "--shared", "24M", "--seconds", "{}"),
    ("forker", "--children", "200", "--size", "64K", "--seconds", "0.2"),
    ("mapstorm", "--mappings", "20000", "--churn", "--seconds", "{}"),
    ("fault", "--size", "32M", "--seconds", "{}"),
]
GOOD = '[[rule]]\ncgroup = "/{}*"\npromise = "{}%/min"\nmin_age = "{}s"\n{}[host]\nfree = "1%"\n'
# fault: the kernel has no userfaultfd; killed by us or by a group that went.
NO_FAILURE = {0, 3, -signal.SIGKILL}


class Soak:
    def __init__(self, strata, work, seconds, built):
        self.strata, self.work, self.built, self.random = strata, work, built, random.Random(SEED)
        self.prefix, self.rules = f"strata-soak-{os.getpid()}-", f"{work}/rules.toml"
        self.seconds, self.failures, self.nr, self.serial = seconds, [], {}, 0
        self.groups, self.removed, self.running, self.memory = {}, set(), {}, []
        self.guard = None

    def did(self, what, number=1):
        self.nr[what] = self.nr.get(what, 0) + number

    def failed(self, what):
        print(f"soak: {what}", file=sys.stderr)
        self.failures.append(what)

    def start_guard(self):
        if not self.guard:
            self.write_rules(is_good=True)
        self.guard = guards.Guard(self.strata, self.work, "--config", self.rules, "--swap", guards.SWAP, "--cpu", "20%")

    def write_rules(self, is_good):
        age, promise = self.random.choice([5, 7, 10]), self.random.choice([1, 20, 100])
        memory = self.random.choice(["", 'memory = "64M"\n', 'memory = "200M"\nlow = "20M"\n'])
        text = GOOD.format(self.prefix, promise, age, memory)
        if not is_good:
            cut = self.random.randrange(len(text))
            text = self.random.choice([b"", os.urandom(200), text.encode()[:cut] + b"\xff", text.replace("%/min", "%").encode(), b"a = 1\n" + text.encode()])
        with open(self.rules, "wb") as rules:
            rules.write(text if isinstance(text, bytes) else text.encode())

    # What happens at random.

    def program(self):
        if len(self.running) >= NR_PROGRAMS:
            return
        number = self.random.randrange(NR_GROUPS)
        group = self.groups.get(number) or self.groups.setdefault(number, programs.Group(f"{self.prefix}{number}-{self.serial}"))
        self.serial += 1
        load = [part.format(self.random.randrange(5, 40)) for part in self.random.choice(LOADS)]
        shell = ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', group.path, f"{self.built}/{load[0]}", *load[1:]]
        with open(f"{self.work}/programs.log", "a") as log:
            self.running[subprocess.Popen(shell, stdout=log, stderr=log)] = (" ".join(load), group)
        self.did("programs")

    def kill(self):
        if self.running:
            self.random.choice(list(self.running)).kill()
            self.did("killed programs")

    def remove(self):
        """A group goes with all that is in it, at whatever the guard does."""
        if self.groups:
            group = self.groups.pop(self.random.choice(list(self.groups)))
            self.removed.add(group.path)
            for _ in range(100):
                with contextlib.suppress(OSError, ProcessLookupError):
                    for pid in group.read("cgroup.procs"):
                        os.kill(int(pid), signal.SIGKILL)
                    os.rmdir(group.path)
                if not os.path.isdir(group.path):
                    return self.did("removed groups")
                time.sleep(0.02)
            self.groups[-self.serial] = group

    def rule(self):
        if not self.guard.walks:
            # It may not listen for a hang-up yet.
            return
        is_good = self.random.random() < 0.6
        self.write_rules(is_good)
        self.guard.process.send_signal(signal.SIGHUP)
        self.did("rules" if is_good else "garbage as rules")
        if not is_good:
            # Who is started with garbage does not start, as it should.
            time.sleep(0.2)
            self.write_rules(is_good=True)

    def ask(self):
        asked = self.guard.again("status", "--format", "json")
        if asked.returncode and self.guard.walks:
            self.failed(f"the guard's status can't be had: {asked.stderr}")
        self.did("asks for the status")

    def kill_guard(self):
        self.guard.process.kill()
        self.guard.process.wait()
        if len(guards.own_swaps()) > 1:
            self.failed(f"a killed guard left more than one swap device: {guards.own_swaps()}")
        self.did("killed guards")
        self.start_guard()

    def reap(self):
        for process, (load, group) in list(self.running.items()):
            status = process.poll()
            if status is not None:
                del self.running[process]
                self.did("programs that ended by themselves", status == 0)
                # Of a group that was removed, children may have been killed before who waits for them.
                if status not in NO_FAILURE and group.path not in self.removed:
                    self.failed(f"{load} ended with {status}")

    def memory_of_guard(self):
        if self.guard.process.poll() is not None:
            self.failed(f"the guard ended with {self.guard.process.returncode}: {self.guard.said()}")
            self.start_guard()
            self.guard.wait_for_walks(1, 120)
        self.memory.append(self.guard.costs()["rss"])

    def run(self):
        self.start_guard()
        self.guard.wait_for_walks(1, 60)
        begun = time.monotonic()
        at = lambda: time.monotonic() - begun
        actions = [self.program] * 12 + [self.kill] * 2 + [self.remove, self.rule, self.ask]
        sample_s, next_sample = min(60, self.seconds / 12), 0
        while at() < self.seconds:
            is_first_half = at() < self.seconds / 2
            self.random.choice(actions + [self.kill_guard] * is_first_half)()
            self.reap()
            if at() >= next_sample:
                next_sample += sample_s
                self.memory_of_guard()
            time.sleep(self.random.uniform(0, 1))
        self.taken = self.guard.status["groups"] if self.guard.status else []
        self.end()
        self.report(sample_s)

    def end(self):
        """Swap goes under the guard; programs end, and all of them are asked whether their memory was right."""
        for area in guards.own_swaps():
            if subprocess.run(["swapoff", area], capture_output=True).returncode:
                self.failed(f"{area} can't be taken down under the guard")
        try:
            self.guard.wait_for_walks(3, 120)
        except RuntimeError as error:
            self.failed(f"without swap: {error}")
        for process in self.running:
            process.wait()
        self.reap()
        for group in self.groups.values():
            group.remove()
        try:
            self.guard.stop()
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            self.failed(str(error))
        released = self.guard.again("--release")
        if released.returncode:
            self.failed(f"--release: {released.stderr}")
        for what in guards.left():
            self.failed(f"left behind: {what}")

    def report(self, sample_s):
        calm = self.memory[len(self.memory) // 2 + 1 :]
        early, late = max(calm[: len(calm) // 2 + 1], default=0), max(calm[len(calm) // 2 :], default=0)
        if late > early * 1.1 + 4 * guards.MIB:
            self.failed("the guard's memory grows")
        print(f"Seed {SEED}, {self.seconds / 60:.0f} min: " + ", ".join(f"{number} {what}" for what, number in sorted(self.nr.items())) + ".")
        print(f"\nThe guard's memory, MiB, each {sample_s:.0f} s (killed in the first half, not after it): " + " ".join(f"{rss / guards.MIB:.0f}" for rss in self.memory))
        print(f"\nOf the groups at the end {sum(group['taken_bytes'] for group in self.taken) / guards.MIB:.0f} MiB had been taken and "
              f"{sum(group['came_back_bytes'] for group in self.taken) / guards.MIB:.0f} MiB had come back.")
        print("\n" + ("\n".join(f"- FAILED: {what}" for what in self.failures) or "All programs found their memory as they had left it; nothing else failed, and nothing was left behind."))


if __name__ == "__main__":
    soak = Soak(*sys.argv[1:3], float(sys.argv[3]), sys.argv[4])
    try:
        soak.run()
    finally:
        for process in soak.running:
            process.kill()
        if soak.guard and soak.guard.process.poll() is None:
            soak.guard.stop()
            soak.guard.again("--release")
        for group in soak.groups.values():
            group.remove()
    sys.exit(bool(soak.failures))
