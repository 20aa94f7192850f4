//! Plans for workloads whose need is known.

use super::*;
use crate::NoProgress;
use strata_lru::TimeMs;
use strata_trace::{Access, Backing, PageKey};

/// 100 hot pages every interval, 900 others once at the beginning.
fn workload() -> Workload {
    let access = |time_us, page| Access {
        key: PageKey { space: 0, page },
        time_us,
        backing: Backing::Anon,
        via: strata_trace::Via::PageTable,
        ..Access::default()
    };
    let cold = (0..1000).map(|page| access(0, page));
    let hot = (1..=50).flat_map(|time| (0..100).map(move |page| access(time, page)));
    Workload::from_accesses("hot and cold", cold.chain(hot)).unwrap()
}

fn question(policy: &str, slowdown_millionths: u64) -> Question {
    Question {
        policies: vec![policy.parse().unwrap()],
        pageout_rate: 1,
        holding: Holding::ALL,
        budgets: Vec::new(),
        slowdown_millionths,
        cost: CostModel::default(),
        busy_us: 100_000,
        duration_us: 5_000_000,
        interval_us: 100_000,
    }
}

fn plan_of(policy: &str, slowdown_millionths: u64) -> Plan {
    let jobs = Jobs::try_new(1).unwrap();
    let question = question(policy, slowdown_millionths);
    plan(&workload(), &question, &jobs, &NoProgress).unwrap()
}

#[test]
fn the_hot_pages_are_what_is_needed() {
    // That all hot pages come back once after the baseline is 0.5 %.
    let plan = plan_of("lru", 7_000);
    let pages = plan.budget_bytes.expected.unwrap() / PAGE_BYTES;
    assert!((98..=104).contains(&pages), "{pages} pages");
    assert!(plan.budget_bytes.lowest <= plan.budget_bytes.expected);
    assert!(plan.budget_bytes.expected <= plan.budget_bytes.highest);
    assert!(plan.points.is_sorted_by_key(|point| point.memory_bytes));
}

#[test]
fn a_run_takes_longer_by_what_refaults_cost_and_threads_that_run_at_once_wait_at_once() {
    let of = |busy_us, duration_us| {
        let question = Question {
            busy_us,
            duration_us,
            budgets: vec![MemorySize::Pages(100)],
            ..question("lru", 10_000)
        };
        let planned = plan_with(&question);
        let points = planned.points.into_iter();
        let mut asked = points.filter(|point| point.is_asked);
        asked.next().unwrap()
    };
    // 100 pages come back after the baseline, at 5 us each.
    let idle = of(100_000, 5_000_000);
    assert_eq!(idle.refaults.expected, 100);
    assert_eq!(idle.longer.expected, Ratio::of(500, 5_000_000));
    assert_eq!(idle.slowdown.expected, Ratio::of(500, 100_000));
    let two_threads = of(10_000_000, 5_000_000);
    assert_eq!(two_threads.longer, two_threads.slowdown);
    assert_eq!(two_threads.longer.expected, Ratio::of(500, 10_000_000));
}

#[test]
fn more_slowdown_needs_no_more_memory() {
    let needed = |slowdown| plan_of("lru", slowdown).budget_bytes.expected.unwrap();
    let budgets = [0, 10_000, 100_000, 1_000_000].map(needed);
    assert!(budgets.is_sorted_by(|a, b| a >= b), "{budgets:?}");
    assert_eq!(
        needed(u64::MAX),
        50 * PAGE_BYTES,
        "the smallest that is tried"
    );
}

#[test]
fn every_span_holds_its_expected_figure() {
    for policy in ["lru", "mglru", "two-list"] {
        for point in plan_of(policy, 10_000).points {
            let Span {
                expected,
                lowest,
                highest,
            } = point.refaults;
            assert!(
                lowest <= expected && expected <= highest,
                "{policy} {point:?}"
            );
        }
    }
}

