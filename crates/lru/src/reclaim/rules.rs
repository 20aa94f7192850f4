//! What differs from kernel to kernel when there are several groups (rules 5).
//!
//! **Owns** the values there are. **Does not own** which kernel has which (`model`), or their effect.

use crate::seam::Origin;

/// Which group is asked next when a node runs short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupOrder {
    /// All in the order of the tree, each pass.
    Tree,
    /// All in the order of the tree, with ageing before each pass instead of within it; for whom passes leave ageing,
    /// or ageing and swapping, out while some group may have cold pages.
    Rounds(Sparing),
    /// By the memcg LRU.
    MemcgLru,
}

named!(impl GroupOrder or UnknownOrder {
    Tree = "tree",
    Rounds(Sparing::Off) = "rounds",
    Rounds(Sparing::Ageing) = "rounds-sparing-ageing",
    Rounds(Sparing::Background) = "rounds-sparing",
    Rounds(Sparing::Both) = "rounds-sparing-both",
    MemcgLru = "memcg-lru",
});

/// A name that is no order of groups.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown order of groups {0:?}: use tree, rounds, rounds-sparing-ageing, rounds-sparing, \
     rounds-sparing-both or memcg-lru"
)]
pub struct UnknownOrder(pub String);

/// Who is spared ageing, and swapping, on the first pass over several groups (rules 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sparing {
    /// Nobody: every group that is due is aged before each pass.
    Off,
    /// Reclaim in the background, and ageing alone: what kernels 6.1 and 6.2 have of the series.
    Ageing,
    /// Reclaim in the background, as in the series' tenth version.
    Background,
    /// Direct reclaim of a node as well.
    Both,
}

impl Sparing {
    pub(super) fn is_for(self, origin: Origin) -> bool {
        match self {
            Sparing::Off => false,
            Sparing::Ageing | Sparing::Background => origin == Origin::Background,
            Sparing::Both => true,
        }
    }

    pub(super) fn spares_swapping(self) -> bool {
        matches!(self, Sparing::Background | Sparing::Both)
    }
}

/// Who decides how much of a lruvec a pass looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScanBudget {
    /// The size of the lruvec, halved for each step of priority.
    ByPriority,
    /// The size of the part that is not protected, halved for each step of priority.
    ExposedByPriority,
    /// The policy: a pass lasts until it has nothing more for it.
    Policys,
}

/// How reclaim treats several groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupRules {
    /// Who is asked next under global pressure.
    pub order: GroupOrder,
    /// How much a pass looks at.
    pub budget: ScanBudget,
    /// Whether a group too small is put off before its protection is looked at.
    pub is_size_first: bool,
    /// Whether pressure on a node begins at a priority that suits the goal.
    pub has_initial_priority: bool,
}

impl GroupRules {
    /// The classic lists: by the tree, and each lruvec for itself.
    pub const CLASSIC: GroupRules = GroupRules {
        order: GroupOrder::Tree,
        budget: ScanBudget::Policys,
        is_size_first: false,
        has_initial_priority: false,
    };
}
