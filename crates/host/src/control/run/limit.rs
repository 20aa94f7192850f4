//! What a tick does to the limit and to the kernel's balance, and what it notes of that.
//!
//! **Owns** the order of looking at the kernel's lists, the limit and the balance. **Does not own** any of these decisions
//! (`strata_control::list_balance`, `relief`, `leaning`).

use super::super::trace::{Lean, LimitPlan};
use super::{Managed, Session};
use crate::cgroup::Offered;
use strata_lru::TimeMs;

impl Session<'_> {
    pub(super) fn adjust_limit(&mut self, now: TimeMs, usage_bytes: u64) {
        self.recorder.note(|tick| {
            tick.sample.limit.push(Default::default());
            tick.plan.limit.push(LimitPlan {
                standing: self.standing.into(),
                ..LimitPlan::default()
            });
        });
        if let Some(managed) = &mut self.managed {
            let reading = managed.look_at_lists(now, usage_bytes);
            self.recorder
                .note_limit(|_, plan| plan.reading = reading.into());
            self.relief.set_left(managed.is_left_to_programs(), reading);
        }
        let warning = self.relief.adjust(
            &mut self.arena,
            self.standing,
            self.config.swappiness.base(),
            &self.marks,
            now,
            usage_bytes,
        );
        self.recorder
            .note_limit(|_, plan| plan.is_line_held = self.relief.is_line_held());
        if let Some(managed) = &mut self.managed
            && self.relief.take_reading()
        {
            managed.note_reading();
        }
        if let Some(warning) = warning {
            self.warn(warning);
        }
        self.lean(now);
    }

    fn lean(&mut self, now: TimeMs) {
        let is_left = |managed: &Managed| managed.is_left_to_programs();
        let is_at_rest = self.is_paused || self.is_dry_run;
        let is_ahead = !is_at_rest && !self.managed.as_ref().is_none_or(is_left);
        let lists = self.relief.pressing_counters().filter(|_| is_ahead);
        let Some(swappiness) = self.leaning.change(now, lists) else {
            return;
        };
        let group = self.arena.gauge().group();
        let offered = group.map(|group| group.set_swappiness(swappiness));
        tracing::debug!(
            swappiness,
            ?offered,
            "the kernel's balance of anon and file"
        );
        let is_taken = matches!(offered, Some(Ok(Offered::Yes)));
        let lean = Lean {
            swappiness,
            is_taken,
        };
        self.recorder.note_limit(|_, plan| plan.lean = Some(lean));
        if !is_taken {
            self.leaning.give_up(now);
        }
    }
}
