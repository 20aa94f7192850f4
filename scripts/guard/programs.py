"""The programs of scripts/evaluate-guard.sh: each is started in a cgroup of its own, filled, asked again and again for a
part of what it holds, and ended. An ask waits for its answer."""

import bisect
import contextlib
import glob
import itertools
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
VALUE = 1000
PATIENCE_S = 60


class Gone(Exception):
    """A program does not answer any more."""


class Group:
    """A cgroup of ours, of either version."""

    def __init__(self, name):
        is_v1 = os.path.isdir("/sys/fs/cgroup/memory")
        self.path = "/sys/fs/cgroup/" + ("memory/" if is_v1 else "") + name
        self.usage, self.limit = ("memory.usage_in_bytes", "memory.limit_in_bytes") if is_v1 else ("memory.current", "memory.max")
        if not is_v1:
            with open("/sys/fs/cgroup/cgroup.subtree_control", "w") as control:
                control.write("+memory")
        os.mkdir(self.path)

    def delegate(self):
        """Groups below are counted, too."""
        if self.limit == "memory.max":
            with open(f"{self.path}/cgroup.subtree_control", "w") as control:
                control.write("+memory")

    def read(self, file):
        with open(f"{self.path}/{file}") as source:
            return source.read().split()

    def charged(self):
        return int(self.read(self.usage)[0])

    def set_limit(self, size):
        with open(f"{self.path}/{self.limit}", "w") as limit:
            limit.write(str(size))

    def counted(self):
        """Major faults and processor time (seconds) of the processes in it."""
        faults = ticks = 0
        for pid in self.read("cgroup.procs"):
            try:
                with open(f"/proc/{pid}/stat") as stat:
                    fields = stat.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            faults, ticks = faults + int(fields[9]), ticks + int(fields[11]) + int(fields[12])
        return faults, ticks / os.sysconf("SC_CLK_TCK")

    def prefer(self):
        """Sessions of its processes get as much weight as ours: nice alone counts within a session only."""
        for pid in self.read("cgroup.procs"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/autogroup", "w") as weight:
                weight.write(str(os.nice(0)))

    def remove(self):
        for attempt in range(100 if os.path.isdir(self.path) else 0):
            for pid in self.read("cgroup.procs"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGTERM if attempt < 30 else signal.SIGKILL)
            try:
                return os.rmdir(self.path)
            except OSError:
                time.sleep(0.1)
        if os.path.isdir(self.path):
            raise RuntimeError(f"{self.path} can't be removed")


class Program:
    """One that answers a line with a line."""

    end = b"\n"

    def __init__(self, name, prefix, work):
        self.name, self.work, self.buffer, self.random = name, work, b"", random.Random(1)
        self.group = Group(f"{prefix}-{name}")

    def spawn(self, *command, **options):
        shell = ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', self.group.path]
        with open(f"{self.work}/{self.name}.log", "ab") as log:
            self.process = subprocess.Popen([*shell, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, **options)
        self.speak(self.process)

    def speak(self, process):
        self.input, self.output = process.stdin.fileno(), process.stdout.fileno()

    def answer(self):
        while self.end not in self.buffer:
            more = os.read(self.output, 1 << 16) if select.select([self.output], [], [], PATIENCE_S)[0] else b""
            if not more:
                raise Gone(self.name)
            self.buffer += more
        line, _, self.buffer = self.buffer.partition(self.end)
        return line

    def tell(self, text):
        try:
            os.write(self.input, text.encode() + self.end)
        except OSError as error:
            raise Gone(self.name) from error
        return self.answer()

    def stop(self):
        self.group.remove()


class Service(Program):
    """Keeps rows; the first of them, a share, are asked for."""

    def start(self, rows, share, *command):
        self.spawn(*command, str(rows))
        self.rows, self.hot = rows, int(rows * share) - 500
        self.answer()

    def ask(self):
        self.tell(str(self.random.randrange(self.hot)))

    def proof(self):
        """What it says of all that it holds: the same as long as nothing is lost."""
        return [self.tell(str(first)) for first in range(0, self.rows - 500, 500)]


class Swept(Service):
    """All of its rows are asked for, in order."""

    def ask(self):
        self.at = (getattr(self, "at", 0) + 500) % self.hot
        self.tell(str(self.at))


class Redis(Program):
    """Of 300,000 values 30 % are asked for, by a Zipf law (0.99), 32 at a time."""

    def start(self):
        path = f"{self.work}/redis.sock"
        self.spawn("redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no", "--enable-debug-command", "yes", "--dir", self.work)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        wait_for(lambda: os.path.exists(path))
        self.socket.connect(path)
        keys = list(range(300_000))
        for first in range(0, len(keys), 50):
            values = ((key, (f"value {key} " * 150)[:VALUE]) for key in keys[first : first + 50])
            self.send("".join(f"*3\r\n$3\r\nSET\r\n$8\r\n{key:08}\r\n${VALUE}\r\n{value}\r\n" for key, value in values), 50 * 5)
        self.random.shuffle(keys)
        sums = list(itertools.accumulate(rank**-0.99 for rank in range(1, 90_001)))
        one = lambda: f"*2\r\n$3\r\nGET\r\n$8\r\n{keys[bisect.bisect(sums, self.random.random() * sums[-1])]:08}\r\n"
        # Made beforehand: what is timed is the server.
        self.requests = itertools.cycle(["".join(one() for _ in range(32)) for _ in range(40_000)])

    def send(self, text, wanted):
        try:
            self.socket.sendall(text.encode())
            while wanted > 0:
                more = len(self.socket.recv(1 << 17))
                wanted -= more
                if not more:
                    raise Gone(self.name)
        except OSError as error:
            raise Gone(self.name) from error

    def ask(self):
        self.send(next(self.requests), 32 * (len(f"${VALUE}\r\n") + VALUE + 2))

    def proof(self):
        self.socket.sendall(b"*2\r\n$5\r\nDEBUG\r\n$6\r\nDIGEST\r\n")
        return self.socket.recv(1 << 10)


class Postgres(Program):
    """Of a table that was just loaded nothing is asked for; all of a small one is, 200 rows at a time."""

    client = None

    def start(self):
        data, user = f"{self.work}/postgres", ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        if os.path.isdir(data):
            shutil.rmtree(data)
        os.mkdir(data)
        shutil.chown(data, "postgres", "postgres")
        options = {"cwd": "/", "check": True, "stdout": subprocess.DEVNULL}
        subprocess.run([*user, "initdb", "-D", data, "-A", "trust", "--no-sync"], **options)
        self.spawn(*user, "postgres", "-D", data, "-k", data, "-h", "", "-F", "-c", "shared_buffers=192MB", cwd="/")
        wait_for(lambda: glob.glob(f"{data}/.s.PGSQL.*.lock") and "ready" in open(f"{data}/postmaster.pid").read())
        psql = ["psql", "-qAtX", "-h", data, "-U", "postgres"]
        rows = "SELECT id, repeat('row ' || id, 40) AS text FROM generate_series(1, {}) AS id"
        hot = f"CREATE TABLE hot AS {rows.format(20_000)}; CREATE INDEX ON hot (id);"
        subprocess.run([*psql, "-c", f"CREATE TABLE cold AS {rows.format(400_000)}", "-c", hot, "-c", "ANALYZE"], **options)
        self.client = subprocess.Popen(psql, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.speak(self.client)
        self.ask()

    def ask(self):
        first = self.random.randrange(19_800)
        self.tell(f"SELECT sum(length(text)) FROM hot WHERE id BETWEEN {first} AND {first + 200};")

    def proof(self):
        return [self.tell(f"SELECT sum(hashtext(text)::bigint) FROM {table};") for table in ("cold", "hot")]

    def stop(self):
        self.group.remove()
        if self.client and self.client.poll() is None:
            self.client.communicate()


class Chromium(Program):
    """Of eight local pages two are asked, for the first fifth of their rows."""

    end = b"\0"
    page = """<title>rows</title><table id=table></table><script>
        const rows = Array.from({length: 150000}, (_, id) => ({id, text: ('row ' + id + ' ').repeat(4)}));
        for (let i = 0; i < 2000; i++) table.insertRow().insertCell().textContent = rows[i].text;
        function ask(first) {
            table.rows[first % 100].cells[0].textContent = rows[first].text;
            return rows.slice(first, first + 500).reduce((sum, row) => sum + row.text.length, 0);
        }</script>"""

    def start(self):
        path, self.serial = f"{self.work}/page.html", itertools.count(1)
        with open(path, "w") as page:
            page.write(self.page)
        command = ["chromium-headless-shell", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        self.spawn("sh", "-c", 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null', "sh", *command, f"--user-data-dir={self.work}/chromium")
        targets = [self.call("Target.createTarget", url=f"file://{path}?{number}")["targetId"] for number in range(8)]
        sessions = [self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"] for target in targets]
        for session in sessions:
            wait_for(lambda: self.evaluate(session, "document.readyState == 'complete' && typeof ask").get("value") == "function")
        self.all_sessions, self.sessions = sessions, itertools.cycle(sessions[:2])

    def call(self, method, session=None, **parameters):
        serial = next(self.serial)
        message = {"id": serial, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        answer = json.loads(self.tell(json.dumps(message)))
        while answer.get("id") != serial:
            answer = json.loads(self.answer())
        return answer.get("result", {})

    def evaluate(self, session, expression):
        return self.call("Runtime.evaluate", session, expression=expression).get("result", {})

    def proof(self):
        whole = "[rows.reduce((sum, row) => (sum * 31 + row.text.length + row.id) % 1000003, 7), document.title].join()"
        return [self.evaluate(session, whole).get("value") for session in self.all_sessions]

    def ask(self):
        if "value" not in self.evaluate(next(self.sessions), f"ask({self.random.randrange(29_500)})"):
            raise Gone(self.name)


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise Gone("no answer at the start")
        time.sleep(0.05)


# Name: what it takes, its class, and how it is started. In the last nothing is idle.
CATALOG = {
    "redis": (["redis-server"], Redis, ()),
    "postgres": (["postgres", "initdb", "psql", "setpriv"], Postgres, ()),
    "python": (["python3"], Service, (1_500_000, 0.2, "python3", f"{HERE}/service.py")),
    "java": (["java"], Service, (600_000, 0.2, "java", "-Xmx384m", "-cp", "{work}", "Service")),
    "node": (["node"], Service, (600_000, 0.2, "node", f"{HERE}/service.js")),
    "chromium": (["chromium-headless-shell"], Chromium, ()),
    "busy": (["python3"], Swept, (300_000, 1, "python3", f"{HERE}/service.py")),
}


def missing(name):
    return [program for program in CATALOG[name][0] if not shutil.which(program)]


def make(name, prefix, work):
    return CATALOG[name][1](name, prefix, work)


def start(program):
    arguments = CATALOG[program.name][2]
    program.start(*[part.format(work=program.work) if isinstance(part, str) else part for part in arguments])
    program.group.prefer()
