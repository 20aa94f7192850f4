//! Putting idle programs away, and bringing them back.
//!
//! ```text
//!   park(config)       two walks say what was used last; that is noted (`/run/strata/parked/<id>`); then all that can go
//!                      goes, the oldest first, and what stayed is told with its reason
//!   wake(id, limit)    lets it go on if it was stopped, reads back what was used last, the youngest first
//!   Parker             a thread that parks one group after the other, and reads back what works again
//!   ParkWatch          sees that a parked program works again by itself, and reads the rest back
//! ```
//!
//! **Owns** that sequence, the note of what is parked ([`Note`]), and the swap made for it. **Does not own** ages
//! (`observe::ledger`), how pages go and come (`strata_linux::actuator`), nor how much of a host may go (`managed`).
//!
//! **Invariants**
//! - I1: what was used last is noted before anything is taken, so that whoever dies leaves what can be woken.
//! - I2: a program that was stopped for it goes on when Strata dies before it is done; afterwards its note says how to let it
//!   go on. What somebody else has stopped stays stopped.
//! - I3: a note is of certain processes of this boot; a later process of the same number is never taken for one.
//! - I4: nothing is read back for which there is no room.

mod away;
mod candidate;
mod halt;
mod halted;
mod kept;
mod made_swap;
mod note;
mod parker;
mod wake;
mod watch;

pub use away::{ParkConfig, ParkError, Parked, park};
pub use candidate::{Candidate, Keep};
pub use halt::StopError;
pub use halted::{GoOnError, Halted};
pub use kept::{Kept, WhyKept};
pub use note::{Note, NoteError, Used, find, parked};
pub use parker::Parker;
pub use wake::{WakeError, Woken, recover, tidy, wake};
pub use watch::ParkWatch;
