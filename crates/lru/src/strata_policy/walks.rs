//! When accessed bits are read ahead of need.
//!
//! Of what is mapped only looking finds accesses, and a fault sets the accessed bit of the page it brings
//! in. So who looks at a page only when it should go finds all of a memory that has only just filled
//! accessed, each once: a hot set, a scan and a phase that is over look the same. A bit that was read while
//! memory filled and is set again says something.
//!
//! ```text
//!   arrivals     a b c d e f g h i j k l m n ...
//!   walks                  |         |        after each 5 % of memory that is new
//!   a's bit      set       read      set again: accessed, and lately
//! ```
//!
//! A walk is due when as much of memory is new as the length of the trial is told by (`window`): ages then
//! are known as finely as returns are judged. Before memory is full that is a share of what is there, so
//! that nobody has to know how much there will be. Each arrival pays for twenty folios looked at (and for
//! the other entries of their tables), whatever the size of memory; where nothing is mapped there are
//! no walks.
//!
//! **Owns** when a walk is due. **Does not own** the walk (the mechanism), or what is made of an access
//! (`arrival`).

use super::window::ZONES_PER_MEMORY;

/// What came since the last walk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walks {
    nr_new_pages: u64,
    has_mapped: bool,
}

impl Walks {
    /// Base pages arrived, by a fault or otherwise.
    pub(super) fn note_arrived(&mut self, nr_pages: u64, is_mapped: bool) {
        self.nr_new_pages += nr_pages;
        self.has_mapped |= is_mapped;
    }

    /// All accessed bits have been read.
    pub(super) fn note_walked(&mut self) {
        self.nr_new_pages = 0;
    }

    /// Whether all accessed bits should be read, with so many base pages in memory.
    pub(super) fn is_due(self, nr_pages: u64) -> bool {
        let is_new = self.nr_new_pages > 0;
        is_new && self.has_mapped && self.nr_new_pages.saturating_mul(ZONES_PER_MEMORY) >= nr_pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_is_due_after_each_twentieth_of_memory_that_is_new() {
        let mut walks = Walks::default();
        assert!(!walks.is_due(0));
        walks.note_arrived(49, true);
        assert!(!walks.is_due(1000));
        walks.note_arrived(1, true);
        assert!(walks.is_due(1000));
        walks.note_walked();
        assert!(!walks.is_due(1000));
    }

    #[test]
    fn descriptors_alone_need_no_walks_but_turn_memory_over_as_well() {
        let mut walks = Walks::default();
        walks.note_arrived(900, false);
        assert!(!walks.is_due(1000));
        walks.note_arrived(1, true);
        assert!(walks.is_due(1000));
    }
}
