//! Ageing: how the window of generations moves up (rules 2.1 and 2.2).
//!
//! A walk ends with a new youngest generation. Nothing is moved for that: every folio that was not
//! promoted is one generation older because `max_seq` grew. Only when as many generations are in use
//! as there is room for (four in the kernel) has the oldest to be merged into the next first.
//!
//! **Owns** when a walk is due, `max_seq`, `min_seq`. **Does not own** the walk (the mechanism).
//!
//! **Invariants**
//! - I1: `max_seq` grows by one a walk, `min_seq` never falls.
//! - I2: the controller's period of a kind ends exactly when its `min_seq` moves.
//!
//! A kind that swappiness forbids is not sorted: its oldest generation keeps its place in the ring
//! of generations and so becomes part of the youngest. The kernel accepts that inversion of cold and hot,
//! and so do we: sorting would touch every folio of a kind that can't be evicted anyway.

use super::MultiGen;
use crate::{
    ids::MIN_NR_GENS,
    ids::{FolioId, Kind, TimeMs},
    lruvec::Lruvec,
    rules::{AgeingRule, Coupling, ListEnd},
    seam::Ageing,
    swappiness::Swappiness,
};

impl Lruvec {
    /// Whether a walk is due. Never over nothing.
    pub(super) fn ageing(&self, rule: AgeingRule, swappiness: Swappiness) -> Ageing {
        if self.nr_evictable_pages(swappiness) == 0 {
            return Ageing::NotDue;
        }
        self.ageing_of_window(rule, swappiness)
    }

    /// Whether a walk is due by the window and the sizes in it, even if all are 0: due when only the
    /// two youngest generations are left, and perhaps preferred when there is one more.
    pub(super) fn ageing_of_window(&self, rule: AgeingRule, swappiness: Swappiness) -> Ageing {
        let oldest = self.oldest_evictable_seq(swappiness).0;
        match self.max_seq.cmp(&(oldest + MIN_NR_GENS)) {
            std::cmp::Ordering::Less => Ageing::Due,
            std::cmp::Ordering::Greater => Ageing::NotDue,
            std::cmp::Ordering::Equal => {
                let is_preferred = match rule {
                    AgeingRule::WhenMust => false,
                    AgeingRule::BySizes => self.is_out_of_balance(oldest, swappiness),
                    AgeingRule::ByWindow | AgeingRule::ByWindowAtOnce => true,
                };
                match is_preferred {
                    true => Ageing::Preferred,
                    false => Ageing::NotDue,
                }
            }
        }
    }

    /// Whether the youngest generation holds more than a half, or the oldest less than a quarter.
    fn is_out_of_balance(&self, oldest: u64, swappiness: Swappiness) -> bool {
        let size = |seq| {
            let sizes = self.nr_pages[self.generation_index(seq)];
            let allowed = Kind::ALL
                .into_iter()
                .filter(|kind| swappiness.allows(*kind));
            allowed.map(|kind| sizes[kind.index()]).sum::<u64>()
        };
        let nr_pages = self.nr_evictable_pages(swappiness);
        size(self.max_seq) * 2 > nr_pages || size(oldest) * 4 < nr_pages
    }

    /// Ends the controller's period and drops the oldest generation of a kind.
    fn advance_min_seq(&mut self, kind: Kind, min_seq: u64) {
        self.controller.carry_over(kind);
        for seq in self.min_seq[kind.index()] + 1..=min_seq {
            self.distances.mark(kind, seq);
        }
        self.min_seq[kind.index()] = min_seq;
    }
}

impl MultiGen {
    /// A new youngest generation, born `now`.
    pub(super) fn inc_max_seq(&mut self, lruvec: usize, swappiness: Swappiness, now: TimeMs) {
        for kind in Kind::ALL {
            if self.books.lruvecs[lruvec].nr_gens(kind) == u64::from(self.rules.nr_gens) {
                self.inc_min_seq(lruvec, kind, swappiness);
            }
        }
        let lruvec = &mut self.books.lruvecs[lruvec];
        // Whoever walked has ended the iteration already; without a walk it ends here.
        lruvec.walk.cursor.skip_to(lruvec.max_seq);
        lruvec.begin_generation(now);
    }

