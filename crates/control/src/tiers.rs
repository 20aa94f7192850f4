//! Which pages of programs go down to slower memory and which come up, after each walk.
//!
//! ```text
//!   idle for the group's age, on a fast node     down, to the next lower tier, before swap is used
//!   a fast node is short                         the oldest of it down, if only as old as the rule allows
//!   used by several walks in a row, on a slow    up, as fast as the rate allows, while there is room above the
//!   node                                         watermark and the reserve
//! ```
//!
//! A page has to be steadier in use the more pages ask to come up: where these are more than 110 % of what the rate lets
//! through, one walk more in a row has to find them accessed, where less than 90 % one less. So does the kernel with the
//! latency of a hint fault (`numa_balancing`, `fair.c`); walks know no latency. Where a fast node is full, pages come up only
//! as others go down. A page that went both ways within ten minutes stays where it is for as long.
//!
//! **Owns** who goes where, how many, and how steadily a page has to be used. **Does not own** ages and nodes
//! (`strata_lru::ages`), the order of nodes (`strata_lru::tiering`), page cache that nobody maps (`page_cache`), nor moving
//! (the host).
//!
//! **Invariants**
//! - I1: no more goes to a node than is free there above its watermark; what comes up leaves the reserve free, too.
//! - I2: within any second no more comes up than the rate.
//! - I3: what goes up is used, what goes down is idle: no page is chosen for both.

use std::collections::VecDeque;
use std::time::Duration;
use strata_lru::Topology;
use strata_lru::ages::{Candidates, Ledger, Moved, On, Query, STREAK_MAX};
use strata_lru::{GroupId, Kind, NodeId, NodeSet};

use crate::PAGE_BYTES;

/// Share of a fast node that is kept free for what programs ask for next.
const RESERVE_SHARE: f64 = 0.02;
/// To begin with a page comes up that two walks in a row found accessed: one finds what is only passed through, too.
const STREAK_MIN: u8 = 2;
/// More candidates than this share of what the rate lets through: they have to be steadier.
const MANY_SHARE: f64 = 1.1;
/// Fewer: they need not be as steady.
const FEW_SHARE: f64 = 0.9;
/// Anonymous pages, pages of files.
const NR_KINDS: usize = Kind::ALL.len();
/// What moves within this counts for the rate.
const RATE_WINDOW: Duration = Duration::from_secs(1);

/// A node as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeNow {
    /// Which.
    pub node: NodeId,
    /// Pages that it has.
    pub nr_pages: u64,
    /// Free above its watermark.
    pub room_pages: u64,
}

impl NodeNow {
    /// What may come up to it.
    pub fn promotion_room_pages(&self) -> u64 {
        self.room_pages.saturating_sub(self.reserve_pages())
    }

    fn reserve_pages(&self) -> u64 {
        (self.nr_pages as f64 * RESERVE_SHARE) as u64
    }
}

/// A group whose pages may move.
#[derive(Clone, Copy, Debug)]
pub struct Tiered {
    /// Who it is.
    pub group: GroupId,
    /// What counts as idle: anonymous pages, pages of files.
    pub ages: [Duration; NR_KINDS],
    /// Nothing is idle that was accessed within so long, however short memory is.
    pub min_age: Duration,
    /// Whether its used pages come up: not where the kernel does that.
    pub comes_up: bool,
}

/// Pages that are to move.
#[derive(Clone, Debug)]
pub struct Move {
    /// Which.
    pub pages: Candidates,
    /// Where to.
    pub to: NodeId,
    /// Whether `to` is faster than the node the pages are on.
    pub is_up: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Tiers {
    topology: Topology,
    rate: UpRate,
    streak_min: u8,
}

impl Tiers {
    /// Over these nodes; so many bytes a second may come up.
    pub fn new(topology: Topology, promote_bytes_per_s: u64) -> Tiers {
        Tiers {
            topology,
            rate: UpRate::new(promote_bytes_per_s),
            streak_min: STREAK_MIN,
        }
    }

    /// How many walks in a row must find a page accessed before it comes up.
    pub fn streak_min(&self) -> u8 {
        self.streak_min
    }

    /// Memory went or came.
    pub fn set_topology(&mut self, topology: Topology) {
        self.topology = topology;
    }

