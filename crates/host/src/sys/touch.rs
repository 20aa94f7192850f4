//! Touching pages of another process: `process_vm_readv` of one byte of each, twice.
//!
//! The kernel's classic LRU takes a page that is asked for twice in this way for one in use, as if a
//! program had read it by `read` (`mark_page_accessed`): it moves to the list of active pages. No accessed
//! bit is set and no TLB is flushed.
//!
//! **Owns** the call. **Does not own** which pages. The bytes read are thrown away.
#![expect(unsafe_code, reason = "process_vm_readv has no safe wrapper")]

use std::io;

/// Asked for so often, a page is an active one.
const TIMES: usize = 2;
/// Most pages in one call: the kernel takes up to 1024 ranges.
pub(crate) const PAGES_MAX: usize = 1024 / TIMES;

/// Touches pages (at most [`PAGES_MAX`]) of the process, by address. Returns how many were touched before
/// the first that can't be read. An error means the first.
pub(crate) fn touch(pid: i32, pages: &[u64]) -> io::Result<usize> {
    let mut bytes = [0u8; PAGES_MAX * TIMES];
    let remote: Vec<libc::iovec> = pages
        .iter()
        .take(PAGES_MAX)
        .flat_map(|page| [*page; TIMES])
        .map(|page| libc::iovec {
            iov_base: std::ptr::without_provenance_mut(page as usize),
            iov_len: 1,
        })
        .collect();
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: remote.len(),
    };
    // SAFETY: the local vector names `bytes`, which holds one for each remote range; the remote addresses
    // are of the other process and only read.
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
    match usize::try_from(nr_read) {
        Ok(nr_read) => Ok(nr_read / TIMES),
        Err(_) => Err(io::Error::last_os_error()),
    }
}
