//! What a guard gave back, what came back and what it cost, by minute and hour, in an SQLite database.
//!
//! ```text
//!   the guard's loop --Status--> [bounded queue] --> thread: minutes -> store -> disk
//!                                                            strata guard history: read <-|
//! ```
//!
//! **Owns** the parts: the thread (`keep`), what a minute says (`minutes`), what is written and for how long (`store`),
//! what is asked of it (`read`), and the file (`database`). **Does not own** any figure ([`super::Status`]), nor how a
//! history is shown.
//!
//! **Invariants**
//! - I1: the guard's loop never waits for the disk, but for a few seconds at its end.
//! - I2: no trouble with the file ends a guard: there is no history then, and that is told once.
//! - I3: a file that is no history is never written to.

mod database;
mod keep;
mod minutes;
mod read;
mod store;
#[cfg(test)]
mod tests;

pub use database::{HISTORY_PATH, HistoryError};
pub use keep::History;
pub use minutes::Figures;
pub use read::{Account, By, GroupSum, Question, Slot, read};
