//! Look-around: what is young beside a folio that eviction found young (rules 2.6).
//!
//! Accesses come in neighbourhoods, and the reverse map that led eviction to one entry has the
//! expensive part behind it: the entries beside it are read for next to nothing. Their folios are
//! promoted before eviction gets to them, and a table with many of them goes into the filter that
//! the next walk reads.
//!
//! **Owns** what the neighbours gain. **Does not own** the folio found young itself (its verdict is
//! [`Verdict::Referenced`](crate::Verdict::Referenced)) or the window
//! ([`look_around_window`](crate::look_around_window)).

use super::MultiGen;
use crate::{
    ids::FolioId,
    rules::ListEnd,
    seam::AccessVia,
    walk::{LookAround, LookAroundBy, is_dense},
};

impl MultiGen {
    /// Promotes the young neighbours of the folio's own lruvec.
    pub(super) fn look_around(&mut self, around: LookAround<'_>) {
        let lruvec = self.flags(around.folio).lruvec();
        let mut nr_young = 0;
        let mut last = None;
        for &folio in around.young {
            if self.flags(folio).lruvec() != lruvec {
                continue;
            }
            nr_young += 1;
            // A folio mapped by several entries is one access, not several.
            if last.replace(folio) != Some(folio) {
                self.neighbour_young(folio, around.by);
            }
        }
        let state = &mut self.books.lruvecs[lruvec];
        state.walk.stats.nr_look_around_entries += u64::from(around.nr_entries);
        let nr_young = self.rules.walk.nr_look_around_young_first + nr_young;
        if is_dense(u64::from(around.nr_entries), nr_young) {
            state.walk.filters.insert(state.max_seq, around.table);
        }
    }

    fn neighbour_young(&mut self, folio: FolioId, by: LookAroundBy) {
        let before = self.flags(folio).generation();
        self.found_young(folio);
        self.judge.accessed(folio, AccessVia::PageTable);
        let flags = self.flags(folio);
        let is_promoted = flags.generation() != before;
        if by == LookAroundBy::Walker || !is_promoted {
            return;
        }
        let youngest = self.books.lruvecs[flags.lruvec()].youngest_index();
        self.books.move_to_end(folio, youngest, ListEnd::Young);
    }
}
