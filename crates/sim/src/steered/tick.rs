//! One tick of the control loop on a played kernel: what `strata run` does with what it has read.
//!
//! ```text
//!   threads, processors, usage -> sample -> Control::tick -> plan -> threads        then a walk, if one is due
//! ```
//!
//! All calls of `strata_control::Control` are here.
//!
//! **Owns** the order of a tick, as the host has it. **Does not own** the decisions (`strata_control`), the pages (`pages`),
//! the threads (`threads`), nor limits (`limit`).
//!
//! **Invariants** I1: a tick never waits for a thread.

use strata_control::{
    Action, ActuatorReport, FreeSwap, KernelLists, PAGE_BYTES, Reading, Sample, WalkLook,
    cpu::CpuSample,
    limit::Standing,
    strategy::{Busy, Outcome, Walk},
    walks::Pause,
};
use strata_lru::{HEAT_WALK_MS_MIN, Isolated, Kind, NR_RANKED_PAGES_MIN, TimeMs};

use super::{
    Hierarchy, prices,
    threads::{Bound, Freed, Piece},
    world::World,
};
use crate::{
    mechanism::{PlaysKernel, bits::Bits},
    simulate::SimError,
};

/// Isolation is asked again at most so often within one tick.
const ISOLATE_TRIES: u32 = 16;
/// On v1 a request of the kernel goes on to this, where it gets so far, bytes.
const DIP_RUN_BYTES: u64 = 32 << 20;
/// A call that clears a whole space is made where it is expected to take no longer, nanoseconds, ...
const CLEAR_CALL_NS: u64 = 1_500_000;
/// ... and walks that clear come so many times further apart than that took.
const CLEARING_SHARE: u64 = 200;

/// What a tick came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticked {
    pub(super) wait_ms: u64,
    pub(super) standing: Standing,
    /// What it took of a processor, nanoseconds.
    pub(super) work_ns: u64,
}

/// What is counted from walk to walk, as for the host's loop.
#[derive(Debug, Default)]
pub(super) struct Looped {
    nr_attempts: u64,
    kernel_freed_pages: u64,
    is_telling_due: bool,
    nr_taken_pages: u64,
    last_cleared_walk_ns: Option<u64>,
    /// What this tick's walks took, nanoseconds.
    walked_ns: u64,
    young: Vec<u32>,
}

