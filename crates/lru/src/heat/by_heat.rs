//! The coldest first: a policy around a policy, what `strata run` evicts by default.
//!
//! Generations know when a page was last accessed; heat knows in how many of the last walks. Each walk of
//! a group ranks its coldest folios, and these go first. When none of them are left the policy within
//! decides, until the next walk.
//!
//! ```text
//!   isolate --walk due?--> NeedsAgeing: the mechanism walks all tables of the group, finish_walk
//!      |                      +-> heat of every folio, twice as many ranked as went since the last walk
//!      +----> the coldest that are ranked, but what was found accessed since
//!      +----> none left: the policy within
//! ```
//!
//! While folios have to go a walk is due every [`HEAT_WALK_MS`], and after [`HEAT_WALK_MS_MIN`] where all that were
//! ranked have gone. Of folios that cost the same the one that came first goes first. Spaces are compared by
//! what each uses ([`super::HeatScale`]).
//!
//! That is how it goes by itself: every walk reaches all spaces, and counts whole. A mechanism that has reasons of its
//! own to walk and to rank says when ([`super::HeatPolicy`]).
//!
//! **Owns** the heat of what is in memory, who is ranked, and when a walk is due for it. **Does not own** what
//! becomes of folios that are tried (the policy within), or the heat of what is away (the mechanism).
//!
//! **Invariants**
//! - I1: an access counts once in the walk after it, whoever has cleared its bit.
//! - I2: who is ranked is in memory, and was when it was ranked.

use std::collections::VecDeque;

use super::{
    Foretold, HEAT_WALK_MS, HEAT_WALK_MS_MIN, Heat, NR_RANKED_PAGES_MIN, PastHeat, Ranking,
    folios::{Folio, Folios, Marks},
    hints::Hints,
    owners::{Due, Owners},
    scales::Away,
};
use crate::{
    error::PolicyError,
    ids::{FolioId, GroupId, Kind, NodeId, Order, TimeMs},
    policy::Policy,
    seam::{Arrival, EvictBatch, Isolated, ReclaimRequest, Verdict},
    swappiness::Swappiness,
};

/// Between two walks at least this part of what a group has is expected to have to go.
const USAGE_PER_EXCESS: u64 = 64;

/// When folios are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ranks {
    /// After every walk, and walks are asked for.
    ByItself,
    /// When the mechanism says so.
    WhenTold,
}

/// What is known of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct OfGroup {
    /// Coldest first; some may have left since.
    pub(super) ranked: VecDeque<(FolioId, Kind)>,
    nr_taken_pages: u64,
    walked_at: Option<TimeMs>,
    pub(super) nr_walks: u32,
    pub(super) away: Away,
    /// Walks since folios that would not go were last ranked again.
    pub(super) nr_walks_aside: u32,
}

impl OfGroup {
    /// The group with other folios ranked, and nothing known of what is away.
    pub(super) fn ranked_as(&self, ranked: VecDeque<(FolioId, Kind)>) -> OfGroup {
        OfGroup {
            ranked,
            away: Away::default(),
            ..*self
        }
    }
}

/// A policy whose coldest folios go first.
///
/// Deterministic: the same calls give the same answers and the same state.
#[derive(Debug)]
pub struct ByHeat<P> {
    pub(super) policy: P,
    pub(super) ranks: Ranks,
    pub(super) folios: Folios,
    pub(super) owners: Owners,
    /// By number of the group.
    pub(super) groups: Vec<OfGroup>,
    pub(super) nr_arrivals: u32,
    /// Whether folios are chosen by heat; else by the policy's own order, and none is ever ranked.
    pub(super) has_heat: bool,
    /// By number of the group.
    pub(super) hints: Vec<Hints>,
}

impl<P: Policy> ByHeat<P> {
    /// Around a policy that has no folios yet.
    pub fn new(policy: P) -> ByHeat<P> {
        ByHeat {
            policy,
            ranks: Ranks::ByItself,
            folios: Folios::default(),
            owners: Owners::default(),
            groups: Vec::new(),
            nr_arrivals: 0,
            has_heat: true,
            hints: Vec::new(),
        }
    }

