//! The queue of pages that go from one memory node to another, and the threads that move them.
//!
//! **Owns** what waits, what is under way, the rate, the counters. **Does not own** who goes where (`strata_control::tiers`), nor
//! when a walk or a census chooses (`tiers`).
//!
//! **Invariants**
//! - I1: a page that is told to have moved was in a request once.
//! - I2: where all memory is equally fast there is no queue.

use super::rules::TierRules;
use super::status::TierStatus;
use crate::engine::census::promote::Promote;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use strata_control::tiers::{Move, NodeNow, Tiers};
use strata_linux::actuator::{
    CacheMoveRequest, CacheMover, CachePages, MoveRequest, Mover, Unmoved, start_cache_mover,
    start_mover,
};
use strata_linux::addr::PAGE_BYTES;
use strata_linux::cgroup::GroupReader;
use strata_linux::nodes::{NodeRoom, Nodes, NodesError, kernel_promotes};
use strata_linux::process::Process;
use strata_lru::ages::{Ledger, Run};
use strata_lru::{NodeId, NodeSet, PromotionStrategy, SpaceNo};

/// Pages of one request, and those that the thread has at once: what it moves within some tenths of a second.
const REQUEST_PAGES_MAX: usize = 2048;
const PAGES_UNDER_WAY_MAX: usize = 4 * REQUEST_PAGES_MAX;
/// Pages that are to go, of one space.
#[derive(Debug)]
pub(super) struct Waiting {
    space: SpaceNo,
    process: Arc<Process>,
    pages: Vec<u64>,
    to: NodeId,
    /// How often processes of the group map each of them.
    nr_mappings: u8,
}

/// What became of a request, as it is to be entered.
#[derive(Debug, Default)]
pub(super) struct Moved {
    pub(super) runs: Vec<Run>,
    /// What was there already, as another process of the group has moved it.
    pub(super) there: Vec<Run>,
    /// What others have mapped, too.
    pub(super) stayed: Vec<Run>,
    pub(super) to: NodeId,
    pub(super) is_up: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Moves {
    nodes: Nodes,
    /// The fast ones, by the kernel's numbers, where rules name them.
    upper: Option<BTreeSet<u32>>,
    pub(super) tiers: Tiers,
    mover: Mover,
    cache_mover: CacheMover,
    page_cache: PromotionStrategy,
    /// Page cache that is to come up.
    up_cache: VecDeque<CachePages>,
    pub(super) down: VecDeque<Waiting>,
    pub(super) up: VecDeque<Waiting>,
    /// What the thread has, and whether it goes up. The thread answers in the order in which it is asked.
    sent: VecDeque<(Waiting, bool)>,
    nr_pages_under_way: usize,
    pub(super) forget_at: Duration,
    status: TierStatus,
}

impl Moves {
    /// Between these nodes; `None` where all memory is equally fast.
    ///
    /// # Errors
    /// [`NodesError`], also where there can be no thread.
    pub(super) fn start(rules: &TierRules, nodes: &Nodes) -> Result<Option<Moves>, NodesError> {
        let nodes = as_said(nodes, rules.upper.as_ref())?;
        if !nodes.has_tiers() {
            return Ok(None);
        }
        Ok(Some(Moves {
            tiers: Tiers::new(nodes.topology().clone(), rules.promote_bytes_per_s),
            nodes,
            upper: rules.upper.clone(),
            mover: start_mover()?,
            cache_mover: start_cache_mover()?,
            page_cache: rules.page_cache,
            up_cache: VecDeque::new(),
            down: VecDeque::new(),
            up: VecDeque::new(),
            sent: VecDeque::new(),
            nr_pages_under_way: 0,
            forget_at: Ledger::MOVES_KEPT,
            status: TierStatus {
                promoted_by_kernel: kernel_promotes().filter(|_| !rules.beside_kernel),
                ..TierStatus::default()
            },
        }))
    }

    /// Memory went or came; none of the nodes has another place. Returns whether some memory is slower than other.
    ///
    /// # Errors
    /// Those of [`Nodes::with_upper`]; the nodes are then as they were.
    pub(super) fn set_nodes(&mut self, nodes: &Nodes) -> Result<bool, NodesError> {
        self.nodes = as_said(nodes, self.upper.as_ref())?;
        self.tiers.set_topology(self.nodes.topology().clone());
        Ok(self.nodes.has_tiers())
    }

    /// The nodes.
    pub(super) fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Whether the kernel brings used pages of programs up by itself.
    pub(super) fn is_left_to_kernel(&self) -> bool {
        self.status.promoted_by_kernel.is_some()
    }

    /// What moved so far.
    pub(super) fn status(&self) -> TierStatus {
        TierStatus {
            streak_min: self.tiers.streak_min(),
            ..self.status.clone()
        }
    }

