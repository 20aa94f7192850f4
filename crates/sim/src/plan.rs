//! How much memory a recorded run needs: the smallest budget whose refaults cost little enough.
//!
//! A recording is replayed with less and less memory. What comes back too often is priced by the
//! cost model and compared with the CPU time that the recorded processes used: that is the slowdown.
//! Since nobody knows the order of accesses within an interval, everything is replayed in three: at
//! random for the figure itself, in the best and in the worst for the span it may lie in.
//!
//! **Owns** which budgets are tried and what follows from them. **Does not own** replays (`runs`),
//! orders (`order`) or costs (`cost`).
//!
//! **Invariants**
//! - I1: the same recording and arguments give the same plan.
//! - I2: a budget is said to be enough only if every larger one that was tried is enough too.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cost::CostModel;
use crate::memory::PAGE_BYTES;
use crate::order::IntervalOrder;
use crate::plot;
use crate::ratio::Ratio;
use crate::runs::{Jobs, RunsError};
use crate::simulate::{Progress, Setup};
use crate::spec::PolicySpec;
use crate::workload::Workload;

/// Budgets of the curve, in hundredths of the footprint.
const CURVE: [u32; 12] = [5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 100];
/// Halvings of the gap between two budgets of the curve: to within 0.3 % of the footprint.
const NR_HALVINGS: u32 = 5;
/// Replays of the recording that a plan takes at most.
pub const NR_REPLAYS_MAX: u64 = 3 * (CURVE.len() as u64 + 3 * NR_HALVINGS as u64);

/// The three orders: expected, best, worst.
const ORDERS: [IntervalOrder; 3] = [
    IntervalOrder::Shuffled(1),
    IntervalOrder::Best,
    IntervalOrder::Worst,
];

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// Who decides which pages go.
    pub policy: PolicySpec,
    /// Slowdown that is acceptable, in millionths of the busy time.
    pub slowdown_millionths: u64,
    /// What a refault costs.
    pub cost: CostModel,
    /// CPU time the recorded processes used, microseconds.
    pub busy_us: u64,
    /// Time recorded, microseconds.
    pub duration_us: u64,
}

/// A figure, and the span it lies in whatever the order within intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Span<T> {
    /// Accesses of an interval in random order.
    pub expected: T,
    /// The least of the orders tried.
    pub lowest: T,
    /// The most.
    pub highest: T,
}

/// One budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// The budget.
    pub memory_bytes: u64,
    /// The budget of the footprint.
    pub of_footprint: Ratio,
    /// Pages that would have come back.
    pub refaults: Span<u64>,
    /// Those a second of the time recorded.
    pub refaults_per_second: Ratio,
    /// What they cost, of the busy time.
    pub slowdown: Span<Ratio>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The recording.
    pub recording: String,
    /// The policy.
    pub policy: String,
    /// The most that was in use at a time: what the run takes without a budget.
    pub footprint_bytes: u64,
    /// Time recorded, microseconds.
    pub duration_us: u64,
    /// CPU time used, microseconds.
    pub busy_us: u64,
    /// The slowdown that was asked for.
    pub slowdown_limit: Ratio,
    /// The smallest budget within it; null where none is, not even the footprint.
    pub budget_bytes: Span<Option<u64>>,
    /// All budgets tried, smallest first.
    pub points: Vec<Point>,
}

/// Refaults and their cost, by order.
type Tried = [(u64, u64); ORDERS.len()];

/// Plans.
///
/// # Errors
/// A policy that can't run.
pub fn plan(
    workload: &Workload,
    question: &Question,
    jobs: &Jobs,
    progress: &dyn Progress,
) -> Result<Plan, RunsError> {
    let ordered = ORDERS.map(|order| workload.in_order(order));
    let mut search = Search {
        ordered,
        question,
        jobs,
        progress,
        tried: BTreeMap::new(),
    };
    let footprint = workload.footprint_pages().max(1);
    let share = |percent: u32| {
        let pages = (u64::from(footprint) * u64::from(percent)).div_ceil(100);
        u32::try_from(pages.max(1)).unwrap_or(u32::MAX)
    };
    search.run(&CURVE.map(share))?;
    let mut budgets = Vec::new();
    for bound in Bound::ALL {
        budgets.push(search.smallest(bound)?);
    }
    let bytes = |pages: Option<u32>| pages.map(|pages| u64::from(pages) * PAGE_BYTES);
    Ok(Plan {
        recording: workload.name().to_owned(),
        policy: question.policy.to_string(),
        footprint_bytes: u64::from(workload.footprint_pages()) * PAGE_BYTES,
        duration_us: question.duration_us,
        busy_us: question.busy_us,
        slowdown_limit: Ratio::of(question.slowdown_millionths, 1_000_000),
        budget_bytes: Span {
            expected: bytes(budgets[0]),
            lowest: bytes(budgets[1]),
            highest: bytes(budgets[2]),
        },
        points: search.points(workload.footprint_pages()),
    })
}

