//! The classic LRU: an active and an inactive list a kind, as before generations (rules 8).
//!
//! The baseline of every comparison, behind the same door as [`MultiGen`](crate::MultiGen). It
//! knows of no walks: accessed bits are read one folio at a time, when it reaches the end of a list.
//!
//! ```text
//!   appeared -> workingset            the inactive list, or the active one if it is missed
//!   accessed                          descriptors: referenced, then active; bits: remembered
//!   deactivate, set_write_state -> writeback    what is cold, what is written at last
//!   isolate / complete -> run         which list is looked at next
//!                      -> reclaim     second chances, deactivation, departures
//!                      -> lruvec      how much of which kind
//! ```
//!
//! Where kernels differ it follows 6.1. It departs from the kernel in four things:
//! - a folio that is locked is put on the active list until it is met again,
//! - one mapping a folio: being found accessed counts once, however many map it,
//! - `min_ttl_ms` means nothing to it, and no walk is ever due,
//! - a shadow of another group or node tells nothing (the kernel judges by the old owner's lists).
//!
//! **Owns** the state and the [`Policy`] door. **Does not own** the rules, which are in the files
//! beside.
//!
//! **Invariants**
//! - I1: a live folio is on exactly one list, or isolated and on none.
//! - I2: nothing is allocated after a folio has found its slot: only the table and new lruvecs grow, and
//!   what a trial follows, up to its bounds.

mod lruvec;
mod migration;
mod page;
mod reclaim;
mod run;
mod workingset;
mod writeback;

#[cfg(test)]
mod tests;

use crate::{
    books::{Bookkeeper, Books, answered_by_books},
    config::{Config, ConfigError},
    error::PolicyError,
    folio::Flags,
    group::{GroupTree, Limits},
    ids::{FolioId, GroupId, Kind, NodeId, Order, TimeMs},
    policy::Policy,
    seam::{
        AccessVia, Arrival, EvictBatch, GoneCause, GroupView, Isolated, ReclaimRequest,
        ReclaimStats, Shadow, Verdict, WriteState,
    },
    swappiness::Swappiness,
    trial::{Judge, Tried},
};
use lruvec::Lruvec;
use page::Half;
use run::Run;

/// The classic active and inactive lists.
///
/// Deterministic: the same calls give the same answers and the same state.
#[derive(Debug)]
pub struct TwoList {
    has_swap: bool,
    books: Books<Lruvec>,
    /// What is being reclaimed, by number of the group.
    runs: Vec<Option<Run>>,
    judge: Judge<TwoList>,
}

impl TwoList {
    /// An empty engine; the error names the setting that is out of bounds.
    pub fn new(config: Config) -> Result<TwoList, ConfigError> {
        config.validate()?;
        Ok(TwoList {
            has_swap: config.has_swap,
            books: Books::new(&config, ()),
            runs: Vec::new(),
            judge: Judge::new(&config),
        })
    }

    /// Folios in memory, isolated ones included.
    pub fn nr_folios(&self) -> u32 {
        self.books.folios.nr_live()
    }

    /// Whether a folio is on an active list, `None` while it is isolated.
    pub fn is_active(&self, folio: FolioId) -> Option<bool> {
        let half = self.flags(folio).half()?;
        Some(half == Half::Active)
    }

    /// Whether a folio has the mark of an access, which the next one takes away when it makes the folio active.
    pub fn is_referenced(&self, folio: FolioId) -> bool {
        self.flags(folio).is_referenced()
    }

    fn flags(&self, folio: FolioId) -> Flags {
        self.books.flags(folio)
    }

    /// Makes room for a group's run; what was kept of one that had its number before is void.
    fn with_run(&mut self, group: GroupId) -> GroupId {
        let number = usize::from(group.0);
        if self.runs.len() <= number {
            self.runs.resize_with(number + 1, || None);
        }
        self.runs[number] = None;
        self.judge.begin_group(group);
        group
    }

