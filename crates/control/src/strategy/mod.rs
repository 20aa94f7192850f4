//! What is done beside reclaim, each by itself: what the kernel is told, what is read in ahead, what is
//! split, which page cache is dropped.
//!
//! **Owns** what a strategy is, and what it may know of the moment. **Does not own** when one is asked (`steering`).
//!
//! **Invariants** S1: no strategy knows another; what several need is in the [`View`].

pub mod admit_cache;
pub mod drop_cache;
pub mod list_balance;
pub mod mark_accessed;
pub mod prefetch;
pub mod split_huge;

use crate::plan::Action;
use strata_lru::Foretold;
use strata_lru::TimeMs;

/// What a strategy may know of the moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// When.
    pub now: TimeMs,
    /// Whether the programs reclaim in their own faults.
    pub is_left_to_programs: bool,
    /// Whether `auto` has given reclaim to the kernel, whose choice then depends on which pages are marked accessed.
    pub is_kernels_turn: bool,
    /// Whether nothing is to be changed.
    pub is_dry_run: bool,
    /// Whether heat is believed to foretell what is used next.
    pub is_heat_believed: bool,
    /// Base pages in memory, as of the last walk.
    pub nr_resident_pages: u64,
    /// Pages that come back in a second, on average.
    pub refaulted_pages_per_s: f64,
    /// Whether so many come back, by what was seen a moment ago, that programs wait for them.
    pub is_coming_back: bool,
    /// Whose threads are at work.
    pub busy: Busy,
}

/// Threads of strategies that are at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// Marks pages accessed.
    pub marking: bool,
    /// Deactivates pages.
    pub deactivating: bool,
    /// Reads ahead.
    pub prefetching: bool,
}

/// What a walk showed, and how walks can come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// How far apart walks were wanted for what the kernel is told; `None` while it is told nothing.
    pub wanted_ms: Option<u64>,
    /// Walks that clear accessed bits come at least so far apart, milliseconds.
    pub pace_ms: u64,
    /// What the walk before foretold, and what became of it.
    pub foretold: Foretold,
    /// Base pages that were found used.
    pub nr_used_pages: u64,
    /// Of pages that were read in ahead, those found used for the first time.
    pub nr_prefetched_used_pages: u64,
    /// Reclaim stops here, bytes.
    pub low_bytes: u64,
}

/// Something that is done beside reclaim.
pub trait Strategy {
    /// How far apart walks are to be for it at most, milliseconds; `None`: it needs none.
    fn walk_ms(&self, view: &View) -> Option<u64>;

    /// What the strategy wants done after a walk.
    fn after_walk(&mut self, view: &View, walk: &Walk) -> Vec<Action>;

    /// How much of what the strategy wanted was found to do and taken up, base pages.
    fn taken_up(&mut self, now: TimeMs, outcome: Outcome);
}

/// What became of an action that asks for pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Programs that have pages of that kind.
    pub nr_programs: u64,
    /// Base pages that were found.
    pub nr_pages: u64,
    /// Whether the thread has taken the pages.
    pub is_taken: bool,
}
