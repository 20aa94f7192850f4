//! At which usage something begins or ends: the marks around a budget.
//!
//! ```text
//!   low ------- high ---- urgent --- line - budget ---- backstop
//!    ^ reclaim    ^ reclaim  ^ the     ^ where the      ^ the kernel's hard limit: the program
//!      stops        starts     kernel's  kernel holds     would reclaim in its own faults
//!                              batched   it under
//!                              reclaim   pressure
//!                              takes over
//!                              (auto) for a while, and until usage is below high
//! ```
//!
//! Walks begin at the approach mark, by default 90 % of the budget. With a budget below about 10 MiB the low mark lies
//! below the approach mark.
//!
//! The line is where the kernel holds the group: `memory.high` on cgroup v2, the lowered `memory.limit_in_bytes` on v1.
//! The urgent mark lies midway between the high mark and the line. Usage might never reach a mark above the line,
//! because the kernel slows growth down there.
//!
//! **Owns** the marks. **Does not own** what follows from them (`pressure`, `reclaimer`, `limit`).
//!
//! **Invariants** I1: low < high < urgent < line < budget < backstop, at every budget of a megabyte or more and with every
//! configuration that is in range.

use crate::tunables::config;
use serde::{Deserialize, Serialize};
use strata_lru::machine::LimitDistances;

config! {
    /// How far the marks lie from a budget and from each other.
    "watermarks"

    /// Two neighbouring marks lie this part of the budget apart: closer together reclaim would begin and end all the time,
    /// further apart memory would stay unused.
    mark_share: u64 = 64, 16..=80, "1/n of the budget";
    /// Two marks lie at least so far apart, because the kernel charges in batches of 64 pages a CPU.
    mark_bytes_min: u64 = 512 << 10, 64 << 10..=12 << 20, "bytes";
    /// Two marks lie at most so far apart, because what lies between them is memory that a large program goes without.
    mark_bytes_max: u64 = 128 << 20, 16 << 20..=1 << 30, "bytes";
    /// Two marks lie at most this part of a small budget apart, so that reclaim leaves most of it.
    mark_share_most: u64 = 8, 4..=16, "1/n of the budget";
    /// Walks come above this part of the budget: generations should exist before the first eviction, and accessed bits
    /// that only filling has set should be cleared.
    approach_percent: u64 = 90, 50..=100, "percent of the budget";
    /// The line, where the kernel holds usage under pressure, lies this part of the budget below it, so that the
    /// budget is not reached. The kernel's hard limit stands twice as far above it, so that what is allocated while the loop
    /// reacts meets no limit.
    line_share: u64 = LimitDistances::DEFAULT.line_share, 81..=1000, "1/n of the budget";
    /// The line lies at most so far below the budget, and the kernel's hard limit at least so far above it.
    line_bytes: u64 = LimitDistances::DEFAULT.line_bytes, 64 << 10..=12 << 20, "bytes";
}

impl Config {
    /// Where the kernel's limits stand.
    pub fn distances(&self) -> LimitDistances {
        LimitDistances {
            line_share: self.line_share,
            line_bytes: self.line_bytes,
        }
    }
}

/// Usage at which something begins or ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watermarks {
    /// Walks come from here on.
    pub approach_bytes: u64,
    /// Reclaim stops here.
    pub low_bytes: u64,
    /// Reclaim starts here.
    pub high_bytes: u64,
    /// With `auto` the kernel takes over from pageout when usage stays above the high mark for a while after passing this.
    pub urgent_bytes: u64,
    /// The kernel holds usage here while the program takes memory as fast as it goes.
    pub line_bytes: u64,
    /// The promise.
    pub budget_bytes: u64,
    /// The kernel's hard limit.
    pub backstop_bytes: u64,
}

impl Watermarks {
    /// The marks of a budget.
    pub fn new(budget_bytes: u64, config: &Config) -> Watermarks {
        let step = (budget_bytes / config.mark_share)
            .clamp(config.mark_bytes_min, config.mark_bytes_max)
            .min(budget_bytes / config.mark_share_most);
        let line_distance_bytes = config.distances().line_distance_bytes(budget_bytes);
        let approach_percent = u128::from(config.approach_percent);
        Watermarks {
            approach_bytes: (u128::from(budget_bytes) * approach_percent / 100) as u64,
            low_bytes: budget_bytes - 2 * step,
            high_bytes: budget_bytes - step,
            urgent_bytes: budget_bytes - (step + line_distance_bytes) / 2,
            line_bytes: budget_bytes.saturating_sub(line_distance_bytes),
            budget_bytes,
            backstop_bytes: config.distances().backstop_bytes(budget_bytes),
        }
    }
}

