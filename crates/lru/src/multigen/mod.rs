//! The multi-generational LRU: a page's life, a file a stage.
//!
//! ```text
//!   appeared -> refault -> placement      where a new folio enters
//!   accessed -> promotion                 what one access changes
//!   finish_walk -> ageing                 how the window moves up
//!   isolate / complete / gone -> eviction who leaves, who is spared, who comes back
//! ```
//!
//! **Owns** the engine's state and the [`Policy`] door. **Does not own** the rules, which are in the
//! files beside, or which kernel has which ([`crate::model`]).
//!
//! **Invariants**
//! - I1: a live folio is on exactly one list, or isolated and on none.
//! - I2: a folio's generation is never older than the list it is on, except after a generation was
//!   merged by overlap (see `ageing`).
//! - I3: nothing is allocated after a folio has found its slot: only the table and new lruvecs grow, and
//!   what a trial follows, up to its bounds.

mod ageing;
mod command;
mod distance;
mod eviction;
mod full;
mod look_around;
mod migration;
mod placement;
mod promotion;
mod refault;
mod validate;
mod walk;
mod writeback;

#[cfg(test)]
mod tests;

use crate::{
    books::{Bookkeeper, Books, answered_by_books},
    config::{Config, ConfigError, MinTtl},
    counting::Counting,
    error::PolicyError,
    folio::Flags,
    group::{GroupTree, Limits},
    ids::{FolioId, GenSeq, GroupId, Kind, NodeId, Order, TimeMs},
    lru_gen::LruGen,
    lruvec::Lruvec,
    memcg_lru::MemcgLru,
    policy::Policy,
    reclaim::GroupRules,
    rules::{Aborting, AgeingRule, Rules},
    seam::{
        AccessVia, Ageing, Arrival, EvictBatch, GoneCause, GroupView, Isolated, ReclaimRequest,
        ReclaimStats, RelaxedWalk, Shadow, Verdict, WriteState,
    },
    swappiness::Swappiness,
    trial::{Judge, Tried},
    walk::{AgeingWalks, Spaces, WalkStats},
};

/// The multi-generational LRU.
///
/// Deterministic: the same calls give the same answers and the same state.
#[derive(Debug)]
pub struct MultiGen {
    rules: Rules,
    counting: Counting,
    judge: Judge<MultiGen>,
    has_swap: bool,
    min_ttl_ms: u64,
    min_ttl: MinTtl,
    books: Books<Lruvec>,
    spaces: Spaces,
}

impl MultiGen {
    /// An empty engine; the error names the setting that is out of bounds.
    pub fn new(config: Config) -> Result<MultiGen, ConfigError> {
        config.validate()?;
        Ok(MultiGen {
            counting: config.rules.counting(),
            rules: config.rules,
            judge: Judge::new(&config),
            has_swap: config.has_swap,
            min_ttl_ms: config.min_ttl_ms,
            min_ttl: config.min_ttl,
            books: Books::new(&config, config.rules.nr_gens).with_memcg_lrus(config.seed),
            spaces: Spaces::default(),
        })
    }

    /// Folios in memory, isolated ones included.
    pub fn nr_folios(&self) -> u32 {
        self.books.folios.nr_live()
    }

    /// The generation a folio counts for, `None` while it is isolated.
    pub fn generation(&self, folio: FolioId) -> Option<GenSeq> {
        let flags = self.flags(folio);
        let lruvec = &self.books.lruvecs[flags.lruvec()];
        let index = flags.generation()?;
        Some(GenSeq(lruvec.seq_of_index(index)))
    }

    /// Accesses through descriptors that a folio's flags tell, as far as they can.
    pub fn nr_counted(&self, folio: FolioId) -> u32 {
        let flags = self.flags(folio);
        let marks = [flags.is_referenced(), flags.is_workingset()];
        marks.map(u32::from).iter().sum::<u32>() + flags.refs_field()
    }

    /// The most that [`MultiGen::nr_counted`] tells: the referenced and the workingset flag, and what the field holds.
    pub fn nr_counted_max(&self) -> u32 {
        2 + self.counting.field_max()
    }

    /// Whether a folio has the mark of an access.
    pub fn is_referenced(&self, folio: FolioId) -> bool {
        self.flags(folio).is_referenced()
    }

    /// The tier a folio is in, from 0: what the feedback controller spares it for.
    pub fn tier(&self, folio: FolioId) -> u8 {
        self.counting.tier(self.flags(folio)) as u8
    }

    /// What the engine goes by.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    fn flags(&self, folio: FolioId) -> Flags {
        self.books.flags(folio)
    }
}

impl Bookkeeper for MultiGen {
    type Lruvec = Lruvec;

    fn books(&mut self) -> &mut Books<Lruvec> {
        &mut self.books
    }

    fn kept(&self) -> &Books<Lruvec> {
        &self.books
    }

    fn bury(&mut self, folio: FolioId, flags: Flags) -> Shadow {
        let lruvec = &mut self.books.lruvecs[flags.lruvec()];
        let shadow = lruvec.bury(flags, self.counting, self.judge.is_told_distances());
        self.judge.left(folio, shadow)
    }

    fn put_back(&mut self, folio: FolioId, verdict: Verdict) {
        self.put_back_younger(folio, verdict);
    }
}

