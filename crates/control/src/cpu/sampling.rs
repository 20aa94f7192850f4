//! How often the demand for the processors is sampled.
//!
//! **Owns** this number. **Does not own** the samples and their averages (`demand`, `load`). Free swap is read at the same pace.

use crate::tunables::config;

config! {
    /// How often the demand for the processors is sampled.
    "cpu.sampling"

    /// The least time between two samples of the programs' threads, of their clocks and of free swap.
    every_ms: u64 = 50, 10..=1000, "ms";
}
