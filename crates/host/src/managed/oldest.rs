//! What goes promise or not: of groups, or files of theirs, that hold more than their rules say, of a host that is short, below a limit that is near.
//!
//! **Owns** who is asked, and what is told of a group that stays above its `memory`. **Does not own** how much is missing
//! (`strata_control::shortage`), what goes then (`strata_control::oldest`), nor by which hand (`acts`).
//!
//! **Invariants** I1: what was accessed within the least age of a group stays, whoever asks; but what is frozen uses nothing, and page cache that
//!   was read once goes below a limit, and where the host is short.

use super::group::{Asks, Group};
use super::limits::Limited;
use super::{Managed, WhyNotMore};
use crate::observe::Observer;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;
use strata_control::oldest::{First, Holder, Oldest, oldest};
use strata_linux::addr::PAGE_BYTES;
use strata_lru::{GroupId, Kind, SpaceNo};

impl Managed {
    /// Takes what groups hold beyond their `memory`; by amount, after a walk, what is idle and can't go page by page.
    pub(super) fn hold(&mut self, observer: &Observer, is_after_walk: bool) {
        let at = observer.elapsed();
        // What stays has no other age before the next walk.
        let may_go = |group: &Group| is_after_walk || group.stuck.why.is_none();
        let over = self.groups.iter_mut();
        let over = over.map(|(id, group)| (*id, group.over_pages(), may_go(group)));
        let over = over.filter(|(_, nr_pages, may_go)| *nr_pages > 0 && *may_go);
        let over: Vec<(GroupId, u64)> = over.map(|(id, nr_pages, _)| (id, nr_pages)).collect();
        let mut swap_room_pages = match over.is_empty() {
            true => return,
            false => self.anon_room(at),
        };
        let may_write = self.writes.room_pages(at) != Some(0);
        for (id, nr_pages) in over {
            // What is left is known when page cache that goes is gone.
            if self.is_cache_going(&[id]) {
                continue;
            }
            let first = First::Oldest;
            let asks = Asks::OfRule;
            let found = self.find(&[id], |_| true, asks, first, nr_pages, swap_room_pages);
            let mut nr_going = self.take(&found, asks, &mut swap_room_pages, observer);
            if is_after_walk {
                nr_going += self.ask_beyond_reach(id, at, nr_pages.saturating_sub(nr_going));
            }
            let no_swap = self
                .no_swap
                .or_else(|| (!may_write).then_some(WhyNotMore::SwapWrites));
            if let Some(group) = self.groups.get_mut(&id) {
                let told = group.stays_over(at, nr_pages, nr_going, no_swap);
                self.news.extend(told);
            }
        }
    }

    /// Takes what files hold beyond a budget of their own, such as models and indexes that are mapped. To be called once after each
    /// walk, when what went after it is known. Of several budgets that fit a file the first is the file's. Pages that several processes map
    /// are not counted: they can't go page by page.
    pub(super) fn hold_files(&mut self, observer: &Observer) {
        let of_group = |(id, group): (_, &Group)| {
            let budgets = group.rule.files.iter();
            budgets
                .map(|budget| (id, budget.clone()))
                .collect::<Vec<_>>()
        };
        let groups = self.groups.iter().map(|(id, group)| (*id, group));
        let budgets: Vec<_> = groups.flat_map(of_group).collect();
        let mut budgeted = BTreeSet::new();
        for (group, budget) in budgets {
            let mut files = self.pages.files_of(group, |path| budget.path.matches(path));
            files.retain(|file| budgeted.insert((group, *file)));
            let Some(of) = self.groups.get(&group) else {
                continue;
            };
            let older_than = of.least_age(Asks::OfRule);
            let mut holder = Holder {
                nr_pages_max: u64::MAX,
                nr_anon_pages_max: 0,
                older_than: Duration::ZERO,
                spares_code: false,
                objects: Some(&files),
                cache: None,
                ..of.holder(group, true, Asks::OfRule)
            };
            let above_low = of.above_low_pages();
            let ledger = self.pages.ledger();
            let all = oldest(ledger, &[holder], First::Oldest, u64::MAX, 0);
            let over = all
                .nr_program_pages()
                .saturating_sub(budget.memory_bytes / PAGE_BYTES);
            holder.older_than = older_than;
            let over = over.min(above_low);
            let found = oldest(ledger, &[holder], First::Oldest, over, 0);
            self.take(&found, Asks::OfRule, &mut 0, observer);
        }
    }

