//! Where shared data lies, and how a test says that it is not there.

pub(crate) mod oracle;
pub(crate) mod skip;

use std::path::{Path, PathBuf};

/// A shared trace; `None`, said on stderr and in the skip log, where it is not there.
pub(crate) fn shared_trace(test: &str, name: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("STRATA_SHARED").map_or_else(beside, PathBuf::from);
    let path = shared.join("traces").join(name);
    if path.is_file() {
        return Some(path);
    }
    let reason = format!("no shared trace {name}: set STRATA_SHARED to where traces/ lies");
    skip::record(test, &reason);
    None
}
