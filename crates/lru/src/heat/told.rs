//! Heat for a mechanism that has reasons of its own to walk and to rank: it says when, and asks what is warm.
//!
//! ```text
//!   of a space    begin_space_walk -> accessed* / appeared* / gone* -> end_space_walk      or: leave_out
//!   of a group    finish_look, or finish_walk (a generation is born)
//!   then          rank -> isolate_ranked*      take_warm or offer -> is_warm, hinted, foretold      coldest_active
//! ```
//!
//! Spaces that have not run are left out of walks, and walks count half where little was new to the one before. What
//! was tried and won't go soon is not ranked for some walks. A page's heat while it is away is kept up to date outside
//! ([`WalkStep::cool`]): walks of a space are not alike, so their number alone would not tell.
//!
//! **Owns** which folios are cold and in which order, which are warm, and whether heat foretold what was used.
//! **Does not own** when any of it is asked for, where folios lie, or on which of the kernel's lists.
//!
//! **Invariants**
//! - I1: what walks found is taken in before anything is chosen by it.

use super::{
    ByHeat, Cheapest, Foretold, Heat, HeatSpread, HintCounts, WALKS_REMEMBERED, WalkStep,
    folios::Marks, hints::is_spared, owners::View,
};
use crate::{
    error::PolicyError,
    eviction_order::PlayedOut,
    ids::{FolioId, GroupId, Kind, SpaceNo, TimeMs},
    policy::Policy,
    seam::{EvictBatch, ReclaimRequest},
    swappiness::Swappiness,
};

/// Of the active pages so many must be those of spaces of which it is known which are cold, percent, before any
/// is named.
const TOLD_PERCENT_MIN: u64 = 90;

/// What a mechanism knows of pages that a policy has no need to keep.
pub trait Outside {
    /// Visits the pages of a space that were evicted and are not back, with the heat that is kept of each, and base
    /// pages. Only asked where several spaces are to be compared.
    fn for_each_away(&self, space: SpaceNo, visit: &mut dyn FnMut(Heat, u64));

    /// Visits what is in memory, some folios at a time, in the order in which those that cost the same are to go.
    fn for_each_folio(&self, visit: &mut dyn FnMut(&[FolioId]));
}

/// A policy whose coldest folios go first when it is told so.
pub trait HeatPolicy: Policy {
    /// Whether heat decides; else the policy's own order does, and nothing is ever ranked.
    fn has_heat(&self) -> bool;

    /// How hot a folio is, as it is to be kept of its page while that is away: walks that have left its space out
    /// lately are still to come.
    fn heat(&self, folio: FolioId) -> Heat;

    /// Whose page a live folio is.
    fn space(&self, folio: FolioId) -> SpaceNo;

    /// A walk of a space begins. What it makes of the heat of pages that are away.
    fn begin_space_walk(&mut self, group: GroupId, space: SpaceNo) -> WalkStep;

    /// A walk of a space has ended: of so many pages in memory so many were new. A walk that fails does not end.
    fn end_space_walk(
        &mut self,
        group: GroupId,
        space: SpaceNo,
        nr_new_pages: u64,
        nr_resident_pages: u64,
    );

    /// A walk of the group leaves a space out, because it has not run.
    fn leave_out(&mut self, group: GroupId, space: SpaceNo);

    /// A space has ended; everything that was in memory of it is gone, or in a batch.
    fn space_ended(&mut self, group: GroupId, space: SpaceNo);

    /// All spaces of a group were walked or left out: nobody is ranked any more, and no generation is born.
    fn finish_look(&mut self, group: GroupId);

    /// Nobody of a group is ranked any more.
    fn forget_ranked(&mut self, group: GroupId);

    /// Finds the folios whose eviction costs least, about so many base pages, to be taken by
    /// [`HeatPolicy::isolate_ranked`].
    fn rank(
        &mut self,
        group: GroupId,
        nr_pages: u64,
        swappiness: Swappiness,
        outside: &dyn Outside,
    );

