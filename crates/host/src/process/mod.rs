//! Processes and their mappings, as `/proc` shows them.
//!
//! **Owns** a handle that survives pid reuse ([`Process`]), the reading and classification of
//! mappings ([`Mapping`]), and following a tree of processes. **Does not own** page tables (`access`).

mod vm_flags;

pub use vm_flags::VmFlags;

use crate::addr::AddrRange;

/// One address space, held so that a reused pid is never mistaken for it.
#[derive(Debug)]
pub struct Process {
    pid: i32,
}

impl Process {
    /// Takes hold of a process.
    pub fn open(pid: i32) -> Result<Process, ProcessError> {
        match std::fs::exists(format!("/proc/{pid}/maps")) {
            Ok(true) => Ok(Process { pid }),
            _ => Err(ProcessError::Gone(pid)),
        }
    }

    /// The thread-group id.
    pub fn pid(&self) -> i32 {
        self.pid
    }
}

/// What a mapping is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MappingClass {
    /// Private anonymous memory.
    Anon,
    /// The brk heap.
    Heap,
    /// The main stack.
    Stack,
    /// A private mapping of a file (its written pages are anon).
    FilePrivate,
    /// A shared mapping of a file.
    FileShared,
    /// Shared memory: tmpfs, memfd, SysV, shared anonymous.
    Shmem,
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
    /// No access rights at all, so nothing is there.
    NoAccess,
}

/// One line of `/proc/PID/maps`, classified.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// Addresses.
    pub range: AddrRange,
    /// What it is.
    pub class: MappingClass,
    /// `Some` if its pages can't be taken.
    pub unreclaimable: Option<Unreclaimable>,
    /// Executable and backed by a file.
    pub is_exec_file: bool,
    /// `MADV_SEQUENTIAL` or `MADV_RANDOM`: accesses through it don't count as recency.
    pub has_recency: bool,
    /// Path or name as `/proc` prints it; empty for anonymous memory.
    pub name: String,
}

/// Why a process can't be held.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// No such process.
    #[error("process {0} is gone")]
    Gone(i32),
}
