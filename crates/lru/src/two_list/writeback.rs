//! Folios that can go sooner than their place says: hinted cold, or written after they were due.
//!
//! ```text
//!   due, dirty  -> active head, marked -> written -> inactive tail: the next to leave
//!   hinted cold -> inactive head, nothing remembered of any access
//! ```
//!
//! **Owns** both moves and the mark. **Does not own** when a folio is written (the mechanism), or the
//! marking (`reclaim`).

use super::{TwoList, page::Half};
use crate::{ids::FolioId, rules::ListEnd, seam::WriteState};

impl TwoList {
    /// A cold hint (rules 1.4).
    pub(super) fn cool(&mut self, folio: FolioId) {
        let flags = self.books.present(folio);
        let cold = flags.with_referenced(false).without_young();
        self.books.set_flags(folio, cold);
        if flags.half() == Some(Half::Active) {
            self.books.detach(folio);
            self.enter(folio, Half::Inactive);
        }
    }

    /// A folio became dirty or began to be written, or is clean again. One that was due while it was
    /// not is the next to leave now, unless it was written to since (rules 8.3).
    pub(super) fn wait_for_writeback(&mut self, folio: FolioId, state: WriteState) {
        let flags = self.books.present(folio);
        self.books.set_flags(folio, flags.with_rotate(false));
        let is_due = flags.is_to_rotate() && state == WriteState::Clean;
        // A folio of a batch is on no list to be moved in.
        if is_due && !flags.is_isolated() {
            self.books.detach(folio);
            let half = Half::Inactive.index();
            self.books.enter(folio, half, ListEnd::Old);
        }
    }
}
