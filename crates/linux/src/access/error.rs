//! What can go wrong where accessed bits are read or cleared.
//!
//! **Owns** the errors of `access`. **Does not own** what is done about one.

use std::io;

/// Why a source can't answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// The source does not work on this machine.
    #[error("{source_name} can't be used: {why}; {remedy}")]
    Unavailable {
        /// The source.
        source_name: &'static str,
        /// What is missing.
        why: String,
        /// What to do about what is missing.
        remedy: String,
    },
    /// The process has ended.
    #[error("process {0} is gone")]
    ProcessGone(i32),
    /// The process has replaced its address space (exec), or its threads end faster than they
    /// can be looked at; what was visited so far belongs to the old space.
    #[error("process {0} replaced its memory during the walk; walk it again")]
    SpaceReplaced(i32),
    /// The accessed bits of the process can't be read or cleared without holding it up for too long.
    #[error(
        "process {pid} has {nr_pages} pages in memory and swap: smaps and clear_refs would hold it up for longer than \
         2 ms; use the bpf source, which needs CAP_BPF and CAP_PERFMON"
    )]
    TooLarge {
        /// The process.
        pid: i32,
        /// Pages of the process in memory and in swap.
        nr_pages: u64,
    },
    /// Whoever asked the process for its memory might wait for long, and hold the process up meanwhile.
    #[error("{0}; the process is left out until the wait is over")]
    Stalled(String),
    /// The operating system refused.
    #[error("{what} of process {pid} failed: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The process.
        pid: i32,
        /// The reason.
        source: io::Error,
    },
}
