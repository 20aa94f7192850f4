//! The memcg LRU: which group of a node is reclaimed next under global pressure (rules 5.1).
//!
//! Visiting every group each time memory runs short costs as much as there are groups. So groups
//! are kept as pages are: in generations, taken from the old one until it is empty. Within a
//! generation they lie in bins; which bin a group goes to and which bin a walk begins with is drawn,
//! so that walks at the same time press different groups.
//!
//! ```text
//!            old generation               young generation        (third slot: nobody)
//!     bin 0   [ g ]-[ g ]                  [ g ]
//!     bin 1   [ g ]                                                seq % 3 is old,
//!      ...                                                         seq + 1 is young
//!     bin 7   [ g ]-[ g ]-[ g ]            [ g ]-[ g ]
//!              head      tail
//! ```
//!
//! | move  | to                          | segment | when                                              |
//! |-------|-----------------------------|---------|---------------------------------------------------|
//! | Head  | head of a bin, same generation | head | above its soft limit                              |
//! | Tail  | tail of a bin, same generation | tail | below low or too small, the first time            |
//! | Old   | head of a bin, old          | default | removed while charged                             |
//! | Young | tail of a bin, young        | default | walked, below min, or too small the second time   |
//!
//! When the old generation runs empty the young one is old. The kernel's lists can be changed while
//! they are walked, and so can these: between two steps of a walk anything may happen to groups.
//!
//! **Owns** the order, the segments, the walk of one pass. **Does not own** the decision which move
//! is due (`reclaim`), or what happens at a group.
//!
//! **Invariants**
//! - I1: a group of the node is in exactly one bin of one of the two valid generations.
//! - I2: the old generation is not empty as long as there is a group.
//! - I3: in one old generation a group that is only ever put off is visited at most twice.

mod walk;

#[cfg(test)]
mod tests;

use crate::{ids::GroupId, random::Random};

pub(crate) use walk::BinWalk;

/// Slots for generations; two are in use, the third guards against stale readers in the kernel.
const NR_SLOTS: usize = 3;

/// Bins of a generation.
pub(crate) const NR_BINS: usize = 8;

/// In place of a group's number: there is none.
const NONE: u16 = u16::MAX;

/// Where a group has been put within its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    Default,
    Head,
    Tail,
}

/// What can be done with a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Head,
    Tail,
    Old,
    Young,
}

/// A bin of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    slot: usize,
    bin: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    place: Option<Place>,
    segment: Segment,
    before: u16,
    after: u16,
}

impl Entry {
    const ABSENT: Entry = Entry {
        place: None,
        segment: Segment::Default,
        before: NONE,
        after: NONE,
    };
}

#[derive(Clone, Copy, Debug)]
struct Bin {
    head: u16,
    tail: u16,
}

/// The groups of one node, in the order in which global pressure takes them.
#[derive(Debug)]
pub struct MemcgLru {
    seq: u64,
    nr_groups: [u32; NR_SLOTS],
    bins: [[Bin; NR_BINS]; NR_SLOTS],
    /// By number of the group.
    entries: Vec<Entry>,
    random: Random,
}

impl MemcgLru {
    /// No groups; `seed` decides all draws.
    pub(crate) fn new(seed: u64) -> MemcgLru {
        let empty = Bin {
            head: NONE,
            tail: NONE,
        };
        MemcgLru {
            seq: 0,
            nr_groups: [0; NR_SLOTS],
            bins: [[empty; NR_BINS]; NR_SLOTS],
            entries: Vec::new(),
            random: Random::new(seed),
        }
    }

    /// Groups of the node.
    pub fn nr_groups(&self) -> u32 {
        self.nr_groups.iter().sum()
    }

