//! The counters of a group, in one vocabulary for both versions.
//!
//! **Owns** the mapping of `memory.stat`, `memory.oom_control` and `memory.events` to
//! [`GroupStats`], and of `memory.stat` to [`FileStats`] and [`Charge`]. **Does not own** when they are read.

use super::file::keyed_number;
use strata_lru::machine::{CgroupVersion as Version, GroupStats};

/// Parts of a group's page cache, the groups below included. `None`: this version or kernel does not offer it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStats {
    /// Mapped by a process, bytes.
    pub mapped_bytes: Option<u64>,
    /// To be written to its file, bytes.
    pub dirty_bytes: Option<u64>,
    /// On the kernel's lists of inactive file pages, bytes.
    pub inactive_bytes: Option<u64>,
}

/// What a group itself is charged, bytes. `lru_anon`, `lru_file`, `unevictable` and `kernel` share no page, and are all of it but
/// for what is on its way to the kernel's lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// Anonymous memory, shared memory and tmpfs on the kernel's lists.
    pub lru_anon_bytes: u64,
    /// Part of it in huge pages.
    pub anon_thp_bytes: u64,
    /// Shared memory and tmpfs, locked or not.
    pub shmem_bytes: u64,
    /// Page cache of files on the kernel's lists.
    pub lru_file_bytes: u64,
    /// Page cache, shared memory and tmpfs that a process has mapped.
    pub file_mapped_bytes: u64,
    /// Page cache that is to be written, or is being written.
    pub file_dirty_bytes: u64,
    /// Locked in memory, whatever it is.
    pub unevictable_bytes: u64,
    /// The kernel's: dentries, inodes, stacks, page tables, on v2 also buffers of sockets.
    pub kernel_bytes: u64,
}

/// Reads `memory.stat`; on v1 the kernel's own memory is not there.
pub(super) fn parse_charge(memory_stat: &str, version: Version) -> Charge {
    let mut charge = Charge::default();
    for (name, value) in memory_stat.lines().filter_map(|line| line.split_once(' ')) {
        let slot = match (name, version) {
            ("active_anon" | "inactive_anon", _) => &mut charge.lru_anon_bytes,
            ("active_file" | "inactive_file", _) => &mut charge.lru_file_bytes,
            ("unevictable", _) => &mut charge.unevictable_bytes,
            ("shmem", _) => &mut charge.shmem_bytes,
            ("anon_thp", Version::V2) | ("rss_huge", Version::V1) => &mut charge.anon_thp_bytes,
            ("file_mapped", Version::V2) | ("mapped_file", Version::V1) => {
                &mut charge.file_mapped_bytes
            }
            ("file_dirty" | "file_writeback", Version::V2)
            | ("dirty" | "writeback", Version::V1) => &mut charge.file_dirty_bytes,
            ("kernel" | "sock", Version::V2) => &mut charge.kernel_bytes,
            _ => continue,
        };
        *slot += value.trim().parse().unwrap_or(0);
    }
    charge
}

/// The parts of the page cache of `memory.stat`.
pub(super) fn parse_file(memory_stat: &str, version: Version) -> FileStats {
    let (mapped, dirty, inactive) = match version {
        Version::V1 => ("total_mapped_file", "total_dirty", "total_inactive_file"),
        Version::V2 => ("file_mapped", "file_dirty", "inactive_file"),
    };
    FileStats {
        mapped_bytes: keyed_number(memory_stat, mapped),
        dirty_bytes: keyed_number(memory_stat, dirty),
        inactive_bytes: keyed_number(memory_stat, inactive),
    }
}

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
                    set_v1(&mut stats, name, value);
                }
            }
            Version::V2 => set_v2(&mut stats, name, value),
        }
    }
    stats
}

fn set_v1(stats: &mut GroupStats, name: &str, value: u64) {
    match name {
        "rss" => stats.anon_bytes = Some(value),
        "cache" => stats.file_bytes = Some(value),
        "swap" => stats.swap_bytes = Some(value),
        _ => set_shared(stats, name, value),
    }
}

fn set_v2(stats: &mut GroupStats, name: &str, value: u64) {
    match name {
        "anon" => stats.anon_bytes = Some(value),
        "file" => stats.file_bytes = Some(value),
        "kernel" => stats.kernel_bytes = Some(value),
        "swapcached" => stats.swap_cached_bytes = Some(value),
        "pgscan" => stats.nr_pgscan_pages = Some(value),
        "pgsteal" => stats.nr_pgsteal_pages = Some(value),
        _ => set_shared(stats, name, value),
    }
}

