//! What several tests of the simulator share: replays of kernels' sequences, and where real traces lie.

pub(crate) mod oracle;

use std::path::{Path, PathBuf};

/// A real trace: kept in `tests/traces`, or beside those in `STRATA_SHARED` (else `../shared` beside the checkout). `None`: it may not be kept, and is not there.
pub(crate) fn real_trace(name: &str) -> Option<PathBuf> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let beside = || checkout.join("../shared");
    let shared = std::env::var_os("STRATA_SHARED").map_or_else(beside, PathBuf::from);
    let folders = [checkout.join("tests/traces"), shared.join("traces")];
    let mut paths = folders.iter().map(|folder| folder.join(name));
    paths.find(|path| path.is_file())
}
