//! `strata waker`: the small process that wakes a stopped Strata when its program goes on; started by
//! `run` and `record`, never by hand, so the help does not show it.
//!
//! **Owns** recognising it. **Does not own** anything it does (`strata_linux::process::job`).

use std::ffi::OsString;
use std::process::ExitCode;

use strata_linux::process::job::{WAKER_VERB, waker_main};

/// Is the waker if the arguments (the program's name first) ask for it.
pub(crate) fn run_if_asked(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    (args.next()? == WAKER_VERB).then(|| waker_main(args))
}
