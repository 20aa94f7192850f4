//! How soon idle memory is used again: pages a minute, by age, from what walks see.
//!
//! ```text
//!   see(..)        what lay idle since the last walk, what of that was used again, and what came back of what is away
//!   of_idle(age)   the share of pages in memory that are idle for so long which is used again within a minute
//!   of_away        the share of what is away that comes back within a minute
//! ```
//!
//! A page that lies idle in memory tells as much as one that is away: if a program uses it again, it would have come back.
//! So it is known what an age is worth before anything is taken. Evidence is kept for ages that double from the least one
//! on. It is a hazard rate: events over the time in which they could have happened, page-minutes. An assumption stands in
//! for evidence while there is none, and fades as there is. What is away was the oldest, and is judged by itself: of that less
//! comes back than of what is still in memory.
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
    /// Pages that are away at its end, and those that came back in it.
    pub(crate) away: (u64, u64),
}

/// What was seen, less the older it is.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    page_minutes: f64,
    nr_used_pages: f64,
}

impl Evidence {
    /// Of so many pages, for so long, so many more were used in the end.
    fn add(&mut self, fading: f64, minutes: f64, nr_pages: u64, nr_used: u64) {
        let nr_pages = (nr_pages + nr_used) as f64;
        self.page_minutes = self.page_minutes * fading + nr_pages * minutes;
        self.nr_used_pages = self.nr_used_pages * fading + nr_used as f64;
    }

    /// The rate, with an assumed one that counts as much as so many page-minutes.
    fn hazard(&self, assumed: f64, page_minutes: f64) -> f64 {
        (self.nr_used_pages + page_minutes * assumed) / (self.page_minutes + page_minutes)
    }
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hazards {
    of_age: [Evidence; NR_AGES],
    of_away: Evidence,
}

impl Hazards {
    /// Nothing is known.
    pub(crate) fn new() -> Hazards {
        Hazards {
            of_age: [Evidence::default(); NR_AGES],
            of_away: Evidence::default(),
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
        for (evidence, age) in self.of_age.iter_mut().zip(Hazards::ages(min_age)) {
            // As old when the interval began.
            let nr_idle = (seen.idle_for)(age + seen.passed);
            evidence.add(fading, minutes, nr_idle, (seen.used_after)(age));
        }
        let (nr_away, nr_returned) = seen.away;
        self.of_away.add(fading, minutes, nr_away, nr_returned);
    }

    /// The share of pages in memory of at least this age that is used again within a minute, for a group of this size: by
    /// the evidence of the longest age that is no longer.
    pub(crate) fn of_idle(&self, min_age: Duration, age: Duration, nr_group_pages: u64) -> f64 {
        let known = self.of_age.iter().zip(Hazards::ages(min_age));
        let known = known.filter(|(_, of)| *of <= age).last();
        let evidence = known.map_or(self.of_age[0], |(evidence, _)| *evidence);
        let assumed = nr_group_pages as f64 * ASSUMED_SHARE;
        evidence.hazard(ASSUMED_HAZARD, assumed.max(1.0))
    }

    /// The share of so many pages that are away which comes back within a minute: it is taken to be that of idle pages, with
    /// as much weight as a minute of theirs.
    pub(crate) fn of_away(&self, of_idle: f64, nr_away_pages: u64) -> f64 {
        let page_minutes = nr_away_pages as f64;
        self.of_away.hazard(of_idle, page_minutes.max(1.0))
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
                away: (0, 0),
            },
        );
    }

    #[test]
    fn what_lies_idle_untouched_lowers_the_hazard_and_what_is_used_again_tells_its_rate() {
        let mut hazards = Hazards::new();
        let hazard = |hazards: &Hazards, age| hazards.of_idle(MINUTE, age, 100_000);
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
    fn what_is_away_is_judged_by_itself_as_soon_as_something_is_known_of_it() {
        let mut hazards = Hazards::new();
        let hazard = |hazards: &Hazards| hazards.of_away(0.02, 10_000);
        assert!((hazard(&hazards) - 0.02).abs() < 1e-9, "as of idle pages");
        for _ in 0..10 {
            hazards.see(
                MINUTE,
                &Seen {
                    passed: MINUTE,
                    idle_for: &|_| 0,
                    used_after: &|_| 0,
                    away: (9_990, 10),
                },
            );
        }
        let told = hazard(&hazards);
        assert!((0.002..0.005).contains(&told), "{told}");
        let of_idle = hazards.of_idle(MINUTE, MINUTE, 100_000);
        assert!((of_idle - 0.05).abs() < 1e-9, "nothing was seen of those");
    }
}
