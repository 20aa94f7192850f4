//! The `strata` binary: arguments in, text out.
//!
//! **Owns** the command line, the texts for people, and the exit status. **Does not own** any
//! decision or mechanism: those are `strata-lru` and `strata-host`.
//!
//! **Invariants**
//! - I1: data on stdout, everything else on stderr; only `print`, `progress` and the screen of
//!   `top` write to either.
//! - I2: a reader that closes its end of our stdout early is no failure.
//! - I3: bad arguments end in one message and status 2, before anything on the machine is changed.
#![forbid(unsafe_code)]

mod args;
mod cli;
mod cmd;
mod duration;
mod failure;
mod interrupt;
mod logging;
mod memory_bound;
mod print;
mod progress;
mod render;
mod source;
mod target;

use std::process::ExitCode;

use clap::Parser;
use strata_host::keeper::{KEEPER_VERB, keeper_main};
use strata_linux::process::job::{WAKER_VERB, waker_main};

fn main() -> ExitCode {
    // Nobody starts these two by hand. Nothing of the command line's machinery runs before them: the keeper is needed most when
    // memory is short, and it has no stderr to complain on.
    let mut words = std::env::args_os().skip(1);
    match words.next() {
        Some(verb) if verb == KEEPER_VERB => return keeper_main(words),
        Some(verb) if verb == WAKER_VERB => return waker_main(words),
        _ => {}
    }
    logging::init();
    strata_linux::process::descriptors::raise_limit();
    // Where that can't be, groups are seen from where this process is. Nothing is said of it: nobody may read it yet, and a write
    // to a pipe that is full would never end.
    let _is_elsewhere = strata_linux::cgroup::join_first();
    cmd::dispatch(cli::Cli::parse().verb)
}
