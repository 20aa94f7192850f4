//! At rest: the run is paused, or Strata is about to stop with its program.
//!
//! **Owns** what is still done then. **Does not own** when (`run`).

use super::{Managed, Standing, Tick};
use std::time::Duration;
use strata_lru::TimeMs;

/// While paused.
const REST_MS: u64 = 1000;
/// The kernel's reclaim is waited for so long before Strata stops.
const RECLAIM_WAIT_MAX: Duration = Duration::from_secs(2);

impl Managed {
    /// Takes in answers and does nothing else: the run is paused.
    pub(in super::super) fn rest(&mut self, now: TimeMs) -> Tick {
        self.take_answers(now);
        self.stop_naming();
        self.allow_recall(None);
        self.forget_room();
        Tick {
            wait_ms: REST_MS,
            standing: Standing::Fine,
            is_stalled: false,
        }
    }

    /// Waits for the reclaim that is under way, so that no limit is in motion.
    pub(in super::super) fn wait_for_kernel(&mut self, now: TimeMs) {
        if let Some(shrink) = &self.shrink {
            shrink.wait(RECLAIM_WAIT_MAX);
        }
        self.take_answers(now);
    }
}
