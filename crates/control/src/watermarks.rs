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
//! Below them all lies the approach, from where walks come.
//!
//! Above the urgent mark for a moment a batch of pageout's is on its way; above it, and not back at the
//! high mark for longer than that, pageout does not keep up.
//!
//! The urgent mark lies below the line: usage never gets past the line, and a mark behind it would never be reached.
//!
//! **Owns** the marks. **Does not own** what follows from them (`pressure`, `reclaimer`, `limit`).
//!
//! **Invariants** I1: low < high < urgent < line < budget < backstop, at every budget of a megabyte or more.

use crate::sample::PAGE_BYTES;

/// The distance between two marks is the budget divided by this.
const MARK_SHARE: u64 = 64;
/// ... but at least this, because the kernel charges in batches of 64 pages a CPU (never more than an eighth of the
/// budget), ...
const MARK_BYTES_MIN: u64 = 512 << 10;
/// ... and at most this.
const MARK_BYTES_MAX: u64 = 128 << 20;
/// Generations should exist before the first eviction, and accessed bits that only filling has set be cleared:
/// walks come above this share of the budget, in percent.
const APPROACH_PERCENT: u64 = 90;

/// Where the hard limit stands for a budget: budget + max(2 %, 8 MiB).
pub fn backstop_bytes(budget_bytes: u64) -> u64 {
    budget_bytes.saturating_add((budget_bytes / 50).max(8 << 20))
}

/// How far below a budget the line is: 1 %, at most 8 MiB, at least a page.
pub fn line_distance_bytes(budget_bytes: u64) -> u64 {
    let step = (budget_bytes / 100).min(8 << 20);
    (step - step % PAGE_BYTES).max(PAGE_BYTES)
}

/// Usage at which something begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Walks come from here on.
    pub approach_bytes: u64,
    /// Reclaim stops here.
    pub low_bytes: u64,
    /// Reclaim starts here.
    pub high_bytes: u64,
    /// Above it, `auto` asks the kernel to help.
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
    pub fn new(budget_bytes: u64) -> Watermarks {
        let step = (budget_bytes / MARK_SHARE)
            .clamp(MARK_BYTES_MIN, MARK_BYTES_MAX)
            .min(budget_bytes / 8);
        let line_distance_bytes = line_distance_bytes(budget_bytes);
        Watermarks {
            approach_bytes: (u128::from(budget_bytes) * u128::from(APPROACH_PERCENT) / 100) as u64,
            low_bytes: budget_bytes - 2 * step,
            high_bytes: budget_bytes - step,
            urgent_bytes: budget_bytes - (step + line_distance_bytes) / 2,
            line_bytes: budget_bytes.saturating_sub(line_distance_bytes),
            budget_bytes,
            backstop_bytes: backstop_bytes(budget_bytes),
        }
    }
}

/// How much of a budget is in memory while pages have to go, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Where usage that grows fast is brought down to: as far below the low mark as reclaim gets
    /// ahead at most.
    pub least_bytes: u64,
    /// Where it stands mostly: in the middle between the marks at which reclaim begins and ends.
    pub middle_bytes: u64,
    /// The line: usage stands there where the program takes memory as fast as it goes.
    pub most_bytes: u64,
}

impl Held {
    /// What is held of a budget.
    ///
    /// ```
    /// use strata_control::Held;
    ///
    /// let held = Held::of(128 << 20);
    /// assert!(held.least_bytes < held.middle_bytes && held.middle_bytes < held.most_bytes);
    /// assert!(held.most_bytes < 128 << 20);
    /// ```
    pub fn of(budget_bytes: u64) -> Held {
        let marks = Watermarks::new(budget_bytes);
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

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_backstop_is_two_percent_above_the_budget_at_least_8_mib() {
        assert_eq!(backstop_bytes(100 << 20), 108 << 20);
        assert_eq!(backstop_bytes(1000 << 20), 1020 << 20);
        assert_eq!(backstop_bytes(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_line_is_one_percent_below_at_most_8_mib_in_whole_pages() {
        assert_eq!(line_distance_bytes(100 << 20), 1 << 20);
        assert_eq!(line_distance_bytes(10 << 30), 8 << 20);
        assert_eq!(line_distance_bytes(1 << 20), 8192);
        assert_eq!(line_distance_bytes(4096), 4096);
    }

    #[test]
    fn a_larger_budget_holds_more_and_never_all_of_itself() {
        let budgets = (1..2000)
            .map(|n| n * 64 * PAGE_BYTES)
            .chain([1 << 33, 1 << 40]);
        let held: Vec<(u64, Held)> = budgets.map(|budget| (budget, Held::of(budget))).collect();
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

    /// The mark once lay above the line below 800 MiB: usage never reached it, the kernel was never
    /// asked, and the program reclaimed in its own faults at half the speed.
    #[test]
    fn the_urgent_mark_can_be_reached_below_the_line_at_every_budget() {
        for budget in [MIB / 2, 2 * MIB, 60 * MIB, 180 * MIB, 1 << 30, 1 << 36] {
            let marks = Watermarks::new(budget);
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
    }

    #[test]
    fn the_marks_lie_a_64th_apart_but_no_closer_than_512_kib_and_no_further_than_128_mib() {
        for (budget, distance) in [
            (320 * MIB, 5 * MIB),
            (8 * MIB, MIB / 2),
            (8192 * MIB, 128 * MIB),
            (16_384 * MIB, 128 * MIB),
        ] {
            let marks = Watermarks::new(budget);
            let distances = [
                budget - marks.high_bytes,
                marks.high_bytes - marks.low_bytes,
            ];
            assert_eq!(distances, [distance; 2], "{budget}");
        }
    }
}
