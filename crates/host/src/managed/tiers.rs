//! Pages on their way from one memory node to another.
//!
//! ```text
//!   after a walk    what goes down and what comes up is chosen (`strata_control::tiers`)
//!   each second     what moved is entered in the ledger; down goes as fast as the thread moves, up as the rate allows
//! ```
//!
//! What was chosen and has not gone by the next walk is chosen anew.
//!
//! **Owns** the nodes, requests, the counters. **Does not own** who goes where, nor moving (`strata_linux::actuator::Mover`).
//!
//! **Invariants**
//! - I1: a page that is told to have moved was in a request once.
//! - I2: where all memory is equally fast nothing moves.

use super::Managed;
use crate::observe::{Observer, SpaceId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use strata_control::tiers::{Move, NodeNow, Tiered, Tiers};
use strata_linux::actuator::{MoveReport, MoveRequest, Mover, Unmoved};
use strata_linux::addr::PAGE_BYTES;
use strata_linux::nodes::{NodeRoom, Nodes, NodesError, kernel_promotes};
use strata_linux::process::Process;
use strata_lru::ages::{Ledger, Run};
use strata_lru::{Kind, NodeId, NodeSet, SpaceNo};

/// Pages of one request, and those that the thread has at once: what it moves within some tenths of a second.
const REQUEST_PAGES_MAX: usize = 2048;
const PAGES_UNDER_WAY_MAX: usize = 4 * REQUEST_PAGES_MAX;
/// What comes up a second where nothing is said: a sixteenth of what the slowest memory behind CXL can read.
const PROMOTE_BYTES_PER_S: u64 = 64 << 20;

const NO_TIERS: &str =
    "all memory of this machine is equally fast: no page moves between memory nodes";
const NOT_SEEN: &str = "on which memory node a page is can't be seen by smaps: no page moves between them; use --access bpf";

/// What rules say of memory nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierRules {
    /// Nodes with fast memory, by the kernel's numbers; `None`: as the kernel says.
    pub upper: Option<BTreeSet<u32>>,
    /// What may come up a second.
    pub promote_bytes_per_s: u64,
    /// Used pages come up even where the kernel does that itself.
    pub beside_kernel: bool,
}

impl Default for TierRules {
    fn default() -> TierRules {
        TierRules {
            upper: None,
            promote_bytes_per_s: PROMOTE_BYTES_PER_S,
            beside_kernel: false,
        }
    }
}

/// A memory node as it stands. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct NodeStatus {
    /// The kernel's number.
    pub node: u32,
    /// Whether its memory is as fast as any that a processor is near to.
    pub is_upper: bool,
    /// All of it.
    pub total_bytes: u64,
    /// Free.
    pub free_bytes: u64,
    /// Of the groups that are looked after.
    pub resident_bytes: u64,
}

/// What moved between nodes, pages; named as in the kernel's `vmstat` where it has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TierStatus {
    /// Who else brings used pages up, so that the guard does not; `None`: nobody.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub promoted_by_kernel: Option<String>,
    /// Asked to come up.
    pub pgpromote_candidate: u64,
    /// Came up.
    pub pgpromote_success: u64,
    /// Went down.
    pub pgdemote_proactive: u64,
    /// Stayed although it was tried.
    pub pgmigrate_fail: u64,
    /// Those, by reason.
    pub stayed: BTreeMap<String, u64>,
    /// Moved, and had gone the other way within the ten minutes before.
    pub nr_back_pages: u64,
    /// Walks in a row that must find a page accessed before it comes up.
    pub streak_min: u8,
}

/// Pages that are to go, of one space.
#[derive(Debug)]
struct Waiting {
    space: SpaceNo,
    process: Arc<Process>,
    pages: Vec<u64>,
    to: NodeId,
}

