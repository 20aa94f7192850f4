//! The books every policy keeps alike: who is in memory, on which list, and charged to whom.
//!
//! A policy decides in which order folios leave. What does not depend on the order is here, once:
//!
//! ```text
//!   appeared -> admit (folios)     a slot, a charge        enter    on a list, in a size
//!   isolate  -> isolate (folios)   off its list, in a batch
//!   complete -> settle (batch)     a verdict: evicted, with a shadow and maybe in swap; or put back
//!   gone     -> leave (batch)
//!   standing, begin_move, end_move -> migration    from node to node
//!   groups, limits, swap, nodes -> groups
//!   validate -> recount (validate)
//! ```
//!
//! **Owns** folios, lists, lruvecs, groups, the memcg LRUs and their counts. **Does not own** any
//! order, the state of a policy in its lruvecs ([`Booked`]), or what a shadow says.
//!
//! **Invariants**
//! - I1: a live folio is on exactly one list, or isolated and on none.
//! - I2: a group is charged for its folios from their arrival until their ids are free again, so a
//!   folio that is gone while isolated still counts.
//! - I3: a lruvec whose number is free is empty and of no group.
//! - I4: nothing is allocated after a folio has found its slot: only the table and new lruvecs grow.

mod batch;
mod folios;
mod groups;
mod migration;
mod policy;
mod validate;

pub(crate) use batch::Bookkeeper;
pub(crate) use migration::Mover;
pub(crate) use policy::{answered_by_books, answered_by_fields};
pub(crate) use validate::Listed;

use crate::{
    config::Config,
    error::PolicyError,
    folio::{Flags, FolioTable},
    group::{Group, GroupTree},
    ids::{FolioId, GenSeq, GroupId, Kind, NodeId, TimeMs},
    list::{ListId, Lists},
    memcg_lru::MemcgLru,
    seam::{GenerationView, GroupView, ReclaimStats},
    swappiness::Swappiness,
};

/// What is known of an lruvec whatever the policy: whose it is, and what reclaim counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    pub(crate) group: GroupId,
    pub(crate) node: NodeId,
    /// The first of its lists; the numbers of the others follow.
    pub(crate) first_list: ListId,
    /// Base pages handed out in batches that are not completed yet.
    pub(crate) nr_isolated_pages: u64,
    pub(crate) stats: ReclaimStats,
}

impl Account {
    /// The account of an lruvec nothing has happened to.
    pub(crate) fn new(group: GroupId, node: NodeId, first_list: ListId) -> Account {
        Account {
            group,
            node,
            first_list,
            nr_isolated_pages: 0,
            stats: ReclaimStats::default(),
        }
    }
}

/// An lruvec as the books need it: folios of one group on one node, in generations (or halves, or
/// parts) that are told apart by an index.
pub(crate) trait Booked {
    /// What is the same for all lruvecs of an engine.
    type Shape: Copy + std::fmt::Debug;

    /// Lists of one lruvec.
    fn nr_lists(shape: Self::Shape) -> u32;

    /// An empty one, born `now`.
    fn new(account: Account, shape: Self::Shape, now: TimeMs) -> Self;

    fn account(&self) -> &Account;

    fn account_mut(&mut self) -> &mut Account;

    /// Base pages on lists, by generation index and kind.
    fn nr_pages(&self) -> &[[u64; 2]];

    fn nr_pages_mut(&mut self) -> &mut [[u64; 2]];

    /// The list of a generation and kind.
    fn list_of(&self, generation: usize, kind: Kind) -> ListId;

    /// The generations of the lruvec as people see them, oldest first.
    fn generations(&self, now: TimeMs) -> Vec<GenerationView>;
}

/// Who is in memory, on which list, and charged to whom.
#[derive(Debug)]
pub(crate) struct Books<L: Booked> {
    pub(crate) folios: FolioTable,
    pub(crate) lists: Lists,
    pub(crate) lruvecs: Vec<L>,
    pub(crate) groups: GroupTree,
    /// By node; none with a policy that has no use for them.
    memcg_lrus: Vec<MemcgLru>,
    memcg_seed: Option<u64>,
    shape: L::Shape,
    /// The latest time told, for lruvecs born between two calls that carry one.
    now: TimeMs,
}

