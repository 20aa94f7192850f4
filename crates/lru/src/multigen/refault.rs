//! Refaults: what the return of an evicted folio teaches (rules 4.1).
//!
//! A folio that comes back soon was evicted too early. The controller hears of it under the tier the
//! folio had, and the folio gets back what it had earned.
//!
//! **Owns** the judgement of a return. **Does not own** the shadow's layout (`shadow`) or what the
//! controller makes of it.

use super::MultiGen;
use crate::{
    folio::Flags,
    ids::FolioId,
    rules::Restoration,
    seam::{Cause, Shadow},
    shadow::Evicted,
};

impl MultiGen {
    /// Judges the return of a folio that is on no list yet.
    pub(super) fn refault(&mut self, folio: FolioId, shadow: Shadow, cause: Cause) {
        let flags = self.flags(folio);
        let evicted = Evicted::unpack(shadow);
        // Charged elsewhere now, or another page at the same place: the shadow tells nothing.
        if evicted.lruvec != flags.lruvec() || evicted.kind != flags.kind() {
            return;
        }
        let lruvec = &mut self.books.lruvecs[flags.lruvec()];
        let (kind, nr_pages) = (flags.kind(), flags.nr_pages());
        let (less_one, is_workingset) = (evicted.refs_less_one, evicted.is_workingset);
        let refs = self.counting.refs_of_shadow(less_one, is_workingset);
        let tier = self.counting.tier_of(refs, is_workingset);
        lruvec.account.stats.nr_refaulted_pages[kind.index()][tier] += nr_pages;
        let (min_seq, max_seq) = (lruvec.min_seq[kind.index()], lruvec.max_seq);
        let (recency, nr_gens) = (self.rules.refault.recency, self.rules.nr_gens.into());
        if !evicted.is_recent(recency, min_seq, max_seq, nr_gens) {
            return;
        }
        lruvec.account.stats.nr_refaulted_recent_pages[kind.index()][tier] += nr_pages;
        lruvec.controller.refaulted(kind, tier, nr_pages);
        let flags = self.restored(flags, less_one, is_workingset, cause);
        self.books.set_flags(folio, flags);
    }

    /// The flags of a folio that came back soon, by what its shadow says of its accesses.
    pub(super) fn restored(
        &self,
        flags: Flags,
        refs_less_one: u32,
        is_workingset: bool,
        cause: Cause,
    ) -> Flags {
        let refs = self.counting.refs_of_shadow(refs_less_one, is_workingset);
        let field_max = self.counting.field_max();
        let nr_refs_needed = match self.rules.refault.restoration {
            Restoration::IfFull => field_max + 1,
            Restoration::IfNearlyFull => field_max,
            Restoration::WhatItHad if is_workingset => return flags.with_workingset(true),
            Restoration::WhatItHad => {
                return flags.with_refs_field(refs_less_one.min(field_max));
            }
        };
        if cause == Cause::Fault || refs >= nr_refs_needed {
            flags.with_refs_field(field_max).with_workingset(true)
        } else {
            flags
        }
    }
}
