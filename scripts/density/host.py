"""A host that is short of memory, for density.py and tabs.py: locked memory leaves it so many MiB, 12 GiB of compressed swap are there, and
an arm says who looks after its memory.

An arm is kernel, kernel180 (swappiness 180, page-cluster 0), knows (as kernel; sandboxes page out by themselves), earlyoom, oomd
(systemd-oomd's rule), or a file of rules for strata guard. STRATA names the program. As root.

What runs on this host has a cgroup and a process group of its own. It is killed before anything else of this machine; the locked memory, the
one who looks after memory and those who measure come last. All of it is gone when the host is closed."""
import contextlib
import ctypes
import mmap
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
COUNTS = """pswpin pswpout pgmajfault oom_kill workingset_refault_anon workingset_refault_file pgsteal_direct pgsteal_kswapd
allocstall_normal allocstall_movable""".split()
HAS_V1 = os.path.isdir("/sys/fs/cgroup/memory")
MOUNT = "/sys/fs/cgroup/memory" if HAS_V1 else "/sys/fs/cgroup"
# On cgroup v1 those of the freezer are apart; containers have both.
FREEZER = "/sys/fs/cgroup/freezer"
SETTINGS = {"kernel180": {"swappiness": 180, "page-cluster": 0}}
WITHOUT_GUARD = ("kernel", "kernel180", "knows", "earlyoom", "oomd")
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
OUR_NAME = b"density"


def write(path, value):
    with open(path, "w") as file:
        file.write(str(value))


def numbers(path):
    with open(path) as file:
        return {key: int(value) for key, value in re.findall(r"(\w+):?\s+(\d+)", file.read())}


def processors():
    """Seconds of all processors: for programs, and in the kernel."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq = (int(text) for text in file.readline().split()[1:8])
    return (user + nice) / 100, (system + irq + softirq) / 100


def text_of(folder):
    """24 MiB of the sources and pages below a folder."""
    text = b""
    for below, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in ("target", ".git")]
        for name in sorted(names):
            if name.endswith((".rs", ".md", ".c", ".py", ".sh")):
                with open(os.path.join(below, name), "rb") as file:
                    text += file.read()
    return (text * (1 + (24 << 20) // max(len(text), 1)))[: 24 << 20]


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


def hold_locked(mib):
    """A child that locks so much memory and says when it has it. It ends with us."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        memory = mmap.mmap(-1, mib << 20)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        locked = libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(mib << 20))
        os.write(writes, b"." if locked == 0 else b"!")
        signal.pause()
        os._exit(1)
    os.close(writes)
    said = os.read(reads, 1)
    os.close(reads)
    if said != b".":
        end(pid)
        sys.exit(f"density: {mib} MiB can't be locked")
    return pid


