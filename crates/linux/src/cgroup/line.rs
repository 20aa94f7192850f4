//! Holding the line: on v1 the hard limit one step below the budget, while nothing else keeps up (on v2
//! `memory.high`: `line_v2`).
//!
//! `memory.reclaim` does not exist on v1, and a dip can't win against a program that pulls pages
//! back faster than one thread reclaims: usage would stand between the budget and the backstop for
//! as long as that lasts. So the limit stands just below the budget before usage is there, or follows it
//! down, little by little, and the program reclaims in its own faults, as it would under the kernel
//! alone. Below means one dip's step (`LimitDistances::line_distance_bytes`), because pages of shared libraries that
//! somebody else is charged for count in the program's resident memory too. With the OOM killer off
//! (see [`BudgetGroup::watch_oom`]) and relief at hand this kills nobody.
//!
//! **Owns** moving the limit between backstop and budget, and how far at a time. **Does not own** when
//! (`control`).
//!
//! **Invariants**
//! - L1: the line is never lower than one step below the budget.
//! - L2: a call takes [`STEPS_MAX`] times [`STEP_TIME_MAX`] at most; a step of `memory.high` takes [`STEP_TIME_MAX`].

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::file::lock;
use super::line_v2::{HighLine, Step};
use super::{BudgetGroup, CgroupError, Line, STEP_BYTES_MIN, Version};
use crate::addr::PAGE_BYTES;
use crate::sys::deadline::Deadline;

/// The kernel tries as long as it makes progress; a step that takes longer is given up.
const STEP_TIME_MAX: Duration = Duration::from_millis(4);
/// The most that the limit is brought below usage in one step.
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
        let line = budget.saturating_sub(self.distances.line_distance_bytes(budget));
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
            Some(budget) if self.wanted_limit() < self.distances.backstop_bytes(budget) => {
                self.set_limit_bytes(Some(self.distances.backstop_bytes(budget)))
            }
            _ => Ok(()),
        }
    }

    /// Brings `memory.high` nearer to the line, as far as usage lets it.
    fn hold_high(&self, budget: u64) -> Result<Line, CgroupError> {
        let Some(high) = &self.high else {
            return Ok(Line::NotOffered);
        };
        // A limit that stood above usage when the budget was set comes down behind the line.
        self.settle_limit()?;
        let line = budget.saturating_sub(self.distances.line_distance_bytes(budget));
        let line = line - line % PAGE_BYTES;
        self.heed_high(high)?;
        let found_bytes = high.found();
        if found_bytes <= line {
            return Ok(Line::Held);
        }
        let usage = self.usage_bytes()?;
        let step = lock(&high.state).step(Instant::now(), line, budget, usage);
        match step {
            Step::Stay(line) => Ok(line),
            Step::Lift => {
                tracing::debug!("memory.high does not hold {}", self.path.display());
                self.release_high()?;
                Ok(Line::Resting)
            }
            Step::Lower(target) if target >= found_bytes => Ok(Line::Moving),
            Step::Lower(target) => {
                self.note_original(&high.file.path, || Ok(self.limit_text(found_bytes)))?;
                // The kernel sets it first and then reclaims down to it, for as long as the program
                // pulls pages back; a signal ends that.
                let _deadline = Deadline::for_this_thread(STEP_TIME_MAX).map_err(|source| {
                    CgroupError::io("bounding a change of", &high.file.path, source)
                })?;
                self.write_high(high, target)?;
                lock(&high.state).set_bytes = Some(target);
                Ok(match target <= line {
                    true => Line::Held,
                    false => Line::Moving,
                })
            }
        }
    }

    /// (v2) Puts `memory.high` back to what was found: at once when nothing can be reclaimed, because
    /// tasks would be made to sleep.
    pub fn release_high(&self) -> Result<(), CgroupError> {
        let Some(high) = &self.high else {
            return Ok(());
        };
        let is_set = || lock(&high.state).set_bytes.is_some();
        if is_set() {
            self.heed_high(high)?;
        }
        if is_set() {
            self.write_high(high, high.found())?;
            high.forget();
        }
        Ok(())
    }

    /// Before each write: what somebody else has written since the last is never exceeded from now on, and
    /// is what is put back.
    fn heed_high(&self, high: &HighLine) -> Result<(), CgroupError> {
        let found = high.file.read_number()?;
        let is_foreign = self.is_foreign(&high.file.path, found);
        if is_foreign {
            self.adopt(&high.file.path, found)?;
            high.forget();
        }
        if is_foreign || lock(&high.state).set_bytes.is_none() {
            high.found_bytes.store(found, Ordering::SeqCst);
        }
        Ok(())
    }

    fn write_high(&self, high: &HighLine, bytes: u64) -> Result<(), CgroupError> {
        self.note_written(&high.file.path, bytes)?;
        high.file
            .write(&self.limit_text(bytes))
            .map_err(|source| CgroupError::io("writing", &high.file.path, source))
    }
}
