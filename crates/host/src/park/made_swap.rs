//! The swap that is made for what is parked.
//!
//! **Owns** that it stays as long as something is parked. **Does not own** how it is made and taken down (`keeper`).

use crate::keeper::{KeptSwapError, Session};
use std::path::PathBuf;
use std::time::Duration;
use strata_linux::run_dir::PARK_DIR;
use strata_linux::swap::SwapSpec;

/// The session that the swap is recorded in.
const NAME: &str = PARK_DIR;
/// How long another `park` or `wake` is waited for that has it: taking swap down takes seconds.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Has swap as it is asked for: made now, or by a `park` before. It stays when this process has ended. Returns what of an earlier
/// one is not as asked, for people.
pub(super) fn prepare(spec: &SwapSpec) -> Result<Option<String>, KeptSwapError> {
    if *spec == SwapSpec::Existing {
        return Ok(None);
    }
    let kept = Session::open(NAME, WAIT_MAX)?.keep(spec, "strata wake --all")?;
    let told =
        kept.device.path().zip(kept.unlike).map(|(path, unlike)| {
            format!("the swap {} from before is used: {unlike}", path.display())
        });
    kept.session.leave().map_err(KeptSwapError::State)?;
    Ok(told)
}

/// Takes the swap down that was made for what was parked. Returns its path; `None`: there was none.
///
/// # Errors
/// It stays in use, and why.
pub(super) fn release() -> Result<Option<PathBuf>, KeptSwapError> {
    if !strata_linux::run_dir::run_dir().join(NAME).exists() {
        return Ok(None);
    }
    Session::open(NAME, WAIT_MAX)?.release()
}
