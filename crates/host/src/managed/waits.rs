//! How long the tasks of a group wait for memory.
//!
//! Where the kernel tells (cgroup v2 with PSI), as it tells: the time in which some task waited. Elsewhere the group's
//! major faults, each as long as a read from swap was measured to take: an upper bound, as waits of several tasks at a
//! time count each.
//!
//! **Owns** the reckoning. **Does not own** what follows (`strata_control::promise`).

use super::rules::Rules;
use std::collections::VecDeque;
use std::time::Duration;
use strata_linux::cgroup::GroupReader;
use strata_linux::swap;

/// What a promise by time is judged over.
const MINUTE: Duration = Duration::from_secs(60);
/// No two looks are so close that a share of the time between them says nothing.
const PASSED_S_MIN: f64 = 1e-3;

/// A promise by time can't be judged.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "a promise of slowdown needs to know how long groups wait for memory: the kernel does not tell (that takes cgroup v2 \
     with pressure stall information), and what a read from swap takes could not be measured, as no page went to swap and \
     came back (is there swap? --swap zram:2G makes some)"
)]
pub struct NoWaits;

/// The waits of one group.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    /// When it was looked, and how long tasks had waited by then, microseconds.
    seen: VecDeque<(Duration, u64)>,
}

impl Waits {
    /// Tasks have waited for so long by now; `None`: nobody tells.
    pub(super) fn look(&mut self, at: Duration, waited_us: Option<u64>) {
        let Some(waited_us) = waited_us else {
            self.seen.clear();
            return;
        };
        self.seen.push_back((at, waited_us));
        // What is a minute ago stays, to tell the whole of it.
        while self
            .seen
            .get(1)
            .is_some_and(|(second, _)| at.saturating_sub(*second) >= MINUTE)
        {
            self.seen.pop_front();
        }
    }

    /// The share of the time that they waited since the last look; `None` at the first.
    pub(super) fn since_last(&self) -> Option<f64> {
        let before = self.seen.len().checked_sub(2)?;
        self.share(*self.seen.get(before)?)
    }

    /// The share of a minute that they waited within the last one, or since the first look.
    pub(super) fn of_last_minute(&self) -> Option<f64> {
        let (at, waited_us) = self.seen.front()?;
        let (now, now_us) = self.seen.back()?;
        let waited = Duration::from_micros(now_us.saturating_sub(*waited_us));
        let passed = now.saturating_sub(*at).max(MINUTE);
        Some(waited.as_secs_f64() / passed.as_secs_f64())
    }

    fn share(&self, (then, then_us): (Duration, u64)) -> Option<f64> {
        let (now, now_us) = self.seen.back()?;
        let passed = now.saturating_sub(then).as_secs_f64().max(PASSED_S_MIN);
        let waited = Duration::from_micros(now_us.saturating_sub(then_us));
        Some(waited.as_secs_f64() / passed)
    }
}

/// What a page takes to be read back from swap, where rules need it and it is not known yet. This waits for swap, which may
/// lie on a disk.
///
/// # Errors
/// [`NoWaits`]: a promise by time can't be judged, neither by the kernel's word nor by what was measured.
pub fn measure_read_latency(
    rules: &Rules,
    known: Option<Duration>,
) -> Result<Option<Duration>, NoWaits> {
    if known.is_some() || !rules.have_promise_by_time() {
        return Ok(known);
    }
    let measured = swap::measure_read().unwrap_or_else(|error| {
        tracing::debug!("what a read from swap takes is not measured: {error}");
        None
    });
    let is_told = || {
        let groups = GroupReader::all().unwrap_or_default();
        groups.iter().any(|group| group.waited_us().is_some())
    };
    match measured {
        None if !is_told() => Err(NoWaits),
        measured => Ok(measured),
    }
}

/// Waits by faults: each takes as long as a read.
pub(super) fn by_faults(nr_major_faults: u64, read: Duration) -> u64 {
    let waited_us = nr_major_faults as f64 * read.as_secs_f64() * 1e6;
    waited_us as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(seen: &[(u64, u64)]) -> Waits {
        let mut waits = Waits::default();
        for (at_s, waited_ms) in seen {
            waits.look(Duration::from_secs(*at_s), Some(waited_ms * 1000));
        }
        waits
    }

    #[test]
    fn waits_are_a_share_of_the_time_since_the_last_look_or_of_a_minute() {
        assert_eq!(looked(&[(0, 500)]).since_last(), None);
        let waits = looked(&[(0, 500), (10, 600)]);
        assert_eq!(waits.since_last(), Some(0.01));
        let of_minute = waits.of_last_minute().expect("known");
        assert!((of_minute - 0.1 / 60.0).abs() < 1e-9, "{of_minute}");
    }

    #[test]
    fn what_is_more_than_a_minute_ago_counts_no_more() {
        let waits = looked(&[(0, 0), (10, 6000), (40, 6000), (70, 6600)]);
        assert_eq!(waits.of_last_minute(), Some(0.01));
    }

    #[test]
    fn where_nobody_tells_any_more_nothing_is_known() {
        let mut waits = looked(&[(0, 0), (10, 6000)]);
        waits.look(Duration::from_secs(20), None);
        assert_eq!((waits.since_last(), waits.of_last_minute()), (None, None));
    }

    #[test]
    fn a_fault_is_as_long_as_a_read_from_swap() {
        assert_eq!(by_faults(1000, Duration::from_micros(150)), 150_000);
        assert_eq!(by_faults(1000, Duration::from_nanos(1500)), 1500);
    }
}
