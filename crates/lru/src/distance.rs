//! Refault distance: how much left memory between a folio's leaving and its return (rules 4.2, 4.3).
//!
//! A clock counts base pages that leave. What leaves takes the clock's reading along, and at its
//! return the difference says how much larger memory would have had to be for it to stay.
//!
//! | bits   | field      | meaning                                                    |
//! |--------|------------|------------------------------------------------------------|
//! | 0      | workingset | it belonged to the working set                             |
//! | 1      | kind       | 0 anon, 1 file                                             |
//! | 2..9   | lruvec     | whose it was (low bits of the group and node's index)      |
//! | 9..12  | refs       | accesses counted less one, as `counting` writes them       |
//! | 12..30 | reading    | the clock at its leaving, in buckets                       |
//! | 30     | 0          | 1 marks the ticket of a page that a trial follows (`trial`) |
//!
//! Eighteen bits wrap, so a bucket grows with memory (as the kernel's `bucket_order` does) until
//! they cover [`RANGE_OVER_RESIDENT`] times what is resident. A shadow older than that range is
//! taken for a younger one with a chance of one in [`RANGE_OVER_RESIDENT`].
//!
//! Both the generations and the two lists give some of those that return a chance to stay, by what they
//! missed memory by:
//!
//! ```text
//!   distance, in memory    0 .. 1/4     .. 3         beyond
//!   read again             one in 2     one in 16    none
//!   faulted again          one in 16    one in 16    none
//! ```
//!
//! Some and not all, or they would displace each other before any is used again, and nothing of a set that
//! is larger than memory would ever be found there. Those that stay do so for as many rounds as there are
//! returns to a chance.
//!
//! The series of 2023 has another test, for both as well ([`Sizes::keep_series`]).
//!
//! **Owns** the clock, the layout of these shadows, who is given a chance, and the series' test. **Does not own** what comes
//! of a chance, or of having none (`two_list::workingset`, `multigen::distance`).
//!
//! **Invariants**
//! - I1: a clock never goes back, a bucket never shrinks.
//! - I2: a distance is exact to one bucket while fewer pages left than the range.
//! - I3: bit 30 of a shadow is 0.

use crate::{
    folio::Flags,
    ids::Kind,
    ids::MAX_NR_GENS,
    seam::{Cause, Shadow},
};

/// Bits of a shadow that tells a distance; the one above is left to trials.
pub(crate) const SHADOW_WIDTH: u32 = 30;

const KIND_SHIFT: u32 = 1;
const LRUVEC_SHIFT: u32 = 2;
const LRUVEC_WIDTH: u32 = 7;
const LRUVEC_MASK: u32 = (1 << LRUVEC_WIDTH) - 1;
const REFS_SHIFT: u32 = LRUVEC_SHIFT + LRUVEC_WIDTH;
const READING_SHIFT: u32 = REFS_SHIFT + 3;
const READING_WIDTH: u32 = SHADOW_WIDTH - READING_SHIFT;
const READING_MASK: u64 = (1 << READING_WIDTH) - 1;

const _: () = assert!(Flags::REFS_FIELD_MAX == (1 << (READING_SHIFT - REFS_SHIFT)) - 1);

/// How many times what is resident a clock tells apart, at least.
const RANGE_OVER_RESIDENT: u64 = 16;

/// Base pages that left one lruvec, or one kind of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    nr_pages: u64,
    /// Base pages in a bucket, as a power of two.
    bucket_order: u32,
}

impl Clock {
    /// `nr_pages` left, or count as if they had.
    pub(crate) fn advance(&mut self, nr_pages: u64) {
        self.nr_pages += nr_pages;
    }

    /// Makes buckets wide enough for this many resident base pages. Readings taken before a bucket
    /// grew tell a wrong distance once; memory is full before anything leaves, so few are.
    pub(crate) fn widen(&mut self, nr_resident_pages: u64) {
        let nr_bits = u64::BITS - (nr_resident_pages * RANGE_OVER_RESIDENT).leading_zeros();
        self.bucket_order = self.bucket_order.max(nr_bits.saturating_sub(READING_WIDTH));
    }

    /// What a folio takes along.
    pub(crate) fn reading(self) -> u32 {
        (self.nr_pages >> self.bucket_order & READING_MASK) as u32
    }

    /// Base pages that left since a reading.
    pub(crate) fn since(self, reading: u32) -> u64 {
        let now = self.nr_pages >> self.bucket_order;
        (now.wrapping_sub(u64::from(reading)) & READING_MASK) << self.bucket_order
    }
}

