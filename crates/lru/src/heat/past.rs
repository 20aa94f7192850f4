//! The heat of a page that is not in memory.
//!
//! A page that is away is found accessed by no walk, so it need not be visited to cool: what it had when it
//! left, and by which walk, tells what it has when it comes back.
//!
//! **Owns** that reckoning. **Does not own** where it is kept (the mechanism, by page) or the number of
//! walks (`by_heat`).
//!
//! **Invariants** I1: a page that comes back has the heat that it would have if each walk had visited it.

use super::Heat;

/// What is kept of a page's heat while it is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PastHeat {
    /// Heat of the folio when it left.
    pub(super) heat: Heat,
    /// Whether the folio was accessed between the last walk and its eviction.
    pub(super) is_seen: bool,
    /// Walks of its group before it left.
    nr_walks: u32,
}

impl PastHeat {
    /// Of a page that was never in memory.
    pub const NONE: PastHeat = PastHeat {
        heat: Heat::NONE,
        is_seen: false,
        nr_walks: 0,
    };

    /// Of a page that leaves after so many walks of its group.
    pub(super) fn new(heat: Heat, is_seen: bool, nr_walks: u32) -> PastHeat {
        PastHeat {
            heat,
            is_seen,
            nr_walks,
        }
    }

    /// Of a page of which somebody else has kept the heat up to date ([`super::WalkStep::cool`]).
    pub fn kept(heat: Heat) -> PastHeat {
        PastHeat {
            heat,
            is_seen: false,
            nr_walks: u32::MAX,
        }
    }

    /// Heat of the folio when it left.
    pub fn heat(self) -> Heat {
        self.heat
    }

    /// The heat after so many walks of its group, and whether it still is to be counted as accessed.
    pub(super) fn at(self, nr_walks: u32) -> (Heat, bool) {
        let mut nr_missed = nr_walks.saturating_sub(self.nr_walks);
        let (mut heat, mut is_seen) = (self.heat, self.is_seen);
        // Nothing is left of any heat long before this ends by itself.
        while nr_missed > 0 && (heat, is_seen) != (Heat::NONE, false) {
            heat = heat.after_walk(is_seen);
            is_seen = false;
            nr_missed -= 1;
        }
        (heat, is_seen)
    }
}

impl Default for PastHeat {
    fn default() -> PastHeat {
        PastHeat::NONE
    }
}
