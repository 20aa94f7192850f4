//! Page cache that nobody maps, of all groups: when it is looked at, and what of it goes within promises and beside them.
//!
//! ```text
//!   a census for all groups, twice within the least age  -> cached, idle, came back: of each group
//!   after a walk: room in the promise                    -> the oldest is dropped, before pages of programs go
//!   promise or not                                       -> what `oldest` has found is dropped
//! ```
//!
//! A census costs processor time, and counts in the guard's share as walks do. It comes more seldom while there is nothing
//! to drop and nothing that may come back.
//!
//! **Owns** the pace of censuses, and how much of each group is dropped within its promise. **Does not own** the census, which pages
//! those are and dropping (`engine::census`), what is known of a group (`cache`), what a promise has room for
//! (`strata_control::promise`), nor what goes promise or not (`oldest`).
//!
//! **Invariants**
//! - I1: nothing is dropped of a group without a promise for being idle, nor what was read within its age, but for what was read once,
//!   below a limit or where the host is short.
//! - I2: nothing is dropped where nothing is to be taken.
//! - I3: censuses take no more than their part of the guard's processor time, but for one.

use super::group::Group;
use crate::engine::census::cache::{self, CacheThread, DropIdle, GroupCache, Request};
use crate::engine::census::promote::Promote;
use std::time::Duration;
use strata_control::page_cache::Idle;
use strata_linux::addr::PAGE_BYTES;

/// Censuses within the least age: what is told to be idle for so long is so to a half of it.
const NR_CENSUSES_WITHIN_AGE: u32 = 2;
/// Censuses take at most this part of the guard's processor time.
const CPU_PART: f64 = 0.25;
/// While censuses find nothing, the next one comes up to so many times later.
const PAUSE_MAX: u32 = 16;
/// Less than a MiB of all groups is no reason to look again soon.
const WORTH_PAGES: u64 = 256;
/// Less than this is not worth opening a file for.
const DROP_PAGES_MIN: u64 = 16;
/// At most so much goes at once of a group: 1 GiB, so that one step does not take long.
const DROP_PAGES_MAX: u64 = 1 << 18;

/// Takes the censuses.
#[derive(Debug)]
pub(super) struct Caches {
    pub(super) thread: CacheThread,
    next: Duration,
    /// Before that censuses would take more than their part of the processors.
    earliest: Duration,
    /// The next census comes after so many times the usual pause.
    nr_pauses: u32,
    /// When the last census began.
    pub(super) began: Duration,
    /// The kernel can't be asked for an amount of page cache alone.
    pub(super) cannot_ask: bool,
    /// Dropped of groups that are gone by now, pages.
    pub(super) nr_dropped_before: u64,
}

impl Caches {
    /// Nothing is looked at yet. `can_ask`: the kernel may be asked for an amount, until it says that it can't.
    pub(super) fn start(can_ask: bool) -> std::io::Result<Caches> {
        Ok(Caches {
            thread: cache::start(cache::Subject::Groups)?,
            next: Duration::ZERO,
            earliest: Duration::ZERO,
            nr_pauses: 1,
            began: Duration::ZERO,
            cannot_ask: !can_ask,
            nr_dropped_before: 0,
        })
    }

    /// A group goes; what was dropped of it counts all the same.
    pub(super) fn forget(&mut self, group: &Group) {
        self.nr_dropped_before += group.cache.nr_dropped;
    }

    /// Drops the oldest of a group's page cache, files that are in memory only as far as swap has room; returns how many pages are on
    /// their way out, or go later as the thread is at something else.
    pub(super) fn drop_oldest(
        &mut self,
        group: &mut Group,
        idle: Idle,
        nr_pages: u64,
        swap_room_pages: &mut u64,
    ) -> u64 {
        let most = group.anon_pages_max().min(*swap_room_pages);
        let nr_pages = nr_pages.min(DROP_PAGES_MAX);
        let nr_swap_pages = group.cache.part_in_memory_only(idle, nr_pages);
        let (nr_pages, nr_swap_pages) = (nr_pages - nr_swap_pages, nr_swap_pages.min(most));
        let nr_asked = nr_pages + nr_swap_pages;
        let Some(id) = group.kernel_id.filter(|_| nr_asked >= DROP_PAGES_MIN) else {
            return 0;
        };
        let request = Request::Drop(DropIdle {
            group: id,
            idle,
            nr_pages,
            nr_swap_pages,
        });
        let is_under_way = self.thread.try_submit(request).is_ok();
        if is_under_way {
            group.cache.asked(nr_asked);
            *swap_room_pages -= nr_swap_pages;
        }
        match is_under_way || self.thread.is_busy() {
            true => nr_asked,
            false => 0,
        }
    }

