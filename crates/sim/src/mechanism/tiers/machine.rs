//! One replay on tiers: requests, faults, sweeps and promotion.
//!
//! **Owns** the state of a replay and what it comes to. **Does not own** reclaim (`reclaim`) or walks
//! (`walk`).

use strata_lru::{
    AccessVia, Arrival, Cause, FolioId, GoneCause, Kind, Migrated, NodeId, Order, Policy,
    Promotion, Tiering, TimeMs,
};
use strata_trace::{Backing, Op, Via};

use super::super::{
    Counts, NR_SAMPLES,
    bits::Bits,
    groups::Groups,
    kind_of,
    layout::Layout,
    memory::{Memory, Place},
    walk::Spaces,
};
use super::setup::{Start, TierSetup};
use crate::{
    generations::time_by_age,
    outcome::{Outcome, Reclaim, Sample, TierCounts},
    simulate::{PROGRESS_REQUESTS, Progress, Setup, SimError},
    workload::{PageId, Request, Workload, ends_before, next_end},
};

/// Reclaim takes this many pages at a time, and background reclaim keeps as many free.
const NR_RECLAIM_PAGES: u32 = 32;

/// A batch of reclaim is at most this part of a node.
const BATCHES_PER_NODE: u32 = 32;

/// Where new pages go and promoted ones come.
pub(super) const FAST: usize = 0;

/// A node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) nr_pages: u32,
    pub(super) nr_free: u32,
}

impl Node {
    /// Pages taken at a time, and kept free.
    pub(super) fn nr_batch_pages(self) -> u32 {
        (self.nr_pages / BATCHES_PER_NODE).clamp(1, NR_RECLAIM_PAGES)
    }
}

/// One replay.
#[derive(Debug)]
pub(super) struct TierMachine<'w> {
    pub(super) policy: Box<dyn Policy>,
    pub(super) workload: &'w Workload,
    pub(super) layout: Layout,
    pub(super) memory: Memory,
    pub(super) setup: Setup,
    pub(super) groups: Groups,
    /// Everything that has page tables.
    pub(super) spaces: Spaces,
    pub(super) nodes: Vec<Node>,
    /// By slot, of what is in memory.
    pub(super) node_of: Vec<u8>,
    /// Mapped, and made to fault at the next access.
    pub(super) hinted: Bits,
    scan_period_ms: u64,
    start: Start,
    swept_at: TimeMs,
    pub(super) now: TimeMs,
    last_read: Option<u32>,
    promotions: Vec<Promotion>,
    pub(super) counts: Counts,
    nr_hits: Vec<u64>,
    nr_phases: usize,
    phases: Vec<Outcome>,
    samples: Vec<Sample>,
}

impl<'w> TierMachine<'w> {
    pub(super) fn new(
        mut policy: Box<dyn Policy>,
        workload: &'w Workload,
        setup: &Setup,
        tiers: &TierSetup,
        nr_pages: Vec<u32>,
    ) -> Result<Self, SimError> {
        let groups = Groups::new(policy.as_mut(), workload, setup)?;
        let layout = Layout::new(workload);
        let group_of = |slot| groups.of(workload.page(layout.page(slot)).group);
        let spaces = Spaces::add(policy.as_mut(), group_of, &layout, workload)?;
        let node = |nr_pages: &u32| Node {
            nr_pages: *nr_pages,
            nr_free: *nr_pages,
        };
        Ok(TierMachine {
            policy,
            workload,
            memory: Memory::new(&layout),
            setup: setup.clone(),
            groups,
            spaces,
            nodes: nr_pages.iter().map(node).collect(),
            node_of: vec![0; layout.nr_slots() as usize],
            hinted: Bits::new(layout.nr_slots()),
            layout,
            scan_period_ms: tiers.scan_period_ms,
            start: tiers.start,
            swept_at: TimeMs(0),
            now: TimeMs(0),
            last_read: None,
            promotions: Vec::new(),
            counts: Counts::default(),
            nr_hits: vec![0; nr_pages.len()],
            nr_phases: tiers.nr_phases.min(workload.requests().len()),
            phases: Vec::new(),
            samples: Vec::new(),
        })
    }

    pub(super) fn run(mut self, progress: &dyn Progress) -> Result<Outcome, SimError> {
        let (requests, mut ends) = (self.workload.requests(), self.workload.ends());
        let sample_every = requests.len().div_ceil(NR_SAMPLES).max(1);
        let mut position = 0;
        while position < requests.len() {
            for end in ends_before(&mut ends, position) {
                self.free(end.page)?;
            }
            let to_sample = sample_every - position % sample_every;
            let to = position + to_sample.min(PROGRESS_REQUESTS);
            let phase_end = match self.nr_phases {
                0 => requests.len(),
                nr_phases => (self.phases.len() + 1) * requests.len() / nr_phases,
            };
            let to = next_end(ends, phase_end.min(to));
            for (request, number) in requests[position..to].iter().zip(position..) {
                self.request(*request, number)?;
            }
            progress.advance((to - position) as u64);
            position = to;
            if self.nr_phases > 0 && position == phase_end {
                let phase = self.counted(position as u64)?;
                self.phases.push(phase);
            }
            if position % sample_every == 0 {
                self.sample(position as u64)?;
            }
        }
        self.outcome()
    }