    /// Makes room for a generation: merges the oldest of a kind into the next, or, where the kind
    /// can't be evicted, into the coming youngest.
    fn inc_min_seq(&mut self, lruvec: usize, kind: Kind, swappiness: Swappiness) {
        if swappiness.allows(kind) {
            let oldest = self.books.lruvecs[lruvec].oldest_list(kind);
            while let Some(folio) = self.books.lists.tail(oldest) {
                self.spare_unsorted(folio);
            }
        } else {
            self.books.lruvecs[lruvec].has_overlapped[kind.index()] = true;
        }
        let next = self.books.lruvecs[lruvec].min_seq[kind.index()] + 1;
        self.books.lruvecs[lruvec].advance_min_seq(kind, next);
    }

    /// Moves a folio of the oldest list to the old end of where it belongs now.
    fn spare_unsorted(&mut self, folio: FolioId) {
        let flags = self.flags(folio);
        let (kind, nr_pages) = (flags.kind(), flags.nr_pages());
        let lruvec = &mut self.books.lruvecs[flags.lruvec()];
        if self.rules.protection.is_merge_counted && !self.counting.is_saturated(flags) {
            let tier = self.counting.tier(flags);
            lruvec.controller.protected(kind, tier, nr_pages);
        }
        let generation = self.inc_gen(folio);
        self.books.move_to_end(folio, generation, ListEnd::Old);
    }

    /// Makes a folio of the oldest generation one younger, unless a walk promoted it meanwhile;
    /// returns the index of the generation it is in then.
    pub(super) fn inc_gen(&mut self, folio: FolioId) -> usize {
        let flags = self.flags(folio);
        let lruvec = &mut self.books.lruvecs[flags.lruvec()];
        let kind = flags.kind();
        let oldest = lruvec.oldest_index(kind);
        match flags.generation() {
            Some(generation) if generation != oldest => generation,
            _ => {
                let next = lruvec.generation_index(lruvec.min_seq[kind.index()] + 1);
                lruvec.nr_pages[oldest][kind.index()] -= flags.nr_pages();
                lruvec.nr_pages[next][kind.index()] += flags.nr_pages();
                let flags = self.counting.forget(flags);
                self.books
                    .set_flags(folio, flags.with_generation(Some(next)));
                next
            }
        }
    }

    /// Drops oldest generations that have run empty; whether any was dropped.
    ///
    /// While both kinds may be evicted, one is kept from running ahead of the other: else only one
    /// kind would be left to take from.
    pub(super) fn try_to_inc_min_seq(&mut self, lruvec: usize, swappiness: Swappiness) -> bool {
        let state = &mut self.books.lruvecs[lruvec];
        let mut min_seq = state.min_seq;
        for kind in Kind::ALL
            .into_iter()
            .filter(|kind| swappiness.allows(*kind))
        {
            let seq = &mut min_seq[kind.index()];
            while *seq + MIN_NR_GENS <= state.max_seq
                && self
                    .books
                    .lists
                    .is_empty(state.list(state.generation_index(*seq), kind))
            {
                *seq += 1;
            }
        }
        if Kind::ALL.into_iter().all(|kind| swappiness.allows(kind)) {
            let last_evictable = state.max_seq - MIN_NR_GENS;
            min_seq = coupled(self.rules.coupling, min_seq, state.min_seq, last_evictable);
        }
        let mut has_advanced = false;
        for kind in Kind::ALL {
            if min_seq[kind.index()] > state.min_seq[kind.index()] {
                state.advance_min_seq(kind, min_seq[kind.index()]);
                has_advanced = true;
            }
        }
        has_advanced
    }
}

/// Where the windows may begin, each wanting to begin at `wanted` (rules 1.2).
fn coupled(rule: Coupling, wanted: [u64; 2], before: [u64; 2], last_evictable: u64) -> [u64; 2] {
    let [mut anon, mut file] = wanted;
    match rule {
        Coupling::Free => {}
        Coupling::Together => {
            // Anon stays behind file, which moves on no further than anon does.
            anon = anon.min(file);
            file = anon.max(before[Kind::File.index()]);
        }
        Coupling::OneApart if anon > last_evictable && file < last_evictable => {
            anon = last_evictable;
        }
        Coupling::OneApart if file > last_evictable && anon < last_evictable => {
            file = last_evictable;
        }
        Coupling::OneApart => {}
    }
    [anon, file]
}
