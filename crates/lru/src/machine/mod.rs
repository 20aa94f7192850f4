//! Words for what a machine tells and the loop judges by: values without a judgement of their own, in which mechanisms and
//! judgements understand each other.
//!
//! **Owns** their names and units. **Does not own** reading them (a live system, or a played one), nor coming to them.

mod cached;
mod group;
mod processors;

pub use cached::{
    Arrival, FILE_BYTES_MIN, FILE_PAGES_MAX, FILES_MAX, FileId, FileKey, PageFound, Placed,
    SEARCH_PAUSE_MS, Tried,
};
pub use group::{CgroupVersion, GroupStats, LimitDistances, Line};
pub use processors::Processors;

/// The base page of x86-64 and of most arm64 systems, bytes: the only size of page that Strata counts in.
pub const PAGE_BYTES: u64 = 4096;

/// Calls that hold the lock of a program's address space are made so small that each is expected to take no longer, nanoseconds.
pub const CALL_GOAL_NS: u64 = 1_500_000;
/// Walks come so far apart that clearing accessed bits takes at most one part in so many of the time: 0.5 %.
pub const CLEARING_SHARE: u32 = 200;

/// How accessed bits are cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum ClearIntent {
    /// In a way that leaves the kernel's lists as they are, or puts them right afterwards: the kernel chooses, or nobody.
    #[default]
    Watch,
    /// As is cheapest, because the engine chooses: a page that is marked cold for the kernel does no harm.
    Pageout,
}
