//! The trace of a steered run: the lines of `strata run --trace`.
//!
//! **Owns** turns that were not handed on yet. **Does not own** what a turn says (`strata_control::trace`), nor where turns
//! go ([`Progress::trace`]).
//!
//! **Invariants** I1: without a trace nothing is kept.

use strata_lru::TimeMs;

use super::world::World;
use crate::{mechanism::PlaysKernel, simulate::Progress};

impl<P: PlaysKernel> World<'_, P> {
    /// A turn is over.
    pub(super) fn end_turn(&mut self, wait_ms: u64) {
        if let Some(mut turn) = self.recorder.take() {
            (turn.wait_ms, turn.standing) = (wait_ms, self.standing);
            self.turns.push(turn);
        }
    }

    /// Ends the trace. What threads are still at counts as not done.
    pub(super) fn end_trace(&mut self, now: TimeMs) {
        if self.setup.is_traced {
            self.hear();
            self.recorder.turn(|turn| turn.now = now);
            self.end_turn(0);
        }
    }

    /// Hands on what there is.
    pub(super) fn tell_trace(&mut self, progress: &dyn Progress) {
        for turn in self.turns.drain(..) {
            progress.trace(&turn);
        }
    }
}