    /// Around a policy that has no folios yet, for a mechanism that says when folios are to be ranked
    /// ([`super::HeatPolicy`]).
    pub fn when_told(policy: P) -> ByHeat<P> {
        ByHeat {
            ranks: Ranks::WhenTold,
            ..ByHeat::new(policy)
        }
    }

    /// Around a policy that goes by its own order alone: walks are followed and hints are given, but no heat decides.
    pub fn by_order(policy: P) -> ByHeat<P> {
        ByHeat {
            has_heat: false,
            ..ByHeat::when_told(policy)
        }
    }

    pub(super) fn group(&self, group: GroupId) -> Option<&OfGroup> {
        self.groups.get(usize::from(group.0))
    }

    pub(super) fn group_mut(&mut self, group: GroupId) -> &mut OfGroup {
        let number = usize::from(group.0);
        if self.groups.len() <= number {
            self.groups.resize_with(number + 1, OfGroup::default);
        }
        &mut self.groups[number]
    }

    /// A group begins; what was kept of one that had its number before is void.
    pub(super) fn begin_group(&mut self, group: GroupId) {
        *self.group_mut(group) = OfGroup::default();
        if let Some(hints) = self.hints.get_mut(usize::from(group.0)) {
            *hints = Hints::default();
        }
    }

    pub(super) fn arrived(&mut self, folio: FolioId, arrival: &Arrival) {
        let is_away_counted = self.ranks == Ranks::ByItself;
        let group = self.group_mut(arrival.group);
        let remaining = arrival.heat.at(group.nr_walks);
        let (heat, is_seen) = remaining;
        if is_away_counted {
            let nr_pages = arrival.order.nr_pages();
            group.away.came_back(arrival.space, remaining, nr_pages);
        }
        let owner = self.owners.number(arrival.group, arrival.space);
        self.owners.came(owner);
        let marks = Marks::NEW
            .with(Marks::SEEN, is_seen)
            .with(Marks::BASE, arrival.order == Order::BASE);
        let came = Folio {
            heat,
            owner,
            marks,
            arrival: self.nr_arrivals,
            node: arrival.node,
        };
        self.folios.put(folio, came);
        if self.ranks == Ranks::ByItself {
            self.nr_arrivals = self.nr_arrivals.wrapping_add(1);
        }
    }

    /// A folio was found accessed.
    #[inline]
    pub(super) fn seen(&mut self, folio: FolioId) {
        self.folios.saw(folio);
    }

    /// A folio's heat after the last walk of its space, and whether it was accessed since.
    pub(super) fn heat_of(&self, folio: FolioId) -> (Heat, bool) {
        let Some(owner) = self.folios.owner(folio) else {
            return (Heat::NONE, false);
        };
        let heat = self.folios.heats[folio.index()];
        let is_seen = self.folios.marks(folio).has(Marks::SEEN);
        match self.owners.due(owner) {
            None => (heat, is_seen),
            Some(Due::LeftOut) => (heat, false),
            Some(Due::Walked(step)) => (step.next(heat, is_seen), false),
        }
    }

    /// What is to be kept of a folio that leaves for others to come.
    pub(super) fn left(&mut self, folio: FolioId) -> PastHeat {
        let Some(number) = self.folios.owner(folio) else {
            return PastHeat::NONE;
        };
        let (heat, is_seen) = self.heat_of(folio);
        let owner = self.owners.get(number);
        let (of_group, space) = (owner.group, owner.space);
        let nr_pages = self.policy.order(folio).nr_pages();
        let is_away_counted = self.ranks == Ranks::ByItself;
        let group = self.group_mut(of_group);
        let past = PastHeat::new(heat, is_seen, group.nr_walks);
        if is_away_counted {
            group.away.left(space, past, nr_pages);
        }
        past
    }

