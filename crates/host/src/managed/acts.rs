//! What follows a walk of many groups: pages go, by either hand, and come back.
//!
//! **Owns** which hand is asked, how much swap may be used, and the sums that say how much more fits. **Does not own** what goes of each group
//! (`strata_control::guard`), what goes promise or not (`oldest`), nor how (`takes`, `by_amount`, `recalls`).

use super::by_amount::{self, Amounts, Hand, Of};
use super::group::{Asks, Group};
use super::room::{Footprint, Room, of_last};
use super::takes::Looked;
use super::{Managed, WhyNotMore};
use crate::engine::census::cache::{Done, DropIdle, GroupCache, Outcome};
use crate::observe::Observer;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use strata_control::guard::{self, Goes, Leaning, Member, Offer};
use strata_control::page_cache::{CacheClass, Idle};
use strata_linux::addr::PAGE_BYTES;
use strata_linux::cgroup::{ReclaimError, is_reclaimed_by_amount};
use strata_linux::swap;
use strata_lru::ages::{Moved, NrPages, On};
use strata_lru::machine::CgroupVersion;
use strata_lru::{GroupId, Kind};

/// Free swap that is left to others, as a part of all swap: one tenth.
const FREE_SWAP_PART: u64 = 10;
/// Where compressed swap holds pages in more than this share of their size, nothing is gained.
const COMPRESSED_SHARE_MAX: f64 = 0.8;
/// Of a page in swap so much stays in memory where that was not measured: most memory compresses to less than a half.
const COMPRESSED_SHARE_ASSUMED: f64 = 0.5;
/// Less than this in swap tells nothing of how well pages compress.
const COMPRESSED_BYTES_MIN: u64 = 16 << 20;

impl Managed {
    /// Chooses what goes, and hands it over; `again` where that follows no walk.
    pub(super) fn choose(&mut self, observer: &Observer, again: bool) {
        let at = observer.elapsed();
        self.writes.hold_up = false;
        self.guests = self.pages.guest_groups();
        let swap_room_pages = self.anon_room(at);
        let by_amount: BTreeSet<GroupId> = self
            .groups
            .iter()
            .filter(|(id, group)| self.goes_by_amount(**id, group, at))
            .map(|(id, _)| *id)
            .collect();
        let from_nodes = self.swaps_from();
        let members = self.groups.iter().map(|(id, group)| Member {
            group: *id,
            holder: &group.holder,
            idle: group.idle,
            went: group.went_pages(),
            nr_pages_max: match group.is_promised() && !by_amount.contains(id) {
                // What is idle goes to slower memory as long as there is room.
                true if group.rule.tiers && from_nodes == Some(None) => 0,
                true => group.above_low_pages(),
                false => 0,
            },
            on: from_nodes
                .flatten()
                .filter(|_| group.rule.tiers)
                .map(|nodes| On {
                    nodes,
                    streak_min: 0,
                    moved: Moved::Any,
                    is_move: false,
                }),
            leaning: group.leaning(),
            spares_code: group.rule.protects_code,
        });
        let choice = guard::choose(self.pages.ledger(), members, swap_room_pages);
        let planned = choice.offers.values().map(|offer| offer.planned.anon);
        let is_used_up = planned.sum::<u64>() >= swap_room_pages;
        let waits_for_rate = is_used_up && swap_room_pages < self.room_in_swap().unwrap_or(0);
        for (id, offer) in &choice.offers {
            let (mut planned, mut is_held_up) = (offer.planned, false);
            if !again {
                let (more, is_bounded) =
                    self.ask_for_amount(*id, at, *offer, by_amount.contains(id));
                planned += more;
                is_held_up = is_bounded;
            }
            if let Some(group) = self.groups.get_mut(id) {
                let has_more = waits_for_rate && group.has_room_for_more(*offer);
                self.writes.hold_up |= has_more;
                is_held_up |= has_more;
                let rate = is_held_up.then_some(WhyNotMore::SwapWrites);
                group.judge(offer.could, planned, self.no_swap.or(rate));
            }
        }
        self.hand_over(&choice.goes, observer);
        if !again {
            self.split_huge(observer, swap_room_pages);
            self.look_at_silence(at);
        }
    }

