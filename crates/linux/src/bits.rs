//! Set operations on the 512 bits of a page table.
//!
//! **Owns** the word-wise operations and the iteration the trackers need. **Does not own** what a
//! bit means.

use crate::access::Bits512;
use crate::addr::{AddrRange, PAGE_BYTES, TABLE_BYTES, TableNo};

/// No bit.
pub const NONE: Bits512 = Bits512([0; 8]);

fn zip(a: Bits512, b: Bits512, f: impl Fn(u64, u64) -> u64) -> Bits512 {
    Bits512(std::array::from_fn(|word| f(a.0[word], b.0[word])))
}

/// In both.
pub fn and(a: Bits512, b: Bits512) -> Bits512 {
    zip(a, b, |x, y| x & y)
}

/// In either.
pub fn or(a: Bits512, b: Bits512) -> Bits512 {
    zip(a, b, |x, y| x | y)
}

/// In `a` and not in `b`.
pub fn without(a: Bits512, b: Bits512) -> Bits512 {
    zip(a, b, |x, y| x & !y)
}

/// Bits `first..end`.
pub fn run(first: usize, end: usize) -> Bits512 {
    Bits512(std::array::from_fn(|word| {
        let low = first.clamp(word * 64, word * 64 + 64) - word * 64;
        let high = end.clamp(word * 64, word * 64 + 64) - word * 64;
        if low >= high {
            0
        } else {
            (u64::MAX >> (64 - (high - low))) << low
        }
    }))
}

/// The entries of `table` that `range` covers.
pub fn entries(range: AddrRange, table: TableNo) -> Bits512 {
    let start = range.start.max(table.start()) - table.start();
    let end = range
        .end
        .min(table.start() + TABLE_BYTES)
        .saturating_sub(table.start());
    run(
        (start / PAGE_BYTES) as usize,
        end.div_ceil(PAGE_BYTES) as usize,
    )
}

/// Whether no bit is set.
pub fn is_empty(bits: Bits512) -> bool {
    bits.0 == [0; 8]
}

/// Number of bits set.
pub fn count(bits: Bits512) -> u64 {
    bits.0.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// Whether bit `index` is set.
pub fn has(bits: Bits512, index: usize) -> bool {
    bits.0[index / 64] >> (index % 64) & 1 == 1
}

/// Sets bit `index`.
pub fn insert(bits: &mut Bits512, index: usize) {
    bits.0[index / 64] |= 1 << (index % 64);
}

/// Clears bit `index`.
pub fn remove(bits: &mut Bits512, index: usize) {
    bits.0[index / 64] &= !(1 << (index % 64));
}

/// The set bits, lowest first.
pub fn ones(bits: Bits512) -> impl Iterator<Item = usize> {
    bits.0.into_iter().enumerate().flat_map(|(word, mut left)| {
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let bit = left.trailing_zeros() as usize;
            left &= left - 1;
            Some(word * 64 + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn insert_and_remove_touch_one_bit() {
        let mut bits = run(10, 80);
        remove(&mut bits, 64);
        insert(&mut bits, 500);
        assert!(!has(bits, 64) && has(bits, 63) && has(bits, 500));
        assert_eq!(count(bits), 70);
    }
}
