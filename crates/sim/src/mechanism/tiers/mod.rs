//! Memory in tiers: the same policies, with a fast node and slower ones below it.
//!
//! ```text
//!   miss -> the fastest node --full or nearly--> reclaim of that node
//!                                                  young      put back
//!                                                  else       demoted to the next node that has room,
//!                                                             made there by reclaim of its own
//!                                                  lowest     evicted
//!   hit  -> on a slower node: mapped and made to fault by the last sweep -> hint fault
//!                             through a descriptor -> the strategy for page cache
//!           what is queued by either moves up at once, if the fast node has room
//! ```
//!
//! Simpler than the one-node mechanism, whose counts are compared with kernels: with one group reclaim
//! runs at the relaxed priority and walks when nothing old is left; a sweep reaches all mapped pages of
//! slower nodes at once; dirty pages are written as they are evicted. A promotion that finds the fast
//! node full fails, and reclaim in the background makes room for the next, as the kernel does. Each node
//! ages by itself. With a tree of groups the engine says who gives, on the node that is short; a limit
//! counts the pages of all nodes (`reclaim`).
//!
//! **Owns** where pages lie, sweeps, and what is moved. **Does not own** who goes up or down (the
//! engine's tiering), or what is printed.
//!
//! **Invariants**
//! - I1: no node ever holds more pages than it has.
//! - I2: where a page lies here, its folio lies in the policy (held by tests).

mod machine;
mod nodes;
mod reclaim;
mod setup;

#[cfg(test)]
mod tests;

pub(crate) use nodes::{FAST, Tiers};
pub use setup::TierSetup;
use strata_lru::{MultiGen, Policy, TieringConfig, TwoList, tiered};

use self::nodes::Node;
use super::{KernelPolicy, Machine, nr_reclaim_pages};
use crate::{
    outcome::Outcome,
    simulate::{Progress, Setup, SimError},
    workload::Workload,
};

/// Replays a workload under a policy whose memory is divided into tiers.
pub(crate) fn run(
    policy: &KernelPolicy,
    tiers: &TierSetup,
    workload: &Workload,
    setup: &Setup,
    progress: &dyn Progress,
) -> Result<Outcome, SimError> {
    let (memory_pages, nr_tiers) = (setup.memory_pages, tiers.nr_tiers());
    if (memory_pages as usize) < nr_tiers {
        return Err(SimError::TooFewPages {
            memory_pages,
            nr_tiers,
        });
    }
    let nr_pages = tiers.nr_pages(memory_pages);
    let config = tiers.config(&nr_pages)?;
    let policy = tiered_policy(policy, config)?;
    machine(policy, workload, setup, tiers, &nr_pages)?.run(progress)
}

/// A machine whose nodes have so many pages.
fn machine<'w>(
    policy: Box<dyn Policy>,
    workload: &'w Workload,
    setup: &Setup,
    tiers: &TierSetup,
    nr_pages: &[u32],
) -> Result<Machine<'w, dyn Policy>, SimError> {
    let mut machine = Machine::new(policy, workload, setup)?;
    let node = |nr_pages: &u32| Node {
        nr_pages: *nr_pages,
        nr_batch_pages: nr_reclaim_pages(*nr_pages),
        nr_free: *nr_pages,
    };
    machine.tiers = Tiers::new(tiers, nr_pages.iter().map(node).collect(), workload);
    Ok(machine)
}

/// The policy with its tiers.
fn tiered_policy(
    policy: &KernelPolicy,
    config: TieringConfig,
) -> Result<Box<dyn Policy>, SimError> {
    Ok(match policy {
        KernelPolicy::MultiGen(of) => tiered(MultiGen::new(of.clone())?, config)?,
        KernelPolicy::TwoList(of) => tiered(TwoList::new(of.clone())?, config)?,
    })
}
