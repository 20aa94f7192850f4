//! The control loop: when to reclaim, how much, and who does it.
//!
//! Everything here is a function of what it is given. Time is a parameter, and nothing is read from the system, written
//! to it or waited for; `strata-host` carries out what is decided.
//!
//! ```text
//!   sample               what is read                       watermarks   at which usage something begins
//!   cpu                  who has the processors             pressure     how much has to go, when to look again
//!   strategy             what is done beside reclaim        reclaimer    who reclaims
//!   page_cache           which pages of page cache lie idle, and which came in of late
//!   plan                 what is wanted, in quantities      walks        when a walk comes
//!   limit                when the limit gives way, and when its counts are read
//!   stall, backoff       when reclaim is in vain, and how long to pause after what failed
//!   tunables, config     the numbers that all of these judge by, each beside the code that does
//!   control              puts them together: a sample in, a plan out
//!   promise              what may be taken of a group without a budget, by what comes back
//!   guard                what goes of many groups under promises, after a walk
//!   oldest               what goes of them promise or not: the oldest, of whatever kind
//!   shortage             how much of them has to go, promise or not, where memory is short
//!   growth               how fast a group grows without a pause
//!   last_resort          which group is frozen or killed where a host stays short of memory
//!   quiet                for how long a program has done next to nothing
//!   swap_writes          how much may be written to swap a second
//!   tiers                which pages go down to slower memory and which come up, after a walk
//!   drive                carries a plan out on whatever has pages and threads, live or played
//!   trace                what each turn read, decided and came to, as lines of JSON
//! ```
//!
//! **Owns** the judgements that the loop is made of. **Does not own** which page goes (`strata-lru`), nor any call of
//! the system.
//!
//! **Invariants** I1: the same samples give the same decisions. I2: no two modules import each other, except a module
//! and its submodules.
//!
//! Words: a *walk* goes through the page tables of the programs and finds the pages that were accessed since the last
//! one. A *space* is one program's memory. The *line* is the usage at which the kernel holds the group, just below the budget.
#![forbid(unsafe_code)]

mod backoff;
mod cache_moment;
mod config;
mod control;
pub mod cpu;
pub mod drive;
pub mod growth;
pub mod guard;
mod hazard;
pub mod last_resort;
pub mod limit;
mod loop_config;
pub mod oldest;
pub mod page_cache;
mod plan;
mod pressure;
pub mod promise;
pub mod quiet;
pub mod reclaimer;
mod sample;
pub mod shortage;
mod stall;
pub mod strategy;
pub mod swap_writes;
pub mod tiers;
pub mod trace;
mod tunables;
pub mod walks;
pub mod watermarks;

pub use config::{Config, SetError};
pub use control::{Control, Setup, WalkLook};
pub use page_cache::{CacheDrop, CacheRequest};
pub use plan::{Action, Decision, Plan, Reclaim, Reclaimer};
pub use sample::{
    Actuator, ActuatorReport, CacheLook, CacheSample, CameIn, CgroupVersion, CpuState, Distances,
    Due, FileCache, FileNo, FreeSwap, GroupStats, PAGE_BYTES, Processors, ProgramNo, Reads, Sample,
};
pub use strategy::{admit_cache, drop_cache, split_huge};
pub use tunables::{OutOfRange, Tunable, Tunables};
pub use watermarks::{Held, Watermarks};
