//! Refault distance for generations: how far beyond memory a page was (rules 4.3).
//!
//! The window of generations forgets what is larger than memory: a file read round and round goes
//! through the oldest generation, every page of it returns, and none is the better for it. Distance
//! looks at how much of its kind left in between. A page that was missed by a little is made part of
//! the working set and speaks for the tiers above the first, so eviction spares the working set and
//! takes what is read for the first time: a part of the file stays.
//!
//! ```text
//!   distance, in memory    0 .. 1/4                   .. 3                      beyond
//!   read again             one in 2: working set      one in 16: working set    by the window
//!   faulted again          one in 16: working set     one in 16                 by the window
//!   the others             by the window              by the window
//!   spared for its tier    no longer working set
//! ```
//!
//! From the series of 2023 and its described descendant: clocks of a kind driven by evictions alone,
//! judged against what memory holds (file, and anon if it can be swapped), a quarter of it as
//! "short", and that a short return of the first tier is made workingset and credited to the next.
//! Ours, because those as described keep nothing of a file of 1.5 times memory, and let a working
//! set that is no longer used crowd out the next one:
//! - One return in a few is given a chance. Were all, they would displace each other as before; one
//!   in sixteen stays for as many rounds.
//! - A fault alone is not taken for a short return: a walk will tell whether the page is hot.
//! - Returns that get no chance are judged by the window, and get back what they had earned. Where
//!   the window is the oldest generation alone (up to 6.13) they tell the controller nothing, or the
//!   first tier's rate would be as high as that of those that did, and protect neither.
//! - A folio is spared once for having come back, then it has to be accessed (as in kernels up to
//!   6.13, where sparing takes the workingset flag).
//!
//! [`Refault::Series`] is what its third version does instead. Every page whose distance is below what is active (the two
//! youngest generations), or inactive if that is less, has one access more than it left with, and the controller hears of it
//! under the tier that makes. What left from the first tier enters the second oldest generation, others the youngest; those
//! that come from farther are judged by the window. Where nothing is active, as in a group of page cache alone that is read
//! round and round, no distance is below it.
//!
//! The clock also tells, to one of its buckets, which generation was the oldest when a page left, so the
//! window's judgement can be had from the same shadow: a trial (`trial`) chooses between the two by group.
//!
//! What it comes to, and where it is the worse for it, is in docs/validation/benchmarks/distance.md.
//!
//! **Owns** the judgement by distance. **Does not own** clocks or shadows ([`crate::distance`]).
//!
//! **Invariants**
//! - I1: with `Refault::Window` nothing here runs; only the clock's reading is noted for each generation.

use super::{MultiGen, placement::Standing};
use crate::{
    config::Refault,
    counting::Counting,
    distance::{Departed, Sizes},
    folio::Flags,
    ids::{FolioId, Kind},
    lruvec::Lruvec,
    rules::{Recency, Rules},
    seam::{Cause, Shadow},
};

impl Lruvec {
    /// Takes the clock's reading along and advances it.
    pub(super) fn departed(&mut self, flags: Flags, counting: Counting) -> Departed {
        let nr_resident_pages = Kind::ALL.map(|kind| self.nr_pages_of(kind)).iter().sum();
        let clock = &mut self.distances.clocks[flags.kind().index()];
        clock.widen(nr_resident_pages);
        let (refs_less_one, is_workingset) = counting.to_shadow(flags);
        let departed = Departed::new(flags, refs_less_one, is_workingset, *clock);
        clock.advance(flags.nr_pages());
        departed
    }

    /// Whether a folio left within the kernel's window, told from the clock: since the generation
    /// that had to be the oldest for that became it.
    fn left_in_window(&self, departed: Departed, rules: &Rules) -> bool {
        let kind = departed.kind;
        let seq = match rules.refault.recency {
            Recency::SameOldest => self.min_seq[kind.index()],
            Recency::Window => (self.max_seq + 1).saturating_sub(rules.nr_gens.into()),
        };
        let distance = self.distances.clocks[kind.index()].since(departed.reading);
        distance <= self.distances.since_mark(kind, seq)
    }

