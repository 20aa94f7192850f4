//! The live tests of the host crate, one module a subject: real processes, groups and swap.
//!
//! **Owns** the list of them. **Does not own** any test.

#[macro_use]
#[path = "../support/mod.rs"]
mod support;
#[macro_use]
#[path = "../access_support/mod.rs"]
mod access_support;
#[path = "../support/groups.rs"]
mod groups;
#[path = "../support/guard.rs"]
mod guard;
#[path = "../pageout_support/mod.rs"]
mod pageout_support;
#[path = "../process_support/mod.rs"]
mod process_support;

mod access_change;
mod access_exact;
mod access_mappings;
mod cgroup;
mod cgroup_oom;
mod hold_up;
mod keeper;
mod line;
mod pageout_pages;
mod pageout_process;
mod process_handle;
mod process_launch;
mod process_tree;
mod swap;
