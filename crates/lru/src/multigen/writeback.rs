//! Folios that wait for writeback: dirty ones of files, and any that is being written (rules 3.1.5).
//!
//! Such a folio can't be dropped yet. Up to 7.1 eviction steps over it when it is due and marks it
//! ([`Dirty::SteppedOver`](crate::rules::Dirty)); once it is written it goes to the old end of the
//! oldest generation, so that it is the next to leave.
//!
//! ```text
//!   clean -> waiting -> due: next generation, marked -> written: oldest generation, old end
//!               |
//!               +-> written before it was due: stays where it is
//! ```
//!
//! **Owns** both marks. **Does not own** when a folio is written (the mechanism) or the stepping over
//! (`eviction`).

use super::{MultiGen, placement::Standing};
use crate::{ids::FolioId, seam::WriteState};

impl MultiGen {
    /// A folio became dirty or began to be written, or is clean again.
    pub(super) fn wait_for_writeback(&mut self, folio: FolioId, state: WriteState) {
        let flags = self.books.present(folio);
        let is_waiting = state == WriteState::Waiting;
        let is_due = flags.is_to_rotate() && !is_waiting;
        let marked = flags.with_waiting(is_waiting);
        let marked = if is_due {
            marked.with_rotate(false)
        } else {
            marked
        };
        self.books.set_flags(folio, marked);
        // A folio of a batch is on no list to be moved in.
        if is_due && !flags.is_isolated() {
            self.books.detach(folio);
            self.enter(folio, Standing::Rotated);
        }
    }
}
