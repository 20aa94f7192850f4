//! Bad arguments of `strata files`: each ends in status 2 and one message that says what is wrong.

use crate::support;

use support::strata::refused;

#[test]
fn files_refuses_shares_times_and_places_that_make_no_sense() {
    for (option, value, why) in [
        ("--cpu", "0%", "at least 0.01%"),
        ("--cpu", "2", "at least 0.01%"),
        ("--cpu", "101%", "at most 100%"),
        ("--within", "1ms", "at least 100ms"),
        ("--within", "soon", "soon"),
        ("--top", "-1", "-1"),
        ("--cgroup", "/no/such/group", "/no/such/group"),
        (
            "--under",
            "/no/such/directory",
            "name a directory that is there",
        ),
        ("--under", "/proc/version", "name a directory that is there"),
    ] {
        let said = refused(&["files", option, value]);
        assert!(said.contains(why), "{option} {value}: {said}");
    }
    for (args, why) in [
        (&["--watch", "10ms"][..], "at least 1s"),
        (&["--drop-cold", "never"], "never"),
        (&["--dry-run"], "--drop-cold"),
        (&["--drop-cold", "1m", "--watch", "1m"], "--watch"),
        (&["--drop-cold", "1m", "--within", "1s"], "--within"),
    ] {
        let said = refused(&[&["files"], args].concat());
        assert!(said.contains(why), "{args:?}: {said}");
    }
    let said = refused(&["files", "--whole", "--cpu", "1%"]);
    assert!(said.contains("--whole") && said.contains("--cpu"), "{said}");
}
