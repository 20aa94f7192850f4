//! Page cache in a plan: it counts in the footprint, and what comes back of it costs a read.

use strata_sim::plan::{Holding, Plan, Question, plan};
use strata_sim::{Jobs, MemorySize, NoProgress, Workload};
use strata_trace::{Access, Backing, PageKey, Via};

const NR_MAPPED: u64 = 100;
const NR_CACHED: u64 = 400;

/// All of the memory of a program in every interval, and all of a file in every tenth.
fn workload(has_cache: bool) -> Workload {
    let mapped = |time_us, page| Access {
        key: PageKey { space: 0, page },
        time_us,
        backing: Backing::Anon,
        via: Via::PageTable,
        ..Access::default()
    };
    let cached = |time_us, page| Access {
        key: PageKey { space: 1, page },
        time_us,
        backing: Backing::File,
        via: Via::FileDescriptor,
        ..Access::default()
    };
    let accesses = (0..50_u64).flat_map(|time| {
        let is_read = has_cache && time % 10 == 0;
        let nr_cached = if is_read { NR_CACHED } else { 0 };
        let of_program = (0..NR_MAPPED).map(move |page| mapped(time, page));
        of_program.chain((0..nr_cached).map(move |page| cached(time, page)))
    });
    Workload::from_accesses("run.strata", accesses).expect("small")
}

fn planned(has_cache: bool, cost: &str) -> Plan {
    let question = Question {
        policies: vec!["lru".parse().expect("a policy")],
        pageout_rate: 1,
        holding: Holding::ALL,
        budgets: vec![MemorySize::Pages(300)],
        slowdown_millionths: 30_000,
        cost: cost.parse().expect("prices"),
        busy_us: 1_000_000,
        duration_us: 5_000_000,
        interval_us: 100_000,
    };
    let jobs = Jobs::try_new(1).expect("a thread");
    plan(&workload(has_cache), &question, &jobs, &NoProgress).expect("a plan")
}

#[test]
fn page_cache_is_part_of_the_footprint_and_told_apart() {
    let plan = planned(true, "");
    assert_eq!(plan.footprint_bytes, (NR_MAPPED + NR_CACHED) * 4096);
    assert_eq!(plan.page_cache_bytes, Some(NR_CACHED * 4096));
    assert!(
        plan.json()
            .expect("JSON")
            .contains("\"page_cache_bytes\": 1638400,")
    );
    let without = planned(false, "");
    assert_eq!(without.page_cache_bytes, None);
    assert!(!without.json().expect("JSON").contains("page_cache"));
}

#[test]
fn page_cache_that_comes_back_costs_a_read() {
    let at_300 = |cost: &str| {
        let plan = planned(true, cost);
        let mut points = plan.points.into_iter();
        points
            .find(|point| point.memory_bytes == 300 * 4096)
            .expect("it was asked for")
    };
    let (once, twice) = (at_300("swap-in=0"), at_300("swap-in=0,read=200000"));
    assert_eq!(once.refaults, twice.refaults);
    let [once, twice] = [once, twice].map(|point| point.slowdown.expected.millionths());
    // In the four later intervals with the file at least what does not fit comes back, at 100 us.
    assert!(once >= 4 * 200 * 100, "{once}");
    assert_eq!(2 * once, twice);
}

#[test]
fn what_was_mapped_after_it_was_read_and_what_is_of_no_file_is_no_unmapped_page_cache() {
    let read = |page| Access {
        key: PageKey { space: 0, page },
        via: Via::FileDescriptor,
        ..Access::default()
    };
    let mapped = |page| Access {
        via: Via::PageTable,
        ..read(page)
    };
    let anon = Access {
        backing: Backing::Anon,
        ..read(2)
    };
    let accesses = [
        read(0),
        read(1),
        anon,
        mapped(1),
        read(1),
        mapped(3),
        read(3),
    ];
    let workload = Workload::from_accesses("w", accesses).expect("small");
    assert_eq!(
        (workload.footprint_pages(), workload.footprint_cache_pages()),
        (4, 1)
    );
}
