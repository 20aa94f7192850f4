//! The hand that asks the kernel for an amount of a group, and leaves the choice of pages to it.
//!
//! It reaches what several processes map, which the exact hand can't take. It is asked for no more than the ledger says
//! is idle, in steps, and the next walk says what went: where more than a tenth of that was in use, or most of what the kernel
//! freed was other memory (page cache, slab), the hand rests for the group, twice as long each time.
//!
//! **Owns** the requests, and how the hand fares with each group. **Does not own** how much (`mod`), nor the thread's
//! work (`strata_linux::actuator`).

use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use strata_linux::actuator::{ShrinkOutcome, ShrinkThread, start_shrink};
use strata_linux::addr::PAGE_BYTES;
use strata_linux::cgroup::{Amount, GroupReader, is_reclaimed_by_amount, reclaim_from};
use strata_lru::GroupId;
use strata_lru::ages::Aged;
use strata_lru::machine::CgroupVersion;

/// Parts in which what is idle goes: each is judged before the next.
const NR_STEPS: u64 = 4;
/// A step is no smaller: 2 MiB. Nor is the hand asked for less.
pub(super) const STEP_PAGES_MIN: u64 = 512;
/// A step of page cache is no larger, so that one request does not take long: 64 MiB.
pub(super) const CACHE_STEP_PAGES_MAX: u64 = 1 << 14;
/// After a walk page cache of so many groups is asked for: a request holds up the looks after it.
pub(super) const NR_CACHE_STEPS_MAX: usize = 8;
/// A walk waits for the kernel for so long. On v1 a request first has each processor hand in its lists of pages, which takes seconds
/// where processors are busy.
const WALK_WAIT: Duration = Duration::from_secs(1);
/// More than this share of what went, in use when it did, and the hand chooses badly.
pub(super) const USED_SHARE_MAX: f64 = 0.1;
/// The first rest, and the longest.
const REST: Duration = Duration::from_secs(60);
const REST_MAX: Duration = Duration::from_secs(3600);

/// Which hand takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hand {
    /// The cheaper one of those that obey, and by amount what the exact one can't take.
    #[default]
    Auto,
    /// Page by page.
    Exact,
    /// By amount, whatever it is.
    Amount,
}

/// How the hand fares with one group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fares {
    rest_until: Duration,
    rest: Duration,
    /// The kernel freed so many pages since the last walk.
    nr_freed_pages: u64,
}

impl Fares {
    /// Whether the kernel may be asked for an amount of the group at `at`.
    pub(super) fn may_take(&self, at: Duration) -> bool {
        at >= self.rest_until
    }

    /// The kernel was asked at `at`, and freed so many pages; `None`: it could not. What else it takes does not count where no other hand
    /// takes what it leaves.
    pub(super) fn answered(&mut self, at: Duration, nr_pages: Option<u64>, hand: Hand) {
        match nr_pages {
            None => self.rests(at),
            Some(_) if hand == Hand::Amount => {}
            Some(nr_pages) => self.nr_freed_pages += nr_pages,
        }
    }

    /// A walk at `at` found this gone, and so many pages fewer in memory but for what the other hand took; what was accessed
    /// within `used_within` was in use.
    pub(super) fn judge(
        &mut self,
        at: Duration,
        went: &[Aged],
        nr_fewer_pages: u64,
        used_within: Duration,
    ) {
        let nr_pages: u64 = went.iter().map(|one| one.nr_pages).sum();
        let nr_freed_pages = std::mem::take(&mut self.nr_freed_pages);
        if nr_pages + nr_freed_pages == 0 {
            return;
        }
        let used = went.iter().filter(|one| one.idle < used_within);
        let nr_used: u64 = used.map(|one| one.nr_pages).sum();
        let takes_used = nr_used as f64 > nr_pages as f64 * USED_SHARE_MAX;
        // Of a page of a file no entry stays that tells that it went.
        match takes_used || nr_fewer_pages.max(nr_pages) < nr_freed_pages / 2 {
            true => {
                tracing::debug!(
                    nr_freed_pages,
                    nr_pages,
                    nr_used,
                    nr_fewer_pages,
                    "by amount: badly chosen"
                );
                self.rests(at);
            }
            false => self.rest = Duration::ZERO,
        }
    }

    /// It rests, twice as long as the last time in a row.
    pub(super) fn rests(&mut self, at: Duration) {
        self.rest = (self.rest * 2).clamp(REST, REST_MAX);
        self.rest_until = at + self.rest;
    }
}

/// The next step for a group of which so many pages are idle, beyond the reach of the other hand; of these so many may
/// go. `None` where it is not worth it, or the kernel can't be asked.
pub(super) fn step(group: &GroupReader, nr_idle_pages: u64, nr_pages_max: u64) -> Option<u64> {
    let nr_pages = (nr_idle_pages / NR_STEPS)
        .max(STEP_PAGES_MIN)
        .min(nr_pages_max);
    let is_worth_it = nr_idle_pages >= STEP_PAGES_MIN && nr_pages >= STEP_PAGES_MIN;
    (is_worth_it && is_reclaimed_by_amount(group)).then_some(nr_pages)
}

