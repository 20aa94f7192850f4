//! The tests of trace formats, one module a subject, in one binary.
//!
//! **Owns** the list of them. **Does not own** any test.

#[path = "../support/mod.rs"]
mod support;

mod formats;
mod mutations;
mod opening;
mod real;
mod recording_code;
mod recording_example;
mod recording_format;
mod recording_freed;
mod recording_told;
mod strata_format;