impl<P: PlaysKernel> World<'_, P> {
    /// Takes in answers, decides, has it carried out, and walks if that is due.
    pub(super) fn tick(&mut self, at_ns: u64) -> Result<Ticked, SimError> {
        let now = TimeMs(at_ns / 1_000_000);
        self.looped.walked_ns = 0;
        let sample = self.sense(now)?;
        let usage_bytes = sample.usage_bytes;
        let plan = self.control.tick(sample);
        self.count_reclaimer(at_ns, usage_bytes);
        let mut ticked = Ticked {
            wait_ms: plan.wait_ms,
            standing: Standing::Fine,
            work_ns: 0,
        };
        let mut is_pageout_wanted = false;
        for action in plan.actions {
            match action {
                Action::Reclaim { bytes } => self.ask_kernel(at_ns, bytes),
                Action::PageOut { nr_pages } => {
                    is_pageout_wanted = true;
                    if !self.pages.is_batch_out() {
                        ticked.standing = self.evict(at_ns, nr_pages, usage_bytes)?;
                        if ticked.standing != Standing::Fine {
                            ticked.wait_ms = self.control.back_off();
                        }
                    }
                }
                action => self.carry_out(at_ns, action),
            }
        }
        self.tell_when_cleared(at_ns);
        self.walk_if_due(at_ns, is_pageout_wanted, usage_bytes)?;
        ticked.work_ns = prices::TICK_NS + self.looped.walked_ns;
        Ok(ticked)
    }

    /// All that a tick reads.
    fn sense(&mut self, now: TimeMs) -> Result<Sample, SimError> {
        let reports = self.hear();
        let usage_bytes = self.usage_bytes();
        let due = self.control.due(now, usage_bytes);
        let paged_out = self.pages.stats()?.nr_evicted_pages;
        let freed_pages = paged_out.iter().sum::<u64>() + self.looped.kernel_freed_pages;
        let refaulted = self.machine.group_stats()?.nr_refaulted_pages;
        let cpu = due.is_sharing.then(|| CpuSample {
            threads: due.cpu.threads.then(|| self.timeline.threads()),
            runnable: due
                .cpu
                .runnable
                .then(|| self.timeline.runnable(self.nr_own_at_work)),
            clocks: (due.cpu.clocks)
                .then(|| self.timeline.clocks(refaulted.iter().flatten().sum())),
        });
        let free_swap = match self.has_swap {
            true => FreeSwap::NotKnown,
            false => FreeSwap::Bytes(0),
        };
        Ok(Sample {
            now,
            usage_bytes,
            is_line_held: self.limit.is_line_held(),
            reports,
            nr_attempts: self.looped.nr_attempts,
            freed_bytes: freed_pages * PAGE_BYTES,
            cpu,
            can_mark_all: self.control.abilities().can_mark,
            free_swap: due.free_swap.then_some(free_swap),
            going_bytes: 0,
        })
    }

    /// What the threads have done since the last tick.
    fn hear(&mut self) -> Vec<ActuatorReport> {
        let mut reports = Vec::new();
        if let Some(freed) = self.kernel.answer.take() {
            self.kernel.is_busy = false;
            reports.push(match freed {
                Freed::Pages(pages) => {
                    self.looped.kernel_freed_pages += pages;
                    ActuatorReport::KernelFreed
                }
                Freed::Outpaced => ActuatorReport::KernelOutpaced,
                Freed::Nothing => ActuatorReport::KernelFoundNothing,
            });
            self.looped.nr_attempts += u64::from(freed != Freed::Outpaced);
        }
        if let Some(verdicts) = self.pageout.take_answer() {
            self.looped.nr_attempts += 1;
            self.pages
                .note_accessed(&self.pageout.neighbours, &self.pageout.accessed);
            self.pages.settle(&verdicts);
        }
        reports
    }

    fn ask_kernel(&mut self, at_ns: u64, bytes: u64) {
        if !self.control.may_ask_kernel(TimeMs(at_ns / 1_000_000)) {
            return;
        }
        let usage_pages = u64::from(self.machine.nr_used_pages());
        let (bytes, bound) = match self.setup.hierarchy {
            Hierarchy::V2 => (bytes, Bound::Pages),
            Hierarchy::V1 => {
                let budget_bytes = self.marks.budget_bytes;
                let line_bytes = budget_bytes.min(self.bounds.max_pages * PAGE_BYTES);
                let step_bytes = self.config.watermarks.line_distance_bytes(budget_bytes);
                let floor_pages = line_bytes.saturating_sub(step_bytes) / PAGE_BYTES;
                (bytes.max(DIP_RUN_BYTES), Bound::Floor(floor_pages))
            }
        };
        let nr_pages = bytes.div_ceil(PAGE_BYTES);
        self.kernel.ask(at_ns, nr_pages, usage_pages, bound);
    }

    fn evict(&mut self, at_ns: u64, nr_pages: u64, usage_bytes: u64) -> Result<Standing, SimError> {
        self.looped.nr_attempts += 1;
        let now = TimeMs(at_ns / 1_000_000);
        if self.evict_cold(at_ns, nr_pages, usage_bytes)? {
            return Ok(Standing::Fine);
        }
        let mut has_walked = false;
        for _ in 0..ISOLATE_TRIES {
            let swappiness = self.control.swappiness();
            let (answer, slots) = self.pages.isolate(nr_pages, swappiness, now)?;
            match answer {
                Isolated::Pages(_) => {
                    self.pageout.submit(at_ns, slots);
                    return Ok(Standing::Fine);
                }
                Isolated::Again => {}
                Isolated::NeedsAgeing | Isolated::Empty if !has_walked => {
                    let walks = self.config.walks;
                    let may_walk = self.may_walk(at_ns, Pause::Clearing.ms(&walks))
                        || self.control.may_look(now, Pause::Looking.ms(&walks));
                    if !may_walk {
                        return Ok(Standing::Fine);
                    }
                    self.walk(at_ns, usage_bytes)?;
                    has_walked = true;
                }
                Isolated::NeedsAgeing => return Ok(Standing::Fine),
                Isolated::Empty => return Ok(Standing::NothingEvictable),
                Isolated::Thrashing => return Ok(Standing::Thrashing),
            }
        }
        Ok(Standing::Fine)
    }

    fn evict_cold(
        &mut self,
        at_ns: u64,
        nr_pages: u64,
        usage_bytes: u64,
    ) -> Result<bool, SimError> {
        if self.pages.nr_ranked() == 0 && self.may_walk(at_ns, HEAT_WALK_MS_MIN) {
            self.walk(at_ns, usage_bytes)?;
        }
        let (swappiness, now) = (self.control.swappiness(), TimeMs(at_ns / 1_000_000));
        let slots = self.pages.isolate_cold(nr_pages, swappiness, now);
        self.looped.nr_taken_pages += slots.len() as u64;
        let has_any = !slots.is_empty();
        if has_any {
            self.pageout.submit(at_ns, slots);
        }
        Ok(has_any)
    }

    fn busy(&self) -> Busy {
        Busy {
            marking: self.marker.is_busy,
            deactivating: self.deactivator.is_busy,
            prefetching: false,
        }
    }

    fn walk_if_due(
        &mut self,
        at_ns: u64,
        is_pageout_wanted: bool,
        usage_bytes: u64,
    ) -> Result<(), SimError> {
        let look = WalkLook {
            usage_bytes,
            nr_resident_pages: self.pages.nr_resident_pages(),
            busy: self.busy(),
            is_splitting: false,
            is_pageout_wanted,
            is_ageing_due: false,
        };
        let now = TimeMs(at_ns / 1_000_000);
        match self.control.walk_pause_ms(now, &look) {
            Some(pause_ms) if self.may_walk(at_ns, pause_ms) => self.walk(at_ns, usage_bytes),
            _ => Ok(()),
        }
    }

    /// How far apart walks that clear come at least, nanoseconds.
    fn pace_ns(&self) -> u64 {
        self.clearer.held_ns * CLEARING_SHARE
    }

    fn is_rested(&self, at_ns: u64) -> bool {
        let is_over = |then: u64| at_ns >= then + self.pace_ns();
        !self.clearer.is_busy && self.looped.last_cleared_walk_ns.is_none_or(is_over)
    }

    fn may_walk(&self, at_ns: u64, pause_ms: u64) -> bool {
        self.is_rested(at_ns) && self.control.may_look(TimeMs(at_ns / 1_000_000), pause_ms)
    }

    fn walk(&mut self, at_ns: u64, usage_bytes: u64) -> Result<(), SimError> {
        let now = TimeMs(at_ns / 1_000_000);
        self.look(at_ns)?;
        let nr_resident_pages = self.pages.nr_resident_pages();
        if self.control.is_ageing(now, nr_resident_pages, self.busy()) {
            self.control.note_ageing(now);
            self.pages.finish_walk(self.control.swappiness(), now)?;
        } else {
            self.pages.finish_look();
        }
        self.rank(usage_bytes);
        self.looped.is_telling_due = true;
        self.tell_when_cleared(at_ns);
        self.control.end_walk(now, usage_bytes);
        self.counts.nr_walks += 1;
        Ok(())
    }

    fn look(&mut self, at_ns: u64) -> Result<(), SimError> {
        let is_thorough = self.control.begin_walk();
        let is_for_pageout = self.control.is_clearing_for_pageout();
        let may_clear = self.is_rested(at_ns);
        if may_clear {
            self.looped.last_cleared_walk_ns = Some(at_ns);
            self.clearer.held_ns = 0;
        }
        let mut pieces = Vec::new();
        let mut cpu_ns = 0;
        for index in 0..self.pages.spaces().len() {
            let space = &self.pages.spaces()[index];
            let used_ns = self.timeline.cpu_ns_of(space.number);
            if !is_thorough && used_ns.is_some() && space.cpu_ns_at_walk == used_ns {
                self.pages.leave_out(index);
                continue;
            }
            let mut young = std::mem::take(&mut self.looped.young);
            young.clear();
            self.pages.walk(index, &self.machine, &mut young)?;
            let findings = self.pages.spaces()[index].findings;
            cpu_ns += findings.nr_entries * prices::WALK_NS;
            cpu_ns += findings.nr_resident_pages * prices::NOTE_NS;
            self.pages.space_mut(index).cpu_ns_at_walk = used_ns.filter(|_| may_clear);
            if may_clear {
                let nr_pages = findings.nr_resident_pages;
                cpu_ns += self.clear(&young, nr_pages, is_for_pageout, &mut pieces);
            }
            self.looped.young = young;
        }
        if !pieces.is_empty() {
            let restores = P::HAS_LISTS && !is_for_pageout;
            let restore = restores.then(|| self.active_slots());
            self.clearer.submit(at_ns, pieces, restore);
        }
        self.control.note_walk_cost(cpu_ns, cpu_ns);
        self.looped.walked_ns += cpu_ns;
        Ok(())
    }

    /// The pages that were not on an inactive list when the walk came by.
    fn active_slots(&self) -> Bits {
        let nr_slots = self.machine.layout().nr_slots();
        let mut active = Bits::new(nr_slots);
        let slots = (0..nr_slots).filter(|slot| !self.pages.inactive.get(*slot));
        slots.for_each(|slot| active.set(slot));
        active
    }

    /// Clears at once what can be; the rest is added to `pieces`. The time it took.
    fn clear(
        &mut self,
        young: &[u32],
        nr_pages: u64,
        is_for_pageout: bool,
        pieces: &mut Vec<Piece>,
    ) -> u64 {
        let layout = self.machine.layout();
        let place = |slot: &u32| (layout.table(*slot), self.machine.kind_at(*slot));
        let stretches = young.chunk_by(|a, b| place(a) == place(b));
        let stretches = stretches.filter_map(|of| {
            let (first, last) = (*of.first()?, *of.last()?);
            Some((Piece { first, last }, self.machine.kind_at(first)))
        });
        let stretches: Vec<(Piece, Kind)> = stretches.collect();
        let nr_slots: u64 = stretches
            .iter()
            .map(|(of, _)| u64::from(of.last - of.first) + 1)
            .sum();
        let by_pieces_ns =
            stretches.len() as u64 * prices::CLEAR_PIECE_NS + nr_slots * prices::CLEAR_PAGE_NS;
        let at_once_ns = nr_pages * prices::CLEAR_REFS_NS;
        let is_cold_better = is_for_pageout && by_pieces_ns < at_once_ns;
        if at_once_ns <= CLEAR_CALL_NS && !is_cold_better {
            young.iter().for_each(|slot| self.machine.clear(*slot));
            self.clearer.held_ns += at_once_ns;
            return at_once_ns;
        }
        // Where generations are, `MADV_COLD` of a page of a file would make it one of the oldest.
        let is_for_pieces = |of: &&(Piece, Kind)| P::HAS_LISTS || of.1 == Kind::Anon;
        pieces.extend(stretches.iter().filter(is_for_pieces).map(|of| of.0));
        0
    }

    fn rank(&mut self, usage_bytes: u64) {
        let excess_pages = usage_bytes.saturating_sub(self.marks.low_bytes) / PAGE_BYTES;
        if excess_pages == 0 {
            return;
        }
        let nr_taken_pages = std::mem::take(&mut self.looped.nr_taken_pages);
        let nr_pages = ((nr_taken_pages + excess_pages) * 2).max(NR_RANKED_PAGES_MIN);
        self.pages.rank(nr_pages, self.control.swappiness());
    }

    fn tell_when_cleared(&mut self, at_ns: u64) {
        if !self.looped.is_telling_due || self.clearer.is_busy {
            return;
        }
        self.looped.is_telling_due = false;
        let now = TimeMs(at_ns / 1_000_000);
        let nr_resident_pages = self.pages.nr_resident_pages();
        let walk = Walk {
            pace_ms: self.pace_ns() / 1_000_000,
            foretold: self.pages.foretold(),
            ..Walk::default()
        };
        let actions = self.control.tell(now, walk, nr_resident_pages, self.busy());
        for action in actions {
            self.carry_out(at_ns, action);
        }
    }

    fn carry_out(&mut self, at_ns: u64, action: Action) {
        let swappiness = self.control.swappiness();
        let (slots, is_taken) = match action {
            Action::ForgetForecast => return self.pages.forget_warm(),
            Action::Forecast { percent } => {
                self.pages.take_warm(percent);
                return;
            }
            Action::LimitPageout { percent_max } => {
                self.pageout.percent_max = percent_max;
                return;
            }
            // Nothing is read ahead, and a thread runs on no processor in particular.
            Action::ForgetPrefetched | Action::Prefetch { .. } | Action::LimitPrefetch { .. } => {
                return;
            }
            Action::AvoidBusyThreads | Action::RunAnywhere => return,
            // Done where the tick goes through its plan.
            Action::Reclaim { .. } | Action::PageOut { .. } => return,
            Action::MarkAccessed { percent } => {
                let slots = self.pages.take_warm(percent);
                (slots.len(), self.marker.submit(at_ns, slots))
            }
            Action::Deactivate { nr_pages } => {
                let slots = self.pages.coldest_active(nr_pages, swappiness);
                let nr_slots = slots.len();
                (
                    nr_slots,
                    nr_slots > 0 && self.deactivator.submit(at_ns, slots),
                )
            }
        };
        let outcome = Outcome {
            nr_programs: self.pages.spaces().len() as u64,
            nr_pages: slots as u64,
            is_taken,
        };
        self.control
            .taken_up(TimeMs(at_ns / 1_000_000), action, outcome);
    }

    /// Looks how long the kernel's lists are, and tells whether its counts are to be read.
    pub(super) fn look_at_lists(
        &mut self,
        now: TimeMs,
        usage_bytes: u64,
    ) -> Result<Reading, SimError> {
        if !self.control.abilities().can_deactivate {
            return Ok(Reading::Paced);
        }
        let lists = match self.control.is_looking_at_lists(now) {
            true => Some(self.machine.list_pages()?),
            false => None,
        };
        let lists = lists.map(|[anon, file]| KernelLists {
            nr_inactive_pages: anon[0] + file[0],
            nr_active_pages: anon[1] + file[1],
        });
        let is_deactivating = self.deactivator.is_busy;
        let (may_deactivate, reading) =
            self.control
                .take_lists(now, lists, usage_bytes, is_deactivating);
        self.deactivator.is_allowed = may_deactivate;
        Ok(reading)
    }
}
