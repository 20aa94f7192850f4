//! How often the demand for the processors is sampled, and how fast the averages follow.
//!
//! **Owns** these two numbers, of which only the first is a tunable. **Does not own** the samples and their averages (`demand`,
//! `load`). Free swap is read at the same pace.

use crate::tunables::config;

config! {
    /// How often the demand for the processors is sampled.
    "cpu.sampling"

    /// The least time between two samples of the programs' threads, of their clocks and of free swap.
    every_ms: u64 = 50, 10..=1000, "ms";
}

/// Weight of the newest sample in the averages: with a quarter, the demand of a second busy thread on two processors is
/// known to 1.75 threads after five samples. Whoever wants faster or slower averages takes samples more or less often.
pub(super) const SHARE_OF_LAST: f64 = 1.0 / 4.0;
