//! What the loop wants done: quantities, never pages.
//!
//! **Owns** the vocabulary. **Does not own** carrying anything out: whoever does resolves pages through the engine's order.

/// One thing to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Drop what the last walk foretold, unjudged.
    ForgetForecast,
    /// Keep which pages are the warmest of so many percent, so that the next walk can judge that.
    Forecast {
        /// Percent of the pages in memory.
        percent: u32,
    },
    /// The same, and mark those of them accessed that are on the kernel's inactive lists.
    MarkAccessed {
        /// Percent of the pages in memory.
        percent: u32,
    },
    /// Tell the kernel that so many of its active pages are cold, the coldest first.
    Deactivate {
        /// Base pages.
        nr_pages: u64,
    },
    /// Pages that were read in ahead and not used yet are not waited for any longer.
    ForgetPrefetched,
    /// Have read in what belongs to what has come back.
    Prefetch {
        /// Base pages, at most.
        nr_pages_max: u64,
    },
}