#[test]
fn no_more_replays_than_promised() {
    use std::sync::atomic::{AtomicU64, Ordering};
    #[derive(Default)]
    struct Sum(AtomicU64);
    impl Progress for Sum {
        fn advance(&self, nr_requests: u64) {
            self.0.fetch_add(nr_requests, Ordering::Relaxed);
        }
    }
    let (sum, jobs) = (Sum::default(), Jobs::try_new(1).unwrap());
    plan(&workload(), &question("lru", 5_000), &jobs, &sum).unwrap();
    let question = question("lru", 5_000);
    let most = question.nr_replays_max() * u64::from(workload().nr_requests());
    assert!(sum.0.into_inner() <= most);
}

/// A holder that keeps some of a budget free: 1 to 9 pages of a hundred.
const FRUGAL: Holding = Holding::By {
    name: "frugal",
    of: |budget| Span {
        expected: budget / 100 * 95,
        lowest: budget / 100 * 91,
        highest: budget / 100 * 99,
    },
};

fn plan_with(question: &Question) -> Plan {
    let jobs = Jobs::try_new(1).unwrap();
    plan(&workload(), question, &jobs, &NoProgress).unwrap()
}

#[test]
fn a_budget_of_which_less_is_held_has_to_be_larger() {
    let question = |holding| Question {
        holding,
        ..question("lru", 7_000)
    };
    let all = plan_with(&question(Holding::ALL));
    let frugal = plan_with(&question(FRUGAL));
    assert_eq!(
        (all.held.as_str(), frugal.held.as_str()),
        ("100%", "frugal")
    );
    let budget = |plan: &Plan| plan.budget_bytes.expected.unwrap();
    assert!(budget(&frugal) > budget(&all), "{frugal:?}");
    // The span is that of what may be held, too.
    assert!(frugal.budget_bytes.lowest < frugal.budget_bytes.expected);
    assert!(frugal.budget_bytes.expected < frugal.budget_bytes.highest);
    let half = question(Holding::Share(500_000));
    let halved = plan_with(&half);
    let halved = halved
        .points
        .iter()
        .find(|one| one.memory_bytes == 400 * PAGE_BYTES);
    let whole = all
        .points
        .iter()
        .find(|one| one.memory_bytes == 200 * PAGE_BYTES);
    assert_eq!(halved.unwrap().refaults, whole.unwrap().refaults);
}

#[test]
fn the_curve_ends_where_nothing_has_to_go() {
    for holding in [Holding::ALL, FRUGAL, Holding::Share(SHARE_HELD_MIN)] {
        let plan = plan_with(&Question {
            holding,
            ..question("mglru", 1)
        });
        let last = plan.points.last().unwrap();
        assert!(last.held_bytes.lowest >= plan.footprint_bytes, "{last:?}");
        assert_eq!(last.refaults, Span::all(0));
        assert!(plan.budget_bytes.highest.is_some(), "{holding}");
    }
}

#[test]
fn the_first_takes_what_it_has_time_for_and_the_others_the_rest() {
    let of = |policies: &[&str], pageout_rate| {
        let names = policies.join(",");
        let policies = policies.iter().map(|text| text.parse().unwrap()).collect();
        let plan = plan_with(&Question {
            policies,
            pageout_rate,
            budgets: vec![MemorySize::Pages(90)],
            ..question("lru", 7_000)
        });
        assert_eq!(plan.policy, names);
        let of = |point: &&Point| point.memory_bytes == 90 * PAGE_BYTES;
        plan.points.iter().find(of).unwrap().refaults
    };
    let [fifo, lru] = ["fifo", "lru"].map(|policy| of(&[policy], 0).expected);
    assert_ne!(fifo, lru);
    let both = |rate| of(&["fifo", "lru"], rate);
    assert_eq!(both(0).expected, lru);
    // 5 seconds are recorded.
    assert_eq!(both(fifo.div_ceil(5)).expected, fifo);
    let half = both(fifo / 10);
    assert!(half.expected.abs_diff((fifo + lru) / 2) <= 10, "{half:?}");
    let rest = of(&["lru", "fifo", "lru"], 0).expected;
    assert_eq!(rest, (fifo + lru) / 2);
    assert!(half.lowest <= fifo.min(lru), "{half:?}");
    assert!(half.highest >= fifo.max(lru), "{half:?}");
}

