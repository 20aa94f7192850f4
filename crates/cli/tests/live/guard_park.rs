//! Groups that `strata guard` parks because they did nothing for long.

use crate::support::prelude::*;

use crate::guard::{Idler, bytes, end, guard, guard_by, of, own_swap, wait_for};
use crate::park::{assert_whole, idler, parked};

/// A guard that parks the groups of these programs as soon as they are idle for five seconds, and takes nothing else of them.
fn guard_that_parks(idlers: &[&Idler]) -> (Live, TempDir) {
    let rule = |idler: &&Idler| {
        format!(
            "[[rule]]\ncgroup = \"{}\"\npromise = \"none\"\nmin_age = \"5s\"\npark_after = \"5s\"\n",
            idler.name()
        )
    };
    guard_by(&idlers.iter().map(rule).collect::<String>())
}

#[test]
fn a_group_is_parked_once_it_and_all_below_do_nothing_for_long_and_read_back_when_it_works_again() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let (mut above, mut beside) = (Idler::start("above"), Idler::start("beside"));
    let below = above.group.below("works");
    let mut works = Touch::start(["--size", "8M"]);
    below.take(works.pid);
    works.ask("hammer 1 2048");
    above.touch.ask("rest");
    let (mut live, _rules) = guard_that_parks(&[&above, &beside]);
    let is_parked = |status: &Value, idler: &Idler| of(status, &idler.name())["is_parked"] == true;
    // One works on eight MiB without a pause, and somebody is below the other: nothing of them is parked, whatever its age.
    for _ in 0..5 {
        let status = live.json();
        let any = [&above, &beside].map(|idler| is_parked(&status, idler));
        assert_eq!(any, [false; 2], "{status:#}");
    }
    beside.touch.ask("rest");
    let resident_bytes =
        |status: &Value, idler: &Idler| bytes(of(status, &idler.name()), "resident_bytes");
    wait_for(&live, "the one beside it to be parked", |status| {
        assert!(!is_parked(status, &above), "{status:#}");
        is_parked(status, &beside) && resident_bytes(status, &beside) < 8 * MIB
    });
    live.wait_for_stderr("did nothing for long and is parked");
    assert!(run_dir().join("parked").exists());
    beside.touch.ask("readrange 4096 1024");
    live.wait_for_stderr("works again");
    wait_for(&live, "what it used last to be in memory", |status| {
        !is_parked(status, &beside) && resident_bytes(status, &beside) > 40 * MIB
    });
    drop(works);
    // Parked anew, and brought back by the end that takes the swap down.
    wait_for(&live, "both to be parked, as nobody is below", |status| {
        is_parked(status, &above) && is_parked(status, &beside)
    });
    live.interrupt();
    wait_until("nothing to be parked", || {
        !run_dir().join("parked").exists()
    });
    drop(below);
    above.end();
    beside.end();
}

#[test]
fn a_parked_group_is_parked_anew_where_somebody_takes_its_swap_down_or_another_program_comes_into_it()
 {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let mut idler = Idler::start("anew");
    idler.touch.ask("rest");
    let (live, _rules) = guard_that_parks(&[&idler]);
    let name = idler.name();
    let is_parked = |status: &Value| of(status, &name)["is_parked"] == true;
    let is_away =
        |status: &Value| is_parked(status) && bytes(of(status, &name), "away_bytes") > 48 * MIB;
    wait_for(&live, "the group to be parked", is_away);
    let swap = own_swap().expect("the guard's swap");
    let other = OwnSwap::zram("512M");
    let mut swapoff = Command::new("swapoff");
    swapoff.arg(&swap.path);
    run(swapoff);
    live.wait_for_stderr("is parked no more");
    wait_for(&live, "the group to be parked again", |status| {
        is_away(status) && rss_bytes(idler.touch.pid) < 8 * MIB
    });
    let mut anew = Touch::start(["--size", "64M"]);
    idler.group.take(anew.pid);
    anew.ask("writerange 0 16384");
    idler.touch = anew;
    wait_for(&live, "the note of the first to be nobody's", |status| {
        of(status, &name)["is_parked"] == false
    });
    wait_for(&live, "the other program to be parked", is_parked);
    assert!(rss_bytes(idler.touch.pid) < 8 * MIB);
    end(live);
    idler.end();
    drop(other);
}

#[test]
fn the_swap_of_park_goes_when_a_guard_wakes_the_last_one_or_finds_that_it_has_ended() {
    live!("cap_bpf", "zram", "process_madvise");
    let mut live = Live::start(&guard(&["--promise", "100%/min"]));
    live.json();
    let swap = run_dir().join("park");
    for works in [true, false] {
        let mut touch = idler();
        parked(&["--pid", &touch.pid.to_string()]);
        assert!(swap.exists());
        if works {
            // It is listed every two seconds.
            sleep(Duration::from_secs(4) * patience());
            touch.ask("readrange 4096 1024");
            live.wait_for_stderr("works again");
            wait_until("the swap to go", || !swap.exists());
            assert_whole(&mut touch);
        } else {
            drop(touch);
            wait_until("the swap to go", || !swap.exists());
        }
    }
    assert!(!run_dir().join("parked").exists());
    live.interrupt();
    let warnings = live.stderr().matches("warning").count();
    assert_eq!(warnings, 1, "nobody goes by its rule: {}", live.stderr());
}
