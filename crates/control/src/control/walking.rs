//! When walks come: this part of the loop.
//!
//! **Owns** what of the loop the judgement about walks gets to see. **Does not own** that judgement (`walks`), nor walking.

use super::{Control, WalkLook};
use crate::sample::CpuState;
use crate::walks::Purpose;
use strata_lru::TimeMs;

impl Control {
    /// How far apart walks are to be now; `None`: none is needed.
    pub fn walk_pause_ms(&self, look: &WalkLook) -> Option<u64> {
        let purpose = Purpose {
            is_splitting: look.is_splitting,
            is_by_amount: self.is_by_amount(),
            is_pageout_wanted: look.is_pageout_wanted,
            is_ageing_due: look.is_ageing_due,
        };
        self.walks
            .pause_ms(&purpose, look.usage_bytes, self.marks.approach_bytes)
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

    /// A walk has ended, with so much in use.
    pub fn end_walk(&mut self, now: TimeMs, usage_bytes: u64) {
        self.walks.note_end(now, usage_bytes);
    }
}