    /// Whether all of a group goes by amount: that is asked for, or it is cheaper and the kernel obeys.
    fn goes_by_amount(&self, id: GroupId, group: &Group, at: Duration) -> bool {
        match self.config.hand {
            Hand::Amount => true,
            Hand::Exact => false,
            // The kernel would swap what slower memory has room for.
            Hand::Auto if self.has_tiers() && group.rule.tiers => false,
            Hand::Auto => {
                self.amounts.is_some()
                    && !self.guests.contains(&id)
                    && self.prices.prefer_amount()
                    && group.idle.total() >= by_amount::STEP_PAGES_MIN
                    && group.fares.may_take(at)
                    // On v1 the kernel can't be told which kind to take.
                    && group.reader.version() == CgroupVersion::V2
                    && is_reclaimed_by_amount(&group.reader)
            }
        }
    }

    /// Whether there is swap that may take no more.
    pub(super) fn is_swap_full(&self) -> bool {
        self.no_swap.is_some_and(|why| why != WhyNotMore::NoSwap)
    }

    /// Has the kernel take a part of what is idle of a group and does not go page by page; returns how much, and whether it
    /// would be more but for the bound on writes to swap.
    fn ask_for_amount(
        &mut self,
        id: GroupId,
        at: Duration,
        offer: Offer,
        all: bool,
    ) -> (NrPages, bool) {
        let none = (NrPages::default(), false);
        let Some(group) = self.groups.get(&id) else {
            return none;
        };
        // The kernel would swap what slower memory has room for.
        let goes_down = self.has_tiers() && group.rule.tiers;
        // Nor is seen which pages a guest uses.
        let is_blind = self.config.hand == Hand::Auto && self.guests.contains(&id);
        if goes_down || is_blind || !group.is_promised() {
            return none;
        }
        let mut idle = match all {
            true => group.idle,
            false => group.idle_beyond(offer.could),
        };
        if self.no_swap.is_some() || group.leaning() == Leaning::FileOnly {
            idle.anon = 0;
        }
        // What comes back is judged by the kind of which there is more.
        let kind = match idle.anon >= idle.file {
            true => Kind::Anon,
            false => Kind::File,
        };
        let above_low = group.above_low_pages();
        let mut spent = group.went_pages();
        spent += offer.planned;
        let room = group.holder.room(kind, spent);
        let room = room.min(above_low.saturating_sub(offer.planned.total()));
        let (nr_pages, is_bounded) = self.ask(id, at, idle, room);
        (NrPages::only(kind, nr_pages), is_bounded)
    }

    /// Has the kernel take a part of these idle pages of a group, of which so many may go; returns how many, and whether it would be
    /// more but for the bound on writes to swap.
    pub(super) fn ask(
        &mut self,
        id: GroupId,
        at: Duration,
        idle: NrPages,
        room: u64,
    ) -> (u64, bool) {
        let is_full = self.is_swap_full();
        let group = self.groups.get(&id);
        let group = group.filter(|group| group.fares.may_take(at));
        let (Some(amounts), Some(group)) = (&mut self.amounts, group) else {
            return (0, false);
        };
        let writes_room = self.writes.room_pages(at);
        let bounds = by_amount::bounds(&group.reader, is_full, idle.anon, writes_room);
        let Some((nr_swapped_max, rate)) = bounds else {
            return (0, false);
        };
        let room = room.min(idle.total());
        let step = by_amount::step(&group.reader, idle.total(), room.min(rate));
        let nr_pages = step.map_or(0, |nr_pages| {
            amounts.add(id, &group.reader, nr_pages, group.swappiness(), Of::Mapped)
        });
        if nr_pages > 0 {
            // A walk may come before the answer.
            self.pages.ledger_mut().asked(id);
        }
        self.writes.spend(nr_pages.min(nr_swapped_max));
        (nr_pages, rate < room)
    }

