//! Which folios of a group are the coldest: what each costs, and the cheapest of all.
//!
//! Two rounds over all folios: the first counts how many cost how much, the second takes those that cost little enough
//! ([`super::Cheapest`]). Who asks says in which order folios that cost the same go.
//!
//! **Owns** both rounds. **Does not own** heat (`by_heat`), or how spaces are measured (`scales`).
//!
//! **Invariants** I1: what is set aside, gone, or of a space that has ended is not among them.

use super::{
    ByHeat, Cheapest, Cost, Heat, HeatScale,
    folios::Marks,
    owners::{OwnerNo, View},
    scales::scales,
};
use crate::{
    ids::{FolioId, GroupId, SpaceNo},
    policy::Policy,
    swappiness::Swappiness,
};

impl<P: Policy> ByHeat<P> {
    /// Has the folios `coldest` of a group go first from now on.
    pub(super) fn rank_these(&mut self, group: GroupId, coldest: &[FolioId]) {
        for folio in coldest {
            self.folios.mark(*folio, Marks::RANKED, true);
        }
        let policy = &self.policy;
        let with_kind = coldest.iter().map(|folio| (*folio, policy.kind(*folio)));
        let ranked = with_kind.collect();
        self.group_mut(group).ranked = ranked;
    }

    /// How the spaces of a group compare, by number of the owner; `away` visits what of a space is not in memory.
    pub(super) fn scales(
        &self,
        group: GroupId,
        away: impl Fn(SpaceNo, &mut dyn FnMut(Heat, u64)),
    ) -> Vec<HeatScale> {
        let present = |seen: &mut dyn FnMut(OwnerNo, Heat, u64)| {
            for (first, owner, heats, marks) in self.folios.runs() {
                let of = self.owners.get(owner);
                if of.group != group {
                    continue;
                }
                for ((heat, marks), number) in heats.iter().zip(marks).zip(first..) {
                    if *heat > Heat::NONE && !marks.has(Marks::GONE) {
                        let nr_pages = self.nr_pages(FolioId(number), *marks);
                        seen(owner, of.now(*heat), nr_pages);
                    }
                }
            }
        };
        scales(&self.owners, group, present, |space, seen| {
            let owner = self.owners.find(group, space);
            away(space, &mut |heat, nr_pages| {
                seen(owner.map_or(heat, |of| of.now(heat)), nr_pages);
            });
        })
    }

    /// What it costs to evict a folio of one of these owners, if it may be ranked.
    #[inline]
    pub(super) fn cost(
        &self,
        folio: FolioId,
        swappiness: Swappiness,
        views: &[Option<View>],
    ) -> Option<Cost> {
        let owner = self.folios.owner(folio)?;
        let view = views.get(owner.index())?.as_ref()?;
        let is_candidate = self.folios.marks(folio).may_be_ranked();
        let heat = view.heat(self.folios.heats[folio.index()]);
        is_candidate.then(|| heat.cost(self.policy.kind(folio), swappiness))
    }

    /// The folios of a group whose eviction costs least, about so many base pages. Of equals the one that came first
    /// is the first.
    pub(super) fn coldest(
        &self,
        group: GroupId,
        nr_pages: u64,
        swappiness: Swappiness,
    ) -> Vec<FolioId> {
        let away = |space, seen: &mut dyn FnMut(Heat, u64)| {
            let of = self.group(group).into_iter();
            let away = of.flat_map(|of| of.away.of_space(space));
            away.for_each(|(heat, nr_pages)| seen(heat, nr_pages));
        };
        let views = self.owners.views(group, &self.scales(group, away));
        let mut cheapest = self.counted(nr_pages, swappiness, &views);
        for (folio, ..) in self.folios.iter() {
            if let Some(cost) = self.cost(folio, swappiness, &views) {
                cheapest.offer(folio, cost);
            }
        }
        // Which came first is told right while no more than 2^31 others came after.
        let age = |folio| {
            let came = self.folios.arrival(folio);
            std::cmp::Reverse(self.nr_arrivals.wrapping_sub(came))
        };
        cheapest.into_folios_by(age)
    }

    /// The first round over all folios of these owners that may be ranked.
    pub(super) fn counted(
        &self,
        nr_pages: u64,
        swappiness: Swappiness,
        views: &[Option<View>],
    ) -> Cheapest {
        let mut cheapest = Cheapest::new(nr_pages);
        for (first, owner, heats, marks) in self.folios.runs() {
            let Some(Some(view)) = views.get(owner.index()) else {
                continue;
            };
            for ((heat, marks), number) in heats.iter().zip(marks).zip(first..) {
                if marks.may_be_ranked() {
                    let folio = FolioId(number);
                    let cost = view.heat(*heat).cost(self.policy.kind(folio), swappiness);
                    cheapest.count(cost, self.nr_pages(folio, *marks));
                }
            }
        }
        cheapest
    }

    #[inline]
    fn nr_pages(&self, folio: FolioId, marks: Marks) -> u64 {
        match marks.has(Marks::BASE) {
            true => 1,
            false => self.policy.order(folio).nr_pages(),
        }
    }
}