/// Pages that the thread has.
#[derive(Debug)]
struct Sent {
    space: SpaceNo,
    pages: Vec<u64>,
    to: NodeId,
    is_up: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Moves {
    nodes: Nodes,
    tiers: Tiers,
    mover: Mover,
    down: VecDeque<Waiting>,
    up: VecDeque<Waiting>,
    sent: BTreeMap<u32, Sent>,
    next: u32,
    nr_pages_under_way: usize,
    forget_at: Duration,
    status: TierStatus,
}

impl Moves {
    /// Reads the nodes; `None` where all memory is equally fast.
    ///
    /// # Errors
    /// [`NodesError`], also where there can be no thread.
    pub(super) fn start(rules: &TierRules) -> Result<Option<Moves>, NodesError> {
        let mut nodes = Nodes::read()?;
        if let Some(upper) = &rules.upper {
            nodes = nodes.with_upper(upper)?;
        }
        if !nodes.has_tiers() {
            return Ok(None);
        }
        Ok(Some(Moves {
            tiers: Tiers::new(nodes.topology().clone(), rules.promote_bytes_per_s),
            nodes,
            mover: Mover::start()?,
            down: VecDeque::new(),
            up: VecDeque::new(),
            sent: BTreeMap::new(),
            next: 0,
            nr_pages_under_way: 0,
            forget_at: Ledger::MOVES_KEPT,
            status: TierStatus {
                promoted_by_kernel: kernel_promotes().filter(|_| !rules.beside_kernel),
                ..TierStatus::default()
            },
        }))
    }

    /// The nodes.
    pub(super) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// What moved so far.
    pub(super) fn status(&self) -> TierStatus {
        TierStatus {
            streak_min: self.tiers.streak_min(),
            ..self.status.clone()
        }
    }

    fn now(&self) -> Vec<NodeNow> {
        let rooms = self.nodes.rooms().unwrap_or_default();
        let now = |(at, room): (usize, &NodeRoom)| NodeNow {
            node: NodeId(at as u8),
            nr_pages: room.total_bytes / PAGE_BYTES,
            room_pages: room.room_pages(),
        };
        rooms.iter().enumerate().map(now).collect()
    }

    /// From where pages may go to swap: nowhere as long as slower memory has room, then from the slowest alone.
    pub(super) fn swaps_from(&self) -> Option<NodeSet> {
        let lowest = self.tiers.lowest();
        let now = self.now();
        let has_room = |of: &NodeNow| lowest.contains(of.node) && of.room_pages > 0;
        (!now.iter().any(has_room)).then_some(lowest)
    }

    /// What is chosen after a walk waits from now on; what waited does not any more.
    fn wait_for(&mut self, moves: &[Move], processes: &BTreeMap<SpaceId, Arc<Process>>) {
        self.down.clear();
        self.up.clear();
        for one in moves {
            let mut of_space: BTreeMap<SpaceNo, Vec<u64>> = BTreeMap::new();
            for run in &one.pages.runs {
                let pages = of_space.entry(run.space).or_default();
                pages.extend(run.first_page..run.first_page + run.nr_pages);
            }
            if one.is_up {
                self.status.pgpromote_candidate += one.pages.nr_fitting_pages;
            }
            for (space, mut pages) in of_space {
                let Some(process) = processes.get(&SpaceId(space.0)) else {
                    continue;
                };
                pages.sort_unstable();
                let waiting = Waiting {
                    space,
                    process: Arc::clone(process),
                    pages,
                    to: one.to,
                };
                match one.is_up {
                    true => self.up.push_back(waiting),
                    false => self.down.push_back(waiting),
                }
            }
        }
    }

    /// Hands over what the thread has room for.
    fn hand_over(&mut self, at: Duration) {
        while self.nr_pages_under_way < PAGES_UNDER_WAY_MAX
            && let Some(waiting) = self.down.pop_front()
        {
            self.submit(waiting, REQUEST_PAGES_MAX, false);
        }
        while self.nr_pages_under_way < PAGES_UNDER_WAY_MAX {
            let room = self.tiers.rate().room_pages(at) as usize;
            let Some(waiting) = self.up.pop_front().filter(|_| room > 0) else {
                return;
            };
            let nr_pages = waiting.pages.len().min(room).min(REQUEST_PAGES_MAX);
            self.tiers.rate().spend(at, nr_pages as u64);
            self.submit(waiting, nr_pages, true);
        }
    }

