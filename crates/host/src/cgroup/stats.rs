//! The counters of a group, in one vocabulary for both versions.
//!
//! **Owns** the mapping of `memory.stat`, `memory.oom_control` and `memory.events` to
//! [`GroupStats`]. **Does not own** when they are read.

use super::Version;

/// Counters of a group and everything below it. `None`: this version or kernel does not offer it.
///
/// Counts are since the group was made; pages are base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
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
    /// Of that, in memory as well, bytes: on v2 a page that was only read since it came back keeps its place in swap.
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
    /// Reads `memory.stat`. On v1 the `total_` counters include the groups below, as v2 always does.
    pub(super) fn parse(memory_stat: &str, version: Version) -> GroupStats {
        let mut stats = GroupStats::default();
        for line in memory_stat.lines() {
            let Some((name, value)) = line.split_once(' ') else {
                continue;
            };
            let Ok(value) = value.trim().parse::<u64>() else {
                continue;
            };
            match version {
                Version::V1 => {
                    if let Some(name) = name.strip_prefix("total_") {
                        stats.set_v1(name, value);
                    }
                }
                Version::V2 => stats.set_v2(name, value),
            }
        }
        stats
    }

    /// Swapped out and not in memory as well, bytes.
    pub fn swapped_out_bytes(&self) -> Option<u64> {
        let cached_bytes = self.swap_cached_bytes.unwrap_or(0);
        Some(self.swap_bytes?.saturating_sub(cached_bytes))
    }

    fn set_v1(&mut self, name: &str, value: u64) {
        match name {
            "rss" => self.anon_bytes = Some(value),
            "cache" => self.file_bytes = Some(value),
            "swap" => self.swap_bytes = Some(value),
            _ => self.set_shared(name, value),
        }
    }

    fn set_v2(&mut self, name: &str, value: u64) {
        match name {
            "anon" => self.anon_bytes = Some(value),
            "file" => self.file_bytes = Some(value),
            "kernel" => self.kernel_bytes = Some(value),
            "swapcached" => self.swap_cached_bytes = Some(value),
            "pgscan" => self.nr_pgscan_pages = Some(value),
            "pgsteal" => self.nr_pgsteal_pages = Some(value),
            _ => self.set_shared(name, value),
        }
    }

    fn set_shared(&mut self, name: &str, value: u64) {
        let add = |slot: &mut Option<u64>| *slot = Some(slot.unwrap_or(0) + value);
        if matches!(name, "inactive_anon" | "inactive_file") {
            add(&mut self.inactive_bytes);
        }
        match name {
            "shmem" => self.shmem_bytes = Some(value),
            "active_file" | "inactive_file" => add(&mut self.lru_file_bytes),
            "active_anon" | "inactive_anon" => add(&mut self.lru_anon_bytes),
            "pgfault" => self.nr_pgfault = Some(value),
            "pgmajfault" => self.nr_pgmajfault = Some(value),
            "pgscan_kswapd" => self.nr_pgscan_kswapd_pages = Some(value),
            "pgscan_direct" => self.nr_pgscan_direct_pages = Some(value),
            "pgscan_proactive" => self.nr_pgscan_proactive_pages = Some(value),
            "pgsteal_kswapd" => self.nr_pgsteal_kswapd_pages = Some(value),
            "pgsteal_direct" => self.nr_pgsteal_direct_pages = Some(value),
            "pgsteal_proactive" => self.nr_pgsteal_proactive_pages = Some(value),
            "workingset_refault_anon" => self.nr_refault_anon_pages = Some(value),
            // Before 5.9 there was one counter, of file pages.
            "workingset_refault_file" | "workingset_refault" => {
                self.nr_refault_file_pages = Some(value);
            }
            _ => {}
        }
    }
}

/// The number behind a name in a file of `name value` lines.
pub(super) fn keyed_number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == name).then(|| value.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v1_counts_the_groups_below_as_v2_does() {
        let text = "cache 1\nrss 2\nswap 3\nshmem 4\ninactive_file 9\n\
                    total_cache 10\ntotal_rss 20\ntotal_swap 30\ntotal_shmem 40\n\
                    total_pgmajfault 5\ntotal_inactive_file 6\ntotal_active_file 7\n\
                    total_workingset_refault_anon 8\n";
        let stats = GroupStats::parse(text, Version::V1);
        let expected = GroupStats {
            anon_bytes: Some(20),
            file_bytes: Some(10),
            shmem_bytes: Some(40),
            swap_bytes: Some(30),
            lru_file_bytes: Some(13),
            inactive_bytes: Some(6),
            nr_pgmajfault: Some(5),
            nr_refault_anon_pages: Some(8),
            ..GroupStats::default()
        };
        assert_eq!(stats, expected);
    }

    #[test]
    fn what_is_in_memory_as_well_is_not_out_of_it() {
        let mut stats = GroupStats::parse("anon 1\nswapcached 40\n", Version::V2);
        assert_eq!(stats.swapped_out_bytes(), None);
        stats.swap_bytes = Some(100);
        assert_eq!(stats.swapped_out_bytes(), Some(60));
        // v1 does not count a page in swap that is back.
        let v1 = GroupStats::parse("total_swap 100\ntotal_swapcached 40\n", Version::V1);
        assert_eq!(v1.swapped_out_bytes(), Some(100));
    }

    #[test]
    fn v2_tells_who_reclaimed() {
        let text = "anon 1\nfile 2\npgscan 30\npgscan_direct 10\npgscan_kswapd 20\n\
                    pgsteal 5\npgsteal_proactive 4\nworkingset_refault_file 6\ngarbage\nx y\n";
        let stats = GroupStats::parse(text, Version::V2);
        assert_eq!(stats.nr_pgscan_pages, Some(30));
        assert_eq!(stats.nr_pgscan_direct_pages, Some(10));
        assert_eq!(stats.nr_pgsteal_proactive_pages, Some(4));
        assert_eq!(stats.nr_refault_file_pages, Some(6));
        assert_eq!(stats.nr_refault_anon_pages, None);
    }
}
