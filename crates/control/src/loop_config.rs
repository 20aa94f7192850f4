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
    /// Below this refault rate, the ability to mark warm pages is no reason to prefer the kernel's reclaim to pageout.
    told_pages_per_s_min: f64 = 100.0, 0.0..=100_000.0, "pages per s";
    /// Free swap, by which it is judged whether anon pages can go, is read this often.
    swap_check_ms: u64 = 100, 10..=10_000, "ms";
    /// After the kernel found nothing to reclaim it is not asked for a first pause of so long.
    kernel_pause_ms_min: u64 = 10, 1..=50, "ms";
    /// The pause after the kernel found nothing to reclaim, which doubles each time, is at most so long.
    kernel_pause_ms_max: u64 = 160, 50..=10_000, "ms";
    /// The lists that were looked at are not all of the group's where less of usage than this is on them: groups below hold
    /// the rest.
    lists_percent_min: u64 = 75, 1..=100, "percent of usage";
    /// The lists that were looked at are another group's where more than this is on them.
    lists_percent_max: u64 = 110, 100..=200, "percent of usage";
}
