//! Refaults: what the return of an evicted folio teaches (rules 4.1).
//!
//! A folio that comes back within four generations was evicted too early. The controller hears of
//! it under the tier the folio had, and the folio gets back what it had earned.
//!
//! **Owns** the judgement of a return. **Does not own** the shadow's layout (`shadow`) or what the
//! controller makes of it.

use super::MultiGen;
use crate::{controller::tier_of, ids::FolioId, seam::Shadow, shadow::Evicted};

impl MultiGen {
    /// Judges the return of a folio that is on no list yet.
    pub(super) fn refault(&mut self, folio: FolioId, shadow: Shadow) {
        let flags = self.flags(folio);
        let evicted = Evicted::unpack(shadow);
        // Charged elsewhere now, or another page at the same place: the shadow tells nothing.
        if evicted.lruvec != flags.lruvec() || evicted.kind != flags.kind() {
            return;
        }
        let lruvec = &mut self.lruvecs[flags.lruvec()];
        let (kind, nr_pages) = (flags.kind(), flags.nr_pages());
        lruvec.stats.nr_refaulted_pages[kind.index()] += nr_pages;
        if !evicted.is_recent(lruvec.max_seq, self.model.nr_recent_gens) {
            return;
        }
        lruvec.stats.nr_refaulted_recent_pages[kind.index()] += nr_pages;
        let tier = tier_of(evicted.refs, evicted.is_workingset);
        lruvec.controller.refaulted(kind, tier, nr_pages);
        self.folios.flags[folio.index()] = if evicted.is_workingset {
            flags.with_workingset()
        } else {
            flags.with_refs_field(evicted.refs - 1)
        };
    }
}
