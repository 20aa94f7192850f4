//! How often it is looked at who has the processors, and how fast averages follow.
//!
//! **Owns** these numbers. **Does not own** what is looked at (`demand`, `load`; free swap is read as often).

use crate::tunables::config;

config! {
    /// How often it is looked at who has the processors.
    "cpu.sampling"

    /// The programs' threads and clocks, and how much swap is free, are read this often at most.
    every_ms: u64 = 50, 10..=1000, "ms";
    /// The newest sample has this weight in the averages: 250 ms after a second thread began to work on two processors
    /// the threads are known to want 1.75.
    share_of_last: f64 = 1.0 / 4.0, 0.01..=1.0, "part of 1";
}
