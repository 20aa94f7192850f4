//! The policy of our own where its rules are meant to be worth something.

use strata_sim::{NoProgress, Outcome, PolicySpec, Setup, Simulate, Workload};
use strata_trace::Generator;

fn replay(policy: &str, trace: &str, memory_pages: u32) -> Outcome {
    let accesses: Generator = trace.parse().expect("a generator");
    let workload = Workload::from_accesses(trace, accesses).expect("accesses");
    let policy: PolicySpec = policy.parse().expect("a policy");
    let setup = Setup::with_memory(memory_pages);
    policy.run(&workload, &setup, &NoProgress).expect("runs")
}

fn nr_misses(policy: &str, trace: &str, memory_pages: u32) -> u64 {
    replay(policy, trace, memory_pages).nr_misses
}

/// As many pages as a phase has: nothing ever has to be read twice.
#[test]
fn phases_that_just_fit_are_changed_for_nothing_whatever_way_they_are_accessed() {
    for via in ["fd", "mmap"] {
        let phases =
            format!("gen:phases,via={via},pages=2000,phases=4,exponent=0.9,accesses=200000,seed=6");
        for memory_pages in [2000, 3000] {
            let [ours, least] =
                ["strata", "lru"].map(|policy| nr_misses(policy, &phases, memory_pages));
            assert_eq!(ours, least, "{via} in {memory_pages} pages");
        }
    }
}

/// A fault sets the accessed bit itself: who looks only once learns nothing by it.
#[test]
fn walks_tell_what_is_used_through_mappings_nearly_as_well_as_descriptors_do() {
    let skewed = "gen:zipf,pages=8000,exponent=0.8,accesses=300000,seed=3";
    let mapped = skewed.replace("zipf,", "zipf,via=mmap,");
    let heard = nr_misses("strata", skewed, 1600);
    let walked = nr_misses("strata", &mapped, 1600);
    assert!(walked * 100 < heard * 102, "{walked}, {heard} if heard of");
}

#[test]
fn there_is_a_walk_for_each_twentieth_of_memory_that_is_new_and_none_without_mappings() {
    let reclaim = |via: &str| {
        let trace = format!("gen:zipf,via={via},pages=8192,exponent=0.8,accesses=300000,seed=3");
        let outcome = replay("strata", &trace, 4096);
        (outcome.nr_misses, outcome.reclaim.expect("a mechanism"))
    };
    let (nr_arrivals, mapped) = reclaim("mmap");
    let nr_walks_once_full = (nr_arrivals - 4096) * 20 / 4096;
    // While memory fills it is a twentieth of what is there.
    let nr_walks_max = nr_walks_once_full + 150;
    assert!((nr_walks_once_full / 2..nr_walks_max).contains(&mapped.nr_ageing_runs));
    assert!(mapped.nr_ptes_walked > 0);
    assert!(mapped.nr_ptes_walked <= 8192 * mapped.nr_ageing_runs);
    let (_, heard) = reclaim("fd");
    assert_eq!((heard.nr_ptes_walked, heard.nr_ageing_runs), (0, 0));
}
