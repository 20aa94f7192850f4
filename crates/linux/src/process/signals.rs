//! Signals to Strata: which are passed on to the program, which mean "let go", which mean "stop".
//!
//! **Owns** the handlers, as a descriptor to poll. **Does not own** the program.
//!
//! The program shares the terminal's process group, so INT, QUIT and TSTP from the keyboard reach it by
//! themselves. The same signals sent to Strata by `kill` reach nobody else, and are passed on. The
//! kernel tells the two apart (`si_code`): what the terminal sends comes from the kernel.

use crate::sys::detach;
use rustix::process::Signal;
use signal_hook::consts::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2,
};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Give it to the program.
    PassOn(Signal),
    /// The user wants an end (INT, TERM, HUP): an attached target is let go.
    End(Signal),
    /// Ctrl-Z: the terminal asks the whole job to stop; or an attached Strata is asked to.
    Suspend,
    /// The program may have stopped, gone on or ended.
    Child,
    /// Somebody had stopped us, and our keeper had us go on: that is for us alone.
    Woken,
}

/// The handlers, installed while this lives.
#[derive(Debug)]
pub struct Signals {
    delivery: SignalDelivery<UnixStream, WithOrigin>,
    owns_program: bool,
    /// A helper of ours, whose CONT is meant for us alone.
    waker: Option<i32>,
}

impl Signals {
    /// Installs the handlers. `owns_program`: signals are passed on, instead of ending our work.
    pub fn install(owns_program: bool) -> io::Result<Signals> {
        let (read, write) = UnixStream::pair()?;
        let handled = [
            SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2,
        ];
        // A warning that is written from the background must not stop us with a limit in force.
        for signal in [SIGTTIN, SIGTTOU] {
            detach::ignore(signal)?;
        }
        let delivery = SignalDelivery::with_pipe(read, write, WithOrigin::default(), handled)?;
        Ok(Signals {
            delivery,
            owns_program,
            waker: None,
        })
    }

    /// Readable when a signal has come.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.delivery.get_read().as_fd()
    }

    /// What this process sends is for us, and not passed on.
    pub fn note_waker(&mut self, pid: i32) {
        self.waker = Some(pid);
    }

    /// The wishes since the last call. CONT from `keeper` says that somebody had stopped us.
    pub fn take(&mut self, keeper: Option<i32>) -> Vec<Wish> {
        let pending: Vec<Origin> = self.delivery.pending().collect();
        let from_others = pending.iter().filter(|origin| {
            let sender = origin.process.map(|process| process.pid);
            origin.signal == SIGCHLD || self.waker.is_none() || sender != self.waker
        });
        from_others
            .filter_map(|origin| {
                let pid = origin.process.map(|process| process.pid);
                if origin.signal == SIGCONT && pid.is_some() && pid == keeper {
                    return Some(Wish::Woken);
                }
                wish(origin.signal, origin.cause, self.owns_program)
            })
            .collect()
    }
}

/// A signal that the kernel sends is from the terminal, and the program has it, too.
fn wish(number: i32, cause: Cause, owns_program: bool) -> Option<Wish> {
    let signal = Signal::from_named_raw(number)?;
    let is_felt = matches!(cause, Cause::Kernel);
    match (number, owns_program) {
        (SIGCHLD, _) => Some(Wish::Child),
        (SIGINT | SIGQUIT | SIGTSTP, true) if !is_felt => Some(Wish::PassOn(signal)),
        (SIGTSTP, _) => Some(Wish::Suspend),
        (SIGTERM | SIGHUP | SIGUSR1 | SIGUSR2 | SIGCONT, true) => Some(Wish::PassOn(signal)),
        (SIGTERM | SIGHUP | SIGINT | SIGQUIT, false) => Some(Wish::End(signal)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attached_target_is_let_go_whoever_asks() {
        for sender in [Cause::Kernel, Cause::Unknown] {
            assert_eq!(wish(SIGINT, sender, false), Some(Wish::End(Signal::INT)));
            assert_eq!(wish(SIGTSTP, sender, false), Some(Wish::Suspend));
            assert_eq!(wish(SIGCONT, sender, false), None);
        }
    }
}
