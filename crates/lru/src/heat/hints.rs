//! What of memory somebody else who reclaims is offered and what it is asked to spare, made of the engine's order; and what
//! became of that.
//!
//! ```text
//!   order of a kind   1 2 3 ... N | N+1 ...          offer: the first N are offered, all others are protected
//!   pages that went   . x . ... x |  .  x            obedience: offered / went
//!                     first M     |                  agreement: of M that went, those among the first M
//! ```
//!
//! The order is by heat where there is heat: coldest first, of equals in the order of [`Outside::for_each_folio`]. Else it is
//! that of [`Policy::eviction_order`]. In both a page that is younger than `min_ttl` is protected, and a page that is mapped
//! executable from a file and was used lately comes after all that are not.
//!
//! What it costs: by heat two rounds over the folios of a kind, about 20 ns a folio; by the policy's own order its copy (15 to
//! 100 ns a folio) and 110 ns for each folio offered.
//!
//! **Owns** which folios are offered, and the counts of what went. **Does not own** the order, how many are offered, or
//! how somebody is told.
//!
//! **Invariants**
//! - I1: only base pages are protected; what is isolated is not.
//! - I2: hints hold until the next walk of the group has ended; a page that came meanwhile does not count when it goes.
//! - I3: of pages that went no more were offered than went, and no more agree than were compared.

use super::{
    ByHeat, Heat, Outside,
    folios::Marks,
    owners::{OwnerNo, View},
};
use crate::{
    error::PolicyError,
    ids::{FolioId, GroupId, Kind, TimeMs},
    policy::Policy,
};

/// With heat the order is compared with what went after one of so many hints: to put folios in order takes longer than to
/// find the warm ones.
const HINTS_PER_COMPARISON: u64 = 8;
/// For a comparison the order is kept of so many base pages, and of twice as many as went the last time.
const NR_COMPARED_PAGES_MIN: u64 = 4096;

/// What became of pages while somebody else reclaimed and had hints; base pages of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HintCounts {
    /// Went.
    pub nr_gone_pages: u64,
    /// Pages that went and were not protected when they went.
    pub nr_gone_offered_pages: u64,
    /// Went between two hints of which the engine's order was kept.
    pub nr_compared_pages: u64,
    /// Pages that went and were among the first in the order, as many as went.
    pub nr_agreed_pages: u64,
    /// How many of the first in the order would have gone by chance.
    pub nr_agreed_by_chance_pages: f64,
}

/// A folio and its base pages: what has left can't be asked any more.
type Sized = (FolioId, u32);

/// How the hints of a kind stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    /// There are none.
    #[default]
    None,
    /// It was decided what is offered.
    Decided,
    /// Whoever reclaims was told: what goes now is held against it.
    Given,
}

/// What is offered of a kind, and what of it has gone.
#[derive(Clone, Debug, Default)]
struct OfKind {
    standing: Standing,
    /// The first of the order, if that was kept.
    first: Option<Vec<Sized>>,
    /// Base pages that were in memory.
    nr_pages: u64,
    gone: Vec<Sized>,
    /// Base pages that went between the hints before.
    nr_last_gone_pages: u64,
    counts: HintCounts,
}

impl OfKind {
    /// There are no hints any more: what went since the last ones is compared with the order.
    fn end(&mut self) {
        self.standing = Standing::None;
        let mut gone = std::mem::take(&mut self.gone);
        let nr_gone_pages = gone.iter().map(|(_, nr)| u64::from(*nr)).sum();
        self.nr_last_gone_pages = nr_gone_pages;
        let first = self.first.take().unwrap_or_default();
        gone.sort_unstable();
        let (mut nr_passed_pages, mut nr_agreed_pages) = (0, 0);
        for folio in &first {
            if nr_passed_pages >= nr_gone_pages {
                break;
            }
            let nr_pages = u64::from(folio.1).min(nr_gone_pages - nr_passed_pages);
            nr_passed_pages += nr_pages;
            nr_agreed_pages += match gone.binary_search(folio) {
                Ok(_) => nr_pages,
                Err(_) => 0,
            };
        }
        // Further the order was not kept.
        if nr_gone_pages == 0 || nr_passed_pages < nr_gone_pages {
            return;
        }
        let counts = &mut self.counts;
        counts.nr_compared_pages += nr_gone_pages;
        counts.nr_agreed_pages += nr_agreed_pages;
        let share = nr_gone_pages as f64 / self.nr_pages.max(nr_gone_pages) as f64;
        counts.nr_agreed_by_chance_pages += nr_gone_pages as f64 * share;
    }
}

/// The hints of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Hints {
    kinds: [OfKind; 2],
    nr_given: u64,
}

impl Hints {
    pub(super) fn memory_bytes(&self) -> u64 {
        let of_kind = |of: &OfKind| of.first.as_ref().map_or(0, Vec::capacity) + of.gone.capacity();
        let nr_folios: usize = self.kinds.iter().map(of_kind).sum();
        (nr_folios * size_of::<Sized>() + size_of::<Hints>()) as u64
    }
}

