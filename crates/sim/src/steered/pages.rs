//! The pages as Strata knows them: Strata's own engine, fed by walks of the played page tables.
//!
//! It is what the host's tracker is on a live group: a page that walks found is a folio of the engine until a walk or
//! pageout finds it gone; then its shadow and its heat are kept at its place until it is back. What happens between two
//! walks Strata does not see.
//!
//! **Owns** which of the engine's folios is at which page, what is kept of absent ones, and the one batch that is out.
//! **Does not own** the played kernel (`mechanism`), nor when a walk comes or a page goes (`tick`).
//!
//! **Invariants**
//! - I1: at most one batch is out; of its folios nothing is said until it is settled, but that they were accessed.
//! - I2: [`Pages::validate`]: every page that is tracked has a folio of the engine, and the engine adds up.

use std::ops::Range;

use strata_control::{drive::WalkFound, trace::ProgramPages};
use strata_lru::{
    AccessVia, Arrival, ByHeat, Cause, Config, EvictBatch, FolioId, Foretold, GoneCause, GroupId,
    Heat, HeatPolicy, Isolated, Kind, MinTtl, MultiGen, NodeId, Order, Outside, PastHeat, Policy,
    ReclaimRequest, ReclaimStats, SpaceNo, Swappiness, TimeMs, Verdict, WalkStep,
};

use crate::{
    mechanism::{
        Machine, PlaysKernel,
        bits::Bits,
        layout::{Layout, NR_TABLE_ENTRIES},
        memory::{Memory, Place},
    },
    simulate::SimError,
    workload::Workload,
};

/// The kernel's default scan priority.
const RELAXED_PRIORITY: u8 = 12;

/// What a walk of one space found; base pages, by kind where there are two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    pub(super) nr_resident_pages: [u64; 2],
    pub(super) nr_young_pages: [u64; 2],
    pub(super) nr_appeared_pages: u64,
    /// Pages that appeared and were back after an eviction.
    pub(super) nr_refaulted_pages: u64,
    /// Gone, taken by the kernel.
    pub(super) nr_reclaimed_pages: u64,
    /// Gone, given back by the program.
    pub(super) nr_freed_pages: u64,
    /// Entries of the tables that were read.
    pub(super) nr_entries: u64,
}

/// One address space.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) number: SpaceNo,
    pub(super) tables: Range<u32>,
    slots: Range<u32>,
    /// What its program had used of the processors at the last walk that cleared.
    pub(super) cpu_ns_at_walk: Option<u64>,
    pub(super) findings: Findings,
    /// Whether the last walk came by.
    is_seen: bool,
}

/// All that Strata knows of the group's pages.
#[derive(Debug)]
pub(super) struct Pages {
    policy: ByHeat<MultiGen>,
    group: GroupId,
    /// Folios and shadows by slot, and which are in flight.
    memory: Memory,
    /// Heat of absent pages, by slot.
    pasts: Vec<Heat>,
    /// Seen accessed since the last walk by somebody other than a walk.
    seen: Bits,
    /// What the kernel may take soon: on its inactive lists at the last walk; of generations, not accessed between the last
    /// three walks, and not spared already.
    pub(super) inactive: Bits,
    /// Not accessed between the last two walks.
    idle: Bits,
    spaces: Vec<Space>,
    batch: EvictBatch,
    is_batch_out: bool,
}

/// What the engine asks for of pages.
struct Visit<'a> {
    memory: &'a Memory,
    pasts: &'a [Heat],
    spaces: &'a [Space],
}

