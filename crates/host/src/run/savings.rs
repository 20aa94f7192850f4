//! What is gained and what it costs, sampled once a second.
//!
//! **Owns** the means. **Does not own** the readings.

use crate::run::overhead;
use crate::run::report::SavedReport;
use strata_linux::swap;

/// What the target itself has in swap.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Swapped {
    /// All that takes room there.
    pub(super) in_swap_bytes: u64,
    /// Swapped-out memory that is not in memory as well.
    pub(super) out_bytes: u64,
}

/// Sums of samples.
#[derive(Debug, Default)]
pub(super) struct Savings {
    nr_samples: u64,
    evicted_bytes: u64,
    zram_bytes: u64,
    strata_bytes: u64,
    last: SavedReport,
    /// Out of memory at the first sample, before anything was taken.
    out_before_bytes: Option<u64>,
    /// The most that was known to have gone since.
    gone_bytes: u64,
}

impl Savings {
    /// Takes a sample; `keeper_bytes` are the memory of the keeper, `shadow_bytes` the pages walks saw evicted and not
    /// back, `back_bytes` what the kernel counted to have come back so far. What is swapped out is exact for anon pages, and walks know of more only for files.
    pub(super) fn sample(
        &mut self,
        keeper_bytes: u64,
        swapped: Swapped,
        shadow_bytes: Option<u64>,
        back_bytes: u64,
    ) {
        let evicted_bytes = swapped.out_bytes.max(shadow_bytes.unwrap_or(0));
        let before = *self.out_before_bytes.get_or_insert(evicted_bytes);
        let gone_bytes = evicted_bytes.saturating_add(back_bytes);
        self.gone_bytes = self.gone_bytes.max(gone_bytes.saturating_sub(before));
        let zram_bytes = swap::memory_of_swapped(swapped.in_swap_bytes).unwrap_or(0);
        let strata_bytes = overhead::rss_bytes() + keeper_bytes;
        self.last = saved(evicted_bytes, zram_bytes, strata_bytes);
        self.nr_samples += 1;
        self.evicted_bytes += evicted_bytes;
        self.zram_bytes += self.last.zram_bytes;
        self.strata_bytes += strata_bytes;
    }

    /// The last sample.
    pub(super) fn last(&self) -> SavedReport {
        self.last
    }

    /// At least so much left memory: what was out at a sample, and what had come back by then.
    pub(super) fn gone_bytes(&self) -> u64 {
        self.gone_bytes
    }

    /// The means.
    pub(super) fn report(&self) -> SavedReport {
        let mean = |sum: u64| sum / self.nr_samples.max(1);
        saved(
            mean(self.evicted_bytes),
            mean(self.zram_bytes),
            mean(self.strata_bytes),
        )
    }
}

fn saved(evicted_bytes: u64, zram_bytes: u64, strata_bytes: u64) -> SavedReport {
    let cost = zram_bytes.saturating_add(strata_bytes);
    let net_bytes = i64::try_from(i128::from(evicted_bytes) - i128::from(cost));
    SavedReport {
        evicted_bytes,
        zram_bytes,
        strata_bytes,
        net_bytes: net_bytes.unwrap_or(i64::MIN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_gone_is_what_is_out_and_what_came_back_less_what_was_out_before() {
        let mut savings = Savings::default();
        let mut gone = |out_bytes, back_bytes| {
            let swapped = Swapped {
                in_swap_bytes: out_bytes,
                out_bytes,
            };
            savings.sample(0, swapped, None, back_bytes);
            savings.gone_bytes()
        };
        assert_eq!(gone(1000, 0), 0);
        assert_eq!(gone(3000, 500), 2500);
        // The program has freed some of it.
        assert_eq!(gone(0, 600), 2500);
    }
}
