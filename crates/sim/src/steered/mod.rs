//! Strata's control loop on top of a played kernel: `strata sim --steered`.
//!
//! The policy plays the kernel: its lists or generations decide which page goes when somebody asks it to reclaim and when
//! the limit is met. On top of it `strata-control` makes the same decisions as under `strata run --memory SIZE`, with
//! Strata's own engine, which is fed by walks of the played page tables and knows nothing else of the kernel.
//!
//! ```text
//!   requests --> world --(faults, direct reclaim)--> mechanism: the played kernel
//!                  |                                     ^   |
//!                  v                      touch, cold,   |   |  page tables, lists, counters
//!                tick --> strata-control  page out, ask  |   v
//!                  |            |         the kernel     |  pages: Strata's engine, walks
//!                limit <--------+--> threads, cache -----+
//! ```
//!
//! What is played: virtual time, in which accesses, faults, reclaim, walks, clearing and every call of Strata cost what
//! `prices` says; programs and Strata's threads on so many processors (`timeline`); the limit, on both versions of
//! cgroups (`limit`); page cache that is looked at and dropped (`cache`); the hold-up rule, by which walks that clear come
//! the further apart the longer clearing took.
//!
//! What is left out: reading ahead, huge pages, the programs' own memory beside the pages of the trace, other programs,
//! pages that several spaces map, which processor a thread runs on, the kernel's counts being out of date until somebody
//! reads them, and what interrupts cost the program beside.
//!
//! **Owns** virtual time and everything that Strata does in it. **Does not own** the setup (`simulate`), the
//! counts (`outcome`), the played kernel (`mechanism`), the decisions (`strata-control`) or the engine (`strata-lru`).
//!
//! **Invariants** I1: the same trace and setup give the same outcome. I2: the played kernel learns of Strata by what
//! Strata does to pages and limits alone, and Strata of the kernel by page tables, lists and counters.

mod cache;
mod limit;
mod mechanism;
mod pages;
mod prices;
#[cfg(test)]
mod tests;
mod threads;
mod tick;
mod timeline;
mod traced;
mod world;

pub(crate) use world::World;