/// The first of an order, until they are so many base pages.
#[derive(Debug)]
struct First {
    folios: Vec<Sized>,
    nr_left_pages: u64,
}

impl First {
    fn of(nr_pages: u64) -> First {
        First {
            folios: Vec::new(),
            nr_left_pages: nr_pages,
        }
    }

    /// Takes one more; whether there is room for others.
    fn take(&mut self, folio: FolioId, nr_pages: u64) -> bool {
        if self.nr_left_pages > 0 {
            self.folios.push((folio, nr_pages as u32));
        }
        self.nr_left_pages = self.nr_left_pages.saturating_sub(nr_pages);
        self.nr_left_pages > 0
    }
}

/// Whether a folio is a page of executable code that was used lately.
fn is_running_code<P: Policy>(policy: &P, folio: FolioId, heat: Heat) -> bool {
    heat > Heat::NONE && policy.is_exec(folio) && policy.kind(folio) == Kind::File
}

/// Whether a folio is to be spared however cold it is.
pub(super) fn is_spared<P: Policy>(policy: &P, folio: FolioId, heat: Heat, now: TimeMs) -> bool {
    is_running_code(policy, folio, heat) || policy.is_too_young(folio, now)
}

impl<P: Policy> ByHeat<P> {
    fn hints_mut(&mut self, group: GroupId) -> &mut Hints {
        let number = usize::from(group.0);
        if self.hints.len() <= number {
            self.hints.resize_with(number + 1, Hints::default);
        }
        &mut self.hints[number]
    }

    pub(super) fn hint_counts_of(&self, group: GroupId, kind: Kind) -> HintCounts {
        let of = self.hints.get(usize::from(group.0));
        of.map_or_else(HintCounts::default, |of| of.kinds[kind.index()].counts)
    }

    /// Somebody else took a folio that is still in the books.
    pub(super) fn note_gone(&mut self, folio: FolioId) {
        let marks = self.folios.marks(folio);
        let Some(number) = self.folios.owner(folio) else {
            return;
        };
        let owner = self.owners.get(number);
        let is_told = owner.last_foretold.is_some_and(|of| of.holds());
        let group = owner.group;
        let was_there = !marks.has(Marks::NEW) && !marks.has(Marks::ISOLATED);
        if !is_told || !was_there {
            return;
        }
        let nr_pages = self.policy.order(folio).nr_pages();
        let kind = self.policy.kind(folio).index();
        let of = &mut self.hints_mut(group).kinds[kind];
        if of.standing != Standing::Given {
            return;
        }
        of.counts.nr_gone_pages += nr_pages;
        of.counts.nr_gone_offered_pages += nr_pages * u64::from(!marks.has(Marks::WARM));
        of.gone.push((folio, nr_pages as u32));
    }

    /// There are no hints any more.
    pub(super) fn end_hints(&mut self, group: GroupId) {
        if let Some(hints) = self.hints.get_mut(usize::from(group.0)) {
            hints.kinds.iter_mut().for_each(OfKind::end);
        }
    }

    /// It was decided what is offered of all kinds, by no order.
    pub(super) fn hints_are_decided(&mut self, group: GroupId) {
        self.end_hints(group);
        for of in &mut self.hints_mut(group).kinds {
            of.standing = Standing::Decided;
        }
    }

    /// Protects all that is in memory of a kind but what is offered; base pages of the kind.
    fn protect_all_but(&mut self, group: GroupId, kind: Kind, offered: &[Sized]) -> u64 {
        let mut nr_pages = 0;
        let Self {
            policy,
            folios,
            owners,
            ..
        } = self;
        for (number, owner) in folios.owners.iter().enumerate() {
            let is_there = *owner != OwnerNo::NONE;
            if !is_there || owners.get(*owner).group != group {
                continue;
            }
            let marks = &mut folios.marks[number];
            let folio = FolioId(number as u32);
            if marks.has(Marks::GONE) || policy.kind(folio) != kind {
                continue;
            }
            nr_pages += policy.order(folio).nr_pages();
            let may_be = marks.has(Marks::BASE) && !marks.has(Marks::ISOLATED);
            marks.set(Marks::WARM, may_be);
        }
        for (folio, _) in offered {
            folios.mark(*folio, Marks::WARM, false);
        }
        nr_pages
    }

    /// Base pages that are in memory of a kind.
    pub(super) fn nr_pages_of(&self, group: GroupId, kind: Kind) -> u64 {
        let of_group = self.folios.iter().filter(|(folio, owner, _, marks)| {
            let is_there = !marks.has(Marks::GONE) && self.policy.kind(*folio) == kind;
            is_there && self.owners.get(*owner).group == group
        });
        of_group
            .map(|(folio, ..)| self.policy.order(folio).nr_pages())
            .sum()
    }

    /// What walks have shown of each space of a group is what forecasts of it are judged by.
    pub(super) fn judge_forecasts(&mut self, group: GroupId) {
        for owner in self.owners.of_group_mut(group) {
            // Who has used nothing, as while it waited, shows nothing.
            if owner.foretold.has_uses() {
                owner.last_foretold = Some(owner.foretold);
            }
        }
    }

