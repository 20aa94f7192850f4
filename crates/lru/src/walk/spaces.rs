//! The address spaces of each group, in the order they came, and how walkers share them (rules 2.3).
//!
//! A walk of a group visits its address spaces one after the other. Several walkers may do that
//! together: each takes the next space, and the one that finds the end of the list ends the walk for
//! all. A space that has not run since it was last taken is passed over, unless it came after the
//! previous walk ended.
//!
//! ```text
//!         0            head                 tail             end
//!         |  taken      |  known, not taken  |  new: always   |
//!         +-------------+--------------------+----------------+ <- added
//! ```
//!
//! The kernel chains spaces and keeps pointers into the chain; positions in a row say the same, and
//! what has to be stepped back when a space is removed is a subtraction.
//!
//! **Owns** the rows, the "has run" marks, the cursors. **Does not own** what a walk does with a
//! space, or generations.
//!
//! **Invariants**
//! - I1: a live space is in exactly one row, once.
//! - I2: `head <= end` and `tail <= end` for each cursor.
//! - I3: between two ends of a cursor each space is taken at most once.

use crate::ids::{GroupId, NodeId, NodeSet};

/// An address space that walks visit; its number is used again after the space is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpaceSlot(pub u32);

impl SpaceSlot {
    fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, Debug)]
struct Space {
    group: GroupId,
    is_live: bool,
    /// The nodes that have not taken the space since it last ran.
    has_run: NodeSet,
    /// Base pages by kind, as far as the mechanism tells.
    nr_pages: [u64; 2],
}

/// All address spaces.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    slots: Vec<Space>,
    free: Vec<SpaceSlot>,
    /// By number of the group.
    rows: Vec<Vec<SpaceSlot>>,
}

impl Spaces {
    /// Adds a space at the end of a group's row.
    pub(crate) fn add(&mut self, group: GroupId) -> SpaceSlot {
        let space = Space {
            group,
            is_live: true,
            has_run: NodeSet::default(),
            nr_pages: [u64::MAX; 2],
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id.index()] = space;
                id
            }
            None => {
                let id =
                    SpaceSlot(u32::try_from(self.slots.len()).expect("fewer than 2^32 spaces"));
                self.slots.push(space);
                id
            }
        };
        let row = usize::from(group.0);
        if self.rows.len() <= row {
            self.rows.resize_with(row + 1, Vec::new);
        }
        self.rows[row].push(id);
        id
    }

    /// Whose a space is.
    pub(crate) fn group(&self, id: SpaceSlot) -> GroupId {
        let space = &self.slots[id.index()];
        assert!(space.is_live, "{id:?} is gone");
        space.group
    }

    /// A group's spaces in the order they came.
    pub(crate) fn row(&self, group: GroupId) -> &[SpaceSlot] {
        self.rows
            .get(usize::from(group.0))
            .map_or(&[], Vec::as_slice)
    }

    /// Forgets a space; the position it had in its group's row, for the group's cursors.
    pub(crate) fn remove(&mut self, id: SpaceSlot) -> usize {
        let row = &mut self.rows[usize::from(self.slots[id.index()].group.0)];
        let position = row.iter().position(|of| *of == id);
        let position = position.expect("a live space is in its group's row");
        row.remove(position);
        self.slots[id.index()].is_live = false;
        self.free.push(id);
        position
    }

    /// A space was put on a processor.
    pub(crate) fn note_run(&mut self, id: SpaceSlot) {
        self.slots[id.index()].has_run = NodeSet::ALL;
    }

    /// How much a space maps.
    pub(crate) fn set_nr_pages(&mut self, id: SpaceSlot, nr_pages: [u64; 2]) {
        self.slots[id.index()].nr_pages = nr_pages;
    }

    /// Base pages of a space by kind.
    pub(crate) fn nr_pages(&self, id: SpaceSlot) -> [u64; 2] {
        self.slots[id.index()].nr_pages
    }

    /// Whether a space ran since this was last asked for the node.
    pub(crate) fn take_run_mark(&mut self, id: SpaceSlot, node: NodeId) -> bool {
        self.slots[id.index()].has_run.remove(node)
    }

    /// Bytes allocated.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let ids = self.rows.iter().map(Vec::capacity).sum::<usize>() + self.free.capacity();
        let rows = self.rows.capacity() * size_of::<Vec<SpaceSlot>>();
        let slots = self.slots.capacity() * size_of::<Space>();
        (slots + rows + ids * size_of::<SpaceSlot>()) as u64
    }

    /// Checks that each live space is in its group's row, once, and no other is in any.
    pub(crate) fn validate(&self) -> Result<(), String> {
        let mut nr_rows = vec![0; self.slots.len()];
        for (group, row) in self.rows.iter().enumerate() {
            for id in row {
                let space = &self.slots[id.index()];
                if !space.is_live || usize::from(space.group.0) != group {
                    return Err(format!("{id:?} in the row of group {group} is {space:?}"));
                }
                nr_rows[id.index()] += 1;
            }
        }
        for (number, (space, nr_rows)) in self.slots.iter().zip(nr_rows).enumerate() {
            if nr_rows != u32::from(space.is_live) {
                return Err(format!("space {number} is in {nr_rows} rows: {space:?}"));
            }
        }
        let nr_dead = self.slots.iter().filter(|space| !space.is_live).count();
        if nr_dead != self.free.len() {
            return Err(format!("{nr_dead} spaces gone, {} free", self.free.len()));
        }
        Ok(())
    }
}

