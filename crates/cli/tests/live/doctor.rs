//! `strata doctor` on the machine we run on, whatever it offers.

use crate::support::prelude::*;

#[test]
fn doctor_names_what_run_needs_and_says_whether_it_can_work() {
    let run = Strata::new(["doctor", "--format", "json"]).finish();
    let answer = run.json();
    let checks = answer["checks"].as_array().expect("checks");
    let is_missing = checks.iter().any(|check| check["status"] == "missing");
    assert_eq!(answer["can_run"], !is_missing, "{answer:#}");
    assert_eq!(run.code(), Some(i32::from(is_missing)), "{answer:#}");
    for check in checks {
        let is_met = check["status"] == "ok";
        assert_eq!(
            check["remedy"].is_null(),
            is_met,
            "a remedy where it is needed: {check:#}"
        );
    }
}

#[test]
fn where_page_tables_are_read_by_bpf_mappings_are_listed_by_bpf_too() {
    needs!("cap_bpf");
    let answer = doctor();
    let checks = answer["checks"].as_array().expect("checks");
    let mut of_walk = checks.iter().filter(|check| check["name"] == "page_walk");
    let found = of_walk.next().expect("a check of the walk");
    // Else each walk reads smaps, and no memory policy is seen.
    let told = found["found"].as_str().expect("text");
    assert!(told.contains("mappings by bpf"), "{found:#}");
}

#[test]
fn the_table_and_the_json_tell_the_same() {
    let table = Strata::new(["doctor"]).finish().stdout;
    let told: BTreeSet<&str> = table.lines().flat_map(str::split_whitespace).collect();
    for check in doctor()["checks"].as_array().expect("checks") {
        let name = check["name"].as_str().expect("name");
        assert!(told.contains(name), "{name} is not in the table:\n{table}");
    }
}

#[test]
fn what_a_page_takes_back_from_swap_is_measured_on_a_device_that_is_gone_afterwards() {
    live!("zram", "run_dir");
    let asked = "doctor --measure --swap zram:64M --directory /dev/shm --format json";
    let run = Strata::new(asked.split(' ')).finish();
    let answer = run.json();
    let refaults = answer["refaults"].as_array().expect("refaults");
    let of = |kind: &str| refaults.iter().find(|one| one["kind"] == kind);
    for kind in ["swap", "swap_with_eviction"] {
        let told = of(kind).expect("told");
        assert!(
            told["through"]
                .as_str()
                .expect("text")
                .contains("/dev/zram"),
            "{told:#}"
        );
        let ns = |figure: &str| told[figure].as_u64().expect("measured");
        // No memory answers a fault in less, and compressed memory takes no millisecond.
        let median_ns = ns("median_ns");
        assert!((200..1_000_000).contains(&median_ns), "{told:#}");
        assert!(median_ns <= ns("p99_ns"), "{told:#}");
    }
    // A tmpfs is no disk.
    let file = of("file").expect("told");
    assert!(
        file["mean_ns"].is_null() && file["why"].is_string(),
        "{file:#}"
    );
}
