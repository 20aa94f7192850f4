//! Tracing, for somebody who looks for a fault; what users are to know does not go through here.
//!
//! **Owns** the subscriber: stderr, off unless the environment variable `STRATA_LOG` names a level
//! or a filter (`debug`, `strata_linux::access=trace`). **Does not own** any event.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The variable that turns it on.
const VARIABLE: &str = "STRATA_LOG";

/// Installs the subscriber. A filter that can't be parsed is said, and counts as none.
pub(crate) fn init() {
    let Ok(wish) = std::env::var(VARIABLE) else {
        return;
    };
    let parsed = EnvFilter::builder()
        .with_default_directive(LevelFilter::ERROR.into())
        .parse(&wish);
    let filter = match parsed {
        Ok(filter) => filter,
        Err(error) => {
            crate::print::warning(&format!("{VARIABLE}={wish:?} is ignored: {error}"));
            return;
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| crate::print::Stderr)
        .with_ansi(stderr().is_terminal())
        .init();
}