    /// Folios that were ranked and not taken yet, gone or not.
    fn nr_ranked(&self, group: GroupId) -> usize;

    /// Takes the coldest that are ranked into `batch` (cleared first), but those that were found accessed since, until
    /// it holds so many base pages; returns how many it holds.
    fn isolate_ranked(
        &mut self,
        group: GroupId,
        nr_pages_max: u64,
        swappiness: Swappiness,
        now: TimeMs,
        batch: &mut EvictBatch,
    ) -> u64;

    /// Whether a folio was tried lately and won't go soon.
    fn is_set_aside(&self, folio: FolioId) -> bool;

    /// Takes the hottest base pages for warm from now on, about so many percent of all; without heat all of each kind but
    /// the first of the policy's own order. Running code, and what is younger than `min_ttl`, is warm whatever it is else.
    fn take_warm(&mut self, group: GroupId, percent: u32, now: TimeMs, outside: &dyn Outside);

    /// Offers the next so many base pages of a kind, in the engine's order, to somebody else who reclaims, and takes all
    /// other base pages of the kind that are in memory for warm from now on: these are to be protected. Base pages that are
    /// offered, fewer where the order ends before. The order: coldest first; without heat [`Policy::eviction_order`].
    ///
    /// # Errors
    /// There is no such group.
    fn offer(
        &mut self,
        group: GroupId,
        kind: Kind,
        nr_offered_pages: u64,
        now: TimeMs,
        outside: &dyn Outside,
    ) -> Result<u64, PolicyError>;

    /// Whoever reclaims was told what is warm. What goes from now on by that one's choice is counted against it, of spaces
    /// whose warm pages are known, until warm pages are found anew or forgotten.
    fn hinted(&mut self, group: GroupId, now: TimeMs, outside: &dyn Outside);

    /// What has gone while hints were given.
    fn hint_counts(&self, group: GroupId, kind: Kind) -> HintCounts;

    /// Whether a folio is taken for warm.
    fn is_warm(&self, folio: FolioId) -> bool;

    /// Takes nothing for warm any more: what was is not so by the time of the next walk that asks.
    fn forget_warm(&mut self, group: GroupId);

    /// How well the pages were chosen that the walk before the last one took for warm.
    fn foretold(&self, group: GroupId) -> Foretold;

    /// Whether the warm pages of a space were the ones that were used last when [`HeatPolicy::take_warm`] was asked; not
    /// so where another phase has begun, or everything is used once.
    fn is_foretold(&self, group: GroupId, space: SpaceNo) -> bool;

    /// The coldest of these base pages, so many at most, of equals those that come first; but what is set aside. None
    /// where it is not known of nearly all of them which are cold: some spaces would keep all of theirs, and the
    /// others pay for them.
    fn coldest_of(
        &self,
        group: GroupId,
        pages: &[FolioId],
        nr_pages: u64,
        swappiness: Swappiness,
        outside: &dyn Outside,
    ) -> Vec<FolioId>;
}

impl<P: Policy> ByHeat<P> {
    pub(super) fn views(&self, group: GroupId, outside: &dyn Outside) -> Vec<Option<View>> {
        let scales = self.scales(group, |space, seen| outside.for_each_away(space, seen));
        self.owners.views(group, &scales)
    }
}

impl<P: PlayedOut> HeatPolicy for ByHeat<P> {
    fn has_heat(&self) -> bool {
        self.has_heat
    }

    fn heat(&self, folio: FolioId) -> Heat {
        self.heat_of(folio).0
    }

    fn space(&self, folio: FolioId) -> SpaceNo {
        let owner = self.folios.owner(folio);
        owner.map_or_else(SpaceNo::default, |of| self.owners.get(of).space)
    }

