//! What a group holds by kind, and whether it gives nothing of what it could.
//!
//! **Owns** when the kernel is asked, and in which turn, what it charges to a group, and how long nothing may go of it. **Does not own** which memory is
//! which kind (`observe::ledger`), nor what could go and why it does not (`group`).

use crate::observe::ledger::{Ages, CacheSeen, Kinds, kinds_of};
use std::collections::BTreeSet;
use std::time::Duration;
use strata_control::page_cache::NR_CACHE_CLASSES;
use strata_control::promise::PromiseHolder;
use strata_linux::cgroup::GroupReader;
use strata_lru::{GroupId, Kind};

/// The kernel adds up its counters for who reads them, so they are read no oftener than that.
const CHARGE_EVERY: Duration = Duration::from_secs(10);
/// To read it takes some 80 us a group, so it is read of so many groups at once at most.
const GROUPS_A_TURN: usize = 64;
/// A group that could give gives nothing if nothing went for so long.
const SILENCE: Duration = Duration::from_secs(180);
/// Less than one of so many parts of what could go is nothing.
const GIVES_PARTS: u64 = 100;
/// Less than a MiB that could go is no reason to say that it stays.
const COULD_PAGES_MIN: u64 = 256;

/// Whose turn it is to have its charge read. The others follow.
#[derive(Debug, Default)]
pub(super) struct Turns {
    next: Option<GroupId>,
}

impl Turns {
    /// Those whose turn it is of all groups, which come in their order.
    pub(super) fn begin(&mut self, ids: impl Iterator<Item = GroupId>) -> BTreeSet<GroupId> {
        let first = self.next.take();
        let mut in_turn = ids.filter(|id| first.is_none_or(|first| *id >= first));
        let now = in_turn.by_ref().take(GROUPS_A_TURN).collect();
        self.next = in_turn.next();
        now
    }
}

/// What a group holds by kind.
#[derive(Debug, Default)]
pub(super) struct ByKind {
    pub(super) kinds: Kinds,
    charged_at: Option<Duration>,
}

impl ByKind {
    /// A walk found its pages of these ages. The holder says at which age they are idle, and `cache` tells its page cache with what of
    /// it is idle at an age.
    pub(super) fn look(
        &mut self,
        at: Duration,
        group: &GroupReader,
        ages: &Ages,
        holder: &PromiseHolder,
        cache: impl FnOnce(Duration) -> Option<[CacheSeen; NR_CACHE_CLASSES]>,
    ) {
        let is_due = |last: Duration| at.saturating_sub(last) >= CHARGE_EVERY;
        if self.charged_at.is_none_or(is_due) {
            self.charged_at = Some(at);
            let charge = group.charge();
            let idle_at = [Kind::Anon, Kind::File].map(|kind| holder.age(kind));
            let cache = cache(idle_at[1]);
            let kinds = charge.map(|charge| kinds_of(&charge, ages, idle_at, cache));
            self.kinds = kinds.unwrap_or_default();
        }
    }
}

/// For how long nothing went of what could.
#[derive(Debug, Default)]
pub(super) struct Silence {
    since: Option<Duration>,
    nr_taken_pages: u64,
    is_long: bool,
    is_told: bool,
}

impl Silence {
    /// So many pages could go, and so many went so far. Returns whether it is to be told that nothing goes, which is so once.
    pub(super) fn look(&mut self, at: Duration, nr_could: u64, nr_taken: u64) -> bool {
        let since = *self.since.get_or_insert(at);
        let nr_gave = nr_taken.saturating_sub(self.nr_taken_pages);
        if nr_could < COULD_PAGES_MIN || nr_gave * GIVES_PARTS >= nr_could {
            (self.since, self.nr_taken_pages, self.is_long) = (Some(at), nr_taken, false);
            return false;
        }
        self.is_long = at.saturating_sub(since) >= SILENCE;
        self.is_long && !std::mem::replace(&mut self.is_told, true)
    }

    /// Nothing went for long.
    pub(super) fn is_long(&self) -> bool {
        self.is_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_charge_of_many_groups_is_read_by_turns_and_nobody_is_left_out() {
        let ids = || (0..150).map(GroupId);
        let mut turns = Turns::default();
        let some = |range: std::ops::Range<u16>| range.map(GroupId).collect::<BTreeSet<_>>();
        assert_eq!(turns.begin(ids()), some(0..64));
        // Group 64 goes meanwhile.
        let without = ids().filter(|id| id.0 != 64);
        assert_eq!(turns.begin(without), some(65..129));
        assert_eq!(turns.begin(ids()), some(129..150));
        assert_eq!(turns.begin(ids()), some(0..64));
        // Those that are left have had their turn.
        let few = || [GroupId(3)].into_iter();
        assert_eq!(
            [turns.begin(few()), turns.begin(few())],
            [some(0..0), some(3..4)]
        );
    }

    #[test]
    fn a_group_that_could_give_and_gives_nothing_for_three_minutes_is_told_once() {
        let mut silence = Silence::default();
        let at = Duration::from_secs;
        assert!(!silence.look(at(0), 50_000, 0));
        // A few pages that go now and then are nothing.
        assert!(!silence.look(at(170), 50_000, 100));
        assert!(!silence.is_long());
        assert!(silence.look(at(180), 50_000, 200) && silence.is_long());
        assert!(!silence.look(at(190), 50_000, 200), "once");
        assert!(silence.is_long());
        assert!(!silence.look(at(200), 50_000, 2000) && !silence.is_long());
        assert!(!silence.look(at(370), 50_000, 2000) && !silence.is_long());
        assert!(
            !silence.look(at(379), 100, 2000),
            "there is nothing to give"
        );
        assert!(!silence.look(at(381), 50_000, 2000) && !silence.is_long());
    }
}
