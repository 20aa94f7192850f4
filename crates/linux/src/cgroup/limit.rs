//! What a group may hold: the budget, the hard limit behind it, and who decides at the limit.
//!
//! **Owns** the values that are set; **does not own** reclaiming towards them (`reclaim`).

use std::sync::atomic::Ordering;

use super::file::{UNLIMITED, keyed_number, lock, read_text, write_text};
use super::{BudgetGroup, CgroupError, OomWatch, Version, written};
use crate::addr::PAGE_BYTES;

impl BudgetGroup {
    /// The hard limit as it stands; `None`: no limit.
    pub fn limit_bytes(&self) -> Result<Option<u64>, CgroupError> {
        let bytes = self.limit.read_number()?;
        Ok((bytes < UNLIMITED).then_some(bytes))
    }

    /// Sets the hard limit, in whole pages (rounded down); `None` lifts it. It is capped by the limit that was
    /// there in an attached group, and by what somebody else sets meanwhile.
    ///
    /// # Errors
    /// [`CgroupError::LimitBelowUsage`] rather than squeezing the program.
    pub fn set_limit_bytes(&self, limit_bytes: Option<u64>) -> Result<(), CgroupError> {
        self.heed_limit()?;
        let wanted = limit_bytes
            .map_or(u64::MAX, |bytes| bytes - bytes % PAGE_BYTES)
            .min(self.ceiling());
        let usage_bytes = self.usage_bytes()?;
        if wanted < usage_bytes && wanted < self.wanted_limit() {
            return Err(CgroupError::LimitBelowUsage {
                path: self.path.clone(),
                limit_bytes: wanted,
                usage_bytes,
            });
        }
        self.note_original(&self.limit.path, || {
            Ok(self.limit_text(self.limit.read_number()?))
        })?;
        self.wanted_limit_bytes.store(wanted, Ordering::SeqCst);
        self.write_wanted_limit()
    }

    /// Before each write of the limit: one that somebody else has set since the last is never exceeded from
    /// now on, and is what is put back.
    pub(super) fn heed_limit(&self) -> Result<(), CgroupError> {
        let found = self.limit.read_number()?;
        if self.is_foreign(&self.limit.path, found) {
            self.adopt(&self.limit.path, found)?;
            self.ceiling_bytes.store(found, Ordering::SeqCst);
            self.wanted_limit_bytes.fetch_min(found, Ordering::SeqCst);
        }
        Ok(())
    }

    /// What the limit never exceeds.
    pub(super) fn ceiling(&self) -> u64 {
        self.ceiling_bytes.load(Ordering::SeqCst)
    }

    /// The budget, if one was set.
    pub fn budget_bytes(&self) -> Option<u64> {
        match self.budget_bytes.load(Ordering::SeqCst) {
            u64::MAX => None,
            bytes => Some(bytes),
        }
    }

    /// Sets the budget: remembers it as the measure of [`BudgetGroup::reclaim`], and sets the hard
    /// limit to `LimitDistances::backstop_bytes`, or above what is in use if that is more; then
    /// [`BudgetGroup::settle_limit`] brings it down. Nor is it an error that usage has grown past the limit meanwhile: it is
    /// brought down to the budget tick by tick.
    pub fn set_budget_bytes(&self, budget_bytes: u64) -> Result<(), CgroupError> {
        self.budget_bytes.store(budget_bytes, Ordering::SeqCst);
        let of_usage = self.distances.backstop_bytes(self.usage_bytes()?);
        let limit = self.distances.backstop_bytes(budget_bytes).max(of_usage);
        match self.set_limit_bytes(Some(limit)) {
            // (v2) The line of the last budget says nothing of this one, and nobody lifts it who does not
            // know of it: usage would stay below a budget that is long gone.
            Ok(()) => self.release_high(),
            Err(CgroupError::LimitBelowUsage { .. }) => Ok(()),
            failed => failed,
        }
    }

