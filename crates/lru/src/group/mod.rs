//! Groups: a tree of who is charged for memory, as cgroup v2 knows it.
//!
//! ```text
//!   tree        who is whose child, what each uses with all below it, births and deaths
//!   limits      min, low, high, max, swap.max of one group, and how often they were felt
//!   protection  what min and low come to once relatives have had their part
//!   walk        one group after another, below any of them
//! ```
//!
//! Every policy keeps one [`GroupTree`] and charges it; what is read of it is the same for all.
//!
//! **Owns** the hierarchy and everything counted by group alone. **Does not own** folios, lruvecs
//! (it only remembers their numbers), or what happens under pressure (`reclaim`).

mod limits;
mod protection;
mod tree;
mod walk;

#[cfg(test)]
mod tests;

pub(crate) use limits::GroupEvent;
pub use limits::{GroupEvents, Limits, Protection};
pub use tree::{Excess, GroupTree};
pub(crate) use tree::{Group, ROOT};
