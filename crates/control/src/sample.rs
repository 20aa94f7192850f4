//! What the loop is told and what its parts tell each other: values without a judgement of their own.
//!
//! **Owns** their names and units. **Does not own** reading them (`strata-host`, or a model of Linux), nor
//! coming to them.
//!
//! **Invariants** I1: no address and no number of a page: quantities only.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::{BitOr, Sub};
use strata_lru::TimeMs;

mod cache;

pub use cache::{CacheLook, CacheSample, CameIn, Distances, FileCache, FileNo, Reads};

/// The base page of x86-64 and of most arm64 systems, bytes: the only size of page that Strata counts in.
pub const PAGE_BYTES: u64 = 4096;

/// Weight of the newest sample in the averages of who wants and uses the processors: with a quarter, the demand of a
/// second busy thread on two processors is known to 1.75 threads after five samples. Whoever wants faster or slower
/// averages takes samples more or less often.
pub(crate) const SHARE_OF_LAST: f64 = 1.0 / 4.0;

/// A program of the group, by a number that it has as long as it runs: what is a space to the engine.
pub use strata_lru::SpaceNo as ProgramNo;

/// The version of the cgroup hierarchy that has the memory controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CgroupVersion {
    /// `memory.limit_in_bytes`: system calls fail at it, and with the OOM killer off page faults wait.
    V1,
    /// `memory.max`, and `memory.high` below it, at which whoever allocates is slowed down.
    V2,
}

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Counters of a group and everything below it. `None`: this version or kernel does not offer it.
///
/// Counts are since the group was made; pages are base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupStats {
    /// Anonymous memory, bytes.
    pub anon_bytes: Option<u64>,
    /// Page cache, shared memory included, bytes.
    pub file_bytes: Option<u64>,
    /// Shared memory, bytes.
    pub shmem_bytes: Option<u64>,
    /// Swapped out, bytes.
    pub swap_bytes: Option<u64>,
    /// Swapped out and in memory as well, bytes: on v2 a page that was only read since it came back keeps its place in swap.
    pub swap_cached_bytes: Option<u64>,
    /// Kernel memory charged, bytes.
    pub kernel_bytes: Option<u64>,
    /// Evictable file pages on the kernel's lists, bytes.
    pub lru_file_bytes: Option<u64>,
    /// Evictable anonymous and shared pages on the kernel's lists, bytes.
    pub lru_anon_bytes: Option<u64>,
    /// What the kernel takes for unused lately, anonymous or of files: its inactive lists, or older generations.
    pub inactive_bytes: Option<u64>,
    /// Page faults.
    pub nr_pgfault: Option<u64>,
    /// Major page faults.
    pub nr_pgmajfault: Option<u64>,
    /// Pages scanned by reclaim, whoever did it.
    pub nr_pgscan_pages: Option<u64>,
    /// Pages scanned by `kswapd`.
    pub nr_pgscan_kswapd_pages: Option<u64>,
    /// Pages scanned by a task of the group or whoever allocated.
    pub nr_pgscan_direct_pages: Option<u64>,
    /// Pages scanned because a user asked (`memory.reclaim`).
    pub nr_pgscan_proactive_pages: Option<u64>,
    /// Pages freed by reclaim, whoever did it.
    pub nr_pgsteal_pages: Option<u64>,
    /// Pages freed by `kswapd`.
    pub nr_pgsteal_kswapd_pages: Option<u64>,
    /// Pages freed by a task of the group or whoever allocated.
    pub nr_pgsteal_direct_pages: Option<u64>,
    /// Pages freed because a user asked.
    pub nr_pgsteal_proactive_pages: Option<u64>,
    /// Anonymous pages that came back after eviction.
    pub nr_refault_anon_pages: Option<u64>,
    /// File pages that came back after eviction.
    pub nr_refault_file_pages: Option<u64>,
    /// Processes killed for want of memory.
    pub nr_oom_kills: Option<u64>,
}

impl GroupStats {
    /// Swapped out and not in memory as well, bytes.
    pub fn swapped_out_bytes(&self) -> Option<u64> {
        let cached_bytes = self.swap_cached_bytes.unwrap_or(0);
        Some(self.swap_bytes?.saturating_sub(cached_bytes))
    }
}