    pub(super) fn now(&self) -> Vec<NodeNow> {
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

    /// These wait from now on.
    pub(super) fn add(&mut self, moves: &[Move], processes: &BTreeMap<SpaceNo, Arc<Process>>) {
        for one in moves {
            let mut of_space: BTreeMap<(u8, SpaceNo), Vec<u64>> = BTreeMap::new();
            let alone = one.pages.runs.iter().map(|run| (run, 1));
            let shared = one.pages.shared.iter();
            for (run, nr_mappings) in alone.chain(shared.map(|(run, number)| (run, *number))) {
                let pages = of_space.entry((nr_mappings, run.space)).or_default();
                pages.extend(run.first_page..run.first_page + run.nr_pages);
            }
            if one.is_up {
                self.status.pgpromote_candidate += one.pages.nr_fitting_pages;
            }
            for ((nr_mappings, space), mut pages) in of_space {
                let Some(process) = processes.get(&space) else {
                    continue;
                };
                pages.sort_unstable();
                let waiting = Waiting {
                    space,
                    process: Arc::clone(process),
                    pages,
                    to: one.to,
                    nr_mappings,
                };
                match one.is_up {
                    true => self.up.push_back(waiting),
                    false => self.down.push_back(waiting),
                }
            }
        }
    }

    /// What a census chose waits from now on; what waited does not any more.
    pub(super) fn wait_for_cache(&mut self, pages: Vec<CachePages>) {
        let nr_pages: u64 = pages.iter().map(|of| of.nr_pages).sum();
        self.status.pgpromote_candidate += nr_pages;
        self.up_cache = pages.into();
    }

    /// What a census is to choose of page cache: no more than may come up within this time, and than there is room for.
    pub(super) fn promote(
        &self,
        time: Duration,
        groups: Vec<(u64, GroupReader)>,
    ) -> Option<Promote> {
        if self.page_cache == PromotionStrategy::Never || groups.is_empty() {
            return None;
        }
        let nodes = self.nodes.nodes().iter();
        let ids = 0..self.nodes.nodes().len();
        let slow = ids
            .map(|at| NodeId(at as u8))
            .filter(|node| !self.nodes.is_upper(*node));
        let (_, room) = self.fast_room()?;
        Some(Promote {
            strategy: self.page_cache,
            ranges: self.nodes.page_ranges(),
            kernel_ids: nodes.map(|node| node.kernel_id).collect(),
            slow: slow.collect(),
            nr_pages_max: self.tiers.pages_within(time).min(room),
            groups,
        })
    }

    /// The fast node with most room, by the kernel's number, and how much that is.
    fn fast_room(&self) -> Option<(u32, u64)> {
        let now = self.now();
        let fast = now.iter().filter(|of| self.nodes.is_upper(of.node));
        let most = fast.max_by_key(|of| of.promotion_room_pages())?;
        let id = self.nodes.nodes()[usize::from(most.node.0)].kernel_id;
        Some((id, most.promotion_room_pages()))
    }

    /// Hands over page cache as the rate allows, piece by piece.
    pub(super) fn hand_over_cache(&mut self, at: Duration) {
        while let Some(mut waiting) = self.up_cache.pop_front() {
            let rate = self.tiers.rate().room_pages(at);
            let (to, room) = self.fast_room().unwrap_or_default();
            let nr_pages = waiting
                .nr_pages
                .min(rate)
                .min(room)
                .min(REQUEST_PAGES_MAX as u64);
            if nr_pages == 0 {
                self.up_cache.push_front(waiting);
                return;
            }
            let pages = take_first(&mut waiting, nr_pages);
            self.tiers.rate().spend(at, pages.nr_pages);
            let request = CacheMoveRequest { pages, to };
            if self.cache_mover.try_submit(request).is_err() {
                return;
            }
            if waiting.nr_pages > 0 {
                self.up_cache.push_front(waiting);
            }
        }
    }

    pub(super) fn collect_cache(&mut self) {
        while let Some(report) = self.cache_mover.poll() {
            self.status.pgpromote_success += report.nr_moved_pages;
            self.status.nr_promoted_unmapped_pages += report.nr_moved_pages;
            self.status.pgmigrate_fail += report.nr_tried_pages - report.nr_moved_pages;
        }
    }

    /// Hands over what the thread has room for.
    pub(super) fn hand_over(&mut self, at: Duration) {
        while self.nr_pages_under_way < PAGES_UNDER_WAY_MAX
            && let Some(waiting) = self.down.pop_front()
        {
            self.submit(waiting, REQUEST_PAGES_MAX, false);
        }
        while self.nr_pages_under_way < PAGES_UNDER_WAY_MAX {
            let rate = self.tiers.rate().room_pages(at);
            let now = self.now();
            let room = |to| {
                let node = now.iter().find(|of| of.node == to);
                node.map_or(0, NodeNow::promotion_room_pages).min(rate)
            };
            let Some((waiting, nr_pages)) = next_up(&mut self.up, room) else {
                return;
            };
            self.tiers.rate().spend(at, nr_pages as u64);
            self.submit(waiting, nr_pages, true);
        }
    }

    fn submit(&mut self, mut waiting: Waiting, nr_pages: usize, is_up: bool) {
        let left = waiting.pages.split_off(nr_pages.min(waiting.pages.len()));
        let request = MoveRequest {
            process: Arc::clone(&waiting.process),
            addresses: waiting.pages.iter().map(|page| page * PAGE_BYTES).collect(),
            to: self.nodes.nodes()[usize::from(waiting.to.0)].kernel_id,
            nr_mappings: waiting.nr_mappings,
        };
        if self.mover.try_submit(request).is_err() {
            // The next walk chooses them again.
            return;
        }
        self.nr_pages_under_way += waiting.pages.len();
        if !left.is_empty() {
            let queue = if is_up { &mut self.up } else { &mut self.down };
            let process = Arc::clone(&waiting.process);
            queue.push_front(Waiting {
                pages: left,
                process,
                ..waiting
            });
        }
        self.sent.push_back((waiting, is_up));
    }

    /// What became of a request, as it is to be entered.
    pub(super) fn moved(&mut self) -> Option<Moved> {
        let report = self.mover.poll()?;
        let (sent, is_up) = self.sent.pop_front()?;
        self.nr_pages_under_way -= sent.pages.len();
        let mut moved = Moved {
            to: sent.to,
            is_up,
            ..Moved::default()
        };
        for (page, stayed) in sent.pages.iter().zip(report) {
            if let Some(why) = stayed {
                self.status.pgmigrate_fail += u64::from(why != Unmoved::There);
                *self.status.stayed.entry(why).or_default() += 1;
            }
            let runs = match stayed {
                None => &mut moved.runs,
                Some(Unmoved::There) => &mut moved.there,
                Some(Unmoved::Shared) => &mut moved.stayed,
                Some(_) => continue,
            };
            runs.push(Run {
                space: sent.space,
                first_page: *page,
                nr_pages: 1,
                idle: Duration::ZERO,
            });
        }
        Some(moved)
    }

    pub(super) fn count(&mut self, nr_pages: u64, nr_back_pages: u64, is_up: bool) {
        match is_up {
            true => self.status.pgpromote_success += nr_pages,
            false => self.status.pgdemote_proactive += nr_pages,
        }
        self.status.nr_back_pages += nr_back_pages;
    }

    /// Ends the thread.
    pub(super) fn stop(&mut self) {
        self.mover.stop();
        self.cache_mover.stop();
    }
}

/// The nodes, of which these are the fast ones where rules say so.
fn as_said(nodes: &Nodes, upper: Option<&BTreeSet<u32>>) -> Result<Nodes, NodesError> {
    let nodes = nodes.clone();
    match upper {
        // One alone may be named: it is all that is left.
        Some(upper) if nodes.nodes().len() > 1 => nodes.with_upper(upper),
        _ => Ok(nodes),
    }
}

/// What comes up next, and how many pages of it. What there is no room for waits on.
fn next_up(
    up: &mut VecDeque<Waiting>,
    room_pages: impl FnOnce(NodeId) -> u64,
) -> Option<(Waiting, usize)> {
    let first = up.front()?;
    let room = room_pages(first.to) as usize;
    let nr_pages = first.pages.len().min(room).min(REQUEST_PAGES_MAX);
    match nr_pages {
        0 => None,
        nr_pages => up.pop_front().map(|waiting| (waiting, nr_pages)),
    }
}

/// Takes so many pages off the front.
fn take_first(waiting: &mut CachePages, nr_pages: u64) -> CachePages {
    let mut left = nr_pages;
    let mut taken = CachePages {
        file: Arc::clone(&waiting.file),
        ranges: Vec::new(),
        nr_pages: 0,
    };
    while left > 0 && !waiting.ranges.is_empty() {
        let range = &mut waiting.ranges[0];
        let end = range.end.min(range.start + left);
        taken.ranges.push(range.start..end);
        taken.nr_pages += end - range.start;
        left -= end - range.start;
        range.start = end;
        if range.is_empty() {
            waiting.ranges.remove(0);
        }
    }
    waiting.nr_pages -= taken.nr_pages;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(pages: std::ops::Range<u64>) -> Waiting {
        let own = crate::observe::own_pid();
        Waiting {
            space: SpaceNo(0),
            process: Arc::new(Process::open(own).expect("this process runs")),
            pages: pages.collect(),
            to: NodeId(0),
            nr_mappings: 1,
        }
    }

    #[test]
    fn what_there_is_no_room_for_waits_on() {
        let mut up = VecDeque::from([waiting(0..100), waiting(0..5)]);
        assert!(next_up(&mut up, |_| 0).is_none());
        assert_eq!(up.len(), 2, "nothing is lost");
        let (first, nr_pages) = next_up(&mut up, |_| 30).expect("room");
        assert_eq!((first.pages.len(), nr_pages, up.len()), (100, 30, 1));
    }

    #[test]
    fn page_cache_is_taken_piece_by_piece_in_order() {
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        let mut waiting = CachePages {
            file,
            ranges: vec![0..10, 20..25],
            nr_pages: 15,
        };
        let taken = take_first(&mut waiting, 12);
        assert_eq!((taken.ranges, taken.nr_pages), (vec![0..10, 20..22], 12));
        let left = std::slice::from_ref(&(22..25));
        assert_eq!((&waiting.ranges[..], waiting.nr_pages), (left, 3));
    }
}
