//! Groups: one for everything, or a tree of them with the limits they were given.
//!
//! ```text
//!   (root)     all of memory: when it is full, reclaim is global
//!   +- /web    limits; no pages of its own
//!   |  +- /web/a    the trace's group 0
//!   +- /batch       the trace's group 1
//! ```
//!
//! In a tree the engine says who is reclaimed from ([`strata_lru::Reclaim`]); with one group there is
//! nothing to choose.
//!
//! **Owns** which of the policy's groups a group of the trace is, and misses by group. **Does not
//! own** limits or usage (the policy's tree).

use strata_lru::{GroupId, GroupView, Policy, PolicyError, ReclaimStats, TimeMs, WalkStats};

use crate::{
    groups::{Planned, plan},
    outcome::{GenerationPages, GroupCounts, Reclaim},
    simulate::{Setup, SimError},
    workload::Workload,
};

/// The policy's groups.
#[derive(Debug)]
pub(super) struct Groups {
    /// Holds everything, if there is no tree.
    only: Option<GroupId>,
    tree: Vec<(Planned, GroupId)>,
    /// By the trace's number.
    holders: Vec<GroupId>,
    /// By the trace's number.
    nr_misses: Vec<u64>,
    /// Requests made again by apps that start again, by the trace's number.
    nr_replayed: Vec<u64>,
}

impl Groups {
    /// Makes them.
    pub(super) fn new<P: Policy + ?Sized>(
        policy: &mut P,
        workload: &Workload,
        setup: &Setup,
    ) -> Result<Groups, SimError> {
        let now = TimeMs(0);
        let nr_groups = workload.nr_groups();
        let mut groups = Groups {
            only: None,
            tree: Vec::new(),
            holders: vec![GroupId(0); usize::from(nr_groups)],
            nr_misses: vec![0; usize::from(nr_groups)],
            nr_replayed: vec![0; usize::from(nr_groups)],
        };
        if setup.groups.is_empty() {
            groups.only = Some(policy.add_group("/", now)?);
            return Ok(groups);
        }
        for planned in plan(&setup.groups, setup.memory_pages, nr_groups)? {
            let path = format!("/{}", planned.path);
            let group = match planned.parent {
                Some(parent) => policy.add_child_group(groups.tree[parent].1, &path, now)?,
                None => policy.add_group(&path, now)?,
            };
            policy.set_limits(group, planned.limits)?;
            if let Some(number) = planned.trace_group {
                groups.holders[usize::from(number)] = group;
            }
            groups.tree.push((planned, group));
        }
        Ok(groups)
    }

    /// The one that holds everything, if there is no tree.
    pub(super) fn only(&self) -> Option<GroupId> {
        self.only
    }

    /// Whether there is more than one to choose from, or limits on one.
    pub(super) fn is_tree(&self) -> bool {
        self.only.is_none()
    }

    /// The one that is charged for a page of a group of the trace.
    pub(super) fn of(&self, number: u16) -> GroupId {
        self.only
            .unwrap_or_else(|| self.holders[usize::from(number)])
    }

    /// A page of a group of the trace had to be brought in.
    pub(super) fn missed(&mut self, number: u16) {
        self.nr_misses[usize::from(number)] += 1;
    }

    /// An app starts again.
    pub(super) fn replayed(&mut self, number: u16, nr_requests: u64) {
        self.nr_replayed[usize::from(number)] += nr_requests;
    }

    /// Requests made again, of all apps.
    pub(super) fn nr_replayed(&self) -> u64 {
        self.nr_replayed.iter().sum()
    }

    /// Every group that is charged for pages.
    pub(super) fn all(&self) -> impl Iterator<Item = GroupId> {
        let holders = self.tree.iter().filter(|of| of.0.trace_group.is_some());
        self.only.into_iter().chain(holders.map(|of| of.1))
    }

    /// How the generations of all groups and nodes stand, the youngest together, and so on down.
    pub(super) fn generations<P: Policy + ?Sized>(
        &self,
        policy: &P,
        now: TimeMs,
    ) -> Result<Vec<GenerationPages>, PolicyError> {
        let mut generations = Vec::new();
        for group in self.all() {
            for view in policy.view(group, now)? {
                add_view(&mut generations, &view);
            }
        }
        Ok(generations)
    }

