//! Promotion: what one access changes (rules 1.4 and 1.5).
//!
//! A walk reports thousands of folios a millisecond, so an access touches the folio's flags word
//! and its generation's size, never a list: eviction sorts the list when it gets there.
//!
//! ```text
//!   seen young:     fresh -> referenced -> workingset, youngest generation -> (stays)
//!   read or written through a descriptor, N times:
//!                   referenced -> refs 1 -> 2 -> 3 -> workingset    (tiers 0, 1, 2, 2, 3)
//! ```
//!
//! **Owns** both counts. **Does not own** tiers' effect (`eviction`).

use super::MultiGen;
use crate::{folio::Flags, ids::FolioId, lruvec::Lruvec};

impl MultiGen {
    /// A walk found the accessed bit set. Only the second time the folio is promoted: the first
    /// may be no more than the fault that brought it.
    pub(super) fn found_young(&mut self, folio: FolioId) {
        let flags = self.flags(folio);
        debug_assert!(
            flags.is_live() && !flags.is_gone(),
            "{folio:?} is not in memory"
        );
        let lruvec = &mut self.lruvecs[flags.lruvec()];
        let nr_pages = flags.nr_pages();
        lruvec.stats.nr_young_pages += nr_pages;
        if !flags.is_referenced() && !flags.is_workingset() {
            self.folios.flags[folio.index()] = flags.with_referenced();
            return;
        }
        let flags = flags.without_refs().with_workingset();
        // An isolated folio is in no generation; the flag speaks for it when it comes back.
        let Some(generation) = flags.generation() else {
            self.folios.flags[folio.index()] = flags;
            return;
        };
        let youngest = Lruvec::generation_index(lruvec.max_seq);
        if generation != youngest {
            let kind = flags.kind().index();
            lruvec.nr_pages[generation][kind] -= nr_pages;
            lruvec.nr_pages[youngest][kind] += nr_pages;
            lruvec.stats.nr_promoted_pages += nr_pages;
        }
        self.folios.flags[folio.index()] = flags.with_generation(Some(youngest));
    }

    /// An access through a file descriptor: counted, and weighed as a tier when it is due.
    pub(super) fn count_access(&mut self, folio: FolioId) {
        let flags = self.flags(folio);
        debug_assert!(
            flags.is_live() && !flags.is_gone(),
            "{folio:?} is not in memory"
        );
        self.folios.flags[folio.index()] = if !flags.is_referenced() {
            flags.with_refs_field(0).with_referenced()
        } else if flags.refs_field() < Flags::REFS_MAX {
            flags.with_refs_field(flags.refs_field() + 1)
        } else {
            flags.with_workingset()
        };
    }
}
