//! A bit for each page, visited in runs of words.
//!
//! **Owns** the bitmap. **Does not own** what a bit means.

/// One bit a slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// All clear.
    pub(crate) fn new(len: u32) -> Bits {
        Bits {
            words: vec![0; (len as usize).div_ceil(u64::BITS as usize)],
        }
    }

    pub(crate) fn get(&self, slot: u32) -> bool {
        let (word, mask) = at(slot);
        self.words[word] & mask != 0
    }

    pub(crate) fn set(&mut self, slot: u32) {
        let (word, mask) = at(slot);
        self.words[word] |= mask;
    }

    pub(crate) fn clear(&mut self, slot: u32) {
        let (word, mask) = at(slot);
        self.words[word] &= !mask;
    }

    /// Clears a bit; what it was.
    pub(crate) fn take(&mut self, slot: u32) -> bool {
        let (word, mask) = at(slot);
        let was_set = self.words[word] & mask != 0;
        self.words[word] &= !mask;
        was_set
    }

    /// Words that hold bits of `first..end`, as positions.
    pub(crate) fn words_of(first: u32, end: u32) -> std::ops::Range<usize> {
        (first / u64::BITS) as usize..(end as usize).div_ceil(u64::BITS as usize)
    }

    /// Clears the bits of `first..end` within one word; those that were set, at their places.
    pub(crate) fn take_of_word(&mut self, word: usize, first: u32, end: u32) -> u64 {
        let mask = mask_of_word(word, first, end);
        let taken = self.words[word] & mask;
        self.words[word] &= !mask;
        taken
    }

    /// Whether no bit of `first..end` is set.
    pub(crate) fn is_clear(&self, first: u32, end: u32) -> bool {
        Self::words_of(first, end)
            .all(|word| self.words[word] & mask_of_word(word, first, end) == 0)
    }

    /// How many bits of `first..end` are set, apart for those that `by` has set, too, and the others.
    pub(crate) fn count_by(&self, by: &Bits, first: u32, end: u32) -> [u64; 2] {
        let mut counts = [0; 2];
        for word in Self::words_of(first, end) {
            let bits = self.words[word] & mask_of_word(word, first, end);
            counts[0] += u64::from((bits & by.words[word]).count_ones());
            counts[1] += u64::from((bits & !by.words[word]).count_ones());
        }
        counts
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.words.capacity() * size_of::<u64>()) as u64
    }
}

fn at(slot: u32) -> (usize, u64) {
    ((slot / u64::BITS) as usize, 1 << (slot % u64::BITS))
}

/// The bits of a word that stand for slots of `first..end`.
fn mask_of_word(word: usize, first: u32, end: u32) -> u64 {
    let start = word as u64 * u64::from(u64::BITS);
    let low = u64::from(first).saturating_sub(start).min(64);
    let high = u64::from(end).saturating_sub(start).min(64);
    let below = |bit: u64| if bit == 64 { u64::MAX } else { (1 << bit) - 1 };
    below(high) & !below(low)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_range_is_taken_as_bit_by_bit(
            slots in proptest::collection::btree_set(0..300_u32, 0..120),
            first in 0..300_u32,
            len in 0..300_u32,
        ) {
            let end = (first + len).min(300);
            let mut bits = Bits::new(300);
            slots.iter().for_each(|slot| bits.set(*slot));
            let inside: Vec<u32> = slots.iter().copied().filter(|s| (first..end).contains(s)).collect();
            prop_assert_eq!(bits.is_clear(first, end), inside.is_empty());
            let mut taken = Vec::new();
            for word in Bits::words_of(first, end) {
                let mut left = bits.take_of_word(word, first, end);
                while left != 0 {
                    taken.push(word as u32 * 64 + left.trailing_zeros());
                    left &= left - 1;
                }
            }
            prop_assert_eq!(&taken, &inside);
            for slot in 0..300 {
                let expected = slots.contains(&slot) && !inside.contains(&slot);
                prop_assert_eq!(bits.get(slot), expected);
            }
        }
    }
}
