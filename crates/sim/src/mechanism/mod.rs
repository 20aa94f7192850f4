//! The mechanism: plays the kernel for a reclaim policy, on a trace, in virtual time.
//!
//! One memory cgroup of so many pages (or a machine of so many with a tree of them: `groups`), empty at
//! first. Every request is an access as a program makes it; when a page has to come in and the cgroup is
//! full, whoever faulted reclaims.
//!
//! ```text
//!   request --mapped?--> accessed bit (the policy hears nothing)
//!      |    --in memory?--> through a descriptor: counted     through a mapping: mapped, accessed bit
//!      +--> fault: charge --full?--> reclaim: priority 12, 11, ... until 32 pages are free
//!             |                        |  ageing due? walk, begin a generation
//!             |                        +- isolate, look at accessed bits, verdicts, shadows
//!             v
//!           appeared (with the shadow of its last stay)
//! ```
//!
//! What is played, after kernels 6.1 to 7.1 and direct reclaim of a memory cgroup:
//! - page tables of 512 entries with accessed bits; walks that visit what the filters let them, clear
//!   the bits and report; the look-around when an evicted page turns out to be accessed;
//! - a fault maps the page with its accessed bit set; a page that is in memory but not mapped is
//!   mapped by a minor fault, which is no miss;
//! - a read that goes on in the page where the last one through that descriptor ended is not counted;
//! - reclaim of 32 pages at a time, in batches of 64, with scan budgets by priority; a policy that
//!   brings its own order of scans (`two-list`) is only asked until enough has left;
//! - dirty pages of files are written behind (`writeback`), anon is written when it is evicted.
//!
//! What is left out: time (nothing takes any; `now` is the trace's clock, or a microsecond an access),
//! readahead, batches of charging and of list additions per processor (a full group is full at the
//! same page), huge pages, memory the kernel takes for itself, refusals (locked, shared pages). With
//! groups reclaim is global when memory is full, and its thread, if asked for, is always in time.
//!
//! Where memory is small against the kernel's batches (below 1024 pages) they are a thirty-second of
//! it, so that a batch is never most of the memory.
//!
//! **Owns** everything between a request and a policy's decisions. **Does not own** the policies
//! (`strata-lru`), traces, or what is made of the counts.
//!
//! **Invariants**
//! - I1: never more pages in memory than the group may hold, once a request is done.
//! - I2: whatever the policy counts as in memory is in memory here, and the other way round.

mod apps;
pub(crate) mod bits;
mod driven;
mod groups;
mod killer;
pub(crate) mod layout;
pub(crate) mod memory;
mod reclaim;
pub(crate) mod tiers;
mod walk;
mod writeback;

#[cfg(test)]
mod tests;

pub(crate) use driven::PlaysKernel;
pub(crate) use reclaim::{NR_RETRIES_MAX, PRIORITY_RELAXED};
pub use tiers::TierSetup;

use strata_lru::{
    AccessVia, Arrival, Cause, EvictBatch, FolioId, GoneCause, GroupId, Kind, NodeId, Order,
    Outcome as Fate, Policy, TimeMs, Verdict, WriteState,
};
use strata_trace::{Backing, Op, Via};

use self::{
    groups::Groups,
    killer::Killer,
    layout::Layout,
    memory::{Memory, Place},
    tiers::Tiers,
    walk::Spaces,
    writeback::Writeback,
};
use crate::{
    generations::time_by_age,
    outcome::{Outcome, Reclaim, Sample, TierCounts},
    simulate::{PROGRESS_REQUESTS, Progress, Setup, SimError},
    workload::{PageId, Request, Workload, ends_before, next_end},
};

/// How often the generations are looked at in a run.
pub(crate) const NR_SAMPLES: u32 = 200;

/// Reclaim takes this many pages before the fault goes on (the kernel's `SWAP_CLUSTER_MAX`).
const NR_RECLAIM_PAGES: u32 = 32;

/// A batch of reclaim is at most this part of memory, or of a node.
const BATCHES_PER_MEMORY: u32 = 32;

