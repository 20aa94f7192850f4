//! Eviction: who leaves, who is spared, and what becomes of a batch (rules 3.1 and 3.3).
//!
//! Eviction looks at the oldest list of a kind from its old end and sorts as it goes:
//!
//! ```text
//!   promoted by a walk since       -> the list of the generation it is in
//!   of a protected tier, saturated -> one generation younger
//!   else                           -> isolated, into the batch
//! ```
//!
//! The mechanism tries the batch and answers with verdicts. What did not leave comes back, but not
//! to the oldest generation: it would be tried again at once.
//!
//! **Owns** the sorting, batches, verdicts, departures. **Does not own** the choice of kind and
//! tier (`controller`) or the window (`ageing`).
//!
//! **Invariants**
//! - I1: an isolated folio is on no list, in no generation's size, and in one batch.
//! - I2: nothing is taken from the two youngest generations.
//! - I3: isolated, evicted by request, evicted by the kernel and rejected are counters of their own.

use super::{MultiGen, placement::Standing};
use crate::{
    controller::tier_of,
    folio::Flags,
    ids::{FolioId, GenSeq, Kind, TimeMs},
    lruvec::{Lruvec, MIN_NR_GENS},
    seam::{
        Ageing, EvictBatch, GoneCause, Isolated, PolicyError, ReclaimRequest, Shadow, Swappiness,
        Verdict,
    },
    shadow::Evicted,
};

/// The priority of relaxed scanning: a walk is not preferred to going on (rules 2.1).
pub(super) const PRIORITY_RELAXED: u8 = 12;

/// What is asked of one lruvec.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    pub(super) nr_pages: u64,
    pub(super) swappiness: Swappiness,
    pub(super) priority: u8,
    /// Generations born after this are not taken; `None` takes any.
    pub(super) born_before: Option<TimeMs>,
    /// The youngest generation to take from while an older one is left.
    pub(super) last_seq: GenSeq,
}

/// What a pass over one kind's oldest list found.
#[derive(Clone, Copy, Debug, Default)]
struct Pass {
    nr_isolated_pages: u64,
    has_run_out_of_budget: bool,
}

impl MultiGen {
    /// Fills a batch from the nodes of a group.
    pub(super) fn isolate_from_group(
        &mut self,
        request: ReclaimRequest,
        now: TimeMs,
        batch: &mut EvictBatch,
    ) -> Result<Isolated, PolicyError> {
        batch.clear();
        let nr_lruvecs = self.group(request.group)?.lruvecs.len();
        let now = self.tell_time(now);
        let mut nr_pages = 0;
        let mut worst = Isolated::Empty;
        for position in 0..nr_lruvecs {
            if nr_pages >= request.nr_pages {
                break;
            }
            let lruvec = usize::from(self.group(request.group)?.lruvecs[position]);
            let node = self.lruvecs[lruvec].node;
            if request.node.is_some_and(|only| only != node) {
                continue;
            }
            let demand = Demand {
                nr_pages: request.nr_pages - nr_pages,
                swappiness: request.swappiness,
                priority: request.priority,
                born_before: self.born_before(now),
                last_seq: GenSeq(u64::MAX),
            };
            match self.isolate_from_lruvec(lruvec, demand, batch) {
                Isolated::Pages(more) => nr_pages += more,
                end => worst = more_hopeful(worst, end),
            }
        }
        Ok(if nr_pages > 0 {
            Isolated::Pages(nr_pages)
        } else {
            worst
        })
    }

    /// Fills a batch from one lruvec, pass by pass, adding to what it holds.
    pub(super) fn isolate_from_lruvec(
        &mut self,
        lruvec: usize,
        demand: Demand,
        batch: &mut EvictBatch,
    ) -> Isolated {
        let swappiness = demand.swappiness;
        let was_due = self.lruvecs[lruvec].ageing_of_window(swappiness) != Ageing::NotDue;
        let mut nr_pages = 0;
        let end = loop {
            let state = &self.lruvecs[lruvec];
            if nr_pages >= demand.nr_pages {
                break Isolated::Again;
            }
            if state.nr_evictable_pages(swappiness) == 0 {
                break Isolated::Empty;
            }
            let oldest = state.oldest_evictable_seq(swappiness);
            if oldest > demand.last_seq {
                break Isolated::Empty;
            }
            if demand
                .born_before
                .is_some_and(|limit| state.birth(oldest) >= limit)
            {
                break Isolated::Thrashing;
            }
            let pass = self.isolate_folios(lruvec, swappiness, demand.nr_pages - nr_pages, batch);
            nr_pages += pass.nr_isolated_pages;
            let has_advanced = self.try_to_inc_min_seq(lruvec, swappiness);
            let ageing = self.lruvecs[lruvec].ageing_of_window(swappiness);
            if pass.nr_isolated_pages == 0 {
                if pass.has_run_out_of_budget {
                    break Isolated::Again;
                }
                if !has_advanced || ageing == Ageing::Due {
                    break Isolated::NeedsAgeing;
                }
            } else if ageing != Ageing::NotDue && !was_due && demand.priority < PRIORITY_RELAXED {
                break Isolated::NeedsAgeing;
            }
        };
        self.lruvecs[lruvec].stats.nr_isolated_pages += nr_pages;
        if nr_pages > 0 {
            Isolated::Pages(nr_pages)
        } else {
            end
        }
    }