    /// An access through a file descriptor: the second one activates (rules 8.2).
    fn count_access(&mut self, folio: FolioId) {
        let flags = self.flags(folio);
        match flags.half() {
            Some(Half::Inactive) if flags.is_referenced() => {
                let flags = self.books.detach(folio);
                self.books.set_flags(folio, flags.with_referenced(false));
                let stats = &mut self.books.lruvecs[flags.lruvec()].account.stats;
                stats.nr_activated_by_access_pages += flags.nr_pages();
                self.activate(folio);
            }
            _ => self.books.folios.flags[folio.index()] = flags.with_referenced(true),
        }
    }
}

impl Bookkeeper for TwoList {
    type Lruvec = Lruvec;

    fn books(&mut self) -> &mut Books<Lruvec> {
        &mut self.books
    }

    fn kept(&self) -> &Books<Lruvec> {
        &self.books
    }

    fn bury(&mut self, folio: FolioId, flags: Flags) -> Shadow {
        let shadow = self.books.lruvecs[flags.lruvec()].bury(flags);
        self.judge.left(folio, shadow)
    }

    fn put_back(&mut self, folio: FolioId, verdict: Verdict) {
        self.give_second_chance(folio, verdict);
    }

    fn settled(&self, flags: Flags, verdict: Verdict) -> Verdict {
        match verdict {
            Verdict::Evicted | Verdict::Gone => verdict,
            _ if flags.is_young() => Verdict::Referenced,
            _ => verdict,
        }
    }
}

impl Policy for TwoList {
    fn name(&self) -> &'static str {
        "two-list"
    }

    fn appeared(&mut self, arrival: Arrival) -> Result<FolioId, PolicyError> {
        let folio = self.books.admit(&arrival)?;
        let half = match self.judge.arrived(folio, &arrival) {
            Some(shadow) => self.refault(folio, shadow, arrival.cause),
            None => Half::Inactive,
        };
        self.enter(folio, half);
        Ok(folio)
    }

    // Inline, so that a wrapper elsewhere (`tiering`) costs no call.
    #[inline]
    fn accessed(&mut self, folio: FolioId, via: AccessVia) {
        self.books.present(folio);
        self.hear_access(folio, via);
    }

    fn isolate(
        &mut self,
        request: ReclaimRequest,
        _now: TimeMs,
        batch: &mut EvictBatch,
    ) -> Result<Isolated, PolicyError> {
        self.isolate_from_group(request, batch)
    }

    fn complete(&mut self, batch: &mut EvictBatch, verdicts: &[Verdict]) {
        self.complete_batch(batch, verdicts);
    }

    answered_by_books!();

    fn add_child_group(
        &mut self,
        parent: GroupId,
        path: &str,
        now: TimeMs,
    ) -> Result<GroupId, PolicyError> {
        let group = self.books.add_child_group(parent, path, now)?;
        Ok(self.with_run(group))
    }

    fn remove_group(&mut self, group: GroupId) -> Result<(), PolicyError> {
        self.books.take_offline(group)?;
        self.judge.end_group(group);
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        let runs = self.runs.capacity() * size_of::<Option<Run>>();
        self.books.memory_bytes() + runs as u64 + self.judge.memory_bytes()
    }

    fn validate(&self) -> Result<(), String> {
        self.books
            .recount(|lruvec, listed| listed.is_in_place(lruvec))?;
        self.judge.validate()
    }
}

impl Tried for TwoList {
    fn in_small(config: Config) -> Result<TwoList, ConfigError> {
        TwoList::new(config)
    }

    fn judge(&self) -> &Judge<Self> {
        &self.judge
    }

    fn judge_mut(&mut self) -> &mut Judge<Self> {
        &mut self.judge
    }

    #[inline]
    fn note_access(&mut self, folio: FolioId, via: AccessVia) {
        match via {
            AccessVia::PageTable => {
                let flags = &mut self.books.folios.flags[folio.index()];
                *flags = flags.with_young();
            }
            AccessVia::FileDescriptor => self.count_access(folio),
        }
    }
}
