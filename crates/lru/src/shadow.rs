//! What is left of an evicted folio: enough to judge its return.
//!
//! | bits   | field      | meaning                                                 |
//! |--------|------------|---------------------------------------------------------|
//! | 0      | workingset | it belonged to the working set                          |
//! | 1      | kind       | 0 anon, 1 file                                          |
//! | 2..17  | lruvec     | whose it was (group and node)                           |
//! | 17..19 | refs       | accesses counted less one, not below 0                  |
//! | 19..31 | seq        | low bits of the kind's oldest generation at its leaving |
//!
//! The kernel's token `min_seq << 2 | refs` (rules 4.1) is bits 17 up. Twelve bits of `seq` tell
//! 4096 generations apart; a shadow older than that is taken for recent by chance once in a thousand.
//!
//! **Owns** the layout. **Does not own** where shadows are kept (the mechanism) or what a refault
//! changes (`multigen::refault`).

use crate::{
    folio::{Flags, MAX_LRUVECS},
    ids::Kind,
    seam::Shadow,
};

const KIND_SHIFT: u32 = 1;
const LRUVEC_SHIFT: u32 = 2;
const LRUVEC_MASK: u32 = MAX_LRUVECS - 1;
const REFS_SHIFT: u32 = 17;
const SEQ_SHIFT: u32 = 19;
const SEQ_MASK: u64 = (1 << (31 - SEQ_SHIFT)) - 1;

const _: () = assert!(LRUVEC_SHIFT + MAX_LRUVECS.trailing_zeros() == REFS_SHIFT);
const _: () = assert!(REFS_SHIFT + (Flags::REFS_MAX + 1).trailing_zeros() == SEQ_SHIFT);

/// The fields of a shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evicted {
    pub(crate) is_workingset: bool,
    pub(crate) kind: Kind,
    pub(crate) lruvec: usize,
    /// Accesses counted, 1..=4 (a folio without any counts as 1).
    pub(crate) refs: u32,
    seq: u64,
}

impl Evicted {
    /// What to remember of a folio that leaves while `min_seq` is its kind's oldest generation.
    pub(crate) fn of(flags: Flags, min_seq: u64) -> Evicted {
        Evicted {
            is_workingset: flags.is_workingset(),
            kind: flags.kind(),
            lruvec: flags.lruvec(),
            refs: flags.refs().max(1),
            seq: min_seq & SEQ_MASK,
        }
    }

    pub(crate) fn pack(self) -> Shadow {
        Shadow(
            u32::from(self.is_workingset)
                | (self.kind as u32) << KIND_SHIFT
                | (self.lruvec as u32) << LRUVEC_SHIFT
                | (self.refs - 1) << REFS_SHIFT
                | (self.seq as u32) << SEQ_SHIFT,
        )
    }

    pub(crate) fn unpack(shadow: Shadow) -> Evicted {
        let bits = shadow.0;
        Evicted {
            is_workingset: bits & 1 != 0,
            kind: if bits >> KIND_SHIFT & 1 == 0 {
                Kind::Anon
            } else {
                Kind::File
            },
            lruvec: (bits >> LRUVEC_SHIFT & LRUVEC_MASK) as usize,
            refs: (bits >> REFS_SHIFT & Flags::REFS_MAX) + 1,
            seq: u64::from(bits >> SEQ_SHIFT) & SEQ_MASK,
        }
    }

    /// Whether fewer than `nr_gens` generations were born since the one it left from.
    pub(crate) fn is_recent(self, max_seq: u64, nr_gens: u64) -> bool {
        max_seq.wrapping_sub(self.seq) & SEQ_MASK < nr_gens
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::Order;

    fn leaving_at(min_seq: u64) -> Evicted {
        Evicted::of(Flags::new(7, Kind::File, Order::BASE), min_seq)
    }

    proptest! {
        #[test]
        fn a_shadow_gives_back_what_was_put_in(
            lruvec in 0..MAX_LRUVECS as u16,
            is_file: bool,
            is_workingset: bool,
            is_referenced: bool,
            refs in 0..=3u32,
            min_seq in 0..u64::MAX / 2,
        ) {
            let kind = if is_file { Kind::File } else { Kind::Anon };
            let mut flags = Flags::new(lruvec, kind, Order::BASE).with_refs_field(refs);
            if is_workingset { flags = flags.with_workingset(); }
            if is_referenced { flags = flags.with_referenced(); }
            let evicted = Evicted::of(flags, min_seq);
            let shadow = evicted.pack();
            prop_assert!(shadow.to_bits() < Shadow::LIMIT);
            prop_assert_eq!(Evicted::unpack(shadow), evicted);
            prop_assert_eq!(evicted.refs, if is_referenced { refs + 1 } else { 1 });
        }

        #[test]
        fn any_bits_are_a_shadow(bits: u32) {
            let shadow = Shadow::from_bits_truncate(bits);
            prop_assert_eq!(Evicted::unpack(shadow).pack(), shadow);
        }
    }

    #[test]
    fn a_refault_is_recent_within_four_generations() {
        let evicted = leaving_at(10);
        assert!(evicted.is_recent(11, 4) && evicted.is_recent(13, 4));
        assert!(!evicted.is_recent(14, 4));
    }

    #[test]
    fn recency_survives_the_wrap_of_the_sequence_bits() {
        let evicted = leaving_at(SEQ_MASK);
        assert!(evicted.is_recent(SEQ_MASK + 3, 4));
        assert!(!evicted.is_recent(SEQ_MASK + 4, 4));
    }
}
