//! Holding the line: on v1 the hard limit one step below the budget, while nothing else keeps up (on v2
//! `memory.high`: `line_v2`).
//!
//! `memory.reclaim` does not exist on v1, and a dip can't win against a program that pulls pages
//! back faster than one thread reclaims: usage would stand between the budget and the backstop for
//! as long as that lasts. So the limit stands just below the budget before usage is there, or follows it
//! down, little by little, and the program reclaims in its own faults, as it would under the kernel
//! alone. Below means one dip's step (`watermarks::Config::line_distance_bytes`), because pages of shared libraries that
//! somebody else is charged for count in the program's resident memory too. With the OOM killer off
//! (see [`BudgetGroup::watch_oom`]) and relief at hand this kills nobody.
//!
//! **Owns** moving the limit between backstop and budget, and how far at a time. **Does not own** when
//! (`control`).
//!
//! **Invariants**
//! - L1: the line is never lower than one step below the budget.
//! - L2: a call takes [`STEPS_MAX`] times [`STEP_TIME_MAX`] at most.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{BudgetGroup, CgroupError, Line, Version};
use crate::addr::PAGE_BYTES;
use crate::sys::deadline::Deadline;

/// The kernel tries as long as it makes progress; a step that takes longer is given up.
pub(super) const STEP_TIME_MAX: Duration = Duration::from_millis(4);
/// How far below usage the limit is brought in one step: twice as far after each success, half as far
/// after a failure.
pub(super) const STEP_BYTES_MIN: u64 = 32 << 10;
/// See [`STEP_BYTES_MIN`].
const STEP_BYTES_MAX: u64 = 4 << 20;
/// Steps in one call.
const STEPS_MAX: u32 = 4;

impl BudgetGroup {
    /// Brings the hard limit (v1) or `memory.high` (v2) nearer to the line, as far as usage lets it.
    ///
    /// The kernel lowers a limit only at a moment when usage is below it, and reclaims until there is
    /// one; a program that takes pages back as fast as they go has such moments for small steps only.
    pub fn hold_line(&self) -> Result<Line, CgroupError> {
        let Some(budget) = self.budget_bytes() else {
            return Ok(Line::NotOffered);
        };
        if self.version == Version::V2 {
            return self.hold_high(budget);
        }
        let line = budget.saturating_sub(self.watermarks.line_distance_bytes(budget));
        let line = line - line % PAGE_BYTES;
        for _ in 0..STEPS_MAX {
            if self.is_limit_at(line)? {
                return Ok(Line::Held);
            }
            let step = self.line_step_bytes.load(Ordering::Relaxed);
            let is_lowered = self.lower_towards(line, step)?;
            let next = match is_lowered {
                true => (step * 2).min(STEP_BYTES_MAX),
                false => (step / 2).max(STEP_BYTES_MIN),
            };
            self.line_step_bytes.store(next, Ordering::Relaxed);
            if !is_lowered {
                break;
            }
        }
        Ok(match self.is_limit_at(line)? {
            true => Line::Held,
            false => Line::Moving,
        })
    }

    /// Whether the limit is wanted there, and stands there.
    fn is_limit_at(&self, line: u64) -> Result<bool, CgroupError> {
        Ok(self.wanted_limit() <= line && self.limit.read_number()? <= line)
    }

    fn lower_towards(&self, line: u64, step_bytes: u64) -> Result<bool, CgroupError> {
        self.heed_limit()?;
        // Where a dip has put an older limit back it stands above what is wanted.
        let stands = self.limit.read_number()?.max(self.wanted_limit());
        let usage = self.usage_bytes()?.min(stands);
        let target = usage.saturating_sub(step_bytes).max(line);
        let target = (target - target % PAGE_BYTES).min(self.ceiling());
        self.note_written(&self.limit.path, target)?;
        let _deadline = Deadline::for_this_thread(STEP_TIME_MAX)
            .map_err(|source| CgroupError::io("bounding a change of", &self.limit.path, source))?;
        if self.limit.write(&target.to_string()).is_err() {
            return Ok(false);
        }
        self.wanted_limit_bytes.store(target, Ordering::SeqCst);
        // A dip in another thread may have put the former limit back in between (one that does so from now on
        // sees what is wanted). Else not written twice: usage may be above it by what the kernel forces
        // through, and then a second write fails.
        Ok(self.limit.read_number()? <= target || self.limit.write(&target.to_string()).is_ok())
    }

    /// Puts the limit back to the backstop, and `memory.high` to what it was.
    pub fn release_line(&self) -> Result<(), CgroupError> {
        if self.version == Version::V2 {
            return self.release_high();
        }
        match self.budget_bytes() {
            Some(budget) if self.wanted_limit() < self.watermarks.backstop_bytes(budget) => {
                self.set_limit_bytes(Some(self.watermarks.backstop_bytes(budget)))
            }
            _ => Ok(()),
        }
    }
}
