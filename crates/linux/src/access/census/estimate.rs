//! From a random sample of blocks to the whole: the estimate and its interval of confidence.
//!
//! **Owns** the arithmetic and the random order. **Does not own** which figure is estimated.

use crate::nodes::ranges::BLOCK_PAGES;

/// Standard errors on each side that hold the true value 95 times of 100.
pub(super) const NR_ERRORS: f64 = 1.96;

/// From so many blocks with anything in them on, the figures of samples are spread as the interval supposes.
const NR_FILLED_MIN: u64 = 30;
/// The most that a block is supposed to have: it is full.
const FULL_BLOCK: f64 = BLOCK_PAGES as f64;

/// One figure, block by block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figure {
    sum: f64,
    squares: f64,
    nr_filled: u64,
}

impl Figure {
    /// Adds what one block has.
    pub(super) fn add(&mut self, value: u64) {
        self.nr_filled += u64::from(value > 0);
        let value = value as f64;
        self.sum += value;
        self.squares += value * value;
    }

    /// What all `nr_blocks` have, and half of the interval that holds it 95 times of 100, when `nr_sampled` of them were
    /// looked at, chosen at random, none twice. Half an interval of infinity: one block tells nothing of the others.
    ///
    /// Where few blocks of the sample had anything, there may be more of them than their spread shows (none at all looks
    /// like certainty): then the interval is wide enough for as many full blocks as may have been missed.
    pub(super) fn estimate(&self, nr_sampled: u64, nr_blocks: u64) -> (f64, f64) {
        if nr_sampled >= nr_blocks {
            return (self.sum, 0.0);
        }
        let (sampled, all) = (nr_sampled as f64, nr_blocks as f64);
        if nr_sampled < 2 {
            return (self.sum * all / sampled.max(1.0), f64::INFINITY);
        }
        let mean = self.sum / sampled;
        let variance = (self.squares - sampled * mean * mean).max(0.0) / (sampled - 1.0);
        let left = (1.0 - sampled / all).sqrt();
        let spread = NR_ERRORS * all * (variance / sampled).sqrt() * left;
        let missed = match self.nr_filled < NR_FILLED_MIN {
            true => nr_missed(self.nr_filled) * all / sampled * FULL_BLOCK * left,
            false => 0.0,
        };
        (mean * all, spread.max(missed))
    }
}

/// How many more rare things than the `nr_seen` that were seen are to be expected in such a sample, at most, 97.5 times of 100:
/// the upper bound of a Poisson figure by Byar's formula.
fn nr_missed(nr_seen: u64) -> f64 {
    let next = nr_seen as f64 + 1.0;
    let root = 1.0 - 1.0 / (9.0 * next) + NR_ERRORS / (3.0 * next.sqrt());
    next * root.powi(3) - nr_seen as f64
}

/// Numbers below `count` in random order, each once.
#[derive(Debug)]
pub(super) struct Shuffled {
    numbers: Vec<u32>,
    state: u64,
}

impl Shuffled {
    pub(super) fn new(count: u32, seed: u64) -> Shuffled {
        Shuffled {
            numbers: (0..count).collect(),
            state: seed,
        }
    }

    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Iterator for Shuffled {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let left = self.numbers.len() as u64;
        let chosen = self.random().checked_rem(left)?;
        Some(self.numbers.swap_remove(chosen as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once() {
        let mut all: Vec<u32> = Shuffled::new(1000, 7).collect();
        assert_ne!(all, (0..1000).collect::<Vec<_>>());
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
        assert_eq!(Shuffled::new(0, 7).next(), None);
    }

    #[test]
    fn all_blocks_are_the_truth_and_one_says_nothing_of_the_rest() {
        let mut figure = Figure::default();
        figure.add(3);
        assert_eq!(figure.estimate(1, 10), (30.0, f64::INFINITY));
        figure.add(5);
        assert_eq!(figure.estimate(2, 2), (8.0, 0.0));
        assert_eq!(Figure::default().estimate(0, 10).0, 0.0);
    }

    /// How many of a thousand samples of 200 blocks hold the truth.
    fn nr_held(blocks: &[u64]) -> usize {
        let truth = blocks.iter().sum::<u64>() as f64;
        let holds = |seed: &u64| {
            let mut figure = Figure::default();
            let sample = Shuffled::new(blocks.len() as u32, *seed).take(200);
            sample.for_each(|block| figure.add(blocks[block as usize]));
            let (estimate, error) = figure.estimate(200, blocks.len() as u64);
            (estimate - truth).abs() <= error
        };
        (0..1000).filter(holds).count()
    }

    /// A file of a few MiB on an idle machine.
    #[test]
    fn what_few_blocks_have_is_not_said_to_be_nothing() {
        let blocks: Vec<u64> = (0..4000u64)
            .map(|block| if block % 1000 < 2 { 512 } else { 0 })
            .collect();
        let nr_held = nr_held(&blocks);
        assert!(nr_held >= 950, "{nr_held} of 1000");
    }

    /// Memory as it is: most blocks empty, many full, some in between.
    #[test]
    fn the_interval_holds_the_truth_as_often_as_it_says() {
        let blocks: Vec<u64> = (0..4000u64)
            .map(|block| match block % 10 {
                0..5 => 0,
                5..8 => 512,
                _ => block * 7919 % 513,
            })
            .collect();
        let nr_held = nr_held(&blocks);
        assert!((920..=980).contains(&nr_held), "{nr_held} of 1000");
    }
}
