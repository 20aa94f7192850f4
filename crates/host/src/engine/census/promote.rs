//! Which page cache that nobody maps comes up to faster memory, while a census lists pages.
//!
//! **Owns** judging a page as the engine's strategies do (`strata_lru::PromotionStrategy`). **Does not own** how many may come up,
//! nor when (the guard), nor moving them.
//!
//! **Invariants**
//! - I1: a page comes up only from a slow node.

use std::collections::BTreeMap;
use strata_linux::access::kernel_generations;
use strata_linux::cgroup::GroupReader;
use strata_lru::machine::{PageFound, Placed};
use strata_lru::{FolioStanding, NodeId, NodeSet, Order, PromotionStrategy, Recency};

/// Generations that count as active: the youngest and the one before it.
const GENERATIONS: u64 = 4;

/// What of page cache is to come up.
#[derive(Clone, Debug)]
pub(crate) struct Promote {
    /// Which pages.
    pub(crate) strategy: PromotionStrategy,
    /// Pages of physical memory by node: first, the one after the last, and the node.
    pub(crate) ranges: Vec<(u64, u64, NodeId)>,
    /// The kernel's number of each node.
    pub(crate) kernel_ids: Vec<u32>,
    /// Nodes from which pages come up.
    pub(crate) slow: NodeSet,
    /// The most of them.
    pub(crate) nr_pages_max: u64,
    /// The groups whose page cache comes up: inodes of their directories.
    pub(crate) groups: Vec<(u64, GroupReader)>,
}

/// Judges pages as a census lists them.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    promote: &'a Promote,
    nr_reads_max: u32,
    /// The youngest generation of each group on each node, where the strategy goes by that.
    youngest: BTreeMap<(u64, NodeId), u64>,
    has_generations: bool,
}