    /// What became of requests by amount; returns the groups of which the kernel has taken.
    pub(super) fn collect_amounts(&mut self, at: Duration) -> Vec<GroupId> {
        let mut asked = Vec::new();
        while let Some((id, of, freed)) = self.amounts.as_mut().and_then(Amounts::collect) {
            let nr_freed_pages = freed.result.as_ref().map(|bytes| bytes / PAGE_BYTES);
            let nr_freed_pages = nr_freed_pages.ok();
            let group = self.groups.get_mut(&id);
            if let Of::Cache(nr_asked) = of {
                // What processes map of files and goes along is part of that: the ledger takes it for the kernel's.
                let is_never = matches!(freed.result, Err(ReclaimError::NotByKind(_)));
                self.caches.cannot_ask |= is_never;
                if let Some(group) = group {
                    group.went_by_amount(at, nr_asked, nr_freed_pages);
                }
                continue;
            }
            self.pages.ledger_mut().asked(id);
            asked.push(id);
            (self.prices.amount).note(freed.cpu_ns, nr_freed_pages.unwrap_or(0));
            if let Some(group) = group {
                (group.fares).answered(at, nr_freed_pages, self.config.hand);
            }
        }
        asked
    }

    /// These go page by page.
    pub(super) fn hand_over(&mut self, all: &[Goes], observer: &Observer) {
        if let Some(takes) = &mut self.takes {
            let anon = all.iter().filter(|goes| goes.kind == Kind::Anon);
            self.writes
                .spend(anon.map(|goes| goes.pages.nr_pages).sum());
            let processes = observer.reachable();
            for goes in all {
                takes.add(goes.group, goes.kind, &goes.pages.runs, &processes);
            }
            takes.hand_over();
        }
    }

    /// Huge pages of which little is used are split, where the group has to give and swap has room.
    fn split_huge(&mut self, observer: &Observer, swap_room_pages: u64) {
        let Some(takes) = self
            .takes
            .as_mut()
            .filter(|_| self.config.hand != Hand::Amount)
        else {
            return;
        };
        let is_meant = |(id, group): &(&GroupId, &Group)| {
            group.is_promised() && !self.guests.contains(id) && group.leaning() != Leaning::FileOnly
        };
        let looked = |(id, group): (&GroupId, &Group)| {
            let may_give = !group.holder.is_used_up() && group.above_low_pages() > 0;
            let looked = Looked {
                min_age: group.rule.min_age,
                nr_resident_pages: group.resident_bytes() / PAGE_BYTES,
                may_give: may_give && swap_room_pages > 0,
            };
            (*id, looked)
        };
        let groups = self.groups.iter().filter(is_meant).map(looked).collect();
        let ledger = self.pages.ledger();
        let chosen = takes.splits.after_walk(observer.elapsed(), ledger, &groups);
        if chosen.is_empty() {
            return;
        }
        let processes = observer.reachable();
        for (id, huge) in &chosen {
            tracing::debug!(group = id.0, nr_huge_pages = huge.len(), "split");
            takes.split(*id, huge, &processes);
        }
        takes.hand_over();
    }

    /// What was taken last of those whose programs come back to it, before they ask for it page by page.
    pub(super) fn read_back(&mut self, observer: &Observer) {
        let Some(recalls) = &mut self.recalls else {
            return;
        };
        for (id, group) in &mut self.groups {
            if let Some(within) = group.holder.reads_back() {
                let runs = self.pages.ledger().taken_within(*id, within);
                let processes = observer.reachable();
                let nr_pages = recalls.read_back(&group.reader, &runs, &processes);
                tracing::debug!(group = group.name(), nr_pages, "read back");
            }
        }
    }

    /// Pages that may go to swap now: as many as there is room for, and as the rate of writes allows.
    pub(super) fn anon_room(&mut self, at: Duration) -> u64 {
        let room = self.room_in_swap().unwrap_or(0);
        room.min(self.writes.room_pages(at).unwrap_or(u64::MAX))
    }

    /// Pages that may go to swap, or why none may.
    pub(super) fn room_in_swap(&self) -> Result<u64, WhyNotMore> {
        let total_bytes = swap::total_swap_bytes().unwrap_or(0);
        if total_bytes == 0 {
            return Err(WhyNotMore::NoSwap);
        }
        let free_bytes = swap::known_free_swap_bytes().unwrap_or(0);
        let room_bytes = free_bytes.saturating_sub(total_bytes / FREE_SWAP_PART);
        let away_bytes: u64 = self.groups.values().map(Group::anon_away_bytes).sum();
        let memory_bytes = swap::memory_of_swapped(away_bytes).unwrap_or(0);
        let is_known = away_bytes >= COMPRESSED_BYTES_MIN;
        match room_bytes / PAGE_BYTES {
            0 => Err(WhyNotMore::SwapIsFull),
            _ if is_known && memory_bytes as f64 > away_bytes as f64 * COMPRESSED_SHARE_MAX => {
                Err(WhyNotMore::DoesNotCompress)
            }
            nr_pages => Ok(nr_pages),
        }
    }
}