impl Outside for Visit<'_> {
    fn for_each_away(&self, space: SpaceNo, visit: &mut dyn FnMut(Heat, u64)) {
        let found = self.spaces.iter().find(|of| of.number == space);
        for slot in found.map_or(0..0, |of| of.slots.clone()) {
            if let Place::Absent(Some(_)) = self.memory.place(slot) {
                visit(self.pasts[slot as usize], 1);
            }
        }
    }

    fn for_each_folio(&self, visit: &mut dyn FnMut(&[FolioId])) {
        let mut folios = Vec::with_capacity(NR_TABLE_ENTRIES as usize);
        for space in self.spaces {
            for first in space.slots.clone().step_by(NR_TABLE_ENTRIES as usize) {
                let slots = first..(first + NR_TABLE_ENTRIES).min(space.slots.end);
                folios.clear();
                folios.extend(slots.filter_map(|slot| self.memory.folio(slot)));
                if !folios.is_empty() {
                    visit(&folios);
                }
            }
        }
    }
}

macro_rules! outside {
    ($of:expr) => {
        Visit {
            memory: &$of.memory,
            pasts: &$of.pasts,
            spaces: &$of.spaces,
        }
    };
}

impl Pages {
    /// Nothing known yet; the engine is what the host runs.
    ///
    /// # Errors
    /// The engine refuses.
    pub(super) fn new(workload: &Workload, layout: &Layout) -> Result<Pages, SimError> {
        let engine = MultiGen::new(Config {
            min_ttl: MinTtl::EachByItself,
            ..Config::default()
        })?;
        let mut policy = ByHeat::when_told(engine);
        let group = policy.add_group("/", TimeMs(0))?;
        let spaces = layout.spaces().map(|tables| {
            let slots = layout.slots_of(tables.start).start..layout.slots_of(tables.end - 1).end;
            let first = workload.page(layout.page(slots.start));
            Space {
                number: SpaceNo(first.key.space),
                tables,
                slots,
                cpu_ns_at_walk: None,
                findings: Findings::default(),
                is_seen: false,
            }
        });
        Ok(Pages {
            policy,
            group,
            memory: Memory::new(layout),
            pasts: vec![Heat::NONE; layout.nr_slots() as usize],
            seen: Bits::new(layout.nr_slots()),
            inactive: Bits::new(layout.nr_slots()),
            idle: Bits::new(layout.nr_slots()),
            spaces: spaces.collect(),
            batch: EvictBatch::default(),
            is_batch_out: false,
        })
    }

    pub(super) fn spaces(&self) -> &[Space] {
        &self.spaces
    }

    pub(super) fn space_mut(&mut self, index: usize) -> &mut Space {
        &mut self.spaces[index]
    }

    /// Pages in memory, as of the last walk.
    pub(super) fn nr_resident_pages(&self) -> u64 {
        let spaces = self.spaces.iter();
        spaces.flat_map(|of| of.findings.nr_resident_pages).sum()
    }

    /// What the last walk found, in all spaces and in each.
    pub(super) fn found(&self) -> WalkFound {
        let mut found = WalkFound::default();
        for Space {
            number, findings, ..
        } in &self.spaces
        {
            let all = &mut found.all;
            for kind in Kind::ALL {
                all.nr_resident_pages[kind.index()] += findings.nr_resident_pages[kind.index()];
                all.nr_young_pages[kind.index()] += findings.nr_young_pages[kind.index()];
            }
            all.nr_appeared_pages += findings.nr_appeared_pages;
            all.nr_refaulted_pages += findings.nr_refaulted_pages;
            all.nr_reclaimed_pages += findings.nr_reclaimed_pages;
            all.nr_freed_pages += findings.nr_freed_pages;
            found.programs.push(ProgramPages {
                program: number.0,
                nr_resident_pages: findings.nr_resident_pages,
                nr_young_pages: findings.nr_young_pages,
            });
        }
        found
    }

    /// The engine's counters.
    pub(super) fn stats(&self) -> Result<ReclaimStats, SimError> {
        Ok(self.policy.stats(self.group)?)
    }

    /// A walk leaves a space out, because its program has not run.
    pub(super) fn leave_out(&mut self, index: usize) {
        let space = &mut self.spaces[index];
        for word in Bits::words_of(space.slots.start, space.slots.end) {
            self.seen
                .take_of_word(word, space.slots.start, space.slots.end);
            self.inactive
                .take_of_word(word, space.slots.start, space.slots.end);
        }
        space.is_seen = false;
        self.policy.leave_out(self.group, space.number);
    }

