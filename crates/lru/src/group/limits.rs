//! What a group may use, and how often that was felt.
//!
//! **Owns** the limits of one group, in base pages, and its event counters, both named as in cgroup
//! v2. **Does not own** who is measured against them (`tree`) or what is left of a protection once
//! relatives have had their part (`protection`): here is what that comes to.

/// What a group is protected with at this moment, in base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Effective `memory.min`.
    pub min_pages: u64,
    /// Effective `memory.low`.
    pub low_pages: u64,
    /// What the group uses, itself and below.
    pub usage_pages: u64,
}

impl Protection {
    /// Whether nothing may be taken.
    pub fn is_below_min(&self) -> bool {
        self.min_pages > 0 && self.usage_pages <= self.min_pages
    }

    /// Whether nothing may be taken as long as anybody else has something to give.
    pub fn is_below_low(&self) -> bool {
        self.low_pages > 0 && self.usage_pages <= self.low_pages
    }

    /// The part of `nr_pages` that pressure falls on: above its protection a group is reclaimed in
    /// proportion to the overage, and never by less than [`Protection::NR_SCAN_PAGES_MIN`].
    ///
    /// `nr_pages * (1 - protected / (usage + 1))`, where `low` protects unless `is_low_ignored`.
    pub fn exposed(&self, nr_pages: u64, is_low_ignored: bool) -> u64 {
        let low_pages = if is_low_ignored { 0 } else { self.low_pages };
        let protected = self.min_pages.max(low_pages);
        if protected == 0 {
            return nr_pages;
        }
        let usage_pages = u128::from(self.usage_pages.max(protected)) + 1;
        let spared = u128::from(nr_pages) * u128::from(protected) / usage_pages;
        let spared = u64::try_from(spared).unwrap_or(nr_pages);
        (nr_pages - spared).max(Self::NR_SCAN_PAGES_MIN)
    }

    /// The least pressure on a group that is not spared altogether (the kernel's SWAP_CLUSTER_MAX).
    pub const NR_SCAN_PAGES_MIN: u64 = 32;
}

/// Limits of one group, in base pages; the interface files of cgroup v2 (`memory.min` and so on).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Never reclaimed while usage is within the effective part of this. Default: 0.
    pub min_pages: u64,
    /// Reclaimed only when nothing unprotected is left. Default: 0.
    pub low_pages: u64,
    /// Above this the group is put under pressure. Default: [`Limits::MAX`].
    pub high_pages: u64,
    /// Never more than this. Default: [`Limits::MAX`].
    pub max_pages: u64,
    /// Swap the group may use. Default: [`Limits::MAX`].
    pub swap_max_pages: u64,
}

impl Limits {
    /// No limit (`max` in the interface files).
    pub const MAX: u64 = u64::MAX;

    /// Neither protected nor limited.
    pub const NONE: Limits = Limits {
        min_pages: 0,
        low_pages: 0,
        high_pages: Self::MAX,
        max_pages: Self::MAX,
        swap_max_pages: Self::MAX,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::NONE
    }
}

/// What is counted in `memory.events`; numbers of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GroupEvents {
    /// Reclaimed although usage was within the effective `low`.
    #[cfg_attr(feature = "serde", serde(rename = "low"))]
    pub nr_low: u64,
    /// Found above `high` and put under pressure.
    #[cfg_attr(feature = "serde", serde(rename = "high"))]
    pub nr_high: u64,
    /// About to go above `max`.
    #[cfg_attr(feature = "serde", serde(rename = "max"))]
    pub nr_max: u64,
}

/// One of the events a group counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupEvent {
    Low,
    High,
    Max,
}

impl GroupEvents {
    pub(super) fn count(&mut self, event: GroupEvent) {
        match event {
            GroupEvent::Low => self.nr_low += 1,
            GroupEvent::High => self.nr_high += 1,
            GroupEvent::Max => self.nr_max += 1,
        }
    }
}
