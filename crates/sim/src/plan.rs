//! How much memory a recorded run needs: the smallest budget whose refaults cost little enough.
//!
//! A recording is replayed with less and less memory. What comes back too often is priced by the
//! cost model and compared with the CPU time that the recorded processes used: that is the slowdown. Compared with the time
//! recorded (or with the CPU time, where several threads ran at once), it says how much longer the run takes.
//! Three things are not known, and have a span: the order of accesses within an interval, how much of
//! a budget is held while pages have to go (who holds it keeps some of it free), and who takes the
//! pages, where several share that work: the first takes what it can in each interval, the others the
//! rest. So everything is replayed three times by each policy:
//!
//! | figure | order | memory | of the policies |
//! |---|---|---|---|
//! | expected | at random | what is mostly held | in their shares |
//! | lowest | the best | the most that is held | the least |
//! | highest | the worst | the least that is held | the most |
//!
//! **Owns** which budgets are tried and what follows from them. **Does not own** replays (`runs`),
//! orders (`order`), costs (`cost`), or what is held (`holding`, which is told).
//!
//! **Invariants**
//! - I1: the same recording and arguments give the same plan, on any machine.
//! - I2: a budget is said to be enough only if every larger one that was tried is enough too.

mod cliff;
mod holding;
mod minimum;
mod orders;
mod rows;

pub use cliff::Cliff;
pub use holding::{BadHolding, Holding, SHARE_HELD_MIN, Span};
pub use orders::plan_bytes;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cost::CostModel;
use crate::memory::{MemorySize, PAGE_BYTES};
use crate::order::IntervalOrder;
use crate::outcome::Outcome;
use crate::ratio::Ratio;
use crate::report::json;
use crate::runs::{Jobs, Run, RunsError};
use crate::simulate::{Progress, Setup};
use crate::spec::PolicySpec;
use crate::workload::Workload;
use orders::ORDERS;

/// Budgets of the curve, in hundredths of the footprint; after them the one that holds all of it.
const CURVE: [u32; 12] = [5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 100];
/// Halvings of the gap between two budgets of the curve: to within 0.3 % of the footprint.
const NR_HALVINGS: u32 = 5;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// Who decides which pages go. At least one; of several the first takes what it can, the others
    /// take the rest.
    pub policies: Vec<PolicySpec>,
    /// Pages a second that the first of several policies can take.
    pub pageout_rate: u64,
    /// How much of a budget is held.
    pub holding: Holding,
    /// Budgets to tell about besides those of the curve.
    pub budgets: Vec<MemorySize>,
    /// Slowdown that is acceptable, in millionths of the busy time.
    pub slowdown_millionths: u64,
    /// What a refault costs.
    pub cost: CostModel,
    /// CPU time the recorded processes used, microseconds.
    pub busy_us: u64,
    /// Time recorded, microseconds.
    pub duration_us: u64,
    /// Time between two walks of the recording, microseconds.
    pub interval_us: u64,
}

impl Question {
    fn policy_text(&self) -> String {
        let texts: Vec<String> = self.policies.iter().map(PolicySpec::to_string).collect();
        texts.join(",")
    }

    /// What comes of several policies together, each alone being so much: the share of the pages that
    /// the first has time for is its, the rest the others'.
    fn shared(alone: &[Alone]) -> Figures {
        let (first, rest) = match alone {
            [] => return Figures::default(),
            [one] => return one.figures,
            [first, rest @ ..] => (first, rest),
        };
        let share = |figure: &dyn Fn(&Figures) -> u64| {
            let of_rest = rest.iter().map(|one| u128::from(figure(&one.figures)));
            let mean_of_rest = of_rest.sum::<u128>() / rest.len() as u128;
            let all = first.figures.nr_refaults;
            let in_time = first.nr_in_time.min(all);
            let weighed = u128::from(figure(&first.figures)) * u128::from(in_time)
                + mean_of_rest * u128::from(all - in_time);
            let shared = weighed.checked_div(u128::from(all)).unwrap_or_default();
            u64::try_from(shared).unwrap_or(u64::MAX)
        };
        Figures {
            nr_refaults: share(&|one| one.nr_refaults),
            cost_ns: share(&|one| one.cost_ns),
        }
    }

