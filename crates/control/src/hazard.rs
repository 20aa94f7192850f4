//! How soon idle memory is used again: pages a minute, by age, from what walks see.
//!
//! ```text
//!   see(..)        what lay idle since the last walk, what of that was used again, and what came back of what is away
//!   hazard(age)    the share of idle pages of that age and above that is used again within a minute
//! ```
//!
//! A page that lies idle in memory tells as much as one that is away: if a program uses it again, it would have come back.
//! So it is known what an age is worth before anything is taken. Evidence is kept for ages that double from the least one
//! on. It is a hazard rate: events over the time in which they could have happened, page-minutes. An assumption stands in
//! for evidence while there is none, and fades as there is.
//!
//! **Owns** the evidence of one kind of pages of one group. **Does not own** which age is chosen, nor how much is taken
//! (`promise`).
//!
//! **Invariants**
//! - I1: a hazard is above zero, and evidence of longer idleness without a use never raises it.

use std::time::Duration;

/// Ages of which evidence is kept: the least, and six doublings of it, an hour for the usual minute.
const NR_AGES: usize = 7;
/// Evidence counts less by a factor of e in so long: programs change.
pub(crate) const MEMORY: Duration = Duration::from_secs(600);
/// The share of idle pages that is taken to be used within a minute while nothing is known: one in twenty.
const ASSUMED_HAZARD: f64 = 0.05;
/// The assumption counts as much as so large a part of the group that was watched for a minute: one in twenty.
const ASSUMED_SHARE: f64 = 0.05;

/// Pages of one kind, in the interval between two walks.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    /// Its length.
    pub(crate) passed: Duration,
    /// Pages in memory that have not been accessed for so long at its end.
    pub(crate) idle_for: &'a dyn Fn(Duration) -> u64,
    /// Pages in memory that were accessed in the interval, and had not been for so long before.
    pub(crate) used_after: &'a dyn Fn(Duration) -> u64,
    /// Pages that are away, those that came back of them, and the age at which they were taken.
    pub(crate) away: (u64, u64, Duration),
}

/// Evidence of one age.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    page_minutes: f64,
    nr_used_pages: f64,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hazards {
    of_age: [Evidence; NR_AGES],
}

impl Hazards {
    /// Nothing is known.
    pub(crate) fn new() -> Hazards {
        Hazards {
            of_age: [Evidence::default(); NR_AGES],
        }
    }

    /// The ages of which evidence is kept, from the least on.
    pub(crate) fn ages(min_age: Duration) -> impl Iterator<Item = Duration> {
        (0..NR_AGES as u32).map(move |doublings| min_age * 2u32.pow(doublings))
    }

    /// Takes in what was seen.
    pub(crate) fn see(&mut self, min_age: Duration, seen: &Seen<'_>) {
        let minutes = seen.passed.as_secs_f64() / 60.0;
        let fading = (-seen.passed.as_secs_f64() / MEMORY.as_secs_f64()).exp();
        let (nr_away, nr_returned, taken_at) = seen.away;
        for (evidence, age) in self.of_age.iter_mut().zip(Hazards::ages(min_age)) {
            let mut nr_used = (seen.used_after)(age);
            // As old when the interval began.
            let mut nr_pages = (seen.idle_for)(age + seen.passed) + nr_used;
            if age <= taken_at {
                nr_used += nr_returned;
                nr_pages += nr_away + nr_returned;
            }
            evidence.nr_used_pages = evidence.nr_used_pages * fading + nr_used as f64;
            evidence.page_minutes = evidence.page_minutes * fading + nr_pages as f64 * minutes;
        }
    }

    /// The share of pages of at least this age that is used again within a minute, for a group of this size: by the
    /// evidence of the longest age that is no longer.
    pub(crate) fn hazard(&self, min_age: Duration, age: Duration, nr_group_pages: u64) -> f64 {
        let known = self.of_age.iter().zip(Hazards::ages(min_age));
        let known = known.filter(|(_, of)| *of <= age).last();
        let evidence = known.map_or(self.of_age[0], |(evidence, _)| *evidence);
        let assumed = (nr_group_pages as f64 * ASSUMED_SHARE).max(1.0);
        (evidence.nr_used_pages + assumed * ASSUMED_HAZARD) / (evidence.page_minutes + assumed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// A minute at the beginning of which `nr_idle` pages were idle for `age`, of which so many were used again in it.
    fn minute(hazards: &mut Hazards, nr_idle: u64, nr_used: u64, age: Duration) {
        let of = |nr_pages, age| move |at_least| if at_least <= age { nr_pages } else { 0 };
        hazards.see(
            MINUTE,
            &Seen {
                passed: MINUTE,
                idle_for: &of(nr_idle - nr_used, age + MINUTE),
                used_after: &of(nr_used, age),
                away: (0, 0, MINUTE),
            },
        );
    }

    #[test]
    fn what_lies_idle_untouched_lowers_the_hazard_and_what_is_used_again_tells_its_rate() {
        let mut hazards = Hazards::new();
        let hazard = |hazards: &Hazards, age| hazards.hazard(MINUTE, age, 100_000);
        assert!((hazard(&hazards, MINUTE) - 0.05).abs() < 1e-9);
        minute(&mut hazards, 50_000, 0, MINUTE);
        let untouched = hazard(&hazards, MINUTE);
        assert!((0.004..0.005).contains(&untouched), "{untouched}");
        for _ in 0..30 {
            minute(&mut hazards, 50_000, 500, MINUTE);
        }
        let told = hazard(&hazards, MINUTE);
        assert!((0.0099..0.0105).contains(&told), "{told}");
        let unknown = hazard(&hazards, MINUTE * 2);
        assert!(
            (unknown - 0.05).abs() < 1e-9,
            "nothing was idle for so long"
        );
    }

    #[test]
    fn what_is_away_counts_for_the_ages_at_which_it_was_taken() {
        let mut hazards = Hazards::new();
        let nobody = |_| 0;
        hazards.see(
            MINUTE,
            &Seen {
                passed: MINUTE,
                idle_for: &nobody,
                used_after: &nobody,
                away: (9_900, 100, MINUTE * 3),
            },
        );
        let hazard = |age| hazards.hazard(MINUTE, age, 1);
        assert!((hazard(MINUTE * 2) - 0.01).abs() < 1e-4);
        assert!((hazard(MINUTE * 3) - 0.01).abs() < 1e-4, "by the age below");
        assert!((hazard(MINUTE * 4) - 0.05).abs() < 1e-9);
    }
}
