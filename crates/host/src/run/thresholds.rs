//! Being woken when usage comes near the budget (v1).
//!
//! An idle loop looks once a second, and a program fills two gigabytes in that time. Two marks wake it: the one
//! from which walks come, so that the accessed bits that filling has set are gone before the kernel looks for
//! what is not in use (else it looks at all of memory once for nothing), and the one where reclaim starts.
//!
//! **Owns** which marks and when they count. **Does not own** the events (`cgroup::UsageWatch`) nor what is done
//! then (`reclaim_loop`).
//!
//! **Invariants** I1: usage that moves to and fro at the first mark wakes the loop until it was seen above it once;
//! the mark counts again after usage was less than half of it.

use std::os::fd::{AsFd, BorrowedFd};
use strata_control::{Watermarks, watermarks};
use strata_linux::cgroup::{BudgetGroup, CgroupError, UsageWatch};

/// The two events; none on v2, which offers none.
#[derive(Debug)]
pub(super) struct Thresholds {
    approach_bytes: u64,
    /// `None` once usage was seen above it.
    approach: Option<UsageWatch>,
    is_crossed: bool,
    high: Option<UsageWatch>,
}

impl Thresholds {
    /// Thresholds at both marks of a budget.
    pub(super) fn new(
        group: &BudgetGroup,
        budget_bytes: u64,
        config: &watermarks::Config,
    ) -> Result<Thresholds, CgroupError> {
        let marks = Watermarks::new(budget_bytes, config);
        Ok(Thresholds {
            approach_bytes: marks.approach_bytes,
            approach: group.usage_watch(marks.approach_bytes)?,
            is_crossed: false,
            high: group.usage_watch(marks.high_bytes)?,
        })
    }

    /// What may wake the loop.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let watches = self.approach.iter().chain(&self.high);
        watches.map(AsFd::as_fd)
    }

    /// Takes in the events.
    pub(super) fn take(&mut self) {
        if let Some(high) = &self.high {
            high.take();
        }
        self.is_crossed |= self.approach.as_ref().is_some_and(UsageWatch::take);
    }

    /// Has the first mark not count any more where it was crossed upwards, and again where usage is far below it.
    pub(super) fn follow(
        &mut self,
        group: &BudgetGroup,
        usage_bytes: u64,
    ) -> Result<(), CgroupError> {
        if std::mem::take(&mut self.is_crossed) && usage_bytes >= self.approach_bytes {
            self.approach = None;
        }
        let is_spent = self.approach.is_none() && self.high.is_some();
        if is_spent && usage_bytes < self.approach_bytes / 2 {
            self.approach = group.usage_watch(self.approach_bytes)?;
        }
        Ok(())
    }
}