    /// Nobody needs a page any more, wherever it is.
    fn free(&mut self, page: PageId) -> Result<(), SimError> {
        let (slot, of) = (self.layout.slot(page), self.workload.page(page));
        match self.memory.place(slot) {
            Place::Resident(folio) => {
                self.policy.gone(folio, GoneCause::Freed);
                self.nodes[usize::from(self.node_of[slot as usize])].nr_free += 1;
            }
            Place::Absent(Some(_)) if kind_of(of.backing) == Kind::Anon => {
                self.policy.swap_freed(self.groups.of(of.group), 1)?;
            }
            Place::Absent(_) => {}
        }
        self.hinted.clear(slot);
        self.memory.leave(slot, None);
        Ok(())
    }

    pub(super) fn request(&mut self, request: Request, position: usize) -> Result<(), SimError> {
        let time_us = self.workload.time_us(position as u32);
        self.now = TimeMs(time_us.unwrap_or(position as u64) / 1000);
        if self.now.since(self.swept_at) >= self.scan_period_ms {
            self.sweep();
        }
        let slot = self.layout.slot(request.page());
        let is_write = request.op() == Op::Write;
        let has_missed = self.memory.folio(slot).is_none();
        let cause = match request.via() {
            Via::PageTable => Cause::Fault,
            Via::FileDescriptor => Cause::Read,
        };
        let folio = match self.memory.folio(slot) {
            Some(folio) => folio,
            None => self.fault(slot, request.page(), cause)?,
        };
        let node = usize::from(self.node_of[slot as usize]);
        if !has_missed {
            self.nr_hits[node] += 1;
        }
        if is_write {
            self.memory.dirty.set(slot);
        }
        let may_come_up = match request.via() {
            Via::PageTable => {
                self.memory.mapped.set(slot);
                self.memory.accessed.set(slot);
                self.hinted.take(slot) && self.hint_fault(folio)
            }
            Via::FileDescriptor => {
                // A read that goes on in the same page is not counted.
                let is_counted = is_write || self.last_read.replace(slot) != Some(slot);
                if is_counted {
                    self.policy.accessed(folio, AccessVia::FileDescriptor);
                }
                is_counted && node != FAST
            }
        };
        if may_come_up {
            self.promote()?;
        }
        match has_missed {
            // Not before: the page it brought in may be the next to go.
            true => self.relieve(self.groups.of(self.workload.page(request.page()).group)),
            false => Ok(()),
        }
    }

    pub(super) fn tiering(&mut self) -> &mut dyn Tiering {
        let tiering = self.policy.tiering();
        tiering.expect("the policy was made with tiers")
    }

    /// Makes every mapped page of a slower node fault at its next access.
    fn sweep(&mut self) {
        self.swept_at = self.now;
        for slot in 0..self.layout.nr_slots() {
            if self.memory.mapped.get(slot) && self.node_of[slot as usize] != 0 {
                self.hinted.set(slot);
            }
        }
    }

    fn hint_fault(&mut self, folio: FolioId) -> bool {
        let latency_ms = self.now.since(self.swept_at);
        let (now, nr_free) = (self.now, u64::from(self.nodes[FAST].nr_free));
        let tiering = self.tiering();
        tiering.tell_free(NodeId::default(), nr_free);
        tiering.hint_fault(folio, latency_ms, NodeId::default(), now)
    }

    /// Brings a page into the fastest node.
    fn fault(&mut self, slot: u32, page: PageId, cause: Cause) -> Result<FolioId, SimError> {
        self.counts.nr_misses += 1;
        let kind = kind_of(self.workload.page(page).backing);
        self.counts.nr_anon_misses += u64::from(kind == Kind::Anon);
        let number = self.workload.page(page).group;
        self.groups.missed(number);
        let group = self.groups.of(number);
        self.spaces.faults(slot, cause);
        self.make_room_below_limits(group)?;
        let is_new = self.memory.place(slot) == Place::Absent(None);
        let to = match self.slowest_with_room() {
            Some(slowest) if is_new && self.start == Start::Slow => slowest,
            _ => self.node_with_room()?,
        };
        let shadow = match self.memory.place(slot) {
            Place::Absent(shadow) => shadow,
            Place::Resident(folio) => return Ok(folio),
        };
        let folio = self.policy.appeared(Arrival {
            group,
            node: NodeId(to as u8),
            kind,
            order: Order::BASE,
            cause,
            shadow,
            is_exec: self.backing_of(slot) == Backing::Code,
        })?;
        self.memory.enter(slot, folio);
        self.enter_node(slot, to);
        Ok(folio)
    }