impl Policy for MultiGen {
    fn name(&self) -> &'static str {
        "mglru"
    }

    fn appeared(&mut self, arrival: Arrival) -> Result<FolioId, PolicyError> {
        let folio = self.books.admit(&arrival)?;
        let returned = match self.judge.arrived(folio, &arrival) {
            Some(shadow) if self.judge.is_told_distances() => {
                self.refault_by_distance(folio, shadow, arrival.cause)
            }
            Some(shadow) => {
                self.refault(folio, shadow, arrival.cause);
                None
            }
            None => None,
        };
        let standing = self.standing(folio, &arrival);
        let standing = returned.unwrap_or(standing);
        self.enter(folio, standing);
        Ok(folio)
    }

    // Inline, so that a wrapper elsewhere (`tiering`) costs no call.
    #[inline]
    fn accessed(&mut self, folio: FolioId, via: AccessVia) {
        self.hear_access(folio, via);
    }

    fn ageing(&self, group: GroupId, swappiness: Swappiness) -> Result<Ageing, PolicyError> {
        let rule = self.rules.ageing;
        let of_nodes = self.books.lruvecs_of(group)?;
        let most_urgent = of_nodes.map(|of| of.ageing(rule, swappiness)).max();
        Ok(most_urgent.unwrap_or(Ageing::NotDue))
    }

    fn is_reclaimable(
        &self,
        group: GroupId,
        node: NodeId,
        swappiness: Swappiness,
        priority: u8,
        now: TimeMs,
    ) -> Result<bool, PolicyError> {
        let mut lruvecs = self.books.lruvecs_of(group)?;
        let is_asked = self.min_ttl_ms > 0 && self.min_ttl == MinTtl::AllTogether;
        let has_old = |of: &Lruvec| self.has_old(of, swappiness, priority, now);
        Ok(!is_asked || lruvecs.any(|of| of.account.node == node && has_old(of)))
    }

    fn relaxed_walk(&self) -> RelaxedWalk {
        match self.rules.ageing {
            AgeingRule::ByWindowAtOnce => RelaxedWalk::Made,
            AgeingRule::WhenMust | AgeingRule::BySizes | AgeingRule::ByWindow => {
                RelaxedWalk::PutOff
            }
        }
    }

    fn finish_walk(
        &mut self,
        group: GroupId,
        swappiness: Swappiness,
        now: TimeMs,
    ) -> Result<(), PolicyError> {
        let nr_lruvecs = self.books.group(group)?.lruvecs.len();
        let now = self.books.tell_time(now);
        for position in 0..nr_lruvecs {
            let lruvec = usize::from(self.books.group(group)?.lruvecs[position]);
            self.inc_max_seq(lruvec, swappiness, now);
        }
        self.books.groups.get_mut(group)?.nr_ageing_runs += 1;
        Ok(())
    }

    fn aborting(&self) -> Aborting {
        self.rules.aborting
    }

    fn isolate(
        &mut self,
        request: ReclaimRequest,
        now: TimeMs,
        batch: &mut EvictBatch,
    ) -> Result<Isolated, PolicyError> {
        self.isolate_from_group(request, now, batch)
    }

    fn complete(&mut self, batch: &mut EvictBatch, verdicts: &[Verdict]) {
        self.judge.tried(&batch.folios, verdicts);
        self.settle(batch, verdicts);
    }

    answered_by_books!();

    fn memory_bytes(&self) -> u64 {
        let filters = self
            .books
            .lruvecs
            .iter()
            .map(|of| of.walk.filters.memory_bytes());
        let own = self.books.memory_bytes() + self.spaces.memory_bytes();
        own + filters.sum::<u64>() + self.judge.memory_bytes()
    }

    fn memcg_lru(&mut self, node: NodeId) -> Option<&mut MemcgLru> {
        self.books.memcg_lru(node)
    }

    fn soft_limit_exceeded(&mut self, group: GroupId) {
        self.books.bring_forward(group);
    }

    fn group_rules(&self) -> GroupRules {
        self.rules.groups
    }

    fn add_child_group(
        &mut self,
        parent: GroupId,
        path: &str,
        now: TimeMs,
    ) -> Result<GroupId, PolicyError> {
        let group = self.books.add_child_group(parent, path, now)?;
        self.judge.begin_group(group);
        Ok(group)
    }

    fn remove_group(&mut self, group: GroupId) -> Result<(), PolicyError> {
        if !self.spaces.row(group).is_empty() {
            return Err(PolicyError::GroupBusy(group));
        }
        self.books.take_offline(group)?;
        self.judge.end_group(group);
        Ok(())
    }

    fn walks(&mut self) -> Option<&mut dyn AgeingWalks> {
        Some(self)
    }

    fn lru_gen(&mut self) -> Option<&mut dyn LruGen> {
        Some(self)
    }

    fn walk_stats(&self, group: GroupId) -> Result<WalkStats, PolicyError> {
        let lruvecs = self.books.lruvecs_of(group)?;
        Ok(lruvecs.map(|lruvec| lruvec.walk.stats).sum())
    }

    fn validate(&self) -> Result<(), String> {
        self.recount()?;
        self.judge.validate()
    }
}

impl Tried for MultiGen {
    fn in_small(config: Config) -> Result<MultiGen, ConfigError> {
        MultiGen::new(config)
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
            AccessVia::PageTable => self.found_young(folio),
            AccessVia::FileDescriptor => self.count_access(folio),
        }
    }
}
