//! A bound on a system call that has none: a signal, by a timer or from another thread, makes the call return EINTR.
//!
//! SIGURG is used because its default is to do nothing: whoever does not expect it does not notice.
//! Its handler is installed once, for the whole process, and does nothing either; a call is
//! interrupted because the handler is installed without `SA_RESTART`.

use std::io;
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::time::Duration;

use super::check;

const SIGNAL: libc::c_int = libc::SIGURG;

extern "C" fn do_nothing(_signal: libc::c_int) {}

/// While it lives, the thread that made it is interrupted every `period`.
///
/// Every and not once: a signal that comes just before the call begins interrupts nothing.
#[derive(Debug)]
pub(crate) struct Deadline {
    timer: libc::timer_t,
}

impl Deadline {
    /// Starts the timer for the calling thread.
    pub(crate) fn for_this_thread(period: Duration) -> io::Result<Deadline> {
        handle()?;
        let deadline = Deadline {
            timer: make_timer()?,
        };
        let time = libc::timespec {
            tv_sec: period.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(period.subsec_nanos() as i32),
        };
        let times = libc::itimerspec {
            it_interval: time,
            it_value: time,
        };
        // SAFETY: the timer exists (it was just made), `times` lives through the call, and no former
        // value is asked for.
        let status = unsafe { libc::timer_settime(deadline.timer, 0, &times, ptr::null_mut()) };
        check(status)?;
        Ok(deadline)
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        // SAFETY: the timer was made by us and is deleted once, here.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// A thread whose calls others may interrupt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interrupted(libc::pid_t);

impl Interrupted {
    /// The calling thread.
    pub(crate) fn this_thread() -> io::Result<Interrupted> {
        handle()?;
        Ok(Interrupted(rustix::thread::gettid().as_raw_nonzero().get()))
    }

    /// Interrupts the call that it is in. One that is just about to begin is not interrupted: say it again.
    pub(crate) fn now(self) {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        // SAFETY: the call takes numbers only. A thread that has ended, or another one of this process that was given its
        // number since, gets a signal that does nothing.
        unsafe { libc::syscall(libc::SYS_tgkill, own, self.0, SIGNAL) };
    }
}

fn handle() -> io::Result<()> {
    static HANDLER: OnceLock<Result<(), i32>> = OnceLock::new();
    HANDLER
        .get_or_init(|| install_handler().map_err(|error| error.raw_os_error().unwrap_or(0)))
        .map_err(io::Error::from_raw_os_error)
}

fn install_handler() -> io::Result<()> {
    // SAFETY: `sigaction` is plain data; all zeros is a valid value: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = do_nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: `action` is initialised, its handler has the signature of a handler without SA_SIGINFO
    // and touches nothing; the former action is not asked for.
    check(unsafe { libc::sigaction(SIGNAL, &action, ptr::null_mut()) })
}

fn make_timer() -> io::Result<libc::timer_t> {
    // SAFETY: `sigevent` is plain data; all zeros is a valid value.
    let mut event: libc::sigevent = unsafe { mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = SIGNAL;
    event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
    let mut timer: libc::timer_t = ptr::null_mut();
    // SAFETY: both pointers are to live values of the right type; the call writes only `timer`.
    let status = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) };
    check(status)?;
    Ok(timer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_call_without_an_end_returns_and_afterwards_nothing_is_interrupted() {
        let (read, _write) = rustix::pipe::pipe().expect("a pipe");
        let period = Duration::from_millis(20);
        let start = Instant::now();
        {
            let _deadline = Deadline::for_this_thread(period).expect("a timer");
            let result = rustix::io::read(&read, &mut [0; 1]);
            assert_eq!(result, Err(rustix::io::Errno::INTR));
        }
        assert!(start.elapsed() >= period / 2);
        let mut fds = [rustix::event::PollFd::new(
            &read,
            rustix::event::PollFlags::IN,
        )];
        let wait = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 60_000_000,
        };
        assert_eq!(rustix::event::poll(&mut fds, Some(&wait)), Ok(0));
    }
}
