//! Skipping a test loudly: a line on stderr, and one in the file named by `STRATA_SKIP_LOG`.
//!
//! **Owns** that convention. **Does not own** what is required.

use std::{fs::OpenOptions, io::Write};

/// Records that `test` can't run here because of `reason`.
pub(crate) fn record(test: &str, reason: &str) {
    let reason = reason.replace('\n', " ");
    // Past libtest's capture: a skip is to be seen even when the test passes.
    writeln!(std::io::stderr(), "SKIPPED: {reason}").expect("stderr");
    if let Some(path) = std::env::var_os("STRATA_SKIP_LOG") {
        let mut log = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .expect("skip log");
        writeln!(log, "{test}: {reason}").expect("skip log");
    }
}
