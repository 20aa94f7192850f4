//! `strata guard` killed at any moment: its swap is the next guard's, and the programs have all their bytes and go on.

use crate::support::prelude::*;

use crate::guard::{Idler, KEEPING, bytes, guard, of, own_swap, release, state, wait_for};

/// Each second guard is killed as it begins, the others while they take.
fn kill_at_random(nr_kills: u64) {
    let _guard = Guard::new();
    let mut idler = Idler::start("kills");
    let name = idler.name();
    let mut random = u64::from(std::process::id()) | 1;
    for nr in 0..nr_kills {
        let before = own_swap();
        let live = Live::start(&guard(&KEEPING));
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let is_taking = nr % 2 == 0;
        if is_taking {
            if before.is_some() {
                live.wait_for_stderr("is taken over");
            }
            // What the guard before took comes back, and is there to be taken.
            assert_eq!(idler.touch.ask("verify 0 16384"), "0", "kill {nr}");
            wait_for(&live, "some to go", |status| {
                bytes(of(status, &name), "taken_bytes") > MIB
            });
        }
        let most_ms = if is_taking { 300 } else { 1500 };
        sleep(Duration::from_millis(random % most_ms));
        live.signal(Signal::KILL);
        drop(live);
        let after = own_swap();
        match before {
            Some(before) => {
                let path = after.map(|swap| swap.path);
                assert_eq!(path, Some(before.path), "kill {nr}");
            }
            None => assert!(after.is_some() == is_taking, "kill {nr}: {after:?}"),
        }
    }
    let stands_still = |pid| matches!(support::live::state(pid), 'T' | 'D' | 'X');
    wait_until("the program to go on", || !stands_still(idler.touch.pid));
    assert_eq!(idler.touch.ask("verify 0 16384"), "0");
    // Pages of another test's group that is full may lie in it for a while.
    wait_until("the swap to be taken down", || release().code() == Some(0));
    assert!(!state().exists() && own_swap().is_none());
    idler.end();
}

#[test]
fn guards_that_are_killed_while_they_take_leave_one_swap_device_and_every_byte() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    kill_at_random(5);
}

#[test]
#[ignore = "takes five minutes"]
fn long_guards_that_are_killed_thirty_times_while_they_take_leave_every_byte() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    kill_at_random(60);
}
