//! Groups: one for everything, or the trace's own under one that holds all memory.
//!
//! ```text
//!   /          all of memory: no more than this for all together
//!   +- /0      the trace's group 0 with its limits
//!   +- /1      ...
//! ```
//!
//! In a tree the engine says who is reclaimed from ([`strata_lru::Reclaim`]); with one group there is
//! nothing to choose.
//!
//! **Owns** which of the policy's groups a group of the trace is. **Does not own** limits or usage
//! (the policy's tree).

use strata_lru::{GroupId, GroupView, Limits, Policy, PolicyError, TimeMs};

use crate::{outcome::GenerationPages, simulate::Setup, workload::Workload};

/// The policy's groups.
#[derive(Debug)]
pub(super) struct Groups {
    top: GroupId,
    /// By the trace's number; empty if all is one group.
    below: Vec<GroupId>,
}

impl Groups {
    /// Makes them.
    pub(super) fn new<P: Policy>(
        policy: &mut P,
        workload: &Workload,
        setup: &Setup,
    ) -> Result<Groups, PolicyError> {
        let now = TimeMs(0);
        let top = policy.add_group("/", now)?;
        let mut below = Vec::new();
        if !setup.groups.is_empty() {
            let all = Limits {
                max_pages: u64::from(setup.memory_pages),
                ..Limits::NONE
            };
            policy.set_limits(top, all)?;
            for number in 0..workload.nr_groups() {
                let group = policy.add_child_group(top, &format!("/{number}"), now)?;
                let limits = setup.groups.get(usize::from(number));
                policy.set_limits(group, limits.copied().unwrap_or_default())?;
                below.push(group);
            }
        }
        Ok(Groups { top, below })
    }

    /// Whether there is more than one to choose from.
    pub(super) fn is_tree(&self) -> bool {
        !self.below.is_empty()
    }

    /// The one that is charged for a page of a group of the trace.
    pub(super) fn of(&self, number: u16) -> GroupId {
        self.below
            .get(usize::from(number))
            .copied()
            .unwrap_or(self.top)
    }

    /// Every group that is charged for pages.
    pub(super) fn all(&self) -> impl Iterator<Item = GroupId> {
        let only = (!self.is_tree()).then_some(self.top);
        only.into_iter().chain(self.below.clone())
    }
}

/// Adds a view to the sizes of all, the youngest generations together, and so on down.
pub(super) fn add_view(generations: &mut Vec<GenerationPages>, view: &GroupView) {
    let nr_missing = view.generations.len().saturating_sub(generations.len());
    let oldest = view.generations.iter().take(nr_missing);
    let oldest = oldest.map(|of| GenerationPages {
        seq: of.seq.0,
        nr_pages: [0; 2],
    });
    generations.splice(0..0, oldest.collect::<Vec<_>>());
    for (to, from) in generations
        .iter_mut()
        .rev()
        .zip(view.generations.iter().rev())
    {
        to.seq = to.seq.max(from.seq.0);
        for (to, from) in to.nr_pages.iter_mut().zip(from.nr_pages) {
            *to += from.unwrap_or(0);
        }
    }
}