impl<L: Booked> Books<L> {
    /// Empty books.
    pub(crate) fn new(config: &Config, shape: L::Shape) -> Books<L> {
        Books {
            folios: FolioTable::new(config.nr_folios_max),
            lists: Lists::default(),
            lruvecs: Vec::new(),
            groups: GroupTree::new(),
            memcg_lrus: Vec::new(),
            memcg_seed: None,
            shape,
            now: TimeMs::default(),
        }
    }

    /// The books with a memcg LRU for each node.
    pub(crate) fn with_memcg_lrus(mut self, seed: u64) -> Books<L> {
        self.memcg_seed = Some(seed);
        self
    }

    /// Notes the time, which never goes back.
    pub(crate) fn tell_time(&mut self, now: TimeMs) -> TimeMs {
        self.now = self.now.max(now);
        self.now
    }

    #[inline]
    pub(crate) fn flags(&self, folio: FolioId) -> Flags {
        self.folios.flags[folio.index()]
    }

    /// The flags of a folio that is in memory, as a policy is promised.
    #[inline]
    pub(crate) fn present(&self, folio: FolioId) -> Flags {
        let flags = self.flags(folio);
        debug_assert!(
            flags.is_live() && !flags.is_gone(),
            "{folio:?} is not in memory"
        );
        flags
    }

    #[inline]
    pub(crate) fn set_flags(&mut self, folio: FolioId, flags: Flags) {
        self.folios.flags[folio.index()] = flags;
    }

    pub(crate) fn group(&self, group: GroupId) -> Result<&Group, PolicyError> {
        self.groups.get(group)
    }

    /// The lruvecs of a group, in the order its nodes were first used.
    pub(crate) fn lruvecs_of(
        &self,
        group: GroupId,
    ) -> Result<impl Iterator<Item = &L>, PolicyError> {
        let numbers = self.group(group)?.lruvecs.iter();
        Ok(numbers.map(|number| &self.lruvecs[usize::from(*number)]))
    }

    pub(crate) fn view(&self, group: GroupId, now: TimeMs) -> Result<Vec<GroupView>, PolicyError> {
        let path = &self.group(group)?.path;
        let mut views: Vec<GroupView> = self
            .lruvecs_of(group)?
            .map(|lruvec| GroupView {
                group,
                path: path.clone(),
                node: lruvec.account().node,
                generations: lruvec.generations(now),
            })
            .collect();
        views.sort_by_key(|view| view.node);
        Ok(views)
    }

    pub(crate) fn stats(&self, group: GroupId) -> Result<ReclaimStats, PolicyError> {
        let mut sum = ReclaimStats {
            nr_ageing_runs: self.group(group)?.nr_ageing_runs,
            ..ReclaimStats::default()
        };
        for lruvec in self.lruvecs_of(group)? {
            sum += lruvec.account().stats;
        }
        Ok(sum)
    }

    /// Base pages of a group that may be evicted, on one node or on all.
    pub(crate) fn nr_evictable_pages(
        &self,
        group: GroupId,
        node: Option<NodeId>,
        swappiness: Swappiness,
    ) -> Result<u64, PolicyError> {
        let is_asked_for = |of: &&L| node.is_none_or(|node| node == of.account().node);
        let asked_for = self.lruvecs_of(group)?.filter(is_asked_for);
        Ok(asked_for.map(|of| evictable(of, swappiness)).sum())
    }

    /// Bytes allocated for all of it.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let lruvecs = (self.lruvecs.capacity() * size_of::<L>()) as u64;
        let memcg_lrus: u64 = self.memcg_lrus.iter().map(MemcgLru::memory_bytes).sum();
        let fixed = lruvecs + memcg_lrus + self.groups.memory_bytes();
        self.folios.memory_bytes() + self.lists.memory_bytes() + fixed
    }
}

/// Base pages of the kinds that may be evicted.
pub(crate) fn evictable(lruvec: &impl Booked, swappiness: Swappiness) -> u64 {
    let allowed = Kind::ALL.into_iter().filter(|of| swappiness.allows(*of));
    let sizes = lruvec.nr_pages().iter();
    allowed
        .map(|kind| sizes.clone().map(|of| of[kind.index()]).sum::<u64>())
        .sum()
}

/// The view of an lruvec that is in two parts, both as old as itself.
pub(crate) fn two_generations(nr_pages: [[u64; 2]; 2], age_ms: u64) -> Vec<GenerationView> {
    let view = |(seq, of_part): (u64, [u64; 2])| GenerationView {
        seq: GenSeq(seq),
        age_ms,
        nr_pages: of_part.map(Some),
    };
    (0..).zip(nr_pages).map(view).collect()
}
