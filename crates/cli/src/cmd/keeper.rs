//! `strata keeper`, which undoes everything when Strata is gone. Nobody starts it by hand, so the help does not show it.
//!
//! **Owns** recognising it. **Does not own** anything it does (`strata_host`).
//!
//! **Invariant** I1: nothing of the command line's machinery runs before it: the keeper is needed most
//! when memory is short, and it has no stderr to complain on.

use std::ffi::OsString;
use std::process::ExitCode;

use strata_host::keeper::{KEEPER_VERB, keeper_main};

/// Is the keeper if the arguments (the program's name first) ask for it.
pub(crate) fn run_if_asked(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    let verb = args.next()?;
    (verb == KEEPER_VERB).then(|| keeper_main(args))
}
