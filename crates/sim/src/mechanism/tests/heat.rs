//! The coldest first: what `strata run` evicts by default, played on traces.

use strata_trace::{Access, Backing, PageKey, Via};

use crate::{NoProgress, PolicySpec, Setup, Simulate, Workload};

const NR_HOT: u64 = 6000;
const NR_SCANNED: u64 = 600;

/// Every 50 ms an eighth of the hot pages, each time others, and the next of 60,000 more in turn.
fn hot_beside_a_scan() -> Workload {
    let access = |time: u64, page| Access {
        key: PageKey { space: 0, page },
        time_us: time * 50_000,
        backing: Backing::Anon,
        via: Via::PageTable,
        ..Access::default()
    };
    let of_interval = |time: u64| {
        let mixed = move |page: u64| (page << 20 ^ time).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hot = (0..NR_HOT).filter(move |page| mixed(mixed(*page)) >> 61 == 0);
        let scan = (0..NR_SCANNED).map(move |n| NR_HOT + (time * NR_SCANNED + n) % 60_000);
        hot.chain(scan).map(move |page| access(time + 1, page))
    };
    Workload::from_accesses("hot", (0..200).flat_map(of_interval)).unwrap()
}

fn misses(policy: &str, workload: &Workload, memory_pages: u32) -> u64 {
    let policy: PolicySpec = policy.parse().unwrap();
    let setup = Setup::with_memory(memory_pages);
    policy.run(workload, &setup, &NoProgress).unwrap().nr_misses
}

#[test]
fn what_is_wanted_again_and_again_outlives_what_passes_through() {
    let workload = hot_beside_a_scan();
    // Nothing of the scan is there any more when it comes round.
    let nr_scanned = 200 * NR_SCANNED;
    let [by_heat, by_recency] = ["mglru+heat", "lru"].map(|policy| {
        let nr_misses = misses(policy, &workload, 10_000);
        nr_misses.saturating_sub(nr_scanned + NR_HOT)
    });
    assert!(by_heat < by_recency / 2, "{by_heat} against {by_recency}");
}

#[test]
fn without_times_it_still_evicts() {
    let access = |at: u64| Access {
        key: PageKey {
            space: 0,
            page: at % 1000,
        },
        via: Via::PageTable,
        ..Access::default()
    };
    let workload = Workload::from_accesses("loop", (0..10_000).map(access)).unwrap();
    assert!(misses("mglru+heat", &workload, 700) > 1000);
}

#[test]
fn in_a_tree_of_groups_each_is_walked_and_ranked_by_itself() {
    // Two programs of the same kind, each in a group of its own.
    let two = hot_beside_a_scan();
    let accesses = two.requests().iter().enumerate().flat_map(|(at, request)| {
        let page = two.page(request.page());
        let time_us = two.time_us(at as u32).unwrap();
        [0, 1].map(|group| Access {
            key: PageKey {
                space: group,
                ..page.key
            },
            time_us,
            group: group as u16,
            backing: Backing::Anon,
            via: Via::PageTable,
            ..Access::default()
        })
    });
    let workload = Workload::from_accesses("two hot", accesses).unwrap();
    let nr_scanned = 2 * 200 * NR_SCANNED;
    let [by_heat, by_recency] = ["mglru+heat", "mglru"].map(|policy| {
        let policy: PolicySpec = policy.parse().unwrap();
        let setup = Setup {
            groups: vec!["a:max=50%".parse().unwrap(), "b".parse().unwrap()],
            ..Setup::with_memory(20_000)
        };
        let outcome = policy.run(&workload, &setup, &NoProgress).unwrap();
        let groups = outcome.reclaim.unwrap().groups;
        assert!(groups[0].nr_held <= 10_000, "{groups:?}");
        assert!(groups.iter().all(|of| of.nr_ageing_runs > 10), "{groups:?}");
        outcome.nr_misses.saturating_sub(nr_scanned + 2 * NR_HOT)
    });
    assert!(by_heat < by_recency / 2, "{by_heat} against {by_recency}");
}
