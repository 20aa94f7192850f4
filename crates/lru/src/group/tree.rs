//! The tree of groups: births, deaths, and what each uses with all below it.
//!
//! ```text
//!                    (root)            has no number, no folios, no limits
//!                   /      \
//!              /web  1    /batch  4    usage of a group = its own folios + its children's
//!              /    \
//!     /web/a  2      /web/b  3         charged here, counted on the whole way up
//! ```
//!
//! A group that is removed while it is still charged goes offline: it stays where it is, without
//! protection, until what it holds has been reclaimed or freed, and is forgotten then. Numbers are
//! used again, the one longest free first.
//!
//! **Owns** the links, usage, claims on protection and event counters. **Does not own** folios:
//! a policy charges and uncharges, and tells lruvecs' numbers.
//!
//! **Invariants**
//! - I1: usage of a group is that of its own folios and of its children; the same for swap.
//! - I2: the claims kept at a parent are the sums of min(usage, setting) over its children.
//! - I3: a parent is there as long as its children; an online group's ancestors are online.
//! - I4: no group is more than [`NR_LEVELS_MAX`] levels below the root.

use std::collections::VecDeque;

use super::limits::{GroupEvent, GroupEvents, Limits};
use crate::{
    error::PolicyError,
    folio::MAX_LRUVECS,
    ids::{GroupId, NodeId},
};

/// The root of everything; no folio is charged to it alone.
pub(crate) const ROOT: GroupId = GroupId(0);

/// The deepest a group may lie below the root.
pub(crate) const NR_LEVELS_MAX: usize = 64;

/// In place of a group's number: there is none.
pub(super) const NONE: u16 = u16::MAX;

/// What is above a limit: how much, and whose limit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excess {
    /// The group whose limit it is; memory is to be reclaimed from it and all below it.
    pub group: GroupId,
    /// Base pages above the limit.
    pub nr_pages: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Life {
    /// The slot holds no group.
    #[default]
    Free,
    Online,
    /// Removed, and still charged.
    Offline,
}

/// Sums over the children of a group of what they use within their own settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Claims {
    pub(super) min_pages: u64,
    pub(super) low_pages: u64,
}

/// One group.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) path: String,
    /// Numbers of its lruvecs, one a node, in the order the nodes were first used.
    pub(crate) lruvecs: Vec<u16>,
    pub(crate) nr_ageing_runs: u64,
    pub(super) parent: u16,
    pub(super) first_child: u16,
    pub(super) last_child: u16,
    pub(super) before: u16,
    pub(super) after: u16,
    level: u8,
    life: Life,
    pub(super) limits: Limits,
    pub(super) usage_pages: u64,
    swap_pages: u64,
    /// Pages in swap of the group itself, without groups below.
    own_swap_pages: u64,
    pub(super) claims: Claims,
    events: GroupEvents,
    events_local: GroupEvents,
    /// Where the last partial walk of this subtree ended, by node.
    pub(super) cursors: Vec<u16>,
}

impl Group {
    fn new(path: &str, parent: u16, level: u8) -> Group {
        Group {
            path: path.to_owned(),
            parent,
            first_child: NONE,
            last_child: NONE,
            before: NONE,
            after: NONE,
            level,
            life: Life::Online,
            limits: Limits::NONE,
            ..Group::default()
        }
    }

    fn claim(&self) -> Claims {
        Claims {
            min_pages: self.usage_pages.min(self.limits.min_pages),
            low_pages: self.usage_pages.min(self.limits.low_pages),
        }
    }

    /// Whether the group has been removed.
    pub(crate) fn is_offline(&self) -> bool {
        self.life == Life::Offline
    }

    /// Whether nothing keeps it: removed, charged for nothing, and without children.
    fn is_forgettable(&self) -> bool {
        let is_charged = self.usage_pages > 0 || self.swap_pages > 0;
        self.life == Life::Offline && !is_charged && self.first_child == NONE
    }
}