/// How much more fits.
impl Managed {
    /// `None`: rules leave memory to the kernel.
    pub(super) fn room(&self) -> Option<Room> {
        let wanted_bytes = self.host.need().wanted_bytes;
        if wanted_bytes == 0 {
            return None;
        }
        let sum = |of: fn(&Group) -> u64| self.groups.values().map(of).sum::<u64>();
        let away_bytes = sum(Group::anon_away_bytes);
        let in_swap_bytes = swap::memory_of_swapped(away_bytes).unwrap_or(0);
        let share = match away_bytes {
            0..COMPRESSED_BYTES_MIN => COMPRESSED_SHARE_ASSUMED,
            _ => (in_swap_bytes as f64 / away_bytes as f64).min(1.0),
        };
        let room_in_swap_bytes = self.room_in_swap().unwrap_or(0) * PAGE_BYTES;
        let idle_bytes = sum(Group::idle_anon_bytes).min(room_in_swap_bytes);
        let footprint = |group: &Group| Footprint {
            number: group.number,
            bytes: group.resident_bytes() + (group.anon_away_bytes() as f64 * share) as u64,
        };
        Some(Room::new(
            self.host.available_bytes(),
            wanted_bytes,
            (idle_bytes as f64 * (1.0 - share)) as u64,
            of_last(self.groups.values().map(footprint).collect()),
        ))
    }
}

/// Page cache that nobody maps.
impl Managed {
    /// To be called about once a second: what censuses found and what went; the next census where one is due.
    pub(super) fn look_at_cache(&mut self, at: Duration) {
        while let Some(done) = self.caches.thread.poll() {
            self.cache_done(at, done);
        }
        let groups = self.groups.values().filter_map(|group| group.kernel_id);
        let groups: Vec<u64> = groups.collect();
        if self.caches.is_due(at) && !groups.is_empty() {
            let promote = self.to_promote();
            self.caches.look(at, groups, promote);
        }
    }

    fn cache_done(&mut self, at: Duration, outcome: Outcome) {
        match outcome.done {
            Done::Census { found, to_promote } => {
                if let Some(moves) = &mut self.moves {
                    moves.wait_for_cache(to_promote);
                }
                let min_age = self.walk_interval(self.rules.min_age() / 2) * 2;
                let share = self.processor_share();
                let has_away = self.groups.values().any(|of| of.cache.has_by_amount());
                let all = found.as_deref().ok();
                (self.caches).looked(at, all, outcome.cpu_ns, min_age, share, has_away);
                match found {
                    Ok(found) => self.found_in_cache(found),
                    Err(error) => tracing::debug!("no census of page cache: {error}"),
                }
            }
            Done::DroppedIdle {
                which,
                dropped,
                nr_gone_pages,
            } => {
                let DropIdle {
                    group,
                    nr_pages,
                    nr_swap_pages,
                    ..
                } = which;
                let nr_pages = nr_pages + nr_swap_pages;
                let nr_swapped = nr_gone_pages[CacheClass::MemoryOnly as usize];
                self.writes.refund(nr_swap_pages.saturating_sub(nr_swapped));
                let mut groups = self.groups.values_mut();
                match groups.find(|one| one.kernel_id == Some(group)) {
                    Some(one) => one.dropped(nr_pages, nr_gone_pages),
                    None => self.caches.nr_dropped_before += nr_gone_pages.iter().sum::<u64>(),
                }
                tracing::debug!(group, nr_pages, ?dropped, "page cache dropped");
            }
            // A guard asks for nothing else.
            Done::Dropped { .. } | Done::Look(_) => {}
        }
    }

