//! The ways to take pages from a process or a group.
//!
//! ```text
//!   Pageout::try_submit(PageoutRequest)  ->  its thread  ->  Pageout::poll() -> PageoutReport
//!   ShrinkThread::try_submit(amount)     ->  its thread  ->  ShrinkThread::poll() -> ShrinkOutcome
//!   Recall::try_submit(ranges)           ->  its thread  ->  (nothing is told)
//!   Mover::try_submit(MoveRequest)       ->  its thread  ->  Mover::poll() -> MoveReport
//! ```
//!
//! [`PutAway`] and [`read_back`] work in the caller's threads: they are for who has nothing else to do meanwhile. The others
//! run on a thread of their own, because a single call into the kernel's reclaim was seen to
//! stall for seconds; the control loop submits, goes on, and learns the outcome later
//! (`completion_fd` turns readable).
//!
//! **Owns** `pageout` (exact: these pages) and `reclaim` (the kernel's batched reclaim of a group:
//! this many bytes) and `recall` (which pages it is to read in), and `mover` (from one memory node to another)
//! and `cache_mover` (page cache that nobody maps, up to a faster one).
//! **Does not own** the choice of pages, nor the group's limits (`cgroup`).
//!
//! **Invariants**
//! - I1: nothing here blocks the caller but `stop`.
//! - I2: every page of a request gets exactly one verdict; tried and evicted are counted apart.
//! - I3: every call that takes the lock of a program's address space is short, and the next one comes after a pause
//!   (`hold_up`).
//! - I4: nothing is taken that can't be read back: advice only, never a write to a process.

mod advise;
mod cache_mover;
mod leftover;
mod mover;
mod observe;
mod pageout;
mod pass;
mod put_away;
mod read_back;
mod shrink;
mod units;
mod worker;

pub use advise::PageoutError;
pub use cache_mover::{
    CacheMoveReport, CacheMoveRequest, CacheMover, CachePages, start_cache_mover,
};
pub use mover::{MoveReport, MoveRequest, Mover, Unmoved, start_mover};
pub use pageout::{CpuBound, Pageout, start_pageout};
pub use pass::{PageoutReport, PageoutRequest, Unit};
pub use put_away::PutAway;
pub use read_back::{ReadBack, Recall, Wanted, bring_back, read_back};
pub use shrink::{ShrinkOutcome, ShrinkThread, start_shrink};
pub use worker::{StopFlag, Worker};