/// All groups of a policy.
#[derive(Debug)]
pub struct GroupTree {
    groups: Vec<Group>,
    /// Free numbers, longest free first.
    free: VecDeque<u16>,
    nr_lruvecs: u16,
    /// Numbers of lruvecs whose groups are gone, longest free first.
    free_lruvecs: VecDeque<u16>,
}

impl GroupTree {
    /// A tree without groups.
    pub(crate) fn new() -> GroupTree {
        GroupTree {
            groups: vec![Group::new("", NONE, 0)],
            free: VecDeque::new(),
            nr_lruvecs: 0,
            free_lruvecs: VecDeque::new(),
        }
    }

    // Looking.

    pub(super) fn node(&self, number: u16) -> &Group {
        &self.groups[usize::from(number)]
    }

    fn node_mut(&mut self, number: u16) -> &mut Group {
        &mut self.groups[usize::from(number)]
    }

    /// A group that is there, online or not.
    pub(crate) fn get(&self, group: GroupId) -> Result<&Group, PolicyError> {
        let is_there = |of: &&Group| group != ROOT && of.life != Life::Free;
        let found = self.groups.get(usize::from(group.0)).filter(is_there);
        found.ok_or(PolicyError::NoGroup(group))
    }

    /// A group that is there, online or not, to be changed.
    pub(crate) fn get_mut(&mut self, group: GroupId) -> Result<&mut Group, PolicyError> {
        self.get(group)?;
        Ok(self.node_mut(group.0))
    }

    /// The group above, the root included; `None` for the root and for what is not there.
    pub(crate) fn parent_or_root(&self, group: GroupId) -> Option<GroupId> {
        let parent = self.get(group).ok()?.parent;
        Some(GroupId(parent))
    }

    /// Path of a group, as printed in the `lru_gen` text.
    pub fn path(&self, group: GroupId) -> Result<&str, PolicyError> {
        Ok(&self.get(group)?.path)
    }

    /// Whether the group is there and has not been removed.
    pub fn is_online(&self, group: GroupId) -> bool {
        self.get(group).is_ok_and(|of| of.life == Life::Online)
    }

    /// What it may use.
    pub fn limits(&self, group: GroupId) -> Result<Limits, PolicyError> {
        Ok(self.get(group)?.limits)
    }

    /// Base pages in memory charged to it and to all below it.
    pub fn usage_pages(&self, group: GroupId) -> Result<u64, PolicyError> {
        Ok(self.get(group)?.usage_pages)
    }

    /// Base pages swapped out and not come back, charged to it and to all below it.
    pub fn swap_pages(&self, group: GroupId) -> Result<u64, PolicyError> {
        Ok(self.get(group)?.swap_pages)
    }

    /// Events of it and of all below it (`memory.events`).
    pub fn events(&self, group: GroupId) -> Result<GroupEvents, PolicyError> {
        Ok(self.get(group)?.events)
    }

    /// Events of it alone (`memory.events.local`).
    pub fn events_local(&self, group: GroupId) -> Result<GroupEvents, PolicyError> {
        Ok(self.get(group)?.events_local)
    }

    /// Base pages it can still swap out before it or a group above it is at `swap.max`.
    pub fn swap_room_pages(&self, group: GroupId) -> Result<u64, PolicyError> {
        let mut room = Limits::MAX;
        self.get(group)?;
        for of in self.upwards(group) {
            room = room.min(of.limits.swap_max_pages.saturating_sub(of.swap_pages));
        }
        Ok(room)
    }

    /// The nearest group, from this one up, that would be above `max` with `nr_new_pages` more.
    pub fn over_max(
        &self,
        group: GroupId,
        nr_new_pages: u64,
    ) -> Result<Option<Excess>, PolicyError> {
        self.get(group)?;
        Ok(self.nearest_above(group, |of| {
            let usage_pages = of.usage_pages + nr_new_pages;
            usage_pages.saturating_sub(of.limits.max_pages)
        }))
    }

    /// The nearest group, from this one up, that is above `high`. Reclaim goes on with its parent:
    /// every group on the way up is put under pressure for itself.
    pub fn over_high(&self, group: GroupId) -> Result<Option<Excess>, PolicyError> {
        self.get(group)?;
        Ok(self.nearest_above(group, |of| {
            of.usage_pages.saturating_sub(of.limits.high_pages)
        }))
    }

