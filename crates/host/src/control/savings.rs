//! What is gained and what it costs, sampled once a second.
//!
//! **Owns** the means. **Does not own** the readings.

use super::arena::Arena;
use super::own;
use super::report::SavedReport;

/// Sums of samples.
#[derive(Debug, Default)]
pub(super) struct Savings {
    nr_samples: u64,
    evicted_bytes: u64,
    zram_bytes: u64,
    strata_bytes: u64,
}

impl Savings {
    /// Takes a sample; `shadow_bytes` are the pages walks saw evicted and not back. Where the group
    /// counts what is swapped out that is exact for anon pages, and walks know of more only for files.
    pub(super) fn sample(&mut self, arena: &Arena, shadow_bytes: Option<u64>) {
        let swapped = arena.kernel_counters().swap_bytes.unwrap_or(0);
        self.nr_samples += 1;
        self.evicted_bytes += swapped.max(shadow_bytes.unwrap_or(0));
        self.zram_bytes += arena.swap_memory_bytes();
        self.strata_bytes += own::rss_bytes() + arena.keeper_rss_bytes();
    }

    /// The means.
    pub(super) fn report(&self) -> SavedReport {
        let mean = |sum: u64| sum / self.nr_samples.max(1);
        let evicted_bytes = mean(self.evicted_bytes);
        let zram_bytes = mean(self.zram_bytes);
        let strata_bytes = mean(self.strata_bytes);
        let cost = zram_bytes.saturating_add(strata_bytes);
        let net_bytes = i64::try_from(i128::from(evicted_bytes) - i128::from(cost));
        SavedReport {
            evicted_bytes,
            zram_bytes,
            strata_bytes,
            net_bytes: net_bytes.unwrap_or(i64::MIN),
        }
    }
}
