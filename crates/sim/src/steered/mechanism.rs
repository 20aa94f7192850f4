//! The played memory and Strata's threads in virtual time, as the control loop acts on them.
//!
//! **Owns** turning quantities into pages, by the engine's order, and what a walk clears at once. **Does not own** the order
//! of a tick (`strata_control::drive`), the pages (`pages`), nor the threads (`threads`).

use strata_control::{
    Action, CacheRequest, Control, PAGE_BYTES,
    drive::{Event, Given, Mechanism, View, Visit},
    trace::{ClearIntent, Recorder},
};
use strata_lru::machine::{CALL_GOAL_NS, CLEARING_SHARE, CgroupVersion};
use strata_lru::{Kind, TimeMs};

use super::{
    prices,
    threads::{Bound, Piece},
    world::World,
};
use crate::{
    mechanism::{PlaysKernel, bits::Bits},
    simulate::SimError,
};

/// While pages are being cleared a walk has to wait at least for so long.
const BUSY_REST_US: u64 = 1000;
/// On v1 a request of the kernel goes on to this, where it gets so far, bytes.
const DIP_RUN_BYTES: u64 = 32 << 20;

impl<P: PlaysKernel> Mechanism for World<'_, P> {
    type Error = SimError;
    type Batch = Vec<u32>;

    fn control(&self) -> &Control {
        &self.control
    }

    fn control_mut(&mut self) -> &mut Control {
        &mut self.control
    }

    fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn view(&mut self, _: TimeMs) -> View {
        View {
            is_batch_out: self.pages.is_batch_out(),
            rest_us: self.rest_us(),
            ..View::default()
        }
    }

    fn hear(&mut self, _: TimeMs, event: Event) {
        match event {
            Event::Attempt => self.looped.nr_attempts += 1,
            Event::WalkEnded => self.counts.nr_walks += 1,
            Event::Thrashing | Event::WalkPutOff => {}
        }
    }

    fn ask_kernel(&mut self, _: TimeMs, bytes: u64) -> bool {
        let at_ns = self.looped.at_ns;
        let usage_pages = u64::from(self.machine.nr_used_pages());
        let (run_bytes, bound) = match self.setup.hierarchy {
            CgroupVersion::V2 => (bytes, Bound::Pages),
            CgroupVersion::V1 => {
                let budget_bytes = self.marks.budget_bytes;
                let line_bytes = budget_bytes.min(self.bounds.max_pages * PAGE_BYTES);
                let step_bytes = self
                    .setup
                    .config
                    .watermarks
                    .distances()
                    .line_distance_bytes(budget_bytes);
                let floor_pages = line_bytes.saturating_sub(step_bytes) / PAGE_BYTES;
                (bytes.max(DIP_RUN_BYTES), Bound::Floor(floor_pages))
            }
        };
        let nr_pages = run_bytes.div_ceil(PAGE_BYTES);
        let is_taken = self.kernel.ask(at_ns, nr_pages, usage_pages, bound);
        if is_taken {
            let (so_far, _) = self.looped.asked_bytes;
            self.looped.asked_bytes = (so_far + bytes, bytes);
        }
        is_taken
    }

    fn isolate(&mut self, now: TimeMs, nr_pages: u64) -> Result<Option<Given<Vec<u32>>>, SimError> {
        let swappiness = self.control.swappiness();
        let (answer, batch) = self.pages.isolate(nr_pages, swappiness, now)?;
        Ok(Some(Given { answer, batch }))
    }

    fn send(&mut self, _: TimeMs, batch: Vec<u32>) {
        self.pageout.submit(self.looped.at_ns, batch);
    }

    fn visit(
        &mut self,
        _: TimeMs,
        is_thorough: bool,
        intent: ClearIntent,
    ) -> Result<Option<Visit>, SimError> {
        let is_for_pageout = intent == ClearIntent::Pageout;
        let at_ns = self.looped.at_ns;
        let may_clear = self.rest_us() == 0;
        let mut visit = Visit {
            is_thorough,
            clear: may_clear.then_some(intent),
            ..Visit::default()
        };
        if may_clear {
            self.looped.last_cleared_walk_ns = Some(at_ns);
            self.clearer.held_ns = 0;
        }
        let mut pieces = Vec::new();
        for index in 0..self.pages.spaces().len() {
            let space = &self.pages.spaces()[index];
            let used_ns = self.timeline.cpu_ns_of(space.number);
            if !is_thorough && used_ns.is_some() && space.cpu_ns_at_walk == used_ns {
                self.pages.leave_out(index);
                visit.sample.nr_spaces_skipped += 1;
                continue;
            }
            let mut young = std::mem::take(&mut self.looped.young);
            young.clear();
            self.pages.walk(index, &self.machine, &mut young)?;
            let space = &self.pages.spaces()[index];
            let nr_entries = space.nr_entries;
            let nr_resident_pages = space.found.nr_resident_pages.iter().sum();
            visit.sample.nr_spaces += 1;
            visit.sample.nr_entries += nr_entries;
            visit.sample.cpu_ns += nr_entries * prices::WALK_NS;
            visit.sample.cpu_ns += nr_resident_pages * prices::NOTE_NS;
            self.pages.space_mut(index).cpu_ns_at_walk = used_ns.filter(|_| may_clear);
            if may_clear {
                visit.sample.cpu_ns +=
                    self.clear(&young, nr_resident_pages, is_for_pageout, &mut pieces);
            }
            self.looped.young = young;
        }
        if !pieces.is_empty() {
            let restores = P::HAS_LISTS && !is_for_pageout;
            let restore = restores.then(|| self.active_slots());
            self.clearer.submit(at_ns, pieces, restore);
        }
        visit.sample.wall_ns = visit.sample.cpu_ns;
        visit.sample.found = self.pages.found();
        self.looped.walked_ns += visit.sample.cpu_ns;
        Ok(Some(visit))
    }

    fn age(&mut self, now: TimeMs) -> Result<(), SimError> {
        self.pages.finish_walk(self.control.swappiness(), now)
    }

    fn apply(&mut self, _: TimeMs, action: Action) {
        match action {
            Action::LimitPageout { percent_max } => self.pageout.percent_max = percent_max,
            // `strata_control::drive` takes pages itself.
            _ => {
                if let Some(request) = CacheRequest::of(action) {
                    self.cache.submit(self.looped.at_ns, request);
                }
            }
        }
    }
}

impl<P: PlaysKernel> World<'_, P> {
    /// How long clearing has to rest still, microseconds.
    fn rest_us(&self) -> u64 {
        if self.clearer.is_busy {
            return BUSY_REST_US;
        }
        let due_ns = (self.looped.last_cleared_walk_ns).map_or(0, |then| then + self.pace_ns());
        due_ns.saturating_sub(self.looped.at_ns).div_ceil(1000)
    }

    /// How far apart walks that clear come at least, nanoseconds.
    fn pace_ns(&self) -> u64 {
        self.clearer.held_ns * u64::from(CLEARING_SHARE)
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
        if at_once_ns <= CALL_GOAL_NS && !is_cold_better {
            young.iter().for_each(|slot| self.machine.clear(*slot));
            self.clearer.held_ns += at_once_ns;
            return at_once_ns;
        }
        // Where generations are, `MADV_COLD` of a page of a file would make it one of the oldest.
        let is_for_pieces = |of: &&(Piece, Kind)| P::HAS_LISTS || of.1 == Kind::Anon;
        pieces.extend(stretches.iter().filter(is_for_pieces).map(|of| of.0));
        0
    }
}
