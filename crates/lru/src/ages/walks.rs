//! When walks were: the clock that page stamps count in.
//!
//! A page remembers the number of a walk instead of a time. The list of walks would grow for ever; old walks are
//! therefore merged when there are too many, so that an age stays exact to a 64th of itself, and whoever holds numbers
//! is told the new ones. Numbers therefore never wrap: the largest is [`EPOCHS_MAX`].
//!
//! **Owns** the list and its thinning. **Does not own** the stamps.
//!
//! **Invariants**
//! - I1: epochs are sorted by time and join: each begins where the one before ended.
//! - I2: the first [`RECENT_WALKS`] from the end are never merged.
//! - I3: a merged epoch ends when its last walk began: ages only ever come out too short.

use std::time::Duration;

/// Walks at which the list is thinned.
const EPOCHS_MAX: usize = 4096;
/// Walks, counted from the last, that stay apart.
const RECENT_WALKS: usize = 256;
/// The span of a merged epoch is at most its age divided by this.
const AGE_PRECISION: u32 = 64;
/// What is older than this is merged into one epoch. Merged epochs up to this age are some 2,000, however often a walk
/// comes: each pair of neighbours spans more than a 64th of its age.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// A walk, or neighbouring walks merged: what they found accessed was accessed in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch {
    /// When the walk before the epoch began.
    pub(super) since: Duration,
    /// When the walk of the epoch (the last one of it) began.
    pub(super) at: Duration,
}

/// The walks so far.
#[derive(Debug, Default)]
pub(super) struct Walks {
    list: Vec<Epoch>,
    /// When the first walk began.
    first_at: Duration,
}

impl Walks {
    /// Notes that a walk begins. Where that made room by merging, returns the new number of each old
    /// one.
    pub(super) fn start(&mut self, at: Duration) -> Option<Vec<u16>> {
        let renumbered = (self.list.len() >= EPOCHS_MAX).then(|| self.thin());
        let since = match self.list.last() {
            Some(last) => last.at,
            None => {
                self.first_at = at;
                at
            }
        };
        self.list.push(Epoch {
            since,
            // A clock that goes back would make ages negative.
            at: at.max(since),
        });
        renumbered
    }

    /// The number of the walk that began last.
    pub(super) fn current(&self) -> u16 {
        // The list is shorter than EPOCHS_MAX + 1.
        self.list.len().saturating_sub(1) as u16
    }

    /// Whether the walk that began last is the first of all.
    pub(super) fn is_first(&self) -> bool {
        self.list.len() <= 1
    }

    /// The epoch of a number.
    pub(super) fn get(&self, number: u16) -> Option<Epoch> {
        self.list.get(usize::from(number)).copied()
    }

    /// How long ago the walk of a number began; zero for a number that was not given.
    pub(super) fn age(&self, number: u16) -> Duration {
        let epoch = self.get(number);
        epoch.map_or(Duration::ZERO, |epoch| self.now().saturating_sub(epoch.at))
    }

    /// Number of epochs.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// When the last walk began.
    pub(super) fn now(&self) -> Duration {
        self.list.last().map_or(Duration::ZERO, |last| last.at)
    }

    /// Time between the first walk and the last.
    pub(super) fn watched(&self) -> Duration {
        self.now().saturating_sub(self.first_at)
    }

    /// Time between the last walk and the one before.
    pub(super) fn last_interval(&self) -> Duration {
        self.list
            .last()
            .map_or(Duration::ZERO, |last| last.at.saturating_sub(last.since))
    }

    fn thin(&mut self) -> Vec<u16> {
        let now = self.now();
        let mut kept: Vec<Epoch> = Vec::with_capacity(EPOCHS_MAX);
        let mut from_the_end: Vec<usize> = Vec::with_capacity(self.list.len());
        for (rank, epoch) in self.list.iter().rev().enumerate() {
            match kept.last_mut() {
                Some(younger) if rank > RECENT_WALKS && is_mergeable(younger, epoch, now) => {
                    younger.since = epoch.since;
                }
                _ => kept.push(*epoch),
            }
            from_the_end.push(kept.len());
        }
        let nr_kept = kept.len();
        kept.reverse();
        self.list = kept;
        let numbers = from_the_end.into_iter().rev();
        numbers.map(|nth| (nr_kept - nth) as u16).collect()
    }
}

fn is_mergeable(younger: &Epoch, older: &Epoch, now: Duration) -> bool {
    let age = now.saturating_sub(younger.at);
    let span = younger.at.saturating_sub(older.since);
    age >= AGE_MAX || span * AGE_PRECISION <= age
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Walks `nr_walks` times and follows the number of every walk through all thinning.
    fn walk(intervals_ms: &[u64], nr_walks: usize) -> (Walks, Vec<(Duration, u16)>) {
        let mut epochs = Walks::default();
        let mut at = Duration::from_secs(3);
        let mut numbers: Vec<(Duration, u16)> = Vec::new();
        for walk in 0..nr_walks {
            if let Some(new) = epochs.start(at) {
                for (_, number) in &mut numbers {
                    *number = new[usize::from(*number)];
                }
            }
            numbers.push((at, epochs.current()));
            at += Duration::from_millis(intervals_ms[walk % intervals_ms.len()]);
        }
        (epochs, numbers)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn ages_stay_true_to_a_64th_however_many_walks_there_were(
            intervals_ms in prop::collection::vec(1u64..5000, 1..6),
            nr_walks in 1usize..20_000,
        ) {
            let (epochs, numbers) = walk(&intervals_ms, nr_walks);
            prop_assert!(epochs.len() <= EPOCHS_MAX);
            for pair in epochs.list.windows(2) {
                prop_assert_eq!(pair[0].at, pair[1].since);
            }
            for (rank, (at, number)) in numbers.iter().rev().enumerate() {
                let epoch = epochs.get(*number).unwrap();
                let (age, told) = (epochs.now() - *at, epochs.now() - epoch.at);
                prop_assert!(told <= age);
                if rank < RECENT_WALKS {
                    prop_assert_eq!(told, age);
                } else if told < AGE_MAX {
                    prop_assert!(age - told <= told / (AGE_PRECISION - 1), "{:?} {:?}", age, told);
                }
            }
        }
    }

    #[test]
    fn a_watch_of_days_holds_a_bounded_list_and_knows_how_long_it_was() {
        let (epochs, _) = walk(&[10], 300_000);
        assert!(epochs.len() <= EPOCHS_MAX);
        assert_eq!(epochs.watched(), Duration::from_millis(10) * 299_999);
    }

    #[test]
    fn a_clock_that_goes_back_makes_no_negative_age() {
        let mut epochs = Walks::default();
        epochs.start(Duration::from_secs(9));
        epochs.start(Duration::from_secs(4));
        assert_eq!(epochs.now(), Duration::from_secs(9));
        assert_eq!(epochs.watched(), Duration::ZERO);
    }
}
