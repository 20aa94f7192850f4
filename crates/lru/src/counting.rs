//! Counting accesses in a folio's flags, and the tier that comes of it (rules 1.4).
//!
//! With N accesses through file descriptors a folio is in tier `order_base_2(N)`, capped at the last
//! tier. Counting saturates a little above where the last tier begins, so few bits do. Kernels put
//! the same count into different bits:
//!
//! ```text
//!   N               1            2            3         4         5 ...       (four tiers)
//!   Workingset      referenced   workingset   refs 1    refs 2    refs 3      refs() = N - 1
//!   Referenced      referenced   refs 1       refs 2    refs 3    workingset  refs() = N
//!   tier            0            1            2         2         3
//! ```
//!
//! **Owns** what the refs field, the referenced and the workingset flag count. **Does not own** what
//! a tier is good for (`controller`) or what a walk's observation does (`multigen::promotion`).
//!
//! **Invariants**
//! - I1: both encodings give the same tier to the same number of accesses.

use crate::folio::Flags;

/// Which flag the second counted access goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The workingset flag is a part of the count (up to 6.13).
    Workingset,
    /// The workingset flag says that the count is full; a walk may set it too (6.14 on).
    Referenced,
}

/// An encoding for a number of tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counting {
    encoding: Encoding,
    nr_tiers: u32,
    field_max: u32,
}

impl Counting {
    /// Counts as far as `nr_tiers` (1..=[`MAX_NR_TIERS`](crate::ids::MAX_NR_TIERS)) need it.
    pub(crate) fn new(encoding: Encoding, nr_tiers: u8) -> Counting {
        let nr_tiers = u32::from(nr_tiers);
        let field_width = nr_tiers.saturating_sub(2);
        Counting {
            encoding,
            nr_tiers,
            field_max: (1 << field_width) - 1,
        }
    }

    /// Number of tiers.
    pub(crate) fn nr_tiers(self) -> usize {
        self.nr_tiers as usize
    }

    /// Largest value of the refs field.
    pub(crate) fn field_max(self) -> u32 {
        self.field_max
    }

    /// One access more.
    pub(crate) fn count(self, flags: Flags) -> Flags {
        if !flags.is_referenced() {
            let flags = flags.with_referenced(true);
            return match self.encoding {
                Encoding::Workingset => flags,
                Encoding::Referenced => flags.with_refs_field(0),
            };
        }
        let is_field_next = match self.encoding {
            Encoding::Workingset => flags.is_workingset(),
            Encoding::Referenced => true,
        };
        match is_field_next && flags.refs_field() < self.field_max {
            true => flags.with_refs_field(flags.refs_field() + 1),
            false => flags.with_workingset(true),
        }
    }

    /// Whether one access more sets no flag: it is neither the first one nor the one that makes the folio
    /// workingset. It goes to the refs field, or nowhere when that is full.
    pub(crate) fn sets_no_flag(self, flags: Flags) -> bool {
        let is_made_before = match self.encoding {
            Encoding::Workingset => flags.is_workingset(),
            Encoding::Referenced => flags.is_workingset() || flags.refs_field() < self.field_max,
        };
        flags.is_referenced() && is_made_before
    }

    /// Accesses counted, of the kind the encoding can tell.
    pub(crate) fn refs(self, flags: Flags) -> u32 {
        match self.encoding {
            Encoding::Workingset => flags.refs_field() + u32::from(flags.is_workingset()),
            Encoding::Referenced if flags.is_referenced() => flags.refs_field() + 1,
            Encoding::Referenced => 0,
        }
    }

    /// The tier of a folio with so many refs.
    pub(crate) fn tier_of(self, refs: u32, is_workingset: bool) -> usize {
        let last = self.nr_tiers - 1;
        let tier = match self.encoding {
            Encoding::Workingset => order_base_2(refs + 1),
            Encoding::Referenced if is_workingset => last,
            Encoding::Referenced => order_base_2(refs),
        };
        tier.min(last) as usize
    }

    /// The tier of a folio.
    pub(crate) fn tier(self, flags: Flags) -> usize {
        self.tier_of(self.refs(flags), flags.is_workingset())
    }

    /// Whether everything that can be counted has been; never with one tier, which counts nothing.
    pub(crate) fn is_saturated(self, flags: Flags) -> bool {
        let is_full = match self.encoding {
            Encoding::Workingset => self.refs(flags) == self.field_max + 1,
            Encoding::Referenced => flags.is_workingset() && self.refs(flags) == self.field_max + 1,
        };
        is_full && self.nr_tiers > 1
    }

    /// No accesses counted; the workingset flag goes where it is a part of the count.
    pub(crate) fn forget(self, flags: Flags) -> Flags {
        let flags = flags.with_refs_field(0).with_referenced(false);
        match self.encoding {
            Encoding::Workingset => flags.with_workingset(false),
            Encoding::Referenced => flags,
        }
    }

