//! Page cache that nobody maps: what of it goes within promises and beside them.
//!
//! ```text
//!   a census for all groups, twice within the least age  -> cached, idle, came back: of each group
//!   after a walk: room in the promise                    -> the oldest is dropped, before pages of programs go
//!   promise or not                                       -> what `oldest` has found is dropped
//! ```
//!
//! **Owns** how much of each group is dropped within its promise. **Does not own** when a census comes (`caches`), what is
//! known of a group (`cache`), what a promise has room for (`strata_control::promise`), nor what goes promise or not
//! (`oldest`).
//!
//! **Invariants**
//! - I1: nothing is dropped of a group without a promise for being idle, nor what was read within its age.
//! - I2: nothing is dropped where nothing is to be taken.

use super::Managed;
use super::caches::Caches;
use super::group::Group;
use crate::engine::census::cache::{Done, GroupCache, Outcome, Which};
use std::collections::BTreeMap;
use std::time::Duration;
use strata_linux::addr::PAGE_BYTES;
use strata_lru::{GroupId, Kind};

impl Managed {
    /// To be called about once a second: what censuses found and what went; the next census where one is due.
    pub(super) fn look_at_cache(&mut self, at: Duration) {
        let Some(mut caches) = self.caches.take() else {
            return;
        };
        while let Some(done) = caches.thread.poll() {
            self.cache_done(&mut caches, at, done);
        }
        let groups = self.groups.values().filter_map(Group::kernel_id);
        let groups: Vec<u64> = groups.collect();
        caches.look(at, groups, || self.to_promote());
        self.caches = Some(caches);
    }

    fn cache_done(&mut self, caches: &mut Caches, at: Duration, outcome: Outcome) {
        match outcome.done {
            Done::Census { found, to_promote } => {
                if let Some(moves) = &mut self.moves {
                    moves.wait_for_cache(to_promote);
                }
                let (min_age, share) = (self.rules.min_age(), self.processor_share());
                caches.looked(at, found.as_deref().ok(), outcome.cpu_ns, min_age, share);
                match found {
                    Ok(found) => self.found_in_cache(found),
                    Err(error) => tracing::debug!("no census of page cache: {error}"),
                }
            }
            Done::Dropped {
                which: Which::Older {
                    group, nr_pages, ..
                },
                dropped,
                ..
            } => {
                let nr_gone = dropped.dropped_bytes / PAGE_BYTES;
                let mut groups = self.groups.values_mut();
                match groups.find(|one| one.kernel_id() == Some(group)) {
                    Some(one) => one.dropped(nr_pages, nr_gone),
                    None => caches.dropped_of_nobody(nr_gone),
                }
                tracing::debug!(group, nr_pages, ?dropped, "page cache dropped");
            }
            // A guard asks for nothing else.
            Done::Dropped { .. } | Done::Look(_) => {}
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
        groups.any(|group| group.cache.is_going())
    }

    /// So many pages of the oldest page cache of these groups go, promise or not. Returns how much of it.
    pub(super) fn drop_found(&mut self, found: &[(GroupId, u64)]) -> u64 {
        let Some(caches) = &mut self.caches else {
            return 0;
        };
        let mut nr_going = 0;
        for (id, nr_pages) in found {
            if let Some(group) = self.groups.get_mut(id) {
                let min_age = group.idle_when_short();
                nr_going += caches.drop_oldest(group, min_age, *nr_pages);
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
