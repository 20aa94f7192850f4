//! `auto` near the budget: who reclaims, and with how much of a processor.
//!
//! **Owns** asking the two who know: whether programs wait for a processor (`crowd`), and how much of
//! the time this group's run (`running`). **Does not own** what follows (`governor`, the throttle).

use super::{Gauge, Managed};
use crate::control::ActuatorChoice;
use strata_lru::TimeMs;

/// Where nobody else reclaims.
const ALL_PERCENT: u32 = 100;

impl Managed {
    /// Looks who runs, and gives pageout its share.
    pub(super) fn share_processors(&mut self, now: TimeMs, gauge: &Gauge, usage_bytes: u64) {
        if self.actuator != ActuatorChoice::Auto || usage_bytes <= self.governor.marks().low {
            return;
        }
        let is_touching = self.is_touching();
        let is_crowded = self.crowd.look(now, is_touching);
        self.governor.set_crowded(is_crowded);
        if self.running.is_due(now) {
            let spaces = self.tracker.spaces().iter();
            let cpu_ns = spaces.filter_map(|(no, space)| Some((*no, space.process.cpu_ns().ok()?)));
            let nr_refaulted_pages = nr_refaulted_pages(gauge);
            self.running
                .sample(now, cpu_ns.collect(), nr_refaulted_pages);
            let is_beyond = self.running.is_beyond_pageout();
            self.governor.set_beyond_pageout(is_beyond);
        }
        if let Some(pageout) = &self.pageout {
            pageout.set_cpu_percent_max(match is_crowded || self.shrink.is_none() {
                true => ALL_PERCENT,
                false => self.running.pageout_percent_max(),
            });
        }
    }
}

/// Pages of the group that came back so far; 0 where that is not told.
fn nr_refaulted_pages(gauge: &Gauge) -> u64 {
    let stats = gauge.group().and_then(|group| group.stats().ok());
    let kinds = stats.map(|stats| [stats.nr_refault_anon_pages, stats.nr_refault_file_pages]);
    kinds.into_iter().flatten().flatten().sum()
}