/// What a walker finds at a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A space not taken yet in this iteration.
    Space {
        id: SpaceSlot,
        /// Whether the space came after the previous iteration ended.
        is_new: bool,
        /// Nobody took or passed over a space in this iteration before.
        is_first: bool,
    },
    /// The end: this walker, and no other, ends the iteration.
    End,
    /// Another walker has ended the iteration.
    Over,
}

/// How far the walkers of one lruvec are in its group's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The last generation whose iteration has ended.
    seq: u64,
    head: usize,
    tail: usize,
}

impl Cursor {
    /// No iteration has ended yet while `max_seq` is the youngest generation.
    pub(crate) fn new(max_seq: u64) -> Cursor {
        let seq = max_seq - 1;
        Cursor {
            seq,
            head: 0,
            tail: 0,
        }
    }

    /// The next space for a walker of generation `seq`.
    pub(crate) fn next(&mut self, seq: u64, row: &[SpaceSlot]) -> Found {
        if seq <= self.seq {
            return Found::Over;
        }
        let Some(id) = row.get(self.head) else {
            self.seq += 1;
            self.head = 0;
            return Found::End;
        };
        let is_first = self.head == 0;
        let is_new = self.head >= self.tail;
        self.head += 1;
        self.tail = self.tail.max(self.head);
        let id = *id;
        Found::Space {
            id,
            is_new,
            is_first,
        }
    }

    /// A generation ends without anybody having walked: every space counts as new.
    pub(crate) fn skip_to(&mut self, max_seq: u64) {
        if self.seq < max_seq {
            *self = Cursor {
                seq: max_seq,
                head: 0,
                tail: 0,
            };
        }
    }

    /// The space at a position was removed.
    pub(crate) fn removed(&mut self, position: usize) {
        self.head -= usize::from(position < self.head);
        self.tail -= usize::from(position < self.tail);
    }

    /// Checks the cursor against the length of its row and the youngest generation.
    pub(crate) fn validate(self, nr_spaces: usize, max_seq: u64) -> Result<(), String> {
        let is_at_hand = self.seq == max_seq || self.seq + 1 == max_seq;
        if self.head > nr_spaces || self.tail > nr_spaces || !is_at_hand {
            return Err(format!("{self:?} with {nr_spaces} spaces at {max_seq}"));
        }
        Ok(())
    }
}
