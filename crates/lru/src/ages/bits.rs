//! A bit for each entry of a page table, and what is done with such bits.
//!
//! **Owns** the arithmetic. **Does not own** what a bit says.

/// Entries of a page table.
pub const NR_ENTRIES: usize = 512;

/// A bit for each entry of a page table.
pub type Bits = [u64; NR_ENTRIES / 64];

/// Calls `each` with the index of every set bit of a word.
#[inline]
pub(super) fn ones_of(word: usize, mut left: u64, mut each: impl FnMut(usize)) {
    while left != 0 {
        each(word * 64 + left.trailing_zeros() as usize);
        left &= left - 1;
    }
}

/// Calls `each` with the index of every set bit.
#[inline]
pub(super) fn ones(bits: &Bits, mut each: impl FnMut(usize)) {
    for (word, left) in bits.iter().enumerate() {
        ones_of(word, *left, &mut each);
    }
}

pub(super) fn and(a: &Bits, b: &Bits) -> Bits {
    std::array::from_fn(|word| a[word] & b[word])
}

pub(super) fn without(a: &Bits, b: &Bits) -> Bits {
    std::array::from_fn(|word| a[word] & !b[word])
}

pub(super) fn insert_all(bits: &mut Bits, more: &Bits) {
    for (word, more) in bits.iter_mut().zip(more) {
        *word |= more;
    }
}

pub(super) fn is_empty(bits: &Bits) -> bool {
    bits.iter().all(|word| *word == 0)
}

pub(super) fn nr_ones(bits: &Bits) -> u64 {
    bits.iter().map(|word| u64::from(word.count_ones())).sum()
}
