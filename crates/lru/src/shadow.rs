//! What is left of an evicted folio: enough to judge its return.
//!
//! | bits   | field      | meaning                                                 |
//! |--------|------------|---------------------------------------------------------|
//! | 0      | workingset | what `counting` makes of the folio's flags              |
//! | 1      | kind       | 0 anon, 1 file                                          |
//! | 2..16  | lruvec     | whose it was (group and node)                           |
//! | 16..19 | refs       | accesses counted less one, not below 0                  |
//! | 19..31 | seq        | low bits of the kind's oldest generation at its leaving |
//!
//! The kernel's token `min_seq << 2 | refs` (rules 4.1) is bits 16 up. Twelve bits of `seq` tell
//! 4096 generations apart; a shadow older than that is taken for recent by chance once in a thousand.
//!
//! **Owns** the layout. **Does not own** where shadows are kept (the mechanism) or what a refault
//! changes (`multigen::refault`).

use crate::{
    counting::Counting,
    folio::{Flags, MAX_LRUVECS},
    ids::Kind,
    rules::Recency,
    seam::Shadow,
};

const KIND_SHIFT: u32 = 1;
const LRUVEC_SHIFT: u32 = 2;
const LRUVEC_MASK: u32 = MAX_LRUVECS - 1;
const REFS_SHIFT: u32 = 16;
const SEQ_SHIFT: u32 = 19;
const SEQ_MASK: u64 = (1 << (31 - SEQ_SHIFT)) - 1;

const _: () = assert!(LRUVEC_SHIFT + MAX_LRUVECS.trailing_zeros() == REFS_SHIFT);
const _: () = assert!(REFS_SHIFT + (Flags::REFS_FIELD_MAX + 1).trailing_zeros() == SEQ_SHIFT);

/// The fields of a shadow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evicted {
    pub(crate) is_workingset: bool,
    pub(crate) kind: Kind,
    pub(crate) lruvec: usize,
    /// Accesses counted less one, as `counting` writes them.
    pub(crate) refs_less_one: u32,
    seq: u64,
}

impl Evicted {
    /// What to remember of a folio that leaves while `min_seq` is its kind's oldest generation.
    pub(crate) fn of(flags: Flags, counting: Counting, min_seq: u64) -> Evicted {
        let (refs_less_one, is_workingset) = counting.to_shadow(flags);
        Evicted {
            is_workingset,
            kind: flags.kind(),
            lruvec: flags.lruvec(),
            refs_less_one,
            seq: min_seq & SEQ_MASK,
        }
    }

    pub(crate) fn pack(self) -> Shadow {
        Shadow(
            u32::from(self.is_workingset)
                | (self.kind as u32) << KIND_SHIFT
                | (self.lruvec as u32) << LRUVEC_SHIFT
                | self.refs_less_one << REFS_SHIFT
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
            refs_less_one: bits >> REFS_SHIFT & Flags::REFS_FIELD_MAX,
            seq: u64::from(bits >> SEQ_SHIFT) & SEQ_MASK,
        }
    }

    /// Whether the folio left lately: from the oldest generation there still is, or from one of the last
    /// `nr_gens`.
    pub(crate) fn is_recent(
        self,
        recency: Recency,
        min_seq: u64,
        max_seq: u64,
        nr_gens: u64,
    ) -> bool {
        match recency {
            Recency::SameOldest => min_seq & SEQ_MASK == self.seq,
            Recency::Window => max_seq.wrapping_sub(self.seq) & SEQ_MASK < nr_gens,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{counting::Encoding, ids::Order};

    fn leaving_at(min_seq: u64) -> Evicted {
        let counting = Counting::new(Encoding::Referenced, 4);
        Evicted::of(Flags::new(7, Kind::File, Order::BASE), counting, min_seq)
    }

    fn is_recent(evicted: Evicted, max_seq: u64) -> bool {
        evicted.is_recent(Recency::Window, 0, max_seq, 4)
    }

    proptest! {
        #[test]
        fn a_shadow_gives_back_what_was_put_in(
            lruvec in 0..MAX_LRUVECS as u16,
            is_file: bool,
            is_workingset: bool,
            is_referenced: bool,
            refs in 0..=7u32,
            min_seq in 0..u64::MAX / 2,
        ) {
            let kind = if is_file { Kind::File } else { Kind::Anon };
            let flags = Flags::new(lruvec, kind, Order::BASE)
                .with_refs_field(refs)
                .with_workingset(is_workingset)
                .with_referenced(is_referenced);
            for encoding in [Encoding::Workingset, Encoding::Referenced] {
                let counting = Counting::new(encoding, 5);
                let evicted = Evicted::of(flags, counting, min_seq);
                let shadow = evicted.pack();
                prop_assert!(shadow.to_bits() < Shadow::LIMIT);
                prop_assert_eq!(Evicted::unpack(shadow), evicted);
                let counted = (evicted.refs_less_one, evicted.is_workingset);
                prop_assert_eq!(counted, counting.to_shadow(flags));
            }
        }

        #[test]
        fn any_bits_are_a_shadow(bits: u32) {
            let shadow = Shadow::from_bits_truncate(bits);
            prop_assert_eq!(Evicted::unpack(shadow).pack(), shadow);
        }
    }

    #[test]
    fn recency_survives_the_wrap_of_the_sequence_bits() {
        let evicted = leaving_at(SEQ_MASK);
        assert!(is_recent(evicted, SEQ_MASK + 3));
        assert!(!is_recent(evicted, SEQ_MASK + 4));
        assert!(evicted.is_recent(Recency::SameOldest, 2 * SEQ_MASK + 1, SEQ_MASK, 4));
    }
}