/// A reclaim policy that needs a mechanism, to be replayed.
pub use strata_lru::EnginePolicy as KernelPolicy;

/// One replay.
#[derive(Debug)]
pub(crate) struct Machine<'w, P: ?Sized> {
    policy: Box<P>,
    workload: &'w Workload,
    layout: Layout,
    memory: Memory,
    writeback: Writeback,
    setup: Setup,
    groups: Groups,
    tiers: Tiers,
    killer: Option<Killer>,
    /// Everything that has page tables.
    spaces: Spaces,
    /// Pages in memory, by kind.
    nr_pages: [u32; 2],
    /// The group of a tree, or on tiers, that this request brought a page in for.
    charged: Option<GroupId>,
    /// Pages that may be in memory.
    limit_pages: u32,
    /// Pages reclaim takes at least.
    nr_reclaim_pages: u32,
    /// Where the last read through a descriptor ended.
    last_read: Option<u32>,
    now: TimeMs,
    /// The time of whoever drives it, if it is not driven by the trace alone.
    driven_at: Option<TimeMs>,
    batch: EvictBatch,
    fates: Vec<Fate>,
    verdicts: Vec<Verdict>,
    counts: Counts,
    refaults_by_time: Vec<(TimeMs, u64)>,
    samples: Vec<Sample>,
}

/// What only the mechanism sees.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    nr_misses: u64,
    nr_anon_misses: u64,
    nr_written: u64,
    looks: Looks,
}

/// What of a batch prices need.
#[derive(Clone, Copy, Debug, Default)]
struct Looks {
    nr_checked: u64,
    nr_rmap_walks: u64,
}

impl Looks {
    /// A batch is about to be tried: who maps each page of it is looked up, where somebody does.
    fn tried(&mut self, batch: &EvictBatch, memory: &Memory) {
        self.nr_checked += batch.to_check.len() as u64;
        let folios = batch.folios.iter().chain(&batch.to_check);
        folios.for_each(|folio| self.looked_up(memory.slot(*folio), memory));
    }

    fn looked_up(&mut self, slot: u32, memory: &Memory) {
        self.nr_rmap_walks += u64::from(memory.mapped.get(slot));
    }
}

impl<'w, P: Policy + ?Sized> Machine<'w, P> {
    pub(crate) fn new(
        mut policy: Box<P>,
        workload: &'w Workload,
        setup: &Setup,
    ) -> Result<Self, SimError> {
        if setup.memory_pages == 0 {
            return Err(SimError::NoMemory);
        }
        let groups = Groups::new(&mut *policy, workload, setup)?;
        let layout = Layout::new(workload);
        let group_of = |slot| groups.of(workload.page(layout.page(slot)).group);
        let spaces = Spaces::add(&mut *policy, group_of, &layout, workload)?;
        Ok(Machine {
            policy,
            workload,
            memory: Memory::new(&layout),
            layout,
            writeback: Writeback::new(setup.memory_pages),
            setup: setup.clone(),
            groups,
            tiers: Tiers::default(),
            killer: setup.kill_at.map(|at| Killer::new(at, workload)),
            spaces,
            nr_pages: [0; 2],
            charged: None,
            limit_pages: setup.memory_pages,
            nr_reclaim_pages: nr_reclaim_pages(setup.memory_pages),
            last_read: None,
            now: TimeMs(0),
            driven_at: None,
            batch: EvictBatch::default(),
            fates: Vec::new(),
            verdicts: Vec::new(),
            counts: Counts::default(),
            refaults_by_time: Vec::new(),
            samples: Vec::new(),
        })
    }

