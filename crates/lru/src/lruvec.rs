//! The lruvec: the folios of one group on one node, as a sliding window of generations.
//!
//! ```text
//!    min_seq[kind]                                   max_seq
//!        |                                              |
//!     +------+      +------+      +------+      +------+
//!     |oldest|      |      |      |active|      |active|     one list a kind in each
//!     +------+      +------+      +------+      +------+
//!        ^ eviction takes here       new pages enter near here ^
//! ```
//!
//! `max_seq` is shared by both kinds, each kind has a `min_seq` of its own. A generation's lists
//! and sizes are found at index `seq % 4`.
//!
//! **Owns** the window, sizes, birth times, the controller's and the reclaim counters.
//! **Does not own** folios or lists, or when the window moves (`multigen::ageing`).
//!
//! **Invariants**
//! - I1: `2 <= max_seq - min_seq[kind] + 1 <= 4` for each kind.
//! - I2: `nr_pages[gen][kind]` is the sum of the sizes of the folios whose flags word names that
//!   generation, whichever list they still are on.
//! - I3: births of the window never decrease from old to young.

use crate::{
    controller::Controller,
    ids::{GenSeq, GroupId, Kind, NodeId, TimeMs},
    list::ListId,
    seam::{ReclaimStats, Swappiness},
    walk::WalkState,
};

/// Fewest generations: with only these left nothing may be evicted (rules 1.1).
pub(crate) const MIN_NR_GENS: u64 = 2;

/// Most generations (rules 1.1).
pub(crate) const MAX_NR_GENS: usize = 4;

/// Lists of one lruvec.
pub(crate) const NR_LISTS: u32 = 2 * MAX_NR_GENS as u32;

/// Folios of one group on one node.
#[derive(Debug)]
pub(crate) struct Lruvec {
    pub(crate) max_seq: u64,
    pub(crate) min_seq: [u64; 2],
    /// Base pages by generation index and kind.
    pub(crate) nr_pages: [[u64; 2]; MAX_NR_GENS],
    pub(crate) stats: ReclaimStats,
    pub(crate) births: [TimeMs; MAX_NR_GENS],
    pub(crate) controller: Controller,
    first_list: ListId,
    pub(crate) group: GroupId,
    pub(crate) node: NodeId,
    pub(crate) walk: WalkState,
    /// Whether an oldest generation of the kind was ever merged into the youngest unsorted.
    pub(crate) has_overlapped: [bool; 2],
}

impl Lruvec {
    /// Four generations born `now`, all empty (rules 1.2).
    pub(crate) fn new(group: GroupId, node: NodeId, first_list: ListId, now: TimeMs) -> Lruvec {
        Lruvec {
            max_seq: MAX_NR_GENS as u64 - 1,
            min_seq: [0; 2],
            nr_pages: [[0; 2]; MAX_NR_GENS],
            stats: ReclaimStats::default(),
            births: [now; MAX_NR_GENS],
            controller: Controller::default(),
            first_list,
            group,
            node,
            walk: WalkState::new(MAX_NR_GENS as u64 - 1),
            has_overlapped: [false; 2],
        }
    }

    /// The first of its lists; the numbers of the others follow.
    pub(crate) fn first_list(&self) -> ListId {
        self.first_list
    }

    /// Where a generation's sizes and birth are kept.
    pub(crate) fn generation_index(seq: u64) -> usize {
        (seq % MAX_NR_GENS as u64) as usize
    }

    /// The list of a generation and kind.
    pub(crate) fn list(&self, generation: usize, kind: Kind) -> ListId {
        ListId(self.first_list.0 + (kind.index() * MAX_NR_GENS + generation) as u32)
    }

    /// The list eviction takes from.
    pub(crate) fn oldest_list(&self, kind: Kind) -> ListId {
        self.list(self.oldest_index(kind), kind)
    }

    /// Index of the oldest generation of a kind.
    pub(crate) fn oldest_index(&self, kind: Kind) -> usize {
        Self::generation_index(self.min_seq[kind.index()])
    }

    /// Generations of a kind, 2..=4.
    pub(crate) fn nr_gens(&self, kind: Kind) -> u64 {
        self.max_seq - self.min_seq[kind.index()] + 1
    }

    /// Base pages of the kinds that may be evicted.
    pub(crate) fn nr_evictable_pages(&self, swappiness: Swappiness) -> u64 {
        Kind::ALL
            .into_iter()
            .filter(|kind| swappiness.allows(*kind))
            .map(|kind| self.nr_pages.iter().map(|of| of[kind.index()]).sum::<u64>())
            .sum()
    }

    /// The oldest generation among the kinds that may be evicted; every swappiness allows one.
    pub(crate) fn oldest_evictable_seq(&self, swappiness: Swappiness) -> GenSeq {
        let of = |kind: Kind| swappiness.allows(kind).then(|| self.min_seq[kind.index()]);
        let oldest = match (of(Kind::Anon), of(Kind::File)) {
            (Some(anon), Some(file)) => anon.min(file),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => self.max_seq,
        };
        GenSeq(oldest)
    }

    /// When a generation of the window was born.
    pub(crate) fn birth(&self, seq: GenSeq) -> TimeMs {
        self.births[Self::generation_index(seq.0)]
    }

    /// Checks the window and the births.
    pub(crate) fn validate(&self) -> Result<(), String> {
        for kind in Kind::ALL {
            let oldest = self.min_seq[kind.index()];
            let nr_gens = (self.max_seq + 1).saturating_sub(oldest);
            if !(MIN_NR_GENS..=MAX_NR_GENS as u64).contains(&nr_gens) {
                return Err(format!(
                    "{kind} window {oldest}..={} out of 2..=4",
                    self.max_seq
                ));
            }
            let births = (oldest..=self.max_seq).map(|seq| self.birth(GenSeq(seq)));
            if !births.is_sorted() {
                return Err(format!("births not ascending: {:?}", self.births));
            }
        }
        Ok(())
    }
}