    fn submit(&mut self, mut waiting: Waiting, nr_pages: usize, is_up: bool) {
        let left = waiting.pages.split_off(nr_pages.min(waiting.pages.len()));
        let token = self.next;
        self.next = self.next.wrapping_add(1);
        let request = MoveRequest {
            token,
            process: Arc::clone(&waiting.process),
            addresses: waiting.pages.iter().map(|page| page * PAGE_BYTES).collect(),
            to: self.nodes.nodes()[usize::from(waiting.to.0)].kernel_id,
        };
        if self.mover.try_submit(request).is_err() {
            // The next walk chooses them again.
            return;
        }
        self.nr_pages_under_way += waiting.pages.len();
        self.sent.insert(
            token,
            Sent {
                space: waiting.space,
                pages: waiting.pages,
                to: waiting.to,
                is_up,
            },
        );
        if !left.is_empty() {
            let queue = if is_up { &mut self.up } else { &mut self.down };
            queue.push_front(Waiting {
                pages: left,
                ..waiting
            });
        }
    }

    /// What moved, as it is to be entered: pages, where to, and whether up.
    fn moved(&mut self, report: &MoveReport) -> Option<(Vec<Run>, NodeId, bool)> {
        let sent = self.sent.remove(&report.token)?;
        self.nr_pages_under_way -= sent.pages.len();
        for (why, nr_pages) in &report.stayed {
            if *why != Unmoved::There {
                self.status.pgmigrate_fail += nr_pages;
            }
            *self.status.stayed.entry(words(*why)).or_default() += nr_pages;
        }
        let moved = sent.pages.iter().zip(&report.moved);
        let moved = moved
            .filter(|(_, has_moved)| **has_moved)
            .map(|(page, _)| Run {
                space: sent.space,
                first_page: *page,
                nr_pages: 1,
                idle: Duration::ZERO,
            });
        Some((moved.collect(), sent.to, sent.is_up))
    }

    fn count(&mut self, nr_pages: u64, nr_back_pages: u64, is_up: bool) {
        match is_up {
            true => self.status.pgpromote_success += nr_pages,
            false => self.status.pgdemote_proactive += nr_pages,
        }
        self.status.nr_back_pages += nr_back_pages;
    }

    /// Ends the thread.
    pub(super) fn stop(&mut self) {
        self.mover.stop();
    }
}

fn words(why: Unmoved) -> String {
    match why {
        Unmoved::There => "there",
        Unmoved::Gone => "gone",
        Unmoved::Shared => "shared",
        Unmoved::Forbidden => "forbidden",
        Unmoved::Full => "full",
        Unmoved::Busy => "busy",
    }
    .to_owned()
}

impl Managed {
    /// Has memory nodes looked at, where rules ask for it; to be called before each [`Managed::tick`]. Returns why nothing moves,
    /// where that is new.
    pub fn look_at_nodes(&mut self, observer: &mut Observer) -> Option<String> {
        let wanted = self.rules.tiers.as_ref();
        if self.tiers_looked_at.as_ref() == wanted {
            return None;
        }
        self.tiers_looked_at = wanted.cloned();
        let started = wanted.map(Moves::start);
        let (moves, why_not) = match started {
            None => (None, None),
            Some(Ok(Some(moves))) => (Some(moves), None),
            Some(Ok(None)) => (None, Some(NO_TIERS.to_owned())),
            Some(Err(error)) => (
                None,
                Some(format!("no page moves between memory nodes: {error}")),
            ),
        };
        self.moves = moves;
        let ranges = self.moves.as_ref().map(|moves| moves.nodes().page_ranges());
        let is_seen = observer.see_nodes(&ranges.unwrap_or_default());
        if self.moves.is_some() && !is_seen {
            self.moves = None;
            return Some(NOT_SEEN.to_owned());
        }
        why_not
    }

