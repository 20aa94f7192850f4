//! Every tunable of the loop: the numbers of all modules in one value.
//!
//! **Owns** which modules have numbers. **Does not own** the numbers, their ranges and reasons: they stand beside the code
//! that uses them, and `docs/reference/tunables.md` lists them.

use crate::strategy::{list_balance, mark_accessed, prefetch, split_huge, swappiness};
use crate::tunables::config_of;
use crate::{cpu, limit, loop_config, pressure, reclaimer, stall, stat_pace, walks, watermarks};

config_of! {
    /// What the loop's judgements are made by.
    ///
    /// ```
    /// use strata_control::{Config, Tunables};
    ///
    /// let mut config = Config::default();
    /// config.reclaimer.hold_ms_min = 1000;
    /// assert!(config.validate().is_ok());
    /// config.reclaimer.hold_ms_min = 1;
    /// let refused = config.validate().unwrap_err();
    /// assert!(refused.to_string().starts_with("reclaimer.hold_ms_min is 1, but may be 50 to 2000 (ms)"));
    /// ```
    {
        /// The loop itself: how much is asked for at once, and what is looked at when.
        control: loop_config::Config;
        /// The marks around a budget.
        watermarks: watermarks::Config;
        /// How much has to go, and when to look again.
        pressure: pressure::Config;
        /// Who reclaims.
        reclaimer: reclaimer::Config;
        /// Who has the processors.
        cpu: cpu::Config;
        /// When reclaim is in vain.
        stall: stall::Config;
        /// When the limit gives way.
        limit: limit::Config;
        /// When the kernel's counts are read.
        stat_pace: stat_pace::Config;
        /// When walks come.
        walks: walks::Config;
        /// Telling the kernel which pages are warm.
        mark_accessed: mark_accessed::Config;
        /// Telling the kernel which pages are cold.
        list_balance: list_balance::Config;
        /// Reading ahead what belongs to what comes back.
        prefetch: prefetch::Config;
        /// Splitting huge pages.
        split_huge: split_huge::Config;
        /// Biasing the kernel's balance of anon and file pages.
        swappiness: swappiness::Config;
    }
}
