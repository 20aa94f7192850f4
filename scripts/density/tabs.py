#!/usr/bin/env python3
"""How many tabs does a browser hold on a short host? One more opens each few seconds; between, somebody goes back to old ones: twice to one of
the last five, once to any. It ends when a tab is lost, when a switch takes 2 s, or with so many tabs. Prints a line each ten seconds, then
one line of JSON.

  tabs.py ARM [--tabs 110] [--mib 2500] [--step 3]

Host.py says what an ARM is. Pages come from a server on the loopback. Each has a site of its own, hence a process; 24 to 60 MiB of text as
objects of its script, of which a switch reads a twentieth; a table of 2,000 rows, and a canvas. The browser is chromium-headless-shell. WORK
names a folder on a disk, TEXT a folder with text to hold."""
import argparse
import http.server
import json
import os
import random
import select
import shutil
import subprocess
import threading
import time

from host import Host, text_of

TOO_LATE_S = 2.0
PATIENCE_S = 60.0
LINES_OF_TAB = (200_000, 500_000)
PAGE = """<!doctype html><meta charset=utf-8><title>rows</title><canvas id=canvas width=1200 height=800></canvas><table id=table></table><script>
let rows = [];
function draw() {
    const pen = canvas.getContext('2d');
    for (let i = 0; i < 400; i++) {
        pen.fillStyle = `hsl(${(rows[i].id * 37) % 360} 60% 60%)`;
        pen.fillRect((i % 20) * 60, (i / 20 | 0) * 40, 58, 38);
        pen.fillStyle = 'black';
        pen.fillText(rows[i].text.slice(0, 9), (i % 20) * 60, (i / 20 | 0) * 40 + 20);
    }
}
async function load() {
    rows = (await (await fetch('rows')).text()).split('\\n').map((text, id) => ({id, text: `${id} ${text}`, words: text.length >> 3}));
    for (let i = 0; i < 2000; i++) {
        const cells = table.insertRow();
        for (const text of [rows[i].id, rows[i].words, rows[i].text]) cells.insertCell().textContent = text;
    }
    draw();
    return rows.length;
}
async function back(share) {
    const first = share * rows.length * 0.95 | 0;
    let read = 0;
    for (let i = first; i < first + rows.length / 20; i++) read = (read * 31 + rows[i].text.charCodeAt(0) + rows[i].words) % 1000003;
    table.rows[share * 2000 | 0].scrollIntoView();
    await new Promise(drawn => requestAnimationFrame(() => setTimeout(drawn)));
    return read;
}
</script>"""


class Lost(Exception):
    """A tab, or the browser, does not answer any more."""


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, text):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lines = text.decode(errors="replace").splitlines()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        lines, seed = self.server.lines, self.headers["Host"]
        chance = random.Random(seed)
        start, count = chance.randrange(len(lines)), chance.randrange(*LINES_OF_TAB)
        is_rows = self.path.endswith("rows")
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; charset=utf-8" if is_rows else "text/html")
        self.end_headers()
        for at in range(0, count if is_rows else 0, 10_000):
            self.wfile.write("\n".join(lines[(start + i) % len(lines)] for i in range(at, min(at + 10_000, count))).encode())
        if not is_rows:
            self.wfile.write(PAGE.encode())

    def log_message(self, *_):
        """Says nothing."""


class Browser:
    """Asked through its pipe for debuggers."""

    def __init__(self, host, work):
        # All of it is of one process group, and no process is another's sandbox: this is root.
        flags = ["--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={work}/profile"]
        shell = ["sh", "-c", 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null', "sh", "chromium-headless-shell"]
        self.program = host.start("browser", shell + flags, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.serial, self.read = 0, b""

    def message(self, deadline):
        while b"\0" not in self.read:
            ready, _, _ = select.select([self.program.stdout], [], [], max(0.0, deadline - time.time()))
            more = os.read(self.program.stdout.fileno(), 1 << 20) if ready else b""
            if not more:
                raise Lost("no answer" if not ready else "the browser is gone")
            self.read += more
        text, self.read = self.read.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, session=None, **parameters):
        self.serial += 1
        asked = {"id": self.serial, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        try:
            self.program.stdin.write(json.dumps(asked).encode() + b"\0")
            self.program.stdin.flush()
        except BrokenPipeError:
            raise Lost("the browser is gone") from None
        deadline = time.time() + PATIENCE_S
        while (answer := self.message(deadline)).get("id") != self.serial:
            if answer.get("method") in ("Inspector.targetCrashed", "Target.targetCrashed", "Target.detachedFromTarget"):
                raise Lost("a tab crashed")
        if "result" not in answer:
            raise Lost(str(answer.get("error")))
        return answer["result"]

    def evaluate(self, session, expression):
        value = self.call("Runtime.evaluate", session, expression=expression, awaitPromise=True)["result"].get("value")
        if value is None:
            raise Lost(f"{expression} has no value")
        return value

    def open(self, url):
        target = self.call("Target.createTarget", url=url)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Inspector.enable", session)
        while self.evaluate(session, "document.readyState == 'complete' && typeof load") != "function":
            time.sleep(0.05)
        self.evaluate(session, "load()")
        self.switch(session, 0)
        return session

    def switch(self, session, share):
        """Milliseconds until the tab is in front, has read of its data, and is drawn."""
        began = time.time()
        self.call("Page.bringToFront", session)
        self.evaluate(session, f"back({share})")
        self.call("Page.captureScreenshot", session, format="jpeg", quality=50)
        return (time.time() - began) * 1000


def opened(host, browser, url, asked, took, opens):
    """Opens tabs and goes back to old ones; says why it ends."""
    tabs, chance, next_line = [], random.Random(1), 0.0
    try:
        while len(tabs) < asked.tabs:
            began = time.time()
            tabs.append(browser.open(url.format(len(tabs))))
            opens.append((time.time() - began) * 1000)
            host.go_first("browser")
            for part, reach in enumerate((5, 5, len(tabs)), 1):
                time.sleep(max(0.0, began + asked.step * part / 4 - time.time()))
                took.append((len(tabs), browser.switch(chance.choice(tabs[-reach:]), chance.random())))
                if took[-1][1] >= TOO_LATE_S * 1000:
                    return "a switch took 2 s"
            if time.time() >= next_line:
                host.say(f"{len(tabs)} tabs, the last switches took {', '.join(f'{ms:.0f}' for _, ms in took[-3:])} ms")
                next_line = time.time() + 10
            time.sleep(max(0.0, began + asked.step - time.time()))
    except Lost as lost:
        return str(lost)
    return "all are open"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("arm")
    parser.add_argument("--tabs", type=int, default=110)
    parser.add_argument("--mib", type=int, default=2500)
    parser.add_argument("--step", type=float, default=3.0)
    asked = parser.parse_args()
    work = os.environ.get("WORK", "/var/tmp/density")
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    server = Server(text_of(os.environ.get("TEXT", ".")))
    took, opens = [], []
    with Host(asked.arm, asked.mib, work) as host:
        browser = Browser(host, work)
        host.callback(lambda: host.kill([browser.program]))
        why = opened(host, browser, f"http://tab{{}}.localhost:{server.server_port}/", asked, took, opens)
        host.say(why)
        found = host.found()
    print(json.dumps(found | {"nr_tabs": len(opens), "ended": why, "switches": took, "opens": opens}))
    shutil.rmtree(work)


main()
