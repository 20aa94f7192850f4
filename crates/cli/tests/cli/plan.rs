//! A recording of a real run is replayed and planned with to the same bytes for ever.
//!
//! `tests/recordings/cold.strata` is a program that keeps 8 MiB it does not use, recorded by
//! `strata record --every 1s --for 2m --no-page-cache -o cold.strata -- python3 cold.py`.
//!
//! `tests/recordings/sort.strata` is `sort` of 150,000 lines, recorded by
//! `strata record --every 20ms -o sort.strata -- sort -S 8M lines.txt`. What is said of it lies beside it;
//! `STRATA_BLESS=1 cargo test -p strata --test cli plan::` writes that anew, and the diff is part of the
//! change.

use crate::support::prelude::*;

fn recordings() -> PathBuf {
    checkout().join("tests/recordings")
}

/// Runs in the folder of the recording, so that its name is the same everywhere.
fn strata(args: &str) -> Finished {
    let child = Strata::line(args)
        .command()
        .current_dir(recordings())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    finish(
        child.expect("strata starts"),
        &[],
        Duration::from_secs(60) * patience(),
    )
}

#[track_caller]
fn check(golden: &str, args: &str) {
    let said = strata(args).expect_success();
    let path = recordings().join(golden);
    if std::env::var_os("STRATA_BLESS").is_some() {
        fs::write(&path, &said.stdout).expect("written");
    }
    let expected = fs::read_to_string(&path).expect("a golden file");
    assert!(
        said.stdout == expected,
        "{args:?} differs from {}:\n{}",
        path.display(),
        said.stdout
    );
}

#[test]
fn a_real_run_is_replayed_to_the_same_figures() {
    let args = "sim sort.strata --memory 25%,50%,75% --policy mglru,two-list,lru,opt";
    check("sort.sim.txt", args);
    check("sort.sim-worst.txt", &format!("{args} --order worst"));
}

#[test]
fn a_plan_for_a_real_run_stays_what_it_is() {
    check("sort.plan.txt", "plan sort.strata");
    let args = "plan sort.strata --slowdown 20% --format json";
    check("sort.plan.json", args);
}

#[test]
fn what_a_promise_would_give_back_of_a_real_run_stays_what_it_is() {
    // Half a second of sort: nothing can be known to be idle for a minute.
    let said = strata("plan sort.strata --promise 0.2%/min").expect_success();
    assert_has(&said.stdout, "nothing can be known to be idle for 1 min");
    assert!(!said.stdout.contains("strata guard"), "{}", said.stdout);
    let args = "plan cold.strata --promise 1%/min --min-age 5s";
    check("cold.promise.txt", args);
    let simulated = "sim cold.strata --guard promise=1%/min,min_age=5s";
    check("cold.guard.txt", simulated);
    let json = |args: &str| {
        strata(&format!("{args} --format json"))
            .expect_success()
            .json()
    };
    let (planned, simulated) = (json(args), json(simulated));
    assert_eq!(planned, simulated["guards"][0], "both are one play");
}

#[test]
fn what_is_in_a_recording_is_told_mapping_by_mapping() {
    let said = strata("trace info sort.strata").expect_success();
    for text in [
        "of sort -S 8M",
        "every 20 ms, by bpf",
        "heap",
        "libc",
        "CPU time",
    ] {
        assert_has(&said.stdout, text);
    }
    let answer = strata("trace info sort.strata --format json").json();
    let recording = &answer["traces"][0]["recording"];
    assert_eq!(
        recording["spaces"].as_array().map(Vec::len),
        Some(1),
        "{recording}"
    );
    assert!(recording["walks"].as_u64() > Some(10), "{recording}");
}

#[test]
fn a_recording_torn_by_a_crash_is_planned_with_if_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let torn = folder.path().join("torn.strata");
    let whole = fs::read(recordings().join("sort.strata")).expect("the recording");
    fs::write(&torn, &whole[..whole.len() - 20]).expect("writable");
    let plan = format!("plan {}", torn.display());
    let refused = strata(&plan);
    assert_eq!(refused.code(), Some(1), "{}", refused.stderr);
    assert_has(&refused.stderr, "ends in the middle of");
    let anyway = format!("{plan} --skip-broken");
    assert_has(&strata(&anyway).expect_success().stderr, "passed over");
    // Nothing but the about block is left: there is nothing to plan with.
    fs::write(&torn, &whole[..100]).expect("writable");
    let refused = strata(&anyway);
    assert_eq!(refused.code(), Some(2), "{}", refused.stderr);
    assert_has(&refused.stderr, "record for longer");
}
