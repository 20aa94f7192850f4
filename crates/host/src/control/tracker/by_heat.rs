//! Choosing pages by heat: the coldest to go, the warmest to be kept.
//!
//! **Owns** the ranking between two walks. **Does not own** heat (`strata_lru::Heat`), nor how many pages
//! are wanted.

use super::super::activation::Foretold;
use super::Tracker;
use crate::actuator::{PageoutRequest, WarmPages};
use std::sync::Arc;
use strata_lru::{Cheapest, FolioId, HeatSpread, Swappiness, TimeMs};

impl Tracker {
    /// Finds the pages whose eviction costs least, to be taken by [`Tracker::isolate_cold`] until the
    /// next walk. Pages that would not go are left out for some walks.
    pub(in super::super) fn rank(&mut self, nr_pages: u64, swappiness: Swappiness) {
        let mut cheapest = Cheapest::new(nr_pages);
        let policy = self.policy.as_ref();
        for space in self.spaces.values() {
            space.for_each_heat(|folio, heat| {
                let cost = heat.cost(policy.kind(folio), swappiness);
                cheapest.count(cost, policy.order(folio).nr_pages());
            });
        }
        for space in self.spaces.values() {
            space.for_each_heat(|folio, heat| {
                cheapest.offer(folio, heat.cost(policy.kind(folio), swappiness));
            });
        }
        self.cold = cheapest.into_folios().into();
    }

    /// Folios ranked and not taken yet.
    pub(in super::super) fn nr_ranked(&self) -> usize {
        self.cold.len()
    }

    /// Takes the coldest of those that were ranked, if any are left; one request a space. What a batch
    /// before this one showed to be in use again is passed over: the look before each batch reads whole
    /// tables, and a third of what was cold at a walk is not any more a quarter of a second later.
    pub(in super::super) fn isolate_cold(
        &mut self,
        nr_pages: u64,
        swappiness: Swappiness,
        now: TimeMs,
    ) -> Vec<PageoutRequest> {
        debug_assert!(!self.is_batch_out());
        let (places, spaces) = (&self.places, &self.spaces);
        let is_unused = |folio: &FolioId| {
            let (number, addr) = places.get(*folio);
            spaces
                .get(&number)
                .is_some_and(|space| !space.is_seen(addr))
        };
        let cold = &mut self.cold;
        let ranked = std::iter::from_fn(|| cold.pop_front());
        let mut coldest = ranked.filter(is_unused);
        let batch = &mut self.out.batch;
        self.policy
            .isolate_chosen(&mut coldest, nr_pages, swappiness, now, batch);
        self.send_out()
    }

    /// Takes the warmest base pages for warm from now on, so many percent of all, and returns those of them
    /// that the kernel may take next.
    pub(in super::super) fn take_warm(&mut self, percent: u32) -> Vec<WarmPages> {
        let mut spread = HeatSpread::new();
        for space in self.spaces.values() {
            space.for_each_base_heat(|heat| spread.count(heat, 1));
        }
        let lukewarm = spread.exceeded_by(percent);
        let spaces = self.spaces.values_mut();
        let warm = spaces.map(|space| (Arc::clone(&space.process), space.take_warm(lukewarm)));
        warm.filter(|(_, pages)| !pages.is_empty()).collect()
    }

    /// How well the pages were chosen that the walk before the last one took for warm.
    pub(in super::super) fn foretold(&self) -> Foretold {
        let mut sum = Foretold::default();
        self.spaces.values().for_each(|space| sum += space.foretold);
        sum
    }
}