    pub(crate) fn run(mut self, progress: &dyn Progress) -> Result<Outcome, SimError> {
        let requests = self.workload.requests();
        let sample_every = requests.len().div_ceil(NR_SAMPLES as usize).max(1);
        let (mut position, mut ends) = (0, self.workload.ends());
        while position < requests.len() {
            for end in ends_before(&mut ends, position) {
                self.free(end.page)?;
            }
            // Neither progress nor samples nor what is freed is looked at in the hot loop.
            let to_sample = sample_every - position % sample_every;
            let phase_end = self.tiers.phase_end(requests.len());
            let end = phase_end.min(position + to_sample.min(PROGRESS_REQUESTS));
            let end = next_end(ends, end);
            for (request, number) in requests[position..end].iter().zip(position..) {
                self.request_of_app(*request, number)?;
            }
            progress.advance((end - position) as u64);
            position = end;
            if self.tiers.nr_phases > 0 && position == phase_end {
                let phase = self.counted(position as u64)?;
                self.tiers.phases.push(phase);
            }
            if position % sample_every == 0 {
                self.sample(position as u64)?;
            }
        }
        self.outcome()
    }

    fn request(&mut self, request: Request, position: usize) -> Result<(), SimError> {
        match self.tiers.is_any() {
            true => self.access_on_tiers(request, position)?,
            false => self.access(request, position)?,
        }
        // Not before: the page it brought in may be the next to go.
        match self.charged.take() {
            Some(group) => self.relieve(group),
            None => Ok(()),
        }
    }

    fn access(&mut self, request: Request, position: usize) -> Result<(), SimError> {
        let slot = self.layout.slot(request.page());
        let is_write = request.op() == Op::Write;
        match request.via() {
            Via::PageTable if self.memory.mapped.get(slot) => self.memory.accessed.set(slot),
            Via::PageTable => {
                if self.memory.folio(slot).is_none() {
                    self.fault(slot, request.page(), Cause::Fault, position)?;
                }
                self.memory.mapped.set(slot);
                self.memory.accessed.set(slot);
            }
            Via::FileDescriptor => {
                let folio = match self.memory.folio(slot) {
                    Some(folio) => folio,
                    None => self.fault(slot, request.page(), Cause::Read, position)?,
                };
                if is_write || self.last_read != Some(slot) {
                    self.policy.accessed(folio, AccessVia::FileDescriptor);
                }
                self.last_read = Some(slot);
            }
        }
        if is_write && !self.memory.dirty.get(slot) {
            self.dirtied(slot, request.page());
        }
        Ok(())
    }

    /// Brings a page in, making room first.
    fn fault(
        &mut self,
        slot: u32,
        page: PageId,
        cause: Cause,
        position: usize,
    ) -> Result<FolioId, SimError> {
        self.counts.nr_misses += 1;
        self.now = self.time(position);
        let number = self.workload.page(page).group;
        self.groups.missed(number);
        let group = self.groups.of(number);
        self.spaces.faults(slot, cause);
        self.make_room(group)?;
        let node = match self.tiers.is_any() {
            true => self.node_for(slot)?,
            false => NodeId::default(),
        };
        let shadow = match self.memory.place(slot) {
            Place::Absent(shadow) => shadow,
            Place::Resident(folio) => return Ok(folio),
        };
        if shadow.is_some() {
            match self.refaults_by_time.last_mut() {
                Some((time, nr_pages)) if *time == self.now => *nr_pages += 1,
                _ => self.refaults_by_time.push((self.now, 1)),
            }
        }
        let kind = kind_of(self.workload.page(page).backing);
        if let (Some(killer), Some(_)) = (&mut self.killer, shadow) {
            killer.came_back(kind);
        }
        let folio = self.policy.appeared(Arrival {
            group,
            node,
            kind,
            order: Order::BASE,
            cause,
            shadow,
            is_exec: self.workload.page(page).backing == Backing::Code,
        })?;
        self.memory.enter(slot, folio);
        self.tiers.enter(slot, node);
        self.nr_pages[kind.index()] += 1;
        self.counts.nr_anon_misses += u64::from(kind == Kind::Anon);
        self.charged = (self.groups.is_tree() || self.tiers.is_any()).then_some(group);
        Ok(folio)
    }