/// How much of a budget is in memory while pages have to go, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Where usage that grows fast is brought down to: as far below the low mark as reclaim gets
    /// ahead at most.
    pub least_bytes: u64,
    /// Where usage stands mostly: in the middle between the marks at which reclaim begins and ends.
    pub middle_bytes: u64,
    /// The line: usage stands there where the program takes memory as fast as it goes.
    pub most_bytes: u64,
}

impl Held {
    /// What is held of a budget.
    ///
    /// ```
    /// use strata_control::{Held, watermarks};
    ///
    /// let held = Held::of(128 << 20, &watermarks::Config::DEFAULT);
    /// assert!(held.least_bytes < held.middle_bytes && held.middle_bytes < held.most_bytes);
    /// assert!(held.most_bytes < 128 << 20);
    /// ```
    pub fn of(budget_bytes: u64, config: &Config) -> Held {
        let marks = Watermarks::new(budget_bytes, config);
        Held {
            least_bytes: marks.low_bytes - (marks.high_bytes - marks.low_bytes),
            middle_bytes: marks.low_bytes.midpoint(marks.high_bytes),
            most_bytes: marks.line_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::PAGE_BYTES;
    use crate::tunables::Tunables;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_larger_budget_holds_more_and_never_all_of_itself() {
        let budgets = (1..2000)
            .map(|n| n * 64 * PAGE_BYTES)
            .chain([1 << 33, 1 << 40]);
        let held = budgets.map(|budget| (budget, Held::of(budget, &Config::DEFAULT)));
        let held: Vec<(u64, Held)> = held.collect();
        for (budget, held) in &held {
            assert!(
                0 < held.least_bytes && held.most_bytes < *budget,
                "{held:?}"
            );
            assert!(held.least_bytes <= held.middle_bytes && held.middle_bytes <= held.most_bytes);
        }
        assert!(held.is_sorted_by_key(|(_, held)| held.least_bytes));
        assert!(held.is_sorted_by_key(|(_, held)| held.most_bytes));
    }

    fn assert_in_order(marks: &Watermarks) {
        let in_order = [
            0,
            marks.low_bytes,
            marks.high_bytes,
            marks.urgent_bytes,
            marks.line_bytes,
            marks.budget_bytes,
            marks.backstop_bytes,
        ];
        assert!(in_order.is_sorted_by(|a, b| a < b), "{marks:?}");
    }

    proptest! {
        #[test]
        fn the_marks_are_in_order_with_every_configuration_in_range(
            budget in MIB..1 << 40,
            mark_share in 16u64..=80,
            mark_bytes_min in 64u64 << 10..=12 << 20,
            mark_bytes_max in 16u64 << 20..=1 << 30,
            mark_share_most in 4u64..=16,
            line_share in 81u64..=1000,
            line_bytes in 64u64 << 10..=12 << 20,
        ) {
            let config = Config {
                mark_share,
                mark_bytes_min,
                mark_bytes_max,
                mark_share_most,
                line_share,
                line_bytes,
                ..Config::DEFAULT
            };
            config.validate().expect("in range");
            assert_in_order(&Watermarks::new(budget, &config));
        }
    }

    #[test]
    fn the_marks_lie_a_64th_apart_but_no_closer_than_512_kib_and_no_further_than_128_mib() {
        for (budget, distance) in [
            (320 * MIB, 5 * MIB),
            (8 * MIB, MIB / 2),
            (8192 * MIB, 128 * MIB),
            (16_384 * MIB, 128 * MIB),
        ] {
            let marks = Watermarks::new(budget, &Config::DEFAULT);
            let distances = [
                budget - marks.high_bytes,
                marks.high_bytes - marks.low_bytes,
            ];
            assert_eq!(distances, [distance; 2], "{budget}");
        }
    }
}
