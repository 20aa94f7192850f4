//! Which unmapped pages of the page cache are worth promoting.
//!
//! Hint faults find mapped pages; a page that is only read through descriptors never faults. The
//! proposals of 2025 (Price, "Promotion of unmapped page cache folios", v4; Tom's hook for the
//! multi-generational LRU) judge such a page when it is read. They judge by what was known *before*
//! this read, and so do we: "already referenced and active".
//!
//! **Owns** the judgement. **Does not own** rate limits (`throttle`) or queues (`tiered`).

use crate::ids::{NodeId, Order};

/// How recent a folio is in its policy's own terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recency {
    /// Generations.
    Generation {
        /// How many are younger than the folio's; `None` while it is isolated.
        below_max: Option<u64>,
        /// Whether its accesses are counted as far as counting goes, workingset included.
        is_saturated: bool,
        /// Whether one access more sets neither the referenced nor the workingset flag.
        sets_no_flag: bool,
    },
    /// Two lists.
    List {
        /// On the active one.
        is_active: bool,
    },
}

/// What a policy knows of a folio, as far as tiering asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolioStanding {
    /// The node it lies on.
    pub node: NodeId,
    /// Size of the folio.
    pub order: Order,
    /// In a batch or queue already.
    pub is_isolated: bool,
    /// Seen accessed once.
    pub is_referenced: bool,
    /// Of the working set.
    pub is_workingset: bool,
    /// How recent.
    pub recency: Recency,
}

impl FolioStanding {
    /// In one of the two youngest generations, or on the active list.
    pub fn is_active(&self) -> bool {
        match self.recency {
            Recency::Generation { below_max, .. } => below_max.is_some_and(|below| below <= 1),
            Recency::List { is_active } => is_active,
        }
    }
}

named! {
    /// When an access through a descriptor makes a page of a lower node a candidate for promotion.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum PromotionStrategy or UnknownStrategy {
        /// Not at all.
        #[default]
        Never = "never",
        /// At any access.
        FirstAccess = "first-access",
        /// As the proposal's hook was first coded: at a counted access of a page in one of the two youngest
        /// generations, but neither at the first one nor at the one that makes it workingset: these set a
        /// flag and return. It also wants a page that is charged to a group, as all are here. `TwoList`:
        /// referenced and active.
        RfcAsCoded = "rfc-as-coded",
        /// When the count is saturated, workingset included. `TwoList`: referenced and active.
        Refs = "refs",
        /// Referenced, workingset, and in one of the two youngest generations; that tiering is on and
        /// the page on a lower node are the other two. `TwoList`: referenced and active.
        FiveConditions = "five-conditions",
    }
}

impl PromotionStrategy {
    /// Whether the access of a folio that stood like this before makes it a candidate.
    pub fn wants(self, before: &FolioStanding) -> bool {
        if before.is_isolated {
            return false;
        }
        match (self, before.recency) {
            (PromotionStrategy::Never, _) => false,
            (PromotionStrategy::FirstAccess, _) => true,
            (_, Recency::List { is_active }) => before.is_referenced && is_active,
            (PromotionStrategy::RfcAsCoded, Recency::Generation { sets_no_flag, .. }) => {
                sets_no_flag && before.is_active()
            }
            (PromotionStrategy::Refs, Recency::Generation { is_saturated, .. }) => is_saturated,
            (PromotionStrategy::FiveConditions, _) => {
                before.is_referenced && before.is_workingset && before.is_active()
            }
        }
    }
}

/// A name that is no strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown promotion strategy {0:?}: use never, first-access, rfc-as-coded, refs or five-conditions"
)]
pub struct UnknownStrategy(pub String);
