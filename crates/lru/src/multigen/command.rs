//! The `lru_gen` commands carried out on the engine (rules 6).
//!
//! A command becomes a plan: checked against the window once, and then led to its end by the
//! mechanism, which alone can walk and evict.
//!
//! ```text
//!   + :  plan -> the mechanism walks      -> finish_planned_walk
//!   - :  plan -> isolate_planned -> the mechanism tries the batch -> complete -> (again) -> None
//! ```
//!
//! **Owns** the checks and when a command is done. **Does not own** its grammar ([`crate::lru_gen`]).

use super::{
    MultiGen,
    eviction::{Demand, PRIORITY_RELAXED},
};
use crate::{
    error::PolicyError,
    ids::{GenSeq, GroupId, MIN_NR_GENS, NodeId, TimeMs},
    lru_gen::{
        Command, CommandError, EvictPlan, FullView, LruGen, Operation, Plan, WalkPlan, Walked,
    },
    rules::CommandRule,
    seam::{EvictBatch, Isolated},
    swappiness::Swappiness,
};

/// The most base pages in one batch of a command.
const NR_BATCH_PAGES_MAX: u64 = 4096;

impl LruGen for MultiGen {
    fn plan(&self, command: Command, own_swappiness: Swappiness) -> Result<Plan, CommandError> {
        let Command {
            group, node, seq, ..
        } = command;
        let lruvec = self.lruvec_named(group, node)?;
        let max_seq = self.books.lruvecs[lruvec].max_seq;
        let is_out_of_range = match command.operation {
            Operation::Age { .. } => seq.0 > max_seq,
            Operation::Evict { .. } => seq.0.saturating_add(MIN_NR_GENS) > max_seq,
        };
        if is_out_of_range {
            return Err(CommandError::Generation {
                seq,
                max_seq: GenSeq(max_seq),
            });
        }
        let swappiness = self.known_swappiness(command.swappiness, own_swappiness)?;
        Ok(match command.operation {
            Operation::Age { is_scan_forced } => {
                if self.rules.commands == CommandRule::OldIsDone {
                    if seq.0 < max_seq {
                        return Ok(Plan::Done);
                    }
                    let oldest = self.books.lruvecs[lruvec]
                        .oldest_evictable_seq(swappiness)
                        .0;
                    let is_full = max_seq - oldest + 1 == self.rules.nr_gens.into();
                    if is_full && !is_scan_forced {
                        return Err(CommandError::WindowFull);
                    }
                }
                Plan::Walk(WalkPlan {
                    group,
                    node,
                    swappiness,
                    is_scan_forced,
                    lruvec,
                    max_seq,
                })
            }
            Operation::Evict { nr_pages_max } => Plan::Evict(EvictPlan {
                group,
                node,
                swappiness,
                seq,
                nr_pages_max,
                lruvec,
            }),
        })
    }

    fn finish_planned_walk(&mut self, plan: &WalkPlan, now: TimeMs) -> Result<(), CommandError> {
        if self.books.lruvecs[plan.lruvec].max_seq != plan.max_seq {
            return Err(CommandError::GenerationExists(GenSeq(plan.max_seq + 1)));
        }
        let now = self.books.tell_time(now);
        self.inc_max_seq(plan.lruvec, plan.swappiness, now);
        if let Ok(group) = self.books.groups.get_mut(plan.group) {
            group.nr_ageing_runs += 1;
        }
        Ok(())
    }

    fn isolate_planned(
        &mut self,
        plan: &EvictPlan,
        nr_freed_pages: u64,
        batch: &mut EvictBatch,
    ) -> bool {
        batch.clear();
        let nr_pages = plan
            .nr_pages_max
            .saturating_sub(nr_freed_pages)
            .min(NR_BATCH_PAGES_MAX);
        let demand = Demand {
            nr_pages,
            swappiness: plan.swappiness,
            priority: PRIORITY_RELAXED,
            born_before: None,
            last_seq: plan.seq,
            nr_passes_max: u32::MAX,
        };
        if nr_pages == 0 {
            return false;
        }
        loop {
            match self.isolate_from_lruvec(plan.lruvec, demand, batch) {
                Isolated::Pages(_) => return true,
                // A whole budget of folios was sorted off the oldest lists: it gets there.
                Isolated::Again => {}
                Isolated::NeedsAgeing | Isolated::Thrashing | Isolated::Empty => return false,
            }
        }
    }

    fn walked(&mut self, group: GroupId, node: NodeId, walked: Walked) {
        self.note_walked(group, node, walked);
    }

    fn full_view(&self, group: GroupId, now: TimeMs) -> Result<Vec<FullView>, PolicyError> {
        self.full_views(group, now)
    }
}

impl MultiGen {
    /// The swappiness of a command, if the kernel knows it.
    fn known_swappiness(
        &self,
        given: Option<Swappiness>,
        own: Swappiness,
    ) -> Result<Swappiness, CommandError> {
        let is_new = given == Some(Swappiness::ANON_ONLY);
        match self.rules.commands {
            CommandRule::OldIsDone if is_new => Err(CommandError::SwappinessTooNew),
            CommandRule::OldIsDone | CommandRule::AnyAges => Ok(given.unwrap_or(own)),
        }
    }

    fn lruvec_named(&self, group: GroupId, node: NodeId) -> Result<usize, CommandError> {
        let of_group = self.books.group(group);
        let of_group = of_group.map_err(|_| CommandError::NoGroup(group.0.into()))?;
        let mut lruvecs = of_group.lruvecs.iter().map(|n| usize::from(*n));
        let lruvec = lruvecs.find(|n| self.books.lruvecs[*n].account.node == node);
        lruvec.ok_or_else(|| CommandError::NoNode(node.0.into()))
    }
}
