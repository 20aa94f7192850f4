//! What the loop is told and what its parts tell each other: values without a judgement of their own.
//!
//! **Owns** their names and units. **Does not own** reading them (`strata-host`, or a model of Linux), nor
//! coming to them.
//!
//! **Invariants** I1: no address and no number of a page: quantities only.

use serde::{Deserialize, Serialize};

/// The base page of x86-64 and of most arm64 systems, bytes: the only size of page that Strata counts in.
pub const PAGE_BYTES: u64 = 4096;

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

/// What became of something that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActuatorReport {
    /// The kernel was asked to reclaim, and freed pages.
    KernelFreed,
    /// The kernel freed pages, but as many came back, or usage is as low as it may bring it: no proof that none can go.
    KernelOutpaced,
    /// The kernel found nothing to free.
    KernelFoundNothing,
    /// So many base pages were not read in ahead after all.
    NotPrefetched {
        /// Base pages.
        nr_pages: u64,
    },
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
    /// Of both, what the kernel takes for unused lately: its inactive lists, or older generations.
    pub inactive_bytes: Option<u64>,
    /// Page faults.
    pub nr_pgfault: Option<u64>,
    /// Major page faults.
    pub nr_pgmajfault: Option<u64>,
    /// Pages scanned by reclaim, whoever did it.
    pub nr_pgscan_pages: Option<u64>,
    /// Of those, by `kswapd`.
    pub nr_pgscan_kswapd_pages: Option<u64>,
    /// Of those, by a task of the group or whoever allocated.
    pub nr_pgscan_direct_pages: Option<u64>,
    /// Of those, because a user asked (`memory.reclaim`).
    pub nr_pgscan_proactive_pages: Option<u64>,
    /// Pages freed by reclaim, whoever did it.
    pub nr_pgsteal_pages: Option<u64>,
    /// Of those, by `kswapd`.
    pub nr_pgsteal_kswapd_pages: Option<u64>,
    /// Of those, by a task of the group or whoever allocated.
    pub nr_pgsteal_direct_pages: Option<u64>,
    /// Of those, because a user asked.
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

/// Who has the processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuState {
    /// One is free, or others compete for them with a program that runs on several, or the kernel is told which
    /// pages are warm.
    #[default]
    Free,
    /// Others compete for them with programs that run on one each.
    Contended,
    /// The group's programs have all of them.
    Saturated,
}

/// Processors that are wanted, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Processors, by all programs of the group.
    pub all: f64,
    /// Processors, by the one that wants most.
    pub most: f64,
    /// Threads of the group that want one.
    pub nr_threads: f64,
}

/// Base pages on the kernel's lists, of anon and of files together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelLists {
    /// On the inactive lists.
    pub nr_inactive_pages: u64,
    /// On the active lists.
    pub nr_active_pages: u64,
}

impl KernelLists {
    /// On all of them.
    pub fn nr_pages(&self) -> u64 {
        self.nr_inactive_pages + self.nr_active_pages
    }
}

/// When the kernel's counts are to be read, which brings them up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// As the time since the last reading says.
    #[default]
    Paced,
    /// Not now.
    NotYet,
    /// Now.
    Due,
}

#[cfg(test)]
mod tests {
    use super::*;

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