    /// The slowest node, if a page is free there.
    fn slowest_with_room(&self) -> Option<usize> {
        let slowest = self.nodes.len().checked_sub(1)?;
        (self.nodes[slowest].nr_free > 0).then_some(slowest)
    }

    /// Moves up what is queued, as far as there is room.
    fn promote(&mut self) -> Result<(), SimError> {
        let mut promotions = std::mem::take(&mut self.promotions);
        let (now, nr_free) = (self.now, u64::from(self.nodes[FAST].nr_free));
        let tiering = self.tiering();
        tiering.tell_time(now);
        tiering.tell_free(NodeId::default(), nr_free);
        tiering.isolate_promotion(&mut promotions);
        let mut migrated = Vec::with_capacity(promotions.len());
        for promotion in &promotions {
            let slot = self.memory.slot(promotion.folio);
            let to = usize::from(promotion.to.0);
            migrated.push(if self.nodes[to].nr_free > 0 {
                let from = usize::from(self.node_of[slot as usize]);
                self.nodes[from].nr_free += 1;
                self.enter_node(slot, to);
                Migrated::Moved
            } else {
                Migrated::Failed
            });
        }
        self.tiering().complete_promotion(&promotions, &migrated);
        self.promotions = promotions;
        self.keep_free(FAST)
    }

    fn enter_node(&mut self, slot: u32, node: usize) {
        self.nodes[node].nr_free -= 1;
        self.node_of[slot as usize] = node as u8;
    }

    /// What the page of a slot is made of.
    pub(super) fn backing_of(&self, slot: u32) -> Backing {
        self.workload.page(self.layout.page(slot)).backing
    }

    fn sample(&mut self, at_access: u64) -> Result<(), SimError> {
        self.samples.push(Sample {
            at_access,
            nr_misses: self.counts.nr_misses,
            generations: self.groups.generations(self.policy.as_ref(), self.now)?,
        });
        Ok(())
    }

    /// Checks that pages lie where the policy has them, and neither node nor group holds more than it may.
    #[cfg(test)]
    pub(super) fn validate(&mut self) {
        self.policy.validate().unwrap();
        let mut nr_used = vec![0; self.nodes.len()];
        for slot in 0..self.layout.nr_slots() {
            if self.memory.folio(slot).is_some() {
                nr_used[usize::from(self.node_of[slot as usize])] += 1;
            }
        }
        let groups = self.groups.all();
        let views = groups.flat_map(|group| self.policy.view(group, self.now).unwrap());
        let views: Vec<_> = views.collect();
        for (number, (node, nr_used)) in self.nodes.iter().zip(nr_used).enumerate() {
            assert_eq!(node.nr_pages, node.nr_free + nr_used, "node {number}");
            let of_policy = views
                .iter()
                .filter(|view| usize::from(view.node.0) == number);
            let generations = of_policy.flat_map(|view| &view.generations);
            let nr_pages: u64 = generations
                .flat_map(|generation| generation.nr_pages.into_iter().flatten())
                .sum();
            assert_eq!(nr_pages, u64::from(nr_used), "node {number}");
        }
        for group in self.groups.all() {
            let over = self.policy.groups().over_max(group, 0).unwrap();
            assert_eq!(over, None, "{group:?}");
        }
    }

    pub(super) fn outcome(mut self) -> Result<Outcome, SimError> {
        let mut outcome = self.counted(u64::from(self.workload.nr_requests()))?;
        outcome.policy_bytes =
            self.policy.memory_bytes() + self.memory.memory_bytes() + self.layout.memory_bytes();
        if let Some(reclaim) = outcome.reclaim.as_deref_mut() {
            if let Some(tiers) = &mut reclaim.tiers {
                tiers.phases = self.phases;
            }
            reclaim.time_in_generations = time_by_age(&self.samples);
            reclaim.samples = self.samples;
        }
        Ok(outcome)
    }

    /// What was counted up to here.
    fn counted(&mut self, nr_accesses: u64) -> Result<Outcome, SimError> {
        let tiering = self.tiering().tiering_stats();
        let reclaim = Reclaim {
            nr_demoted: tiering.pgdemote_kswapd + tiering.pgdemote_direct,
            nr_written: self.counts.nr_written,
            nr_checked: self.counts.looks.nr_checked,
            nr_rmap_walks: self.counts.looks.nr_rmap_walks,
            tiers: Some(TierCounts {
                nr_hits: self.nr_hits.clone(),
                stats: tiering,
                phases: Vec::new(),
            }),
            ..self.groups.reclaim(self.policy.as_ref(), self.workload)?
        };
        Ok(Outcome {
            nr_accesses,
            nr_misses: self.counts.nr_misses,
            nr_anon_misses: self.counts.nr_anon_misses,
            policy_bytes: 0,
            reclaim: Some(Box::new(reclaim)),
        })
    }
}
