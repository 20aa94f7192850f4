//! What the live tests share: the tested binary, the workloads, skipping, and proof of clean-up.
//!
//! **Owns** [`strata`] (running the binary with a time limit), [`programs`] (the C workloads, built
//! on demand), [`skip!`](crate::skip) and [`needs!`](crate::needs) (a test that can't run here says
//! why), [`live!`](crate::live) (how most live tests begin), [`live`] (a `strata` in the background, cgroups of a test), [`working_set`] (a program that knows its working set), [`helper`] (threads beside a test), [`json`] (numbers of what is printed), [`room`] (mount namespaces), [`run`] (a run that is asked and changed), [`control_trace`] (what holds of every trace of the loop), and [`leaks::Guard`] (nothing is left behind, and one live test at a time).
//! **Does not own** any test.
//!
//! A live test begins like this:
//!
//! ```ignore
//! mod support;
//!
//! #[test]
//! fn a_program_under_a_budget_ends_with_its_own_status() {
//!     live!("cap_bpf", "memory_cgroup");
//!     let run = support::strata::Strata::new(["run", "--memory", "64M", "--"])
//!         .arg(support::programs::program("status"))
//!         .args(["--code", "7"])
//!         .finish();
//!     assert_eq!(run.code(), Some(7));
//! }
//! ```
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "a test binary uses a part of it"
)]

pub(crate) mod control_trace;
pub(crate) mod helper;
pub(crate) mod json;
pub(crate) mod leaks;
pub(crate) mod live;
pub(crate) mod prelude;
pub(crate) mod programs;
pub(crate) mod prometheus;
#[macro_use]
pub(crate) mod residency;
pub(crate) mod room;
pub(crate) mod run;
#[macro_use]
pub(crate) mod skip;
pub(crate) mod strata;
pub(crate) mod working_set;
