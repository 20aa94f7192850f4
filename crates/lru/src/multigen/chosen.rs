//! Eviction of folios that somebody else has chosen, by an order that generations do not have.
//!
//! **Owns** taking exactly these folios, wherever they are. **Does not own** the choice (`heat` is
//! one) or what becomes of them, which is as for any batch (`eviction`).
//!
//! **Invariants** I1: what is isolated, gone, forbidden by swappiness or younger than `min_ttl` is
//! left alone.

use super::MultiGen;
use crate::{
    ids::{FolioId, GenSeq, TimeMs},
    seam::EvictBatch,
    swappiness::Swappiness,
};

impl MultiGen {
    pub(super) fn isolate_these(
        &mut self,
        folios: &mut dyn Iterator<Item = FolioId>,
        nr_pages_max: u64,
        swappiness: Swappiness,
        now: TimeMs,
        batch: &mut EvictBatch,
    ) -> u64 {
        batch.clear();
        let now = self.books.tell_time(now);
        let born_before = self.born_before(now);
        let mut nr_pages = 0;
        while nr_pages < nr_pages_max
            && let Some(folio) = folios.next()
        {
            let Some(flags) = self.books.folios.flags.get(folio.index()).copied() else {
                continue;
            };
            let Some(generation) = flags.generation() else {
                continue;
            };
            let lruvec = &mut self.books.lruvecs[flags.lruvec()];
            lruvec.account.stats.nr_scanned_pages += flags.nr_pages();
            let birth = lruvec.birth(GenSeq(lruvec.seq_of_index(generation)));
            let is_too_young = born_before.is_some_and(|limit| birth >= limit);
            if is_too_young || !swappiness.allows(flags.kind()) {
                continue;
            }
            lruvec.account.stats.nr_isolated_pages += flags.nr_pages();
            self.isolate_folio(folio);
            batch.folios.push(folio);
            nr_pages += flags.nr_pages();
        }
        nr_pages
    }
}
