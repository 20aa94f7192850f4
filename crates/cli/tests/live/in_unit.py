"""in_unit.py UNIT COMMAND...: the command with the capabilities and the system calls that a systemd unit leaves it."""

import ctypes
import errno
import os
import subprocess
import sys

KILL_PROCESS, ERRNO, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
PR_CAPBSET_DROP, NR_CAPABILITIES = 24, 41


def sets_of_calls():
    listed = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager"], capture_output=True, text=True, check=True)
    found, calls = {}, None
    for line in listed.stdout.splitlines():
        word = line.strip()
        if line.startswith("@"):
            calls = found.setdefault(word, [])
        elif calls is not None and line.startswith(" ") and not word.startswith("#"):
            calls.append(word)
    return found


def expand(sets, word):
    return set().union(*(expand(sets, of) for of in sets[word])) if word.startswith("@") else {word}


unit, command = sys.argv[1], sys.argv[2:]
sets = sets_of_calls()
allowed, kept, refusal = expand(sets, "@default"), [], KILL_PROCESS
for line in open(unit):
    key, _, value = line.strip().partition("=")
    words = value.lstrip("~").split()
    if key == "CapabilityBoundingSet":
        kept = words
    elif key == "SystemCallErrorNumber":
        refusal = ERRNO | getattr(errno, value)
    elif key == "SystemCallFilter":
        calls = set().union(*(expand(sets, word) for word in words))
        allowed = allowed - calls if value.startswith("~") else allowed | calls

libc, cap, seccomp = ctypes.CDLL(None), ctypes.CDLL("libcap.so.2"), ctypes.CDLL("libseccomp.so.2")
cap.cap_to_name.restype = ctypes.c_char_p
for number in range(NR_CAPABILITIES):
    if cap.cap_to_name(number).decode().upper() not in kept:
        libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
seccomp.seccomp_init.restype = ctypes.c_void_p
context = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(refusal)))
for call in allowed:
    number = seccomp.seccomp_syscall_resolve_name(call.encode())
    if number >= 0:
        seccomp.seccomp_rule_add(context, ctypes.c_uint32(ALLOW), number, 0)
assert seccomp.seccomp_load(context) == 0, "the filter"
os.execvp(command[0], command)
