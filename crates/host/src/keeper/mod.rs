//! Undoing: the state directory, the keeper process, and recovery at the next start.
//!
//! ```text
//!   recover()                                   first: what others left behind
//!   session = Session::create(&fresh_id())      /run/strata/<id>/, locked; or by its name
//!   keeper  = KeeperWatch::start(&session)      before anything is changed; `tend` it now and then
//!   journal = session.journal()                 given to BudgetGroup and SwapDevice
//!   session.set_program(pid)                    or set_group: until when swap and group stay
//!   ...                                         killed here: the keeper takes over
//!   group.remove()                              the orderly end; what that can't do stays recorded
//!   keeper.finish(session)                      undoes the rest, takes swap down, sends the keeper home
//! ```
//!
//! The binary passes `keeper ...` on its command line to [`keeper_main`] before anything else.
//!
//! **Owns** `/run/strata/<id>/` (state under a lock) and the small process that outlives Strata's
//! death: limits are undone at once, swap and cgroup when the program has ended or was let go. Swap that can't be taken down
//! yet, as there is no room for what it holds, is looked at again until it can.
//! **Does not own** how a limit or a device is made.
//!
//! **Invariants**
//! - A change is recorded before it is made; undoing twice does no more than once.
//! - Swap that a session keeps (`Session::keep_swap`) is taken over or down by the next session of its name, and by nobody else.
//! - Only what nobody holds the lock of is cleaned, so two Stratas leave each other's alone.
//! - A group that one session acts on no other does, nor on a group above or below it (`claim`).
//! - Nothing is done to a process: the keeper waits, it never kills.
//! - What lies in a run directory that others could have written to is not believed (`trust`).

mod claim;
mod kept_swap;
mod look;
mod name;
mod process;
mod recover;
mod session;
mod state;
mod undo;
mod watch;
mod written;

pub(crate) use claim::command_of;
pub(crate) use kept_swap::KeptSwap;
pub use kept_swap::KeptSwapError;
pub(crate) use look::{groups_of_runs, look_at, owner_of};
pub use name::{BadSessionName, SessionName};
pub use process::{KEEPER_VERB, Keeper, keeper_main};
pub use recover::{Outcome, Recovered, recover, recover_in};
pub use session::{Session, SessionError, fresh_id};
pub use undo::UndoError;
pub use watch::KeeperWatch;

/// How the keeper of a run fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct KeeperReport {
    /// How often a keeper ended before its time.
    pub nr_deaths: u64,
    /// How often another keeper was started in place of one that had ended.
    pub nr_replacements: u64,
    /// How often a keeper was found stopped and told to go on.
    pub nr_stops: u64,
    /// What became of the keeper at the end of the run.
    pub end: KeeperEnd,
}

/// What became of a keeper at the end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeeperEnd {
    /// The keeper ended when it was told that everything is undone.
    #[default]
    Dismissed,
    /// The keeper did not end when it was told so.
    Stuck,
    /// The keeper stays for what could not be undone yet.
    Left,
    /// There was no keeper any more.
    Missing,
}