def end(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def stopped(process, seconds):
    if process.poll() is None:
        process.terminate()
    process.wait(seconds)


class Host(contextlib.ExitStack):
    def __init__(self, arm, mib, work):
        super().__init__()
        self.top, self.arm, self.mib, self.work, self.guard = f"{MOUNT}/density", arm, mib, work, None
        self.tops = [self.top, *([f"{FREEZER}/density"] if os.path.isdir(FREEZER) else [])]
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("density: ended from outside"))
        try:
            self.fill()
            self.look_after()
            time.sleep(2)
            if self.guard and self.guard.poll() is not None:
                sys.exit(f"density: who looks after memory in the arm {arm} has ended: {work}/*.out")
        except BaseException:
            self.close()
            raise
        self.counts, self.spent, self.began = numbers("/proc/vmstat"), processors(), time.time()

    def fill(self):
        ctypes.CDLL(None).prctl(PR_SET_NAME, OUR_NAME)
        # Not everybody who is root may; what is started here goes first in any case.
        with contextlib.suppress(PermissionError):
            write("/proc/self/oom_score_adj", -1000)
        self.callback(self.remove_groups)
        for top in self.tops:
            os.makedirs(top, exist_ok=True)
        if not HAS_V1:
            write(f"{MOUNT}/cgroup.subtree_control", "+memory")
            write(f"{self.top}/cgroup.subtree_control", "+memory")
        self.callback(end, hold_locked(numbers("/proc/meminfo")["MemAvailable"] // 1024 - self.mib))

    def look_after(self):
        """The one who looks after memory in this arm."""
        if self.arm not in WITHOUT_GUARD:
            command = [os.environ.get("STRATA", "target/release/strata"), "guard", "--config", self.arm]
            self.guard = self.beside("guard", 180, *command, "--swap", "zram:12G", "--release", "--history", "none")
            return
        for name, value in SETTINGS.get(self.arm, {}).items():
            with open(f"/proc/sys/vm/{name}") as file:
                self.callback(write, f"/proc/sys/vm/{name}", file.read())
            write(f"/proc/sys/vm/{name}", value)
        with open("/sys/class/zram-control/hot_add") as file:
            number = int(file.read())
        self.callback(write, "/sys/class/zram-control/hot_remove", number)
        write(f"/sys/block/zram{number}/disksize", "12G")
        self.callback(write, f"/sys/block/zram{number}/reset", 1)
        subprocess.check_call(["mkswap", f"/dev/zram{number}"], stdout=subprocess.DEVNULL)
        subprocess.check_call(["swapon", f"/dev/zram{number}"])
        self.callback(subprocess.call, ["swapoff", f"/dev/zram{number}"])
        if self.arm == "earlyoom":
            # Its own default, of the memory that is not locked: a tenth available and a tenth of the swap free.
            options = ["-M", str(self.mib * 1024 // 10), "-s", "10", "-r", "10", "--prefer", "^(python|node|chrom|headless)", "--avoid", f"^{OUR_NAME.decode()}$"]
            self.guard = self.beside("earlyoom", 10, "earlyoom", *options)
        if self.arm == "oomd":
            self.guard = self.beside("oomd", 10, sys.executable, f"{HERE}/oomd.py", self.top, str(self.mib))

    def beside(self, name, patience_s, *command):
        with open(f"{self.work}/{name}.out", "w") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        self.callback(stopped, process, patience_s)
        return process

    def start(self, name, command, **options):
        """A command in a cgroup of its own."""
        groups = [f"{top}/{name}" for top in self.tops]
        for group in groups:
            os.makedirs(group, exist_ok=True)
        shell = 'for group in $0; do echo $$ >"$group/cgroup.procs"; done; echo 1000 >/proc/$$/oom_score_adj; exec "$@"'
        options = {"stderr": subprocess.DEVNULL, "start_new_session": True} | options
        return subprocess.Popen(["sh", "-c", shell, " ".join(groups), *command], **options)

    def go_first(self, name):
        """All of a group, whatever its programs think of themselves."""
        with open(f"{self.top}/{name}/cgroup.procs") as file:
            for pid in file.read().split():
                with contextlib.suppress(OSError):
                    write(f"/proc/{pid}/oom_score_adj", 1000)

    def frozen(self):
        """Groups that are frozen now."""
        (file, frozen), top, found = ("freezer.state", "FROZEN") if HAS_V1 else ("cgroup.freeze", "1"), self.tops[-1], set()
        for name in os.listdir(top):
            if os.path.exists(path := f"{top}/{name}/{file}"):
                with open(path) as state:
                    found |= {name} if state.read().strip() == frozen else set()
        return found

    def thaw(self):
        """What is frozen on cgroup v1 can't die."""
        for top in self.tops:
            for name in os.listdir(top):
                if os.path.exists(state := f"{top}/{name}/freezer.state"):
                    write(state, "THAWED")

    def remove_groups(self):
        """Ends who is still there, which are those that what we started has started."""
        for group in [f"{top}/{name}" for top in self.tops for name in os.listdir(top)]:
            for _ in range(100 * os.path.isdir(group)):
                with open(f"{group}/cgroup.procs") as file:
                    pids = file.read().split()
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
                self.thaw()
                with contextlib.suppress(OSError):
                    os.rmdir(group)
                    break
                time.sleep(0.1)
        for top in self.tops:
            os.rmdir(top)

    def kill(self, processes):
        while any([one.poll() is None for one in processes]):
            for one in processes:
                if one.poll() is None:
                    os.killpg(one.pid, signal.SIGKILL)
            self.thaw()
            time.sleep(0.1)

    def say(self, text):
        memory = numbers("/proc/meminfo")
        mib = {key: memory[key] // 1024 for key in ("MemFree", "MemAvailable", "SwapTotal", "SwapFree")}
        swapped, at = mib["SwapTotal"] - mib["SwapFree"], time.time() - self.began
        print(f"{at:5.0f} s: {text}; MiB free {mib['MemFree']}, available {mib['MemAvailable']}, in swap {swapped}", file=sys.stderr, flush=True)

    def kernel_s(self):
        return processors()[1] - self.spent[1]

    def found(self):
        """What the kernel and the one who looks after memory did until now."""
        after, now, guard_s = numbers("/proc/vmstat"), processors(), 0.0
        if self.guard and self.guard.poll() is None:
            with open(f"/proc/{self.guard.pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            guard_s = (int(fields[11]) + int(fields[12])) / 100
        return {
            "arm": os.path.basename(self.arm),
            "guard_cpu_s": guard_s,
            "programs_cpu_s": now[0] - self.spent[0],
            "kernel_cpu_s": now[1] - self.spent[1],
            "counts": {key: after.get(key, 0) - self.counts.get(key, 0) for key in COUNTS},
        }
