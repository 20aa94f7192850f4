//! Which of the budgets that were tried are told to people.
//!
//! The search for what is enough tries many budgets close to each other, of which most say nothing new.
//!
//! **Owns** that choice. **Does not own** the budgets (`super`), nor how a row is written.

use super::{Plan, Point, Ratio};

/// A budget is told that is so many hundredths of the footprint above the one told before.
const STEP_PERCENT: u64 = 5;
/// One is told, too, whose slowdown is less by more than one part in so many of what is acceptable,
/// and of what was told before.
const PART_OF_LIMIT: u64 = 3;
/// As [`PART_OF_LIMIT`], of what was told before.
const PART_OF_BEFORE: u64 = 4;

impl Plan {
    /// The budgets in which the curve bends, those that the answer names or that were asked for, and some between them.
    pub fn rows(&self) -> Vec<&Point> {
        let cliff = self.cliff.as_ref();
        let named = [
            self.budget_bytes.expected,
            self.budget_bytes.highest,
            cliff.map(|cliff| cliff.memory_bytes),
            self.points.last().map(|point| point.memory_bytes),
        ];
        let named: Vec<u64> = named.into_iter().flatten().collect();
        let step_bytes = self.footprint_bytes * STEP_PERCENT / 100;
        let step_slowdown = self.slowdown_limit.millionths() / PART_OF_LIMIT;
        let mut rows: Vec<&Point> = Vec::new();
        for point in &self.points {
            let is_new = rows.last().is_none_or(|before| {
                let is_less = |slowdown: fn(&Point) -> Ratio| {
                    let [was, is] = [slowdown(before), slowdown(point)].map(Ratio::millionths);
                    was.saturating_sub(is) > step_slowdown.max(was / PART_OF_BEFORE)
                };
                point.memory_bytes - before.memory_bytes >= step_bytes
                    || is_less(|point| point.slowdown.expected)
                    || is_less(|point| point.slowdown.highest)
            });
            if is_new || point.is_asked || named.contains(&point.memory_bytes) {
                rows.push(point);
            }
        }
        rows
    }
}
