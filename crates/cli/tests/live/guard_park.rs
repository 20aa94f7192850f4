//! Groups that `strata guard` parks because they did nothing for long.

use crate::guard::{Idler, MIB, bytes, of, wait_for};
use crate::support;

use rustix::process::Signal;

use support::leaks::{Guard, run_dir};
use support::live::{Live, wait_until};
use support::strata::Strata;

/// A guard that parks the group of this program as soon as it is idle for five seconds, and takes nothing else of it.
fn guard_that_parks(idler: &Idler, rules: &tempfile::TempDir) -> Live {
    let path = rules.path().join("guard.toml");
    let text = format!(
        "swap = \"zram:1G\"\ncpu = \"50%\"\nhistory = \"none\"\n[[rule]]\ncgroup = \"{}\"\npromise = \"none\"\n\
         min_age = \"5s\"\npark_after = \"5s\"\n",
        idler.name()
    );
    std::fs::write(&path, text).expect("a file");
    let path = path.to_str().expect("text");
    let guard = Strata::new(["guard", "--release", "--format", "json"]);
    Live::start(&guard.args(["--config", path]))
}

#[test]
fn a_group_that_does_nothing_for_long_is_parked_and_is_read_back_when_it_works_again() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let _guard = Guard::new();
    let mut idler = Idler::start("parks");
    let rules = tempfile::tempdir().expect("a directory");
    let mut live = guard_that_parks(&idler, &rules);
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
    live.signal(Signal::INT);
    assert_eq!(live.end().code(), Some(0), "{}", live.stderr());
    wait_until("nothing to be parked", || {
        !run_dir().join("parked").exists()
    });
    idler.end();
}
