//! The control loop: usage in, walks and evictions out, a report at the end.
//!
//! ```text
//!   run      recover -> arena -> program -> loop -> undo -> report
//!   arena    session + keeper, swap device, group and limit: what has to be undone
//!   managed  one tick: governor (how much, when; stall: is it in vain) -> walk (who is young) -> evict
//!            (tracker, actuators)
//!   tracker  spaces -> tables -> slots: which folio is at which page; places: the way back
//!   answers  what the control socket asks, at the next tick; status: how the run stands
//!   watch    the same without actuators, for lru-gen
//! ```
//!
//! **Owns** the map between pages of processes and folios of the engine, and the pace of everything.
//! **Does not own** which folio goes (engine) or how (actuators).
//!
//! **Invariants**
//! - I1: one thread owns all of this; actuators have threads of their own and are only sent requests
//!   and asked for answers.
//! - I2: quiet when there is nothing to do: no pressure and nobody looking means no walk.

mod apart;
mod arena;
mod assemble;
mod charges;
mod config;
mod counts;
mod crossings;
mod crowd;
mod demand;
mod departure;
mod error;
mod gauge;
mod governor;
mod leaning;
mod managed;
mod members;
mod moves;
mod own;
mod places;
mod program;
mod relief;
mod report;
mod run;
mod running;
mod savings;
pub(crate) mod signals;
mod slots;
mod space;
mod splitter;
mod status;
mod table;
pub mod trace;
mod tracker;
#[cfg(test)]
mod tracker_tests;
mod usage;
mod walk;
mod watch;

pub use config::{ActuatorChoice, AtDetach, PolicyChoice, RunConfig, SwappinessChoice, Target};
pub use error::RunError;
pub use governor::Held;
pub use managed::AUTO_PAGEOUT_PAGES_PER_S;
pub use report::{
    Ending, EvictionReport, GenerationReport, KernelReport, LetGoReport, LimitReport,
    REPORT_VERSION, Report, SavedReport, UsageReport, WalkReport,
};
pub use run::{Event, run};
pub use space::WalkFindings;
pub use status::{GroupStatus, IDLE_SECONDS, IdleReport, NodeGenerations, PagesByAge, Status};
pub use watch::Watcher;
