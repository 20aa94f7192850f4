"""One agent's sandbox: 15 MiB that every call uses, 100 MiB of which three calls in ten use 4 MiB, 24 MiB of text that the start has
read and nobody uses again, a hundred files of 100 kB of which a call reads ten. Agent.py says when calls come.

  sandbox.py NUMBER LOG FOLDER SESSION_S AWAY_S PAUSE_S [knows]

With `knows` the sandbox pages out what it does not use: the text once it has been read, the seldom used part after each call, all of it after
each session."""
import json
import mmap
import os
import sys

from agent import Agent

HOT, SELDOM, USED, PAGE = 15 << 20, 100 << 20, 4 << 20, mmap.PAGESIZE
MADV_PAGEOUT = 21
agent, knows = Agent(), sys.argv[7:] == ["knows"]
chance = agent.chance
with open(f"{agent.folder}/text", "rb") as source:
    text = mmap.mmap(-1, os.fstat(source.fileno()).st_size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    source.readinto(text)


def filled(size):
    """Text, so that it compresses as text does; each page is unlike every other."""
    memory, at, start = mmap.mmap(-1, size), 0, chance.randrange(len(text) // 2)
    while at < size:
        part = min(size - at, len(text) - start)
        memory[at : at + part] = text[start : start + part]
        at, start = at + part, chance.randrange(1000)
    for page in range(0, size, PAGE):
        memory[page : page + 8] = (agent.number * 7919 + page).to_bytes(8, "little")
    return memory


hot, seldom = filled(HOT), filled(SELDOM)
files = f"{agent.folder}/files/{agent.number}"
os.makedirs(files, exist_ok=True)
for i in range(100):
    with open(f"{files}/{i}", "wb") as out:
        out.write(text[i * 1000 : i * 1000 + 100_000])


def call():
    read = 0
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


if knows:
    text.madvise(MADV_PAGEOUT)
    agent.work(call, lambda: seldom.madvise(MADV_PAGEOUT), lambda: hot.madvise(MADV_PAGEOUT))
agent.work(call)