    /// After an ageing, which has the kernel forget some counts: leaves out what eviction would pass over anyway.
    pub(super) fn leave_out_spared<P: PlaysKernel>(&mut self, machine: &Machine<'_, P>) {
        for slot in self.spaces.iter().flat_map(|of| of.slots.clone()) {
            if self.inactive.get(slot) && machine.is_spared(slot) {
                self.inactive.clear(slot);
            }
        }
    }

    /// Reads the tables of a space and tells the engine what it found. Accessed bits stay as they are; `young` is what
    /// was found set, in the order of slots.
    ///
    /// # Errors
    /// The engine refuses.
    pub(super) fn walk<P: PlaysKernel>(
        &mut self,
        index: usize,
        machine: &Machine<'_, P>,
        young: &mut Vec<u32>,
    ) -> Result<(), SimError> {
        let (number, slots) = (self.spaces[index].number, self.spaces[index].slots.clone());
        let step = self.policy.begin_space_walk(self.group, number);
        let mut findings = Findings::default();
        for table in self.spaces[index].tables.clone() {
            if !machine.is_unmapped(machine.layout().slots_of(table)) {
                findings.nr_entries += u64::from(NR_TABLE_ENTRIES);
            }
        }
        for slot in slots.clone() {
            self.visit(slot, number, machine, &mut findings, young)?;
        }
        self.cool(slots, step);
        let nr_resident = findings.nr_resident_pages.iter().sum();
        let nr_new = findings.nr_appeared_pages;
        self.policy
            .end_space_walk(self.group, number, nr_new, nr_resident);
        let space = &mut self.spaces[index];
        (space.findings, space.is_seen) = (findings, true);
        Ok(())
    }

    fn visit<P: PlaysKernel>(
        &mut self,
        slot: u32,
        number: SpaceNo,
        machine: &Machine<'_, P>,
        findings: &mut Findings,
        young: &mut Vec<u32>,
    ) -> Result<(), SimError> {
        let entry = machine.entry(slot);
        let was_seen = self.seen.take(slot);
        let known = self.memory.folio(slot);
        if !entry.is_present {
            self.inactive.clear(slot);
            if let Some(folio) = known.filter(|_| !self.memory.isolated.get(slot)) {
                let cause = match entry.is_swapped {
                    true => GoneCause::Reclaimed,
                    false => GoneCause::Freed,
                };
                *match entry.is_swapped {
                    true => &mut findings.nr_reclaimed_pages,
                    false => &mut findings.nr_freed_pages,
                } += 1;
                self.lose(slot, folio, cause);
            } else if known.is_none() && !entry.is_swapped {
                // What was given back leaves no shadow.
                self.memory.leave(slot, None, PastHeat::NONE);
            }
            return Ok(());
        }
        let was_idle = self.idle.get(slot);
        match entry.is_accessed {
            true => self.idle.clear(slot),
            false => self.idle.set(slot),
        }
        let is_next = match P::HAS_LISTS {
            true => machine.is_inactive(slot),
            false => was_idle && !entry.is_accessed,
        };
        match is_next {
            true => self.inactive.set(slot),
            false => self.inactive.clear(slot),
        }
        let folio = match known {
            Some(folio) => folio,
            None => {
                findings.nr_appeared_pages += 1;
                let is_back = matches!(self.memory.place(slot), Place::Absent(Some(_)));
                findings.nr_refaulted_pages += u64::from(is_back);
                self.appear(slot, number, machine.kind_at(slot), entry.is_accessed)?
            }
        };
        let kind = machine.kind_at(slot).index();
        findings.nr_resident_pages[kind] += 1;
        if entry.is_accessed {
            findings.nr_young_pages[kind] += 1;
            young.push(slot);
            self.policy.accessed(folio, AccessVia::PageTable);
        } else if was_seen {
            self.policy.note_young(&[folio]);
        }
        Ok(())
    }

