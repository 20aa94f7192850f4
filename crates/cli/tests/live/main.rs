//! The live tests of the binary, one module a subject: they drive real programs on the real kernel.
//!
//! **Owns** the list of them. **Does not own** any test.

#[path = "../support/mod.rs"]
#[macro_use]
mod support;
#[macro_use]
mod walk;

mod budget;
mod cache_trouble;
mod cache_watch;
mod census;
mod compare;
mod control;
mod doctor;
mod files;
mod groups;
mod guard;
mod guard_bounds;
mod guard_cache;
mod guard_command;
mod guard_files;
mod guard_halt;
mod guard_killed;
mod guard_kinds;
mod guard_ledger;
mod guard_limit;
mod guard_memory;
mod guard_park;
mod guard_pods;
mod guard_service;
mod guard_swap;
mod guard_told;
mod held;
mod hold_up;
mod hung;
mod idle;
mod integrity;
mod killed;
mod lru_gen;
mod metrics;
mod named;
mod near;
mod page_cache;
mod pages;
mod park;
mod park_again;
mod park_luck;
mod park_steps;
mod policies;
mod processors;
mod record;
mod run;
mod run_dir;
mod run_hungry;
mod run_refused;
mod run_shapes;
mod run_status;
mod run_trouble;
mod stalled;
mod stops;
mod sums;
mod swap;
mod tiers;
mod tiers_luck;
mod top;
mod traced;
mod tree;
mod two_on_one;
mod wss;
