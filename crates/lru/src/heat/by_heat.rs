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
//! Simpler than a live run: every walk reaches all spaces, and counts whole.
//!
//! **Owns** the heat of what is in memory, who is ranked, and when a walk is due for it. **Does not own** what
//! becomes of folios that are tried (the policy within), or the heat of what is away (the mechanism).
//!
//! **Invariants**
//! - I1: an access counts once in the walk after it, whoever has cleared its bit.
//! - I2: who is ranked is in memory, and was when it was ranked.

use std::collections::VecDeque;

use super::{
    Cheapest, HEAT_WALK_MS, HEAT_WALK_MS_MIN, Heat, NR_RANKED_PAGES_MIN, PastHeat,
    scales::{Away, Scales},
};
use crate::{
    ids::{FolioId, GroupId, Kind, NodeId, Order, SpaceNo, TimeMs},
    seam::{
        Arrival, EvictBatch, Isolated, Policy, PolicyError, ReclaimRequest, Swappiness, Verdict,
    },
};

/// Between two walks at least this part of what a group has is expected to have to go.
const USAGE_PER_EXCESS: u64 = 64;

/// Who goes before the lists are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranking {
    /// Nobody: folios go in the order of the lists.
    None,
    /// That is not known any more: walk all of the group's tables first.
    Due,
    /// Some folios; [`Policy::isolate`] takes them.
    Left,
}

/// What is known of a folio.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) heat: Heat,
    pub(super) group: GroupId,
    pub(super) space: SpaceNo,
    /// Folios that came before it, wrapping.
    pub(super) arrival: u32,
    pub(super) node: NodeId,
    pub(super) kind: Kind,
    pub(super) order: Order,
    /// Accessed since the last walk, by whoever found out.
    pub(super) is_seen: bool,
    pub(super) is_ranked: bool,
    /// In a batch, or on its way to another node.
    pub(super) is_isolated: bool,
    /// Gone while it was isolated: its number is not free yet.
    pub(super) is_gone: bool,
}

impl Entry {
    fn nr_pages(&self) -> u64 {
        self.order.nr_pages()
    }
}

/// What is known of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct OfGroup {
    /// Coldest first; some may have left since.
    pub(super) ranked: VecDeque<FolioId>,
    nr_taken_pages: u64,
    walked_at: Option<TimeMs>,
    pub(super) nr_walks: u32,
    pub(super) away: Away,
}

impl OfGroup {
    /// The same with others ranked, and nothing known of what is away.
    pub(super) fn ranked_as(&self, ranked: VecDeque<FolioId>) -> OfGroup {
        OfGroup {
            ranked,
            nr_taken_pages: self.nr_taken_pages,
            walked_at: self.walked_at,
            nr_walks: self.nr_walks,
            away: Away::default(),
        }
    }
}

/// A policy whose coldest folios go first.
///
/// Deterministic: the same calls give the same answers and the same state.
#[derive(Debug)]
pub struct ByHeat<P> {
    pub(super) policy: P,
    /// By folio; `None` where there is none.
    pub(super) entries: Vec<Option<Entry>>,
    /// By number of the group.
    pub(super) groups: Vec<OfGroup>,
    pub(super) nr_arrivals: u32,
}

impl<P: Policy> ByHeat<P> {
    /// Around a policy that has no folios yet.
    pub fn new(policy: P) -> ByHeat<P> {
        ByHeat {
            policy,
            entries: Vec::new(),
            groups: Vec::new(),
            nr_arrivals: 0,
        }
    }

    /// How hot a folio in memory was at the last walk of its group.
    pub fn heat(&self, folio: FolioId) -> Heat {
        self.entry(folio).map_or(Heat::NONE, |of| of.heat)
    }

    pub(super) fn entry(&self, folio: FolioId) -> Option<&Entry> {
        self.entries.get(folio.index())?.as_ref()
    }

    pub(super) fn entry_mut(&mut self, folio: FolioId) -> Option<&mut Entry> {
        self.entries.get_mut(folio.index())?.as_mut()
    }

    fn group_mut(&mut self, group: GroupId) -> &mut OfGroup {
        let number = usize::from(group.0);
        if self.groups.len() <= number {
            self.groups.resize_with(number + 1, OfGroup::default);
        }
        &mut self.groups[number]
    }

    /// A group begins; what was kept of one that had its number before is void.
    pub(super) fn begin_group(&mut self, group: GroupId) {
        *self.group_mut(group) = OfGroup::default();
    }

