//! Telling the kernel which pages are warm while it chooses what goes.
//!
//! **Owns** when walks come for that and what follows one. **Does not own** whether it pays
//! (`activation`), nor the touching (`actuator::Activate`).

use super::super::activation::{Activation, WARM_PERCENT, walk_ms};
use super::Managed;
use crate::actuator::Activate;
use strata_lru::TimeMs;

/// The thread, and what is known of its use.
#[derive(Debug)]
pub(super) struct Warm {
    thread: Activate,
    activation: Activation,
}

impl Warm {
    /// Nothing touched yet.
    pub(super) fn new(thread: Activate) -> Warm {
        Warm {
            thread,
            activation: Activation::default(),
        }
    }
}

impl Managed {
    /// How far apart walks are to be while warm pages are touched; `None` while none are.
    pub(super) fn warm_walk_ms(&self, now: TimeMs) -> Option<u64> {
        let warm = self.warm.as_ref()?;
        if self.is_dry_run || !self.governor.is_kernels_turn() || !warm.activation.is_on(now) {
            return None;
        }
        let nr_resident_pages: u64 = self.tracker.findings().nr_resident_pages.iter().sum();
        let pages_per_s = self.running.refaulted_pages_per_s();
        Some(walk_ms(nr_resident_pages, pages_per_s))
    }

    /// Before a walk: whether it is to tell which pages the kernel has on its active lists.
    pub(super) fn look_for_warm(&mut self, now: TimeMs) {
        let is_wanted = self.warm_walk_ms(now).is_some();
        let is_told = self.walker.source().see_active(is_wanted);
        if is_wanted && !is_told {
            self.warm = None;
        }
    }

    /// After a walk: touches what is warm and has come to the inactive lists.
    pub(super) fn touch_warm(&mut self, now: TimeMs) {
        if self.warm_walk_ms(now).is_none() {
            return;
        }
        let Some(warm) = &mut self.warm else { return };
        warm.activation.after_walk(now, self.tracker.foretold());
        let pages = self.tracker.take_warm(WARM_PERCENT);
        // Still at the last ones: what was missed is there at the next walk.
        let _is_taken = warm.thread.try_submit(pages);
    }

    /// Hears what the thread has done.
    pub(super) fn hear_of_warm(&mut self) {
        let Some(warm) = &mut self.warm else { return };
        let Some(report) = warm.thread.poll() else {
            return;
        };
        self.eviction.nr_activated_pages += report.nr_touched_pages;
        if let Some(error) = report.error {
            self.warn(format!(
                "warm pages can't be touched ({error}): the kernel chooses by itself; run as root"
            ));
            self.warm = None;
        }
    }
}
