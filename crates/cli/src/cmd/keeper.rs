//! Processes that `run` starts of this program: `strata keeper`, which undoes everything when Strata is gone, and
//! `strata lever-pages`, whose pages a trial is made on. Nobody starts them by hand, so the help does not show them.
//!
//! **Owns** recognising them. **Does not own** anything they do (`strata_host`).
//!
//! **Invariant** I1: nothing of the command line's machinery runs before them: the keeper is needed most
//! when memory is short, and it has no stderr to complain on.

use std::ffi::OsString;
use std::process::ExitCode;

use strata_host::keeper::{KEEPER_VERB, keeper_main};
use strata_linux::actuator::{LEVER_VERB, lever_main};

/// Is one of them if the arguments (the program's name first) ask for it.
pub(crate) fn run_if_asked(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    let verb = args.next()?;
    if verb == LEVER_VERB {
        return Some(lever_main());
    }
    (verb == KEEPER_VERB).then(|| keeper_main(args))
}
