//! What the strategies for page cache are told of a tick, and what they answer.
//!
//! **Owns** the names. **Does not own** a strategy (`admit_cache`, `drop_cache`).

use crate::plan::Action;
use strata_lru::TimeMs;

/// What matters of a tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub now: TimeMs,
    /// What has to go.
    pub excess_bytes: u64,
    pub budget_bytes: u64,
    /// Whether usage is above the approach mark, from which on walks come.
    pub is_near: bool,
    /// Whether usage is above the urgent mark.
    pub is_urgent: bool,
    /// Whether anything may be done, or be played in a dry run: there is CPU time of Strata left.
    pub may_act: bool,
}

/// What is to be done with page cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ask {
    pub actions: Vec<Action>,
    /// Nobody else has to take so much of the excess.
    pub going_bytes: u64,
}