    /// What the policy has counted of all groups.
    pub(super) fn reclaim<P: Policy + ?Sized>(
        &self,
        policy: &P,
        workload: &Workload,
    ) -> Result<Reclaim, PolicyError> {
        let mut stats = ReclaimStats::default();
        let mut walks = WalkStats::default();
        for group in self.all() {
            stats += policy.stats(group)?;
            walks += policy.walk_stats(group)?;
        }
        Ok(Reclaim {
            nr_scanned: stats.nr_scanned_pages,
            nr_stolen: stats.nr_evicted_pages,
            nr_promoted: stats.nr_promoted_pages,
            nr_activated: stats.nr_activated_pages,
            nr_protected: stats.nr_protected_pages.iter().flatten().sum(),
            nr_ageing_runs: stats.nr_ageing_runs,
            nr_ptes_walked: walks.nr_entries_visited,
            nr_ptes_looked_around: walks.nr_look_around_entries,
            nr_bloom_hits: walks.nr_filter_hits,
            nr_bloom_skips: walks.nr_tables_filtered,
            nr_tables_asked: walks.nr_tables_seen,
            nr_ptes_young: walks.nr_entries_young,
            nr_isolated: stats.nr_isolated_pages,
            nr_activated_by_access: stats.nr_activated_by_access_pages,
            groups: self.counts(policy, workload)?,
            nr_refaulted: stats.nr_refaulted_pages,
            nr_refaulted_recent: stats.nr_refaulted_recent_pages,
            ..Reclaim::default()
        })
    }

    /// What became of each group, of a tree only: with all below it, as cgroup v2 counts.
    fn counts<P: Policy + ?Sized>(
        &self,
        policy: &P,
        workload: &Workload,
    ) -> Result<Vec<GroupCounts>, PolicyError> {
        let mut counts = Vec::new();
        for (planned, group) in &self.tree {
            let (stats, groups) = (policy.stats(*group)?, policy.groups());
            counts.push(GroupCounts {
                path: planned.path.clone(),
                trace_group: planned.trace_group,
                limits: planned.limits,
                nr_scanned: stats.nr_scanned_pages,
                nr_stolen: stats.nr_evicted_pages,
                nr_ageing_runs: stats.nr_ageing_runs,
                nr_held: groups.usage_pages(*group)?,
                nr_swapped: groups.swap_pages(*group)?,
                events: groups.events(*group)?,
                ..GroupCounts::default()
            });
        }
        let (nr_accesses, nr_pages) = by_trace_group(workload);
        for (planned, counts) in self.tree.iter().map(|of| &of.0).zip(&mut counts) {
            if let Some(number) = planned.trace_group.map(usize::from) {
                counts.nr_accesses = nr_accesses[number] + self.nr_replayed[number];
                counts.nr_distinct = nr_pages[number];
                counts.nr_misses = self.nr_misses[number];
            }
        }
        // Children come after their parents, so each is complete when it is added.
        for at in (0..counts.len()).rev() {
            if let Some(parent) = self.tree[at].0.parent {
                let (above, below) = counts.split_at_mut(at);
                above[parent].add_flows(&below[0]);
            }
            counts[at].derive();
        }
        Ok(counts)
    }
}

/// Requests and distinct pages of each group of a trace.
fn by_trace_group(workload: &Workload) -> (Vec<u64>, Vec<u64>) {
    let none = vec![0; usize::from(workload.nr_groups())];
    let (mut nr_accesses, mut nr_pages) = (none.clone(), none);
    for request in workload.requests() {
        nr_accesses[usize::from(workload.page(request.page()).group)] += 1;
    }
    for page in workload.pages() {
        nr_pages[usize::from(page.group)] += 1;
    }
    (nr_accesses, nr_pages)
}

/// Adds a view to the sizes of all, the youngest generations together, and so on down.
fn add_view(generations: &mut Vec<GenerationPages>, view: &GroupView) {
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
