//! A bit for each entry of a page table, and what is done with such bits.
//!
//! **Owns** the arithmetic. **Does not own** what a bit says.

/// Entries of a page table.
pub const NR_ENTRIES: usize = 512;

/// A bit for each entry of a page table; bit `i` of word `i / 64`.
// Not `NR_ENTRIES / 64`: rustc 1.95 fails with an internal error on that length.
pub type Bits = [u64; 8];

/// No bit.
pub const NONE: Bits = [0; 8];

/// In both.
#[inline]
pub fn and(a: Bits, b: Bits) -> Bits {
    std::array::from_fn(|word| a[word] & b[word])
}

/// In either.
#[inline]
pub fn or(a: Bits, b: Bits) -> Bits {
    std::array::from_fn(|word| a[word] | b[word])
}

/// In `a` and not in `b`.
#[inline]
pub fn without(a: Bits, b: Bits) -> Bits {
    std::array::from_fn(|word| a[word] & !b[word])
}

/// Bits `first..end`.
#[inline]
pub fn run(first: usize, end: usize) -> Bits {
    std::array::from_fn(|word| {
        let begin = word * 64;
        let (low, high) = (first.clamp(begin, begin + 64), end.clamp(begin, begin + 64));
        match high.saturating_sub(low) {
            0 => 0,
            nr_bits => (u64::MAX >> (64 - nr_bits)) << (low - begin),
        }
    })
}

/// The entries of a table that pages `first..end` cover, counted from the first page of table 0.
#[inline]
pub fn entries(first: u64, end: u64, table_no: u64) -> Bits {
    let nr_entries = NR_ENTRIES as u64;
    let entry = |page: u64| page.saturating_sub(table_no * nr_entries).min(nr_entries) as usize;
    run(entry(first), entry(end))
}

/// Whether no bit is set.
#[inline]
pub fn is_empty(bits: Bits) -> bool {
    bits == NONE
}

/// Number of bits set.
#[inline]
pub fn count(bits: Bits) -> u64 {
    bits.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// Whether bit `index` is set.
#[inline]
pub fn has(bits: &Bits, index: usize) -> bool {
    bits[index / 64] >> (index % 64) & 1 == 1
}

/// Sets bit `index`.
#[inline]
pub fn insert(bits: &mut Bits, index: usize) {
    bits[index / 64] |= 1 << (index % 64);
}

/// Clears bit `index`.
#[inline]
pub fn remove(bits: &mut Bits, index: usize) {
    bits[index / 64] &= !(1 << (index % 64));
}

/// The set bits of a word, lowest first.
#[inline]
pub(crate) fn ones_of(word: usize, mut left: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let bit = left.trailing_zeros() as usize;
        left &= left - 1;
        Some(word * 64 + bit)
    })
}

/// The set bits, lowest first.
#[inline]
pub fn ones(bits: Bits) -> impl Iterator<Item = usize> {
    let words = bits.into_iter().enumerate();
    words.flat_map(|(word, left)| ones_of(word, left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ones_are_the_bits_that_are_set(bits in prop::array::uniform8(any::<u64>())) {
            let expected: Vec<usize> = (0..NR_ENTRIES).filter(|index| has(&bits, *index)).collect();
            prop_assert_eq!(ones(bits).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn a_run_holds_exactly_its_bits() {
        for first in [0, 1, 63, 64, 65, 200, 511, 512] {
            for end in [0, 1, 63, 64, 65, 128, 300, 511, 512] {
                let set: Vec<usize> = ones(run(first, end)).collect();
                assert_eq!(set, (first..end).collect::<Vec<_>>(), "{first}..{end}");
            }
        }
    }

    #[test]
    fn pages_cover_entries_of_their_own_table_alone() {
        for (first, end, expected) in [
            (0, 512, NONE),
            (1000, 1030, run(488, 512)),
            (1536, 1600, NONE),
            (700, 640, NONE),
            (600, 601, run(88, 89)),
            (0, u64::MAX, run(0, 512)),
        ] {
            assert_eq!(entries(first, end, 1), expected, "{first}..{end}");
        }
    }

    #[test]
    fn insert_and_remove_touch_one_bit() {
        let mut bits = run(10, 80);
        remove(&mut bits, 64);
        insert(&mut bits, 500);
        assert!(!has(&bits, 64) && has(&bits, 63) && has(&bits, 500));
        assert_eq!(count(bits), 70);
    }
}
