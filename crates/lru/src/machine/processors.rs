//! A set of processors.
//!
//! **Owns** the set. **Does not own** who may run where.

use std::ops::{BitOr, Sub};

/// A set of processors, by number; those that can't be named are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(into = "Option<Vec<usize>>", from = "Option<Vec<usize>>")
)]
pub struct Processors([u64; Processors::NR_MAX / 64]);

impl Processors {
    /// Numbers that can be named end here, as `cpu_set_t` of the C library has it.
    pub const NR_MAX: usize = 1024;
    /// No processor.
    pub const NONE: Processors = Processors([0; Processors::NR_MAX / 64]);
    /// Every one there may be.
    pub const ALL: Processors = Processors([u64::MAX; Processors::NR_MAX / 64]);

    /// Whether the set contains the processor with this number.
    pub fn contains(&self, number: usize) -> bool {
        let word = self.0.get(number / 64).copied().unwrap_or(0);
        word & 1 << (number % 64) != 0
    }

    /// How many.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

/// Numbers of the processors, in order; `None`: every one there may be.
impl From<Processors> for Option<Vec<usize>> {
    fn from(set: Processors) -> Self {
        let numbers = 0..Processors::NR_MAX;
        (set != Processors::ALL).then(|| numbers.filter(|number| set.contains(*number)).collect())
    }
}

impl From<Option<Vec<usize>>> for Processors {
    fn from(numbers: Option<Vec<usize>>) -> Self {
        numbers.map_or(Processors::ALL, Processors::from_iter)
    }
}

impl Default for Processors {
    fn default() -> Processors {
        Processors::ALL
    }
}

impl BitOr for Processors {
    type Output = Processors;

    fn bitor(mut self, other: Processors) -> Processors {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
        self
    }
}

impl Sub for Processors {
    type Output = Processors;

    fn sub(mut self, other: Processors) -> Processors {
        for (word, less) in self.0.iter_mut().zip(other.0) {
            *word &= !less;
        }
        self
    }
}

impl FromIterator<usize> for Processors {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Processors {
        let mut set = Processors::NONE;
        for number in numbers {
            if let Some(word) = set.0.get_mut(number / 64) {
                *word |= 1 << (number % 64);
            }
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_a_set() {
        let some: Processors = [0, 63, 64, 1023, 4096].into_iter().collect();
        assert_eq!(some.count(), 4);
        let more: Processors = [1, 63].into_iter().collect();
        assert_eq!((some | more).count(), 5);
        assert_eq!(some - more, [0, 64, 1023].into_iter().collect());
        assert_eq!(Option::from(some), Some(vec![0, 63, 64, 1023]));
        assert_eq!(Option::<Vec<usize>>::from(Processors::ALL), None);
        assert!(some.contains(1023) && !some.contains(1022) && !some.contains(4096));
        assert_eq!(some | Processors::NONE, some);
    }
}