    fn begin_space_walk(&mut self, group: GroupId, space: SpaceNo) -> WalkStep {
        let owner = self.owners.number(group, space);
        if self.owners.is_due(owner) {
            self.take_walks_in();
        }
        self.owners.begin_walk(owner)
    }

    fn end_space_walk(
        &mut self,
        group: GroupId,
        space: SpaceNo,
        nr_new_pages: u64,
        nr_resident_pages: u64,
    ) {
        let owner = self.owners.number(group, space);
        self.owners.end_walk(owner, nr_new_pages, nr_resident_pages);
    }

    fn leave_out(&mut self, group: GroupId, space: SpaceNo) {
        let owner = self.owners.number(group, space);
        if self.owners.is_due(owner) {
            self.take_walks_in();
        }
        self.owners.left_out(owner);
    }

    fn space_ended(&mut self, group: GroupId, space: SpaceNo) {
        self.owners.ended(group, space);
    }

    fn finish_look(&mut self, group: GroupId) {
        self.look_is_over(group);
        let of = self.group_mut(group);
        of.nr_walks_aside += 1;
        if of.nr_walks_aside >= WALKS_REMEMBERED {
            of.nr_walks_aside = 0;
            let (owners, folios) = (&self.owners, &mut self.folios);
            for (owner, marks) in folios.owners.iter().zip(&mut folios.marks) {
                if marks.has(Marks::ASIDE) && owners.get(*owner).group == group {
                    marks.set(Marks::ASIDE, false);
                }
            }
        }
    }

    fn forget_ranked(&mut self, group: GroupId) {
        self.look_is_over(group);
    }

    fn rank(
        &mut self,
        group: GroupId,
        nr_pages: u64,
        swappiness: Swappiness,
        outside: &dyn Outside,
    ) {
        self.look_is_over(group);
        if !self.has_heat {
            return;
        }
        let views = self.views(group, outside);
        let mut cheapest = self.counted(nr_pages, swappiness, &views);
        outside.for_each_folio(&mut |folios| {
            for folio in folios {
                if let Some(cost) = self.cost(*folio, swappiness, &views) {
                    cheapest.offer(*folio, cost);
                }
            }
        });
        self.rank_these(group, &cheapest.into_folios());
    }

    fn nr_ranked(&self, group: GroupId) -> usize {
        self.group(group).map_or(0, |of| of.ranked.len())
    }

    fn isolate_ranked(
        &mut self,
        group: GroupId,
        nr_pages_max: u64,
        swappiness: Swappiness,
        now: TimeMs,
        batch: &mut EvictBatch,
    ) -> u64 {
        let request = ReclaimRequest {
            swappiness,
            ..ReclaimRequest::new(group, nr_pages_max)
        };
        let nr_pages = self.take_ranked(request, now, batch);
        self.handed_out(batch);
        nr_pages
    }

    fn is_set_aside(&self, folio: FolioId) -> bool {
        self.folios.marks(folio).has(Marks::ASIDE)
    }

    fn take_warm(&mut self, group: GroupId, percent: u32, now: TimeMs, outside: &dyn Outside) {
        self.take_walks_in();
        if !self.has_heat {
            for kind in Kind::ALL {
                let nr_pages = self.nr_pages_of(group, kind);
                let nr_offered_pages = nr_pages * u64::from(100 - percent.min(100)) / 100;
                // A group that is not there has no pages.
                let _ = self.offer_first(group, kind, nr_offered_pages, now, outside);
            }
            return;
        }
        let views = self.views(group, outside);
        let mut spread = HeatSpread::new();
        for (_, owner, heats, marks) in self.folios.runs() {
            let Some(Some(view)) = views.get(owner.index()) else {
                continue;
            };
            for (heat, marks) in heats.iter().zip(marks) {
                if marks.has(Marks::BASE) {
                    spread.count(view.heat(*heat), 1);
                }
            }
        }
        let lukewarm = spread.exceeded_by(percent);
        // By owner: what is as hot as this is warm.
        let least = views
            .iter()
            .map(|view| view.map(|of| of.least_above(lukewarm)));
        let least: Vec<Option<Option<Heat>>> = least.collect();
        let Self { policy, folios, .. } = self;
        let heats = folios.owners.iter().zip(&folios.heats);
        for (((owner, heat), marks), number) in heats.zip(&mut folios.marks).zip(0..) {
            if let Some(Some(least)) = least.get(owner.index()) {
                let is_hot = least.is_some_and(|least| *heat >= least);
                let is_base = marks.has(Marks::BASE);
                let folio = FolioId(number);
                let is_warm = is_base && (is_hot || is_spared(policy, folio, *heat, now));
                marks.set(Marks::WARM, is_warm);
            }
        }
        self.judge_forecasts(group);
        self.hints_are_decided(group);
    }

