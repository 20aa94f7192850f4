//! Words for a group of processes and its limits, as a kernel tells of them.
//!
//! **Owns** counters and versions of groups, and where limits stand around a budget. **Does not own** reading them, nor what follows.

use super::PAGE_BYTES;

/// The version of the cgroup hierarchy that has the memory controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum CgroupVersion {
    /// `memory.limit_in_bytes`: system calls fail at it, and with the OOM killer off page faults wait.
    V1,
    /// `memory.max`, and `memory.high` below it, at which whoever allocates is slowed down.
    V2,
}

/// Counters of a group and everything below it. `None`: this version or kernel does not offer it.
///
/// Counts are since the group was made; pages are base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
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

/// How far the kernel has been brought to hold usage at the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Line {
    /// The limit stands there, one step below the budget.
    Held,
    /// The limit is still above it: it is to be held again at the next tick.
    Moving,
    /// Given up for a while: usage does not come down to it.
    Resting,
    /// The group has no budget, or the kernel has nothing to hold it with.
    NotOffered,
}

/// Where the kernel's limits stand around a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitDistances {
    /// The line lies this part of the budget below it; the hard limit twice as far above it.
    pub line_share: u64,
    /// The line lies at most so far below the budget, and the hard limit at least so far above it, bytes.
    pub line_bytes: u64,
}

impl LimitDistances {
    /// What holds unless set.
    pub const DEFAULT: LimitDistances = LimitDistances {
        line_share: 100,
        line_bytes: 8 << 20,
    };

    /// Where the hard limit stands for a budget: by default budget + max(2 %, 8 MiB).
    pub fn backstop_bytes(&self, budget_bytes: u64) -> u64 {
        let distance_bytes = (budget_bytes / self.line_share * 2).max(self.line_bytes);
        budget_bytes.saturating_add(distance_bytes)
    }

    /// How far below a budget the line is: by default 1 %, at most 8 MiB; at least a page.
    pub fn line_distance_bytes(&self, budget_bytes: u64) -> u64 {
        let step = (budget_bytes / self.line_share).min(self.line_bytes);
        (step - step % PAGE_BYTES).max(PAGE_BYTES)
    }
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

    #[test]
    fn the_backstop_is_two_percent_above_the_budget_at_least_8_mib() {
        let backstop_bytes = |budget| LimitDistances::DEFAULT.backstop_bytes(budget);
        assert_eq!(backstop_bytes(100 << 20), 108 << 20);
        assert_eq!(backstop_bytes(1000 << 20), 1020 << 20);
        assert_eq!(backstop_bytes(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_line_is_one_percent_below_at_most_8_mib_in_whole_pages() {
        let line_distance_bytes = |budget| LimitDistances::DEFAULT.line_distance_bytes(budget);
        assert_eq!(line_distance_bytes(100 << 20), 1 << 20);
        assert_eq!(line_distance_bytes(10 << 30), 8 << 20);
        assert_eq!(line_distance_bytes(1 << 20), 8192);
        assert_eq!(line_distance_bytes(4096), 4096);
    }
}
