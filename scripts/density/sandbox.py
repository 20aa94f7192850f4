"""One agent's sandbox: 15 MiB that every call uses, 100 MiB of which three calls in ten use 4 MiB, 24 MiB of text that the start has
read and nobody uses again, a hundred files of 100 kB of which a call reads ten. Calls come in bursts (a session), sessions are minutes apart.
Each line of the log: time, number, kind (start: its data is made; first: the first call of a session; call), milliseconds.

  sandbox.py NUMBER LOG FOLDER SESSION_S AWAY_S PAUSE_S [knows]

The means of a session, of the time away and of the pause between calls are in seconds. With `knows` the sandbox pages out what it does not
use: the seldom used part after each call, all of it after each session."""
import json
import mmap
import os
import random
import sys
import time

number, log, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
session_s, away_s, pause_s = (float(text) for text in sys.argv[4:7])
knows = sys.argv[7:] == ["knows"]
HOT, SELDOM, USED, PAGE = 15 << 20, 100 << 20, 4 << 20, mmap.PAGESIZE
MADV_PAGEOUT = 21
began, chance = time.time(), random.Random(number * 7919)
with open(f"{folder}/text", "rb") as source:
    text = source.read()


def filled(size):
    """Text, so that it compresses as text does; each page is unlike every other."""
    memory, at, start = mmap.mmap(-1, size), 0, chance.randrange(len(text) // 2)
    while at < size:
        part = min(size - at, len(text) - start)
        memory[at : at + part] = text[start : start + part]
        at, start = at + part, chance.randrange(1000)
    for page in range(0, size, PAGE):
        memory[page : page + 8] = (number * 7919 + page).to_bytes(8, "little")
    return memory


hot, seldom = filled(HOT), filled(SELDOM)
files = f"{folder}/files/{number}"
os.makedirs(files, exist_ok=True)
for i in range(100):
    with open(f"{files}/{i}", "wb") as out:
        out.write(text[i * 1000 : i * 1000 + 100_000])
out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def say(kind, ms):
    os.write(out, b"%.2f %d %s %.2f\n" % (time.time(), number, kind, ms))


def call():
    at, read = time.time(), 0
    for page in range(0, HOT, PAGE):
        read += hot[page]
    if chance.random() < 0.3:
        start = chance.randrange((SELDOM - USED) // PAGE) * PAGE
        for page in range(start, start + USED, PAGE):
            read += seldom[page]
    for i in chance.sample(range(100), 10):
        with open(f"{files}/{i}", "rb") as source:
            read += len(source.read())
    json.dumps(list(range(20000)))
    return (time.time() - at) * 1000


say(b"start", (time.time() - began) * 1000)
time.sleep(chance.random() * pause_s)
while True:
    ends, kind = time.time() + chance.expovariate(1 / session_s), b"first"
    while time.time() < ends:
        say(kind, call())
        kind = b"call"
        if knows:
            seldom.madvise(MADV_PAGEOUT)
        time.sleep(chance.expovariate(1 / pause_s))
    if knows:
        hot.madvise(MADV_PAGEOUT)
    time.sleep(chance.expovariate(1 / away_s))