    /// Nodes from which pages go to swap: the lowest tier of all that have memory.
    pub fn lowest(&self) -> NodeSet {
        let nodes = self.topology.nodes().iter();
        let nodes = nodes.filter(|of| of.nr_pages > 0).map(|of| of.node);
        let with_memory: NodeSet = nodes.clone().collect();
        let is_lowest = |node: &NodeId| {
            let mut lower = self.topology.lower_nodes(*node).iter();
            !lower.any(|node| with_memory.contains(*node))
        };
        nodes.filter(is_lowest).collect()
    }

    /// What may come up within so long, pages.
    pub fn pages_within(&self, time: Duration) -> u64 {
        self.rate.pages_within(time)
    }

    /// How much may come up now.
    pub fn rate(&mut self) -> &mut UpRate {
        &mut self.rate
    }

    /// Chooses after a walk; `interval` is the time to the next one. What goes down is first.
    pub fn choose(
        &mut self,
        ledger: &Ledger,
        nodes: &[NodeNow],
        groups: &[Tiered],
        interval: Duration,
    ) -> Vec<Move> {
        let mut rooms: Vec<NodeNow> = nodes.to_vec();
        let mut moves = self.down(ledger, &mut rooms, groups);
        // What went down has not left its node yet: what comes up takes what is free now.
        moves.extend(self.up(ledger, nodes, groups, interval));
        moves
    }

    /// The oldest pages of these groups that are on a fast node, so many of them, where somebody asks for that.
    pub fn demote(
        &self,
        ledger: &Ledger,
        nodes: &[NodeNow],
        groups: &[Tiered],
        nr_pages: u64,
    ) -> Vec<Move> {
        let mut rooms: Vec<NodeNow> = nodes.to_vec();
        let mut left = nr_pages;
        let mut moves = Vec::new();
        for from in self.upper(nodes) {
            let wanted = Wanted {
                from: from.node,
                nr_pages_max: left,
                moved: Moved::Any,
            };
            let found = self.down_from(ledger, &mut rooms, groups, wanted, |of| {
                [of.min_age; NR_KINDS]
            });
            left -= nr_pages_of(&found);
            moves.extend(found);
        }
        moves
    }

    fn upper<'a>(&'a self, nodes: &'a [NodeNow]) -> impl Iterator<Item = NodeNow> + 'a {
        let has_lower = |of: &NodeNow| !self.topology.lower_nodes(of.node).is_empty();
        nodes.iter().copied().filter(has_lower)
    }

    fn down(&self, ledger: &Ledger, rooms: &mut [NodeNow], groups: &[Tiered]) -> Vec<Move> {
        let mut moves = Vec::new();
        let nodes = rooms.to_vec();
        for from in self.upper(&nodes) {
            let wanted = Wanted {
                from: from.node,
                nr_pages_max: u64::MAX,
                moved: Moved::NotUp,
            };
            let idle = self.down_from(ledger, rooms, groups, wanted, |of| of.ages);
            let going = nr_pages_of(&idle);
            moves.extend(idle);
            let missing = from.reserve_pages().saturating_sub(from.room_pages + going);
            if missing > 0 && going == 0 {
                let wanted = Wanted {
                    nr_pages_max: missing,
                    moved: Moved::Any,
                    ..wanted
                };
                let oldest = |of: &Tiered| [of.min_age; NR_KINDS];
                moves.extend(self.down_from(ledger, rooms, groups, wanted, oldest));
            }
        }
        moves
    }

    /// What of these groups leaves a node, for the next lower tier as far as there is room, else for lower ones.
    fn down_from(
        &self,
        ledger: &Ledger,
        rooms: &mut [NodeNow],
        groups: &[Tiered],
        wanted: Wanted,
        ages: impl Fn(&Tiered) -> [Duration; NR_KINDS],
    ) -> Vec<Move> {
        let mut left = wanted.nr_pages_max;
        let mut moves: Vec<Move> = Vec::new();
        let picker = ledger.picker();
        let lower = self.topology.lower_nodes(wanted.from).iter();
        let target = lower.filter_map(|node| rooms.iter().position(|of| of.node == *node));
        let Some(to) = target.into_iter().find(|at| rooms[*at].room_pages > 0) else {
            return moves;
        };
        for group in groups {
            for (kind, age) in [Kind::Anon, Kind::File].into_iter().zip(ages(group)) {
                let pages = picker.candidates(&Query {
                    group: group.group,
                    kind: Some(kind),
                    older_than: age,
                    code_older_than: age,
                    objects: None,
                    on: Some(On {
                        nodes: NodeSet::from_iter([wanted.from]),
                        streak_min: 0,
                        moved: wanted.moved,
                        is_move: true,
                    }),
                    nr_pages_max: left.min(rooms[to].room_pages),
                });
                if pages.nr_pages == 0 {
                    continue;
                }
                left -= pages.nr_pages;
                rooms[to].room_pages -= pages.nr_pages;
                moves.push(Move {
                    pages,
                    to: rooms[to].node,
                    is_up: false,
                });
            }
        }
        moves
    }

