//! The loop's own tunables: how much is asked for at once, and what is looked at when.
//!
//! **Owns** these numbers. **Does not own** those of its parts: each module has its own.

use crate::tunables::config;

config! {
    /// How much the loop asks for at once, and when it looks at what.
    "control"

    /// The pageout thread gets batches of at most so many pages: larger ones would make look-around stale, smaller ones
    /// would pay the re-reading of tables too often.
    pageout_batch_pages: u64 = 1024, 64..=16_384, "pages";
    /// The kernel's own reclaim is asked for at most so much at once, so that one step never takes long.
    reclaim_bytes_max: u64 = 32 << 20, 1 << 20..=1 << 30, "bytes";
    /// After the kernel found nothing to reclaim it is not asked for a first pause of so long; the pause doubles each time, up to
    /// 32 times.
    kernel_pause_ms: u64 = 10, 1..=1000, "ms";
}