    /// Nobody needs a page any more, wherever it is.
    ///
    /// # Errors
    /// The policy refuses.
    pub(crate) fn free(&mut self, page: PageId) -> Result<(), SimError> {
        let (slot, of) = (self.layout.slot(page), self.workload.page(page));
        let kind = kind_of(of.backing);
        match self.memory.place(slot) {
            Place::Resident(folio) => {
                self.policy.gone(folio, GoneCause::Freed);
                self.tiers.leave(slot);
                self.nr_pages[kind.index()] -= 1;
            }
            Place::Absent(Some(_)) if kind == Kind::Anon => {
                self.policy.swap_freed(self.groups.of(of.group), 1)?;
            }
            Place::Absent(_) => {}
        }
        self.memory.leave(slot, None);
        Ok(())
    }

    fn dirtied(&mut self, slot: u32, page: PageId) {
        self.memory.dirty.set(slot);
        let is_file = self.workload.page(page).backing.is_file();
        let Some(folio) = self.memory.folio(slot).filter(|_| is_file) else {
            return;
        };
        self.policy.set_write_state(folio, WriteState::Waiting);
        self.writeback.push(slot);
        while let Some(due) = self.writeback.next_due() {
            self.write(due);
        }
    }

    /// Writes a page of a file, if it is dirty still.
    fn write(&mut self, slot: u32) {
        if !self.memory.dirty.take(slot) {
            return;
        }
        self.counts.nr_written += 1;
        if let Some(folio) = self.memory.folio(slot) {
            self.policy.set_write_state(folio, WriteState::Clean);
        }
    }

    /// Virtual time of a request.
    fn time(&self, position: usize) -> TimeMs {
        if let Some(now) = self.driven_at {
            return now;
        }
        let time_us = self.workload.time_us(position as u32);
        TimeMs(time_us.unwrap_or(position as u64) / 1000)
    }

    /// Notes how the generations stand.
    ///
    /// # Errors
    /// The policy refuses.
    pub(crate) fn sample(&mut self, at_access: u64) -> Result<(), SimError> {
        self.samples.push(Sample {
            at_access,
            nr_misses: self.counts.nr_misses,
            generations: self.groups.generations(&*self.policy, self.now)?,
        });
        Ok(())
    }

    /// What all of it came to.
    ///
    /// # Errors
    /// The policy refuses.
    pub(crate) fn outcome(mut self) -> Result<Outcome, SimError> {
        let nr_accesses = u64::from(self.workload.nr_requests()) + self.groups.nr_replayed();
        let mut outcome = self.counted(nr_accesses)?;
        outcome.policy_bytes = self.policy.memory_bytes()
            + self.memory.memory_bytes()
            + self.layout.memory_bytes()
            + self.writeback.memory_bytes();
        if let Some(reclaim) = &mut outcome.reclaim {
            if let Some(tiers) = &mut reclaim.tiers {
                tiers.phases = self.tiers.phases;
            }
            reclaim.refaults_by_time = self.refaults_by_time;
            reclaim.time_in_generations = time_by_age(&self.samples);
            reclaim.samples = self.samples;
        }
        Ok(outcome)
    }

    /// What was counted up to here.
    fn counted(&mut self, nr_accesses: u64) -> Result<Outcome, SimError> {
        let tiering = self.policy.tiering().map(|of| of.tiering_stats());
        let reclaim = Reclaim {
            nr_demoted: tiering.map_or(0, |of| of.pgdemote_kswapd + of.pgdemote_direct),
            nr_written: self.counts.nr_written,
            nr_checked: self.counts.looks.nr_checked,
            nr_rmap_walks: self.counts.looks.nr_rmap_walks,
            tiers: tiering.map(|stats| TierCounts {
                nr_hits: self.tiers.nr_hits.clone(),
                stats,
                phases: Vec::new(),
            }),
            apps: self.killer.as_ref().map(|killer| killer.counts),
            ..self.groups.reclaim(&*self.policy, self.workload)?
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

/// Pages that reclaim takes at a time, of so many.
fn nr_reclaim_pages(of_pages: u32) -> u32 {
    (of_pages / BATCHES_PER_MEMORY).clamp(1, NR_RECLAIM_PAGES)
}

pub(crate) fn kind_of(backing: Backing) -> Kind {
    match backing {
        Backing::Anon => Kind::Anon,
        Backing::File | Backing::Code => Kind::File,
    }
}
