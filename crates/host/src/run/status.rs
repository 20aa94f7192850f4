//! How a run stands, as one value: what the control socket tells and the metrics are made of.
//!
//! **Owns** the shape of the answers (documented in `docs/guide/control-socket.md`), and how idle memory is
//! read off generations. **Does not own** any counting, nor the report of a run that is over (`report`).
//!
//! **Invariants** I1: `None` means "not known here", never 0.

use crate::pages::WalkReport;
use crate::run::report::{
    EvictionReport, GenerationReport, KernelReport, LimitReport, SavedReport, UsageReport,
};
use crate::run::{ActuatorChoice, PolicyChoice};
use strata_linux::addr::PAGE_BYTES;
use strata_lru::GroupView;

/// Idle memory is told for these times, seconds.
pub const IDLE_SECONDS: [u64; 5] = [1, 10, 60, 600, 3600];

/// Memory that was not accessed for some time before the last walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct IdleReport {
    /// For at least so long.
    pub at_least_seconds: u64,
    /// How much.
    pub bytes: u64,
}

/// A run in progress.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Status {
    /// Name of the run in the run directory; `None` where it has no place there.
    pub id: Option<String>,
    /// What is run or attached to.
    pub target: String,
    /// Pid of the target, if it is one process in particular.
    pub pid: Option<i32>,
    /// Time since the run began.
    pub elapsed_ms: u64,
    /// Nothing is taken until the run is resumed.
    pub is_paused: bool,
    /// Decided and not done.
    pub is_dry_run: bool,
    /// Who decides.
    pub policy: PolicyChoice,
    /// Who takes the pages.
    pub actuator: ActuatorChoice,
    /// As of the last sample.
    pub usage_bytes: Option<u64>,
    /// The kernel's hard limit as it stands.
    pub limit_bytes: Option<u64>,
    /// The budget and how it was kept so far.
    pub usage: UsageReport,
    /// What became of the limit; `None` where none of ours stands behind the budget.
    pub limit: Option<LimitReport>,
    /// Accessed between the last two walks; `None` without walks.
    pub working_set_bytes: Option<u64>,
    /// Not accessed for so long before the last walk; empty without walks.
    pub idle: Vec<IdleReport>,
    /// Oldest first.
    pub generations: Vec<GenerationReport>,
    /// Evictions so far; `None` where nobody of ours evicts.
    pub eviction: Option<EvictionReport>,
    /// Walks so far; `None` where nobody of ours walks.
    pub walks: Option<WalkReport>,
    /// The kernel's counters so far.
    pub kernel: KernelReport,
    /// The gain, as of the last sample (once a second).
    pub saved: SavedReport,
    /// What keeping track of pages and generations takes; part of `saved.strata_bytes`.
    pub tracking_bytes: Option<u64>,
    /// CPU time of Strata and its keeper so far.
    pub strata_cpu_ms: u64,
    /// Processes managed now.
    pub nr_processes: Option<u64>,
    /// What went wrong so far.
    pub warnings: Vec<String>,
}

/// A group under a budget.
#[derive(Clone, Debug, serde::Serialize)]
pub struct GroupStatus {
    /// Number of the group in the `lru_gen` text.
    pub memcg: u16,
    /// Path of the group, or `/pid/N`.
    pub path: String,
    /// Where usage is read: `cgroup_v1`, `cgroup_v2` or `rss`.
    pub measured_by: &'static str,
    /// Now.
    pub usage_bytes: Option<u64>,
    /// What the group may use.
    pub budget_bytes: u64,
    /// The kernel's hard limit as it stands.
    pub limit_bytes: Option<u64>,
    /// Processes of the group.
    pub pids: Vec<i32>,
}

/// What was idle for how long before the last walk. A page of a generation was accessed before the next
/// one was born and not since; after the last walk nobody has looked.
pub(super) fn idle(views: &[GroupView]) -> Vec<IdleReport> {
    let mut idle = IDLE_SECONDS.map(|at_least_seconds| IdleReport {
        at_least_seconds,
        bytes: 0,
    });
    for view in views {
        let walked_ms = view
            .generations
            .last()
            .map_or(0, |youngest| youngest.age_ms);
        for pair in view.generations.windows(2) {
            let [generation, next] = pair else { continue };
            let idle_ms = next.age_ms.saturating_sub(walked_ms);
            let nr_pages: u64 = generation.nr_pages.into_iter().flatten().sum();
            for of in &mut idle {
                if idle_ms >= of.at_least_seconds * 1000 {
                    of.bytes += nr_pages * PAGE_BYTES;
                }
            }
        }
    }
    idle.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_lru::{GenSeq, GenerationView, GroupId, NodeId};

    #[test]
    fn memory_counts_as_idle_from_the_birth_of_the_next_generation_to_the_last_walk() {
        let generation = |seq, age_ms, anon, file| GenerationView {
            seq: GenSeq(seq),
            age_ms,
            nr_pages: [anon, file],
        };
        let view = GroupView {
            group: GroupId(1),
            path: "/".to_owned(),
            node: NodeId(0),
            generations: vec![
                generation(3, 90_000, Some(100), None),
                // Born 70 s ago, and the last walk was 5 s ago: those before are idle for 65 s.
                generation(4, 70_000, Some(10), Some(10)),
                generation(5, 16_000, Some(1), Some(0)),
                generation(6, 5_000, Some(1000), Some(1000)),
            ],
        };
        let bytes: Vec<u64> = idle(&[view])
            .iter()
            .map(|of| of.bytes / PAGE_BYTES)
            .collect();
        assert_eq!(bytes, [120, 120, 100, 0, 0]);
        assert!(idle(&[]).iter().all(|of| of.bytes == 0));
    }
}
