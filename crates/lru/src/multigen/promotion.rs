//! Promotion: what one access changes (rules 1.4 and 1.5).
//!
//! A walk reports thousands of folios a millisecond, so an access touches the folio's flags word
//! and its generation's size, never a list: eviction sorts the list when it gets there.
//!
//! ```text
//!   seen young, from 6.14 on:
//!                   fresh -> referenced -> workingset, youngest generation -> (stays)
//!   seen young, before:
//!                   fresh -> youngest generation, all counts forgotten
//!   read or written through a descriptor, N times:
//!                   tiers 0, 0, 1, 2, 2, 3 (see `counting`)
//! ```
//!
//! **Owns** what an observation changes. **Does not own** how accesses are counted (`counting`) or
//! the tiers' effect (`eviction`).

use super::{MultiGen, placement::Standing};
use crate::{folio::Flags, ids::FolioId, rules::Promotion};

impl MultiGen {
    /// A walk found the accessed bit set. By the rules from 6.14 on only the second time promotes:
    /// the first may be no more than the fault that brought the folio.
    pub(super) fn found_young(&mut self, folio: FolioId) {
        let flags = self.books.present(folio);
        let lruvec = &mut self.books.lruvecs[flags.lruvec()];
        let nr_pages = flags.nr_pages();
        lruvec.account.stats.nr_young_pages += nr_pages;
        let Some(promoted) = self.promoted(flags) else {
            self.books.set_flags(folio, flags.with_referenced(true));
            return;
        };
        // An isolated folio is in no generation; the flags speak for it when it comes back.
        let Some(generation) = flags.generation() else {
            self.books.folios.flags[folio.index()] = match self.rules.promotion {
                Promotion::AtOnce => flags.with_referenced(true),
                Promotion::SecondTime | Promotion::SecondTimeUnlessExec => promoted,
            };
            return;
        };
        let lruvec = &mut self.books.lruvecs[flags.lruvec()];
        let youngest = lruvec.youngest_index();
        if generation != youngest {
            let kind = flags.kind().index();
            lruvec.nr_pages[generation][kind] -= nr_pages;
            lruvec.nr_pages[youngest][kind] += nr_pages;
            lruvec.account.stats.nr_promoted_pages += nr_pages;
        }
        self.books
            .set_flags(folio, promoted.with_generation(Some(youngest)));
    }

    /// The flags of a folio that a walk found young, if that promotes it.
    fn promoted(&self, flags: Flags) -> Option<Flags> {
        let is_known = flags.is_referenced() || flags.is_workingset();
        let is_second_time = match self.rules.promotion {
            Promotion::AtOnce => return Some(self.counting.forget(flags)),
            Promotion::SecondTime => is_known,
            Promotion::SecondTimeUnlessExec => is_known || flags.is_exec(),
        };
        is_second_time.then(|| self.counting.forget(flags).with_workingset(true))
    }

    /// An access through a file descriptor: counted, and weighed as a tier when it is due.
    pub(super) fn count_access(&mut self, folio: FolioId) {
        let flags = self.books.present(folio);
        self.books.set_flags(folio, self.counting.count(flags));
    }

    /// A cold hint: forgets what was counted and puts the folio where one enters that nobody waits for,
    /// unless it is in the oldest generation already. Anon may be the younger for it.
    pub(super) fn cool(&mut self, folio: FolioId) {
        let flags = self.books.present(folio);
        let flags = self.counting.cool(flags);
        self.books.set_flags(folio, flags);
        let oldest = self.books.lruvecs[flags.lruvec()].oldest_index(flags.kind());
        if flags
            .generation()
            .is_some_and(|generation| generation != oldest)
        {
            self.books.detach(folio);
            self.enter(folio, Standing::unwanted(flags.kind()));
        }
    }
}
