//! What of a group may go promise or not, and what it keeps in any case.
//!
//! **Owns** these bounds. **Does not own** which pages go (`strata_control::oldest`).

use super::{Asks, Group};
use crate::park::Keep;
use std::time::Duration;
use strata_control::guard::Leaning;
use strata_control::oldest::Holder;
use strata_linux::addr::PAGE_BYTES;
use strata_lru::GroupId;

impl Group {
    /// What was accessed within so long stays even where that asks for it. What is frozen uses nothing.
    pub(in crate::managed) fn least_age(&self, asks: Asks) -> Duration {
        match asks {
            _ if self.is_frozen => Duration::ZERO,
            Asks::OfHostNow => self.rule.min_age_when_short,
            Asks::OfHostAhead | Asks::BelowLimit | Asks::OfRule => self.rule.min_age,
        }
    }

    /// What of it may go promise or not; of its programs only where it gives that. Where the host is short, a group that rests goes whole,
    /// but for what its rule keeps of one that is parked.
    pub(in crate::managed) fn holder(
        &self,
        group: GroupId,
        gives_programs: bool,
        asks: Asks,
    ) -> Holder<'_> {
        let is_away = asks == Asks::OfHostNow && self.rests_for >= self.rule.min_age;
        let kept_pages = match self.rule.park_keep {
            Keep::Bytes(bytes) if is_away => bytes.div_ceil(PAGE_BYTES),
            // The working set of one that rests is what others use of it: that is within the least age.
            Keep::Bytes(_) | Keep::Nothing | Keep::WorkingSet => 0,
        };
        Holder {
            group,
            priority: self.rule.priority,
            rest: match is_away {
                true => self.rests_for,
                false => Duration::ZERO,
            },
            nr_pages_max: match gives_programs {
                true => self.above_pages(self.low_pages().max(kept_pages)),
                false => 0,
            },
            nr_anon_pages_max: self.anon_pages_max(),
            older_than: self.least_age(asks),
            spares_code: self.rule.protects_code,
            objects: None,
            cache: (self.cache).to_give(self.cache_above_low_pages(), asks.takes_once()),
        }
    }

    /// The most anonymous pages that may go at all.
    pub(in crate::managed) fn anon_pages_max(&self) -> u64 {
        match self.leaning() {
            Leaning::FileOnly => 0,
            Leaning::ByReturns | Leaning::FileFirst | Leaning::AnonFirst => u64::MAX,
        }
    }

    /// Pages that may go before only those are left that the group keeps in any case.
    pub(in crate::managed) fn above_low_pages(&self) -> u64 {
        self.above_pages(self.low_pages())
    }

    fn above_pages(&self, kept_pages: u64) -> u64 {
        let resident = self.resident.total().saturating_sub(self.went.total());
        resident.saturating_sub(kept_pages)
    }

    /// What the group keeps in any case: by its rule, or by the kernel's protection.
    fn low_pages(&self) -> u64 {
        let low_bytes = self.rule.low_bytes.max(self.protected_bytes);
        low_bytes.div_ceil(PAGE_BYTES)
    }

    /// Page cache that may go before only that is left which the group keeps in any case.
    pub(in crate::managed) fn cache_above_low_pages(&self) -> u64 {
        (self.above_pages(0) + self.cache.cached().unwrap_or(0)).saturating_sub(self.low_pages())
    }
}
