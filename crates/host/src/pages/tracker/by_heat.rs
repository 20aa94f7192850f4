//! Choosing pages by heat: the coldest to go, the warmest to be kept.
//!
//! **Owns** what becomes of a choice: requests, by space and address. **Does not own** the choice (the engine), nor how
//! many pages are wanted.

use super::{Space, SpaceNo, Tracker};
use std::collections::BTreeMap;
use std::sync::Arc;
use strata_linux::actuator::{ColdPages, PageoutRequest, WarmPages};
use strata_linux::addr::{AddrRange, PAGE_BYTES};
use strata_lru::{FolioId, Foretold, Heat, HintCounts, Kind, Outside, Swappiness, TimeMs};

/// What the engine asks for of the pages of all spaces.
struct Pages<'a>(&'a BTreeMap<SpaceNo, Space>);

impl Outside for Pages<'_> {
    fn for_each_away(&self, space: SpaceNo, visit: &mut dyn FnMut(Heat, u64)) {
        if let Some(space) = self.0.get(&space) {
            space.for_each_away(visit);
        }
    }

    fn for_each_folio(&self, visit: &mut dyn FnMut(&[FolioId])) {
        self.0
            .values()
            .for_each(|space| space.for_each_folio(visit));
    }
}

impl Tracker {
    /// Finds the pages whose eviction costs least, to be taken by [`Tracker::isolate_cold`] until the
    /// next walk. Pages that would not go are left out for some walks.
    pub(crate) fn rank(&mut self, nr_pages: u64, swappiness: Swappiness) {
        let pages = Pages(&self.spaces);
        self.policy.rank(self.group, nr_pages, swappiness, &pages);
    }

    /// Folios ranked and not taken yet.
    pub(crate) fn nr_ranked(&self) -> usize {
        self.policy.nr_ranked(self.group)
    }

    /// Takes the coldest of those that were ranked, if any are left; one request a space. What a batch
    /// before this one showed to be in use again is passed over: the look before each batch reads whole
    /// tables, and a third of what was cold at a walk is not any more a quarter of a second later.
    pub(crate) fn isolate_cold(
        &mut self,
        nr_pages: u64,
        swappiness: Swappiness,
        now: TimeMs,
    ) -> Vec<PageoutRequest> {
        debug_assert!(!self.is_batch_out());
        let batch = &mut self.out.batch;
        self.policy
            .isolate_ranked(self.group, nr_pages, swappiness, now, batch);
        self.send_out()
    }

    /// Takes the warmest base pages for warm from now on, about so many percent of all (without heat: all but the first
    /// of each kind in the engine's order), and returns those of
    /// them that the kernel had on its inactive lists at the last walk. None of a space where those of before were not
    /// the ones used, as where another phase has begun or everything is used once.
    pub(crate) fn take_warm(&mut self, percent: u32, now: TimeMs) -> Vec<WarmPages> {
        self.policy
            .take_warm(self.group, percent, now, &Pages(&self.spaces));
        let policy = self.policy.as_ref();
        let is_foretold = |number: &SpaceNo| policy.is_foretold(self.group, *number);
        let foretold = self.spaces.iter().filter(|(number, _)| is_foretold(number));
        let found = foretold.map(|(_, space)| {
            let pages = space.inactive_pages(|folio| policy.is_warm(folio));
            (Arc::clone(&space.process), pages)
        });
        found.filter(|(_, pages)| !pages.is_empty()).collect()
    }

    /// The coldest of the base pages that the kernel had on its active lists at the last walk, so many at most; by
    /// process and address. None where it is not known of nearly all of them.
    pub(crate) fn coldest_active(&self, nr_pages: u64, swappiness: Swappiness) -> Vec<ColdPages> {
        let mut active = Vec::new();
        for space in self.spaces.values() {
            space.for_each_active(|folios| active.extend_from_slice(folios));
        }
        let pages = Pages(&self.spaces);
        let coldest = self
            .policy
            .coldest_of(self.group, &active, nr_pages, swappiness, &pages);
        let places = coldest.into_iter().map(|folio| self.place(folio));
        let mut places: Vec<_> = places.collect();
        places.sort_unstable();
        let mut cold: BTreeMap<SpaceNo, Vec<AddrRange>> = BTreeMap::new();
        for (number, addr) in places {
            let page = AddrRange::new(addr, addr + PAGE_BYTES);
            page.append_to(cold.entry(number).or_default());
        }
        cold.into_iter()
            .filter_map(|(number, ranges)| {
                let space = self.spaces.get(&number)?;
                Some((Arc::clone(&space.process), ranges))
            })
            .collect()
    }

    /// The kernel was told what is warm: what it takes from now on is held against that, until the next walk.
    pub(crate) fn hinted(&mut self, now: TimeMs) {
        self.policy.hinted(self.group, now, &Pages(&self.spaces));
    }

    /// What the kernel has taken while it was told what is warm, by kind.
    pub(crate) fn hint_counts(&self) -> [HintCounts; 2] {
        Kind::ALL.map(|kind| self.policy.hint_counts(self.group, kind))
    }

    /// Takes nothing for warm any more.
    pub(crate) fn forget_warm(&mut self) {
        self.policy.forget_warm(self.group);
    }

    /// How well the pages were chosen that the walk before the last one took for warm.
    pub(crate) fn foretold(&self) -> Foretold {
        self.policy.foretold(self.group)
    }

    /// How hot the hottest page is.
    #[cfg(test)]
    pub(crate) fn hottest(&self) -> Heat {
        let mut hottest = Heat::NONE;
        Pages(&self.spaces).for_each_folio(&mut |folios| {
            let heats = folios.iter().map(|folio| self.policy.heat(*folio));
            hottest = heats.fold(hottest, Heat::max);
        });
        hottest
    }
}