    fn nearest_above(&self, group: GroupId, excess: impl Fn(&Group) -> u64) -> Option<Excess> {
        let mut at = group;
        while at != ROOT {
            let of = self.node(at.0);
            let nr_pages = excess(of);
            if nr_pages > 0 {
                return Some(Excess {
                    group: at,
                    nr_pages,
                });
            }
            at = GroupId(of.parent);
        }
        None
    }

    /// A group and those above it, the root left out.
    fn upwards(&self, group: GroupId) -> impl Iterator<Item = &Group> {
        let mut at = group.0;
        std::iter::from_fn(move || {
            (at != ROOT.0).then(|| {
                let of = self.node(at);
                at = of.parent;
                of
            })
        })
    }

    // Births and deaths.

    /// Makes a group below `parent` ([`ROOT`] for one at the top).
    pub(crate) fn add(&mut self, parent: GroupId, path: &str) -> Result<GroupId, PolicyError> {
        if parent != ROOT && self.get(parent)?.life == Life::Offline {
            return Err(PolicyError::GroupOffline(parent));
        }
        let level = self.node(parent.0).level + 1;
        if usize::from(level) > NR_LEVELS_MAX {
            return Err(PolicyError::GroupTooDeep(NR_LEVELS_MAX));
        }
        let mut group = Group::new(path, parent.0, level);
        let last = self.node(parent.0).last_child;
        group.before = last;
        let number = match self.free.pop_front() {
            Some(number) => {
                *self.node_mut(number) = group;
                number
            }
            None => {
                let number = u16::try_from(self.groups.len()).ok();
                let number = number.filter(|n| *n < NONE);
                let number = number.ok_or(PolicyError::TooManyGroups(NONE - 1))?;
                self.groups.push(group);
                number
            }
        };
        self.node_mut(parent.0).last_child = number;
        match last {
            NONE => self.node_mut(parent.0).first_child = number,
            last => self.node_mut(last).after = number,
        }
        Ok(GroupId(number))
    }

    /// Takes a group offline: nobody is charged to it any more, and nothing protects it.
    pub(crate) fn take_offline(&mut self, group: GroupId) -> Result<(), PolicyError> {
        let of = self.get(group)?;
        if of.life == Life::Offline {
            return Err(PolicyError::GroupOffline(group));
        }
        let mut child = of.first_child;
        while child != NONE {
            if self.node(child).life == Life::Online {
                return Err(PolicyError::GroupBusy(group));
            }
            child = self.node(child).after;
        }
        let unprotected = Limits {
            min_pages: 0,
            low_pages: 0,
            ..self.node(group.0).limits
        };
        self.set_limits(group, unprotected)?;
        self.node_mut(group.0).life = Life::Offline;
        Ok(())
    }

    /// The group, if it has been removed and nothing keeps it.
    pub(crate) fn forgettable(&self, group: GroupId) -> Option<GroupId> {
        self.node(group.0).is_forgettable().then_some(group)
    }

    /// Gives a group one more lruvec: its number, either the next that was never used or one whose
    /// group is gone.
    pub(crate) fn add_lruvec(&mut self, group: GroupId) -> Result<u16, PolicyError> {
        self.get(group)?;
        let number = match self.free_lruvecs.pop_front() {
            Some(number) => number,
            None if u32::from(self.nr_lruvecs) == MAX_LRUVECS => {
                return Err(PolicyError::TooManyLruvecs(MAX_LRUVECS));
            }
            None => {
                self.nr_lruvecs += 1;
                self.nr_lruvecs - 1
            }
        };
        self.node_mut(group.0).lruvecs.push(number);
        Ok(number)
    }

