//! Live tests that need the machine for themselves: quiet processors, or all of its memory looked at.
//!
//! **Owns** the list of them. **Does not own** any test.

mod ahead;
mod census;
mod leaning;
mod metrics;
mod policies;
mod processors;
