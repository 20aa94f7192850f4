//! Which folio is at which page: the pages of managed processes, as the engine knows them.
//!
//! ```text
//!   members  who belongs to the group          walk   reads every space once, and clears
//!   tracker  spaces -> tables -> slots         places the way back, from a folio to its page
//! ```
//!
//! **Owns** the map between pages of processes and folios of the engine. **Does not own** which folio goes (the engine),
//! when somebody looks (`run`, `observe`), nor reading and clearing (`access`).
//!
//! **Invariants** I1: one thread owns all of this.

pub(crate) mod members;
pub(crate) mod places;
mod slots;
pub(crate) mod space;
mod table;
pub(crate) mod tracker;
#[cfg(test)]
mod tracker_tests;
pub(crate) mod walk;
