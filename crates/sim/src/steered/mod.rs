//! Strata's control loop on top of a played kernel: `strata sim --steered`.
//!
//! The policy plays the kernel: its lists or generations decide which page goes when somebody asks it to reclaim and when
//! the limit is met. On top of it `strata-control` makes the same decisions as under `strata run --memory SIZE`, with
//! Strata's own engine, which is fed by walks of the played page tables and knows nothing else of the kernel.
//!
//! ```text
//!   requests --> world --(faults, direct reclaim)--> mechanism: the played kernel
//!                  |                                     ^   |
//!                  v                      touch, cold,   |   |  page tables, lists, counters
//!                tick --> strata-control  page out, ask  |   v
//!                  |            |         the kernel     |  pages: Strata's engine, walks
//!                limit <--------+--> threads, cache -----+
//! ```
//!
//! What is played: virtual time, in which accesses, faults, reclaim, walks, clearing and every call of Strata cost what
//! `prices` says; programs and Strata's threads on so many processors (`timeline`); the limit, on both versions of
//! cgroups (`limit`); page cache that is looked at and dropped (`cache`); the hold-up rule, by which walks that clear come
//! the further apart the longer clearing took.
//!
//! What is left out: reading ahead, huge pages, the programs' own memory beside the pages of the trace, other programs,
//! pages that several spaces map, which processor a thread runs on, the kernel's counts being out of date until somebody
//! reads them, and what interrupts cost the program beside.
//!
//! **Owns** virtual time and everything that Strata does in it. **Does not own** the played kernel (`mechanism`), the
//! decisions (`strata-control`) or the engine (`strata-lru`).
//!
//! **Invariants** I1: the same trace and setup give the same outcome. I2: the played kernel learns of Strata by what
//! Strata does to pages and limits alone, and Strata of the kernel by page tables, lists and counters.

mod cache;
mod limit;
mod mechanism;
mod pages;
mod prices;
#[cfg(test)]
mod tests;
mod threads;
mod tick;
mod timeline;
mod traced;
mod world;

use serde::{Serialize, Serializer};
use strata_control::{Actuator, CgroupVersion, Config};
use strata_lru::{MultiGen, TwoList};

pub use self::cache::{CacheCounts, TierRecord};
use self::world::World;
use crate::{
    mechanism::{Driver, KernelPolicy},
    outcome::Outcome,
    ratio::Ratio,
    simulate::{Progress, Setup, SimError},
    workload::Workload,
};

/// A smaller budget is none to run in: the marks would lie within a batch of the kernel.
pub(crate) const BUDGET_PAGES_MIN: u32 = 1024;

/// Which version of cgroups the group is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hierarchy {
    /// `memory.limit_in_bytes`, and dips of it to have the kernel reclaim.
    V1,
    /// `memory.max`, `memory.high` and `memory.reclaim`.
    #[default]
    V2,
}

impl Hierarchy {
    fn version(self) -> CgroupVersion {
        match self {
            Hierarchy::V1 => CgroupVersion::V1,
            Hierarchy::V2 => CgroupVersion::V2,
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
    pub hierarchy: Hierarchy,
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
            hierarchy: Hierarchy::default(),
            drops_cache: true,
            config: Config::default(),
            is_traced: false,
        }
    }
}

/// What the control loop did; pages are base pages, times virtual nanoseconds, which are written as milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SteeringCounts {
    /// How long the run took.
    #[serde(rename = "time_ms", serialize_with = "as_ms")]
    pub time_ns: u64,
    /// Requests whose page had been in memory before.
    #[serde(skip)]
    pub nr_refaults: u64,
    /// Those of all requests.
    pub refault_ratio: Ratio,
    /// For how long pages were taken one by one while usage was near the budget.
    #[serde(rename = "pageout_ms", serialize_with = "as_ms")]
    pub pageout_ns: u64,
    /// For how long the kernel reclaimed because Strata asked.
    #[serde(rename = "kernel_ms", serialize_with = "as_ms")]
    pub kernel_ns: u64,
    /// For how long it was left to the programs, in their own faults.
    #[serde(rename = "programs_ms", serialize_with = "as_ms")]
    pub programs_ns: u64,
    /// Taken one by one.
    #[serde(rename = "paged_out_pages")]
    pub nr_paged_out_pages: u64,
    /// Freed by the kernel because Strata asked.
    #[serde(rename = "reclaimed_ahead_pages")]
    pub nr_reclaimed_ahead_pages: u64,
    /// Freed by the kernel in faults of the programs.
    #[serde(rename = "reclaimed_in_faults_pages")]
    pub nr_reclaimed_in_faults_pages: u64,
    /// What Strata's threads took of the processors.
    #[serde(rename = "strata_cpu_ms", serialize_with = "as_ms")]
    pub cpu_ns: u64,
    /// Walks of all page tables.
    #[serde(rename = "walks")]
    pub nr_walks: u64,
    /// Ticks of the loop.
    #[serde(rename = "ticks")]
    pub nr_ticks: u64,
    /// Most pages in memory at a time.
    pub peak_pages: u64,
    /// By how many of them that was above the budget.
    pub peak_above_budget_pages: u64,
    /// How often the limit gave way.
    #[serde(rename = "limit_raises")]
    pub nr_limit_raises: u64,
    /// Where it stood at most.
    pub limit_peak_pages: u64,
    /// What became of page cache that no program had mapped; `None` where it was left to the kernel.
    #[serde(rename = "page_cache", skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheCounts>,
}

fn as_ms<S: Serializer>(ns: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(ns / 1_000_000)
}

/// Replays a workload under a policy that plays the kernel below Strata.
pub(crate) fn run(
    policy: &KernelPolicy,
    steered: &SteeredSetup,
    workload: &Workload,
    setup: &Setup,
    progress: &dyn Progress,
) -> Result<Outcome, SimError> {
    match policy {
        KernelPolicy::MultiGen(config) => {
            let kernel = MultiGen::new(config.clone())?;
            let has_swap = config.has_swap;
            World::new(
                kernel,
                Driver::Mechanism,
                has_swap,
                workload,
                setup,
                steered,
            )?
            .run(progress)
        }
        KernelPolicy::TwoList(config) => {
            let kernel = TwoList::new(config.clone())?;
            let has_swap = config.has_swap;
            World::new(kernel, Driver::Policy, has_swap, workload, setup, steered)?.run(progress)
        }
    }
}