impl<'a> Judge<'a> {
    pub(super) fn new(promote: &'a Promote, nr_reads_max: u32, has_generations: bool) -> Judge<'a> {
        let by_generation = match promote.strategy {
            PromotionStrategy::RfcAsCoded | PromotionStrategy::FiveConditions => has_generations,
            _ => false,
        };
        let mut youngest = BTreeMap::new();
        for (id, reader) in promote.groups.iter().filter(|_| by_generation) {
            for view in kernel_generations(reader) {
                let kernel_id = u32::from(view.node.0);
                let node = promote.kernel_ids.iter().position(|id| *id == kernel_id);
                if let (Some(node), Some(last)) = (node, view.generations.last()) {
                    youngest.insert((*id, NodeId(node as u8)), last.seq.0);
                }
            }
        }
        Judge {
            promote,
            nr_reads_max,
            youngest,
            has_generations,
        }
    }

    /// Whether pages of a group come up.
    pub(super) fn is_of(&self, group: u64) -> bool {
        self.promote.groups.iter().any(|(id, _)| *id == group)
    }

    /// Whether a page of a group comes up.
    pub(super) fn wants(&self, group: u64, page: &PageFound, placed: &Placed) -> bool {
        if page.is_mapped || page.nr_reads == 0 {
            return false;
        }
        let is_in = |(first, end, _): &&(u64, u64, NodeId)| (*first..*end).contains(&placed.page);
        let Some((_, _, node)) = self.promote.ranges.iter().find(is_in) else {
            return false;
        };
        let is_saturated = page.nr_reads >= self.nr_reads_max;
        let recency = match self.has_generations {
            false => Recency::List {
                is_active: placed.is_active,
            },
            true => Recency::Generation {
                below_max: self.below_max(group, *node, placed.generation),
                is_saturated,
                sets_no_flag: page.is_referenced && placed.is_workingset,
            },
        };
        let standing = FolioStanding {
            node: *node,
            order: Order::BASE,
            is_isolated: false,
            is_referenced: page.is_referenced,
            is_workingset: placed.is_workingset,
            recency,
        };
        self.promote.slow.contains(*node) && self.promote.strategy.wants(&standing)
    }

    fn below_max(&self, group: u64, node: NodeId, generation: Option<u8>) -> Option<u64> {
        let youngest = self.youngest.get(&(group, node))?;
        let generation = u64::from(generation?);
        Some((youngest % GENERATIONS + GENERATIONS - generation) % GENERATIONS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_lru::machine::FileKey;

    const SLOW: NodeId = NodeId(1);

    fn promote(strategy: PromotionStrategy) -> Promote {
        Promote {
            strategy,
            ranges: vec![(0, 100, NodeId(0)), (100, 200, SLOW)],
            kernel_ids: vec![0, 1],
            slow: NodeSet::from_iter([SLOW]),
            nr_pages_max: 1000,
            groups: Vec::new(),
        }
    }

    fn found(nr_reads: u32, is_referenced: bool) -> PageFound {
        PageFound {
            file: FileKey(1),
            index: 0,
            nr_pages: 1,
            nr_reads,
            is_busy: false,
            is_referenced,
            is_mapped: false,
        }
    }

    fn placed(page: u64, is_active: bool, is_workingset: bool) -> Placed {
        Placed {
            page,
            is_active,
            is_workingset,
            generation: Some(2),
        }
    }

    #[test]
    fn each_strategy_wants_what_the_engines_one_wants() {
        // MGLRU counts five reads, the classic LRU three; generation 2 of a youngest 7 is one below.
        let wants = |strategy, has_generations, reads, referenced, active, workingset| {
            let promote = promote(strategy);
            let mut judge = Judge::new(
                &promote,
                if has_generations { 5 } else { 3 },
                has_generations,
            );
            judge.youngest.insert((9, SLOW), 7);
            judge.wants(
                9,
                &found(reads, referenced),
                &placed(150, active, workingset),
            )
        };
        use PromotionStrategy::{FirstAccess, FiveConditions, Never, Refs, RfcAsCoded};
        for (strategy, classic, generations) in [
            (Never, [false, false, false], [false, false, false]),
            (FirstAccess, [true, true, true], [true, true, true]),
            (Refs, [false, false, true], [false, false, true]),
            (RfcAsCoded, [false, false, true], [false, false, true]),
            (FiveConditions, [false, false, true], [false, false, true]),
        ] {
            // Read once; read again and referenced; as much as the kernel counts.
            let of_classic = [
                wants(strategy, false, 1, true, false, false),
                wants(strategy, false, 2, false, true, false),
                wants(strategy, false, 3, true, true, false),
            ];
            assert_eq!(of_classic, classic, "{strategy} of two lists");
            let of_generations = [
                wants(strategy, true, 1, true, false, false),
                wants(strategy, true, 4, true, false, false),
                wants(strategy, true, 5, true, false, true),
            ];
            assert_eq!(of_generations, generations, "{strategy} of generations");
        }
    }

    #[test]
    fn what_is_fast_already_mapped_never_read_or_on_no_known_node_stays() {
        let promote = promote(PromotionStrategy::FirstAccess);
        let judge = Judge::new(&promote, 5, true);
        let wants = |page: PageFound, at| judge.wants(9, &page, &placed(at, false, false));
        assert!(wants(found(1, true), 150));
        assert!(!wants(found(1, true), 50), "fast");
        assert!(!wants(found(1, true), 500), "nowhere");
        assert!(!wants(found(0, false), 150), "never read");
        let mapped = PageFound {
            is_mapped: true,
            ..found(1, true)
        };
        assert!(!wants(mapped, 150), "left to walks");
    }

    #[test]
    fn a_page_of_an_old_generation_does_not_come_up_by_the_five_conditions() {
        let promote = promote(PromotionStrategy::FiveConditions);
        let mut judge = Judge::new(&promote, 5, true);
        let page = found(5, true);
        let wants = |judge: &Judge<'_>| judge.wants(9, &page, &placed(150, false, true));
        assert!(!wants(&judge), "the generations are not known");
        for (youngest, expected) in [(6, true), (7, true), (8, false), (9, false)] {
            judge.youngest.insert((9, SLOW), youngest);
            assert_eq!(
                wants(&judge),
                expected,
                "generation 2 modulo 4 of {youngest}"
            );
        }
    }
}
