//! The tests of the engine from outside, one module a subject, in one binary.
//!
//! **Owns** the list of them. **Does not own** any test.

mod phases;
mod rules;
