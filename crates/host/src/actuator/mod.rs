//! The ways to take pages from a process or a group.
//!
//! **Owns** `pageout` (exact: these pages) and `reclaim` (the kernel's batched reclaim of a group:
//! this many bytes). **Does not own** the choice of pages, nor the group's limits (`cgroup`).
