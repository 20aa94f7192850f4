//! Groups that `strata guard` parks because they did nothing for long.

use crate::guard::{Idler, MIB, bytes, end, guard, guard_by, of, wait_for};
use crate::park::{assert_whole, idler, parked};
use crate::support;

use std::time::Duration;

use serde_json::Value;

use support::leaks::run_dir;
use support::live::{Live, rss_bytes, wait_until};
use support::programs::Touch;
use support::strata::patience;
use tempfile::TempDir;

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
fn a_group_that_does_nothing_for_long_is_parked_and_is_read_back_when_it_works_again() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let mut idler = Idler::start("parks");
    let (mut live, _rules) = guard_that_parks(&[&idler]);
    let name = idler.name();
    // It works on eight MiB without a pause: nothing of it is parked, whatever its age.
    for _ in 0..5 {
        let status = live.json();
        assert_eq!(of(&status, &name)["is_parked"], false, "{status:#}");
    }
    idler.touch.ask("rest");
    wait_for(&live, "the group to be parked", |status| {
        let group = of(status, &name);
        group["is_parked"] == true && bytes(group, "resident_bytes") < 8 * MIB
    });
    live.wait_for_stderr("did nothing for long and is parked");
    assert!(run_dir().join("parked").exists());
    idler.touch.ask("readrange 4096 1024");
    live.wait_for_stderr("works again");
    wait_for(&live, "what it used last to be in memory", |status| {
        let group = of(status, &name);
        group["is_parked"] == false && bytes(group, "resident_bytes") > 40 * MIB
    });
    // Parked anew, and brought back by the end that takes the swap down.
    wait_for(&live, "the group to be parked again", |status| {
        of(status, &name)["is_parked"] == true
    });
    live.interrupt();
    wait_until("nothing to be parked", || {
        !run_dir().join("parked").exists()
    });
    idler.end();
}

#[test]
fn an_idle_group_is_not_parked_as_long_as_anybody_is_in_a_group_below_it() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let (mut above, mut beside) = (Idler::start("above"), Idler::start("beside"));
    let below = above.group.below("works");
    let mut works = Touch::start(["--size", "8M"]);
    below.take(works.pid);
    works.ask("hammer 1 2048");
    above.touch.ask("rest");
    beside.touch.ask("rest");
    let (live, _rules) = guard_that_parks(&[&above, &beside]);
    let is_parked = |status: &Value, idler: &Idler| of(status, &idler.name())["is_parked"] == true;
    wait_for(&live, "the one beside it to be parked", |status| {
        is_parked(status, &beside)
    });
    for _ in 0..5 {
        let status = live.json();
        assert!(!is_parked(&status, &above), "{status:#}");
    }
    drop(works);
    wait_for(&live, "it to be parked, as nobody is below it", |status| {
        is_parked(status, &above)
    });
    end(live);
    drop(below);
    above.end();
    beside.end();
}

#[test]
fn a_program_started_anew_in_a_parked_group_is_not_parked_and_is_later_like_any() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let mut idler = Idler::start("anew");
    idler.touch.ask("rest");
    let (live, _rules) = guard_that_parks(&[&idler]);
    let name = idler.name();
    let is_parked = |status: &Value| of(status, &name)["is_parked"] == true;
    wait_for(&live, "the group to be parked", is_parked);
    let mut anew = Touch::start(["--size", "64M"]);
    idler.group.take(anew.pid);
    anew.ask("writerange 0 16384");
    idler.touch = anew;
    wait_for(&live, "the note of the first to be nobody's", |status| {
        of(status, &name)["is_parked"] == false
    });
    wait_for(&live, "the group to be parked again", is_parked);
    assert!(rss_bytes(idler.touch.pid) < 8 * MIB);
    end(live);
    idler.end();
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
            std::thread::sleep(Duration::from_secs(4) * patience());
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
