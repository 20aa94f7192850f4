//! What processes use: memory by `smaps_rollup` and the kernel's cheap counters.
//!
//! Resident set sizes can't be summed over a tree: a page mapped by `n` processes is in the RSS of
//! each. The proportional set size (`Pss`, each page divided by its mappers) counts every page of the tree at most
//! once. For that the kernel goes through the whole address space with its lock held, so only processes that are small
//! enough are asked for it (`hold_up`); of a larger one [`tree_rss_bytes`] takes the RSS.
//!
//! **Owns** how usage is told, and what the calling thread takes of a processor. **Does not own** budgets.

use std::io;

use rustix::time::{ClockId, clock_gettime};

use super::{Process, ProcessTree, keyed_bytes};
use crate::addr::PAGE_BYTES;
use crate::hold_up::{Call, timed};

/// What is told by `/proc/PID/smaps_rollup`, each page divided by its mappers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Resident.
    pub pss_bytes: u64,
    /// In swap.
    pub swap_pss_bytes: u64,
}

impl Process {
    /// What the process uses by `smaps_rollup`; needs the right to read its memory, costs a walk by the kernel.
    ///
    /// # Errors
    /// Also where a thread of it stalls the address space.
    pub fn memory_use(&self) -> io::Result<MemoryUse> {
        self.ensure_settled()?;
        let (text, _) = timed(Call::Smaps, || self.read_of_space("smaps_rollup"));
        let text = text?;
        let text = String::from_utf8_lossy(&text);
        let bytes = |name| keyed_bytes(&text, name).unwrap_or(0);
        Ok(MemoryUse {
            pss_bytes: bytes("Pss"),
            swap_pss_bytes: bytes("SwapPss"),
        })
    }

    /// Resident, by the kernel's counters; no lock is taken.
    pub fn rss_bytes(&self) -> io::Result<u64> {
        Ok(self.stat()?.rss_pages * PAGE_BYTES)
    }

    /// What it has in swap by `/proc/PID/status`, shared memory not counted; cheap.
    pub fn swapped_bytes(&self) -> io::Result<u64> {
        let text = self.read_of_space("status")?;
        // A process without a space has no such line.
        Ok(keyed_bytes(&String::from_utf8_lossy(&text), "VmSwap").unwrap_or(0))
    }

    /// What a call that goes through all of its address space meets: in memory and in swap.
    pub fn held_bytes(&self) -> io::Result<u64> {
        Ok(self.rss_bytes()? + self.swapped_bytes()?)
    }
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