    /// How many of so many pages the first policy can take in time, one for each that comes back: in
    /// each interval of the recording as many as its rate allows. A baseline does not tell when they
    /// came, so for it they are spread evenly.
    fn nr_in_time(&self, outcome: &Outcome, nr_refaults: u64, one_in: u64) -> u64 {
        let within = |us: u64| {
            let pages =
                u128::from(self.pageout_rate) * u128::from(us) / 1_000_000 / u128::from(one_in);
            u64::try_from(pages).unwrap_or(u64::MAX)
        };
        let Some(reclaim) = &outcome.reclaim else {
            return within(self.duration_us).min(nr_refaults);
        };
        let mut by_interval: BTreeMap<u64, u64> = BTreeMap::new();
        for (time, nr_pages) in &reclaim.refaults_by_time {
            let interval = time.0.saturating_mul(1000) / self.interval_us.max(1);
            *by_interval.entry(interval).or_default() += nr_pages;
        }
        let most = within(self.interval_us.max(1));
        by_interval.values().map(|pages| *pages.min(&most)).sum()
    }

    /// Replays of the recording that the answer takes at most.
    pub fn nr_replays_max(&self) -> u64 {
        let nr_halvings = ORDERS.len() as u64 * u64::from(NR_HALVINGS);
        let nr_budgets = CURVE.len() as u64 + 1 + self.budgets.len() as u64 + nr_halvings;
        (ORDERS.len() * self.policies.len()) as u64 * nr_budgets
    }
}

/// One budget. Neither refaults nor slowdown are ever more than at a smaller one: a policy may do better with less memory by
/// accident, and then the lesser figure stands for the larger budgets, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// The budget.
    pub memory_bytes: u64,
    /// What is held of it while pages have to go.
    pub held_bytes: Span<u64>,
    /// The budget of the footprint.
    pub of_footprint: Ratio,
    /// Pages that would have come back.
    pub refaults: Span<u64>,
    /// Refaults a second of the time recorded.
    pub refaults_per_second: Ratio,
    /// What they cost, of the busy time.
    pub slowdown: Span<Ratio>,
    /// What they cost, of the time recorded or the busy time, whichever is more: how much longer a run takes that waits for nothing else.
    pub longer: Span<Ratio>,
    /// Somebody asked for this budget.
    #[serde(skip)]
    pub is_asked: bool,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The recording.
    pub recording: String,
    /// The policies that are assumed to evict, with commas between them.
    pub policy: String,
    /// Pages a second that the first of them can take; the others take the rest.
    pub pageout_rate: u64,
    /// Who is assumed to hold the budget, or the share of it that is held.
    pub held: String,
    /// What would be in memory at most if nothing were evicted: what the run takes without a budget.
    pub footprint_bytes: u64,
    /// Part of `footprint_bytes` that is page cache which nobody had mapped; `None` where none was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_bytes: Option<u64>,
    /// Time recorded, microseconds.
    pub duration_us: u64,
    /// CPU time used, microseconds.
    pub busy_us: u64,
    /// The slowdown that was asked for.
    pub slowdown_limit: Ratio,
    /// The smallest budget within it; null where none is, not even one that holds the footprint.
    pub budget_bytes: Span<Option<u64>>,
    /// The edge below the expected budget; null where less memory costs only gradually more.
    pub cliff: Option<Cliff>,
    /// All budgets tried, smallest first.
    pub points: Vec<Point>,
}

/// What a replay came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Figures {
    nr_refaults: u64,
    cost_ns: u64,
}

/// A replay by one of several policies.
#[derive(Clone, Copy, Debug)]
struct Alone {
    figures: Figures,
    /// Of its refaults, for how many the first policy would have had time.
    nr_in_time: u64,
}

/// Of one budget, by order.
type Tried = [Figures; ORDERS.len()];

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
    plan_sample(workload, question, 1, jobs, progress)
}