impl Plan {
    /// All of it as one JSON object, indented, with a newline at its end.
    ///
    /// # Errors
    /// None that can happen: it holds nothing that JSON lacks.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// The slowdown over memory with its span, as SVG.
    pub fn plot(&self) -> String {
        plot::plan(self)
    }
}

/// Which of the figures is held against the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    Expected,
    Lowest,
    Highest,
}

impl Bound {
    const ALL: [Bound; 3] = [Bound::Expected, Bound::Lowest, Bound::Highest];

    fn of(self, tried: &Tried, figure: impl Fn(&(u64, u64)) -> u64) -> u64 {
        let figures = tried.iter().map(figure);
        match self {
            Bound::Expected => figures.take(1).sum(),
            Bound::Lowest => figures.min().unwrap_or_default(),
            Bound::Highest => figures.max().unwrap_or_default(),
        }
    }
}

struct Search<'a> {
    ordered: [Workload; ORDERS.len()],
    question: &'a Question,
    jobs: &'a Jobs,
    progress: &'a dyn Progress,
    tried: BTreeMap<u32, Tried>,
}

impl Search<'_> {
    /// Replays with so many pages, in every order.
    fn run(&mut self, sizes: &[u32]) -> Result<(), RunsError> {
        let mut sizes: Vec<u32> = sizes.to_vec();
        sizes.dedup();
        sizes.retain(|size| !self.tried.contains_key(size));
        let setups: Vec<Setup> = sizes.iter().copied().map(Setup::with_memory).collect();
        let mut tried = vec![Tried::default(); sizes.len()];
        for (order, workload) in self.ordered.iter().enumerate() {
            let nr_distinct = workload.nr_pages_by_kind();
            let policies = std::slice::from_ref(&self.question.policy);
            let runs = self
                .jobs
                .replay(workload, policies, &setups, self.progress)?;
            for (tried, run) in tried.iter_mut().zip(runs) {
                let nr_refaults = run
                    .outcome
                    .nr_misses
                    .saturating_sub(u64::from(workload.nr_pages()));
                let cost_ns = self.question.cost.refault_ns(&run.outcome, nr_distinct);
                tried[order] = (nr_refaults, cost_ns);
            }
        }
        self.tried.extend(sizes.into_iter().zip(tried));
        Ok(())
    }

    /// The smallest number of pages from which on the bound is within the limit.
    fn smallest(&mut self, bound: Bound) -> Result<Option<u32>, RunsError> {
        for _ in 0..NR_HALVINGS {
            let (enough, too_few) = self.gap(bound);
            let (Some(enough), Some(too_few)) = (enough, too_few) else {
                return Ok(enough);
            };
            let middle = too_few + (enough - too_few) / 2;
            if middle == too_few {
                break;
            }
            self.run(&[middle])?;
        }
        Ok(self.gap(bound).0)
    }

    /// The smallest size of those that are enough, as all above them are, and the next below.
    fn gap(&self, bound: Bound) -> (Option<u32>, Option<u32>) {
        let mut enough = None;
        for (size, tried) in self.tried.iter().rev() {
            let slowdown = self.slowdown(bound.of(tried, |(_, cost_ns)| *cost_ns));
            if slowdown.millionths() > self.question.slowdown_millionths {
                return (enough, Some(*size));
            }
            enough = Some(*size);
        }
        (enough, None)
    }

    fn slowdown(&self, cost_ns: u64) -> Ratio {
        Ratio::of(cost_ns, self.question.busy_us.saturating_mul(1000))
    }

    fn points(&self, footprint: u32) -> Vec<Point> {
        let point = |(size, tried): (&u32, &Tried)| {
            let refaults = Bound::ALL.map(|bound| bound.of(tried, |(refaults, _)| *refaults));
            let costs = Bound::ALL.map(|bound| bound.of(tried, |(_, cost_ns)| *cost_ns));
            let [expected, lowest, highest] = costs.map(|cost_ns| self.slowdown(cost_ns));
            // Of a million microseconds.
            let duration_us = self.question.duration_us;
            let per_second = Ratio::of(refaults[0].saturating_mul(1_000_000), duration_us);
            Point {
                memory_bytes: u64::from(*size) * PAGE_BYTES,
                of_footprint: Ratio::of(u64::from(*size), u64::from(footprint)),
                refaults: Span {
                    expected: refaults[0],
                    lowest: refaults[1],
                    highest: refaults[2],
                },
                refaults_per_second: per_second,
                slowdown: Span {
                    expected,
                    lowest,
                    highest,
                },
            }
        };
        self.tried.iter().map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoProgress;
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
            policy: policy.parse().unwrap(),
            slowdown_millionths,
            cost: CostModel::default(),
            busy_us: 100_000,
            duration_us: 5_000_000,
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
        let most = NR_REPLAYS_MAX * u64::from(workload().nr_requests());
        assert!(sum.0.into_inner() <= most);
    }
}