    fn appear(
        &mut self,
        slot: u32,
        space: SpaceNo,
        kind: Kind,
        is_accessed: bool,
    ) -> Result<FolioId, SimError> {
        let shadow = match self.memory.place(slot) {
            Place::Absent(shadow) => shadow,
            Place::Resident(folio) => return Ok(folio),
        };
        let past = std::mem::replace(&mut self.pasts[slot as usize], Heat::NONE);
        let folio = self.policy.appeared(Arrival {
            group: self.group,
            node: NodeId::default(),
            kind,
            order: Order::BASE,
            cause: match is_accessed {
                true => Cause::Fault,
                false => Cause::Prefetch,
            },
            shadow,
            is_exec: false,
            space,
            heat: PastHeat::kept(past),
        })?;
        self.memory.enter(slot, folio);
        Ok(folio)
    }

    fn lose(&mut self, slot: u32, folio: FolioId, cause: GoneCause) {
        self.pasts[slot as usize] = self.policy.heat(folio);
        let left = self.policy.gone(folio, cause);
        let shadow = left.map(|(shadow, _)| shadow);
        self.memory.leave(slot, shadow, PastHeat::NONE);
    }

    fn cool(&mut self, slots: Range<u32>, step: WalkStep) {
        step.cool(&mut self.pasts[slots.start as usize..slots.end as usize]);
    }

    /// Ends a walk that no generation follows.
    pub(super) fn finish_look(&mut self) {
        self.policy.finish_look(self.group);
    }

    /// Ends a walk: a generation is born.
    ///
    /// # Errors
    /// The engine refuses.
    pub(super) fn finish_walk(
        &mut self,
        swappiness: Swappiness,
        now: TimeMs,
    ) -> Result<(), SimError> {
        Ok(self.policy.finish_walk(self.group, swappiness, now)?)
    }

    /// Ranks the coldest pages.
    pub(super) fn rank(&mut self, nr_pages: u64, swappiness: Swappiness) {
        let visit = outside!(self);
        self.policy.rank(self.group, nr_pages, swappiness, &visit);
    }

    pub(super) fn nr_ranked(&self) -> usize {
        self.policy.nr_ranked(self.group)
    }

    /// Whether a batch is out.
    pub(super) fn is_batch_out(&self) -> bool {
        self.is_batch_out
    }

    /// Takes the coldest that are ranked; where they lie, by the order of addresses.
    pub(super) fn isolate_cold(
        &mut self,
        nr_pages: u64,
        swappiness: Swappiness,
        now: TimeMs,
    ) -> Vec<u32> {
        let batch = &mut self.batch;
        self.policy
            .isolate_ranked(self.group, nr_pages, swappiness, now, batch);
        self.send_out()
    }

    /// Takes what the generations give.
    ///
    /// # Errors
    /// The engine refuses.
    pub(super) fn isolate(
        &mut self,
        nr_pages: u64,
        swappiness: Swappiness,
        now: TimeMs,
    ) -> Result<(Isolated, Vec<u32>), SimError> {
        let request = ReclaimRequest {
            swappiness,
            priority: RELAXED_PRIORITY,
            ..ReclaimRequest::new(self.group, nr_pages)
        };
        let answer = self.policy.isolate(request, now, &mut self.batch)?;
        Ok((answer, self.send_out()))
    }

    fn send_out(&mut self) -> Vec<u32> {
        let slots = self
            .batch
            .folios
            .iter()
            .map(|folio| self.memory.slot(*folio));
        let mut slots: Vec<u32> = slots.collect();
        slots
            .iter()
            .for_each(|slot| self.memory.isolated.set(*slot));
        self.is_batch_out = !slots.is_empty();
        slots.sort_unstable();
        slots
    }

