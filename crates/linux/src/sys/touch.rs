//! Touching pages of another process: `process_vm_readv` of one byte of each, several times.
//!
//! To the kernel it is as if a program had read the page by `read` (`mark_page_accessed`). The classic LRU moves a page
//! that is asked for twice to the list of active pages. MGLRU counts. No accessed bit is set and no TLB is flushed.
//!
//! **Owns** the calls. **Does not own** which pages. The bytes read are thrown away.
#![expect(unsafe_code, reason = "process_vm_readv has no safe wrapper")]

use crate::addr::AddrRange;
use crate::hold_up::{Call, timed};
use std::io;

/// Most ranges in one call of the kernel.
const RANGES_MAX: usize = 1024;

/// Touches that move a page to the active list (classic LRU).
pub(crate) const NR_ACTIVATING: usize = 2;

/// Touches pages of the process, by address, each so many times; as many of them as fit into one call. Returns how many were
/// touched before the first that can't be read. An error means the first.
pub(crate) fn touch(pid: i32, pages: &[u64], nr_touches: usize) -> io::Result<usize> {
    let mut bytes = [0u8; RANGES_MAX];
    let remote: Vec<libc::iovec> = pages
        .iter()
        .take(RANGES_MAX / nr_touches)
        .flat_map(|page| std::iter::repeat_n(*page, nr_touches))
        .map(|page| remote_vector(page, 1))
        .collect();
    let nr_read = read(pid, &mut bytes[..remote.len()], &remote)?;
    Ok(nr_read / nr_touches)
}

/// Touches all pages of a range of the process twice (the classic LRU), which must be mapped throughout and in memory: what is not is read
/// in. The kernel looks all of them up before it copies the one byte that is asked for, at a fraction of the cost
/// of a range for each.
pub(crate) fn touch_run(pid: i32, run: AddrRange) -> io::Result<()> {
    for _ in 0..NR_ACTIVATING {
        let remote = [remote_vector(run.start, run.len_bytes() as usize)];
        read(pid, &mut [0], &remote)?;
    }
    Ok(())
}

fn remote_vector(start: u64, nr_bytes: usize) -> libc::iovec {
    libc::iovec {
        iov_base: std::ptr::without_provenance_mut(start as usize),
        iov_len: nr_bytes,
    }
}

/// Reads into `bytes` until they are full or the remote ranges end.
fn read(pid: i32, bytes: &mut [u8], remote: &[libc::iovec]) -> io::Result<usize> {
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let (nr_read, _) = timed(Call::Touch, || {
        // SAFETY: the local vector names `bytes`, of which the kernel writes no more than its length;
        // the remote addresses are of the other process and only read.
        let nr_read = unsafe {
            libc::process_vm_readv(
                pid,
                &raw const local,
                1,
                remote.as_ptr(),
                remote.len() as libc::c_ulong,
                0,
            )
        };
        usize::try_from(nr_read).map_err(|_| io::Error::last_os_error())
    });
    nr_read
}
