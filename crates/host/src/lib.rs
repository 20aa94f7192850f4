//! Linux under the engine: real processes, their page tables, cgroups, swap and reclaim.
//!
//! **Owns** everything that touches the operating system: discovery of processes and mappings
//! ([`process`]), sources of accessed bits ([`access`]), the ways to take pages ([`actuator`]),
//! looking without touching ([`observe`]), dropping page cache ([`page_cache`]), a command with and without Strata in turns ([`compare`]), limits ([`cgroup`]), swap devices ([`swap`]), undoing it all after a crash ([`keeper`]), and the
//! loop that ties them to the engine ([`run`]).
//! **Does not own** any decision about which page goes (that is `strata-lru`), nor any text on a
//! screen (that is the binary).
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
mod bits;
pub mod cgroup;
pub mod compare;
pub mod doctor;
pub mod hold_up;
pub mod keeper;
pub mod metrics;
pub mod observe;
pub mod page_cache;
mod pages;
pub mod plain;
pub mod process;
pub mod remote;
mod rights;
pub mod run;
mod sense;
pub mod swap;
mod sys;
pub mod units;
pub mod whole_file;
