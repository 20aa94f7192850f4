//! `strata idle` on live groups: who could give memory back.

use crate::support::prelude::*;

fn ranking(under: &TestGroup) -> Value {
    let age = format!("{}ms", 800 * patience());
    Strata::new(["idle", "--format", "json", "--age"])
        .arg(age)
        .arg("--under")
        .arg(&under.path)
        .finish()
        .expect_success()
        .json()
}

#[test]
fn the_group_that_lies_idle_stands_above_the_one_that_works() {
    live!("cap_bpf", "memory_cgroup");
    let both = TestGroup::new("idle");
    let [busy, idle] = ["busy", "idle"].map(|name| both.below(name));
    let mut working = Touch::start(["--size", "64M"]);
    busy.take(working.pid);
    working.ask("writerange 0 16384");
    let mut resting = Touch::start(["--size", "32M"]);
    idle.take(resting.pid);
    resting.ask("writerange 0 8192");
    // Three quarters of the larger one are in use all the time.
    working.ask("hammer 5 12288");

    let ranking = ranking(&both);
    assert!(
        number(&ranking["watched_ms"]) >= number(&ranking["age_ms"]),
        "{ranking}"
    );
    let groups = ranking["groups"].as_array().expect("groups");
    let names: Vec<&str> = groups.iter().filter_map(|g| g["group"].as_str()).collect();
    assert_eq!(names.len(), 2, "{ranking}");
    assert!(
        names[0].ends_with("/idle") && names[1].ends_with("/busy"),
        "{ranking}"
    );
    for (group, expected) in groups.iter().zip([32 * MIB, 16 * MIB]) {
        let given = number(&group["idle_bytes"]);
        // What the program itself has beside its region is some MiB.
        assert!(
            (expected * 98 / 100..expected + 6 * MIB).contains(&given),
            "{given} of {expected}: {ranking}"
        );
        assert!(number(&group["resident_bytes"]) >= given, "{ranking}");
        assert_eq!(number(&group["nr_processes"]), 1, "{ranking}");
    }
}