fn set_shared(stats: &mut GroupStats, name: &str, value: u64) {
    let add = |slot: &mut Option<u64>| *slot = Some(slot.unwrap_or(0) + value);
    if matches!(name, "inactive_anon" | "inactive_file") {
        add(&mut stats.inactive_bytes);
    }
    match name {
        "shmem" => stats.shmem_bytes = Some(value),
        "active_file" | "inactive_file" => add(&mut stats.lru_file_bytes),
        "active_anon" | "inactive_anon" => add(&mut stats.lru_anon_bytes),
        "pgfault" => stats.nr_pgfault = Some(value),
        "pgmajfault" => stats.nr_pgmajfault = Some(value),
        "pgscan_kswapd" => stats.nr_pgscan_kswapd_pages = Some(value),
        "pgscan_direct" => stats.nr_pgscan_direct_pages = Some(value),
        "pgscan_proactive" => stats.nr_pgscan_proactive_pages = Some(value),
        "pgsteal_kswapd" => stats.nr_pgsteal_kswapd_pages = Some(value),
        "pgsteal_direct" => stats.nr_pgsteal_direct_pages = Some(value),
        "pgsteal_proactive" => stats.nr_pgsteal_proactive_pages = Some(value),
        "workingset_refault_anon" => stats.nr_refault_anon_pages = Some(value),
        // Before 5.9 there was one counter, of file pages.
        "workingset_refault_file" | "workingset_refault" => {
            stats.nr_refault_file_pages = Some(value);
        }
        _ => {}
    }
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
        let stats = parse(text, Version::V1);
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
    fn parts_of_the_page_cache_have_other_names_in_each_version() {
        let v1 = "mapped_file 1\ndirty 2\ntotal_mapped_file 10\ntotal_dirty 20\ntotal_inactive_file 30\n";
        let v2 = "file 5\nfile_mapped 10\nfile_dirty 20\nfile_writeback 3\ninactive_file 30\n";
        let expected = FileStats {
            mapped_bytes: Some(10),
            dirty_bytes: Some(20),
            inactive_bytes: Some(30),
        };
        assert_eq!(parse_file(v1, Version::V1), expected);
        assert_eq!(parse_file(v2, Version::V2), expected);
        assert_eq!(parse_file("file 5\n", Version::V2), FileStats::default());
    }

    #[test]
    fn what_a_group_itself_is_charged_has_other_names_in_each_version() {
        let lists = "inactive_anon 10\nactive_anon 1\ninactive_file 20\nactive_file 2\nunevictable 5\nshmem 4\n";
        let v1 = "rss_huge 3\nmapped_file 6\ndirty 7\nwriteback 1\ntotal_unevictable 99\ntotal_shmem 99\n";
        let v2 = "anon_thp 3\nfile_mapped 6\nfile_dirty 7\nfile_writeback 1\nkernel 7\nsock 2\n";
        let expected = Charge {
            lru_anon_bytes: 11,
            anon_thp_bytes: 3,
            shmem_bytes: 4,
            lru_file_bytes: 22,
            file_mapped_bytes: 6,
            file_dirty_bytes: 8,
            unevictable_bytes: 5,
            kernel_bytes: 0,
        };
        let parse = |text: &str, version| parse_charge(&format!("{lists}{text}"), version);
        assert_eq!(parse(v1, Version::V1), expected);
        let kernel_bytes = 9;
        assert_eq!(
            parse(v2, Version::V2),
            Charge {
                kernel_bytes,
                ..expected
            }
        );
    }

    #[test]
    fn what_is_in_memory_as_well_is_not_out_of_it() {
        let mut stats = parse("anon 1\nswapcached 40\n", Version::V2);
        assert_eq!(stats.swapped_out_bytes(), None);
        stats.swap_bytes = Some(100);
        assert_eq!(stats.swapped_out_bytes(), Some(60));
        // v1 does not count a page in swap that is back.
        let v1 = parse("total_swap 100\ntotal_swapcached 40\n", Version::V1);
        assert_eq!(v1.swapped_out_bytes(), Some(100));
    }

    #[test]
    fn v2_tells_who_reclaimed() {
        let text = "anon 1\nfile 2\npgscan 30\npgscan_direct 10\npgscan_kswapd 20\n\
                    pgsteal 5\npgsteal_proactive 4\nworkingset_refault_file 6\ngarbage\nx y\n";
        let stats = parse(text, Version::V2);
        assert_eq!(stats.nr_pgscan_pages, Some(30));
        assert_eq!(stats.nr_pgscan_direct_pages, Some(10));
        assert_eq!(stats.nr_pgsteal_proactive_pages, Some(4));
        assert_eq!(stats.nr_refault_file_pages, Some(6));
        assert_eq!(stats.nr_refault_anon_pages, None);
    }
}
