//! What an ingredient of the policy of our own is worth where it is meant to be worth something.

use strata_sim::{NoProgress, PolicySpec, Setup, Simulate, Workload};
use strata_trace::Generator;

fn nr_misses(policy: &str, trace: &str, memory_pages: u32) -> u64 {
    let accesses: Generator = trace.parse().expect("a generator");
    let workload = Workload::from_accesses(trace, accesses).expect("accesses");
    let policy: PolicySpec = policy.parse().expect("a policy");
    let setup = Setup::with_memory(memory_pages);
    let outcome = policy.run(&workload, &setup, &NoProgress).expect("runs");
    outcome.nr_misses
}

/// Through mappings accesses are found only by looking, so that a lull can't be heard.
#[test]
fn a_change_of_phase_through_mappings_is_noticed_by_what_left_and_is_not_missed() {
    let phases = "gen:phases,via=mmap,pages=2000,phases=4,exponent=0.9,accesses=200000,seed=6";
    let [all, without, least] =
        ["strata", "strata+no-missed", "lru"].map(|policy| nr_misses(policy, phases, 3000));
    let (back, back_without) = (all - least, without - least);
    assert!(
        back * 4 < back_without,
        "{back} read back, {back_without} without"
    );
}