    /// How often the young generation has become the old one.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    fn old_slot(&self) -> usize {
        (self.seq % NR_SLOTS as u64) as usize
    }

    fn young_slot(&self) -> usize {
        ((self.seq + 1) % NR_SLOTS as u64) as usize
    }

    fn entry(&self, group: GroupId) -> Entry {
        let entry = self.entries.get(usize::from(group.0));
        entry.copied().unwrap_or(Entry::ABSENT)
    }

    fn draw_bin(&mut self) -> usize {
        self.random.below(NR_BINS)
    }

    /// Whether a group is here, and in which segment.
    pub(crate) fn segment(&self, group: GroupId) -> Option<Segment> {
        let entry = self.entry(group);
        entry.place.map(|_| entry.segment)
    }

    /// A group came to the node: it is as old as the oldest.
    pub(crate) fn add(&mut self, group: GroupId) {
        debug_assert!(self.entry(group).place.is_none(), "{group:?} is here");
        let number = usize::from(group.0);
        if self.entries.len() <= number {
            self.entries.resize(number + 1, Entry::ABSENT);
        }
        let place = Place {
            slot: self.old_slot(),
            bin: self.draw_bin(),
        };
        self.push_tail(group, place, Segment::Default);
    }

    /// A group is gone.
    pub(crate) fn remove(&mut self, group: GroupId) {
        self.unlink(group);
        self.turn_if_old_is_empty();
    }

    /// Puts a group at the head of its generation, unless it was put there already.
    pub(crate) fn bring_forward(&mut self, group: GroupId) {
        if self.segment(group) != Some(Segment::Head) {
            self.rotate(group, Move::Head);
        }
    }

    /// Moves a group that is here; nothing happens to another.
    pub(crate) fn rotate(&mut self, group: GroupId, by: Move) {
        let Some(place) = self.entry(group).place else {
            return;
        };
        let bin = self.draw_bin();
        self.unlink(group);
        let to = |slot| Place { slot, bin };
        match by {
            Move::Head => self.push_head(group, to(place.slot), Segment::Head),
            Move::Tail => self.push_tail(group, to(place.slot), Segment::Tail),
            Move::Old => self.push_head(group, to(self.old_slot()), Segment::Default),
            Move::Young => self.push_tail(group, to(self.young_slot()), Segment::Default),
        }
        self.turn_if_old_is_empty();
    }

    fn turn_if_old_is_empty(&mut self) {
        if self.nr_groups[self.old_slot()] == 0 {
            self.seq += 1;
        }
    }

    fn push_head(&mut self, group: GroupId, place: Place, segment: Segment) {
        let after = self.bins[place.slot][place.bin].head;
        self.link(group, place, segment, NONE, after);
    }

    fn push_tail(&mut self, group: GroupId, place: Place, segment: Segment) {
        let before = self.bins[place.slot][place.bin].tail;
        self.link(group, place, segment, before, NONE);
    }

    fn link(&mut self, group: GroupId, place: Place, segment: Segment, before: u16, after: u16) {
        self.entries[usize::from(group.0)] = Entry {
            place: Some(place),
            segment,
            before,
            after,
        };
        self.set_after(before, place, group.0);
        self.set_before(after, place, group.0);
        self.nr_groups[place.slot] += 1;
    }

    fn unlink(&mut self, group: GroupId) {
        let entry = self.entry(group);
        let Some(place) = entry.place else { return };
        self.set_after(entry.before, place, entry.after);
        self.set_before(entry.after, place, entry.before);
        self.nr_groups[place.slot] -= 1;
        self.entries[usize::from(group.0)] = Entry::ABSENT;
    }

    fn set_after(&mut self, number: u16, place: Place, after: u16) {
        match number {
            NONE => self.bins[place.slot][place.bin].head = after,
            number => self.entries[usize::from(number)].after = after,
        }
    }

    fn set_before(&mut self, number: u16, place: Place, before: u16) {
        match number {
            NONE => self.bins[place.slot][place.bin].tail = before,
            number => self.entries[usize::from(number)].before = before,
        }
    }

    /// Bytes allocated.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (size_of::<MemcgLru>() + self.entries.capacity() * size_of::<Entry>()) as u64
    }

    /// Recounts the bins; `groups` are those that must be here, in any order.
    pub(crate) fn validate(&self, groups: impl Iterator<Item = GroupId>) -> Result<(), String> {
        let mut nr_reached = [0; NR_SLOTS];
        for (slot, bins) in self.bins.iter().enumerate() {
            for (bin, ends) in bins.iter().enumerate() {
                let (mut number, mut before) = (ends.head, NONE);
                while number != NONE {
                    let entry = self.entries[usize::from(number)];
                    if entry.place != Some(Place { slot, bin }) || entry.before != before {
                        return Err(format!("group {number} in bin {bin} of {slot}: {entry:?}"));
                    }
                    nr_reached[slot] += 1;
                    (before, number) = (number, entry.after);
                }
                if ends.tail != before {
                    return Err(format!("bin {bin} of {slot} ends at {before}: {ends:?}"));
                }
            }
        }
        if nr_reached != self.nr_groups {
            let counted = self.nr_groups;
            return Err(format!(
                "{nr_reached:?} groups are reached, counted {counted:?}"
            ));
        }
        let third = (self.young_slot() + 1) % NR_SLOTS;
        let is_turned = self.nr_groups[self.old_slot()] > 0 || self.nr_groups() == 0;
        if self.nr_groups[third] > 0 || !is_turned {
            return Err(format!("seq {} and {:?} groups", self.seq, self.nr_groups));
        }
        let mut nr_expected = 0;
        for group in groups {
            if self.segment(group).is_none() {
                return Err(format!("{group:?} is missing"));
            }
            nr_expected += 1;
        }
        if nr_expected != self.nr_groups() {
            return Err(format!(
                "{} groups, expected {nr_expected}",
                self.nr_groups()
            ));
        }
        Ok(())
    }
}
