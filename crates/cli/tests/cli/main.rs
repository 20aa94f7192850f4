//! The tests of the binary that disturb nobody, one module a subject, in one binary.
//!
//! **Owns** the list of them. **Does not own** any test.

#[path = "../support/mod.rs"]
#[macro_use]
mod support;

mod args;
mod dashboard;
mod demo;
mod docs;
mod guard_history;
mod html;
mod html_browser;
mod max_memory;
mod packaging;
mod plan;
mod progress;
mod refused;
mod report_schema;
mod sim;
mod steered_traced;
mod trace;