    pub(super) fn arrived(&mut self, folio: FolioId, arrival: &Arrival) {
        let group = self.group_mut(arrival.group);
        let remaining = arrival.heat.at(group.nr_walks);
        let nr_pages = arrival.order.nr_pages();
        group.away.came_back(arrival.space, remaining, nr_pages);
        if self.entries.len() <= folio.index() {
            self.entries.resize(folio.index() + 1, None);
        }
        let (heat, is_seen) = remaining;
        self.entries[folio.index()] = Some(Entry {
            heat,
            group: arrival.group,
            space: arrival.space,
            arrival: self.nr_arrivals,
            node: arrival.node,
            kind: arrival.kind,
            order: arrival.order,
            is_seen,
            is_ranked: false,
            is_isolated: false,
            is_gone: false,
        });
        self.nr_arrivals = self.nr_arrivals.wrapping_add(1);
    }

    /// A folio was found accessed.
    pub(super) fn seen(&mut self, folio: FolioId) {
        if let Some(entry) = self.entry_mut(folio) {
            entry.is_seen = true;
        }
    }

    /// What is to be kept of a folio that leaves for others to come.
    pub(super) fn left(&mut self, folio: FolioId) -> PastHeat {
        let Some(entry) = self.entry(folio).copied() else {
            return PastHeat::NONE;
        };
        let group = self.group_mut(entry.group);
        let past = PastHeat::new(entry.heat, entry.is_seen, group.nr_walks);
        group.away.left(entry.space, past, entry.nr_pages());
        past
    }

    /// A folio is not in memory any more. While it is isolated its number is not another's.
    pub(super) fn forget(&mut self, folio: FolioId) {
        if let Some(entry) = self.entries.get_mut(folio.index()) {
            match entry {
                Some(of) if of.is_isolated => of.is_gone = true,
                _ => *entry = None,
            }
        }
    }

    /// A folio was taken off its list.
    pub(super) fn isolated(&mut self, folio: FolioId) {
        if let Some(entry) = self.entry_mut(folio) {
            entry.is_isolated = true;
        }
    }

    /// What was isolated is so no longer; whether it is still in memory.
    pub(super) fn end_isolation(&mut self, folio: FolioId) -> bool {
        let Some(entry) = self.entry_mut(folio) else {
            return false;
        };
        entry.is_isolated = false;
        let is_there = !entry.is_gone;
        if !is_there {
            self.forget(folio);
        }
        is_there
    }

    /// A folio moved to a node, or could not, or is gone.
    pub(super) fn moved(&mut self, folio: FolioId, to: Option<NodeId>) {
        if self.end_isolation(folio)
            && let (Some(node), Some(entry)) = (to, self.entry_mut(folio))
        {
            entry.node = node;
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
            let past = match verdict {
                Verdict::Evicted if is_there => self.left(*folio),
                _ => PastHeat::NONE,
            };
            batch.heats.push(past);
            match verdict {
                Verdict::Evicted | Verdict::Gone => self.forget(*folio),
                Verdict::Referenced => self.seen(*folio),
                _ => {}
            }
        }
    }

