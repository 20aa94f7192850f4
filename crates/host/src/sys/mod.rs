//! All `unsafe` of the workspace: raw system calls, shared BPF memory, and what runs between fork and exec.
//!
//! **Owns** thin safe wrappers, one operation each, errno turned into `io::Error`.
//! **Does not own** policy or retries.

pub(crate) mod bpf;
pub(crate) mod bpf_shared;
pub(crate) mod cold;
pub(crate) mod cpu_clock;
pub(crate) mod huge_zero;
