//! Telling the kernel which pages are warm while it chooses what goes.
//!
//! **Owns** when walks come for that and what follows one. **Does not own** whether it pays
//! (`strata_control::mark_accessed`), nor the touching (`actuator::Activate`).

use super::super::trace::{Report, TouchAsk};
use super::Managed;
use crate::actuator::Activate;
use std::collections::BTreeSet;
use strata_control::mark_accessed::{MarkAccessed, WARM_PERCENT, walk_ms};
use strata_lru::TimeMs;

/// The thread, and what is known of its use.
#[derive(Debug)]
pub(super) struct Warm {
    thread: Activate,
    activation: MarkAccessed,
    /// Processes that may not be read, by number.
    refused: BTreeSet<i32>,
}

impl Warm {
    /// Nothing touched yet.
    pub(super) fn new(thread: Activate) -> Warm {
        Warm {
            thread,
            activation: MarkAccessed::default(),
            refused: BTreeSet::new(),
        }
    }
}

impl Managed {
    /// How far apart walks are to be while warm pages are touched or cold ones named; `None` while none are.
    pub(super) fn warm_walk_ms(&self, now: TimeMs) -> Option<u64> {
        if self.governor.is_left_to_programs() {
            return self.cold_walk_ms(now);
        }
        let warm = self.warm.as_ref()?;
        let is_its_turn = self.governor.is_kernels_turn() && !self.is_dry_run;
        // Walks that no touch follows would only take bits from the kernel.
        if !is_its_turn || !warm.activation.is_on(now) || warm.thread.is_busy() {
            return None;
        }
        let nr_resident_pages: u64 = self.tracker.findings().nr_resident_pages.iter().sum();
        let pages_per_s = self.sharing.refaulted_pages_per_s();
        Some(walk_ms(nr_resident_pages, pages_per_s))
    }

    /// Before a walk: whether it is to tell which pages the kernel has on its inactive lists.
    pub(super) fn look_for_warm(&mut self, now: TimeMs) {
        let is_wanted = self.warm_walk_ms(now).is_some();
        let is_told = self.walker.want_inactive(is_wanted);
        if is_wanted && !is_told {
            self.warm = None;
            self.recorder
                .note(|tick| tick.sample.is_inactive_hidden = true);
        }
    }

    /// After a walk: touches what is warm and has come to the inactive lists.
    pub(super) fn touch_warm(&mut self, now: TimeMs) {
        let Some(wanted_ms) = self.warm_walk_ms(now) else {
            self.forget_warm();
            return;
        };
        let pace_ms = u64::try_from(self.walker.pace().as_millis()).unwrap_or(u64::MAX);
        let is_late = self.is_judgement_late(now);
        let Some(warm) = &mut self.warm else { return };
        if warm.activation.is_too_slow(now, wanted_ms, pace_ms) {
            self.tracker.forget_warm();
            let ask = TouchAsk {
                wanted_ms,
                pace_ms,
                is_too_slow: true,
                ..TouchAsk::default()
            };
            self.recorder.note(|tick| tick.plan.touches.push(ask));
            return;
        }
        if is_late {
            warm.activation.interrupt();
        }
        warm.activation.after_walk(now, self.tracker.foretold());
        let mut pages = self.tracker.take_warm(WARM_PERCENT);
        let mut ask = TouchAsk {
            wanted_ms,
            pace_ms,
            ..TouchAsk::default()
        };
        if self.governor.is_left_to_programs() {
            self.recorder.note(|tick| tick.plan.touches.push(ask));
            self.name_cold();
            return;
        }
        pages.retain(|(process, _)| !warm.refused.contains(&process.pid()));
        ask.nr_pages = Some(pages.iter().map(|(_, pages)| pages.len() as u64).sum());
        ask.is_taken = warm.thread.try_submit(pages);
        self.recorder.note(|tick| tick.plan.touches.push(ask));
    }

    /// Whether the kernel can be told which pages are warm and is to choose all that goes: it then chooses no
    /// worse than pageout, and takes pages in batches. Of `min_ttl` it knows nothing, and of a process that may not be
    /// read it learns nothing.
    pub(in super::super) fn is_kernel_told(&self) -> bool {
        let Some(warm) = self.warm.as_ref().filter(|_| !self.is_dry_run) else {
            return false;
        };
        let mut spaces = self.tracker.spaces().values();
        let has_refused = !warm.refused.is_empty()
            && spaces.any(|space| warm.refused.contains(&space.process.pid()));
        let can_touch_all = !has_refused;
        self.recorder
            .note(|tick| tick.sample.can_touch_all = Some(can_touch_all));
        self.min_ttl_ms == 0 && can_touch_all
    }

    /// What is warm now will not be known when it is on again.
    pub(super) fn forget_warm(&mut self) {
        if let Some(warm) = &mut self.warm {
            warm.activation.interrupt();
            self.tracker.forget_warm();
        }
    }

    /// Whether heat is believed to foretell what is used next.
    pub(super) fn is_heat_believed(&self, now: TimeMs) -> bool {
        let warm = self.warm.as_ref();
        warm.is_some_and(|warm| warm.activation.is_on(now))
    }

    /// Whether the thread is at work.
    pub(super) fn is_touching(&self) -> bool {
        self.warm.as_ref().is_some_and(|warm| warm.thread.is_busy())
    }

    /// Hears what the thread has done.
    pub(super) fn hear_of_warm(&mut self) {
        let Some(warm) = &mut self.warm else { return };
        let Some(report) = warm.thread.poll() else {
            return;
        };
        self.eviction.nr_activated_pages += report.nr_touched_pages;
        let noted = Report::Touch {
            nr_pages: report.nr_touched_pages,
            nr_refused: report.refused.len() as u64,
        };
        self.recorder.note_report(|| noted);
        let mut warnings = Vec::new();
        for (pid, error) in report.refused {
            warm.refused.insert(pid);
            warnings.push(format!(
                "warm pages of process {pid} can't be touched ({error}), so the kernel chooses among them by \
                 itself; run as root, with kernel.yama.ptrace_scope below 3"
            ));
        }
        warnings.into_iter().for_each(|warning| self.warn(warning));
    }
}
