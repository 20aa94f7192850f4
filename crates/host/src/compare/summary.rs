//! Figures of several rounds in a few numbers: median, worst, spread, and the ratio of two arms.
//!
//! A ratio is taken within each round, of two runs that follow each other closely, so that a machine that gets slower
//! meanwhile slows both.
//!
//! **Owns** the arithmetic; pure. **Does not own** which runs count.

use serde::{Deserialize, Serialize};

use super::figures::{Better, number};

/// One figure over the rounds of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Runs in which it is known.
    pub nr_runs: usize,
    /// The middle one, or the mean of the two in the middle.
    #[serde(serialize_with = "number")]
    pub median: f64,
    /// The one farthest on the bad side.
    #[serde(serialize_with = "number")]
    pub worst: f64,
    /// The lowest.
    #[serde(serialize_with = "number")]
    pub min: f64,
    /// The highest.
    #[serde(serialize_with = "number")]
    pub max: f64,
    /// Highest less lowest, as a share of the median; `None` where the median is 0.
    #[serde(serialize_with = "number")]
    pub spread_percent: Option<f64>,
}

/// One arm's figure over another's, round by round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Rounds in which both are known and the one below is not 0.
    pub nr_rounds: usize,
    /// The median of the rounds' ratios.
    #[serde(serialize_with = "number")]
    pub median: f64,
    /// The ratio farthest on the bad side.
    #[serde(serialize_with = "number")]
    pub worst: f64,
    /// The round it is of.
    pub worst_round: u32,
}

/// Sums up values; `None` if there are none.
pub fn spread(values: &[f64], better: Better) -> Option<Spread> {
    let sorted = sorted(values);
    let (&min, &max) = (sorted.first()?, sorted.last()?);
    let median = median(&sorted)?;
    Some(Spread {
        nr_runs: sorted.len(),
        median,
        worst: match better {
            Better::Lower => max,
            Better::Higher => min,
        },
        min,
        max,
        spread_percent: (median != 0.0).then(|| (max - min) / median.abs() * 100.0),
    })
}

/// Divides within rounds: `rounds` has each one's number, the figure above and the one below. `None` where no round can
/// be divided.
pub fn ratio(rounds: &[(u32, f64, f64)], better: Better) -> Option<Ratio> {
    let divisible = rounds.iter().filter(|(_, _, below)| *below != 0.0);
    let ratios: Vec<(u32, f64)> = divisible
        .map(|(round, above, below)| (*round, above / below))
        .collect();
    let is_worse = |a: f64, b: f64| match better {
        Better::Lower => a > b,
        Better::Higher => a < b,
    };
    let worst = ratios
        .iter()
        .copied()
        .reduce(|worst, next| match is_worse(next.1, worst.1) {
            true => next,
            false => worst,
        })?;
    let values: Vec<f64> = ratios.iter().map(|(_, ratio)| *ratio).collect();
    Some(Ratio {
        nr_rounds: values.len(),
        median: median(&sorted(&values))?,
        worst: worst.1,
        worst_round: worst.0,
    })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    match sorted.len() % 2 {
        1 => Some(upper),
        _ => Some(f64::midpoint(sorted[sorted.len() / 2 - 1], upper)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_two_in_the_middle() {
        let median = |values: &[f64]| spread(values, Better::Lower).map(|of| of.median);
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[10.0, 1.0, 4.0, 2.0]), Some(3.0));
    }

    #[test]
    fn the_worst_is_on_the_side_that_is_bad() {
        let values = [2.0, 8.0, 4.0];
        let lower = spread(&values, Better::Lower).expect("values");
        let higher = spread(&values, Better::Higher).expect("values");
        assert_eq!((lower.worst, higher.worst), (8.0, 2.0));
        assert_eq!((lower.min, lower.max, lower.nr_runs), (2.0, 8.0, 3));
        assert_eq!(lower.spread_percent, Some(150.0));
        let nothing = spread(&[0.0, 0.0], Better::Lower).expect("values");
        assert_eq!(nothing.spread_percent, None);
    }

    #[test]
    fn a_ratio_is_the_median_of_the_rounds_ratios_not_the_ratio_of_medians() {
        // The machine is half as fast from round to round, and both arms suffer alike but in one round.
        let rounds = [(0, 150.0, 100.0), (1, 75.0, 50.0), (2, 25.0, 25.0)];
        let throughput = ratio(&rounds, Better::Higher).expect("rounds");
        assert_eq!((throughput.median, throughput.nr_rounds), (1.5, 3));
        assert_eq!((throughput.worst, throughput.worst_round), (1.0, 2));
        let time = ratio(&rounds, Better::Lower).expect("rounds");
        assert_eq!((time.worst, time.worst_round), (1.5, 0));
    }

    #[test]
    fn nothing_is_divided_by_nothing() {
        assert_eq!(ratio(&[(0, 3.0, 0.0), (1, 0.0, 0.0)], Better::Lower), None);
        let one = ratio(&[(0, 3.0, 0.0), (1, 4.0, 2.0)], Better::Lower).expect("a round");
        assert_eq!((one.nr_rounds, one.median, one.worst_round), (1, 2.0, 1));
        assert_eq!(ratio(&[], Better::Lower), None);
    }
}
