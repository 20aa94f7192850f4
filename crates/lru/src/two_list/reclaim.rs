//! Reclaim: who is tried, who gets a second chance, who is deactivated (rules 8.3 and 8.4).
//!
//! ```text
//!   inactive tail -> batch.folios   -> the mechanism tries -> evicted
//!                                       referenced once     -> inactive head (second chance)
//!                                       referenced before   -> active head
//!   active tail   -> batch.to_check -> bits read, cleared  -> inactive head, workingset
//!                                       executable, young   -> active head
//!                   by distance only:   workingset, used    -> active head, unused
//! ```
//!
//! **Owns** isolation, verdicts, departures. **Does not own** how much is looked at (`run`).
//!
//! **Invariants**
//! - I1: an isolated folio is on no list, in no size, and in one batch.
//! - I2: the folios of a batch are of one list: one lruvec, one kind.
//! - I3: isolated, evicted by request, evicted by the kernel and rejected are counters of their own.

use super::{
    TwoList,
    lruvec::Lruvec,
    page::Half,
    run::{Run, Step},
};
use crate::{
    books::Bookkeeper,
    config::Refault,
    error::PolicyError,
    folio::Flags,
    ids::{FolioId, GroupId, Kind},
    rules::ListEnd,
    seam::{AccessVia, EvictBatch, Isolated, ReclaimRequest, Verdict},
};

/// What became of a folio that was looked at and did not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Back to the inactive list: tried again when it gets to the end of it.
    Keep,
    /// To the active list: wanted, or not to be had for a while.
    Activate,
}

impl TwoList {
    /// Takes the next steps of the group's run until one gave something to try or to check.
    pub(super) fn isolate_from_group(
        &mut self,
        request: ReclaimRequest,
        batch: &mut EvictBatch,
    ) -> Result<Isolated, PolicyError> {
        batch.clear();
        let group = request.group;
        let is_offline = self.books.group(group)?.is_offline();
        self.judge.asked(group, request.swappiness);
        if request.nr_pages == 0 {
            return Ok(Isolated::Empty);
        }
        let under_way = self.runs[usize::from(group.0)].take();
        let under_way = under_way.filter(|run| run.is_of(request));
        let mut run = under_way.unwrap_or_else(|| Run::new(request, is_offline));
        loop {
            let of_group = &self.books.groups.get(group)?.lruvecs;
            let Some(step) = run.next_step(of_group, &self.books.lruvecs, request.nr_pages) else {
                if run.is_met() && !run.is_one_pass() {
                    run = Run::new(request, is_offline);
                    continue;
                }
                self.see_refaults(group);
                let has_reclaimed = run.has_reclaimed();
                return Ok(if has_reclaimed {
                    Isolated::Again
                } else {
                    Isolated::Empty
                });
            };
            let nr_pages = self.take(step, batch);
            if !batch.is_empty() {
                self.runs[usize::from(group.0)] = Some(run);
                let is_check = batch.folios.is_empty();
                return Ok(if is_check {
                    Isolated::Again
                } else {
                    Isolated::Pages(nr_pages)
                });
            }
        }
    }

    /// Takes the folios of a step off their list; base pages to be tried.
    fn take(&mut self, step: Step, batch: &mut EvictBatch) -> u64 {
        let Step {
            lruvec, half, kind, ..
        } = step;
        let list = self.books.lruvecs[lruvec].list(half, kind);
        let (mut nr_scanned_pages, mut nr_isolated_pages) = (0, 0);
        while nr_scanned_pages < step.nr_pages
            && let Some(folio) = self.books.lists.tail(list)
        {
            let flags = self.flags(folio);
            let nr_pages = flags.nr_pages();
            nr_scanned_pages += nr_pages;
            self.books.detach(folio);
            match half {
                // A walk found it young and cleared the bit: nothing is left to ask.
                Half::Inactive if flags.is_young() => {
                    self.give_second_chance(folio, Verdict::Referenced);
                    self.books.lruvecs[lruvec].note_cost(kind, 0, nr_pages);
                }
                Half::Inactive => {
                    self.books.isolate(folio);
                    batch.folios.push(folio);
                    nr_isolated_pages += nr_pages;
                }
                Half::Active => {
                    self.books.isolate(folio);
                    batch.to_check.push(folio);
                }
            }
        }
        let state = &mut self.books.lruvecs[lruvec];
        if half == Half::Inactive {
            state.account.stats.nr_scanned_pages += nr_scanned_pages;
        }
        state.account.stats.nr_isolated_pages += nr_isolated_pages;
        nr_isolated_pages
    }

    /// Learns what became of a batch.
    pub(super) fn complete_batch(&mut self, batch: &mut EvictBatch, verdicts: &[Verdict]) {
        assert!(
            batch.young.is_empty() || batch.young.len() == batch.to_check.len(),
            "one answer for each folio that was to be checked"
        );
        self.judge.tried(&batch.folios, verdicts);
        self.complete_checks(batch);
        let first = batch.folios.first().map(|folio| self.flags(*folio));
        let completed = self.settle(batch, verdicts);
        let Some(first) = first else {
            return;
        };
        let (lruvec, nr_written_pages) = (first.lruvec(), batch.nr_written_pages);
        self.books.lruvecs[lruvec].note_cost(
            first.kind(),
            nr_written_pages,
            completed.nr_kept_pages,
        );
        self.reclaimed(lruvec, completed.nr_evicted_pages);
    }

