//! Page cache that nobody maps: how much each group has, how old it is, and what of it goes within the promise.
//!
//! ```text
//!   a census for all groups, twice within the least age  -> cached, idle, came back: of each group
//!   after a walk: room in the promise                    -> the oldest is dropped, before pages of programs go
//! ```
//!
//! A census costs processor time, and counts in the guard's share as walks do. It comes more seldom while there is nothing
//! to drop and nothing that may come back.
//!
//! **Owns** when a census comes, what is known of each group, and how much of it is dropped. **Does not own** the census,
//! which pages those are and dropping (`strata_linux::actuator`), nor what a promise has room for (`strata_control::promise`).
//!
//! **Invariants**
//! - I1: nothing is dropped of a group without a promise, nor what was read within its age.
//! - I2: what was asked for counts as gone until it is known what went: no room is given twice.

use super::Managed;
use super::group::Group;
use std::collections::BTreeMap;
use std::time::Duration;
use strata_control::page_cache::CacheAges;
use strata_control::shortage::{self, CacheOf};
use strata_linux::actuator::{GroupCache, GroupsCacheDone, GroupsCacheRequest, GroupsCacheThread};
use strata_linux::addr::PAGE_BYTES;
use strata_lru::{GroupId, Kind};

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

/// What is known of one group's page cache. Sizes in pages.
#[derive(Debug, Default)]
pub(super) struct OfGroup {
    /// As of the last census; `None`: none has looked yet.
    ages: Option<CacheAges>,
    /// Came back since the last look at the promise.
    nr_returned: u64,
    /// Asked for, and not known yet to have gone.
    nr_going: u64,
    /// Went since the last census, and since the last look at the promise.
    nr_gone: u64,
    nr_gone_since_look: u64,
    /// Was asked for since the last census and stayed.
    nr_stuck: u64,
    nr_dropped: u64,
}

impl OfGroup {
    /// In memory, charged to the group and mapped by nobody.
    pub(super) fn cached(&self) -> Option<u64> {
        let ages = self.ages.as_ref()?;
        Some(ages.nr_cached_pages.saturating_sub(self.nr_gone))
    }

    /// Part of that which can be dropped and was not read for so long.
    pub(super) fn older_than(&self, age: Duration) -> Option<u64> {
        let older = self.ages.as_ref()?.nr_older_pages(age.as_millis() as u64);
        Some(older.saturating_sub(self.nr_gone + self.nr_stuck))
    }

    /// Dropped, and not come back.
    pub(super) fn away(&self) -> u64 {
        let known = self.ages.as_ref().map_or(0, |ages| ages.nr_away_pages);
        known + self.nr_gone
    }

    /// Memory that it takes to know all this.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.ages.as_ref().map_or(0, |ages| ages.kept_bytes)
    }

    /// Dropped in all.
    pub(super) fn dropped(&self) -> u64 {
        self.nr_dropped
    }

    /// Of the promise's room this is used up since the last look.
    pub(super) fn spent(&self) -> u64 {
        self.nr_going + self.nr_gone_since_look
    }

    /// The promise is looked at: what came back since it was last.
    pub(super) fn look(&mut self) -> u64 {
        self.nr_gone_since_look = 0;
        std::mem::take(&mut self.nr_returned)
    }

    /// So much was asked for.
    pub(super) fn asked(&mut self, nr_pages: u64) {
        self.nr_going += nr_pages;
    }

    /// Of what was asked for this went.
    pub(super) fn went(&mut self, nr_asked: u64, nr_gone: u64) {
        self.nr_going = self.nr_going.saturating_sub(nr_asked);
        self.nr_gone += nr_gone;
        self.nr_stuck += nr_asked.saturating_sub(nr_gone);
        self.nr_gone_since_look += nr_gone;
        self.nr_dropped += nr_gone;
    }

    fn found(&mut self, found: GroupCache) {
        self.nr_returned += found.nr_returned_pages;
        (self.nr_gone, self.nr_stuck) = (0, 0);
        self.ages = Some(found.ages);
    }
}

impl Group {
    /// What it has to give where memory is short; `None`: no census has told yet.
    fn cache_to_give(&self) -> Option<CacheOf<'_>> {
        let cache = &self.cache;
        Some(CacheOf {
            ages: cache.ages.as_ref()?,
            min_age_ms: self.min_age().as_millis() as u64,
            nr_spent_pages: cache.nr_gone + cache.nr_stuck + cache.nr_going,
            nr_pages_max: self.cache_above_low_pages(),
        })
    }
}