    /// Has the kernel take a part of what is idle of a group and can't go page by page; returns how much.
    fn ask_beyond_reach(&mut self, id: GroupId, at: Duration, nr_pages_max: u64) -> u64 {
        // Which pages a guest uses is not seen.
        let group = self.groups.get(&id).filter(|_| !self.guests.contains(&id));
        let mut beyond = group.map(Group::beyond_reach).unwrap_or_default();
        if self.no_swap.is_some() {
            beyond.anon = 0;
        }
        self.ask(id, at, beyond, nr_pages_max).0
    }

    /// Below limits that are near: the oldest of all groups there. What is younger than rules call idle is left to the kernel, but for
    /// page cache that was read once: that is of no more use.
    pub(super) fn relieve_limits(&mut self, observer: &Observer) {
        let at = observer.elapsed();
        let waits_for_rate = self.writes.room_pages(at) == Some(0);
        let first = first(self.rules.cache_first.below_limits);
        // Of a program that has used up its promise nothing goes. That is the kernel's, which takes page cache that
        // programs read each second before memory that they read back from swap.
        let keeps_promise = |group: &Group| !group.is_used_up();
        let mut limits = std::mem::take(&mut self.limits);
        for limit in limits.values_mut().filter(|limit| limit.is_read) {
            if self.is_taking() {
                break;
            }
            limit.is_read = false;
            let (members, missing_bytes) = (&limit.members, limit.budget.missing_bytes());
            if missing_bytes > 0 && limit.budget.is_worth_looking(at) {
                let asks = Asks::BelowLimit;
                let found_bytes =
                    self.give(members, keeps_promise, asks, missing_bytes, first, observer);
                limit.budget.found_idle(at, found_bytes, waits_for_rate);
                limit.look_again(at);
            }
        }
        self.limits = limits;
    }

    /// The next walk clears no accessed bits of groups below a limit of which nothing goes now.
    pub(super) fn keep_bits(&mut self, observer: &mut Observer) {
        // What the host asks for goes promise or not.
        let promised = (!self.host.need().is_near).then_some(&self.groups);
        let groups = give_nothing(promised, &mut self.limits, observer.elapsed());
        let spaces = self.pages.ledger().spaces();
        let kept = spaces.filter(|(_, group)| groups.contains(group));
        let kept: BTreeSet<SpaceNo> = kept.map(|(space, _)| space).collect();
        observer.keep_bits(|space| kept.contains(&space));
    }

    /// Where the host is short: the oldest of all groups, promise or not.
    pub(super) fn relieve_host(&mut self, observer: &Observer) {
        let missing_bytes = self.host.missing_bytes();
        let at = observer.elapsed();
        if missing_bytes == 0 || !self.host.is_worth_looking(at) {
            return;
        }
        let all: Vec<GroupId> = self.groups.keys().copied().collect();
        let waits_for_rate = self.writes.room_pages(at) == Some(0);
        let first = first(self.rules.cache_first.of_host);
        let asks = match self.host.is_short() {
            true => Asks::OfHostNow,
            false => Asks::OfHostAhead,
        };
        let found_bytes = self.give(&all, |_| true, asks, missing_bytes, first, observer);
        self.host.found_idle(at, found_bytes, waits_for_rate);
    }

    /// Has the oldest of these groups go. Returns how much goes, or is on its way, bytes.
    fn give(
        &mut self,
        members: &[GroupId],
        gives_programs: impl Fn(&Group) -> bool,
        asks: Asks,
        bytes: u64,
        first: First,
        observer: &Observer,
    ) -> u64 {
        if self.is_cache_going(members) {
            return bytes;
        }
        let mut swap_room_pages = self.anon_room(observer.elapsed());
        let nr_pages = bytes.div_ceil(PAGE_BYTES);
        let room = swap_room_pages;
        let found = self.find(members, gives_programs, asks, first, nr_pages, room);
        self.take(&found, asks, &mut swap_room_pages, observer) * PAGE_BYTES
    }

