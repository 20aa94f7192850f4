//! Where a folio enters that moved between nodes (rules 7).
//!
//! **Owns** its place, and how recently it was used. **Does not own** the move (`books::migration`).

use super::{MultiGen, placement::Standing};
use crate::{books::Mover, folio::Flags, ids::FolioId, tiering::Recency};

impl Mover for MultiGen {
    fn recency(&self, folio: FolioId, flags: Flags) -> Recency {
        let lruvec = &self.books.lruvecs[flags.lruvec()];
        Recency::Generation {
            below_max: self.generation(folio).map(|seq| lruvec.max_seq - seq.0),
            is_saturated: self.counting.is_saturated(flags),
            sets_no_flag: self.counting.sets_no_flag(flags),
        }
    }

    fn enter_moved(&mut self, folio: FolioId, was_active: bool) {
        let standing = match was_active {
            true => Standing::Active,
            false => Standing::unwanted(self.flags(folio).kind()),
        };
        self.enter(folio, standing);
    }
}