/// Takes the censuses.
#[derive(Debug)]
pub(super) struct Caches {
    thread: GroupsCacheThread,
    next: Duration,
    /// The next census comes after so many times the usual pause.
    nr_pauses: u32,
    /// Dropped of groups that are gone by now, pages.
    nr_dropped_before: u64,
}

impl Caches {
    pub(super) fn start() -> std::io::Result<Caches> {
        Ok(Caches {
            thread: GroupsCacheThread::start()?,
            next: Duration::ZERO,
            nr_pauses: 1,
            nr_dropped_before: 0,
        })
    }

    /// A group goes; what was dropped of it counts all the same.
    pub(super) fn forget(&mut self, group: &Group) {
        self.nr_dropped_before += group.cache.dropped();
    }

    /// Dropped of groups that are gone by now, bytes.
    pub(super) fn dropped_before_bytes(&self) -> u64 {
        self.nr_dropped_before * PAGE_BYTES
    }

    /// Drops the oldest of a group's page cache; returns whether that is under way.
    fn drop_oldest(&mut self, group: &mut Group, older_than: Duration, nr_pages: u64) -> bool {
        let nr_pages = nr_pages.min(DROP_PAGES_MAX);
        let Some(id) = group.kernel_id().filter(|_| nr_pages >= DROP_PAGES_MIN) else {
            return false;
        };
        let is_under_way = self.thread.try_submit(GroupsCacheRequest::Drop {
            group: id,
            older_than,
            nr_pages,
        });
        if is_under_way {
            group.cache.asked(nr_pages);
        }
        is_under_way
    }
}

/// Whether what a census found is a reason to look again soon: page cache that can grow old, or that may come back.
fn is_worth_it(found: &[GroupCache]) -> bool {
    let of = |one: &GroupCache| one.ages.nr_older_pages(0) + one.ages.nr_away_pages;
    let new_bytes: u64 = found.iter().map(|one| one.new_bytes).sum();
    found.iter().map(of).sum::<u64>() + new_bytes / PAGE_BYTES >= WORTH_PAGES
}

/// Time to the next census: often enough to tell the least age, and no oftener than the processor time allows.
fn pause(min_age: Duration, nr_pauses: u32, cpu_ns: u64, processor_share: f64) -> Duration {
    let usual = min_age / NR_CENSUSES_WITHIN_AGE * nr_pauses;
    let share = (processor_share * CPU_PART).max(1e-6);
    usual.max(Duration::from_secs_f64(cpu_ns as f64 / 1e9 / share))
}

impl Managed {
    /// To be called about once a second: what censuses found and what went; the next census where one is due.
    pub(super) fn look_at_cache(&mut self, at: Duration) {
        let Some(mut caches) = self.caches.take() else {
            return;
        };
        while let Some(done) = caches.thread.poll() {
            self.cache_done(&mut caches, at, done);
        }
        if at >= caches.next && !caches.thread.is_busy() {
            let groups = self.groups.values().filter_map(Group::kernel_id);
            let groups: Vec<u64> = groups.collect();
            if !groups.is_empty() {
                caches
                    .thread
                    .try_submit(GroupsCacheRequest::Census { groups });
            }
        }
        self.caches = Some(caches);
    }

    fn cache_done(&mut self, caches: &mut Caches, at: Duration, done: GroupsCacheDone) {
        match done {
            GroupsCacheDone::Census(found, cpu_ns) => {
                caches.nr_pauses = match &found {
                    Ok(found) if is_worth_it(found) => 1,
                    Ok(_) => (caches.nr_pauses * 2).min(PAUSE_MAX),
                    Err(_) => PAUSE_MAX,
                };
                let share = self.processor_share();
                caches.next = at + pause(self.rules.min_age(), caches.nr_pauses, cpu_ns, share);
                match found {
                    Ok(found) => self.found_in_cache(found),
                    Err(error) => tracing::debug!("no census of page cache: {error}"),
                }
            }
            GroupsCacheDone::Dropped {
                group,
                nr_asked_pages,
                dropped,
            } => {
                let nr_gone = dropped.dropped_bytes / PAGE_BYTES;
                let mut groups = self.groups.values_mut();
                match groups.find(|one| one.kernel_id() == Some(group)) {
                    Some(one) => one.dropped(nr_asked_pages, nr_gone),
                    None => caches.nr_dropped_before += nr_gone,
                }
                tracing::debug!(group, nr_asked_pages, ?dropped, "page cache dropped");
            }
        }
    }

    fn found_in_cache(&mut self, found: Vec<GroupCache>) {
        let mut found: BTreeMap<u64, GroupCache> =
            found.into_iter().map(|one| (one.group, one)).collect();
        for group in self.groups.values_mut() {
            if let Some(one) = group.kernel_id().and_then(|id| found.remove(&id)) {
                group.cache.found(one);
            }
        }
    }