    fn find(
        &self,
        members: &[GroupId],
        gives_programs: impl Fn(&Group) -> bool,
        asks: Asks,
        first: First,
        nr_pages: u64,
        swap_room_pages: u64,
    ) -> Oldest {
        let holder = |id: &GroupId| -> Option<Holder<'_>> {
            let group = self.groups.get(id)?;
            Some(group.holder(*id, gives_programs(group), asks))
        };
        let holders: Vec<Holder<'_>> = members.iter().filter_map(holder).collect();
        let ledger = self.pages.ledger();
        oldest(ledger, &holders, first, nr_pages, swap_room_pages)
    }

    /// Takes what was found; returns how many pages go.
    pub(super) fn take(
        &mut self,
        found: &Oldest,
        asks: Asks,
        swap_room_pages: &mut u64,
        observer: &Observer,
    ) -> u64 {
        let anon = found.goes.iter().filter(|goes| goes.kind == Kind::Anon);
        *swap_room_pages -= anon.map(|goes| goes.pages.nr_pages).sum::<u64>();
        self.hand_over(&found.goes, observer);
        found.nr_program_pages() + self.drop_found(&found.cache, asks, swap_room_pages)
    }
}

/// Groups below a limit that is near of which nothing goes now: walks find nothing there, or their promise is used up. `promised`: those
/// that have one; `None`: the host is near to be short, where promises do not count.
fn give_nothing(
    promised: Option<&BTreeMap<GroupId, Group>>,
    limits: &mut BTreeMap<PathBuf, Limited>,
    at: Duration,
) -> BTreeSet<GroupId> {
    let is_used_up = |id: &GroupId| {
        let group = promised.and_then(|groups| groups.get(id));
        // What is asked of these besides the promise goes by accessed bits.
        let asks_more = |group: &Group| {
            let rule = &group.rule;
            rule.memory_bytes.is_some()
                || !rule.files.is_empty()
                || rule.park_after.is_some()
                || rule.tiers
        };
        group.is_some_and(|group| group.is_used_up() && !asks_more(group))
    };
    let mut found = BTreeSet::new();
    for limit in limits.values_mut() {
        let is_near = limit.budget.need().is_near;
        let is_vain = !limit.budget.clears(at);
        let members = limit.members.iter();
        found.extend(members.filter(|id| is_vain || is_near && is_used_up(id)));
    }
    found
}

/// What goes first where page cache is to, or not.
fn first(is_cache_first: bool) -> First {
    match is_cache_first {
        true => First::Cache,
        false => First::Programs,
    }
}

#[cfg(test)]
mod tests {
    use super::super::choice::Chosen;
    use super::super::need::Budget;
    use super::super::rules::Rule;
    use super::*;
    use strata_control::guard::{Counted, Walked};
    use strata_control::shortage::Reading;
    use strata_linux::cgroup::{GroupReader, mount_point};
    use strata_lru::ages::NrPages;

    #[test]
    fn near_a_limit_accessed_bits_stay_of_groups_whose_promise_is_used_up() {
        let reader = GroupReader::open(&mount_point().expect("cgroups")).expect("a group");
        let group = |promise| {
            let (reader, pids) = (reader.clone(), Vec::new());
            let rule = &Rule {
                promise,
                ..Rule::default()
            };
            Group::new(&Chosen {
                reader,
                pids,
                rule,
                came: 0,
            })
        };
        let mut promised = group(Rule::default().promise);
        let back = NrPages::only(Kind::Anon, 1 << 20);
        let counted = Counted::without_cache(NrPages::default(), NrPages::default(), back);
        let (at, holder) = (Duration::ZERO, &mut promised.holder);
        Walked::default().look(holder, at, GroupId(1), counted);
        let groups = BTreeMap::from([(GroupId(1), promised), (GroupId(2), group(None))]);
        let kept = |promised, available_bytes| {
            let mut limit = Limited {
                reader: reader.clone(),
                members: vec![GroupId(1), GroupId(2)],
                budget: Budget::default(),
                next_look: Duration::ZERO,
                is_read: false,
            };
            let read = Reading {
                total_bytes: 1 << 30,
                available_bytes,
                waiting_percent: None,
            };
            limit.budget.look(Duration::ZERO, || Some(read));
            let mut limits = BTreeMap::from([(PathBuf::new(), limit)]);
            give_nothing(promised, &mut limits, Duration::ZERO)
        };
        let all = Some(&groups);
        assert_eq!(kept(all, 1 << 20), BTreeSet::from([GroupId(1)]));
        assert_eq!(kept(all, 1 << 29), BTreeSet::new(), "it is far");
        assert_eq!(kept(None, 1 << 20), BTreeSet::new(), "the host is short");
    }
}
