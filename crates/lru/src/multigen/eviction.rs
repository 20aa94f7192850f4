//! Eviction: who leaves, who is spared, and what becomes of a batch (rules 3.1 and 3.3).
//!
//! Eviction looks at the oldest list of a kind from its old end and sorts as it goes:
//!
//! ```text
//!   promoted by a walk since       -> the list of the generation it is in
//!   of a protected tier, saturated -> one generation younger
//!   waiting to be written          -> the same, and to the old end once it is written
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
    config::MinTtl,
    controller::Choice,
    counting::Counting,
    error::PolicyError,
    folio::Flags,
    ids::MIN_NR_GENS,
    ids::{FolioId, GenSeq, Kind, TimeMs},
    lruvec::Lruvec,
    rules::{Aborting, Dirty, ListEnd, Saturated, Survivors, Thrashing},
    seam::{Ageing, EvictBatch, Isolated, ReclaimRequest, Shadow, Verdict},
    shadow::Evicted,
    swappiness::Swappiness,
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
    /// Passes after which the batch is handed out, however full.
    pub(super) nr_passes_max: u32,
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
        let nr_lruvecs = self.books.group(request.group)?.lruvecs.len();
        self.judge.asked(request.group, request.swappiness);
        let now = self.books.tell_time(now);
        if self.is_all_young(&request, now)? {
            return Ok(Isolated::Thrashing);
        }
        let mut nr_pages = 0;
        let mut worst = Isolated::Empty;
        for position in 0..nr_lruvecs {
            if nr_pages >= request.nr_pages {
                break;
            }
            let lruvec = usize::from(self.books.group(request.group)?.lruvecs[position]);
            let node = self.books.lruvecs[lruvec].account.node;
            if request.node.is_some_and(|only| only != node) {
                continue;
            }
            let swappiness = request.one_pass.map_or(request.swappiness, |of| {
                of.swappiness_on(node, request.swappiness)
            });
            let demand = Demand {
                nr_pages: request.nr_pages - nr_pages,
                swappiness,
                priority: request.priority,
                born_before: match self.min_ttl {
                    MinTtl::AllTogether => None,
                    MinTtl::EachByItself => self.born_before(now),
                },
                last_seq: GenSeq(u64::MAX),
                nr_passes_max: request.nr_passes_max,
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
        let rule = self.rules.ageing;
        let ends_with_walk = self.rules.aborting == Aborting::AfterWalk
            && demand.priority < PRIORITY_RELAXED
            && self.books.lruvecs[lruvec].ageing_of_window(rule, swappiness) == Ageing::NotDue;
        let (mut nr_pages, mut nr_passes) = (0, 0);
        let end = loop {
            let state = &self.books.lruvecs[lruvec];
            if nr_pages >= demand.nr_pages || nr_passes == demand.nr_passes_max {
                break Isolated::Again;
            }
            if state.nr_evictable_pages(swappiness) == 0 {
                break Isolated::Empty;
            }
            let oldest = state.oldest_evictable_seq(swappiness);
            if oldest > demand.last_seq {
                break Isolated::Empty;
            }
            if self.would_thrash(lruvec, &demand) {
                break Isolated::Thrashing;
            }
            let pass = self.isolate_folios(lruvec, demand, demand.nr_pages - nr_pages, batch);
            nr_pages += pass.nr_isolated_pages;
            nr_passes += 1;
            let has_advanced = self.try_to_inc_min_seq(lruvec, swappiness);
            let ageing = self.books.lruvecs[lruvec].ageing_of_window(rule, swappiness);
            if pass.nr_isolated_pages == 0 {
                if pass.has_run_out_of_budget {
                    break Isolated::Again;
                }
                if !has_advanced || ageing == Ageing::Due {
                    break Isolated::NeedsAgeing;
                }
            } else if ends_with_walk && ageing != Ageing::NotDue {
                break Isolated::NeedsAgeing;
            }
        };
        self.books.lruvecs[lruvec].account.stats.nr_isolated_pages += nr_pages;
        if nr_pages > 0 {
            Isolated::Pages(nr_pages)
        } else {
            end
        }
    }

    /// Whether a request that stands alone finds nothing older than `min_ttl` on any of its nodes. One
    /// of many groups is not refused for what it has itself.
    fn is_all_young(&self, request: &ReclaimRequest, now: TimeMs) -> Result<bool, PolicyError> {
        let is_asked = self.min_ttl_ms > 0 && self.min_ttl == MinTtl::AllTogether;
        if !is_asked || request.one_pass.is_some() {
            return Ok(false);
        }
        let is_meant = |of: &&Lruvec| request.node.is_none_or(|node| node == of.account.node);
        let lruvecs = self.books.lruvecs_of(request.group)?.filter(is_meant);
        let mut with_pages = lruvecs
            .filter(|of| of.nr_evictable_pages(request.swappiness) > 0)
            .peekable();
        let (swappiness, priority) = (request.swappiness, request.priority);
        Ok(with_pages.peek().is_some()
            && !with_pages.any(|of| self.has_old(of, swappiness, priority, now)))
    }

    /// Whether a lruvec has anything older than `min_ttl`.
    pub(super) fn has_old(
        &self,
        lruvec: &Lruvec,
        swappiness: Swappiness,
        priority: u8,
        now: TimeMs,
    ) -> bool {
        let limit = self.born_before(now);
        lruvec.nr_evictable_pages(swappiness) > 0
            && !limit.is_some_and(|limit| self.is_young(lruvec, limit, swappiness, priority))
    }

    /// Whether going on would take what was born after the demand's limit.
    fn would_thrash(&self, lruvec: usize, demand: &Demand) -> bool {
        let Some(limit) = demand.born_before else {
            return false;
        };
        let state = &self.books.lruvecs[lruvec];
        self.is_young(state, limit, demand.swappiness, demand.priority)
    }

    /// Whether the generation that says so was born at a time or after it.
    fn is_young(&self, of: &Lruvec, limit: TimeMs, swappiness: Swappiness, priority: u8) -> bool {
        let oldest = match self.rules.thrashing {
            Thrashing::OldestFile if priority >= PRIORITY_RELAXED => return false,
            Thrashing::OldestFile => GenSeq(of.min_seq[Kind::File.index()]),
            Thrashing::OldestEvictable => of.oldest_evictable_seq(swappiness),
        };
        of.birth(oldest) >= limit
    }

    /// Before when a generation must be born to be taken, `None` if any may.
    pub(super) fn born_before(&self, now: TimeMs) -> Option<TimeMs> {
        (self.min_ttl_ms > 0).then(|| TimeMs(now.0.saturating_sub(self.min_ttl_ms)))
    }

    /// One pass: the kind the controller chose, then the other if nothing came of it.
    fn isolate_folios(
        &mut self,
        lruvec: usize,
        demand: Demand,
        nr_pages: u64,
        batch: &mut EvictBatch,
    ) -> Pass {
        let swappiness = demand.swappiness;
        let nr_tiers = self.counting.nr_tiers();
        let state = &self.books.lruvecs[lruvec];
        let choice =
            state
                .controller
                .choose(self.rules.selection, swappiness, state.min_seq, nr_tiers);
        let mut first = choice;
        let mut second = Choice {
            kind: choice.kind.other(),
            last_tier: None,
        };
        let falls_back = self.rules.selection.falls_back(demand.priority);
        // Keeping to one kind makes no sense where there is nothing of it.
        if !falls_back && state.is_empty(first.kind) && swappiness.allows(second.kind) {
            std::mem::swap(&mut first, &mut second);
        }
        let mut pass = self.scan_folios(lruvec, first, nr_pages, batch);
        let is_vain = pass.nr_isolated_pages == 0 && !pass.has_run_out_of_budget;
        if is_vain && falls_back && swappiness.allows(second.kind) {
            pass = self.scan_folios(lruvec, second, nr_pages, batch);
        }
        pass
    }

    /// Looks at the oldest list of a kind from its old end, within a budget.
    fn scan_folios(
        &mut self,
        lruvec: usize,
        choice: Choice,
        nr_pages: u64,
        batch: &mut EvictBatch,
    ) -> Pass {
        let kind = choice.kind;
        let mut pass = Pass::default();
        let state = &self.books.lruvecs[lruvec];
        if state.nr_gens(kind) == MIN_NR_GENS {
            return pass;
        }
        let last_tier = choice.last_tier.unwrap_or_else(|| {
            let (gains, nr_tiers) = (self.rules.gains, self.counting.nr_tiers());
            state.controller.last_evictable_tier(kind, gains, nr_tiers)
        });
        let oldest = state.oldest_list(kind);
        let nr_pages_wanted = nr_pages.min(self.rules.scanning.nr_isolate_pages);
        let mut nr_folios_left = self.rules.scanning.nr_folios_max;
        while let Some(folio) = self.books.lists.tail(oldest) {
            let nr_pages = self.flags(folio).nr_pages();
            self.books.lruvecs[lruvec].account.stats.nr_scanned_pages += nr_pages;
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
        let lruvec = &self.books.lruvecs[flags.lruvec()];
        let (oldest, group) = (lruvec.oldest_index(kind), lruvec.account.group);
        let (generation, end) = match flags.generation() {
            Some(promoted) if promoted != oldest => (promoted, ListEnd::Young),
            _ if self.is_spared(flags, last_tier) => {
                let generation = self.inc_gen(folio);
                if self.judge.is_by_distance(group) {
                    let tired = self.flags(folio).with_workingset(false);
                    self.books.set_flags(folio, tired);
                }
                (generation, self.rules.protection.spared_to)
            }
            _ if flags.is_waiting() && self.rules.dirty == Dirty::SteppedOver => {
                let generation = self.inc_gen(folio);
                let marked = self.flags(folio).with_rotate(true);
                self.books.set_flags(folio, marked);
                (generation, ListEnd::Young)
            }
            _ => return false,
        };
        self.books.move_to_end(folio, generation, end);
        true
    }

    /// Whether a folio that is due is spared for its count; tells the controller.
    fn is_spared(&mut self, flags: Flags, last_tier: usize) -> bool {
        let tier = self.counting.tier(flags);
        let rule = self.rules.protection.saturated;
        let is_saturated = rule != Saturated::AsItsTier && self.counting.is_saturated(flags);
        if tier <= last_tier && !is_saturated {
            return false;
        }
        let lruvec = &mut self.books.lruvecs[flags.lruvec()];
        if !is_saturated || rule == Saturated::Spared {
            let nr_pages = flags.nr_pages();
            lruvec.controller.protected(flags.kind(), tier, nr_pages);
        }
        let protected = &mut lruvec.account.stats.nr_protected_pages;
        protected[flags.kind().index()][tier] += flags.nr_pages();
        true
    }

    pub(super) fn isolate_folio(&mut self, folio: FolioId) {
        let flags = self.flags(folio);
        let flags = if flags.is_referenced() {
            flags
        } else {
            flags.with_refs_field(0)
        };
        // Found young at the last look, a folio that forgets its mark here is spared once.
        let is_referenced = flags.is_referenced() && self.rules.survivors != Survivors::Youngest;
        let flags = flags.with_referenced(is_referenced).with_rotate(false);
        self.books.set_flags(folio, flags);
        self.books.isolate(folio);
    }

    /// A folio of a batch stays in memory: it re-enters, but not the oldest generation.
    pub(super) fn put_back_younger(&mut self, folio: FolioId, verdict: Verdict) {
        let flags = self.flags(folio);
        let is_young = verdict == Verdict::Referenced;
        let is_waiting = verdict == Verdict::Dirty || flags.is_waiting();
        if is_young {
            self.books.lruvecs[flags.lruvec()]
                .account
                .stats
                .nr_young_pages += flags.nr_pages();
        }
        let (flags, is_promoted, standing) = match self.rules.survivors {
            Survivors::Youngest if is_waiting => (flags, false, Standing::Busy),
            Survivors::Youngest => (self.counting.forget(flags), is_young, Standing::Active),
            Survivors::Marked | Survivors::Counted => {
                let (flags, is_promoted) = match is_young {
                    true => self.found_young_at_last(flags),
                    false => (flags, false),
                };
                let is_busy = is_waiting || flags.kind() == Kind::Anon;
                let standing = match (is_promoted, is_busy) {
                    (true, _) => Standing::Active,
                    (false, true) => Standing::Busy,
                    (false, false) => Standing::Idle,
                };
                let (flags, standing) = self.never_oldest(flags, standing);
                (flags, is_promoted, standing)
            }
        };
        if is_promoted {
            self.books.lruvecs[flags.lruvec()]
                .account
                .stats
                .nr_activated_pages += flags.nr_pages();
        }
        // What is being written for us is the next to leave.
        let flags = flags.with_rotate(verdict == Verdict::Dirty);
        self.books.set_flags(folio, flags);
        self.enter(folio, standing);
    }

    /// A folio found young just before its eviction: its flags, and whether it is promoted.
    fn found_young_at_last(&self, flags: Flags) -> (Flags, bool) {
        let is_known = flags.is_referenced() || flags.is_workingset();
        if self.rules.survivors != Survivors::Counted {
            return match is_known {
                true => (self.counting.forget(flags).with_workingset(true), true),
                false => (flags.with_referenced(true), false),
            };
        }
        match (is_known, flags.is_exec()) {
            (_, true) => (flags, true),
            (false, false) => (flags.with_referenced(true), false),
            (true, false) if self.counting.refs(flags) > 1 => (flags.with_workingset(true), true),
            (true, false) => (self.counting.count(flags), true),
        }
    }

    /// Flags and standing of a folio as they are, unless it would enter the oldest generation.
    fn never_oldest(&self, flags: Flags, standing: Standing) -> (Flags, Standing) {
        let lruvec = &self.books.lruvecs[flags.lruvec()];
        let seq = lruvec.entry_seq(&self.rules.placement, flags, standing);
        if seq == lruvec.min_seq[flags.kind().index()] {
            (self.counting.forget(flags), Standing::Active)
        } else {
            (flags, standing)
        }
    }
}

impl Lruvec {
    /// Counts a departure and makes its shadow.
    pub(super) fn bury(
        &mut self,
        flags: Flags,
        counting: Counting,
        tells_distance: bool,
    ) -> Shadow {
        let tier = counting.tier(flags);
        let (kind, nr_pages) = (flags.kind(), flags.nr_pages());
        self.controller.evicted(kind, tier, nr_pages);
        self.account.stats.nr_left_pages[kind.index()][tier] += nr_pages;
        match tells_distance {
            false => Evicted::of(flags, counting, self.min_seq[kind.index()]).pack(),
            true => self.departed(flags, counting).pack(),
        }
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