#[test]
fn pages_that_come_back_all_at_once_leave_the_first_less_time() {
    let outcome = |times_ms: &[u64]| Outcome {
        reclaim: Some(Box::new(crate::outcome::Reclaim {
            refaults_by_time: times_ms.iter().map(|ms| (TimeMs(*ms), 300)).collect(),
            ..Default::default()
        })),
        ..Outcome::default()
    };
    let question = Question {
        pageout_rate: 4000,
        ..question("mglru", 1)
    };
    let in_time = |times_ms: &[u64]| question.nr_in_time(&outcome(times_ms), 900, 1);
    assert_eq!(in_time(&[100, 200, 300]), 900);
    assert_eq!(in_time(&[100, 200, 210]), 700);
    assert_eq!(in_time(&[200, 210, 220]), 400);
    assert_eq!(question.nr_in_time(&Outcome::default(), 900, 1), 900);
}

/// 80 % of the reads go to a fifth of 8000 pages; of the pages one in so many is there.
fn skewed(one_in: u64) -> Workload {
    let mut state = 1_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 33
    };
    let accesses = (0..400_000_u64).filter_map(|at| {
        let among = if random() % 10 < 8 { 1600 } else { 8000 };
        let page = random() % among;
        let is_kept = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & (one_in - 1) == 0;
        let access = Access {
            key: PageKey { space: 0, page },
            time_us: at / 1000 * 10_000,
            backing: Backing::Anon,
            via: strata_trace::Via::PageTable,
            ..Access::default()
        };
        is_kept.then_some(access)
    });
    Workload::from_accesses("skewed", accesses).unwrap()
}

#[test]
fn a_sample_of_the_pages_comes_near_to_the_plan_for_all_of_them() {
    let question = Question {
        busy_us: 4_000_000,
        ..question("two-list", 50_000)
    };
    let jobs = Jobs::try_new(1).unwrap();
    let of_all = plan(&skewed(1), &question, &jobs, &NoProgress).unwrap();
    let sampled = plan_sample(&skewed(4), &question, 4, &jobs, &NoProgress).unwrap();
    let near = |what: &str, all: u64, sample: u64, percent: u64| {
        let off = all.abs_diff(sample) * 100;
        assert!(off <= all * percent, "{what}: {all} and {sample}");
    };
    let (all, sample) = (of_all.footprint_bytes, sampled.footprint_bytes);
    near("footprint", all, sample, 5);
    let budget = |plan: &Plan| plan.budget_bytes.expected.unwrap();
    near("budget", budget(&of_all), budget(&sampled), 10);
    let half = |plan: &Plan| {
        let is_half = |one: &&Point| one.of_footprint.millionths() >= 500_000;
        plan.points.iter().find(is_half).unwrap().refaults.expected
    };
    near("refaults at half", half(&of_all), half(&sampled), 15);
}

#[test]
fn rows_are_where_the_curve_bends_and_what_was_asked_for() {
    let question = Question {
        budgets: vec![MemorySize::Pages(123)],
        ..question("lru", 7_000)
    };
    let mut plan = plan_with(&question);
    let rows_of = |plan: &Plan| -> Vec<u64> {
        let rows = plan.rows();
        rows.iter().map(|point| point.memory_bytes).collect()
    };
    let rows = rows_of(&plan);
    // Budgets tried close to each other that say nothing new are not told.
    let at = plan.points.len() - 3;
    for percent in 1..=4 {
        let mut point = plan.points[at].clone();
        point.memory_bytes += plan.footprint_bytes * percent / 100;
        point.is_asked = false;
        plan.points.insert(at + percent as usize, point);
    }
    assert_eq!(rows_of(&plan), rows);
    let told = plan.rows();
    let is_told = |bytes: u64| told.iter().any(|point| point.memory_bytes == bytes);
    assert!(is_told(123 * PAGE_BYTES), "{rows:?}");
    let budget = plan.budget_bytes;
    assert!(
        [budget.expected, budget.highest]
            .into_iter()
            .flatten()
            .all(is_told),
        "{rows:?}"
    );
}
