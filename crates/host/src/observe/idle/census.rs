//! What is in memory by age: the answer to how much is needed and how much lies idle.
//!
//! ```text
//!        walk          walk          walk = now
//!   ......|.............|.............|
//!         | a page found accessed here: used somewhere in between
//!         |<- idle at least this long ->   (idle_for goes by the near end)
//!      |<- used this long ago, about ->    (accessed_within goes by the middle)
//! ```
//!
//! **Owns** the arithmetic of windows and bounds. **Does not own** the stamps it is counted from.
//!
//! **Invariants**
//! - I1: what is accessed within a window is never more than what is resident, and grows with the
//!   window; what is idle for a time shrinks with the time.

use std::sync::Arc;
use std::time::Duration;
use strata_linux::process::MappingClass;
use strata_lru::Kind;

/// Bounds of the idle histogram in seconds: powers of two from a second on, and the hour.
pub const IDLE_BOUNDS_S: [u64; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600];

/// Bytes by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct KindBytes {
    /// Anonymous memory: heap, stack, shared memory, written private pages of files.
    pub anon_bytes: u64,
    /// Pages of files.
    pub file_bytes: u64,
}

impl KindBytes {
    /// Bytes of both kinds.
    pub fn total_bytes(self) -> u64 {
        self.anon_bytes + self.file_bytes
    }

    /// Of one kind.
    pub fn of(self, kind: Kind) -> u64 {
        match kind {
            Kind::Anon => self.anon_bytes,
            Kind::File => self.file_bytes,
        }
    }
}

impl std::ops::AddAssign for KindBytes {
    fn add_assign(&mut self, other: KindBytes) {
        self.anon_bytes += other.anon_bytes;
        self.file_bytes += other.file_bytes;
    }
}

impl std::iter::Sum for KindBytes {
    fn sum<I: Iterator<Item = KindBytes>>(parts: I) -> KindBytes {
        parts.fold(KindBytes::default(), |mut sum, part| {
            sum += part;
            sum
        })
    }
}

/// Bytes last used at about the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cohort {
    /// Time since the walk that found it.
    pub(super) idle: Duration,
    /// Time since the middle of the interval that walk looked back on.
    pub(super) middle: Duration,
    /// False if it was only ever seen to be there, since that walk.
    pub(super) was_accessed: bool,
    pub(super) bytes: KindBytes,
}

/// Bytes in memory by the time of their last access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ages {
    pub(super) cohorts: Vec<Cohort>,
}

impl Ages {
    /// All that is in memory.
    pub fn resident(&self) -> KindBytes {
        self.cohorts.iter().map(|cohort| cohort.bytes).sum()
    }

    /// What was accessed within the last `window` before the last walk: the working set of the
    /// window. A walk counts if the middle of the interval it looks back on lies within; for a window
    /// of whole intervals that is exactly those intervals. The last walk always counts, however long
    /// its interval ([`Census::covered`]). A window longer than the watch gives what was accessed
    /// since it began.
    pub fn accessed_within(&self, window: Duration) -> KindBytes {
        let is_within = |cohort: &&Cohort| {
            cohort.was_accessed && (cohort.middle <= window || cohort.idle.is_zero())
        };
        let cohorts = self.cohorts.iter().filter(is_within);
        cohorts.map(|cohort| cohort.bytes).sum()
    }

    /// What has certainly not been accessed for `at_least` before the last walk. Of pages that were
    /// there when the watch began and were never accessed since, that is known only as far back as
    /// the watch; of pages that came later, as far as they have been there.
    pub fn idle_for(&self, at_least: Duration) -> KindBytes {
        let is_idle = |cohort: &&Cohort| cohort.idle >= at_least;
        let cohorts = self.cohorts.iter().filter(is_idle);
        cohorts.map(|cohort| cohort.bytes).sum()
    }

    /// What was last used longer ago than `age`, by the middle as in [`Ages::accessed_within`]: a
    /// walk that is a little early or late moves nothing from one whole age to the next. Pages that
    /// were never found accessed go by how long they have been seen.
    pub fn last_used_before(&self, age: Duration) -> KindBytes {
        let is_older = |cohort: &&Cohort| cohort.middle > age && !cohort.idle.is_zero();
        let cohorts = self.cohorts.iter().filter(is_older);
        cohorts.map(|cohort| cohort.bytes).sum()
    }
}

/// The ages of what mappings of one name and class hold, in all spaces together.
#[derive(Clone, Debug)]
pub struct MappingAges {
    /// Path or name as `/proc` prints it; empty for anonymous memory.
    pub name: Arc<str>,
    /// What the mappings are.
    pub class: MappingClass,
    /// Mappings taken together.
    pub nr_mappings: u64,
    /// Pages of these mappings, by age.
    pub ages: Ages,
}

/// Everything watched, at the last walk. A page that several spaces map counts in each of them.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// When the last walk began, on the clock the walks were started with.
    pub at: Duration,
    /// Time between the first walk and the last: nothing is known of accesses before.
    pub watched: Duration,
    /// Time between the last walk and the one before.
    pub last_interval: Duration,
    /// All mappings together.
    pub total: Ages,
    /// By name and class, largest first; those without anything in memory are left out.
    pub mappings: Vec<MappingAges>,
}

impl Census {
    /// The time that the working set of a window really stands for, but for half an interval: less
    /// than the window where the watch was shorter, more where the last walk came so late that
    /// nothing is known of the window alone.
    pub fn covered(&self, window: Duration) -> Duration {
        if self.last_interval / 2 > window {
            self.last_interval
        } else {
            window.min(self.watched)
        }
    }

    /// The bounds of [`IDLE_BOUNDS_S`] that the watch was long enough to tell of.
    pub fn idle_bounds_s(&self) -> impl Iterator<Item = u64> + use<> {
        let watched = self.watched;
        IDLE_BOUNDS_S
            .into_iter()
            .filter(move |bound_s| Duration::from_secs(*bound_s) <= watched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_that_are_a_little_early_or_late_leave_no_whole_age_empty() {
        let cohort = |idle_ms: u64| Cohort {
            idle: Duration::from_millis(idle_ms),
            middle: Duration::from_millis(idle_ms + 500),
            was_accessed: true,
            bytes: KindBytes {
                anon_bytes: 1,
                file_bytes: 0,
            },
        };
        let ages = Ages {
            cohorts: [0, 998, 2004, 2997].map(cohort).to_vec(),
        };
        let older = |s| ages.last_used_before(Duration::from_secs(s)).anon_bytes;
        assert_eq!([0, 1, 2, 3, 4].map(older), [3, 3, 2, 1, 0]);
        let within = |s| ages.accessed_within(Duration::from_secs(s)).anon_bytes;
        assert_eq!([1, 2, 3, 4].map(within), [1, 2, 3, 4]);
    }
}
