//! What is done beside reclaim, and the walks it needs: this part of the loop.
//!
//! **Owns** the order in which strategies and walks are asked, and what of the loop they get to see. **Does not own** their
//! judgements (`steering`, `walks`).

use super::{Control, WalkLook};
use crate::plan::Action;
use crate::sample::Actuator;
use crate::sample::{CpuState, KernelLists, PAGE_BYTES, Reading};
use crate::strategy::{Busy, Outcome, View, Walk};
use crate::walks::Purpose;
use strata_lru::TimeMs;

/// In larger groups the kernel keeps fewer pages inactive than active (`inactive_is_low`), and what naming pages comes to was
/// measured in smaller ones only.
pub(super) const EVEN_LISTS_BYTES: u64 = 1 << 30;

impl Control {
    /// Whether the kernel's lists are to be looked at.
    pub fn is_looking_at_lists(&self, now: TimeMs) -> bool {
        self.is_left_to_programs() && self.steering.is_heat_believed(now)
    }

    /// Takes in the length of the kernel's LRU lists. Returns whether pages may be deactivated, and when `memory.stat` is
    /// to be read. `None`: the lists were not read. Lists that do not match `usage_bytes`, or of a group
    /// of a GiB or more, are ignored.
    pub fn take_lists(
        &mut self,
        now: TimeMs,
        lists: Option<KernelLists>,
        usage_bytes: u64,
        is_deactivating: bool,
    ) -> (bool, Reading) {
        let config = &self.config.control;
        let most_bytes = usage_bytes / 100 * config.lists_off_percent;
        let is_ours = |lists: &KernelLists| {
            (lists.nr_pages() * PAGE_BYTES).abs_diff(usage_bytes) <= most_bytes
        };
        let is_even = |lists: &KernelLists| lists.nr_pages() * PAGE_BYTES < EVEN_LISTS_BYTES;
        let lists = lists.filter(|lists| is_ours(lists) && is_even(lists));
        let reading = self.steering.look(now, lists, is_deactivating);
        // On v2 nothing but slowness holds usage at the line where the kernel finds nothing to take.
        match lists.is_some() && usage_bytes > self.marks.budget_bytes {
            true => (true, Reading::Due),
            false => (lists.is_some(), reading),
        }
    }

    /// The kernel's counts have been brought up to date.
    pub fn note_reading(&mut self) {
        self.steering.note_reading();
    }

    /// Pages are not deactivated any more for now.
    pub fn stop_looking_at_lists(&mut self, now: TimeMs) {
        self.steering.look(now, None, false);
    }

    fn view(&self, now: TimeMs, nr_resident_pages: u64, busy: Busy) -> View {
        View {
            now,
            is_left_to_programs: self.is_left_to_programs(),
            is_kernels_turn: self.is_kernels_turn(),
            is_dry_run: self.is_dry_run,
            is_heat_believed: self.steering.is_heat_believed(now),
            nr_resident_pages,
            refaulted_pages_per_s: self.cpu.refaulted_pages_per_s(),
            is_coming_back: self.cpu.refaulted_pages_per_s_at(now)
                >= self.config.control.returned_pages_per_s_min,
            busy,
        }
    }

    /// How far apart walks are to be for what the kernel is told, with so much in memory; `None` while it is told nothing.
    pub fn telling_walk_ms(&self, now: TimeMs, nr_resident_pages: u64, busy: Busy) -> Option<u64> {
        let view = self.view(now, nr_resident_pages, busy);
        self.wanted_ms(&view)
    }

    fn wanted_ms(&self, view: &View) -> Option<u64> {
        let least_ms = self.config.walks.pause_ms_min;
        Some(self.steering.telling_walk_ms(view)?.max(least_ms))
    }

