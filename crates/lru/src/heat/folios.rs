//! What is known of the folios in memory: how hot, whose, and how they stand; columns by number.
//!
//! There are as many of these as pages, so each byte counts: five a folio, and five more where folios that
//! cost the same go in the order they came and lie on several nodes.
//!
//! **Owns** the columns. **Does not own** what they say of a folio (`by_heat`), its kind and size (the policy
//! within), or its owner (`owners`).
//!
//! **Invariants** I1: a number without a folio has no owner.

use super::{Heat, owners::OwnerNo};
use crate::ids::{FolioId, NodeId};

/// Grows by this many folios at a time, because doubling would cost more than it saves.
const GROWTH_FOLIOS: usize = 1 << 14;

/// Whether something holds of a folio, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(u8);

impl Marks {
    pub(super) const NONE: Marks = Marks(0);
    /// Accessed since the last walk, by whoever found out.
    pub(super) const SEEN: Marks = Marks(1);
    /// Stands in its group's row.
    pub(super) const RANKED: Marks = Marks(1 << 1);
    /// In a batch, or on its way to another node.
    pub(super) const ISOLATED: Marks = Marks(1 << 2);
    /// Gone while it was isolated: its number is not free yet.
    pub(super) const GONE: Marks = Marks(1 << 3);
    /// Was tried and won't go soon.
    pub(super) const ASIDE: Marks = Marks(1 << 4);
    /// Taken for one that will be used soon.
    pub(super) const WARM: Marks = Marks(1 << 5);
    /// Came since the last walk.
    pub(super) const NEW: Marks = Marks(1 << 6);
    /// One page.
    pub(super) const BASE: Marks = Marks(1 << 7);

    pub(super) fn has(self, mark: Marks) -> bool {
        self.0 & mark.0 != 0
    }

    pub(super) fn set(&mut self, mark: Marks, is_set: bool) {
        match is_set {
            true => self.0 |= mark.0,
            false => self.0 &= !mark.0,
        }
    }

    /// Whether the folio is in memory and may be evicted.
    #[inline]
    pub(super) fn may_be_ranked(self) -> bool {
        self.0 & (Marks::GONE.0 | Marks::ASIDE.0) == 0
    }

    pub(super) fn with(self, mark: Marks, is_set: bool) -> Marks {
        let mut marks = self;
        marks.set(mark, is_set);
        marks
    }
}

/// A folio that is put into the columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Folio {
    pub(super) heat: Heat,
    pub(super) owner: OwnerNo,
    pub(super) marks: Marks,
    /// Folios that came before it, wrapping; 0 where nobody asks.
    pub(super) arrival: u32,
    pub(super) node: NodeId,
}

/// The columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Folios {
    pub(super) heats: Vec<Heat>,
    pub(super) owners: Vec<OwnerNo>,
    pub(super) marks: Vec<Marks>,
    /// Empty while nobody asks.
    arrivals: Vec<u32>,
    /// Empty while there is one node.
    nodes: Vec<NodeId>,
}

impl Folios {
    /// Numbers there is room for.
    pub(super) fn len(&self) -> usize {
        self.owners.len()
    }

    /// A folio came.
    pub(super) fn put(&mut self, number: FolioId, folio: Folio) {
        let at = number.index();
        if self.len() <= at {
            grow(&mut self.heats, at, Heat::NONE);
            grow(&mut self.owners, at, OwnerNo::NONE);
            grow(&mut self.marks, at, Marks::NONE);
        }
        self.heats[at] = folio.heat;
        self.owners[at] = folio.owner;
        self.marks[at] = folio.marks;
        if folio.arrival != 0 || at < self.arrivals.len() {
            grow(&mut self.arrivals, at, 0);
            self.arrivals[at] = folio.arrival;
        }
        self.set_node(number, folio.node);
    }

    /// A number is free.
    pub(super) fn remove(&mut self, number: FolioId) {
        let at = number.index();
        (self.owners[at], self.marks[at]) = (OwnerNo::NONE, Marks::NONE);
    }

