//! What a tick reads of the system, as the values that the loop understands.
//!
//! **Owns** reading who runs and who waits for a processor (`cpu`), and the counts and the swap that several look at in one
//! tick (`readings`). **Does not own** what follows (`strata_control`), nor how a single process is read (`process`).

pub(crate) mod cpu;
pub(crate) mod readings;