    /// How far apart walks are to be now; `None`: none is needed.
    pub fn walk_pause_ms(&self, now: TimeMs, look: &WalkLook) -> Option<u64> {
        let view = self.view(now, look.nr_resident_pages, look.busy);
        let purpose = Purpose {
            steering_ms: self.wanted_ms(&view),
            prefetch_ms: self.steering.prefetch_walk_ms(&view),
            is_splitting: look.is_splitting,
            is_kernel_only: self.setup.actuator == Actuator::Reclaim,
            is_left_to_programs: self.is_left_to_programs(),
            is_pageout_wanted: look.is_pageout_wanted,
            has_heat: self.setup.has_heat,
            is_ageing_due: look.is_ageing_due,
        };
        self.walks
            .pause_ms(&purpose, look.usage_bytes, self.marks.approach_bytes)
    }

    /// How far apart walks come at least, by what the last one cost; milliseconds.
    pub fn walk_pace_ms(&self) -> u64 {
        self.walks.own_pause_ms().max(self.beside_pause_ms())
    }

    /// How far apart walks come at least by what Strata may take of the processors, milliseconds.
    fn beside_pause_ms(&self) -> u64 {
        let is_processor_free = self.cpu_state == CpuState::Free;
        self.allowance.walk_pause_ms(is_processor_free)
    }

    /// Whether walks that are so far apart allow one now.
    pub fn may_look(&self, now: TimeMs, pause_ms: u64) -> bool {
        let pause_ms = pause_ms.max(self.beside_pause_ms());
        self.walks.may_look(now, pause_ms) && self.allowance.affords_walk()
    }

    /// A walk begins: whether programs that did not run are to be looked at, too.
    pub fn begin_walk(&mut self) -> bool {
        self.allowance.begin_walk();
        self.walks.is_thorough()
    }

    /// What the walk took, nanoseconds of CPU and of wall time.
    pub fn note_walk_cost(&mut self, cpu_ns: u64, wall_ns: u64) {
        self.walks.note_cost(cpu_ns, wall_ns);
    }

    /// Whether the walk ends with a new generation.
    pub fn is_ageing(&self, now: TimeMs, nr_resident_pages: u64, busy: Busy) -> bool {
        let is_telling = self.telling_walk_ms(now, nr_resident_pages, busy).is_some();
        self.walks.is_ageing(now, is_telling)
    }

    /// A generation was born.
    pub fn note_ageing(&mut self, now: TimeMs) {
        self.walks.note_ageing(now);
    }

    /// A walk has ended, with so much in use.
    pub fn end_walk(&mut self, now: TimeMs, usage_bytes: u64) {
        self.walks.note_end(now, usage_bytes);
    }

    /// The hints for the kernel after a walk. To be called when clearing no longer moves pages on the kernel's lists. The
    /// field `wanted_ms` of `walk` is overwritten here.
    pub fn tell(
        &mut self,
        now: TimeMs,
        walk: Walk,
        nr_resident_pages: u64,
        busy: Busy,
    ) -> Vec<Action> {
        let view = self.view(now, nr_resident_pages, busy);
        let walk = Walk {
            wanted_ms: self.wanted_ms(&view),
            ..walk
        };
        self.steering.tell(&view, &walk)
    }

    /// What is read in after a walk.
    pub fn prefetch(
        &mut self,
        now: TimeMs,
        walk: Walk,
        nr_resident_pages: u64,
        busy: Busy,
    ) -> Vec<Action> {
        let view = self.view(now, nr_resident_pages, busy);
        let walk = Walk {
            low_bytes: self.marks.low_bytes,
            ..walk
        };
        self.steering.prefetch(&view, &walk)
    }

    /// What became of an action that asks for pages.
    pub fn taken_up(&mut self, now: TimeMs, action: Action, outcome: Outcome) {
        self.steering.taken_up(now, action, outcome);
    }

    /// Whether what is swapped out has to be waited for.
    pub fn set_swap_slow(&mut self, is_swap_slow: bool) {
        self.steering.set_swap_slow(is_swap_slow);
    }

    /// Has no pages marked any more, because nobody sees which are on the kernel's inactive lists.
    pub fn give_up_marking(&mut self) {
        self.steering.give_up_marking();
    }
}