    /// What a cold hint leaves of the count: up to 6.13 only the first access is forgotten.
    pub(crate) fn cool(self, flags: Flags) -> Flags {
        match self.encoding {
            Encoding::Workingset => flags.with_referenced(false),
            Encoding::Referenced => self.forget(flags).with_workingset(false),
        }
    }

    /// The flags of a folio that returns, which after the access that it returns for has one access more than it left with,
    /// and two at least; `refs` and the flag as it had them.
    pub(crate) fn with_one_more(self, flags: Flags, refs: u32, is_workingset: bool) -> Flags {
        match self.encoding {
            Encoding::Workingset => flags
                .with_refs_field(refs.min(self.field_max))
                .with_workingset(true),
            Encoding::Referenced => flags
                .with_referenced(true)
                .with_refs_field(refs.saturating_sub(1).min(self.field_max))
                .with_workingset(is_workingset),
        }
    }

    /// What the shadow of a folio says of its accesses: refs less one, and the workingset bit.
    pub(crate) fn to_shadow(self, flags: Flags) -> (u32, bool) {
        let refs = self.refs(flags);
        let is_workingset = match self.encoding {
            Encoding::Workingset => refs != 0,
            Encoding::Referenced => flags.is_workingset(),
        };
        (refs.saturating_sub(1), is_workingset)
    }

    /// The refs that such a shadow stands for.
    pub(crate) fn refs_of_shadow(self, refs_less_one: u32, is_workingset: bool) -> u32 {
        match self.encoding {
            Encoding::Workingset => refs_less_one + u32::from(is_workingset),
            Encoding::Referenced => refs_less_one + 1,
        }
    }
}

/// The exponent of the first power of two that is not below `n`; 0 for 0.
fn order_base_2(n: u32) -> u32 {
    n.next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Kind, MAX_NR_TIERS, Order};

    const ENCODINGS: [Encoding; 2] = [Encoding::Workingset, Encoding::Referenced];

    fn fresh() -> Flags {
        Flags::new(0, Kind::File, Order::BASE)
    }

    #[test]
    fn accesses_through_descriptors_double_from_tier_to_tier() {
        for encoding in ENCODINGS {
            for nr_tiers in 1..=MAX_NR_TIERS as u8 {
                let counting = Counting::new(encoding, nr_tiers);
                let mut flags = fresh();
                for nr_accesses in 0..40 {
                    let expected = order_base_2(nr_accesses).min(u32::from(nr_tiers) - 1);
                    let tier = counting.tier(flags) as u32;
                    assert_eq!(
                        tier, expected,
                        "{encoding:?}, {nr_tiers} tiers, {nr_accesses}"
                    );
                    flags = counting.count(flags);
                }
            }
        }
    }

    #[test]
    fn a_count_saturates_where_the_last_tier_begins() {
        for encoding in ENCODINGS {
            for (nr_tiers, nr_accesses_max) in [(2, 2), (3, 3), (4, 5), (5, 9)] {
                let counting = Counting::new(encoding, nr_tiers);
                let mut flags = fresh();
                for nr_accesses in 0..20 {
                    let is_full = nr_accesses >= nr_accesses_max;
                    assert_eq!(
                        counting.is_saturated(flags),
                        is_full,
                        "{encoding:?} {nr_tiers}"
                    );
                    flags = counting.count(flags);
                }
            }
            let one = Counting::new(encoding, 1);
            let full = (0..9).fold(fresh(), |flags, _| one.count(flags));
            assert!(!one.is_saturated(full));
        }
    }

    #[test]
    fn forgetting_ends_the_workingset_where_it_is_a_part_of_the_count() {
        for (encoding, is_kept) in ENCODINGS.into_iter().zip([false, true]) {
            let counting = Counting::new(encoding, 4);
            let full = (0..5).fold(fresh(), |flags, _| counting.count(flags));
            let forgotten = counting.forget(full);
            assert_eq!(counting.refs(forgotten), 0);
            assert_eq!(forgotten.is_workingset(), is_kept);
        }
    }

    #[test]
    fn a_shadow_keeps_the_tier() {
        for encoding in ENCODINGS {
            for nr_tiers in 1..=MAX_NR_TIERS as u8 {
                let counting = Counting::new(encoding, nr_tiers);
                let mut flags = fresh();
                for _ in 0..12 {
                    let (refs_less_one, is_workingset) = counting.to_shadow(flags);
                    assert!(refs_less_one <= counting.field_max());
                    let refs = counting.refs_of_shadow(refs_less_one, is_workingset);
                    assert_eq!(counting.tier_of(refs, is_workingset), counting.tier(flags));
                    flags = counting.count(flags);
                }
            }
        }
    }
}