/// Missed by a little: by no more than this part of memory.
const NEAR_PART: u64 = 4;

/// Missed by so many times memory a page is out of reach.
const FAR_TIMES: u64 = 3;

/// One in so many returns that missed memory by a little is given a chance.
const NR_NEAR_PER_CHANCE: u64 = 2;

/// One in so many returns that missed it by more is. With one in four the two lists kept nothing of what is
/// three times as large as memory.
const NR_FAR_PER_CHANCE: u64 = 16;

/// Base pages of one lruvec in use and not, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    pub(crate) active: [u64; 2],
    pub(crate) inactive: [u64; 2],
}

impl Sizes {
    /// The test of the 2023 series (patch 2 of its third version). A page that returns would have had to
    /// stay for its distance and the length of the inactive list. Memory is long enough if the distance is
    /// below what is active, and below what is inactive if that is less: a large active list is challenged
    /// by no more at a time than can be told apart on the inactive one. The other kind's inactive pages are
    /// none that it waited behind, so where less is active they count as active.
    pub(crate) fn keep_series(&self, kind: Kind, distance: u64, has_swap: bool) -> bool {
        let sum =
            |of: [u64; 2]| of[Kind::File.index()] + of[Kind::Anon.index()] * u64::from(has_swap);
        let (active, inactive) = (sum(self.active), sum(self.inactive));
        match active >= inactive {
            true => distance < inactive,
            false => {
                let own = match kind {
                    Kind::Anon if !has_swap => 0,
                    _ => self.inactive[kind.index()],
                };
                distance < active + inactive - own
            }
        }
    }
}

/// How many returns there were, by whether they missed memory by a little or by much.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Returns {
    near: u64,
    far: u64,
}

impl Returns {
    /// Whether a page that left so many pages ago is given a chance to stay in a memory of so many.
    ///
    /// A fault alone is not taken for a short return: being found accessed will tell whether it is hot.
    pub(crate) fn gives_chance(
        &mut self,
        cause: Cause,
        distance: u64,
        nr_memory_pages: u64,
    ) -> bool {
        let is_near = cause != Cause::Fault && distance <= nr_memory_pages / NEAR_PART;
        let (nr_returns, nr_per_chance) = match is_near {
            true => (&mut self.near, NR_NEAR_PER_CHANCE),
            false if distance <= nr_memory_pages * FAR_TIMES => (&mut self.far, NR_FAR_PER_CHANCE),
            false => return false,
        };
        *nr_returns += 1;
        nr_returns.is_multiple_of(nr_per_chance)
    }
}

/// The clocks of one lruvec of generations by kind, and its returns; what they are good for is in
/// `multigen::distance`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Distances {
    pub(crate) clocks: [Clock; 2],
    pub(crate) nr_returns: Returns,
    /// The clock when each generation became the oldest of its kind, by its number modulo the most
    /// generations there can be.
    marks: [[u64; MAX_NR_GENS]; 2],
}

impl Distances {
    /// A generation becomes the oldest of its kind.
    pub(crate) fn mark(&mut self, kind: Kind, seq: u64) {
        let now = self.clocks[kind.index()].nr_pages;
        self.marks[kind.index()][seq as usize % MAX_NR_GENS] = now;
    }

    /// Base pages of the kind that left since a generation became the oldest of it; the generation is
    /// one of the last [`MAX_NR_GENS`].
    pub(crate) fn since_mark(&self, kind: Kind, seq: u64) -> u64 {
        let mark = self.marks[kind.index()][seq as usize % MAX_NR_GENS];
        self.clocks[kind.index()].nr_pages - mark
    }
}

/// The fields of a shadow that remembers when the folio left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departed {
    pub(crate) is_workingset: bool,
    pub(crate) kind: Kind,
    lruvec: u32,
    /// Accesses counted less one, as `counting` writes them; 0 where none are counted.
    pub(crate) refs_less_one: u32,
    /// The clock at its leaving.
    pub(crate) reading: u32,
}

impl Departed {
    /// What to remember of a folio, whose accesses `counting` writes as these two.
    pub(crate) fn new(
        flags: Flags,
        refs_less_one: u32,
        is_workingset: bool,
        clock: Clock,
    ) -> Departed {
        Departed {
            is_workingset,
            kind: flags.kind(),
            lruvec: flags.lruvec() as u32 & LRUVEC_MASK,
            refs_less_one,
            reading: clock.reading(),
        }
    }

    /// Whether the shadow may be of a folio that left from where `flags` belong: same kind, same group and node.
    pub(crate) fn is_of(self, flags: Flags) -> bool {
        self.kind == flags.kind() && self.lruvec == flags.lruvec() as u32 & LRUVEC_MASK
    }

