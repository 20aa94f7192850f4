//! What the loop is told and what its parts tell each other: values without a judgement of their own.
//!
//! **Owns** their names and units. **Does not own** reading them (`strata-host`, or a model of Linux), nor
//! coming to them.
//!
//! **Invariants** I1: no address and no number of a page: quantities only.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use strata_lru::TimeMs;

mod cache;

pub use cache::{CacheLook, CacheSample, CameIn, Distances, FileCache, FileNo, Reads};

/// Weight of the newest sample in the averages of who wants and uses the processors: with a quarter, the demand of a
/// second busy thread on two processors is known to 1.75 threads after five samples. Whoever wants faster or slower
/// averages takes samples more or less often.
pub(crate) const SHARE_OF_LAST: f64 = 1.0 / 4.0;

/// A program of the group, by a number that it has as long as it runs: what is a space to the engine.
pub use strata_lru::SpaceNo as ProgramNo;
pub use strata_lru::machine::{CgroupVersion, GroupStats, PAGE_BYTES, Processors};

/// Who may take the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Actuator {
    /// The kernel's reclaim ahead of the limit; where exact choice is asked for pageout, and the kernel's reclaim while
    /// pageout can't keep up. The programs' own reclaim where no processor is free.
    #[default]
    Auto,
    /// Exactly the pages the engine chose.
    Pageout,
    /// The kernel's batched reclaim ahead of the limit; the engine only watches.
    Reclaim,
}

/// What became of something that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActuatorReport {
    /// The kernel was asked to reclaim, and freed pages.
    KernelFreed,
    /// The kernel freed pages, but as many came back: no proof that none can go.
    KernelOutpaced,
    /// Usage is as low as the kernel may bring it.
    KernelAtFloor,
    /// The kernel found nothing to free.
    KernelFoundNothing,
}

/// One program, as it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threads {
    /// For how long each has run or waited for a processor, nanoseconds.
    pub wanted_ns: BTreeMap<i32, u64>,
    /// Processors it may run on; all where that is not known.
    pub processors: Processors,
}

impl Threads {
    /// What all threads wanted since `before`, nanoseconds; a new thread has wanted nothing before.
    pub(crate) fn wanted_since_ns(&self, before: &Threads) -> u64 {
        let before_ns = |tid| before.wanted_ns.get(tid).copied().unwrap_or(0);
        let threads = self.wanted_ns.iter();
        threads
            .map(|(tid, ns)| ns.saturating_sub(before_ns(tid)))
            .sum()
    }
}

/// What is due to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuDue {
    /// What each thread ran and waited for.
    pub threads: bool,
    /// How many threads are runnable.
    pub runnable: bool,
    /// What each program has used of the processors, and how many pages have come back.
    pub clocks: bool,
}

/// Threads that are runnable at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runnable {
    /// On the machine.
    pub nr_threads: u32,
    /// Most of the threads that may be Strata's own.
    pub nr_own_threads: u32,
}

/// What programs have used and what has come back, since they began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    /// Processor time of each program, nanoseconds.
    pub cpu_ns: BTreeMap<ProgramNo, u64>,
    /// Pages of the group that came back.
    pub nr_refaulted_pages: u64,
}

/// What was read of the processors; `None` where it was not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuSample {
    /// See [`CpuDue::threads`].
    pub threads: Option<BTreeMap<ProgramNo, Threads>>,
    /// See [`CpuDue::runnable`].
    pub runnable: Option<Runnable>,
    /// See [`CpuDue::clocks`].
    pub clocks: Option<Clocks>,
}

/// Whether a processor is free for Strata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuState {
    /// One is, or nobody has looked.
    #[default]
    Free,
    /// The group's programs and others want all of them.
    Taken,
}

/// Processors that are wanted, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Processors, by all programs of the group.
    pub all: f64,
    /// Threads of the group that want one.
    pub nr_threads: f64,
}

/// How much swap is free on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FreeSwap {
    /// Free swap, bytes.
    Bytes(u64),
    /// Free swap can't be told, and nobody may take it for none.
    NotKnown,
}

/// What is to be read for a tick; the rest of a [`Sample`] is always read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Whether [`Sample::cpu`] is to be read: usage is near the budget, and `auto` chooses who
    /// reclaims by who has the processors.
    pub is_sharing: bool,
    /// Of the processors.
    pub cpu: CpuDue,
    /// How much swap is free.
    pub free_swap: bool,
}

/// What one tick reads of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When.
    pub now: TimeMs,
    /// In use, bytes.
    pub usage_bytes: u64,
    /// Whether the kernel holds usage below the budget while nobody reclaims ahead.
    pub is_line_held: bool,
    /// What became of actions since the last tick.
    pub reports: Vec<ActuatorReport>,
    /// Attempts at taking pages that were answered, since the start.
    pub nr_attempts: u64,
    /// What attempts have freed, since the start, bytes.
    pub freed_bytes: u64,
    /// What was read of the processors; `None`: it does not matter who has them.
    pub cpu: Option<CpuSample>,
    /// Free swap, where that was due.
    pub free_swap: Option<FreeSwap>,
    /// CPU time of all of Strata's threads and its keeper since it began, nanoseconds.
    pub own_cpu_ns: u64,
    /// How it stands with the group's page cache; `None`: it is not dropped here.
    pub cache: Option<CacheLook>,
}