/// A set of processors, by number; those that can't be named are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processors([u64; Processors::NR_MAX / 64]);

impl Processors {
    /// Numbers that can be named end here, as `cpu_set_t` of the C library has it.
    pub const NR_MAX: usize = 1024;
    /// No processor.
    pub const NONE: Processors = Processors([0; Processors::NR_MAX / 64]);
    /// Every one there may be.
    pub const ALL: Processors = Processors([u64::MAX; Processors::NR_MAX / 64]);

    /// Whether the set contains the processor with this number.
    pub fn contains(&self, number: usize) -> bool {
        let word = self.0.get(number / 64).copied().unwrap_or(0);
        word & 1 << (number % 64) != 0
    }

    /// Numbers of the processors, in order; `None`: every one there may be.
    pub fn numbers(&self) -> Option<Vec<usize>> {
        let numbers = 0..Processors::NR_MAX;
        (*self != Processors::ALL)
            .then(|| numbers.filter(|number| self.contains(*number)).collect())
    }

    /// How many.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

impl Default for Processors {
    fn default() -> Processors {
        Processors::ALL
    }
}

impl BitOr for Processors {
    type Output = Processors;

    fn bitor(mut self, other: Processors) -> Processors {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
        self
    }
}

impl Sub for Processors {
    type Output = Processors;

    fn sub(mut self, other: Processors) -> Processors {
        for (word, less) in self.0.iter_mut().zip(other.0) {
            *word &= !less;
        }
        self
    }
}

impl FromIterator<usize> for Processors {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Processors {
        let mut set = Processors::NONE;
        for number in numbers {
            if let Some(word) = set.0.get_mut(number / 64) {
                *word |= 1 << (number % 64);
            }
        }
        set
    }
}

/// One program, as it stands.
#[derive(Debug)]
pub struct Threads {
    /// For how long each has run or waited for a processor, nanoseconds.
    pub wanted_ns: BTreeMap<i32, u64>,
    /// Processors it may run on; all where that is not known.
    pub processors: Processors,
}

impl Threads {
    /// What one of them wanted since then, nanoseconds; a new thread has wanted nothing before.
    pub(crate) fn since_ns(&self, (tid, ns): (&i32, &u64)) -> u64 {
        ns.saturating_sub(self.wanted_ns.get(tid).copied().unwrap_or(0))
    }

    /// What all threads wanted since `before`, nanoseconds.
    pub fn wanted_since_ns(&self, before: &Threads) -> u64 {
        let threads = self.wanted_ns.iter();
        threads.map(|thread| before.since_ns(thread)).sum()
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runnable {
    /// On the machine.
    pub nr_threads: u32,
    /// Most of the threads that may be Strata's own.
    pub nr_own_threads: u32,
}

/// What programs have used and what has come back, since they began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// Processor time of each program, nanoseconds.
    pub cpu_ns: BTreeMap<ProgramNo, u64>,
    /// Pages of the group that came back.
    pub nr_refaulted_pages: u64,
}

/// What was read of the processors; `None` where it was not.
#[derive(Debug, Default)]
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
#[derive(Debug, Default)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_a_set() {
        let some: Processors = [0, 63, 64, 1023, 4096].into_iter().collect();
        assert_eq!(some.count(), 4);
        let more: Processors = [1, 63].into_iter().collect();
        assert_eq!((some | more).count(), 5);
        assert_eq!(some - more, [0, 64, 1023].into_iter().collect());
        assert_eq!(some.numbers(), Some(vec![0, 63, 64, 1023]));
        assert_eq!(Processors::ALL.numbers(), None);
        assert!(some.contains(1023) && !some.contains(1022) && !some.contains(4096));
        assert_eq!(some | Processors::NONE, some);
    }

    #[test]
    fn what_is_swapped_out_and_in_memory_as_well_is_not_missing() {
        let out = |swap_bytes, swap_cached_bytes| {
            GroupStats {
                swap_bytes,
                swap_cached_bytes,
                ..GroupStats::default()
            }
            .swapped_out_bytes()
        };
        assert_eq!(out(Some(10), Some(4)), Some(6));
        assert_eq!(out(Some(10), None), Some(10), "not known on v1");
        assert_eq!(out(Some(4), Some(10)), Some(0), "read at two moments");
        assert_eq!(out(None, Some(4)), None);
    }
}