/// Plans for a recording of which the workload holds one page in so many ([`strata_trace::AccessReader::thin`]): each of its pages
/// stands for `one_in`. The answer is of the whole recording, as near as a sample comes to it.
///
/// # Errors
/// A policy that can't run.
pub fn plan_sample(
    workload: &Workload,
    question: &Question,
    one_in: u32,
    jobs: &Jobs,
    progress: &dyn Progress,
) -> Result<Plan, RunsError> {
    let one_in = one_in.max(1);
    let ordered = ORDERS.map(|order| workload.in_order(order));
    let mut search = Search {
        ordered,
        question,
        jobs,
        progress,
        one_in,
        tried: BTreeMap::new(),
    };
    let footprint = workload.footprint_pages().max(1);
    let share = |percent: u32| {
        let pages = (u64::from(footprint) * u64::from(percent)).div_ceil(100);
        u32::try_from(pages.max(1)).unwrap_or(u32::MAX)
    };
    let of_curve = CURVE.map(share).into_iter();
    let footprint_all = footprint.saturating_mul(one_in);
    let whole = question.holding.budget_of(footprint_all);
    let asked = question.budgets.iter();
    let asked = asked.map(|size| size.pages(footprint_all));
    let in_sample = |pages: u32| pages.div_ceil(one_in);
    let (whole, asked) = (whole.map(in_sample), asked.map(in_sample));
    let asked: Vec<u32> = asked.collect();
    let sizes: Vec<u32> = of_curve.chain(whole).chain(asked.iter().copied()).collect();
    search.run(&sizes)?;
    let budget = Span {
        expected: search.smallest(|of| of.expected)?,
        lowest: search.smallest(|of| of.lowest)?,
        highest: search.smallest(|of| of.highest)?,
    };
    let page_bytes = u64::from(one_in) * PAGE_BYTES;
    let bytes = |pages: Option<u32>| pages.map(|pages| u64::from(pages) * page_bytes);
    let budget_bytes = budget.map(bytes);
    let slowdown_limit = Ratio::of(question.slowdown_millionths, 1_000_000);
    let points = search.points(workload.footprint_pages(), &asked);
    Ok(Plan {
        recording: workload.name().to_owned(),
        policy: question.policy_text(),
        pageout_rate: question.pageout_rate,
        held: question.holding.to_string(),
        footprint_bytes: u64::from(workload.footprint_pages()) * page_bytes,
        page_cache_bytes: (workload.has_descriptor_accesses())
            .then(|| u64::from(workload.footprint_cache_pages()) * page_bytes),
        duration_us: question.duration_us,
        busy_us: question.busy_us,
        slowdown_limit,
        budget_bytes,
        cliff: cliff::find(&points, budget_bytes.expected, slowdown_limit),
        points,
    })
}

impl Plan {
    /// All of it as one JSON object, indented, with a newline at its end.
    ///
    /// # Errors
    /// None that can happen: it holds nothing that JSON lacks.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        json(self)
    }
}

/// Which of the figures is held against the limit.
type Bound = fn(Span<u64>) -> u64;

/// A figure of all orders.
fn span(tried: &Tried, figure: fn(&Figures) -> u64) -> Span<u64> {
    let [expected, second, third] = tried.each_ref().map(figure);
    Span {
        expected,
        lowest: expected.min(second).min(third),
        highest: expected.max(second).max(third),
    }
}

struct Search<'a> {
    ordered: [Workload; ORDERS.len()],
    question: &'a Question,
    jobs: &'a Jobs,
    progress: &'a dyn Progress,
    /// Pages for which one of the workload stands.
    one_in: u32,
    tried: BTreeMap<u32, Tried>,
}

