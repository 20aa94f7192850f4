//! The policy of our own: generations on trial and proven, told apart by time between accesses.
//!
//! It stands behind the same door as [`MultiGen`](crate::MultiGen), on the same folio table, flags word,
//! lists and shadows, and keeps its bargain: an access changes the flags of a folio and no list; the
//! old end of a list is put in order when eviction gets there; accessed bits are read of what is about to
//! go, and of all when a twentieth of memory is new. What it does differently answers what is known to be weak there:
//!
//! | weak in the kernel's                             | here                                              |
//! |--------------------------------------------------|---------------------------------------------------|
//! | page cache enters the oldest generation          | everything begins on trial, whatever its kind     |
//! | the controller does not find the working set     | the test of LIRS, on each access and each return  |
//! | counted accesses are lost at promotion           | they spare a proven folio once each               |
//! | file or anon is taken too much                   | one order for both: who is used less goes first   |
//! | four generations, whatever the load              | the trial is as long as pays (`window`)           |
//!
//! ```text
//!   appeared / accessed -> arrival    where it begins, the test, what a return says
//!   isolate / complete  -> eviction   who leaves, who is kept and where
//!                       -> window     how much memory is for trial
//!                       -> ages       how long the proven have waited on average
//!                       -> lull       whether the proven are asked for at all
//!                       -> recency    who goes before anything has come back
//!   standing, end_move  -> migration  what moves between nodes
//!   ageing / finish_walk -> walks     when accessed bits are read ahead of need
//!   gone, complete      -> shadow     what is kept of what left
//! ```
//!
//! Swappiness says only which kinds may go: between 1 and 200 the order of use decides. Walks are due
//! as memory is filled and turned over, not when reclaim is short of something to take, and
//! `min_ttl_ms` means nothing to it.
//!
//! A folio costs 16 bytes. A shadow counts until as many pages as memory holds have left the same
//! part, so shadows worth keeping are at most twice the pages in memory.
//!
//! **Owns** the state and the [`Policy`] door. **Does not own** the rules, which are in the files
//! beside.
//!
//! **Invariants**
//! - I1: a live folio is on exactly one list, or isolated and on none.
//! - I2: nothing is allocated after a folio has found its slot: only the tables and new lruvecs grow.

mod ages;
mod arrival;
mod dial;
mod eviction;
mod lruvec;
mod lull;
mod migration;
mod page;
mod recency;
mod shadow;
#[cfg(test)]
mod tests;
mod validate;
mod walks;
mod window;

use crate::{
    books::{Books, Keeper, answered_by_books},
    config::{Config, ConfigError},
    error::PolicyError,
    folio::Flags,
    group::{GroupTree, Limits},
    ids::{FolioId, GroupId, Kind, NodeId, Order, TimeMs},
    policy::Policy,
    seam::{
        AccessVia, Ageing, Arrival, Cause, EvictBatch, GoneCause, GroupView, Isolated,
        ReclaimRequest, ReclaimStats, Shadow, Verdict,
    },
    swappiness::Swappiness,
};
use lruvec::Lruvec;
use page::Part;
use shadow::Departed;

/// The policy of our own.
///
/// Deterministic: the same calls give the same answers and the same state. Of [`Config`] only
/// `nr_folios_max` concerns it.
#[derive(Debug)]
pub struct Strata {
    books: Books<Lruvec>,
    /// By folio: the lruvec's count of accesses at the folio's last one, low bits.
    stamps: Vec<u32>,
}

impl Strata {
    /// An empty engine; the error names the setting that is out of bounds.
    pub fn new(config: Config) -> Result<Strata, ConfigError> {
        config.validate()?;
        Ok(Strata {
            books: Books::new(&config, ()),
            stamps: Vec::new(),
        })
    }

    /// Folios in memory, isolated ones included.
    pub fn nr_folios(&self) -> u32 {
        self.books.folios.nr_live()
    }

    /// Whether a folio is proven, `None` while it is isolated.
    pub fn is_proven(&self, folio: FolioId) -> Option<bool> {
        let part = self.flags(folio).part()?;
        Some(part == Part::Proven)
    }

