//! What is packaged beside the binary: the unit of `strata guard` and its rules.

use std::fs;
use std::process::Command;

use crate::support::programs::checkout;
use crate::support::strata::{Strata, binary};

/// The unit's exposure as `systemd-analyze security` counts it, in tenths: 100 is a service without any sandbox.
const EXPOSURE_MAX: &str = "--threshold=30";

#[test]
fn the_rules_beside_the_unit_are_right() {
    for (file, nr_rules) in [("guard.toml", 2), ("guard-desktop.toml", 5)] {
        let rules = checkout().join("packaging/systemd").join(file);
        let text = fs::read_to_string(&rules).expect("the rules");
        assert!(!text.contains("\"kill\""), "{file} kills nobody");
        let said = Strata::new(["guard", "--check", "--config"]).arg(rules);
        let said = said.finish().expect_success();
        assert_eq!(said.stdout, format!("nothing is wrong: {nr_rules} rules\n"));
    }
}

#[test]
fn the_unit_of_the_guard_is_right_and_can_do_little_else() {
    let unit = checkout().join("packaging/systemd/strata-guard.service");
    let text = fs::read_to_string(&unit).expect("the unit");
    let directory = tempfile::tempdir().expect("a directory");
    let unit = directory.path().join("strata-guard.service");
    // What is not installed can't be started.
    fs::write(&unit, text.replace("/usr/local/bin/strata", binary())).expect("written");
    let analyze = |args: &[&str]| {
        Command::new("systemd-analyze")
            .args(args)
            .arg(&unit)
            .output()
    };
    let Ok(verified) = analyze(&["verify"]) else {
        crate::skip!("there is no systemd-analyze");
    };
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() && said.is_empty(), "{said}");
    let judged = analyze(&["security", "--offline=true", EXPOSURE_MAX]).expect("it runs");
    let said = String::from_utf8_lossy(&judged.stdout).into_owned();
    assert!(judged.status.success(), "{said}");
}
