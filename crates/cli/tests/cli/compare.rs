//! Bad arguments of `strata compare`: each ends in status 2 and one message, before anything is run; and its help.

use crate::support;

use support::strata::{Strata, refused};

#[test]
fn a_comparison_that_makes_no_sense_is_refused_before_anything_is_run() {
    let budget = ["compare", "--memory", "64M"];
    for (args, why) in [
        (&["--", ""][..], "the command after -- is empty"),
        (&["--"], "COMMAND"),
        (&["--runs", "0", "--", "echo"], "--runs"),
        (&["--runs", "-1", "--", "echo"], "--runs"),
        (&["--warmup", "many", "--", "echo"], "--warmup"),
        (&["--neighbours", "1025", "--", "echo"], "--neighbours"),
        (
            &["--arms", "kernel,best", "--", "echo"],
            "none, kernel, strata",
        ),
        (
            &["--arms", "kernel,kernel", "--", "echo"],
            "names an arm twice",
        ),
        (
            &["--match-memory", "--arms", "none,kernel", "--", "echo"],
            "name both in --arms",
        ),
        (
            &["--policy", "none", "--", "echo"],
            "what the arm kernel is",
        ),
        (&["--policy", "fifo", "--", "echo"], "none, mglru, two-list"),
        (&["--swap", "disk:1G", "--", "echo"], "kind is unknown"),
        (&["--throughput", "ops", "--", "echo"], "it has 0 groups"),
        (
            &["--throughput", "(a) (b)", "--", "echo"],
            "it has 2 groups",
        ),
        (
            &["--operations", "([0-9", "--", "echo"],
            "no regular expression",
        ),
        (
            &["--operations", "--runs", "--", "echo"],
            "the value is missing",
        ),
        (&["--format", "xml", "--", "echo"], "table, json"),
        (&["--pid", "1", "--", "echo"], "--pid"),
    ] {
        let said = refused(&[&budget, args].concat());
        assert!(said.contains(why), "{args:?}: {said}");
    }
    for (memory, why) in [
        ("", "it is empty"),
        ("1G,", "it is empty"),
        ("1G,lots", "does not start with a number"),
        ("64M,65536K", "a size twice"),
    ] {
        let said = refused(&["compare", "--memory", memory, "--", "echo", "it ran"]);
        assert!(said.contains(why), "{memory}: {said}");
    }
    let said = refused(&["compare", "--", "echo", "it ran"]);
    assert!(said.contains("--memory"), "{said}");
}

#[test]
fn the_help_of_compare_names_every_option_and_those_it_passes_on() {
    let help = Strata::new(["compare", "--help"])
        .finish()
        .expect_success()
        .stdout;
    for part in [
        "--memory",
        "--arms",
        "--match-memory",
        "--runs",
        "--warmup",
        "--throughput",
        "--operations",
        "--neighbours",
        "--prepare",
        "--ignore-failure",
        "--swap <SPEC>",
        "--swappiness",
        "--min-ttl",
        "--access",
        "--actuator",
        "--policy",
        "--format",
        "EXAMPLES",
        "EXIT STATUS",
    ] {
        assert!(help.contains(part), "{part} in:\n{help}");
    }
}