    /// Forgets a group that nothing keeps: the one above it, and the numbers of its lruvecs, which
    /// are free now.
    pub(crate) fn forget(&mut self, group: GroupId) -> (GroupId, Vec<u16>) {
        debug_assert!(self.node(group.0).is_forgettable());
        self.move_cursors_off(group);
        let Group {
            parent,
            before,
            after,
            ..
        } = *self.node(group.0);
        match before {
            NONE => self.node_mut(parent).first_child = after,
            before => self.node_mut(before).after = after,
        }
        match after {
            NONE => self.node_mut(parent).last_child = before,
            after => self.node_mut(after).before = before,
        }
        let of = self.node_mut(group.0);
        let lruvecs = std::mem::take(&mut of.lruvecs);
        *of = Group::new("", NONE, 0);
        of.life = Life::Free;
        self.free.push_back(group.0);
        self.free_lruvecs.extend(&lruvecs);
        (GroupId(parent), lruvecs)
    }

    // Limits, charges, events.

    /// Sets what a group may use. Usage above it is brought down by whoever asks next.
    pub(crate) fn set_limits(&mut self, group: GroupId, limits: Limits) -> Result<(), PolicyError> {
        let of = self.get_mut(group)?;
        let before = of.claim();
        of.limits = limits;
        let (parent, now) = (of.parent, of.claim());
        self.move_claim(parent, before, now);
        Ok(())
    }

    fn move_claim(&mut self, parent: u16, before: Claims, now: Claims) {
        let claims = &mut self.node_mut(parent).claims;
        claims.min_pages = claims.min_pages - before.min_pages + now.min_pages;
        claims.low_pages = claims.low_pages - before.low_pages + now.low_pages;
    }

    /// Base pages came into memory for a group.
    pub(crate) fn charge(&mut self, group: GroupId, nr_pages: u64) {
        self.change_usage(group, |usage| *usage += nr_pages);
    }

    /// Base pages of a group left memory.
    pub(crate) fn uncharge(&mut self, group: GroupId, nr_pages: u64) {
        self.change_usage(group, |usage| *usage -= nr_pages);
    }

    fn change_usage(&mut self, group: GroupId, change: impl Fn(&mut u64)) {
        let mut at = group.0;
        while at != ROOT.0 {
            let of = self.node_mut(at);
            let before = of.claim();
            change(&mut of.usage_pages);
            let (now, parent) = (of.claim(), of.parent);
            if before != now {
                self.move_claim(parent, before, now);
            }
            at = parent;
        }
        change(&mut self.node_mut(ROOT.0).usage_pages);
    }

    /// Base pages of a group went to swap.
    pub(crate) fn charge_swap(&mut self, group: GroupId, nr_pages: u64) {
        self.node_mut(group.0).own_swap_pages += nr_pages;
        self.change_swap(group, |swap| *swap += nr_pages);
    }

    /// Base pages of a group are no longer in swap; no more than it has there.
    pub(crate) fn uncharge_swap(&mut self, group: GroupId, nr_pages: u64) {
        let own = &mut self.node_mut(group.0).own_swap_pages;
        let nr_pages = nr_pages.min(*own);
        *own -= nr_pages;
        self.change_swap(group, |swap| *swap -= nr_pages);
    }

    fn change_swap(&mut self, group: GroupId, change: impl Fn(&mut u64)) {
        let mut at = group.0;
        while at != NONE {
            let of = self.node_mut(at);
            change(&mut of.swap_pages);
            at = of.parent;
        }
    }

    /// Counts an event of a group, and of all above it.
    pub(crate) fn count(&mut self, group: GroupId, event: GroupEvent) {
        self.node_mut(group.0).events_local.count(event);
        let mut at = group.0;
        while at != NONE {
            let of = self.node_mut(at);
            of.events.count(event);
            at = of.parent;
        }
    }

