//! `auto` near the budget: who reclaims, and with how much of a processor.
//!
//! **Owns** asking the two who know: whether programs wait for a processor (`crowd`), and how much of
//! the time this group's run (`running`). **Does not own** what follows (`governor`, the throttle).

use super::Managed;
use crate::control::ActuatorChoice;
use strata_lru::TimeMs;

/// Where nobody else reclaims.
const ALL_PERCENT: u32 = 100;

impl Managed {
    /// Looks who runs, and gives pageout its share.
    pub(super) fn share_processors(&mut self, now: TimeMs, usage_bytes: u64) {
        if self.actuator != ActuatorChoice::Auto || usage_bytes <= self.governor.marks().low {
            return;
        }
        let is_crowded = self.crowd.look(now);
        self.governor.set_crowded(is_crowded);
        if self.running.is_due(now) {
            let spaces = self.tracker.spaces().iter();
            let cpu_ns = spaces.filter_map(|(no, space)| Some((*no, space.process.cpu_ns().ok()?)));
            self.running.sample(now, cpu_ns.collect());
        }
        if let Some(pageout) = &self.pageout {
            pageout.set_cpu_percent_max(match is_crowded || self.shrink.is_none() {
                true => ALL_PERCENT,
                false => self.running.pageout_percent_max(),
            });
        }
    }
}