    /// What is idle of page cache goes as far as promises have room: before pages of programs, as it needs no swap.
    pub(super) fn drop_cache(&mut self) {
        let Some(caches) = self.caches.as_mut().filter(|_| self.config.is_acting) else {
            return;
        };
        for group in self.groups.values_mut().filter(|group| group.is_promised()) {
            let age = group.keeper.age(Kind::File);
            let idle = group.cache.older_than(age).unwrap_or(0);
            let room = group.keeper.room(Kind::File, group.went_pages());
            let nr_pages = idle.min(room).min(group.cache_above_low_pages());
            caches.drop_oldest(group, age, nr_pages);
        }
    }

    /// Whether page cache of one of these groups is on its way out.
    pub(super) fn is_cache_going(&self, members: &[GroupId]) -> bool {
        let mut groups = members.iter().filter_map(|id| self.groups.get(id));
        groups.any(|group| group.cache.nr_going > 0)
    }

    /// Where memory is short below a limit: the oldest page cache of these groups goes, promise or not. Returns how much of it.
    pub(super) fn drop_cache_of(&mut self, members: &[GroupId], nr_pages: u64) -> u64 {
        let Some(caches) = &mut self.caches else {
            return 0;
        };
        let giving = members
            .iter()
            .filter_map(|id| Some((*id, self.groups.get(id)?)));
        let (ids, of): (Vec<GroupId>, Vec<CacheOf<'_>>) = giving
            .filter_map(|(id, group)| Some((id, group.cache_to_give()?)))
            .unzip();
        let shares = shortage::share(&of, nr_pages);
        let mut nr_going = 0;
        for (id, nr_pages) in ids.into_iter().zip(shares) {
            let Some(group) = self.groups.get_mut(&id) else {
                continue;
            };
            let min_age = group.min_age();
            if caches.drop_oldest(group, min_age, nr_pages) {
                nr_going += nr_pages;
            }
        }
        nr_going
    }

    /// Ends the thread; what went is counted.
    pub(super) fn stop_caches(&mut self) {
        if let Some(mut caches) = self.caches.take() {
            for done in caches.thread.stop() {
                self.cache_done(&mut caches, Duration::ZERO, done);
            }
            self.caches = Some(caches);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_control::page_cache::CacheAge;

    fn census(nr_old: u64, nr_away: u64, nr_returned: u64) -> GroupCache {
        GroupCache {
            group: 1,
            ages: CacheAges {
                nr_cached_pages: 1000,
                ages: vec![
                    CacheAge {
                        age_ms: 60_000,
                        nr_pages: nr_old,
                    },
                    CacheAge {
                        age_ms: 10_000,
                        nr_pages: 100,
                    },
                ],
                nr_away_pages: nr_away,
                kept_bytes: 4096,
            },
            new_bytes: 0,
            nr_returned_pages: nr_returned,
        }
    }

    #[test]
    fn what_went_is_away_at_once_and_the_next_census_tells_what_came_back() {
        let mut cache = OfGroup::default();
        assert_eq!((cache.cached(), cache.away()), (None, 0));
        cache.found(census(500, 0, 0));
        let minute = Duration::from_secs(60);
        assert_eq!(
            (cache.cached(), cache.older_than(minute)),
            (Some(1000), Some(500))
        );
        cache.asked(300);
        assert_eq!(cache.spent(), 300, "no room is given twice");
        cache.went(300, 200);
        assert_eq!(
            (cache.spent(), cache.away(), cache.dropped()),
            (200, 200, 200)
        );
        assert_eq!(
            (cache.cached(), cache.older_than(minute)),
            (Some(800), Some(200))
        );
        assert_eq!(cache.look(), 0);
        assert_eq!(cache.spent(), 0);
        cache.found(census(300, 150, 50));
        assert_eq!((cache.away(), cache.look(), cache.look()), (150, 50, 0));
    }

    #[test]
    fn a_census_that_finds_nothing_comes_more_seldom_and_none_takes_more_than_its_part() {
        let minute = Duration::from_secs(60);
        assert!(is_worth_it(&[census(500, 0, 0)]));
        assert!(is_worth_it(&[census(0, 200, 0)]));
        assert!(!is_worth_it(&[census(0, 0, 0)]));
        assert_eq!(pause(minute, 1, 0, 0.04), minute / 2);
        assert_eq!(pause(minute, 4, 0, 0.04), minute * 2);
        // 2 s in a hundredth of a processor.
        assert_eq!(pause(minute, 1, 2_000_000_000, 0.04), minute * 200 / 60);
    }
}