/// Of a request of which so many pages are anonymous: the most that may go to swap, and the most that may be asked for where so many
/// pages may be written there now. No step is too small to be worth it: one that is larger than what may be written is paid back before
/// the next. On v1 all may go to swap, as the kernel can't be told which kind to take. `None`: nothing may be asked for, as swap `is_full`.
pub(super) fn bounds(
    group: &GroupReader,
    is_full: bool,
    nr_anon_pages: u64,
    writes_room: Option<u64>,
) -> Option<(u64, u64)> {
    let nr_swapped_max = match group.version() {
        CgroupVersion::V1 if is_full => return None,
        CgroupVersion::V1 => u64::MAX,
        CgroupVersion::V2 => nr_anon_pages,
    };
    let nr_pages_max = match (nr_swapped_max, writes_room) {
        (0, _) | (_, None) => u64::MAX,
        (_, Some(0)) => 0,
        (_, Some(nr_pages)) => nr_pages.max(STEP_PAGES_MIN),
    };
    Some((nr_swapped_max, nr_pages_max))
}

/// What the kernel is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// What page tables show to be idle.
    Mapped,
    /// So many pages of page cache that nobody maps.
    Cache(u64),
}

/// Requests from their choice to their end.
#[derive(Debug)]
pub(super) struct Amounts {
    thread: ShrinkThread<(GroupReader, Amount)>,
    /// Of which groups the kernel is to take, in the order in which it does.
    asked: VecDeque<(GroupId, Of)>,
}

impl Amounts {
    pub(super) fn start() -> io::Result<Amounts> {
        Ok(Amounts {
            thread: start_shrink(usize::MAX, |(group, amount): (GroupReader, Amount)| {
                reclaim_from(&group, amount)
            })?,
            asked: VecDeque::new(),
        })
    }

    /// So many pages are to go, of which the kernel weighs the kinds by `swappiness`. Nothing is to where the group waits for an earlier
    /// request: the next walk tells what is left. Returns how many are.
    pub(super) fn add(
        &mut self,
        group: GroupId,
        reader: &GroupReader,
        nr_pages: u64,
        swappiness: Option<u8>,
        of: Of,
    ) -> u64 {
        let is_same = |other: &Of| std::mem::discriminant(other) == std::mem::discriminant(&of);
        let mut asked = self.asked.iter();
        if asked.any(|(id, other)| *id == group && is_same(other)) {
            return 0;
        }
        let amount = Amount {
            bytes: nr_pages * PAGE_BYTES,
            swappiness,
        };
        match self.thread.try_submit((reader.clone(), amount)) {
            Ok(()) => self.asked.push_back((group, of)),
            Err(_) => return 0,
        }
        nr_pages
    }

    /// Whether the kernel is at it, or will be, and what is done meanwhile has to wait. A group that holds the kernel up
    /// holds up nobody else.
    pub(super) fn are_under_way(&mut self) -> bool {
        !self.asked.is_empty() && !self.thread.stands_still(WALK_WAIT)
    }

    /// The group of which the kernel has taken, and what became of that.
    pub(super) fn collect(&mut self) -> Option<(GroupId, Of, ShrinkOutcome)> {
        let freed = self.thread.poll()?;
        let (group, of) = self.asked.pop_front()?;
        if let Err(error) = &freed.result {
            tracing::debug!("{error}");
        }
        Some((group, of, freed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_lru::Kind;

    fn went(idle_s: u64, nr_pages: u64) -> Aged {
        Aged {
            group: GroupId(1),
            kind: Kind::Anon,
            idle: Duration::from_secs(idle_s),
            nr_pages,
        }
    }

    #[test]
    fn a_hand_that_takes_what_is_in_use_rests_twice_as_long_each_time_in_a_row() {
        let at = Duration::from_secs;
        let mut fares = Fares::default();
        fares.judge(at(10), &[went(0, 10), went(100, 90)], 0, at(60));
        assert!(fares.may_take(at(10)), "a tenth");
        fares.judge(at(20), &[went(0, 11), went(100, 89)], 0, at(60));
        assert!(!fares.may_take(at(79)) && fares.may_take(at(80)));
        fares.judge(at(80), &[went(59, 1)], 0, at(60));
        assert!(!fares.may_take(at(199)) && fares.may_take(at(200)));
        fares.judge(at(200), &[went(60, 1)], 0, at(60));
        fares.judge(at(210), &[went(0, 1)], 0, at(60));
        assert!(fares.may_take(at(270)), "the first in a row again");
    }

    #[test]
    fn a_hand_that_takes_page_cache_instead_of_what_it_was_asked_for_rests() {
        let at = Duration::from_secs;
        let mut fares = Fares::default();
        let freed = |fares: &mut Fares| fares.answered(at(0), Some(512), Hand::Auto);
        fares.judge(at(10), &[], 0, at(60));
        assert!(fares.may_take(at(10)), "nothing was asked");
        freed(&mut fares);
        fares.judge(at(20), &[went(100, 256)], 0, at(60));
        assert!(fares.may_take(at(20)), "a half");
        freed(&mut fares);
        fares.judge(at(25), &[], 256, at(60));
        assert!(fares.may_take(at(25)), "a half, of a file");
        freed(&mut fares);
        fares.judge(at(30), &[went(100, 255)], 255, at(60));
        assert!(!fares.may_take(at(89)) && fares.may_take(at(90)));
        freed(&mut fares);
        fares.judge(at(90), &[], 0, at(60));
        assert!(!fares.may_take(at(209)) && fares.may_take(at(210)));
    }
}