    /// What moved is entered, and more is handed over.
    pub(super) fn look_at_moves(&mut self, at: Duration) {
        let Some(moves) = &mut self.moves else {
            return;
        };
        while let Some(report) = moves.mover.poll() {
            if let Some((runs, to, is_up)) = moves.moved(&report) {
                let moved = self.pages.migrated(&runs, to, is_up);
                moves.count(moved.nr_pages.total(), moved.nr_back_pages, is_up);
            }
        }
        if at >= moves.forget_at {
            moves.forget_at = at + Ledger::MOVES_KEPT;
            self.pages.forget_moves();
        }
        if self.config.is_acting {
            moves.hand_over(at);
        }
    }

    /// Chooses after a walk what goes down and what comes up.
    pub(super) fn choose_moves(&mut self, observer: &Observer) {
        let Some(moves) = self.moves.as_mut().filter(|_| self.config.is_acting) else {
            return;
        };
        let comes_up = moves.status.promoted_by_kernel.is_none();
        let groups = self.groups.iter().filter(|(_, group)| group.rule().tiers);
        let groups = groups.map(|(id, group)| Tiered {
            group: *id,
            ages: match group.is_promised() {
                true => [Kind::Anon, Kind::File].map(|kind| group.keeper.age(kind)),
                false => [group.rule().min_age; 2],
            },
            min_age: group.rule().min_age,
            comes_up,
        });
        let groups: Vec<Tiered> = groups.collect();
        let interval = self.rules.walk_interval();
        let now = moves.now();
        let chosen = moves
            .tiers
            .choose(self.pages.ledger(), &now, &groups, interval);
        let processes = observer.processes();
        let processes = processes.map(|(id, process)| (id, Arc::clone(process)));
        moves.wait_for(&chosen, &processes.collect());
        moves.hand_over(observer.elapsed());
    }

    /// How much of each group, and of all, is on each node, bytes by the kernel's number.
    pub(super) fn count_on_nodes(&mut self, of_space: &BTreeMap<SpaceId, usize>) {
        let Some(moves) = &self.moves else {
            return;
        };
        for group in self.groups.values_mut() {
            group.on_nodes.clear();
        }
        for (at, node) in moves.nodes().nodes().iter().enumerate() {
            let on = NodeSet::from_iter([NodeId(at as u8)]);
            let counted = self
                .pages
                .ledger()
                .count_on(on, self.groups.len(), |space, _| {
                    of_space.get(&SpaceId(space.0)).copied()
                });
            for (group, ages) in self.groups.values_mut().zip(&counted.parts) {
                let bytes = ages.resident().total() * PAGE_BYTES;
                group.on_nodes.insert(node.kernel_id, bytes);
            }
        }
    }

    /// Each node as it stands.
    pub(super) fn node_status(&self) -> Vec<NodeStatus> {
        let Some(moves) = &self.moves else {
            return Vec::new();
        };
        let rooms = moves.nodes().rooms().unwrap_or_default();
        let nodes = moves.nodes().nodes().iter().enumerate().zip(rooms);
        let status = nodes.map(|((at, node), room)| {
            let of = |group: &super::Group| group.on_nodes.get(&node.kernel_id).copied();
            NodeStatus {
                node: node.kernel_id,
                is_upper: moves.nodes().is_upper(NodeId(at as u8)),
                total_bytes: room.total_bytes,
                free_bytes: room.free_bytes,
                resident_bytes: self.groups.values().filter_map(of).sum(),
            }
        });
        status.collect()
    }

    /// Whether pages of a group go to slower memory before they go to swap; and from where they go to swap.
    pub(super) fn swaps_from(&self) -> Option<Option<NodeSet>> {
        self.moves.as_ref().map(Moves::swaps_from)
    }
}
