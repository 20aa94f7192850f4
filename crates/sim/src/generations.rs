//! Generations over time, and how long pages spent in them.
//!
//! **Owns** the samples and the sums over them. **Does not own** when samples are taken (the mechanism).

use serde::{Serialize, Serializer};

use crate::ratio::Ratio;

/// How much of all the time that pages were in memory they spent in one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AgeShare {
    /// Generations younger than this one: 0 is the youngest.
    pub age: u32,
    /// Mean size of the generation over the run, rounded down.
    pub mean_pages: u64,
    /// Share of the generation in the time of all pages, a page counted for each request it was there.
    pub share: Ratio,
}

/// The generations at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Requests replayed so far.
    pub at_access: u64,
    /// Misses among the requests replayed so far.
    #[serde(rename = "misses")]
    pub nr_misses: u64,
    /// Oldest first; inactive and active for `two-list`. All groups and nodes together.
    #[serde(rename = "sizes")]
    pub generations: Vec<GenerationPages>,
}

/// The size of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GenerationPages {
    /// Number of the generation.
    pub seq: u64,
    /// Pages by kind (anon, file).
    #[serde(flatten, serialize_with = "pages_by_kind")]
    pub nr_pages: [u64; 2],
}

fn pages_by_kind<S: Serializer>([anon, file]: &[u64; 2], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map([("anon_pages", anon), ("file_pages", file)])
}

/// Sums sizes times the requests since the sample before, by distance from the youngest.
pub(crate) fn time_by_age(samples: &[Sample]) -> Vec<AgeShare> {
    let mut times: Vec<u64> = Vec::new();
    let mut before = 0;
    for sample in samples {
        let nr_requests = sample.at_access.saturating_sub(before);
        before = sample.at_access;
        for (age, generation) in sample.generations.iter().rev().enumerate() {
            if times.len() <= age {
                times.push(0);
            }
            let nr_pages: u64 = generation.nr_pages.iter().sum();
            times[age] = times[age].saturating_add(nr_pages.saturating_mul(nr_requests));
        }
    }
    let total = times
        .iter()
        .fold(0, |sum: u64, time| sum.saturating_add(*time));
    let share = |(time, age): (&u64, u32)| AgeShare {
        age,
        mean_pages: time / before.max(1),
        share: Ratio::of(*time, total),
    };
    times.iter().zip(0..).map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_access: u64, sizes: &[u64]) -> Sample {
        let generation = |(nr_file, seq): (&u64, u64)| GenerationPages {
            seq,
            nr_pages: [0, *nr_file],
        };
        Sample {
            at_access,
            nr_misses: 0,
            generations: sizes.iter().zip(7..).map(generation).collect(),
        }
    }

    #[test]
    fn time_is_counted_from_the_youngest_on() {
        // Half of the run with two generations, half with three; 100 pages throughout.
        let times = time_by_age(&[sample(50, &[80, 20]), sample(100, &[50, 30, 20])]);
        let lines: Vec<_> = times
            .iter()
            .map(|t| (t.age, t.mean_pages, t.share.millionths()))
            .collect();
        assert_eq!(
            lines,
            [(0, 20, 200_000), (1, 55, 550_000), (2, 25, 250_000)]
        );
    }

    #[test]
    fn no_samples_no_time() {
        assert_eq!(time_by_age(&[]), []);
        assert_eq!(time_by_age(&[sample(0, &[0, 0])])[0].share.millionths(), 0);
    }
}
