#!/usr/bin/env python3
"""`make mutations`: breaks each rule of docs/develop/RULES.md once, in a copy of the tree; its test has to fail.

mutations.py [SECTION]...   all sections of crates/lru/tests/all/mutations.txt, where a rule's mutation stands
Prints `N killed, N survived`; exit 1 if one survived. One that does not compile, or whose test does not end, survived.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "mutations"
TREE = WORK / "tree"
ENV = os.environ | {"CARGO_TARGET_DIR": str(WORK / "build"), "CARGO_INCREMENTAL": "1"}
ENTRY = re.compile(r"^## (\S+) crates/(\S+?)/(\S+) (\S+)\n((?:-.*\n)+)((?:\+.*\n)+)", re.M)
TEST_ENDS_AFTER_S = 300  # One that goes round for ever is ended.


def cargo_test(crate, *arguments):
    command = ["cargo", "test", "-q", "-p", f"strata-{crate}", "--lib", *arguments]
    try:
        ended = subprocess.run(command, cwd=TREE, env=ENV, capture_output=True, text=True, timeout=TEST_ENDS_AFTER_S)
    except subprocess.TimeoutExpired:
        return "does not end"
    if ended.returncode == 0:
        return "passes" if re.search(r"^test result: ok\. [1-9]", ended.stdout, re.M) else "is no test"
    fails = re.search(rf"^    \S*\b{arguments[0]}$", ended.stdout, re.M)
    return "fails" if fails else "does not compile, or another test fails"


def main(sections):
    text = (ROOT / "crates/lru/tests/all/mutations.txt").read_text()
    entries = [of for of in map(re.Match.groups, ENTRY.finditer(text)) if not sections or of[0] in sections]
    shutil.rmtree(TREE, ignore_errors=True)
    TREE.mkdir(parents=True)
    # As of now: what an earlier run left built has to be older than any file.
    subprocess.run("git ls-files -z | tar -c --null -T - | tar -xm -C " + f"'{TREE}'", shell=True, cwd=ROOT, check=True)
    unlike = lambda lines: "\n".join(line[1:] for line in lines.splitlines())
    for crate in {of[1] for of in entries}:
        if cargo_test(crate, "--", *(of[3] for of in entries if of[1] == crate)) != "passes":
            sys.exit("the tests fail before anything is broken")
    survived = 0
    for section, crate, path, test, before, after in entries:
        file = TREE / "crates" / crate / path
        source = file.read_text()
        if source.count(unlike(before)) != 1:
            sys.exit(f"{section}: not once in {path}: {unlike(before)}")
        file.write_text(source.replace(unlike(before), unlike(after)))
        ended = cargo_test(crate, test)
        file.write_text(source)
        survived += ended != "fails"
        print(f"{section}\t{'killed' if ended == 'fails' else 'SURVIVED'}\t{test} {ended}", flush=True)
    print(f"{len(entries) - survived} killed, {survived} survived")
    sys.exit(survived > 0 or not entries)


main(sys.argv[1:])
