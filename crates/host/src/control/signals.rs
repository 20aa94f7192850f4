//! Signals to Strata: which are passed on to the program, which mean "let go".
//!
//! **Owns** the handlers, as a descriptor to poll. **Does not own** the program.
//!
//! The program shares the terminal's process group, so INT and QUIT from the keyboard reach it by
//! themselves, and Strata only has to survive them.

use rustix::process::Signal;
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Give it to the program.
    PassOn(Signal),
    /// The user wants an end (INT, TERM, HUP): an attached target is let go.
    End(Signal),
    /// The program may have stopped, gone on or ended.
    Child,
}

/// The handlers, installed while this lives.
#[derive(Debug)]
pub(crate) struct Signals {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
    owns_program: bool,
}

impl Signals {
    /// Installs the handlers. `owns_program`: signals are passed on, instead of ending our work.
    pub(crate) fn install(owns_program: bool) -> io::Result<Signals> {
        let (read, write) = UnixStream::pair()?;
        let handled = [
            SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2,
        ];
        let delivery = SignalDelivery::with_pipe(read, write, SignalOnly, handled)?;
        Ok(Signals {
            delivery,
            owns_program,
        })
    }

    /// Readable when a signal has come.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }

    /// The wishes since the last call.
    pub(crate) fn take(&mut self) -> Vec<Wish> {
        let pending: Vec<i32> = self.delivery.pending().collect();
        pending
            .into_iter()
            .filter_map(|number| self.wish(number))
            .collect()
    }

    fn wish(&self, number: i32) -> Option<Wish> {
        let wish = match (number, self.owns_program) {
            (SIGCHLD, _) => Wish::Child,
            (SIGTERM, true) => Wish::PassOn(Signal::TERM),
            (SIGHUP, true) => Wish::PassOn(Signal::HUP),
            (SIGUSR1, true) => Wish::PassOn(Signal::USR1),
            (SIGUSR2, true) => Wish::PassOn(Signal::USR2),
            (SIGCONT, true) => Wish::PassOn(Signal::CONT),
            (SIGTERM, false) => Wish::End(Signal::TERM),
            (SIGHUP, false) => Wish::End(Signal::HUP),
            (SIGINT, false) => Wish::End(Signal::INT),
            (SIGQUIT, false) => Wish::End(Signal::QUIT),
            _ => return None,
        };
        Some(wish)
    }
}