    /// The next census comes as soon as it may.
    pub(super) fn hurry(&mut self, at: Duration) {
        self.next = self.next.min(self.earliest.max(at));
        self.nr_pauses = 1;
    }

    /// Whether a census is due.
    pub(super) fn is_due(&self, at: Duration) -> bool {
        at >= self.next && !self.thread.is_busy()
    }

    /// Has a census taken of these groups at `at`, that was due. `promote` says what of their page cache is to come up.
    pub(super) fn look(&mut self, at: Duration, groups: Vec<u64>, promote: Option<Promote>) {
        self.began = at;
        // The thread has nothing else to do.
        let _is_taken = self.thread.try_submit(Request::Census { groups, promote });
    }

    /// A census was taken, in so much processor time; everything may take this share of a processor. `has_away`: of what the kernel took by
    /// amount some may come back.
    pub(super) fn looked(
        &mut self,
        at: Duration,
        found: Option<&[GroupCache]>,
        cpu_ns: u64,
        min_age: Duration,
        processor_share: f64,
        has_away: bool,
    ) {
        self.nr_pauses = match found {
            Some(found) if has_away || is_worth_it(found, !self.cannot_ask) => 1,
            Some(_) => (self.nr_pauses * 2).min(PAUSE_MAX),
            None => PAUSE_MAX,
        };
        self.next = at + pause(min_age, self.nr_pauses, cpu_ns, processor_share);
        self.earliest = at + pause(Duration::ZERO, 1, cpu_ns, processor_share);
    }
}

/// Whether what a census found is a reason to look again soon: page cache that can grow old and go, by amount where the kernel can be asked, or
/// that may come back.
fn is_worth_it(found: &[GroupCache], can_ask: bool) -> bool {
    let away = |one: &GroupCache| one.ages.nr_away_pages.iter().sum::<u64>();
    let beyond_reach = |one: &GroupCache| match can_ask {
        true => one.ages.unreachable.iter().map(|of| of.nr_pages).sum(),
        false => 0,
    };
    let of = |one: &GroupCache| one.ages.nr_older_pages(0) + beyond_reach(one) + away(one);
    let new_bytes: u64 = found.iter().map(|one| one.sample.new_bytes).sum();
    found.iter().map(of).sum::<u64>() + new_bytes / PAGE_BYTES >= WORTH_PAGES
}

/// Time to the next census: often enough to tell the least age, and no oftener than the processor time allows.
fn pause(min_age: Duration, nr_pauses: u32, cpu_ns: u64, processor_share: f64) -> Duration {
    let usual = min_age / NR_CENSUSES_WITHIN_AGE * nr_pauses;
    let share = (processor_share * CPU_PART).max(1e-6);
    usual.max(Duration::from_secs_f64(cpu_ns as f64 / 1e9 / share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_control::page_cache::{CacheAge, CacheAges};

    fn census(nr_old: u64, nr_away: u64) -> GroupCache {
        let age = CacheAge {
            age_ms: 60_000,
            nr_pages: nr_old,
            ..CacheAge::default()
        };
        GroupCache {
            ages: CacheAges {
                ages: vec![age],
                nr_away_pages: [nr_away, 0, 0],
                ..CacheAges::default()
            },
            ..GroupCache::default()
        }
    }

    #[test]
    fn a_census_that_finds_nothing_comes_more_seldom_and_none_takes_more_than_its_part() {
        let minute = Duration::from_secs(60);
        assert!(is_worth_it(&[census(500, 0)], false));
        assert!(is_worth_it(&[census(0, 300)], false));
        assert!(!is_worth_it(&[census(100, 100)], true));
        let mut beyond_reach = census(500, 0);
        std::mem::swap(
            &mut beyond_reach.ages.ages,
            &mut beyond_reach.ages.unreachable,
        );
        let all = [beyond_reach];
        assert!(is_worth_it(&all, true) && !is_worth_it(&all, false));
        assert_eq!(pause(minute, 1, 0, 0.04), minute / 2);
        assert_eq!(pause(minute, 4, 0, 0.04), minute * 2);
        // 2 s in a hundredth of a processor.
        assert_eq!(pause(minute, 1, 2_000_000_000, 0.04), minute * 200 / 60);
    }
}
