//! Questions about another process that only raw system calls answer.
//!
//! **Owns** the calls. **Does not own** the check that the pid still names who was meant.
#![expect(
    unsafe_code,
    reason = "kcmp and CPU clocks of other processes have no safe wrapper"
)]

use std::io;

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