    /// A folio is not in memory any more. While it is isolated its number is not another's.
    pub(super) fn forget(&mut self, folio: FolioId) {
        let Some(owner) = self.folios.owner(folio) else {
            return;
        };
        if self.folios.marks(folio).has(Marks::ISOLATED) {
            self.folios.mark(folio, Marks::GONE, true);
        } else {
            self.folios.remove(folio);
            self.owners.left(owner);
        }
    }

    /// A folio was taken off its list.
    pub(super) fn isolated(&mut self, folio: FolioId) {
        self.folios.mark(folio, Marks::ISOLATED, true);
    }

    /// What was isolated is so no longer; whether it is still in memory.
    pub(super) fn end_isolation(&mut self, folio: FolioId) -> bool {
        self.folios.mark(folio, Marks::ISOLATED, false);
        let is_there = self.folios.owner(folio).is_some();
        let is_gone = self.folios.marks(folio).has(Marks::GONE);
        if is_gone {
            self.forget(folio);
        }
        is_there && !is_gone
    }

    /// A folio moved to a node, or could not, or is gone.
    pub(super) fn moved(&mut self, folio: FolioId, to: Option<NodeId>) {
        if self.end_isolation(folio)
            && let Some(node) = to
        {
            self.folios.set_node(folio, node);
        }
    }

    /// Marks what a batch holds.
    pub(super) fn handed_out(&mut self, batch: &EvictBatch) {
        for folio in batch.folios.iter().chain(&batch.to_check) {
            self.isolated(*folio);
        }
    }

    /// What became of a batch: heats, in the order of its folios.
    pub(super) fn settle(&mut self, batch: &mut EvictBatch, verdicts: &[Verdict]) {
        batch.heats.clear();
        for (number, folio) in batch.to_check.iter().enumerate() {
            let is_there = self.end_isolation(*folio);
            if is_there && batch.young.get(number) == Some(&true) {
                self.seen(*folio);
            }
        }
        for (folio, verdict) in batch.folios.iter().zip(verdicts) {
            let is_there = self.end_isolation(*folio);
            let past = match (verdict, self.ranks) {
                (Verdict::Evicted, _) | (Verdict::Gone, Ranks::WhenTold) if is_there => {
                    self.left(*folio)
                }
                _ => PastHeat::NONE,
            };
            batch.heats.push(past);
            match (verdict, self.ranks) {
                (Verdict::Evicted | Verdict::Gone, _) => self.forget(*folio),
                (Verdict::Referenced, Ranks::ByItself) => self.seen(*folio),
                // It is cold at every walk, and would be tried again after each.
                (Verdict::Shared | Verdict::Dirty | Verdict::Unevictable, Ranks::WhenTold) => {
                    self.folios.mark(*folio, Marks::ASIDE, true)
                }
                _ => {}
            }
        }
    }

    /// Who goes first in a group.
    pub(super) fn ranking_of(&self, group: GroupId, now: TimeMs) -> Ranking {
        if self.ranks == Ranks::WhenTold {
            return Ranking::None;
        }
        let Some(of) = self.group(group) else {
            return Ranking::Due;
        };
        let pause_ms = match of.ranked.is_empty() {
            true => HEAT_WALK_MS_MIN,
            false => HEAT_WALK_MS,
        };
        let is_due = of.walked_at.is_none_or(|then| now.since(then) >= pause_ms);
        match (is_due, of.ranked.is_empty()) {
            (true, _) => Ranking::Due,
            (false, false) => Ranking::Left,
            (false, true) => Ranking::None,
        }
    }

    pub(super) fn isolate_coldest(
        &mut self,
        request: ReclaimRequest,
        now: TimeMs,
        batch: &mut EvictBatch,
    ) -> Result<Isolated, PolicyError> {
        let group = request.group;
        let nr_evictable =
            self.policy
                .nr_evictable_pages(group, request.node, request.swappiness)?;
        match self.ranking_of(group, now) {
            Ranking::Due if nr_evictable > 0 => {
                batch.clear();
                return Ok(Isolated::NeedsAgeing);
            }
            Ranking::Left => {
                let nr_pages = self.take_ranked(request, now, batch);
                if nr_pages > 0 {
                    return Ok(Isolated::Pages(nr_pages));
                }
            }
            Ranking::Due | Ranking::None => {}
        }
        self.policy.isolate(request, now, batch)
    }

