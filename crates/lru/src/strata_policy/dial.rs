//! A clock with few digits: what a shadow can keep of a large count.
//!
//! A reading is the count in buckets, modulo `2^WIDTH`. Buckets are fitted to the span that has to be
//! told apart, so that it takes less than `2^SPAN_WIDTH` of them: the narrower, the less often is
//! what is much older taken for younger.
//!
//! **Owns** the fitting and the arithmetic. **Does not own** any count.
//!
//! **Invariants**
//! - I1: with the bucket unchanged and less than the dial gone by, an age is exact to one bucket.

/// A dial of `WIDTH` bits for spans of `SPAN_WIDTH` bits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dial<const WIDTH: u32, const SPAN_WIDTH: u32> {
    /// Counts in a bucket, as a power of two.
    order: u32,
}

/// How much smaller a span may become before buckets do, as a power of two: readings taken before
/// a change are misjudged once, so changes have to be rare.
const SLACK_BITS: u32 = 3;

impl<const WIDTH: u32, const SPAN_WIDTH: u32> Dial<WIDTH, SPAN_WIDTH> {
    const MASK: u64 = (1 << WIDTH) - 1;

    /// Fits the buckets to a span of counts.
    pub(super) fn fit(&mut self, span: u64) {
        let nr_bits = u64::BITS - span.leading_zeros();
        let smallest = nr_bits.saturating_sub(SPAN_WIDTH);
        self.order = self.order.clamp(smallest, smallest + SLACK_BITS);
    }

    /// The count as a shadow keeps it.
    pub(super) fn reading(self, count: u64) -> u32 {
        (count >> self.order & Self::MASK) as u32
    }

    /// How far the count has gone since a reading, at least to the bucket.
    pub(super) fn since(self, reading: u32, count: u64) -> u64 {
        let now = count >> self.order;
        (now.wrapping_sub(u64::from(reading)) & Self::MASK) << self.order
    }

    /// How far the count has gone since a reading, at most.
    pub(super) fn since_at_most(self, reading: u32, count: u64) -> u64 {
        self.since(reading, count) + ((1 << self.order) - 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_age_is_exact_to_a_bucket_while_the_dial_has_not_gone_round(
            start in 0..u64::MAX / 4,
            span in 1..1u64 << 40,
            percent in 0..700u64,
        ) {
            let mut dial = Dial::<9, 6>::default();
            dial.fit(span);
            let reading = dial.reading(start);
            prop_assert!(reading < 1 << 9);
            let age = span / 100 * percent;
            prop_assert!(dial.since(reading, start + age).abs_diff(age) <= 1 << dial.order);
        }
    }

    #[test]
    fn small_spans_are_told_apart_to_the_unit_and_buckets_change_rarely() {
        let mut dial = Dial::<9, 6>::default();
        dial.fit(63);
        assert_eq!(dial.order, 0);
        dial.fit(6400);
        assert_eq!(dial.order, 7);
        dial.fit(1000);
        assert_eq!(dial.order, 7);
        dial.fit(63);
        assert_eq!(dial.order, 3);
    }
}