    /// Whether a return is near enough by the test of the series. The two youngest generations are what is active, as
    /// where the kernel counts its pages.
    fn is_kept_by_series(&self, departed: Departed, has_swap: bool) -> bool {
        let distance = self.distances.clocks[departed.kind.index()].since(departed.reading);
        let mut sizes = Sizes::default();
        for kind in Kind::ALL {
            let active = [self.max_seq, self.max_seq - 1]
                .map(|seq| self.nr_pages[self.generation_index(seq)][kind.index()]);
            let nr_active_pages = active.iter().sum();
            sizes.active[kind.index()] = nr_active_pages;
            sizes.inactive[kind.index()] = self.nr_pages_of(kind) - nr_active_pages;
        }
        sizes.keep_series(departed.kind, distance, has_swap)
    }

    /// Whether a return deserves a place in the working set by distance in memory.
    fn is_wanted_back(&mut self, departed: Departed, cause: Cause, has_swap: bool) -> bool {
        let distance = self.distances.clocks[departed.kind.index()].since(departed.reading);
        let anon = if has_swap {
            self.nr_pages_of(Kind::Anon)
        } else {
            0
        };
        let memory = self.nr_pages_of(Kind::File) + anon;
        let returns = &mut self.distances.nr_returns;
        returns.gives_chance(cause, distance, memory)
    }
}

impl MultiGen {
    /// Judges the return of a folio that is on no list yet, by the clock's reading in its shadow; how it stands by that
    /// alone.
    pub(super) fn refault_by_distance(
        &mut self,
        folio: FolioId,
        shadow: Shadow,
        cause: Cause,
    ) -> Option<Standing> {
        let flags = self.flags(folio);
        let departed = Departed::unpack(shadow);
        // Charged elsewhere now, or another page at the same place: the shadow tells nothing.
        if !departed.is_of(flags) {
            return None;
        }
        let lruvec = &mut self.books.lruvecs[flags.lruvec()];
        let rule = self.judge.rule(lruvec.account.group);
        let (kind, nr_pages) = (flags.kind(), flags.nr_pages());
        let (less_one, is_workingset) = (departed.refs_less_one, departed.is_workingset);
        let refs = self.counting.refs_of_shadow(less_one, is_workingset);
        let tier = self.counting.tier_of(refs, is_workingset);
        lruvec.account.stats.nr_refaulted_pages[kind.index()][tier] += nr_pages;
        if rule == Refault::Series && lruvec.is_kept_by_series(departed, self.has_swap) {
            lruvec.account.stats.nr_refaulted_recent_pages[kind.index()][tier] += nr_pages;
            let new_tier = self.counting.tier_of(refs + 1, is_workingset);
            lruvec.controller.refaulted(kind, new_tier, nr_pages);
            let flags = self.counting.with_one_more(flags, refs, is_workingset);
            self.books.set_flags(folio, flags);
            return Some(match tier {
                0 => Standing::Returned,
                _ => Standing::Wanted,
            });
        }
        if rule == Refault::Distance && lruvec.is_wanted_back(departed, cause, self.has_swap) {
            lruvec.account.stats.nr_refaulted_recent_pages[kind.index()][tier] += nr_pages;
            // It speaks for those above the first tier even if it was never above it.
            let tier = tier.max(1).min(self.counting.nr_tiers() - 1);
            lruvec.controller.refaulted(kind, tier, nr_pages);
            let field = less_one.min(self.counting.field_max());
            let flags = flags.with_refs_field(field).with_workingset(true);
            self.books.set_flags(folio, flags);
            return None;
        }
        if !lruvec.left_in_window(departed, &self.rules) {
            return None;
        }
        if rule != Refault::Distance || self.rules.refault.recency == Recency::Window {
            lruvec.account.stats.nr_refaulted_recent_pages[kind.index()][tier] += nr_pages;
            lruvec.controller.refaulted(kind, tier, nr_pages);
        }
        let flags = self.restored(flags, less_one, is_workingset, cause);
        self.books.set_flags(folio, flags);
        None
    }
}