impl Search<'_> {
    /// Replays with budgets of so many pages: the table of the module.
    fn run(&mut self, sizes: &[u32]) -> Result<(), RunsError> {
        let mut sizes: Vec<u32> = sizes.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        sizes.retain(|size| !self.tried.contains_key(size));
        let held = sizes.iter().map(|size| self.held(*size));
        let held: Vec<Span<u32>> = held.collect();
        let mut tried = vec![Tried::default(); sizes.len()];
        for (order, workload) in self.ordered.iter().enumerate() {
            let setups = held.iter().map(|held| match ORDERS[order] {
                IntervalOrder::Best => held.highest,
                IntervalOrder::Worst => held.lowest,
                _ => held.expected,
            });
            let setups: Vec<Setup> = setups.map(Setup::with_memory).collect();
            let nr_distinct = workload.nr_pages_by_kind();
            let policies = &self.question.policies;
            let one_in = u64::from(self.one_in);
            let runs = self
                .jobs
                .replay_then(workload, policies, &setups, self.progress, |_| {})?;
            let one = |run: &Run| {
                let nr_first = u64::from(workload.nr_pages());
                let nr_refaults = run.outcome.nr_misses.saturating_sub(nr_first);
                let cost_ns = self.question.cost.refault_ns(&run.outcome, nr_distinct);
                let nr_in_time = self.question.nr_in_time(&run.outcome, nr_refaults, one_in);
                Alone {
                    figures: Figures {
                        nr_refaults: nr_refaults * one_in,
                        cost_ns: cost_ns.saturating_mul(one_in),
                    },
                    nr_in_time: nr_in_time * one_in,
                }
            };
            for (at, tried) in tried.iter_mut().enumerate() {
                // Runs come policy by policy.
                let of_size = runs.iter().skip(at).step_by(setups.len());
                let alone: Vec<Alone> = of_size.map(one).collect();
                let refaults = alone.iter().map(|one| one.figures.nr_refaults);
                let costs = alone.iter().map(|one| one.figures.cost_ns);
                tried[order] = match ORDERS[order] {
                    IntervalOrder::Best => Figures {
                        nr_refaults: refaults.min().unwrap_or_default(),
                        cost_ns: costs.min().unwrap_or_default(),
                    },
                    IntervalOrder::Worst => Figures {
                        nr_refaults: refaults.max().unwrap_or_default(),
                        cost_ns: costs.max().unwrap_or_default(),
                    },
                    _ => Question::shared(&alone),
                };
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
            let slowdown = self.slowdown(bound(span(tried, |of| of.cost_ns)));
            if slowdown.millionths() > self.question.slowdown_millionths {
                return (enough, Some(*size));
            }
            enough = Some(*size);
        }
        (enough, None)
    }

    /// Pages of the workload that are held of a budget of so many.
    fn held(&self, size: u32) -> Span<u32> {
        let of_all = size.saturating_mul(self.one_in);
        let held = self.question.holding.pages(of_all);
        held.map(|pages| (pages / self.one_in).max(1))
    }

    fn slowdown(&self, cost_ns: u64) -> Ratio {
        Ratio::of(cost_ns, self.question.busy_us.saturating_mul(1000))
    }

    /// Threads that ran at once wait at once.
    fn longer(&self, cost_ns: u64) -> Ratio {
        let question = self.question;
        let time_us = question.duration_us.max(question.busy_us);
        Ratio::of(cost_ns, time_us.saturating_mul(1000))
    }

    fn points(&self, footprint: u32, asked: &[u32]) -> Vec<Point> {
        let point = |(size, tried): (&u32, &Tried)| {
            let refaults = span(tried, |of| of.nr_refaults);
            let costs = span(tried, |of| of.cost_ns);
            // Of a million microseconds.
            let duration_us = self.question.duration_us;
            let per_second = Ratio::of(refaults.expected.saturating_mul(1_000_000), duration_us);
            let bytes = |pages: u32| u64::from(pages) * u64::from(self.one_in) * PAGE_BYTES;
            Point {
                memory_bytes: bytes(*size),
                held_bytes: self.held(*size).map(bytes),
                of_footprint: Ratio::of(u64::from(*size), u64::from(footprint)),
                refaults,
                refaults_per_second: per_second,
                slowdown: costs.map(|cost_ns| self.slowdown(cost_ns)),
                longer: costs.map(|cost_ns| self.longer(cost_ns)),
                is_asked: asked.contains(size),
            }
        };
        minimum::running(self.tried.iter().map(point).collect())
    }
}

#[cfg(test)]
mod tests;