    fn found_in_cache(&mut self, found: Vec<GroupCache>) {
        let began = self.caches.began;
        let mut found: BTreeMap<u64, GroupCache> =
            found.into_iter().map(|one| (one.group, one)).collect();
        for group in self.groups.values_mut() {
            if let Some(one) = group.kernel_id.and_then(|id| found.remove(&id)) {
                let is_looked_at = group.cache.has_by_amount();
                let nr_refaults = is_looked_at.then(|| group.nr_file_refaults()).flatten();
                if let Some(nr_pages) = nr_refaults {
                    group.cache.look_by_amount(began, nr_pages);
                }
                group.cache.found(one);
            }
        }
    }

    /// What is idle of page cache goes as far as promises have room: before pages of programs, as most of it needs no swap.
    pub(super) fn drop_cache(&mut self, at: Duration) {
        let room = self.anon_room(at);
        if !self.config.is_acting {
            return;
        }
        let mut swap_room_pages = room;
        for group in self.groups.values_mut().filter(|group| group.is_promised()) {
            let age = group.holder.age(Kind::File);
            let idle = group.cache.older_than(age).unwrap_or(0);
            let room = group.holder.room(Kind::File, group.went_pages());
            let nr_pages = idle.min(room).min(group.cache_above_low_pages());
            let idle = Idle {
                older_than: age,
                with_once: false,
            };
            self.caches
                .drop_oldest(group, idle, nr_pages, &mut swap_room_pages);
        }
        self.writes.spend(room - swap_room_pages);
    }

    /// What is idle of page cache that no hand reaches page by page goes by amount, a part at a time, and no anonymous memory with it. Where
    /// memory is near short nothing waits for that.
    pub(super) fn ask_for_cache(&mut self, at: Duration) {
        let has_tiers = self.has_tiers();
        let may_ask = !self.caches.cannot_ask && !self.host.need().is_near;
        let Some(amounts) = self.amounts.as_mut().filter(|_| may_ask) else {
            return;
        };
        let mut nr_left = by_amount::NR_CACHE_STEPS_MAX;
        for (id, group) in &mut self.groups {
            // The kernel would move down what goes, and which pages a guest uses is not seen.
            let is_left = has_tiers && group.rule.tiers || self.guests.contains(id);
            if nr_left == 0 || is_left || !group.is_promised() {
                continue;
            }
            let nr_idle = (group.cache).to_ask_for(at, group.holder.age(Kind::File));
            let room = group.holder.room(Kind::File, group.went_pages());
            let room = room.min(group.cache_above_low_pages()).min(nr_idle);
            let room = room.min(by_amount::CACHE_STEP_PAGES_MAX);
            let Some(nr_pages) = by_amount::step(&group.reader, nr_idle, room) else {
                continue;
            };
            let Some(nr_refaults) = group.nr_file_refaults() else {
                continue;
            };
            let of = Of::Cache(nr_pages);
            if amounts.add(*id, &group.reader, nr_pages, Some(0), of) > 0 {
                nr_left -= 1;
                group.cache.asked_by_amount(at, nr_pages, nr_refaults);
            }
        }
    }

    /// Whether page cache of one of these groups is on its way out.
    pub(super) fn is_cache_going(&self, members: &[GroupId]) -> bool {
        let mut groups = members.iter().filter_map(|id| self.groups.get(id));
        groups.any(|group| group.cache.is_going())
    }

    /// So many pages of the oldest page cache of these groups go, promise or not. Returns how much of it.
    pub(super) fn drop_found(
        &mut self,
        found: &[(GroupId, u64)],
        asks: Asks,
        swap_room_pages: &mut u64,
    ) -> u64 {
        let room = *swap_room_pages;
        let mut nr_going = 0;
        for (id, nr_pages) in found {
            if let Some(group) = self.groups.get_mut(id) {
                let idle = Idle {
                    older_than: group.least_age(asks),
                    with_once: asks.takes_once(),
                };
                nr_going += (self.caches).drop_oldest(group, idle, *nr_pages, swap_room_pages);
            }
        }
        self.writes.spend(room - *swap_room_pages);
        nr_going
    }

    /// Ends the thread; what went is counted.
    pub(super) fn stop_caches(&mut self) {
        for done in self.caches.thread.stop() {
            self.cache_done(Duration::ZERO, done);
        }
    }
}
