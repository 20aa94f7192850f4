//! Bad input and bad luck under `strata run`: one clear error or a clean degradation.

mod support;

use std::fs;

use rustix::process::Signal;
use support::leaks::Guard;
use support::live::{Live, memory_group_of, wait_until};
use support::programs::program;
use support::strata::Strata;

#[test]
fn a_group_that_is_deleted_under_us_is_told_and_the_program_goes_on() {
    needs!("cap_bpf", "memory_cgroup");
    let _guard = Guard::new();
    let mut live = Live::start(
        &Strata::new(["run", "--memory", "64M", "--"])
            .arg(program("signals"))
            .args(["--seconds", "60"]),
    );
    let pid = live.json()["pid"].as_i64().expect("pid") as i32;
    let group = memory_group_of(pid);
    let parent = group.parent().expect("a parent").to_owned();
    fs::write(parent.join("cgroup.procs"), pid.to_string()).expect("moved");
    wait_until("the group to go", || fs::remove_dir(&group).is_ok());
    live.wait_for_stderr("usage can't be read any more");
    live.signal(Signal::USR1);
    assert_eq!(live.json()["signal"], "USR1");
    live.signal(Signal::TERM);
    assert_eq!(live.end().code(), Some(0), "{}", live.stderr());
}
