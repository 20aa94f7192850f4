//! Skipping a test loudly.
//!
//! **Owns** the convention that the test runner counts: a line `SKIPPED: REASON` on stderr, and a
//! line `TEST: REASON` in the file named by `STRATA_SKIP_LOG`. **Does not own** what is required.

use std::fs::OpenOptions;
use std::io::Write;

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

/// Ends the test it stands in, with the reason why it can't run here.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)*) => {{
        fn here() {}
        // `crate::test_name::here` or, inside a closure, `crate::test_name::{{closure}}::here`.
        let test = std::any::type_name_of_val(&here);
        let test = test.strip_suffix("::here").unwrap_or(test);
        $crate::support::skip::record(test, &format!($($reason)*));
        return;
    }};
}

/// Begins a live test: it is skipped unless `strata doctor` finds every named requirement to be ok, and fails if it leaves
/// anything behind.
#[macro_export]
macro_rules! live {
    ($($name:literal),+ $(,)?) => {
        $crate::needs!($($name),+);
        let _guard = $crate::support::leaks::Guard::new();
    };
}

/// Skips the test unless `strata doctor` finds every named requirement to be ok.
#[macro_export]
macro_rules! needs {
    ($($name:literal),+ $(,)?) => {
        if let Some(reason) = $crate::support::strata::missing(&[$($name),+]) {
            $crate::skip!("{reason}");
        }
    };
}
