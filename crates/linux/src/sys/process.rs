//! Questions about another process that only raw system calls answer.
//!
//! **Owns** the calls. **Does not own** the check that the pid still names who was meant.
#![expect(
    unsafe_code,
    reason = "kcmp, CPU clocks of other processes and waitid with resource usage have no safe wrapper"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::check;

/// `KCMP_VM` of `linux/kcmp.h`.
const KCMP_VM: libc::c_long = 1;

/// Whether two processes run in one address space (kcmp(2)).
pub(crate) fn is_same_address_space(a: i32, b: i32) -> io::Result<bool> {
    // SAFETY: kcmp takes integers only and changes nothing.
    let order = unsafe {
        libc::syscall(
            libc::SYS_kcmp,
            libc::c_long::from(a),
            libc::c_long::from(b),
            KCMP_VM,
            0 as libc::c_long,
            0 as libc::c_long,
        )
    };
    if order < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(order == 0)
    }
}

/// CPU time of all threads of a process since its start, nanoseconds (clock_getcpuclockid(3)).
pub(crate) fn cpu_ns(pid: i32) -> io::Result<u64> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is a valid place to write the clock id to.
    let errno = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if errno != 0 {
        return Err(io::Error::from_raw_os_error(errno));
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place to write the time to.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if result != 0 {
        return Err(match io::Error::last_os_error() {
            // The clock of a process that has ended is an invalid clock.
            error if error.kind() == io::ErrorKind::InvalidInput => {
                io::Error::from_raw_os_error(libc::ESRCH)
            }
            error => error,
        });
    }
    Ok(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

/// What a process that has ended used, with those of its children that it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUse {
    /// CPU time in user mode, microseconds.
    pub user_cpu_us: u64,
    /// CPU time in the kernel, microseconds.
    pub system_cpu_us: u64,
    /// Page faults that needed no I/O.
    pub nr_minor_faults: u64,
    /// Page faults that waited for swap or a file.
    pub nr_major_faults: u64,
}

/// A change of state of a child, as waitid(2) tells it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    /// `CLD_EXITED`, `CLD_KILLED`, ...
    pub(crate) code: libc::c_int,
    /// The exit status, or the signal.
    pub(crate) status: libc::c_int,
    /// What the child used so far; all of it once it has ended.
    pub(crate) used: ResourceUse,
}

/// waitid(2) with the fifth argument of the system call, which the C library does not pass on: what the child used.
/// `None`: nothing has changed (with `WNOHANG`).
pub(crate) fn wait_child(
    pidfd: BorrowedFd<'_>,
    options: libc::c_int,
) -> io::Result<Option<Waited>> {
    // SAFETY: all zeroes is a valid value of this plain structure.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: all zeroes is a valid value of this plain structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, and both structures are valid places to write to.
    check(unsafe {
        libc::syscall(
            libc::SYS_waitid,
            libc::P_PIDFD,
            pidfd.as_raw_fd(),
            &raw mut info,
            options,
            &raw mut usage,
        )
    })?;
    if info.si_signo == 0 {
        return Ok(None);
    }
    // SAFETY: waitid has filled in the fields of a child's change of state.
    let status = unsafe { info.si_status() };
    let time_us =
        |time: libc::timeval| time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_usec.unsigned_abs();
    Ok(Some(Waited {
        code: info.si_code,
        status,
        used: ResourceUse {
            user_cpu_us: time_us(usage.ru_utime),
            system_cpu_us: time_us(usage.ru_stime),
            nr_minor_faults: usage.ru_minflt.unsigned_abs(),
            nr_major_faults: usage.ru_majflt.unsigned_abs(),
        },
    }))
}
