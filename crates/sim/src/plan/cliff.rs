//! Where a plan's curve falls off.
//!
//! A loop or a scan that fits into memory costs nothing, and one page less makes all of it come back. A budget at
//! such an edge is enough by the figures and dangerous in use, so the edge is named.
//!
//! **Owns** what counts as one. **Does not own** the curve (`super`).

use serde::Serialize;

use super::{Point, Ratio};

/// Falling off is to cost so many times the slowdown that is acceptable,
const TIMES_LIMIT: u64 = 3;
/// at no less than so many hundredths of the budget that is enough.
const NEAR_PERCENT: u64 = 95;

/// The edge of a plan's curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cliff {
    /// The smallest budget above the edge.
    pub below_bytes: u64,
    /// The largest budget tried below it that costs several times what is acceptable.
    pub memory_bytes: u64,
    /// What is expected there.
    pub slowdown: Ratio,
}

/// The edge below a budget that is expected to be enough; `None` where less memory costs only gradually more.
pub(super) fn find(points: &[Point], enough_bytes: Option<u64>, limit: Ratio) -> Option<Cliff> {
    let below_bytes = enough_bytes?;
    let is_steep = |point: &&Point| {
        let slowdown = point.slowdown.expected.millionths();
        point.memory_bytes < below_bytes
            && slowdown > limit.millionths().saturating_mul(TIMES_LIMIT)
    };
    let below = points.iter().rev().find(is_steep)?;
    let is_near =
        u128::from(below.memory_bytes) * 100 >= u128::from(below_bytes) * u128::from(NEAR_PERCENT);
    is_near.then_some(Cliff {
        below_bytes,
        memory_bytes: below.memory_bytes,
        slowdown: below.slowdown.expected,
    })
}

#[cfg(test)]
mod tests {
    use crate::plan::{Holding, Point, Question, plan};
    use crate::{CostModel, Jobs, NoProgress, Workload};
    use strata_trace::{Access, Backing, PageKey};

    #[test]
    fn a_loop_that_just_fits_stands_at_a_cliff_and_a_curve_does_not() {
        let access = |time_us, page| Access {
            key: PageKey { space: 0, page },
            time_us,
            backing: Backing::Anon,
            via: strata_trace::Via::PageTable,
            ..Access::default()
        };
        let loops = (0..50).flat_map(|time| (0..1000).map(move |page| access(time, page)));
        let looping = Workload::from_accesses("loop", loops).unwrap();
        let jobs = Jobs::try_new(1).unwrap();
        let question = Question {
            policies: vec!["fifo".parse().unwrap()],
            pageout_rate: 1,
            holding: Holding::ALL,
            budgets: Vec::new(),
            slowdown_millionths: 30_000,
            cost: CostModel::default(),
            busy_us: 100_000,
            duration_us: 5_000_000,
            interval_us: 100_000,
        };
        let planned = plan(&looping, &question, &jobs, &NoProgress).unwrap();
        let cliff = planned.cliff.unwrap();
        assert_eq!(Some(cliff.below_bytes), planned.budget_bytes.expected);
        assert!(cliff.memory_bytes < cliff.below_bytes, "{cliff:?}");
        assert!(
            cliff.memory_bytes >= cliff.below_bytes / 100 * 95,
            "{cliff:?}"
        );
        assert!(cliff.slowdown.millionths() > 90_000, "{cliff:?}");
        let is_there = |point: &&Point| point.memory_bytes == cliff.memory_bytes;
        let there = planned.points.iter().find(is_there).unwrap();
        assert_eq!(there.slowdown.expected, cliff.slowdown);
        // Pages that are asked for the more often the higher their number: less memory costs gradually more.
        let even = |time: u64| {
            (0..1000).filter(move |page| (page * 7919 + time * 104_729) % 97 < page / 11)
        };
        let spread = (0..50).flat_map(|time| even(time).map(move |page| access(time, page)));
        let spread = Workload::from_accesses("spread", spread).unwrap();
        let planned = plan(&spread, &question, &jobs, &NoProgress).unwrap();
        assert_eq!(planned.cliff, None, "{:?}", planned.points);
    }
}