    pub(crate) fn pack(self) -> Shadow {
        Shadow(
            u32::from(self.is_workingset)
                | (self.kind as u32) << KIND_SHIFT
                | self.lruvec << LRUVEC_SHIFT
                | self.refs_less_one << REFS_SHIFT
                | self.reading << READING_SHIFT,
        )
    }

    pub(crate) fn unpack(shadow: Shadow) -> Departed {
        let bits = shadow.0;
        Departed {
            is_workingset: bits & 1 != 0,
            kind: if bits >> KIND_SHIFT & 1 == 0 {
                Kind::Anon
            } else {
                Kind::File
            },
            lruvec: bits >> LRUVEC_SHIFT & LRUVEC_MASK,
            refs_less_one: bits >> REFS_SHIFT & Flags::REFS_FIELD_MAX,
            reading: bits >> READING_SHIFT,
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
            lruvec in 0..128u16,
            is_file: bool,
            is_workingset: bool,
            refs in 0..=4u32,
            nr_pages in 0..u64::MAX / 2,
        ) {
            let kind = if is_file { Kind::File } else { Kind::Anon };
            let mut flags = Flags::new(lruvec, kind, Order::BASE);
            if is_workingset { flags = flags.with_workingset(true); }
            let clock = Clock { nr_pages, bucket_order: 0 };
            let departed = Departed::new(flags, refs, is_workingset, clock);
            let shadow = departed.pack();
            prop_assert!(shadow.to_bits() < 1 << SHADOW_WIDTH);
            prop_assert_eq!(Departed::unpack(shadow), departed);
            prop_assert!(departed.is_of(flags));
            prop_assert_eq!(departed.refs_less_one, refs);
        }

        #[test]
        fn a_distance_is_exact_to_a_bucket_within_the_range(
            start in 0..u64::MAX / 2,
            nr_resident_pages in 1..1u64 << 40,
            share in 0..1000u64,
        ) {
            let mut clock = Clock { nr_pages: start, bucket_order: 0 };
            clock.widen(nr_resident_pages);
            let reading = clock.reading();
            let nr_left_pages = nr_resident_pages * (RANGE_OVER_RESIDENT - 1) / 1000 * share;
            clock.advance(nr_left_pages);
            prop_assert!(clock.since(reading).abs_diff(nr_left_pages) <= 1 << clock.bucket_order);
        }
    }

    #[test]
    fn one_in_a_few_returns_is_given_a_chance_and_fewer_of_those_from_afar_or_faulted() {
        let chances = |cause, distance| {
            let mut returns = Returns::default();
            let all = (0..32).map(|_| returns.gives_chance(cause, distance, 100));
            all.filter(|is_given| *is_given).count()
        };
        assert_eq!(chances(Cause::Read, 25), 16);
        assert_eq!(chances(Cause::Read, 26), 2);
        assert_eq!(chances(Cause::Read, 300), 2);
        assert_eq!(chances(Cause::Fault, 1), 2);
        assert_eq!(chances(Cause::Read, 301), 0);
    }

    #[test]
    fn by_the_series_the_shorter_of_both_lists_bounds_the_distance() {
        let farthest = |active, inactive, kind, has_swap| {
            let sizes = Sizes { active, inactive };
            let is_kept = |distance: &u64| sizes.keep_series(kind, *distance, has_swap);
            (0..1000).take_while(is_kept).count()
        };
        // Anon and file. Less is active than not: what is active, and what of the other kind is not.
        assert_eq!(farthest([10, 20], [40, 50], Kind::File, true), 70);
        assert_eq!(farthest([10, 20], [40, 50], Kind::Anon, true), 80);
        assert_eq!(farthest([10, 20], [40, 50], Kind::File, false), 20);
        // As much is active: what is not.
        assert_eq!(farthest([60, 30], [40, 50], Kind::File, true), 90);
        assert_eq!(farthest([60, 300], [40, 50], Kind::Anon, true), 90);
        assert_eq!(farthest([60, 300], [40, 50], Kind::File, false), 50);
        assert_eq!(farthest([0, 0], [40, 50], Kind::File, false), 0);
    }

    #[test]
    fn small_memory_is_told_apart_to_the_page_and_buckets_never_shrink() {
        let mut clock = Clock::default();
        clock.widen(16_383);
        assert_eq!(clock.bucket_order, 0);
        clock.widen(1 << 20);
        assert_eq!(clock.bucket_order, 7);
        clock.widen(1);
        assert_eq!(clock.bucket_order, 7);
    }
}
