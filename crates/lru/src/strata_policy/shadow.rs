//! What is left of an evicted folio: where it stood, and two dials.
//!
//! | bits   | field    | meaning                                                        |
//! |--------|----------|----------------------------------------------------------------|
//! | 0      | part     | 0 it was on trial, 1 it was proven                             |
//! | 1      | kind     | 0 anon, 1 file                                                 |
//! | 2..8   | lruvec   | whose it was (low bits of the group and node's index)          |
//! | 8..15  | accessed | the lruvec's count of accesses at its last one                 |
//! | 15..31 | left     | base pages that had left that part when it did                 |
//!
//! **Owns** the layout. **Does not own** what a return changes (`arrival`).

use super::{dial::Dial, page::Part};
use crate::{folio::Flags, ids::Kind, seam::Shadow};

const KIND_SHIFT: u32 = 1;
const LRUVEC_SHIFT: u32 = 2;
const LRUVEC_WIDTH: u32 = 6;
const LRUVEC_MASK: u32 = (1 << LRUVEC_WIDTH) - 1;
const ACCESSED_SHIFT: u32 = LRUVEC_SHIFT + LRUVEC_WIDTH;
const ACCESSED_WIDTH: u32 = 7;
const LEFT_SHIFT: u32 = ACCESSED_SHIFT + ACCESSED_WIDTH;
const LEFT_WIDTH: u32 = 31 - LEFT_SHIFT;

const _: () = assert!(1 << (LEFT_SHIFT + LEFT_WIDTH) == Shadow::LIMIT);

/// Counts accesses: what can come back in time was accessed within a few spans, so few are told apart.
pub(super) type AccessDial = Dial<ACCESSED_WIDTH, 5>;

/// Counts base pages that left a part: what left 128 memories ago comes back too.
pub(super) type LeftDial = Dial<LEFT_WIDTH, 9>;

/// The fields of a shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Departed {
    pub(super) part: Part,
    pub(super) kind: Kind,
    lruvec: u32,
    pub(super) accessed: u32,
    pub(super) left: u32,
}

impl Departed {
    /// What to remember of a folio, with the readings of both dials.
    pub(super) fn new(flags: Flags, accessed: u32, left: u32) -> Departed {
        Departed {
            part: flags.home(),
            kind: flags.kind(),
            lruvec: flags.lruvec() as u32 & LRUVEC_MASK,
            accessed,
            left,
        }
    }

    /// Tells if the page may have left from where `flags` belong: same kind, same group and node.
    pub(super) fn is_of(self, flags: Flags) -> bool {
        self.kind == flags.kind() && self.lruvec == flags.lruvec() as u32 & LRUVEC_MASK
    }

    pub(super) fn pack(self) -> Shadow {
        Shadow(
            self.part as u32
                | (self.kind as u32) << KIND_SHIFT
                | self.lruvec << LRUVEC_SHIFT
                | self.accessed << ACCESSED_SHIFT
                | self.left << LEFT_SHIFT,
        )
    }

    pub(super) fn unpack(shadow: Shadow) -> Departed {
        let bits = shadow.0;
        Departed {
            part: Part::ALL[(bits & 1) as usize],
            kind: Kind::ALL[(bits >> KIND_SHIFT & 1) as usize],
            lruvec: bits >> LRUVEC_SHIFT & LRUVEC_MASK,
            accessed: bits >> ACCESSED_SHIFT & ((1 << ACCESSED_WIDTH) - 1),
            left: bits >> LEFT_SHIFT,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::Order;

    proptest! {
        #[test]
        fn a_departure_gives_back_what_was_put_in(
            lruvec in 0..256u16,
            is_file: bool,
            is_proven: bool,
            accessed in 0..1u32 << ACCESSED_WIDTH,
            left in 0..1u32 << LEFT_WIDTH,
        ) {
            let kind = if is_file { Kind::File } else { Kind::Anon };
            let flags = Flags::new(lruvec, kind, Order::BASE);
            let flags = flags.with_workingset(is_proven);
            let departed = Departed::new(flags, accessed, left);
            let shadow = departed.pack();
            prop_assert!(shadow.to_bits() < Shadow::LIMIT);
            prop_assert_eq!(Departed::unpack(shadow), departed);
            prop_assert!(departed.is_of(flags));
        }

        #[test]
        fn any_bits_are_a_shadow(bits: u32) {
            let shadow = Shadow::from_bits_truncate(bits);
            prop_assert_eq!(Departed::unpack(shadow).pack(), shadow);
        }
    }
}
