//! Pages between memory nodes: what rules say, what is chosen and when, what is told.
//!
//! ```text
//!   after a walk    what goes down and what comes up is chosen (`strata_control::tiers`)
//!   each second     what moved is entered in the ledger; down goes as fast as the thread moves, up as the rate allows
//! ```
//!
//! What was chosen and has not gone by the next walk is chosen anew.
//!
//! **Owns** the rules and figures, and when to choose. **Does not own** who goes where, nor what is on its way (`moves`).

use super::Managed;
use super::moves::Moves;
use crate::engine::census::promote::Promote;
use crate::observe::Observer;
use crate::observe::ledger::{NodeStatus, OnNodes};
use std::time::Duration;
use strata_control::tiers::Tiered;
use strata_linux::addr::PAGE_BYTES;
use strata_lru::ages::Ledger;
use strata_lru::{Kind, NodeSet};

const NO_TIERS: &str =
    "all memory of this machine is equally fast: no page moves between memory nodes";
const TIERS_CAME: &str = "there is slower memory now: pages move between memory nodes";
const NOT_SEEN: &str =
    "on which memory node a page is, and may be, is told by BPF alone: no page moves between nodes";

impl Managed {
    /// Has memory nodes looked at, where rules ask for it, as memory goes and comes; to be called before each [`Managed::tick`].
    /// Returns what is new to say of it: why nothing moves, or that pages move from now on.
    pub fn look_at_nodes(&mut self, observer: &mut Observer) -> Option<String> {
        let Some(rules) = self.rules.tiers.clone() else {
            (self.moves, self.tiers_looked_at) = (None, None);
            return None;
        };
        let had_tiers = self.has_tiers();
        let seen = self.pages.see_nodes(observer);
        let nodes = self.pages.nodes().cloned();
        let before = self.tiers_looked_at.replace((rules, nodes));
        if before == self.tiers_looked_at {
            return None;
        }
        let (rules, nodes) = self.tiers_looked_at.as_ref()?;
        let before = before.filter(|(old, _)| old == rules);
        if before.is_none() {
            self.moves = None;
        }
        let has_tiers = seen.and_then(|tells_nodes| {
            let Some(nodes) = nodes else { return Ok(false) };
            if let Some(moves) = &mut self.moves {
                return moves.set_nodes(nodes);
            }
            let moves = Moves::start(rules, nodes)?;
            let has_tiers = moves.is_some();
            self.moves = moves.filter(|_| tells_nodes);
            Ok(has_tiers)
        });
        match has_tiers {
            Ok(true) if self.moves.is_none() => Some(NOT_SEEN.to_owned()),
            Ok(true) => (before.is_some() && !had_tiers).then(|| TIERS_CAME.to_owned()),
            Ok(false) => Some(NO_TIERS.to_owned()),
            Err(error) => Some(format!("no page moves between memory nodes: {error}")),
        }
    }

    /// What moved is entered, and more is handed over.
    pub(super) fn look_at_moves(&mut self, at: Duration) {
        let Some(moves) = &mut self.moves else {
            return;
        };
        let ledger = self.pages.ledger_mut();
        while let Some(went) = moves.moved() {
            let moved = ledger.migrated(&went.runs, went.to, went.is_up);
            ledger.migrated(&went.there, went.to, went.is_up);
            ledger.stayed(&went.stayed);
            moves.count(moved.nr_pages.total(), moved.nr_back_pages, went.is_up);
        }
        moves.collect_cache();
        if at >= moves.forget_at {
            moves.forget_at = at + Ledger::MOVES_KEPT;
            self.pages.ledger_mut().forget_moves();
        }
        if self.config.is_acting {
            moves.hand_over(at);
            moves.hand_over_cache(at);
        }
    }

    /// Chooses after a walk what goes down and what comes up.
    pub(super) fn choose_moves(&mut self, observer: &Observer) {
        let is_left = self.moves.as_ref().is_some_and(Moves::is_left_to_kernel);
        let groups = self.tiered(!is_left);
        let Some(moves) = self.moves.as_mut().filter(|_| self.config.is_acting) else {
            return;
        };
        let interval = self.rules.walk_interval();
        let now = moves.now();
        let chosen = moves
            .tiers
            .choose(self.pages.ledger(), &now, &groups, interval);
        moves.down.clear();
        moves.up.clear();
        moves.add(&chosen, &observer.reachable());
        moves.hand_over(observer.elapsed());
    }

    /// Moves so much of what is on fast nodes down, the oldest first, whatever promises say: somebody asks for it.
    pub fn demote(&mut self, observer: &Observer, bytes: u64) {
        let groups = self.tiered(false);
        let Some(moves) = self.moves.as_mut().filter(|_| self.config.is_acting) else {
            return;
        };
        let now = moves.now();
        let nr_pages = bytes / PAGE_BYTES;
        let chosen = moves
            .tiers
            .demote(self.pages.ledger(), &now, &groups, nr_pages);
        moves.add(&chosen, &observer.reachable());
        moves.hand_over(observer.elapsed());
    }

    /// Groups whose pages move.
    fn tiered(&self, comes_up: bool) -> Vec<Tiered> {
        let groups = self.groups.iter().filter(|(_, group)| group.rule.tiers);
        let groups = groups.map(|(id, group)| Tiered {
            group: *id,
            ages: match group.is_promised() {
                true => [Kind::Anon, Kind::File].map(|kind| group.holder.age(kind)),
                false => [group.rule.min_age; 2],
            },
            min_age: group.rule.min_age,
            comes_up,
        });
        groups.collect()
    }

    /// What a census is to choose of page cache that comes up.
    pub(super) fn to_promote(&self) -> Option<Promote> {
        let moves = self.moves.as_ref().filter(|_| self.config.is_acting)?;
        let groups = self.groups.values().filter(|group| group.rule.tiers);
        let groups = groups.filter_map(|group| Some((group.kernel_id?, group.reader.clone())));
        // What waits is chosen anew by each census, of which two come within the least age.
        moves.promote(self.rules.min_age(), groups.collect())
    }

    /// Each node as it stands.
    pub(super) fn node_status(&self) -> Vec<NodeStatus> {
        let mut resident = OnNodes::new();
        for (node, bytes) in self.groups.values().flat_map(|group| &group.on_nodes) {
            *resident.entry(*node).or_default() += bytes;
        }
        let moves = self.moves.iter();
        moves
            .flat_map(|moves| NodeStatus::of_all(moves.nodes(), &resident))
            .collect()
    }

    /// Whether pages of a group go to slower memory before they go to swap; and from where they go to swap.
    pub(super) fn swaps_from(&self) -> Option<Option<NodeSet>> {
        let moves = self.moves.as_ref().filter(|_| self.has_tiers());
        moves.map(Moves::swaps_from)
    }

    /// Whether there is slower memory that pages go to.
    pub(super) fn has_tiers(&self) -> bool {
        let moves = self.moves.as_ref();
        moves.is_some_and(|moves| moves.nodes().has_tiers())
    }
}
