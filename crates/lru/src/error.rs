//! What a policy refuses, and why; and texts that nobody can read.
//!
//! **Owns** the errors. **Does not own** when they come up (the policies, `group`, whoever reads a text).

use crate::ids::{GroupId, Order};

/// What a policy can't do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The folio table is at its largest.
    #[error("the folio table is full ({0} folios)")]
    TableFull(u32),
    /// No such group.
    #[error("no group {}", .0.0)]
    NoGroup(GroupId),
    /// All group numbers are taken.
    #[error("no more than {0} groups")]
    TooManyGroups(u16),
    /// All numbers for a group on a node are taken.
    #[error("no more than {0} groups times nodes")]
    TooManyLruvecs(u32),
    /// The group was removed: it can neither be charged nor have children nor be removed again.
    #[error("group {} has been removed", .0.0)]
    GroupOffline(GroupId),
    /// Something is still in the group.
    #[error("group {} still has groups or address spaces in it: remove or move them first", .0.0)]
    GroupBusy(GroupId),
    /// A group too far below the top.
    #[error("a group may lie at most {0} levels deep")]
    GroupTooDeep(usize),
    /// A folio larger than the table can describe.
    #[error("a folio of order {} is too large: the largest order is {}", .order.0, .largest.0)]
    OrderTooLarge {
        /// The order asked for.
        order: Order,
        /// The largest there is.
        largest: Order,
    },
}

/// A text that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}: {why}")]
pub struct BadText {
    text: String,
    what: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl BadText {
    /// The text is no such thing.
    pub fn new(what: &'static str, text: &str, why: impl Into<String>) -> BadText {
        BadText {
            text: text.to_owned(),
            what,
            why: why.into(),
        }
    }
}
