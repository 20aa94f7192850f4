//! The mechanisms of Linux that Strata uses, each usable by itself: processes, page tables, physical memory, cgroups, swap, page
//! cache, and the ways to change where a page is.
//!
//! **Owns** processes and their mappings ([`process`]), which pages were accessed and what lies in physical memory ([`access`]),
//! limits and the kernel's reclaim ([`cgroup`]), swap devices ([`swap`]), reaching and dropping page cache ([`page_cache`]), the
//! threads that move pages ([`actuator`]), how long a call may hold a program's lock ([`hold_up`]), when a thread of ours waits for one
//! in vain ([`standstill`]), and the words in which a change is noted before it is made ([`undo`], [`claim`], [`run_dir`]).
//! **Does not own** any decision (`strata-lru`, `strata-control`), what the product does with a mechanism, nor keeping and
//! carrying out the notes (`strata-host`).
//!
//! **Invariants**
//! - I1: never writes to the memory of a managed process; what it takes can always be read back.
//! - I2: `unsafe` only in `sys`.
//! - I3: tried and applied are counted apart.
//! - I4: one bad process, mapping or page spoils nothing but itself.
#![deny(unsafe_code)]

pub mod access;
pub mod actuator;
pub mod addr;
pub mod cgroup;
pub mod claim;
pub mod hold_up;
pub mod nodes;
pub mod page_cache;
pub mod plain;
pub mod process;
pub mod ready;
pub mod rights;
pub mod run_dir;
pub mod standstill;
pub mod swap;
pub mod sys;
pub mod undo;
pub mod units;
