"""A sandbox of real programs: a git checkout of its own, the language server of TypeScript (node) on a project of 40 files, and this python,
which holds a table of pandas. A call is a step of an agent: it changes a line and asks the language server for completions there, changes a
file of the checkout and asks for `git status`, and groups the table. Agent.py says when calls come.

  real.py NUMBER LOG FOLDER SESSION_S AWAY_S PAUSE_S

TOOLS names the folder with node_modules (typescript, @types/node), REPOSITORY what is checked out. It ends when one of its programs does."""
import json
import os
import subprocess
import sys

from agent import Agent

agent = Agent()  # before pandas is there, which is part of the start
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy  # noqa: E402
import pandas  # noqa: E402

FILES, ROWS, NOTES = 40, 1_000_000, 200_000
TOOLS, chance = os.environ["TOOLS"], agent.chance
MODULE = """import { readFileSync } from "node:fs";
import { EventEmitter } from "node:events";
IMPORT
export interface RowK { id: number; name: string; tags: readonly string[]; at: Date; NEXT }
export type KeysK = { [P in keyof RowK as `by_${P}`]: (row: RowK) => RowK[P] };
export class StoreK extends EventEmitter {
    private rows = new Map<number, RowK>();
    load(path: string): number {
        const found = JSON.parse(readFileSync(path, "utf8")) as RowK[];
        found.forEach((row) => this.rows.set(row.id, row));
        return this.rows.size;
    }
    grouped<T extends keyof RowK>(by: T): Map<RowK[T], RowK[]> {
        const groups = new Map<RowK[T], RowK[]>();
        for (const row of this.rows.values()) groups.set(row[by], [...(groups.get(row[by]) ?? []), row]);
        return groups;
    }
    async *pages(size: number): AsyncGenerator<RowK[]> {
        const all = [...this.rows.values()].sort((a, b) => a.at.getTime() - b.at.getTime());
        for (let at = 0; at < all.length; at += size) yield all.slice(at, at + size);
    }
}
export const storeK = new StoreK();
"""


class LanguageServer:
    def __init__(self, project):
        self.files, self.typed, self.serial = [], [0] * FILES, 0
        os.makedirs(project)
        os.symlink(f"{TOOLS}/node_modules", f"{project}/node_modules")
        options = {"strict": True, "module": "nodenext", "target": "es2022", "lib": ["es2022"], "noEmit": True, "types": ["node"]}
        with open(f"{project}/tsconfig.json", "w") as file:
            json.dump({"compilerOptions": options, "include": ["*.ts"]}, file)
        for k in range(FILES):
            before = f'import * as before from "./m{k - 1}.js";' if k else ""
            text = MODULE.replace("IMPORT", before).replace("NEXT", f"next?: before.Row{k - 1}" if k else "")
            self.files.append(f"{project}/m{k}.ts")
            with open(self.files[-1], "w") as file:
                file.write(text.replace("RowK", f"Row{k}").replace("KeysK", f"Keys{k}").replace("StoreK", f"Store{k}").replace("storeK", f"store{k}"))
        self.last_line = MODULE.count("\n") + 1
        command = ["node", f"{TOOLS}/node_modules/typescript/lib/tsserver.js", "--disableAutomaticTypingAcquisition"]
        self.program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for name in self.files[-5:]:
            self.tell("open", file=name)
        self.ask("semanticDiagnosticsSync", file=self.files[-1])

    def tell(self, command, **arguments):
        self.serial += 1
        request = {"seq": self.serial, "type": "request", "command": command, "arguments": arguments}
        self.program.stdin.write(json.dumps(request).encode() + b"\n")
        self.program.stdin.flush()

    def ask(self, command, **arguments):
        self.tell(command, **arguments)
        while True:
            head = self.program.stdout.readline()
            if not head:
                sys.exit("the language server is gone")
            self.program.stdout.readline()
            answer = json.loads(self.program.stdout.read(int(head.split()[1])))
            if answer.get("request_seq") == self.serial:
                if not answer["success"]:
                    sys.exit(f"the language server: {answer.get('message')}")
                return answer["body"]

    def call(self):
        k = chance.randrange(FILES - 5, FILES)
        name, text = self.files[k], f"store{k}." + chance.choice(["", "g", "gr"])
        place = {"line": self.last_line, "offset": 1, "endLine": self.last_line, "endOffset": 1 + self.typed[k]}
        self.tell("change", file=name, **place, insertString=text)
        self.typed[k] = len(text)
        found = self.ask("completionInfo", file=name, line=self.last_line, offset=1 + len(text))["entries"]
        if not any(entry["name"] == "grouped" for entry in found):
            sys.exit(f"the language server: {len(found)} entries without the one there is")


class Checkout:
    def __init__(self, folder):
        self.folder = folder
        self.git("clone", "--quiet", "--no-hardlinks", os.environ["REPOSITORY"], folder)
        self.names = self.git("-C", folder, "ls-files", "*.md", "*.rs", "*.py").splitlines()

    def git(self, *arguments):
        return subprocess.run(["git", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout

    def call(self):
        with open(f"{self.folder}/{chance.choice(self.names)}", "a") as file:
            file.write("\n")
        if not self.git("-C", self.folder, "status", "--porcelain"):
            sys.exit("git status does not see a change")


class Table:
    """Measurements of which a call groups one column of five, and notes, of which one call in ten reads a part."""

    def __init__(self, text):
        random = numpy.random.default_rng(agent.number)
        columns = {f"value{i}": random.normal(100, 15, ROWS).round(2) for i in range(5)}
        self.rows = pandas.DataFrame({"key": random.integers(0, 500, ROWS), **columns})
        lines = text.splitlines()
        start = chance.randrange(len(lines) // 2)
        self.notes = pandas.DataFrame({"text": [f"{i}: {lines[(start + i) % len(lines)]}" for i in range(NOTES)]})

    def call(self):
        self.rows.groupby("key")[f"value{chance.randrange(5)}"].agg(["mean", "max"])
        if chance.random() < 0.1:
            start = chance.randrange(NOTES - 20_000)
            self.notes["text"].iloc[start : start + 20_000].str.contains("memory").sum()


home = f"{agent.folder}/real/{agent.number}"
os.makedirs(home)
with open(f"{agent.folder}/text") as source:
    table = Table(source.read(8 << 20))
checkout, server = Checkout(f"{home}/checkout"), LanguageServer(f"{home}/project")


def call():
    server.call()
    checkout.call()
    table.call()


agent.work(call)