    /// Before when a generation must be born to be taken, `None` if any may.
    fn born_before(&self, now: TimeMs) -> Option<TimeMs> {
        (self.min_ttl_ms > 0).then(|| TimeMs(now.0.saturating_sub(self.min_ttl_ms)))
    }

    /// One pass: the kind the controller chose, then the other if nothing came of it.
    fn isolate_folios(
        &mut self,
        lruvec: usize,
        swappiness: Swappiness,
        nr_pages: u64,
        batch: &mut EvictBatch,
    ) -> Pass {
        let first = self.lruvecs[lruvec].controller.kind_to_scan(swappiness);
        let second = match first {
            Kind::Anon => Kind::File,
            Kind::File => Kind::Anon,
        };
        let mut pass = Pass::default();
        for kind in [first, second] {
            if swappiness.allows(kind) {
                pass = self.scan_folios(lruvec, kind, nr_pages, batch);
            }
            if pass.nr_isolated_pages > 0 || pass.has_run_out_of_budget {
                break;
            }
        }
        pass
    }

    /// Looks at the oldest list of a kind from its old end, within a budget.
    fn scan_folios(
        &mut self,
        lruvec: usize,
        kind: Kind,
        nr_pages: u64,
        batch: &mut EvictBatch,
    ) -> Pass {
        let mut pass = Pass::default();
        let state = &self.lruvecs[lruvec];
        if state.nr_gens(kind) == MIN_NR_GENS {
            return pass;
        }
        let last_tier = state
            .controller
            .last_evictable_tier(kind, self.model.tier_gains);
        let oldest = state.oldest_list(kind);
        let nr_pages_wanted = nr_pages.min(self.model.nr_isolate_pages);
        let mut nr_folios_left = self.model.nr_scan_folios_max;
        while let Some(folio) = self.lists.tail(oldest) {
            let nr_pages = self.flags(folio).nr_pages();
            self.lruvecs[lruvec].stats.nr_scanned_pages += nr_pages;
            if !self.sort_folio(folio, last_tier) {
                self.isolate_folio(folio);
                batch.folios.push(folio);
                pass.nr_isolated_pages += nr_pages;
            }
            nr_folios_left -= 1;
            pass.has_run_out_of_budget = nr_folios_left == 0;
            if pass.has_run_out_of_budget || pass.nr_isolated_pages >= nr_pages_wanted {
                break;
            }
        }
        pass
    }

    /// Moves a folio of the oldest list to where it belongs; `false` if it is there already.
    fn sort_folio(&mut self, folio: FolioId, last_tier: usize) -> bool {
        let flags = self.flags(folio);
        let kind = flags.kind();
        let lruvec = &mut self.lruvecs[flags.lruvec()];
        let oldest = lruvec.oldest_index(kind);
        let tier = tier_of(flags.refs(), flags.is_workingset());
        let generation = match flags.generation() {
            Some(promoted) if promoted != oldest => promoted,
            _ if tier > last_tier || flags.is_saturated() => {
                let nr_pages = flags.nr_pages();
                // Saturated folios are spared by their count, not because the controller says so.
                if !flags.is_saturated() {
                    lruvec.controller.protected(kind, tier, nr_pages);
                }
                lruvec.stats.nr_protected_pages += nr_pages;
                self.inc_gen(folio)
            }
            _ => return false,
        };
        let list = self.lruvecs[flags.lruvec()].list(generation, kind);
        self.lists.remove(&mut self.folios, folio);
        self.lists.push_head(&mut self.folios, list, folio);
        true
    }

    fn isolate_folio(&mut self, folio: FolioId) {
        let flags = self.detach(folio);
        let flags = if flags.is_referenced() {
            flags
        } else {
            flags.with_refs_field(0)
        };
        self.folios.flags[folio.index()] = flags.with_isolated(true);
        self.nr_isolated_folios += 1;
    }

