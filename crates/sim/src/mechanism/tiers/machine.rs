//! One replay on tiers.

use strata_lru::{
    AccessVia, Arrival, Cause, EvictBatch, FolioId, GoneCause, GroupId, Isolated, Kind, Migrated,
    NodeId, Order, Origin, Outcome as Fate, Policy, Promotion, ReclaimRequest, Tiering, TimeMs,
    Verdict,
};
use strata_trace::{Op, Via};

use super::super::{
    bits::Bits,
    kind_of,
    layout::Layout,
    memory::{Memory, Place},
};
use crate::{
    outcome::{Outcome, Reclaim, TierCounts},
    simulate::{PROGRESS_REQUESTS, Progress, Setup, SimError},
    workload::{PageId, Request, Workload, ends_before, next_end},
};

/// Reclaim takes this many pages at a time, and background reclaim keeps as many free.
const NR_RECLAIM_PAGES: u32 = 32;

/// A batch of reclaim is at most this part of a node.
const BATCHES_PER_NODE: u32 = 32;

/// Passes without anything freed before a node is given up for this time.
const NR_VAIN_PASSES_MAX: u32 = 64;

/// Priority of all reclaim here: relaxed.
const PRIORITY: u8 = 12;

/// Where new pages go and promoted ones come.
const FAST: usize = 0;

/// A node.
#[derive(Clone, Copy, Debug)]
struct Node {
    nr_pages: u32,
    nr_free: u32,
}

impl Node {
    /// Pages taken at a time, and kept free.
    fn nr_batch_pages(self) -> u32 {
        (self.nr_pages / BATCHES_PER_NODE).clamp(1, NR_RECLAIM_PAGES)
    }
}

/// One replay.
#[derive(Debug)]
pub(super) struct TierMachine<'w> {
    policy: Box<dyn Policy>,
    workload: &'w Workload,
    layout: Layout,
    memory: Memory,
    setup: Setup,
    group: GroupId,
    nodes: Vec<Node>,
    /// By slot, of what is in memory.
    node_of: Vec<u8>,
    /// Mapped, and made to fault at the next access.
    hinted: Bits,
    scan_period_ms: u64,
    swept_at: TimeMs,
    now: TimeMs,
    last_read: Option<u32>,
    promotions: Vec<Promotion>,
    nr_misses: u64,
    nr_anon_misses: u64,
    nr_written: u64,
    nr_hits: Vec<u64>,
}

impl<'w> TierMachine<'w> {
    pub(super) fn new(
        mut policy: Box<dyn Policy>,
        workload: &'w Workload,
        setup: &Setup,
        nr_pages: Vec<u32>,
        scan_period_ms: u64,
    ) -> Result<Self, SimError> {
        let group = policy.add_group("/", TimeMs(0))?;
        let layout = Layout::new(workload);
        let node = |nr_pages: &u32| Node {
            nr_pages: *nr_pages,
            nr_free: *nr_pages,
        };
        Ok(TierMachine {
            policy,
            workload,
            memory: Memory::new(&layout),
            setup: setup.clone(),
            group,
            nodes: nr_pages.iter().map(node).collect(),
            node_of: vec![0; layout.nr_slots() as usize],
            hinted: Bits::new(layout.nr_slots()),
            layout,
            scan_period_ms,
            swept_at: TimeMs(0),
            now: TimeMs(0),
            last_read: None,
            promotions: Vec::new(),
            nr_misses: 0,
            nr_anon_misses: 0,
            nr_written: 0,
            nr_hits: vec![0; nr_pages.len()],
        })
    }

    pub(super) fn run(mut self, progress: &dyn Progress) -> Result<Outcome, SimError> {
        let (requests, mut ends) = (self.workload.requests(), self.workload.ends());
        let mut position = 0;
        while position < requests.len() {
            for end in ends_before(&mut ends, position) {
                self.free(end.page);
            }
            let to = next_end(ends, requests.len().min(position + PROGRESS_REQUESTS));
            for (request, number) in requests[position..to].iter().zip(position..) {
                self.request(*request, number)?;
            }
            progress.advance((to - position) as u64);
            position = to;
        }
        self.outcome()
    }

