//! `strata guard` where swap is taken down that its pages lie in: a run's, or somebody else's.

use crate::support::prelude::*;

use crate::guard::{ACTING, Idler, bytes, end, guard, of, wait_for};

#[test]
fn what_comes_back_as_a_run_takes_its_swap_down_counts_for_no_promise_and_goes_again() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    // A device of the same priority as the guard's.
    let run = Strata::new(["run", "--memory", "64M", "--swap", "zram:512M", "--"])
        .arg(program("idle"))
        .args(["--size", "8M", "--seconds", "0"]);
    let mut run = Live::start(&run);
    run.line();
    let idler = Idler::start("beside");
    let live = Live::start(&guard(&ACTING));
    let name = idler.name();
    let away_bytes = |status: &Value| bytes(of(status, &name), "away_bytes");
    let before = wait_for(&live, "much to go", |status| away_bytes(status) > 40 * MIB);
    let before_bytes = away_bytes(&before);
    run.signal(Signal::TERM);
    assert_eq!(run.end().code(), Some(143), "{}", run.stderr());
    let back = wait_for(&live, "what was in its swap to be back", |status| {
        away_bytes(status) < before_bytes - 8 * MIB
    });
    // Some of the eight MiB in use may have been away at first, if the program had no processor.
    let idle_bytes = before_bytes.min(52 * MIB);
    let again = wait_for(&live, "it to go again", |status| {
        away_bytes(status) >= idle_bytes
    });
    for status in [back, again] {
        let group = of(&status, &name);
        assert!(bytes(group, "came_back_bytes") < 4 * MIB, "{group:#}");
    }
    end(live);
    idler.end();
}

#[test]
fn swap_that_somebody_else_takes_down_leaves_nothing_away_even_of_a_program_that_sleeps() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let swap = OwnSwap::zram("512M");
    let group = TestGroup::new("guard-sleeps");
    let mut touch = Touch::start(["--size", "64M"]);
    group.take(touch.pid);
    touch.ask("writerange 0 16384");
    let live = Live::start(&guard(&["--promise", "100%/min"]));
    let name = group.name();
    wait_for(&live, "all to go", |status| {
        bytes(of(status, &name), "away_anon_bytes") > 60 * MIB
    });
    drop(swap);
    let status = format!("/proc/{}/status", touch.pid);
    // Others may have swap on this machine, too.
    let last = wait_for(&live, "what is in memory to count as that", |told| {
        let swapped_bytes = proc_bytes(&status, "VmSwap").expect("a process");
        bytes(of(told, &name), "away_anon_bytes") <= swapped_bytes + MIB
    });
    let of_group = of(&last, &name);
    assert!(bytes(of_group, "came_back_bytes") < MIB, "{of_group:#}");
    end(live);
    assert_eq!(touch.ask("verify 0 16384"), "0", "pages as they were");
    drop((touch, group));
}