    /// Takes a folio off its list and out of its generation; its flags then.
    pub(super) fn detach(&mut self, folio: FolioId) -> Flags {
        let flags = self.flags(folio);
        if let Some(generation) = flags.generation() {
            let lruvec = &mut self.lruvecs[flags.lruvec()];
            lruvec.nr_pages[generation][flags.kind().index()] -= flags.nr_pages();
            self.lists.remove(&mut self.folios, folio);
        }
        let flags = flags.with_generation(None);
        self.folios.flags[folio.index()] = flags;
        flags
    }

    /// A folio left memory unasked.
    pub(super) fn leave(&mut self, folio: FolioId, cause: GoneCause) -> Option<Shadow> {
        let flags = self.flags(folio);
        assert!(
            flags.is_live() && !flags.is_gone(),
            "{folio:?} is not in memory"
        );
        let shadow = match cause {
            GoneCause::Freed => None,
            GoneCause::Reclaimed => {
                let lruvec = &mut self.lruvecs[flags.lruvec()];
                lruvec.stats.nr_kernel_evicted_pages[flags.kind().index()] += flags.nr_pages();
                let shadow = lruvec.bury(flags);
                self.charge_swap(flags.lruvec(), flags.kind(), flags.nr_pages());
                Some(shadow)
            }
        };
        if flags.is_isolated() {
            self.folios.flags[folio.index()] = flags.with_gone();
        } else {
            self.detach(folio);
            self.release(folio);
        }
        shadow
    }

    /// Learns what became of a batch.
    pub(super) fn complete_batch(&mut self, batch: &mut EvictBatch, verdicts: &[Verdict]) {
        assert_eq!(
            batch.folios.len(),
            verdicts.len(),
            "one verdict for each folio of the batch"
        );
        batch.shadows.clear();
        for (&folio, &verdict) in batch.folios.iter().zip(verdicts) {
            let flags = self.flags(folio);
            assert!(flags.is_isolated(), "{folio:?} is in no batch");
            self.nr_isolated_folios -= 1;
            let verdict = if flags.is_gone() {
                Verdict::Gone
            } else {
                verdict
            };
            let lruvec = &mut self.lruvecs[flags.lruvec()];
            if let Some(reason) = verdict.rejection_index() {
                lruvec.stats.nr_rejected_pages[reason] += flags.nr_pages();
            }
            let shadow = match verdict {
                Verdict::Evicted => {
                    lruvec.stats.nr_evicted_pages[flags.kind().index()] += flags.nr_pages();
                    let shadow = lruvec.bury(flags);
                    self.charge_swap(flags.lruvec(), flags.kind(), flags.nr_pages());
                    Some(shadow)
                }
                _ => None,
            };
            if matches!(verdict, Verdict::Evicted | Verdict::Gone) {
                self.release(folio);
            } else {
                self.put_back(folio, verdict);
            }
            batch.shadows.push(shadow);
        }
    }

    /// A folio of a batch stays in memory: it re-enters, but not the oldest generation.
    fn put_back(&mut self, folio: FolioId, verdict: Verdict) {
        let mut flags = self.flags(folio).with_isolated(false);
        let lruvec = &mut self.lruvecs[flags.lruvec()];
        let mut standing = match (verdict, flags.kind()) {
            (Verdict::Dirty, _) | (_, Kind::Anon) => Standing::Busy,
            (_, Kind::File) => Standing::Idle,
        };
        if verdict == Verdict::Referenced {
            lruvec.stats.nr_young_pages += flags.nr_pages();
            if flags.is_referenced() || flags.is_workingset() {
                lruvec.stats.nr_promoted_pages += flags.nr_pages();
                flags = flags.without_refs().with_workingset();
                standing = Standing::Active;
            } else {
                flags = flags.with_referenced();
            }
        }
        let seq = lruvec.entry_seq(self.model, flags, standing);
        if seq == lruvec.min_seq[flags.kind().index()] {
            flags = flags.without_refs();
            standing = Standing::Active;
        }
        self.folios.flags[folio.index()] = flags;
        self.enter(folio, standing);
    }
}

impl Lruvec {
    /// Counts a departure and makes its shadow.
    fn bury(&mut self, flags: Flags) -> Shadow {
        let tier = tier_of(flags.refs(), flags.is_workingset());
        self.controller
            .evicted(flags.kind(), tier, flags.nr_pages());
        Evicted::of(flags, self.min_seq[flags.kind().index()]).pack()
    }
}

/// Of two nodes that gave nothing, the answer that lets the caller go on.
fn more_hopeful(a: Isolated, b: Isolated) -> Isolated {
    let hope = |end: &Isolated| match end {
        Isolated::Pages(_) => 4,
        Isolated::Again => 3,
        Isolated::NeedsAgeing => 2,
        Isolated::Thrashing => 1,
        Isolated::Empty => 0,
    };
    if hope(&b) > hope(&a) { b } else { a }
}
