//! What traces say of code reaches the engine: where executable pages are kept for longer, they are, in each simulator.

use strata_sim::{NoProgress, PolicySpec, Setup, Simulate, SteeredSetup, Workload};
use strata_trace::Generator;

/// Misses where memory holds the code and half as much of the file that is run through.
fn misses(policy: &str, backing: &str, setup: &Setup) -> u64 {
    let trace = format!("gen:code,backing={backing},accesses=400000");
    let accesses: Generator = trace.parse().expect("a generator");
    let workload = Workload::from_accesses(&trace, accesses).expect("fits");
    let policy: PolicySpec = policy.parse().expect("a policy");
    let outcome = policy.run(&workload, setup, &NoProgress).expect("runs");
    outcome.nr_misses
}

/// In percent of what is missed where the same pages are a file's that nobody executes.
fn percent(policy: &str, setup: &Setup) -> u64 {
    misses(policy, "code", setup) * 100 / misses(policy, "file", setup)
}

/// Code, half as much of the file beside it.
const MEMORY_PAGES: u32 = 12_000;

#[test]
fn code_stays_beside_a_file_that_is_run_through_where_the_kernel_keeps_it() {
    let plain = Setup::with_memory(MEMORY_PAGES);
    // Half of the accesses are of the file, and missed whatever is kept.
    assert!(percent("two-list", &plain) <= 93);
    for policy in ["mglru:v2022", "mglru:v6.1", "mglru:v6.14"] {
        assert_eq!(
            percent(policy, &plain),
            100,
            "{policy} has no rule for code"
        );
    }
    // Its rule promotes at the first use what is used once and again alike.
    let of_newest = percent("mglru:v7.2", &plain);
    assert!((101..=104).contains(&of_newest), "{of_newest}");
}

#[test]
fn tiers_and_steered_runs_hear_of_code_as_well() {
    let tiers = Setup {
        tiers: Some("50:50".parse().expect("tiers")),
        ..Setup::with_memory(MEMORY_PAGES)
    };
    let steered = Setup {
        steered: Some(SteeredSetup::default()),
        ..Setup::with_memory(MEMORY_PAGES)
    };
    assert!(percent("two-list", &tiers) <= 98);
    assert!(percent("two-list", &steered) <= 93);
}
