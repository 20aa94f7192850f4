//! CPU time of another process, in one system call.

use std::io;
use std::mem::MaybeUninit;

/// Clock of the whole thread group `pid`, as clock_getcpuclockid(3) would give it.
const fn process_clock(pid: i32) -> libc::clockid_t {
    const CPUCLOCK_SCHED: i32 = 2;
    (!pid << 3) | CPUCLOCK_SCHED
}

/// Nanoseconds of CPU time that the threads of `pid` have used, ended ones included. Fails with
/// `EINVAL` when the process is gone.
pub(crate) fn process_cpu_ns(pid: i32) -> io::Result<u64> {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    #[expect(unsafe_code, reason = "system call")]
    // SAFETY: the pointer is to a timespec of ours, which the call fills or leaves alone.
    let result = unsafe { libc::clock_gettime(process_clock(pid), time.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    #[expect(unsafe_code, reason = "the call above has filled it")]
    // SAFETY: clock_gettime returned 0, so it has written the whole struct.
    let time = unsafe { time.assume_init() };
    Ok(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}
