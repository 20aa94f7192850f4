//! Walks: before, during and after one.
//!
//! **Owns** the order of things around a walk. **Does not own** when one comes (`strata_control::walks`), the walk itself
//! (`pages`), nor what is done after it (`beside`, `evict`).

use super::ReclaimLoop;
use crate::access::ClearIntent;
use crate::pages::walk::Thoroughness;
use crate::run::gauge::Gauge;
use crate::run::trace::{Report, WalkAsk, WalkEnd};
use crate::swap;
use strata_control::WalkLook;
use strata_lru::{Ageing, TimeMs};

/// Near the budget, while walks pause, members are looked for again after so long.
const MEMBERS_PAUSE_NEAR_MS: u64 = 1000;

impl ReclaimLoop {
    pub(super) fn walk_if_due(
        &mut self,
        now: TimeMs,
        gauge: &Gauge,
        is_pageout_wanted: bool,
        usage_bytes: u64,
    ) {
        let look = WalkLook {
            usage_bytes,
            nr_resident_pages: self.group.nr_resident_pages(),
            busy: self.actuators.busy(),
            is_splitting: self.is_splitting(),
            is_pageout_wanted,
            is_ageing_due: is_pageout_wanted && self.cold.is_none() && self.is_ageing_due(),
        };
        let Some(pause_ms) = self.groups.root().walk_pause_ms(now, &look) else {
            return;
        };
        if self.may_walk(now, pause_ms) {
            self.walk(now, gauge, usage_bytes);
        } else {
            // A walk of many processes may be followed by a long pause.
            self.refresh_members_if_due(now, gauge, MEMBERS_PAUSE_NEAR_MS);
        }
    }

    /// Whether a walk may come that clears.
    pub(super) fn may_walk(&mut self, now: TimeMs, pause_ms: u64) -> bool {
        // Sooner it would not clear, and what was used since would not be told from what was used before.
        let rest = self.group.walker().rest();
        let may_come = rest.is_zero() && self.groups.root().may_look(now, pause_ms);
        let ask = WalkAsk {
            pause_ms,
            rest_us: u64::try_from(rest.as_micros()).unwrap_or(u64::MAX),
            may_come,
        };
        self.recorder.note(|tick| tick.plan.walk_asks.push(ask));
        may_come
    }

    /// Whether the engine wants a new generation.
    fn is_ageing_due(&self) -> bool {
        let ageing = self.group.tracker.ageing(self.groups.root().swappiness());
        let is_due = matches!(ageing, Ok(Ageing::Due));
        self.recorder
            .note(|tick| tick.sample.is_ageing_due = Some(is_due));
        is_due
    }

    /// Looks at the members and walks them all.
    pub(super) fn walk(&mut self, now: TimeMs, gauge: &Gauge, usage_bytes: u64) {
        self.look(gauge, now, Thoroughness::SkipIdle);
        let nr_resident_pages = self.group.nr_resident_pages();
        let busy = self.actuators.busy();
        if self.groups.root().is_ageing(now, nr_resident_pages, busy) {
            self.groups.root_mut().note_ageing(now);
            let swappiness = self.groups.root().swappiness();
            if let Err(error) = self.group.tracker.finish_walk(swappiness, now) {
                self.warn(format!("ageing failed: {error}"));
            }
        } else {
            self.group.tracker.finish_look();
            self.note_walk_end(WalkEnd::Look);
        }
        self.after_walk(now, usage_bytes);
    }

    /// Visits all spaces; the caller ends the walk.
    pub(super) fn look(&mut self, gauge: &Gauge, now: TimeMs, thoroughness: Thoroughness) {
        self.refresh_members(now, gauge);
        self.look_for_inactive(now);
        self.look_for_slow_swap();
        let thoroughness = match self.groups.root_mut().begin_walk() {
            true => Thoroughness::Everything,
            false => thoroughness,
        };
        let intent = match self.groups.root().is_clearing_for_pageout() {
            true => ClearIntent::Pageout,
            false => ClearIntent::Watch,
        };
        let before = self.group.walk_sums();
        for failure in self.group.visit(intent, thoroughness) {
            self.warn(failure.to_string());
        }
        let (cpu_ns, wall_ns) = self.group.last_walk_ns();
        self.groups.root_mut().note_walk_cost(cpu_ns, wall_ns);
        let is_thorough = thoroughness == Thoroughness::Everything;
        self.note_walk(before, intent, is_thorough);
    }

    pub(super) fn after_walk(&mut self, now: TimeMs, usage_bytes: u64) {
        self.rank(now, usage_bytes);
        self.is_telling_due = true;
        self.tell_when_cleared(now);
        self.prefetch(now);
        self.groups.root_mut().end_walk(now, usage_bytes);
        self.group.remember(now);
    }

    /// Tells the kernel what the last walk showed, as soon as clearing does not move pages any more.
    pub(super) fn tell_when_cleared(&mut self, now: TimeMs) {
        if self.is_telling_due && !self.group.is_clearing() {
            self.is_telling_due = false;
            self.tell(now);
        }
        let is_clearing = self.group.is_clearing();
        self.recorder
            .note(|tick| tick.sample.is_clearing = is_clearing);
    }

    /// Takes in what the clearing thread has done.
    pub(super) fn hear_of_clearing(&mut self) {
        self.group.walker().rest();
        for took in self.group.walker().take_cleared() {
            self.recorder.note_report(|| Report::Clear {
                wall_ns: took.wall_ns,
                held_ns: took.all_held_ns(),
                nr_left_pieces: took.nr_left_pieces,
            });
        }
    }

    /// Before a walk: whether it is to tell which pages the kernel has on its inactive lists.
    fn look_for_inactive(&mut self, now: TimeMs) {
        let nr_resident_pages = self.group.nr_resident_pages();
        let busy = self.actuators.busy();
        let wanted_ms = self
            .groups
            .root()
            .telling_walk_ms(now, nr_resident_pages, busy);
        let is_wanted = wanted_ms.is_some();
        let is_told = self.group.walker().want_inactive(is_wanted);
        if is_wanted && !is_told {
            self.groups.root_mut().give_up_marking();
            self.actuators.stop_marking();
            self.recorder
                .note(|tick| tick.sample.is_inactive_hidden = true);
        }
    }

    /// Before a walk: whether what is swapped out has to be waited for.
    fn look_for_slow_swap(&mut self) {
        if !self.groups.root().abilities().can_prefetch {
            return;
        }
        let is_slow = swap::is_slow();
        self.groups.root_mut().set_swap_slow(is_slow);
        self.group.tracker.set_swap_slow(is_slow);
        self.recorder
            .note(|tick| tick.sample.is_swap_slow = Some(is_slow));
    }
}