    /// Whose a folio is; `None` where there is none.
    pub(super) fn owner(&self, number: FolioId) -> Option<OwnerNo> {
        let owner = self.owners.get(number.index()).copied();
        owner.filter(|owner| *owner != OwnerNo::NONE)
    }

    /// How a folio stands; nothing holds of what is not there.
    pub(super) fn marks(&self, number: FolioId) -> Marks {
        let marks = self.marks.get(number.index());
        marks.copied().unwrap_or(Marks::NONE)
    }

    /// Of a folio that is there, that something holds, or not.
    pub(super) fn mark(&mut self, number: FolioId, mark: Marks, is_set: bool) {
        if self.owner(number).is_some() {
            self.marks[number.index()].set(mark, is_set);
        }
    }

    /// A folio that is there was found accessed.
    #[inline]
    pub(super) fn saw(&mut self, number: FolioId) {
        if let Some(marks) = self.marks.get_mut(number.index()) {
            marks.0 |= Marks::SEEN.0;
        }
    }

    /// Folios that came before this one.
    pub(super) fn arrival(&self, number: FolioId) -> u32 {
        self.arrivals.get(number.index()).copied().unwrap_or(0)
    }

    /// Where a folio lies.
    pub(super) fn node(&self, number: FolioId) -> NodeId {
        let node = self.nodes.get(number.index());
        node.copied().unwrap_or(NodeId(0))
    }

    /// A folio lies there now.
    pub(super) fn set_node(&mut self, number: FolioId, node: NodeId) {
        let at = number.index();
        if node != NodeId(0) || at < self.nodes.len() {
            grow(&mut self.nodes, at, NodeId(0));
            self.nodes[at] = node;
        }
    }

    /// Visits all that are there.
    pub(super) fn iter(&self) -> impl Iterator<Item = (FolioId, OwnerNo, Heat, Marks)> {
        let columns = self
            .owners
            .iter()
            .zip(&self.heats)
            .zip(&self.marks)
            .zip(0..);
        columns.filter_map(|(((owner, heat), marks), number)| {
            (*owner != OwnerNo::NONE).then_some((FolioId(number), *owner, *heat, *marks))
        })
    }

    /// All folios, those that stand in a row and are one owner's together: the number of the first, and columns.
    pub(super) fn runs(&self) -> impl Iterator<Item = (u32, OwnerNo, &[Heat], &[Marks])> {
        let (mut first, owners) = (0, self.owners.chunk_by(|owner, next| owner == next));
        let runs = owners.map(move |run| {
            let columns = first..first + run.len();
            first = columns.end;
            let (heats, marks) = (&self.heats[columns.clone()], &self.marks[columns.clone()]);
            (columns.start as u32, run[0], heats, marks)
        });
        runs.filter(|(_, owner, ..)| *owner != OwnerNo::NONE)
    }

    /// A copy of a folio, for another owner.
    pub(super) fn copy(&self, original: FolioId, owner: OwnerNo) -> Folio {
        Folio {
            heat: self.heats[original.index()],
            owner,
            marks: self.marks[original.index()],
            arrival: self.arrival(original),
            node: self.node(original),
        }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let bytes = self.heats.capacity() * size_of::<Heat>()
            + self.owners.capacity() * size_of::<OwnerNo>()
            + self.marks.capacity() * size_of::<Marks>()
            + self.arrivals.capacity() * size_of::<u32>()
            + self.nodes.capacity() * size_of::<NodeId>();
        bytes as u64
    }
}

/// Makes room for one at `at`, and some more.
fn grow<T: Copy>(column: &mut Vec<T>, at: usize, filler: T) {
    if at >= column.len() {
        let len = (at / GROWTH_FOLIOS + 1) * GROWTH_FOLIOS;
        column.reserve_exact(len - column.len());
        column.resize(len, filler);
    }
}