    /// Somebody found these accessed, beside what was to go: neighbours of spared pages, and the others of their tables.
    pub(super) fn note_accessed(&mut self, neighbours: &[u32], others: &[u32]) {
        for slot in neighbours {
            if let Some(folio) = self.memory.folio(*slot) {
                self.policy.accessed(folio, AccessVia::PageTable);
            }
        }
        for slot in others {
            self.seen.set(*slot);
            if let Some(folio) = self.memory.folio(*slot) {
                self.policy.note_young(&[folio]);
            }
        }
    }

    /// The batch is back: what became of each page, by slot in ascending order.
    pub(super) fn settle(&mut self, verdicts: &[(u32, Verdict)]) {
        if !std::mem::take(&mut self.is_batch_out) {
            return;
        }
        let of_slot = |slot: u32| {
            let at = verdicts.binary_search_by_key(&slot, |of| of.0);
            at.map_or(Verdict::NotTried, |at| verdicts[at].1)
        };
        let slots: Vec<u32> = self
            .batch
            .folios
            .iter()
            .map(|of| self.memory.slot(*of))
            .collect();
        let by_folio: Vec<Verdict> = slots.iter().map(|slot| of_slot(*slot)).collect();
        let mut batch = std::mem::take(&mut self.batch);
        self.policy.complete(&mut batch, &by_folio);
        for (position, (slot, verdict)) in slots.into_iter().zip(by_folio).enumerate() {
            self.memory.isolated.clear(slot);
            if matches!(verdict, Verdict::Evicted | Verdict::Gone) {
                let shadow = batch.shadows.get(position).copied().flatten();
                let heat = batch.heats.get(position).copied().unwrap_or_default();
                self.pasts[slot as usize] = heat.heat();
                self.memory.leave(slot, shadow, PastHeat::NONE);
            }
        }
        batch.clear();
        self.batch = batch;
    }

    /// Takes the warmest so many percent for warm; those of them that are on the kernel's inactive lists.
    pub(super) fn take_warm(&mut self, percent: u32, now: TimeMs) -> Vec<u32> {
        let visit = outside!(self);
        self.policy.take_warm(self.group, percent, now, &visit);
        let mut found = Vec::new();
        for space in self.spaces.iter().filter(|of| of.is_seen) {
            if !self.policy.is_foretold(self.group, space.number) {
                continue;
            }
            let inactive = space.slots.clone().filter(|slot| self.inactive.get(*slot));
            let is_warm = |slot: &u32| {
                let folio = self.memory.folio(*slot);
                folio.is_some_and(|folio| self.policy.is_warm(folio))
            };
            found.extend(inactive.filter(is_warm));
        }
        found
    }

    /// Takes nothing for warm any more.
    pub(super) fn forget_warm(&mut self) {
        self.policy.forget_warm(self.group);
    }

    /// How well warm pages were chosen.
    pub(super) fn foretold(&self) -> Foretold {
        self.policy.foretold(self.group)
    }

    /// The coldest of those that are on the kernel's active lists, by slot.
    pub(super) fn coldest_active(&self, nr_pages: u64, swappiness: Swappiness) -> Vec<u32> {
        let mut active = Vec::new();
        for space in self.spaces.iter().filter(|of| of.is_seen) {
            let slots = space.slots.clone().filter(|slot| !self.inactive.get(*slot));
            active.extend(slots.filter_map(|slot| self.memory.folio(slot)));
        }
        let visit = outside!(self);
        let coldest = self
            .policy
            .coldest_of(self.group, &active, nr_pages, swappiness, &visit);
        let mut slots: Vec<u32> = coldest.into_iter().map(|of| self.memory.slot(of)).collect();
        slots.sort_unstable();
        slots
    }

    /// Recounts.
    #[cfg(test)]
    pub(super) fn validate(&self) -> Result<(), String> {
        self.policy.validate()?;
        for space in &self.spaces {
            for slot in space.slots.clone() {
                if let Some(folio) = self.memory.folio(slot)
                    && (self.memory.slot(folio), self.policy.space(folio)) != (slot, space.number)
                {
                    return Err(format!("{folio:?} lies elsewhere than at {slot}"));
                }
            }
        }
        Ok(())
    }
}
