//! One pass over the old generation (`shrink_many`).
//!
//! Begins with a drawn bin and visits all eight. A group is moved only when the walk goes on, so it
//! marks the place; if somebody else has moved it meanwhile, the bin is begun again.
//!
//! **Owns** the position. **Does not own** the bins, or when a pass ends early.

use super::{Entry, MemcgLru, Move, NONE, NR_BINS};
use crate::ids::GroupId;

/// A walk over what was the old generation when it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BinWalk {
    slot: usize,
    pub(super) bin: usize,
    nr_bins_left: usize,
    at: Option<GroupId>,
}

impl BinWalk {
    pub(crate) fn new(lru: &mut MemcgLru) -> BinWalk {
        BinWalk {
            slot: lru.old_slot(),
            bin: lru.draw_bin(),
            nr_bins_left: NR_BINS,
            at: None,
        }
    }

    /// Moves the group that was visited last, if a move is due, and goes on to the next one.
    pub(crate) fn next(&mut self, lru: &mut MemcgLru, by: Option<Move>) -> Option<GroupId> {
        let mut number = lru.bins[self.slot][self.bin].head;
        if let Some(last) = self.at.take() {
            let Entry { place, after, .. } = lru.entry(last);
            if place.is_some_and(|of| of.slot == self.slot && of.bin == self.bin) {
                number = after;
            }
            if let Some(by) = by {
                lru.rotate(last, by);
            }
        }
        while number == NONE {
            self.nr_bins_left -= 1;
            if self.nr_bins_left == 0 {
                // Asked again, it ends again.
                self.nr_bins_left = 1;
                return None;
            }
            self.bin = (self.bin + 1) % NR_BINS;
            number = lru.bins[self.slot][self.bin].head;
        }
        self.at = Some(GroupId(number));
        self.at
    }
}
