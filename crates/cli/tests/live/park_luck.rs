//! `strata park` and `strata wake` where something is unusual: the memory, the swap, or what happens meanwhile.

use crate::support::prelude::*;

use super::park::{
    assert_swap_goes, assert_whole, idler, kept_bytes, list, park_to, parked, parked_to, woken,
};

/// Holds 8 MiB of each kind of memory that is no plain heap, and 32 MiB of heap; tells the sum of all of it for each line; at
/// `exec` it becomes a program that repeats what it is told.
const ZOO: &str = "
import ctypes, hashlib, mmap, os, sys, tempfile
SIZE = 8 << 20
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype, libc.shmat.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
memfd = os.memfd_create('zoo')
os.ftruncate(memfd, SIZE)
segment = libc.shmget(0, ctypes.c_size_t(SIZE), 0o1600)
at = libc.shmat(segment, None, 0)
libc.shmctl(segment, 0, None)
kinds = [mmap.mmap(memfd, SIZE), mmap.mmap(-1, SIZE), memoryview((ctypes.c_char * SIZE).from_address(at)).cast('B')]
for number, kind in enumerate(kinds):
    kind[:] = b''.join(hashlib.sha256(b'%d %d' % (number, place)).digest() for place in range(SIZE // 32))
kinds.append(bytearray(b''.join(b'%032d' % place for place in range(1 << 20))))
def told():
    whole = hashlib.sha256()
    for kind in kinds:
        whole.update(kind)
    print(whole.hexdigest(), flush=True)
told()
for line in sys.stdin:
    if line == 'exec\\n':
        os.execvp('cat', ['cat'])
    told()
";

struct Zoo {
    live: Live,
    sum: String,
}

impl Zoo {
    /// `before` is what starts it, with nothing between.
    fn start(before: &[&str]) -> Option<Zoo> {
        let words = [before, &["python3", "-c", ZOO]].concat();
        let mut can = Command::new(words[0]);
        let can = can
            .args(&words[1..words.len() - 2])
            .arg("--version")
            .output();
        let can = can.is_ok_and(|said| said.status.success());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        can.then(|| {
            let live = Live::start_command(command);
            let sum = live.line();
            Zoo { live, sum }
        })
    }

    fn pid(&self) -> i32 {
        self.live.pid()
    }

    fn ask(&mut self, text: &str) -> String {
        writeln!(self.live.stdin(), "{text}").expect("it reads");
        self.live.line()
    }
}

macro_rules! zoo {
    ($($before:expr),*) => {
        match Zoo::start(&[$($before),*]) {
            Some(zoo) => zoo,
            None => $crate::skip!("no python3 can be started so: {:?}", [$($before,)* "python3"]),
        }
    };
}

#[test]
fn shared_memory_of_every_kind_goes_and_comes_back_as_it_was_in_a_user_namespace_too() {
    live!("cap_bpf", "zram", "process_madvise");
    let own_namespace = zoo!("unshare", "--user", "--map-root-user");
    for mut zoo in [zoo!(), own_namespace] {
        let pid = zoo.pid().to_string();
        let before = rss_bytes(zoo.pid());
        assert!(before > 56 * MIB, "{before}");
        parked_to(8 * MIB, &["--pid", &pid]);
        // Half is asked for cold, and the rest after a wake.
        assert_eq!(zoo.ask("sum"), zoo.sum.clone());
        parked(&["--pid", &pid]);
        woken(&[&pid]);
        assert!(rss_bytes(zoo.pid()) > 50 * MIB);
        assert_eq!(zoo.ask("sum"), zoo.sum.clone());
    }
}

#[test]
fn a_program_that_execs_while_it_is_parked_is_another_and_nothing_is_left_of_the_first() {
    live!("cap_bpf", "zram", "process_madvise");
    let mut zoo = zoo!();
    let pid = zoo.pid().to_string();
    parked(&["--pid", &pid]);
    writeln!(zoo.live.stdin(), "exec").expect("it reads");
    wait_until("it to be another program", || {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "cat\n")
    });
    let back = Strata::new(["wake", "--all", "--format", "json"]).finish();
    assert_eq!(back.code(), Some(0), "{}", back.stderr);
    assert_eq!(zoo.ask("hello"), "hello");
    assert!(list().is_empty());
    assert_swap_goes();
}

#[test]
fn where_swap_is_full_half_way_parking_ends_there_and_nothing_is_lost() {
    live!("cap_bpf", "zram", "process_madvise");
    let mut touch = idler();
    let pid = touch.pid.to_string();
    let done = park_to("zram:32M", &["--pid", &pid]).finish();
    assert_eq!(done.code(), Some(0), "{}", done.stderr);
    let told: Value = done.json();
    let after = number(&told["resident_after_bytes"]);
    assert!((30 * MIB..40 * MIB).contains(&after), "{told}");
    assert!(kept_bytes(&told, "no_swap") >= 30 * MIB, "{told}");
    // It works, whole, with a full swap; and the swap can be taken down.
    assert_whole(&mut touch);
    woken(&[&pid]);
    assert_whole(&mut touch);
    assert_swap_goes();
}

#[test]
fn children_that_a_parked_program_forks_have_all_that_it_held_and_what_a_tree_shares_stays() {
    live!("cap_bpf", "zram", "process_madvise");
    let mut touch = idler();
    let pid = touch.pid.to_string();
    parked(&["--tree", &pid]);
    touch.ask("fork 2");
    assert_eq!(children(touch.pid).len(), 2);
    woken(&[&pid]);
    // They are no group, whose reclaim would take what they share.
    let told = parked(&["--tree", &pid]);
    assert_eq!(number(&told["nr_processes"]), 3, "{told}");
    let in_swap = number(&told["swapped_before_bytes"]);
    assert!(kept_bytes(&told, "shared") + in_swap > 60 * MIB, "{told}");
    woken(&[&pid]);
    touch.ask("reap");
    assert_whole(&mut touch);
    assert_swap_goes();
}

#[test]
fn memory_whose_pages_the_program_supplies_itself_stays_right() {
    live!("cap_bpf", "zram", "process_madvise");
    let mut fault = Command::new(program("fault"))
        .args(["--size", "32M", "--seconds", "6"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let pid = fault.id().to_string();
    wait_until("its pages to be there", || {
        rss_bytes(fault.id() as i32) > 16 * MIB
    });
    parked(&["--pid", &pid, "--look", "200ms"]);
    let _ = Strata::new(["wake", &pid]).finish();
    let status = fault.wait().expect("it ends");
    if status.code() == Some(3) {
        skip!("no userfaultfd here");
    }
    assert_eq!(status.code(), Some(0), "all of its pages are right");
}
