//! What a run sets up, does, undoes and reports.
//!
//! ```text
//!   session  recover -> arena -> program -> loop -> undo -> report
//!   arena    place in the run directory, keeper, swap device, group and limit: what has to be undone
//!   reclaim_loop  one tick: reads (`sense`), decides (`strata_control`), walks (`pages`), acts (`actuators`)
//!   answers  what the control socket asks, at the next tick; status: how the run stands
//! ```
//!
//! **Owns** the order of things in a run, and what it changes outside the program. **Does not own** decisions
//! (`strata_control`), which folio goes (the engine), or how (actuators).
//!
//! **Invariants**
//! - I1: one thread owns all of this; actuators have threads of their own and are only sent requests
//!   and asked for answers.
//! - I2: quiet when there is nothing to do: below nine tenths of the budget no walk comes that nobody has ordered.

mod actuators;
mod arena;
mod assemble;
mod charges;
mod config;
mod departure;
pub(crate) mod error;
mod event;
mod gauge;
mod group;
pub(crate) mod overhead;
mod program;
mod reclaim_loop;
pub(crate) mod report;
mod savings;
mod session;
pub(crate) mod status;
mod strays;
mod thresholds;
pub mod trace;
mod usage;
mod would_evict;

pub use crate::observe::watch::Watcher;
pub use crate::pages::{WalkFindings, WalkReport};
pub use config::{AtDetach, PolicyChoice, RunConfig, SwappinessChoice, Target};
pub use error::RunError;
pub use event::Event;
pub use report::{
    CacheTierReport, DropReport, Ending, EvictionReport, GenerationReport, KernelReport,
    LeftReport, LetGoReport, LimitReport, PageCacheReport, ProgramReport, REPORT_VERSION, Report,
    SavedReport, TierReport, UsageReport, WouldEvictReport, WouldEvictShare,
};
pub use session::run;
pub use status::{GroupStatus, IDLE_SECONDS, IdleReport, Status};
pub use strata_control::cpu::load::AUTO_PAGEOUT_PAGES_PER_S;
pub use strata_control::{Actuator as ActuatorChoice, Config as ControlConfig};
