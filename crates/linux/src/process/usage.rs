//! What processes use: memory by `smaps_rollup` and the kernel's cheap counters.
//!
//! Resident set sizes can't be summed over a tree: a page mapped by `n` processes is in the RSS of
//! each. The proportional set size (`Pss`, each page divided by its mappers) counts every page of the tree at most
//! once. For that the kernel goes through the whole address space with its lock held, so only processes that are small
//! enough are asked for it (`hold_up`); of a larger one [`tree_rss_bytes`] takes the RSS.
//!
//! **Owns** the parsing of `smaps_rollup`, and what the calling thread takes of a processor. **Does not own** budgets.

use std::io;

use rustix::time::{ClockId, clock_gettime};

use super::{Process, ProcessTree};
use crate::addr::PAGE_BYTES;
use crate::hold_up::{Call, timed};

/// Totals of `/proc/PID/smaps_rollup`, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct MemoryUse {
    /// Resident.
    pub rss_bytes: u64,
    /// Resident, each page divided by its mappers.
    pub pss_bytes: u64,
    /// Resident, mapped by others too.
    pub shared_bytes: u64,
    /// Anonymous pages resident.
    pub anon_bytes: u64,
    /// Shared memory resident, by share.
    pub pss_shmem_bytes: u64,
    /// File pages resident, by share.
    pub pss_file_bytes: u64,
    /// In swap.
    pub swap_bytes: u64,
    /// In swap, each slot divided by its users.
    pub swap_pss_bytes: u64,
    /// `mlock`ed, by share: can't be taken.
    pub locked_bytes: u64,
}

impl MemoryUse {
    fn parse(text: &str) -> MemoryUse {
        let mut used = MemoryUse::default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let field = match key {
                "Rss" => &mut used.rss_bytes,
                "Pss" => &mut used.pss_bytes,
                "Shared_Clean" | "Shared_Dirty" => &mut used.shared_bytes,
                "Anonymous" => &mut used.anon_bytes,
                "Pss_Shmem" => &mut used.pss_shmem_bytes,
                "Pss_File" => &mut used.pss_file_bytes,
                "Swap" => &mut used.swap_bytes,
                "SwapPss" => &mut used.swap_pss_bytes,
                "Locked" => &mut used.locked_bytes,
                _ => continue,
            };
            let kib = value.trim().trim_end_matches(" kB").parse::<u64>();
            // Two lines add up to `shared_bytes`; every other key comes once.
            *field += kib.unwrap_or(0) * 1024;
        }
        used
    }
}

impl Process {
    /// Totals of the process by `smaps_rollup`; needs the right to read its memory, costs a walk by the kernel.
    ///
    /// # Errors
    /// Also where a thread of it stalls the address space.
    pub fn memory_use(&self) -> io::Result<MemoryUse> {
        self.ensure_settled()?;
        let (text, _) = timed(Call::Smaps, || self.read_of_space("smaps_rollup"));
        Ok(MemoryUse::parse(&String::from_utf8_lossy(&text?)))
    }

    /// Resident, by the kernel's counters; no lock is taken.
    pub fn rss_bytes(&self) -> io::Result<u64> {
        Ok(self.stat()?.rss_pages * PAGE_BYTES)
    }
}

impl Process {
    /// What it has in swap by `/proc/PID/status`, shared memory not counted; cheap.
    pub fn swapped_bytes(&self) -> io::Result<u64> {
        let text = self.read_of_space("status")?;
        Ok(swapped_bytes(&String::from_utf8_lossy(&text)))
    }
}

impl Process {
    /// What a call that goes through all of its address space meets: in memory and in swap.
    pub fn held_bytes(&self) -> io::Result<u64> {
        Ok(self.rss_bytes()? + self.swapped_bytes()?)
    }
}

/// A process without a space has no such line.
fn swapped_bytes(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmSwap:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

/// Resident memory of the tree by the kernel's counters: pages shared within the tree count once for each process;
/// bytes. No lock is taken.
pub fn tree_counted_bytes(tree: &ProcessTree) -> u64 {
    tree.processes()
        .filter_map(|process| process.rss_bytes().ok())
        .sum()
}

/// Resident memory of the tree, bytes. Pages shared within the tree count once, but for those of processes with more
/// than so many pages in memory and in swap, of which each counts all it maps.
pub fn tree_rss_bytes(tree: &ProcessTree, nr_pages_max: u64) -> u64 {
    let bytes_of = |process: &Process| match process.held_bytes().ok()?
        > nr_pages_max.saturating_mul(PAGE_BYTES)
    {
        true => process.rss_bytes().ok(),
        false => process.memory_use().ok().map(|used| used.pss_bytes),
    };
    tree.processes()
        .filter_map(|process| bytes_of(process))
        .sum()
}

/// CPU time of the calling thread, nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_swap_is_read_by_its_name() {
        assert_eq!(
            swapped_bytes("VmSwapX:\t 1 kB\nVmSwap:\t     12 kB\n"),
            12 << 10
        );
        assert_eq!(swapped_bytes("Name:\tVmSwap: 1 kB\n"), 0);
    }

    #[test]
    fn the_rollup_is_read_by_its_keys() {
        let text = "555-7ff ---p 00000000 00:00 0    [rollup]\nRss:   20 kB\nPss:  12 kB\n\
                    Pss_Dirty: 1 kB\nPss_Anon: 2 kB\nPss_File: 3 kB\nPss_Shmem: 4 kB\n\
                    Shared_Clean: 8 kB\nShared_Dirty: 1 kB\nAnonymous: 5 kB\nSwap: 6 kB\n\
                    SwapPss: 7 kB\nLocked: 9 kB\nFuture: x kB\n";
        let used = MemoryUse::parse(text);
        let kib = [
            used.rss_bytes,
            used.pss_bytes,
            used.shared_bytes,
            used.anon_bytes,
            used.pss_shmem_bytes,
            used.pss_file_bytes,
            used.swap_bytes,
            used.swap_pss_bytes,
            used.locked_bytes,
        ]
        .map(|bytes| bytes / 1024);
        assert_eq!(kib, [20, 12, 9, 5, 4, 3, 6, 7, 9]);
    }
}