    /// Who goes first in a group.
    pub(super) fn ranking_of(&self, group: GroupId, now: TimeMs) -> Ranking {
        let Some(of) = self.groups.get(usize::from(group.0)) else {
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

    /// Takes the coldest that are ranked and that the request allows; base pages.
    fn take_ranked(&mut self, request: ReclaimRequest, now: TimeMs, batch: &mut EvictBatch) -> u64 {
        let number = usize::from(request.group.0);
        let mut ranked = std::mem::take(&mut self.groups[number].ranked);
        let mut others = Vec::new();
        let entries = &mut self.entries;
        let mut coldest = std::iter::from_fn(|| {
            loop {
                let folio = ranked.pop_front()?;
                let entry = entries.get_mut(folio.index()).and_then(Option::as_mut);
                // Its number may be another's by now.
                let Some(entry) = entry.filter(|of| of.is_ranked && of.group == request.group)
                else {
                    continue;
                };
                let swappiness = request.one_pass.map_or(request.swappiness, |of| {
                    of.swappiness_on(entry.node, request.swappiness)
                });
                let is_of_node = request.node.is_none_or(|node| node == entry.node);
                if !is_of_node || !swappiness.allows(entry.kind) {
                    others.push(folio);
                    continue;
                }
                entry.is_ranked = false;
                if !entry.is_seen {
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
        others
            .into_iter()
            .rev()
            .for_each(|of| ranked.push_front(of));
        let group = &mut self.groups[number];
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
        for entry in self.entries.iter_mut().flatten() {
            if entry.group == group {
                entry.heat = entry.heat.after_walk(entry.is_seen);
                (entry.is_seen, entry.is_ranked) = (false, false);
            }
        }
        let of = self.group_mut(group);
        of.away.cool();
        of.nr_walks += 1;
        of.walked_at = Some(now);
        let nr_expected =
            std::mem::take(&mut of.nr_taken_pages) + nr_usage_pages / USAGE_PER_EXCESS;
        let nr_pages = (2 * nr_expected).max(NR_RANKED_PAGES_MIN);
        let ranked = self.coldest(group, nr_pages, swappiness);
        for folio in &ranked {
            if let Some(entry) = self.entry_mut(*folio) {
                entry.is_ranked = true;
            }
        }
        self.group_mut(group).ranked = ranked;
        Ok(())
    }

    /// Folios of a group in memory.
    fn of_group(&self, group: GroupId) -> impl Iterator<Item = (FolioId, &Entry)> {
        let numbered = self.entries.iter().zip(0..);
        let present = numbered.filter_map(|(entry, n)| Some((FolioId(n), entry.as_ref()?)));
        present.filter(move |(_, entry)| entry.group == group && !entry.is_gone)
    }

    /// How the spaces of a group compare.
    pub(super) fn scales(&self, group: GroupId) -> Scales {
        let present = self.of_group(group);
        let present = present.map(|(_, of)| (of.space, of.heat, of.nr_pages()));
        let away = self.groups.get(usize::from(group.0));
        Scales::of(present.chain(away.iter().flat_map(|of| of.away.iter())))
    }

    /// The folios of a group whose eviction costs least, about so many base pages.
    fn coldest(&self, group: GroupId, nr_pages: u64, swappiness: Swappiness) -> VecDeque<FolioId> {
        let scales = self.scales(group);
        let cost = |of: &Entry| {
            let heat = of.heat.scaled(scales.get(of.space));
            heat.cost(of.kind, swappiness)
        };
        let mut cheapest = Cheapest::new(nr_pages);
        for (_, entry) in self.of_group(group) {
            cheapest.count(cost(entry), entry.nr_pages());
        }
        for (folio, entry) in self.of_group(group) {
            cheapest.offer(folio, cost(entry));
        }
        // Which came first is told right while no more than 2^31 others came after.
        let age = |folio| {
            let came = self.entry(folio).map_or(0, |of| of.arrival);
            std::cmp::Reverse(self.nr_arrivals.wrapping_sub(came))
        };
        cheapest.into_folios_by(age).into()
    }

    /// Bytes beside the policy's own.
    pub(super) fn own_memory_bytes(&self) -> u64 {
        let entries = self.entries.capacity() * size_of::<Option<Entry>>();
        let ranked = self.groups.iter().map(|of| of.ranked.capacity());
        let ranked = ranked.sum::<usize>() * size_of::<FolioId>();
        let groups = self.groups.capacity() * size_of::<OfGroup>();
        let away: u64 = self.groups.iter().map(|of| of.away.memory_bytes()).sum();
        (entries + ranked + groups) as u64 + away
    }

    /// Checks that exactly what is in memory has a heat, and that who is ranked stands in its group's row.
    pub(super) fn recount(&self) -> Result<(), String> {
        let present = self.entries.iter().flatten();
        let nr_pages: u64 = present.map(Entry::nr_pages).sum();
        let charged = self.policy.groups().usage_pages_of_all();
        if nr_pages != charged {
            return Err(format!(
                "{nr_pages} pages have a heat, {charged} are charged"
            ));
        }
        let in_rows = self.groups.iter().zip(0..).flat_map(|(of, number)| {
            let entries = of.ranked.iter().filter_map(|folio| self.entry(*folio));
            entries.filter(move |of| of.is_ranked && of.group == GroupId(number))
        });
        let marked = self.entries.iter().flatten().filter(|of| of.is_ranked);
        let (nr_in_rows, nr_marked) = (in_rows.count(), marked.count());
        if nr_in_rows != nr_marked {
            return Err(format!("{nr_marked} are ranked, {nr_in_rows} in a row"));
        }
        Ok(())
    }
}