    fn up(
        &mut self,
        ledger: &Ledger,
        nodes: &[NodeNow],
        groups: &[Tiered],
        interval: Duration,
    ) -> Vec<Move> {
        let allowed = self.rate.pages_within(interval);
        let mut left = allowed;
        let mut nr_candidates = 0;
        let mut moves = Vec::new();
        let picker = ledger.picker();
        let is_top = |of: &&NodeNow| self.topology.is_top_tier(of.node);
        let mut tops: Vec<NodeNow> = nodes.iter().filter(is_top).copied().collect();
        let slow: NodeSet = nodes
            .iter()
            .filter(|of| !is_top(of))
            .map(|of| of.node)
            .collect();
        for group in groups.iter().filter(|group| group.comes_up) {
            let mut query = Query {
                group: group.group,
                on: Some(On {
                    nodes: slow,
                    streak_min: self.streak_min,
                    moved: Moved::NotBoth,
                    is_move: true,
                }),
                ..Query::default()
            };
            nr_candidates += picker.candidates(&query).nr_fitting_pages;
            // The node with most room.
            tops.sort_by_key(NodeNow::promotion_room_pages);
            let Some(to) = tops.last_mut() else { break };
            let room = to.promotion_room_pages();
            query.nr_pages_max = left.min(room);
            let pages = picker.candidates(&query);
            if pages.nr_pages == 0 {
                continue;
            }
            left -= pages.nr_pages;
            to.room_pages -= pages.nr_pages;
            moves.push(Move {
                pages,
                to: to.node,
                is_up: true,
            });
        }
        self.adapt(nr_candidates, allowed);
        moves
    }

    fn adapt(&mut self, nr_candidates: u64, allowed: u64) {
        let share = nr_candidates as f64 / allowed.max(1) as f64;
        if share > MANY_SHARE {
            self.streak_min = (self.streak_min + 1).min(STREAK_MAX);
        } else if share < FEW_SHARE {
            self.streak_min = (self.streak_min - 1).max(STREAK_MIN);
        }
    }
}

fn nr_pages_of(moves: &[Move]) -> u64 {
    moves.iter().map(|one| one.pages.nr_pages).sum()
}

/// What is to leave a node.
#[derive(Clone, Copy)]
struct Wanted {
    from: NodeId,
    nr_pages_max: u64,
    moved: Moved,
}

/// How much may come up now.
#[derive(Clone, Debug)]
pub struct UpRate {
    pages_per_s: u64,
    /// What came up within the last second.
    recent: VecDeque<(Duration, u64)>,
}

impl UpRate {
    fn new(bytes_per_s: u64) -> UpRate {
        UpRate {
            pages_per_s: bytes_per_s / PAGE_BYTES,
            recent: VecDeque::new(),
        }
    }

    fn pages_within(&self, time: Duration) -> u64 {
        (self.pages_per_s as f64 * time.as_secs_f64()) as u64
    }

    /// Pages that may come up at `at`, on a clock that does not go back.
    pub fn room_pages(&mut self, at: Duration) -> u64 {
        while let Some((then, _)) = self.recent.front()
            && at.saturating_sub(*then) > RATE_WINDOW
        {
            self.recent.pop_front();
        }
        let used: u64 = self.recent.iter().map(|(_, nr_pages)| nr_pages).sum();
        self.pages_per_s.saturating_sub(used)
    }

    /// So many pages come up.
    pub fn spend(&mut self, at: Duration, nr_pages: u64) {
        self.recent.push_back((at, nr_pages));
    }
}

#[cfg(test)]
mod tests;