    /// Nobody needs a page any more, wherever it is.
    fn free(&mut self, page: PageId) {
        let slot = self.layout.slot(page);
        if let Some(folio) = self.memory.folio(slot) {
            self.policy.gone(folio, GoneCause::Freed);
            self.nodes[usize::from(self.node_of[slot as usize])].nr_free += 1;
        }
        self.hinted.clear(slot);
        self.memory.leave(slot, None);
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
        Ok(())
    }

    fn tiering(&mut self) -> &mut dyn Tiering {
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
        self.nr_misses += 1;
        let kind = kind_of(self.workload.page(page).backing);
        self.nr_anon_misses += u64::from(kind == Kind::Anon);
        let to = self.node_with_room()?;
        let shadow = match self.memory.place(slot) {
            Place::Absent(shadow) => shadow,
            Place::Resident(folio) => return Ok(folio),
        };
        let folio = self.policy.appeared(Arrival {
            group: self.group,
            node: NodeId(to as u8),
            kind,
            order: Order::BASE,
            cause,
            shadow,
            is_exec: false,
        })?;
        self.memory.enter(slot, folio);
        self.enter_node(slot, to);
        self.keep_free(FAST)?;
        Ok(folio)
    }

    /// The fastest node with a free page, made by reclaim if need be.
    fn node_with_room(&mut self) -> Result<usize, SimError> {
        for node in 0..self.nodes.len() {
            if self.nodes[node].nr_free == 0 {
                self.reclaim(node, Origin::Direct)?;
            }
            if self.nodes[node].nr_free > 0 {
                return Ok(node);
            }
        }
        Err(SimError::OutOfMemory {
            memory_pages: self.setup.memory_pages,
            swappiness: self.setup.swappiness.get(),
        })
    }

    /// Background reclaim of a node that is nearly full.
    fn keep_free(&mut self, node: usize) -> Result<(), SimError> {
        if self.nodes[node].nr_free < self.nodes[node].nr_batch_pages() {
            self.reclaim(node, Origin::Background)?;
        }
        Ok(())
    }

    /// Frees pages of a node, to a batch or until nothing more comes.
    fn reclaim(&mut self, node: usize, origin: Origin) -> Result<(), SimError> {
        let nr_wanted = self.nodes[node].nr_batch_pages();
        let mut batch = EvictBatch::default();
        let mut nr_in_vain = 0;
        while self.nodes[node].nr_free < nr_wanted && nr_in_vain < NR_VAIN_PASSES_MAX {
            let request = ReclaimRequest {
                node: Some(NodeId(node as u8)),
                swappiness: self.setup.swappiness,
                priority: PRIORITY,
                origin,
                ..ReclaimRequest::new(self.group, u64::from(nr_wanted))
            };
            let nr_free = self.nodes[node].nr_free;
            let end = self.policy.isolate(request, self.now, &mut batch)?;
            self.carry_out(node, &mut batch, origin)?;
            match end {
                Isolated::Pages(_) | Isolated::Again => {}
                Isolated::NeedsAgeing => self.walk()?,
                Isolated::Thrashing | Isolated::Empty => break,
            }
            nr_in_vain += u32::from(self.nodes[node].nr_free == nr_free);
        }
        Ok(())
    }