    /// Takes the coldest that are ranked and that the request allows; base pages. What it does not allow stays
    /// ranked, unless folios are ranked when the mechanism says so: it walks again when none are left.
    pub(super) fn take_ranked(
        &mut self,
        request: ReclaimRequest,
        now: TimeMs,
        batch: &mut EvictBatch,
    ) -> u64 {
        let mut ranked = std::mem::take(&mut self.group_mut(request.group).ranked);
        let mut others = Vec::new();
        let (folios, owners, ranks) = (&mut self.folios, &self.owners, self.ranks);
        let mut coldest = std::iter::from_fn(|| {
            loop {
                let (folio, kind) = ranked.pop_front()?;
                let marks = folios.marks(folio);
                // Its number may be another's by now.
                let owner = folios.owner(folio).filter(|_| marks.has(Marks::RANKED));
                if owner.is_none_or(|of| owners.get(of).group != request.group) {
                    continue;
                }
                let node = folios.node(folio);
                let swappiness = request.one_pass.map_or(request.swappiness, |of| {
                    of.swappiness_on(node, request.swappiness)
                });
                let is_of_node = request.node.is_none_or(|asked| asked == node);
                let is_allowed = is_of_node && swappiness.allows(kind);
                if !is_allowed && ranks == Ranks::ByItself {
                    others.push((folio, kind));
                    continue;
                }
                folios.mark(folio, Marks::RANKED, false);
                if !marks.has(Marks::SEEN) {
                    return Some(folio);
                }
            }
        });
        let nr_pages = self.policy.isolate_chosen(
            &mut coldest,
            request.nr_pages,
            request.swappiness,
            now,
            batch,
        );
        let others = others.into_iter().rev();
        others.for_each(|of| ranked.push_front(of));
        let group = self.group_mut(request.group);
        group.ranked = ranked;
        group.nr_taken_pages += nr_pages;
        nr_pages
    }

    /// All of a group was walked: heat, and who goes next.
    pub(super) fn walked(
        &mut self,
        group: GroupId,
        swappiness: Swappiness,
        now: TimeMs,
    ) -> Result<(), PolicyError> {
        let nr_usage_pages = self.policy.groups().usage_pages(group)?;
        self.owners.walked_all(group);
        self.look_is_over(group);
        let of = self.group_mut(group);
        of.away.cool();
        of.nr_walks += 1;
        of.walked_at = Some(now);
        let nr_expected =
            std::mem::take(&mut of.nr_taken_pages) + nr_usage_pages / USAGE_PER_EXCESS;
        let nr_pages = (2 * nr_expected).max(NR_RANKED_PAGES_MIN);
        let coldest = self.coldest(group, nr_pages, swappiness);
        self.rank_these(group, &coldest);
        Ok(())
    }

    /// What walks found is taken in: nobody of the group is ranked any more, and no hints hold.
    pub(super) fn look_is_over(&mut self, group: GroupId) {
        self.take_walks_in();
        self.end_hints(group);
        let ranked = std::mem::take(&mut self.group_mut(group).ranked);
        for (folio, _) in ranked {
            // Its number may be another's by now, of another group.
            let owner = self.folios.owner(folio);
            if owner.is_some_and(|of| self.owners.get(of).group == group) {
                self.folios.mark(folio, Marks::RANKED, false);
            }
        }
    }

