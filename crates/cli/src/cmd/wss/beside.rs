//! What `strata wss` tells beside windows and idle times: what is shared, and what can't be seen.
//!
//! **Owns** the sentences. **Does not own** the figures.

use strata_host::observe::ledger::Figures;
use strata_linux::units::Bytes;

/// A paragraph for each that there is.
pub(super) fn lines(figures: &Figures) -> String {
    let told = [
        (
            figures.shared_bytes,
            "of it are mapped by processes that were not watched, too",
        ),
        (
            figures.unknown_bytes,
            "whose use can't be seen (memory of guests, and pages whose accessed bits can't be cleared without holding \
             the target up): neither used nor idle above",
        ),
    ];
    let told = told.into_iter().filter(|(bytes, _)| *bytes > 0);
    told.map(|(bytes, what)| format!("\n{} {what}\n", Bytes(bytes)))
        .collect()
}