    /// Tries a batch of a node: down, out, or back.
    fn carry_out(
        &mut self,
        node: usize,
        batch: &mut EvictBatch,
        origin: Origin,
    ) -> Result<(), SimError> {
        if batch.is_empty() {
            return Ok(());
        }
        let mut fates = Vec::with_capacity(batch.folios.len());
        let nr_written = self.nr_written;
        for folio in &batch.folios {
            let slot = self.memory.slot(*folio);
            fates.push(if self.memory.accessed.take(slot) {
                Fate::Tried(Verdict::Referenced)
            } else {
                self.below(node, slot)?
            });
        }
        batch.nr_written_pages = self.nr_written - nr_written;
        let memory = &mut self.memory;
        let is_young = |folio: &FolioId| memory.accessed.take(memory.slot(*folio));
        batch.young.clear();
        batch.young.extend(batch.to_check.iter().map(is_young));
        self.tiering().complete_outcomes(batch, &fates, origin);
        for ((folio, fate), shadow) in batch.folios.iter().zip(&fates).zip(&batch.shadows) {
            let slot = self.memory.slot(*folio);
            match fate {
                Fate::Tried(Verdict::Evicted) => {
                    self.nodes[node].nr_free += 1;
                    self.hinted.clear(slot);
                    self.memory.leave(slot, *shadow);
                }
                // The page below was taken when it was chosen.
                Fate::Demoted(to) => {
                    self.nodes[node].nr_free += 1;
                    self.node_of[slot as usize] = to.0;
                }
                Fate::Tried(_) => {}
            }
        }
        Ok(())
    }

    /// What becomes of a page that goes: down where there is room or can be, else out.
    fn below(&mut self, node: usize, slot: u32) -> Result<Fate, SimError> {
        let from = NodeId(node as u8);
        let target = self.tiering().demotion_target(from, &|_| true);
        if let Some(to) = target {
            let below = usize::from(to.0);
            if self.nodes[below].nr_free == 0 {
                self.reclaim(below, Origin::Direct)?;
            }
            if self.nodes[below].nr_free > 0 {
                self.nodes[below].nr_free -= 1;
                return Ok(Fate::Demoted(to));
            }
            self.tiering().demotion_failed(1);
        }
        self.nr_written += u64::from(self.memory.dirty.get(slot));
        Ok(Fate::Tried(Verdict::Evicted))
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

    /// Reports every accessed bit and begins a generation.
    fn walk(&mut self) -> Result<(), SimError> {
        let end = self.layout.nr_slots();
        for word in Bits::words_of(0, end) {
            let mut bits = self.memory.accessed.take_of_word(word, 0, end);
            while bits != 0 {
                let slot = word as u32 * u64::BITS + bits.trailing_zeros();
                bits &= bits - 1;
                if let Some(folio) = self.memory.folio(slot) {
                    self.policy.accessed(folio, AccessVia::PageTable);
                }
            }
        }
        let swappiness = self.setup.swappiness;
        Ok(self.policy.finish_walk(self.group, swappiness, self.now)?)
    }

    /// Checks that pages lie where the policy has them, and no node holds more than it has.
    #[cfg(test)]
    pub(super) fn validate(&mut self) {
        self.policy.validate().unwrap();
        let mut nr_used = vec![0; self.nodes.len()];
        for slot in 0..self.layout.nr_slots() {
            if self.memory.folio(slot).is_some() {
                nr_used[usize::from(self.node_of[slot as usize])] += 1;
            }
        }
        let views = self.policy.view(self.group, self.now).unwrap();
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
    }

    pub(super) fn outcome(mut self) -> Result<Outcome, SimError> {
        let stats = self.policy.stats(self.group)?;
        let tiering = self.tiering().tiering_stats();
        let reclaim = Reclaim {
            nr_scanned: stats.nr_scanned_pages,
            nr_stolen: stats.nr_evicted_pages,
            nr_promoted: stats.nr_promoted_pages,
            nr_protected: stats.nr_protected_pages,
            nr_ageing_runs: stats.nr_ageing_runs,
            nr_written: self.nr_written,
            nr_refaulted: stats.nr_refaulted_pages,
            nr_refaulted_recent: stats.nr_refaulted_recent_pages,
            tiers: Some(TierCounts {
                nr_hits: self.nr_hits,
                stats: tiering,
            }),
            ..Reclaim::default()
        };
        Ok(Outcome {
            nr_accesses: u64::from(self.workload.nr_requests()),
            nr_misses: self.nr_misses,
            nr_anon_misses: self.nr_anon_misses,
            policy_bytes: self.policy.memory_bytes()
                + self.memory.memory_bytes()
                + self.layout.memory_bytes(),
            reclaim: Some(Box::new(reclaim)),
        })
    }
}
