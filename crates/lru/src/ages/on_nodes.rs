//! On which memory node each page of a table is, how steadily it is used, and what of it was moved of late: as bits.
//!
//! **Owns** these bits, and which pages fit a wish. **Does not own** which pages are in memory (`table`).
//!
//! **Invariants** I1: a streak counts walks in a row: one that did not tell of the table ends it.

use crate::bits::{self, Bits, NONE};
use crate::ids::{NodeId, NodeSet};

/// Bits of a node's number.
pub const NODE_BITS: usize = 4;
/// Stands for a node that is not known.
const UNKNOWN: usize = (1 << NODE_BITS) - 1;
/// Bits of a streak.
const STREAK_BITS: usize = 3;
/// Walks in a row that are told apart.
pub const STREAK_MAX: u8 = (1 << STREAK_BITS) - 1;

/// What is wanted of pages beside their age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct On {
    /// They are on one of these nodes.
    pub nodes: NodeSet,
    /// So many walks in a row found them accessed, the last one included; 0: it does not matter. At most [`STREAK_MAX`].
    pub streak_min: u8,
    /// Which of those that were moved of late.
    pub moved: Moved,
    /// They are to go to another node: what stands as [`super::Standing::Bound`] is left out, and what several spaces
    /// of the group map, and nobody else, is given too ([`super::Candidates::shared`]).
    pub is_move: bool,
}

/// What was moved of late may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// Not left out.
    Any,
    /// What went up of late is left out.
    NotUp,
    /// What went up and down of late is left out.
    NotBoth,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct OnNodes {
    /// Bit by bit the number of the node.
    pub(super) node: [Bits; NODE_BITS],
    /// Bit by bit how many walks in a row found the page accessed.
    pub(super) streak: [Bits; STREAK_BITS],
    /// Went up, and went down: since moves were last forgotten, and before that.
    pub(super) up: [Bits; 2],
    pub(super) down: [Bits; 2],
    /// Number of the ledger's walk that last told of it.
    walk: u64,
}

pub(super) fn either(pair: &[Bits; 2]) -> Bits {
    bits::or(pair[0], pair[1])
}

/// Pages whose number, bit by bit in `planes`, is this one.
fn of_number(planes: &[Bits], number: usize) -> Bits {
    std::array::from_fn(|word| {
        let bits = planes.iter().enumerate();
        bits.fold(u64::MAX, |found, (bit, plane)| {
            found
                & match number >> bit & 1 {
                    0 => !plane[word],
                    _ => plane[word],
                }
        })
    })
}

impl OnNodes {
    pub(super) fn new() -> Box<OnNodes> {
        Box::new(OnNodes {
            node: [[u64::MAX; 8]; NODE_BITS],
            streak: [NONE; STREAK_BITS],
            up: [NONE; 2],
            down: [NONE; 2],
            walk: 0,
        })
    }

    fn at(&self, node: usize) -> Bits {
        of_number(&self.node, node)
    }

    fn on(&self, nodes: NodeSet) -> Bits {
        let wanted = (0..UNKNOWN).filter(|node| nodes.contains(NodeId(*node as u8)));
        wanted.fold(NONE, |on, node| bits::or(on, self.at(node)))
    }

    fn at_least(&self, streak: u8) -> Bits {
        let streaks = usize::from(streak)..=usize::from(STREAK_MAX);
        streaks.fold(NONE, |all, streak| {
            bits::or(all, of_number(&self.streak, streak))
        })
    }

    fn restless(&self) -> Bits {
        bits::and(either(&self.up), either(&self.down))
    }

    pub(super) fn fitting(&self, on: &On) -> Bits {
        let fit = bits::and(self.on(on.nodes), self.at_least(on.streak_min));
        match on.moved {
            Moved::Any => fit,
            Moved::NotUp => bits::without(fit, either(&self.up)),
            Moved::NotBoth => bits::without(fit, self.restless()),
        }
    }

    /// Pages that are not in memory any more lose what was known of them.
    pub(super) fn forget(&mut self, gone: &Bits) {
        let moves = self.up.iter_mut().chain(&mut self.down);
        for plane in self.streak.iter_mut().chain(moves) {
            *plane = bits::without(*plane, *gone);
        }
    }

    pub(super) fn walked(&mut self, mask: &Bits, accessed: &Bits, walk: u64) {
        // A walk that told nothing of it found nothing accessed.
        if self.walk + 1 < walk {
            self.streak = [NONE; STREAK_BITS];
        }
        self.walk = walk;
        let longest = of_number(&self.streak, usize::from(STREAK_MAX));
        for word in 0..mask.len() {
            let hit = accessed[word] & mask[word];
            let missed = mask[word] & !hit;
            let mut carry = hit & !longest[word];
            for plane in &mut self.streak {
                let was = plane[word];
                plane[word] = (was ^ carry) & !missed;
                carry &= was;
            }
        }
    }
}
