//! The seam of a run: a policy, a workload, a setup; an outcome.
//!
//! **Owns** the trait, the setup and the errors. **Does not own** any policy.

use strata_control::{Actuator, CgroupVersion, Config};
use strata_lru::Swappiness;

use crate::{
    groups::{BadGroups, GroupSpec},
    mechanism::TierSetup,
    memory::MemorySize,
    outcome::Outcome,
    workload::Workload,
};

/// What a run is given besides the workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setup {
    /// Memory in base pages, at least 1.
    pub memory_pages: u32,
    /// Balance of the kinds; baselines know no kinds.
    pub swappiness: Swappiness,
    /// How memory is divided into tiers; `None` is one node. Baselines know no tiers.
    pub tiers: Option<TierSetup>,
    /// Groups and their limits, within `memory_pages` for all together. Empty: all pages are charged
    /// to one group. Baselines know no groups.
    pub groups: Vec<GroupSpec>,
    /// With groups: while less than this is free, all of them are reclaimed from in the background
    /// until twice as much is; `None` leaves it to whoever needs a page. Of tiers each keeps its share of it
    /// free, or a batch of the fastest if nothing is said.
    pub background: Option<MemorySize>,
    /// Groups of the trace are apps, one of which is killed when so many pages of files came back to that in front, or a share of
    /// those in memory; `None`: nobody kills. Baselines kill nothing.
    pub kill_at: Option<MemorySize>,
    /// How Strata's control loop holds the memory as a budget, on top of the policy; `None`: the policy is alone.
    /// Baselines have no mechanism that could be steered.
    pub steered: Option<SteeredSetup>,
}

impl Setup {
    /// So much memory, everything else as by default.
    pub fn with_memory(memory_pages: u32) -> Setup {
        Setup {
            memory_pages,
            ..Setup::default()
        }
    }
}

/// How Strata holds the budget, which is the memory of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct SteeredSetup {
    /// Processors of the machine.
    pub nr_processors: u32,
    /// Threads of each program; a program is a space of the trace.
    pub threads_per_program: u32,
    /// Who may take the pages.
    pub actuator: Actuator,
    /// Which version of cgroups.
    pub hierarchy: CgroupVersion,
    /// Whether page cache that no program has mapped is looked at and dropped, where the trace has accesses through
    /// descriptors.
    pub drops_cache: bool,
    /// What the loop's judgements are made by.
    pub config: Config,
    /// Whether [`Progress::trace`] is told each tick.
    pub is_traced: bool,
}

impl Default for SteeredSetup {
    fn default() -> SteeredSetup {
        SteeredSetup {
            nr_processors: 2,
            threads_per_program: 1,
            actuator: Actuator::Auto,
            hierarchy: CgroupVersion::V2,
            drops_cache: true,
            config: Config::default(),
            is_traced: false,
        }
    }
}

/// Watches a run. Called every so often, never a request.
pub trait Progress: Sync {
    /// So many more requests are done.
    fn advance(&self, nr_requests: u64);

    /// The next turn of the control loop, of runs that are traced (`SteeredSetup::is_traced`).
    fn trace(&self, turn: &strata_control::trace::Turn) {
        let _ = turn;
    }
}

/// Nobody wants to know.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn advance(&self, _: u64) {}
}

/// Requests between two reports of progress.
pub(crate) const PROGRESS_REQUESTS: usize = 1 << 16;

/// A policy that can replay a workload.
///
/// The same arguments give the same outcome; a run changes nothing but what it returns.
pub trait Simulate: std::fmt::Debug + Send + Sync {
    /// Replays the workload from empty memory to its end.
    ///
    /// # Errors
    /// A setup that this policy can't run with.
    fn run(
        &self,
        workload: &Workload,
        setup: &Setup,
        progress: &dyn Progress,
    ) -> Result<Outcome, SimError>;
}

/// Why a run can't be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// No memory at all.
    #[error("0 pages of memory: give at least 1")]
    NoMemory,
    /// Less than a page a tier.
    #[error("{memory_pages} pages of memory in {nr_tiers} tiers: give at least a page a tier")]
    TooFewPages {
        /// Memory in base pages.
        memory_pages: u32,
        /// Tiers.
        nr_tiers: usize,
    },
    /// The engine's tiers can't be set up like this.
    #[error("the engine: {0}")]
    Tiering(#[from] strata_lru::TieringError),
    /// Nothing can be evicted any more; the kernel would kill.
    #[error(
        "out of memory: nothing of {memory_pages} pages can be evicted at swappiness {swappiness}, \
         and a kernel would kill: give more memory, another swappiness or, if it is set, less min-ttl"
    )]
    OutOfMemory {
        /// Memory in base pages.
        memory_pages: u32,
        /// Balance of the kinds.
        swappiness: u8,
    },
    /// Nothing of a group can be evicted any more; the kernel would kill in it.
    #[error(
        "out of memory: nothing of the {max_pages} pages of group {path} can be evicted, and a kernel \
         would kill in it: give it a larger max or swap.max, or another swappiness"
    )]
    GroupOutOfMemory {
        /// The group whose limit it is.
        path: String,
        /// Limit of the group in base pages.
        max_pages: u64,
    },
    /// A budget that nothing could be held in.
    #[error(
        "a budget of {memory_pages} pages is too small to be held by a control loop: give at least {least_pages}"
    )]
    BudgetTooSmall {
        /// Memory in base pages.
        memory_pages: u32,
        /// The least.
        least_pages: u32,
    },
    /// A policy that plays no kernel.
    #[error("{policy} plays no kernel that could be steered: use mglru, mglru:MODEL or two-list")]
    NotSteerable {
        /// Name of the policy.
        policy: &'static str,
    },
    /// The groups fit neither each other nor the trace.
    #[error(transparent)]
    Groups(#[from] BadGroups),
    /// The engine refused.
    #[error("the engine: {0}")]
    Policy(#[from] strata_lru::PolicyError),
    /// The engine can't be set up like this.
    #[error("the engine: {0}")]
    Config(#[from] strata_lru::ConfigError),
}