    /// Bytes allocated for groups.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let of_group = |of: &Group| {
            of.path.capacity() + (of.lruvecs.capacity() + of.cursors.capacity()) * size_of::<u16>()
        };
        let nr_free = self.free.capacity() + self.free_lruvecs.capacity();
        let fixed = self.groups.capacity() * size_of::<Group>() + nr_free * size_of::<u16>();
        (fixed + self.groups.iter().map(of_group).sum::<usize>()) as u64
    }

    /// Recounts usage and claims from `own_pages` (base pages of each group's own folios, by
    /// number), and checks the links. `owners` says of each lruvec which group it is of, [`ROOT`]
    /// where its number is free.
    pub(crate) fn validate(
        &self,
        own_pages: &[u64],
        owners: impl Iterator<Item = GroupId>,
    ) -> Result<(), String> {
        let mut nr_lruvecs = 0;
        for (number, owner) in owners.enumerate() {
            let number = number as u16;
            let is_known = match owner {
                ROOT => self.free_lruvecs.contains(&number),
                owner => self.node(owner.0).lruvecs.contains(&number),
            };
            if !is_known {
                return Err(format!("lruvec {number} is not of {owner:?}"));
            }
            nr_lruvecs += 1;
        }
        let nr_owned: usize = self.groups.iter().map(|of| of.lruvecs.len()).sum();
        let nr_numbers = usize::from(self.nr_lruvecs);
        if [nr_lruvecs, nr_owned + self.free_lruvecs.len()] != [nr_numbers; 2] {
            return Err(format!(
                "{nr_lruvecs} lruvecs, {nr_owned} owned, {nr_numbers} numbers"
            ));
        }
        let mut nr_reached = 0;
        for (number, of) in self.groups.iter().enumerate() {
            let (number, own) = (number as u16, own_pages.get(number).copied().unwrap_or(0));
            if of.life == Life::Free {
                if own > 0 || !self.free.contains(&number) {
                    return Err(format!("group {number} is free and holds {own} pages"));
                }
                continue;
            }
            let (mut usage, mut claims, mut swap) = (own, Claims::default(), of.own_swap_pages);
            let (mut child, mut before) = (of.first_child, NONE);
            while child != NONE {
                let below = self.node(child);
                let is_linked = below.parent == number && below.before == before;
                let is_alive = below.life != Life::Free;
                let is_under_living = of.life == Life::Online || below.life == Life::Offline;
                if !is_linked || !is_alive || !is_under_living || below.level != of.level + 1 {
                    return Err(format!("group {child} is no child of {number}: {below:?}"));
                }
                usage += below.usage_pages;
                swap += below.swap_pages;
                claims.min_pages += below.claim().min_pages;
                claims.low_pages += below.claim().low_pages;
                nr_reached += 1;
                (before, child) = (child, below.after);
            }
            if of.last_child != before {
                return Err(format!("group {number}: the last child is not {before}"));
            }
            if usage != of.usage_pages || claims != of.claims || swap != of.swap_pages {
                return Err(format!(
                    "group {number}: {usage} pages, {claims:?}, {swap} swapped: {of:?}"
                ));
            }
            if of.is_forgettable() {
                return Err(format!("group {number} is kept for nothing"));
            }
        }
        if nr_reached + 1 + self.free.len() != self.groups.len() {
            return Err(format!("{nr_reached} groups are reached from the root"));
        }
        Ok(())
    }

    /// Where partial walks of a group's subtree left off; `None` before the first.
    pub(super) fn cursor(&self, group: GroupId, node: NodeId) -> Option<GroupId> {
        let at = self.node(group.0).cursors.get(usize::from(node.0)).copied();
        at.filter(|at| *at != NONE).map(GroupId)
    }

    /// Remembers where a partial walk left off.
    pub(super) fn set_cursor(&mut self, group: GroupId, node: NodeId, at: Option<GroupId>) {
        let cursors = &mut self.node_mut(group.0).cursors;
        if cursors.len() <= usize::from(node.0) {
            cursors.resize(usize::from(node.0) + 1, NONE);
        }
        cursors[usize::from(node.0)] = at.map_or(NONE, |at| at.0);
    }

    /// A group is about to go: walks that left off there go on from the one before it.
    fn move_cursors_off(&mut self, group: GroupId) {
        let before = self.before_in_walk(group);
        let mut at = self.node(group.0).parent;
        while at != NONE {
            let of = self.node_mut(at);
            for cursor in of.cursors.iter_mut().filter(|of| **of == group.0) {
                *cursor = before.0;
            }
            at = of.parent;
        }
    }
}