    /// Heat after the walks that have ended, and what they foretold.
    pub(super) fn take_walks_in(&mut self) {
        let Some(due) = self.owners.take_due() else {
            return;
        };
        let mut foretold = vec![Foretold::default(); due.len()];
        let Folios {
            heats,
            owners,
            marks,
            ..
        } = &mut self.folios;
        let (mut heats, mut marks) = (&mut heats[..], &mut marks[..]);
        for run in owners.chunk_by(|owner, next| owner == next) {
            let (own_heats, own_marks);
            (own_heats, heats) = heats.split_at_mut(run.len());
            (own_marks, marks) = marks.split_at_mut(run.len());
            let number = run[0].index();
            match due.get(number).copied().flatten() {
                None => {}
                Some(Due::LeftOut) => own_marks
                    .iter_mut()
                    .for_each(|of| of.set(Marks::SEEN, false)),
                Some(Due::Walked(step)) => {
                    step.take_in(own_heats, own_marks);
                    foretold[number] += take_marks_in(own_marks);
                }
            }
        }
        for (number, found) in foretold.into_iter().enumerate() {
            if let Some(Some(Due::Walked(_))) = due.get(number) {
                self.owners.foretold(number, found);
            }
        }
    }

    /// Bytes beside the policy's own.
    pub(super) fn own_memory_bytes(&self) -> u64 {
        let ranked = self.groups.iter().map(|of| of.ranked.capacity());
        let ranked = ranked.sum::<usize>() * size_of::<(FolioId, Kind)>();
        let groups = self.groups.capacity() * size_of::<OfGroup>();
        let away: u64 = self.groups.iter().map(|of| of.away.memory_bytes()).sum();
        let hints: u64 = self.hints.iter().map(Hints::memory_bytes).sum();
        (ranked + groups) as u64
            + away
            + hints
            + self.folios.memory_bytes()
            + self.owners.memory_bytes()
    }

    /// Checks that exactly what is in memory has a heat, and that who is ranked stands in its group's row.
    pub(super) fn recount(&self) -> Result<(), String> {
        let present = self.folios.iter();
        let nr_pages: u64 = present
            .map(|(folio, ..)| self.policy.order(folio).nr_pages())
            .sum();
        let charged = self.policy.groups().usage_pages_of_all();
        if nr_pages != charged {
            return Err(format!(
                "{nr_pages} pages have a heat, {charged} are charged"
            ));
        }
        let in_rows = self.groups.iter().zip(0..).flat_map(|(of, group)| {
            let is_of_group = move |folio: &FolioId| {
                let owner = self.folios.owner(*folio);
                owner.is_some_and(|of| self.owners.get(of).group == GroupId(group))
            };
            let row = of.ranked.iter().map(|(folio, _)| *folio);
            row.filter(|folio| self.folios.marks(*folio).has(Marks::RANKED))
                .filter(is_of_group)
        });
        let marked = self.folios.iter();
        let marked = marked.filter(|(_, _, _, marks)| marks.has(Marks::RANKED));
        let (nr_in_rows, nr_marked) = (in_rows.count(), marked.count());
        if nr_in_rows != nr_marked {
            return Err(format!("{nr_marked} are ranked, {nr_in_rows} in a row"));
        }
        Ok(())
    }
}

/// A walk came by folios: of those that stayed since the one before, how many were taken for warm, and used.
fn take_marks_in(marks: &mut [Marks]) -> Foretold {
    let (mut all, mut warm, mut used, mut warm_used) = (0, 0, 0, 0);
    // So that sums of a byte each do.
    for marks in marks.chunks_mut(128) {
        let mut sums = [0u8; 4];
        for of in marks {
            let stayed = of.has(Marks::BASE) & !of.has(Marks::NEW) & !of.has(Marks::GONE);
            let (is_warm, is_used) = (of.has(Marks::WARM), of.has(Marks::SEEN));
            sums[0] += u8::from(stayed);
            sums[1] += u8::from(stayed & is_warm);
            sums[2] += u8::from(stayed & is_used);
            sums[3] += u8::from(stayed & is_warm & is_used);
            of.set(Marks::SEEN, false);
            of.set(Marks::NEW, false);
        }
        all += u64::from(sums[0]);
        warm += u64::from(sums[1]);
        used += u64::from(sums[2]);
        warm_used += u64::from(sums[3]);
    }
    Foretold {
        nr_warm_pages: warm,
        nr_warm_used_pages: warm_used,
        nr_other_pages: all - warm,
        nr_other_used_pages: used - warm_used,
    }
}
