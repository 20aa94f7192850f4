//! Zipf's law without a maths library: rank `k` is drawn in proportion to `k^-exponent`.
//!
//! `pow` differs in its last digits between C libraries, and one differing digit moves every draw
//! after it. So the exponent is a number of hundredths, and `k^0.01` is found by Newton's method with
//! the four basic operations of IEEE 754, which every machine rounds alike; whole powers of that root
//! do the rest.
//!
//! **Owns** the weights and the draw. **Does not own** which page has which rank (`sequence`).

use super::rng::Rng;

/// Newton steps for each rank, starting from the root of the rank before (exact to 4e-9).
const NR_NEWTON_STEPS: u32 = 4;

/// Exponent of the sequences that kernels were measured on: 0.99.
pub(crate) const USUAL_EXPONENT_HUNDREDTHS: u32 = 99;

/// Largest exponent: 4.00.
pub(crate) const EXPONENT_HUNDREDTHS_MAX: u32 = 400;

/// Cumulated weights, 8 bytes a rank.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    cumulated: Vec<f64>,
}

impl Zipf {
    /// The law over `nr_ranks` ranks (at least 1).
    pub(crate) fn new(nr_ranks: u32, exponent_hundredths: u32) -> Zipf {
        let mut root = 1.0_f64;
        let mut sum = 0.0_f64;
        let weights = (1..=nr_ranks.max(1)).map(|rank| {
            let rank = f64::from(rank);
            root = hundredth_root(rank, root);
            sum += weight(rank, root, exponent_hundredths);
            sum
        });
        Zipf {
            cumulated: weights.collect(),
        }
    }

    /// Draws a rank, counted from 0.
    pub(crate) fn rank(&self, rng: &mut Rng) -> u32 {
        let last = self.cumulated.len() - 1;
        let target = rng.unit() * self.cumulated[last];
        let rank = self.cumulated.partition_point(|sum| *sum <= target);
        rank.min(last) as u32
    }
}

/// `rank^0.01`, from a guess just below it.
fn hundredth_root(rank: f64, guess: f64) -> f64 {
    let mut y = guess;
    for _ in 0..NR_NEWTON_STEPS {
        let y2 = y * y;
        let y4 = y2 * y2;
        let y8 = y4 * y4;
        let y16 = y8 * y8;
        let y32 = y16 * y16;
        let y64 = y32 * y32;
        let y96 = y64 * y32;
        let y99 = (y96 * y2) * y;
        let y100 = y99 * y;
        y -= (y100 - rank) / (100.0 * y99);
    }
    y
}

/// `rank^-exponent`, written as a power of `rank^0.01` over a power of `rank`.
fn weight(rank: f64, root: f64, exponent_hundredths: u32) -> f64 {
    let whole = exponent_hundredths.div_ceil(100);
    let mut weight = 1.0;
    for _ in 0..whole * 100 - exponent_hundredths {
        weight *= root;
    }
    for _ in 0..whole {
        weight /= rank;
    }
    weight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_comes_as_often_as_the_law_says() {
        let (nr_ranks, nr_draws) = (100, 1_000_000);
        for exponent in [0, 50, 99, 100, 130] {
            let zipf = Zipf::new(nr_ranks, exponent);
            let mut rng = Rng::from_seed(1);
            let mut drawn = vec![0_u32; nr_ranks as usize];
            (0..nr_draws).for_each(|_| drawn[zipf.rank(&mut rng) as usize] += 1);
            let law = |rank: usize| (rank as f64 + 1.0).powf(-f64::from(exponent) / 100.0);
            let total: f64 = (0..drawn.len()).map(law).sum();
            for rank in [0, 1, 9, 49] {
                let expected = law(rank) / total * f64::from(nr_draws);
                let seen = f64::from(drawn[rank]);
                assert!(
                    (seen - expected).abs() < 5.0 * expected.sqrt() + 1.0,
                    "exponent {exponent}, rank {rank}: {seen} instead of {expected}"
                );
            }
        }
    }
}
