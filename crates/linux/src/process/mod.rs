//! Processes and their mappings, as `/proc` shows them.
//!
//! ```text
//!   open(pid) -> Process      pidfd + start time + a grip on the address space (detects exec)
//!   read_maps -> classify     RawMapping -> Mapping (what it is, whether it can be taken, why not)
//!   ProcessTree::refresh      who appeared, who ended: descendants of a root, or a cgroup's list
//!   descriptors               how many open files there may be
//!   usage, machine            rss / pss / faults / CPU of a process, memory of the machine
//!   attended                  whether somebody is at a program that looks idle
//!   stalled                   whether a thread waits with a lock of the address space
//!   threads                   how much of the processors a process asks for
//!   launch                    starting a command, waiting for it, passing signals on
//!   job                       stopping with it, so that the shell has its terminal back
//! ```
//!
//! **Owns** a handle that survives pid reuse ([`Process`]), the reading and classification of
//! mappings ([`Mapping`]), following a tree of processes ([`ProcessTree`]), memory and CPU figures,
//! and launching. **Does not own** page tables (`access`), nor limits (`cgroup`).
//!
//! **Invariants**
//! - I1: what was read through a [`Process`] belongs to the space it was opened on: reads by pid are
//!   followed by a check that the pid is still held.
//! - I2: a process that dies between being listed and being opened is no error.
//! - I3: threads are not processes, and two processes that share one space are walked once.

mod attended;
mod classify;
pub mod descriptors;
pub mod halt;
mod handle;
pub mod job;
mod keyed;
pub mod launch;
mod machine;
mod maps;
pub(crate) mod mountinfo;
mod pagemap;
pub mod signals;
mod stalled;
mod stat;
mod threads;
mod tree;
mod usage;
mod vm_flags;

use std::sync::Arc;

use crate::addr::AddrRange;

pub use attended::Attended;
pub use classify::{MemoryDevices, classify};
pub use handle::read_stat;
pub use handle::{Process, ProcessError};
pub use keyed::keyed_bytes;
pub use machine::is_multi_gen_on;
pub use machine::{MachineMemory, memory_pressure_percent};
pub use maps::{Device, MapsError, Perms, RawMapping, parse_maps};
pub use pagemap::PagemapEntry;
pub use stalled::{Stalled, stalled};
pub use stat::Stat;
pub use tree::{ProcessTree, TreeChange};
pub use usage::thread_cpu_ns;
pub use usage::{MemoryUse, tree_counted_bytes, tree_rss_bytes};
pub use vm_flags::VmFlags;

strata_lru::named! {
    /// What a mapping is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum MappingClass {
        /// Private anonymous memory.
        Anon = "anon",
        /// The brk heap.
        Heap = "heap",
        /// The main stack.
        Stack = "stack",
        /// A private mapping of a file (its written pages are anon).
        FilePrivate = "file_private",
        /// A shared mapping of a file.
        FileShared = "file_shared",
        /// Shared memory: tmpfs, memfd, SysV, shared anonymous.
        Shmem = "shmem",
    }
}

impl MappingClass {
    /// The kind of the pages that are not copies of their own: what eviction writes to swap is anon.
    pub fn kind(self) -> strata_lru::Kind {
        match self {
            MappingClass::FilePrivate | MappingClass::FileShared => strata_lru::Kind::File,
            MappingClass::Anon | MappingClass::Heap | MappingClass::Stack | MappingClass::Shmem => {
                strata_lru::Kind::Anon
            }
        }
    }

    /// Whether a mapping of this class is the process' own memory, without a file behind it.
    pub fn is_private_anon(self) -> bool {
        matches!(
            self,
            MappingClass::Anon | MappingClass::Heap | MappingClass::Stack
        )
    }

    /// The kind of one page. A dirty page of a private file mapping is a copy, hence anon; a clean one
    /// is taken for the file's, which is wrong for a copy that was swapped in and only read since.
    pub fn kind_of_page(self, is_dirty: bool) -> strata_lru::Kind {
        match self {
            MappingClass::FilePrivate if is_dirty => strata_lru::Kind::Anon,
            class => class.kind(),
        }
    }
}

/// Why reclaim must leave a mapping alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unreclaimable {
    /// `mlock`ed.
    Locked,
    /// hugetlbfs pages.
    Hugetlb,
    /// Device memory, PFN maps, mixed maps.
    Special,
    /// `vdso`, `vvar`, `vsyscall`.
    Gate,
    /// No access rights at all: a reserve or a guard, as a rule nothing is there.
    NoAccess,
}

/// One line of `/proc/PID/maps`, classified.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// Addresses.
    pub range: AddrRange,
    /// What the mapping is.
    pub class: MappingClass,
    /// `Some` if the mapping's pages can't be taken.
    pub unreclaimable: Option<Unreclaimable>,
    /// Executable and backed by a file.
    pub is_exec_file: bool,
    /// False under `MADV_SEQUENTIAL` or `MADV_RANDOM`: accesses through it don't count as recency.
    pub has_recency: bool,
    /// A memory policy says on which nodes its pages lie.
    pub is_bound: bool,
    /// A program supplies its missing pages (`userfaultfd`), and whoever touches one waits for that.
    pub is_supplied: bool,
    /// Path or name as `/proc` prints it; empty for anonymous memory.
    pub name: Arc<str>,
    /// What is mapped, where others may map the same.
    pub file: Option<FilePart>,
}

/// A file, or shared memory, from some place in it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// The device it is on.
    pub device: Device,
    /// Its number there.
    pub inode: u64,
    /// Where the mapping begins in it.
    pub offset_bytes: u64,
}

impl Mapping {
    /// Whether a walk looks into it. Locked pages are read too, so that a report can say how much
    /// can't be taken.
    pub fn is_worth_reading(&self) -> bool {
        matches!(self.unreclaimable, None | Some(Unreclaimable::Locked))
    }
}

/// The mapping of an address among those of a process.
pub fn mapping_at(mappings: &[Mapping], addr: u64) -> Option<&Mapping> {
    let at = mappings.partition_point(|mapping| mapping.range.end <= addr);
    let found = mappings.get(at);
    found.filter(|mapping| mapping.range.contains(addr))
}
