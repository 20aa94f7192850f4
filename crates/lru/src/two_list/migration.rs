//! Where a folio enters that moved between nodes (rules 7).
//!
//! **Owns** its list, and what a run hears of it. **Does not own** the move (`books::migration`).

use super::{TwoList, page::Half};
use crate::{books::Mover, folio::Flags, ids::FolioId, tiering::Recency};

impl Mover for TwoList {
    fn recency(&self, _folio: FolioId, flags: Flags) -> Recency {
        Recency::List {
            is_active: flags.half() == Some(Half::Active),
        }
    }

    fn enter_moved(&mut self, folio: FolioId, was_active: bool) {
        let half = match was_active {
            true => Half::Active,
            false => Half::Inactive,
        };
        self.enter(folio, half);
    }

    fn go_down(&mut self, _folio: FolioId, flags: Flags) {
        self.reclaimed(flags.lruvec(), flags.nr_pages());
    }
}