    /// The folios of a kind that may go, coldest first, until they are so many base pages.
    fn coldest_of_kind(
        &self,
        group: GroupId,
        kind: Kind,
        nr_pages: u64,
        now: TimeMs,
        outside: &dyn Outside,
    ) -> Vec<Sized> {
        let views: Vec<Option<View>> = self.views(group, outside);
        let mut ordered: Vec<(u32, u32, FolioId)> = Vec::new();
        outside.for_each_folio(&mut |folios| {
            for folio in folios {
                let owner = self.folios.owner(*folio);
                let view = owner.and_then(|of| views.get(of.index())?.as_ref());
                let marks = self.folios.marks(*folio);
                let is_out = marks.has(Marks::GONE) || marks.has(Marks::ISOLATED);
                let Some(view) = view.filter(|_| !is_out && self.policy.kind(*folio) == kind)
                else {
                    continue;
                };
                if self.policy.is_too_young(*folio, now) {
                    continue;
                }
                let heat = view.heat(self.folios.heats[folio.index()]);
                let is_code = is_running_code(&self.policy, *folio, heat);
                let key = u32::from(heat.0) | u32::from(is_code) << 16;
                ordered.push((key, ordered.len() as u32, *folio));
            }
        });
        // A folio is a page at least.
        let nr_folios = usize::try_from(nr_pages).unwrap_or(usize::MAX);
        if nr_folios < ordered.len() {
            ordered.select_nth_unstable(nr_folios);
            ordered.truncate(nr_folios);
        }
        ordered.sort_unstable();
        let mut first = First::of(nr_pages);
        for (_, _, folio) in ordered {
            if !first.take(folio, self.policy.order(folio).nr_pages()) {
                break;
            }
        }
        first.folios
    }

    /// The folios of a kind that the policy would evict next, until they are so many base pages.
    fn next_of_kind(
        &self,
        group: GroupId,
        kind: Kind,
        nr_pages: u64,
        now: TimeMs,
    ) -> Result<Vec<Sized>, PolicyError> {
        let mut first = First::of(nr_pages);
        let mut code = Vec::new();
        if nr_pages == 0 {
            return Ok(first.folios);
        }
        for folio in self.policy.eviction_order(group, kind, now)? {
            let heat = self.folios.heats[folio.index()];
            if self.policy.is_too_young(folio, now) {
                continue;
            }
            if is_running_code(&self.policy, folio, heat) {
                code.push(folio);
            } else if !first.take(folio, self.policy.order(folio).nr_pages()) {
                return Ok(first.folios);
            }
        }
        for folio in code {
            if !first.take(folio, self.policy.order(folio).nr_pages()) {
                break;
            }
        }
        Ok(first.folios)
    }

    fn first_of_kind(
        &self,
        group: GroupId,
        kind: Kind,
        nr_pages: u64,
        now: TimeMs,
        outside: &dyn Outside,
    ) -> Result<Vec<Sized>, PolicyError> {
        match self.has_heat {
            true => {
                self.policy.groups().get(group)?;
                Ok(self.coldest_of_kind(group, kind, nr_pages, now, outside))
            }
            false => self.next_of_kind(group, kind, nr_pages, now),
        }
    }
}

impl<P: Policy> ByHeat<P> {
    /// See [`super::HeatPolicy::offer`].
    pub(super) fn offer_first(
        &mut self,
        group: GroupId,
        kind: Kind,
        nr_offered_pages: u64,
        now: TimeMs,
        outside: &dyn Outside,
    ) -> Result<u64, PolicyError> {
        self.take_walks_in();
        let offered = self.first_of_kind(group, kind, nr_offered_pages, now, outside)?;
        self.judge_forecasts(group);
        let nr_pages = self.protect_all_but(group, kind, &offered);
        let nr_offered = offered.iter().map(|(_, nr)| u64::from(*nr)).sum();
        let of = &mut self.hints_mut(group).kinds[kind.index()];
        of.end();
        of.standing = Standing::Decided;
        (of.first, of.nr_pages) = (Some(offered), nr_pages);
        Ok(nr_offered)
    }

    /// See [`super::HeatPolicy::hinted`].
    pub(super) fn begin_hints(&mut self, group: GroupId, now: TimeMs, outside: &dyn Outside) {
        let hints = self.hints_mut(group);
        let is_compared = hints.nr_given.is_multiple_of(HINTS_PER_COMPARISON);
        hints.nr_given += 1;
        for kind in Kind::ALL {
            let of = &mut self.hints_mut(group).kinds[kind.index()];
            if of.standing != Standing::Decided {
                continue;
            }
            of.standing = Standing::Given;
            if of.first.is_some() || !is_compared {
                continue;
            }
            let nr_pages = NR_COMPARED_PAGES_MIN + 2 * of.nr_last_gone_pages;
            let first = self.first_of_kind(group, kind, nr_pages, now, outside).ok();
            let nr_pages = self.nr_pages_of(group, kind);
            let of = &mut self.hints_mut(group).kinds[kind.index()];
            (of.first, of.nr_pages) = (first, nr_pages);
        }
    }
}
