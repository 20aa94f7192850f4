//! How tiering is set up: one struct, checked once.
//!
//! **Owns** the settings, their defaults and bounds. **Does not own** their effect.

use super::{PromotionStrategy, TieringError, Topology};

/// Settings of [`tiered`](super::tiered).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TieringConfig {
    /// The nodes.
    pub topology: Topology,
    /// Whether reclaim demotes before it swaps. Default: on.
    pub is_demotion_on: bool,
    /// The first switch: whether pages of lower nodes are promoted at all. Default: on.
    pub is_promotion_on: bool,
    /// The second switch: which unmapped page cache is. Default: `never`.
    pub page_cache: PromotionStrategy,
    /// Candidates for promotion to one node, in MiB a second (the kernel's
    /// `numa_balancing_promote_rate_limit_MBps`). Default: 65,536.
    pub promote_rate_limit_mib_per_s: u64,
    /// A hint fault within so many milliseconds is hot, to begin with; 1..=3,600,000. Default: 1000.
    pub hot_threshold_ms: u64,
    /// The threshold adapts once in so many milliseconds, at least 1. Default: 60,000.
    pub adapt_period_ms: u64,
    /// With more base pages free on the target than this, or than a sixteenth of it if that is more,
    /// promotions pass without any limit. Default: 262,144 (1 GiB).
    pub nr_free_pages_plenty: u64,
    /// Decides which of several equally near nodes a batch is demoted to. Default: 0.
    pub seed: u64,
}

impl TieringConfig {
    /// The defaults over some nodes.
    pub fn new(topology: Topology) -> TieringConfig {
        TieringConfig {
            topology,
            is_demotion_on: true,
            is_promotion_on: true,
            page_cache: PromotionStrategy::Never,
            promote_rate_limit_mib_per_s: 65_536,
            hot_threshold_ms: 1000,
            adapt_period_ms: 60_000,
            nr_free_pages_plenty: 262_144,
            seed: 0,
        }
    }

    /// Checks every bound.
    pub fn validate(&self) -> Result<(), TieringError> {
        if !(1..=3_600_000).contains(&self.hot_threshold_ms) {
            return Err(TieringError::HotThreshold(self.hot_threshold_ms));
        }
        if self.adapt_period_ms == 0 {
            return Err(TieringError::AdaptPeriod);
        }
        Ok(())
    }

    /// Whether descriptor accesses have to be looked at.
    pub(super) fn promotes_page_cache(&self) -> bool {
        self.is_promotion_on && self.page_cache != PromotionStrategy::Never
    }
}