    /// Base pages of a group's memory that are for trial, over all nodes.
    pub fn nr_trial_pages(&self, group: GroupId) -> Result<u64, PolicyError> {
        let lruvecs = self.books.lruvecs_of(group)?;
        Ok(lruvecs
            .map(|lruvec| lruvec.window.nr_trial_pages(lruvec.capacity_pages))
            .sum())
    }

    fn flags(&self, folio: FolioId) -> Flags {
        self.books.flags(folio)
    }
}

impl Keeper for Strata {
    type Lruvec = Lruvec;

    fn books(&mut self) -> &mut Books<Lruvec> {
        &mut self.books
    }

    fn kept(&self) -> &Books<Lruvec> {
        &self.books
    }

    fn bury(&mut self, folio: FolioId, flags: Flags) -> Shadow {
        let age = self.age(folio);
        let state = &mut self.books.lruvecs[flags.lruvec()];
        state.account.stats.nr_left_pages[flags.kind().index()][0] += flags.nr_pages();
        let (accessed, left) = state.note_left(flags.home(), flags.nr_pages(), age);
        Departed::new(flags, accessed, left).pack()
    }

    fn put_back(&mut self, folio: FolioId, verdict: Verdict) {
        self.keep(folio, verdict);
    }
}

impl Policy for Strata {
    fn name(&self) -> &'static str {
        "strata"
    }

    fn add_group(&mut self, path: &str, now: TimeMs) -> Result<GroupId, PolicyError> {
        self.books.add_group(path, now)
    }

    fn appeared(&mut self, arrival: Arrival) -> Result<FolioId, PolicyError> {
        let folio = self.books.admit(&arrival)?;
        if self.stamps.len() < self.books.folios.flags.len() {
            let step = self.books.folios.flags.capacity() - self.stamps.len();
            self.stamps.reserve_exact(step);
            self.stamps.resize(self.books.folios.flags.len(), 0);
        }
        let flags = self.flags(folio);
        let walks = &mut self.books.lruvecs[flags.lruvec()].walks;
        walks.note_arrived(flags.nr_pages(), arrival.cause == Cause::Fault);
        self.arrive(folio, arrival.shadow);
        Ok(folio)
    }

    fn accessed(&mut self, folio: FolioId, via: AccessVia) {
        if via == AccessVia::PageTable {
            let flags = self.flags(folio);
            self.books.lruvecs[flags.lruvec()]
                .account
                .stats
                .nr_young_pages += flags.nr_pages();
        }
        self.heard_of(folio);
    }

    fn gone(&mut self, folio: FolioId, cause: GoneCause) -> Option<Shadow> {
        if cause == GoneCause::Reclaimed {
            let lruvec = self.flags(folio).lruvec();
            self.books.lruvecs[lruvec].note_full();
        }
        self.stop_ageing(folio);
        self.leave(folio, cause)
    }

    /// Due as soon as enough of memory is new, whether or not it is full.
    fn ageing(&self, group: GroupId, _swappiness: Swappiness) -> Result<Ageing, PolicyError> {
        let mut lruvecs = self.books.lruvecs_of(group)?;
        let is_due = |lruvec: &Lruvec| lruvec.walks.is_due(lruvec.nr_resident_pages());
        Ok(match lruvecs.any(is_due) {
            true => Ageing::Due,
            false => Ageing::NotDue,
        })
    }

    fn finish_walk(
        &mut self,
        group: GroupId,
        _swappiness: Swappiness,
        _now: TimeMs,
    ) -> Result<(), PolicyError> {
        let group = self.books.groups.get_mut(group)?;
        group.nr_ageing_runs += 1;
        for lruvec in &group.lruvecs {
            self.books.lruvecs[usize::from(*lruvec)].walks.note_walked();
        }
        Ok(())
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
        self.settle(batch, verdicts);
    }

    answered_by_books!();

    fn add_child_group(
        &mut self,
        parent: GroupId,
        path: &str,
        now: TimeMs,
    ) -> Result<GroupId, PolicyError> {
        self.books.add_child_group(parent, path, now)
    }

    fn remove_group(&mut self, group: GroupId) -> Result<(), PolicyError> {
        self.books.take_offline(group)
    }

    fn memory_bytes(&self) -> u64 {
        let stamps = self.stamps.capacity() * size_of::<u32>();
        self.books.memory_bytes() + stamps as u64
    }

    fn validate(&self) -> Result<(), String> {
        self.recount()
    }
}