    fn offer(
        &mut self,
        group: GroupId,
        kind: Kind,
        nr_offered_pages: u64,
        now: TimeMs,
        outside: &dyn Outside,
    ) -> Result<u64, PolicyError> {
        self.offer_first(group, kind, nr_offered_pages, now, outside)
    }

    fn hinted(&mut self, group: GroupId, now: TimeMs, outside: &dyn Outside) {
        self.begin_hints(group, now, outside);
    }

    fn hint_counts(&self, group: GroupId, kind: Kind) -> HintCounts {
        self.hint_counts_of(group, kind)
    }

    fn is_warm(&self, folio: FolioId) -> bool {
        self.folios.marks(folio).has(Marks::WARM)
    }

    fn forget_warm(&mut self, group: GroupId) {
        self.take_walks_in();
        self.end_hints(group);
        for owner in self.owners.of_group_mut(group) {
            owner.last_foretold = None;
        }
        let owners = &self.owners;
        let columns = &mut self.folios;
        for (owner, marks) in columns.owners.iter().zip(&mut columns.marks) {
            if marks.has(Marks::WARM) && owners.get(*owner).group == group {
                marks.set(Marks::WARM, false);
            }
        }
    }

    fn foretold(&self, group: GroupId) -> Foretold {
        let mut sum = Foretold::default();
        let owners = self.owners.all().iter();
        owners
            .filter(|of| of.group == group && of.is_there())
            .for_each(|of| sum += of.foretold);
        sum
    }

    fn is_foretold(&self, group: GroupId, space: SpaceNo) -> bool {
        let owner = self.owners.find(group, space);
        let last = owner.and_then(|of| of.last_foretold);
        last.is_some_and(|of| of.holds())
    }

    fn coldest_of(
        &self,
        group: GroupId,
        pages: &[FolioId],
        nr_pages: u64,
        swappiness: Swappiness,
        outside: &dyn Outside,
    ) -> Vec<FolioId> {
        let owner = |folio: FolioId| {
            let number = self.folios.owner(folio);
            number.map(|number| self.owners.get(number))
        };
        let views = self.views(group, outside);
        let (mut nr_told_pages, mut nr_all_pages) = (0, 0);
        let mut cheapest = Cheapest::new(nr_pages);
        let mut told = Vec::with_capacity(pages.len());
        for folio in pages {
            let Some(cost) = self.cost(*folio, swappiness, &views) else {
                continue;
            };
            nr_all_pages += 1;
            if owner(*folio).is_some_and(|of| of.is_told_apart()) {
                nr_told_pages += 1;
                cheapest.count(cost, 1);
                told.push((*folio, cost));
            }
        }
        if nr_told_pages * 100 < nr_all_pages * TOLD_PERCENT_MIN {
            return Vec::new();
        }
        for (folio, cost) in told {
            cheapest.offer(folio, cost);
        }
        let mut coldest = cheapest.into_folios();
        coldest.truncate(usize::try_from(nr_pages).unwrap_or(usize::MAX));
        coldest
    }
}
