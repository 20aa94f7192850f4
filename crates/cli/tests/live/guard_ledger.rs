//! What `strata guard` says of a group that holds memory of all kinds.

use crate::guard::{bytes, guard, of, wait_for};
use crate::support::prelude::*;

/// Holds 64 MiB of each kind, says so, and waits. The fork comes first, so that nothing else is common to both processes.
const SCRIPT: &str = "
import ctypes, mmap, os, sys, time
N, chunk = 64 << 20, os.urandom(1 << 20)
private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
def filled(size=N, advice=mmap.MADV_NOHUGEPAGE):
    memory = mmap.mmap(-1, size, flags=private)
    memory.madvise(advice)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(memory)) % (2 << 20) if size > N else 0
    memory.seek(start)
    for _ in range(64): memory.write(chunk)
    return memory
def written(path):
    with open(path, 'wb') as file:
        for _ in range(64): file.write(chunk)
        os.fsync(file.fileno())
def read(path):
    with open(path, 'rb', buffering=0) as file:
        while file.read(1 << 20): pass
def touch(memory): return sum(memory[at] for at in range(0, N, 4096))
shared = mmap.mmap(-1, N)
for _ in range(64): shared.write(chunk)
parent, (ready, told) = os.getpid(), os.pipe()
if os.fork() == 0:
    touch(shared)
    os.write(told, b'x')
    while os.getppid() == parent: time.sleep(0.1)
    os._exit(0)
os.read(ready, 1)
memfd = os.memfd_create('kinds')
for _ in range(64): os.write(memfd, chunk)
os.chdir(sys.argv[1])
for name in ['mapped', 'cache']: written(name)
file = open('mapped', 'rb')
mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
touch(mapped)
for _ in range(2): read('cache')
for number in range(4096):
    with open(f'small-{number}', 'wb') as small: small.write(chunk[:16 << 10])
os.sync()
anon, locked = filled(), filled()
address = ctypes.addressof(ctypes.c_char.from_buffer(locked))
assert ctypes.CDLL(None).mlock(ctypes.c_void_p(address), ctypes.c_size_t(N)) == 0
huge = filled(N + (2 << 20), mmap.MADV_HUGEPAGE)
print('ready', flush=True)
time.sleep(1000)
";

/// A file of the group with one number, by its name on v2 and on v1.
fn charged_bytes(group: &TestGroup) -> u64 {
    let names = ["memory.current", "memory.usage_in_bytes"];
    let texts = names.map(|name| fs::read_to_string(group.path.join(name)));
    let text = texts.into_iter().flatten().next().expect("what is charged");
    text.trim().parse().expect("a number")
}

fn resident_bytes(group: &Value, kind: &str) -> u64 {
    let kinds = group["kinds"].as_array().expect("kinds");
    let found = kinds.iter().find(|of| of["kind"] == kind);
    found.map_or(0, |of| bytes(of, "resident_bytes"))
}

fn sum_bytes(group: &Value) -> u64 {
    let kinds = group["kinds"].as_array().expect("kinds").iter();
    kinds.map(|of| bytes(of, "resident_bytes")).sum()
}

#[test]
fn kinds_of_memory_are_told_apart_and_add_up_to_what_is_charged() {
    live!("cap_bpf", "memory_cgroup");
    needs_census!();
    if Command::new("python3").arg("--version").output().is_err() {
        skip!("there is no python3");
    }
    let directory = open_disk!();
    let group = TestGroup::new("guard-ledger");
    let mut command = in_group(&group, "python3");
    command.args(["-c", SCRIPT]).arg(directory.path());
    let program = Live::start_command(command);
    assert_eq!(program.line().trim(), "ready");
    let thp = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let has_huge = thp.is_ok_and(|text| !text.contains("[never]"));
    let all = [
        "anon",
        "huge",
        "shared",
        "tmpfs",
        "mapped_file",
        "page_cache",
        "small_files",
        "locked",
    ];
    let live = Live::start(&guard(&[]));
    let name = group.name();
    // Beside what was made there is the program itself.
    let is_told = |group: &Value, kind: &str| {
        let bytes = resident_bytes(group, kind);
        kind == "huge" && !has_huge || (60 * MIB..80 * MIB).contains(&bytes)
    };
    let last = wait_for(&live, "each kind to be told", |status| {
        let group = of(status, &name);
        !group.is_null() && all.iter().all(|kind| is_told(group, kind))
    });
    let (sum, charged) = (sum_bytes(of(&last, &name)), charged_bytes(&group));
    assert!(
        sum.abs_diff(charged) <= charged / 50,
        "{sum} bytes of all kinds, {charged} charged: {last:#}"
    );
    assert!(resident_bytes(of(&last, &name), "kernel") > 0, "{last:#}");
    // Of what several map, or is locked, accesses are not seen.
    let idle_of = |status: &Value, kind: &str| {
        let kinds = of(status, &name)["kinds"].as_array();
        let found = kinds.into_iter().flatten().find(|of| of["kind"] == kind);
        found.map_or(0, |of| bytes(of, "idle_bytes"))
    };
    wait_for(&live, "what lies idle to be told by kind", |status| {
        let mut seen = [
            "anon",
            "huge",
            "tmpfs",
            "mapped_file",
            "page_cache",
            "small_files",
        ]
        .iter();
        // An emulated processor can't clear the bits of a large mapping in time, and under a kernel that keeps generations
        // those of a part of a file stay. That is told then.
        let is_said_to_be_unseen = |kind: &str| {
            let kinds = of(status, &name)["kinds"].as_array();
            let found = kinds.into_iter().flatten().find(|of| of["kind"] == kind);
            found.is_some_and(|of| of["stays_because"] == "whether it is used can't be seen")
        };
        let is_told = |kind: &str| match kind {
            "huge" if !has_huge => true,
            "mapped_file" if patience() > 1 && is_said_to_be_unseen(kind) => true,
            _ => idle_of(status, kind) >= 60 * MIB,
        };
        seen.all(|kind| is_told(kind))
    });
    drop((live, program));
}