    /// Deactivates what was checked, except executable folios in use. Where returns are judged by
    /// distance, except all in use that are known to be working set: few are made active there, and those that
    /// turn out to be wanted stay.
    fn complete_checks(&mut self, batch: &EvictBatch) {
        let mut rotated: Option<(usize, Kind, u64)> = None;
        for (number, &folio) in batch.to_check.iter().enumerate() {
            let flags = self.books.end_isolation(folio);
            if flags.is_gone() {
                self.books.release(folio);
                continue;
            }
            let nr_pages = flags.nr_pages();
            let is_young = flags.is_young() || batch.young.get(number).copied().unwrap_or(false);
            let flags = flags.without_young();
            let lruvec = &mut self.books.lruvecs[flags.lruvec()];
            lruvec.account.stats.nr_young_pages += nr_pages * u64::from(is_young);
            if is_young {
                self.judge.accessed(folio, AccessVia::PageTable);
            }
            let rule = self.judge.rule(lruvec.account.group);
            let is_exec_file = is_young && flags.is_exec() && flags.kind() == Kind::File;
            let is_used = is_young || flags.is_referenced();
            let is_known = rule == Refault::Distance && flags.is_workingset() && is_used;
            if is_exec_file || is_known {
                let kind = flags.kind().index();
                lruvec.account.stats.nr_protected_pages[kind][0] += nr_pages;
                let (_, _, nr_rotated_pages) = rotated.unwrap_or((0, Kind::File, 0));
                rotated = Some((flags.lruvec(), flags.kind(), nr_rotated_pages + nr_pages));
                if rule == Refault::Window {
                    lruvec.age_nonresident(nr_pages);
                }
                // Next time it has to have been used again.
                let is_referenced = flags.is_referenced() && !is_known;
                self.books
                    .set_flags(folio, flags.with_referenced(is_referenced));
                self.enter(folio, Half::Active);
            } else {
                self.books.set_flags(folio, flags.with_workingset(true));
                self.enter(folio, Half::Inactive);
            }
        }
        if let Some((lruvec, kind, nr_pages)) = rotated {
            self.books.lruvecs[lruvec].note_cost(kind, 0, nr_pages);
        }
    }

    /// A folio of the inactive list was looked at and stays in memory.
    pub(super) fn give_second_chance(&mut self, folio: FolioId, verdict: Verdict) {
        let flags = self.flags(folio);
        let (fate, flags) = fate(flags, verdict);
        self.books.set_flags(folio, flags);
        let lruvec = &mut self.books.lruvecs[flags.lruvec()];
        if verdict == Verdict::Referenced {
            lruvec.account.stats.nr_young_pages += flags.nr_pages();
        }
        match fate {
            Fate::Keep => self.enter(folio, Half::Inactive),
            Fate::Activate => self.activate(folio),
        }
    }

    /// Puts a folio that is on no list on the active one.
    pub(super) fn activate(&mut self, folio: FolioId) {
        let flags = self.flags(folio);
        let nr_pages = flags.nr_pages();
        let lruvec = &mut self.books.lruvecs[flags.lruvec()];
        lruvec.account.stats.nr_activated_pages += nr_pages;
        if self.judge.rule(lruvec.account.group) == Refault::Window {
            lruvec.age_nonresident(nr_pages);
        }
        self.enter(folio, Half::Active);
    }

    /// Puts a folio that is on no list at the young end of one.
    pub(super) fn enter(&mut self, folio: FolioId, half: Half) {
        self.books.enter(folio, half.index(), ListEnd::Young);
    }

    /// Tells the run of an lruvec's group what left.
    pub(super) fn reclaimed(&mut self, lruvec: usize, nr_pages: u64) {
        let group = self.books.lruvecs[lruvec].account.group;
        // A group that was removed may be gone with the last folio of the batch, and its run too.
        let run = self.runs.get_mut(usize::from(group.0));
        if let Some(run) = run.and_then(Option::as_mut)
            && run.reclaimed(lruvec, nr_pages)
        {
            self.see_refaults(group);
        }
    }

    fn see_refaults(&mut self, group: GroupId) {
        let of_group = self
            .books
            .lruvecs
            .iter_mut()
            .filter(|of| of.account.group == group);
        of_group.for_each(Lruvec::see_refaults);
    }
}

/// Where a folio of the inactive list goes, and its flags then.
///
/// Looking for references takes the referenced flag away; being found accessed sets it. A dirty
/// file folio that was referenced is left alone once more, any other is put aside until it is written
/// and leaves first then.
fn fate(flags: Flags, verdict: Verdict) -> (Fate, Flags) {
    let was_referenced = flags.is_referenced();
    let looked_at = flags.with_referenced(false).without_young();
    match verdict {
        Verdict::Referenced => {
            let is_exec_file = flags.is_exec() && flags.kind() == Kind::File;
            let is_wanted = was_referenced || is_exec_file;
            let fate = if is_wanted {
                Fate::Activate
            } else {
                Fate::Keep
            };
            (fate, looked_at.with_referenced(true))
        }
        Verdict::Dirty if was_referenced => (Fate::Keep, looked_at),
        Verdict::Dirty => (Fate::Activate, looked_at.with_rotate(true)),
        Verdict::Busy | Verdict::Shared | Verdict::Unevictable => (Fate::Activate, looked_at),
        Verdict::NotTried | Verdict::Evicted | Verdict::Gone => (Fate::Keep, flags),
    }
}