    /// Lowers a limit that stands above the budget's backstop (after [`BudgetGroup::relieve`], or
    /// because usage was higher when the budget was set) as far as usage allows without reclaim.
    /// Writes nothing if it would gain less than a step.
    pub fn settle_limit(&self) -> Result<(), CgroupError> {
        let Some(budget) = self.budget_bytes() else {
            return Ok(());
        };
        let wanted = self.distances.backstop_bytes(budget);
        let backstop = wanted.min(self.ceiling());
        let headroom = wanted - budget;
        let lowest = backstop.max(self.usage_bytes()?.saturating_add(headroom));
        let gain = self.wanted_limit().saturating_sub(lowest);
        let step = self.distances.line_distance_bytes(budget);
        let is_worth_it = gain >= step || (gain > 0 && lowest == backstop);
        match is_worth_it {
            true => self.set_limit_bytes(Some(lowest)),
            false => Ok(()),
        }
    }

    /// Sets the kernel's balance of anon and file for reclaim in this group, 0..=200: for all of it
    /// on v1, for [`BudgetGroup::reclaim`] on v2 kernels that take it (6.8 and later).
    pub fn set_swappiness(&self, swappiness: u8) -> Result<(), CgroupError> {
        match self.version {
            Version::V1 => {
                let path = self.path.join("memory.swappiness");
                let file = self.here().join("memory.swappiness");
                let found = read_text(&file)?.trim().to_owned();
                // What somebody else has set meanwhile stays.
                if written::value_of(&found).is_some_and(|found| self.is_foreign(&path, found)) {
                    return Ok(());
                }
                self.note_original(&path, || Ok(found))?;
                self.note_written(&path, swappiness.min(200).into())?;
                write_text(&file, &swappiness.min(200).to_string())
            }
            Version::V2 => {
                let Some(file) = &self.reclaim else {
                    return Ok(());
                };
                // Asked once: a write waits for a request that another thread has under way.
                let is_known = lock(&self.reclaim_swappiness).is_some();
                // Zero bytes reclaim nothing, but the words are checked.
                if !is_known && file.write(&format!("0 swappiness={swappiness}")).is_err() {
                    return Ok(());
                }
                *lock(&self.reclaim_swappiness) = Some(swappiness.min(200));
                Ok(())
            }
        }
    }

    /// Turns to events for out-of-memory. On v1 this switches the OOM killer of the group off: from
    /// now on its tasks wait at the limit, and somebody must poll the watch and call
    /// [`BudgetGroup::relieve`] or [`BudgetGroup::hand_back_oom`]. On v2 the kernel still kills.
    pub fn watch_oom(&self) -> Result<OomWatch, CgroupError> {
        let watch = OomWatch::new(self)?;
        if self.version == Version::V1 {
            self.write_oom_kill_disable(1)?;
        }
        Ok(watch)
    }

    /// Raises the limit by `step_bytes`, so that waiting tasks go on. Returns how much it was raised:
    /// 0 where an attached group's own limit is reached.
    pub fn relieve(&self, step_bytes: u64) -> Result<u64, CgroupError> {
        let before = self.wanted_limit();
        if before >= UNLIMITED {
            return Ok(0);
        }
        self.set_limit_bytes(Some(before.saturating_add(step_bytes)))?;
        Ok(self.wanted_limit().saturating_sub(before))
    }

    /// (v1) Hands the decision back to the kernel: it kills in this group again, at once if tasks are
    /// waiting and nothing can be reclaimed.
    pub fn hand_back_oom(&self) -> Result<(), CgroupError> {
        match self.version {
            Version::V1 => self.write_oom_kill_disable(0),
            Version::V2 => Ok(()),
        }
    }

    fn write_oom_kill_disable(&self, value: u8) -> Result<(), CgroupError> {
        let path = self.path.join("memory.oom_control");
        let file = self.here().join("memory.oom_control");
        self.note_original(&path, || {
            let before = keyed_number(&read_text(&file)?, "oom_kill_disable");
            Ok(before.unwrap_or(0).to_string())
        })?;
        self.note_written(&path, value.into())?;
        write_text(&file, &value.to_string())
    }

    pub(super) fn wanted_limit(&self) -> u64 {
        self.wanted_limit_bytes.load(Ordering::SeqCst)
    }

    pub(super) fn limit_text(&self, bytes: u64) -> String {
        match self.version {
            _ if bytes < UNLIMITED => bytes.to_string(),
            Version::V1 => "-1".to_owned(),
            Version::V2 => "max".to_owned(),
        }
    }
}
