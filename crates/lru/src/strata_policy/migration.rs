//! Where a folio enters that moved between nodes, and what that teaches.
//!
//! Each node learns for itself. A folio that is moved down has left its node as one that is evicted has; one that
//! comes up has come back, and says that the order of last use was wrong there. Times are counts of the
//! accesses to one node, so a folio that moved begins to wait anew.
//!
//! **Owns** its place, and the counts. **Does not own** the move (`books::migration`).

use super::{Strata, page::Part};
use crate::{books::Mover, folio::Flags, ids::FolioId, tiering::Recency};

impl Mover for Strata {
    fn recency(&self, _folio: FolioId, flags: Flags) -> Recency {
        Recency::List {
            is_active: flags.part() == Some(Part::Proven),
        }
    }

    /// Proven is who has passed the test, wherever that was.
    fn enter_moved(&mut self, folio: FolioId, _was_active: bool) {
        let state = &self.books.lruvecs[self.flags(folio).lruvec()];
        self.stamps[folio.index()] = state.nr_accesses as u32;
        self.enter(folio);
    }

    fn take_off(&mut self, folio: FolioId) {
        self.stop_ageing(folio);
    }

    fn go_down(&mut self, folio: FolioId, flags: Flags) {
        let age = self.age(folio);
        let state = &mut self.books.lruvecs[flags.lruvec()];
        state.note_left(flags.home(), flags.nr_pages(), age);
    }

    fn come_up(&mut self, folio: FolioId) {
        let lruvec = self.flags(folio).lruvec();
        self.books.lruvecs[lruvec].recency.note_returned();
    }
}
