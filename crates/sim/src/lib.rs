//! Reclaim policies on page traces, in virtual time.
//!
//! A trace is loaded once into a [`Workload`], every page a dense number, and then replayed by as many
//! policies and memory sizes as wanted. One replay is a [`Simulate::run`]: it starts with empty
//! memory, takes every request in order, and ends in an [`Outcome`]. The policies of the kernel run
//! behind a mechanism that plays the kernel for the engine; the [`Baseline`]s need none.
//!
//! ```
//! use strata_sim::{Baseline, NoProgress, Setup, Simulate, Workload};
//! use strata_trace::{Access, PageKey};
//!
//! // Four pages in turn, again and again.
//! let access = |at: u64| Access { key: PageKey { space: 0, page: at % 4 }, ..Access::default() };
//! let workload = Workload::from_accesses("four in turn", (0..100).map(access))?;
//!
//! // Room for three: the LRU always lacks the next one, the optimum keeps what it can.
//! let lru = Baseline::Lru.run(&workload, &Setup::with_memory(3), &NoProgress)?;
//! let opt = Baseline::Opt.run(&workload, &Setup::with_memory(3), &NoProgress)?;
//! assert_eq!((lru.nr_misses, opt.nr_misses), (100, 36));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Owns** the mechanism that plays the kernel for the engine, the baselines and the reports.
//! **Does not own** the policy (`strata-lru`) or the formats of traces (`strata-trace`).
//!
//! **Invariants**
//! - I1: same trace, seed and configuration give the same bytes, on any machine.
//! - I2: one run is one thread; runs are independent of each other.
//! - I3: every request is counted, the first ones included: a run begins with empty memory.
#![forbid(unsafe_code)]

mod baseline;
mod cost;
mod generations;
mod groups;
pub mod guarded;
pub mod heat;
mod intern;
mod mechanism;
mod memory;
mod order;
mod outcome;
pub mod plan;
pub mod plot;
mod ratio;
pub mod report;
mod runs;
mod simulate;
mod spec;
mod steered;
pub mod table;
mod workload;

pub use baseline::{Baseline, UnknownBaseline};
pub use cost::{BadCost, Cost, CostModel, Profile};
pub use groups::{BadGroups, GroupSpec};
pub use mechanism::{KernelPolicy, TierSetup};
pub use memory::{MemorySize, PAGE_BYTES};
pub use order::{IntervalOrder, UnknownOrder};
pub use outcome::{
    AgeShare, AppCounts, CacheCounts, GenerationPages, GroupCounts, NR_TIERS_MAX, Outcome, Reclaim,
    Sample, SteeringCounts, TierCounts, TierRecord,
};
pub use ratio::Ratio;
pub use runs::{Jobs, Run, RunsError, run_bytes_max};
pub use simulate::{NoProgress, Progress, Setup, SimError, Simulate, SteeredSetup};
pub use spec::{PolicySpec, suggestion};
pub use strata_control::{Actuator, Config as Tunables};
pub use workload::{LoadError, Page, PageEnd, PageId, Request, Workload, WorkloadBuilder};
