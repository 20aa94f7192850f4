//! `move_pages(2)`: on which node pages of a process are, and moving them to another.
//!
//! **Owns** the call. **Does not own** which pages, nor what an answer means (`actuator::mover`).
#![expect(unsafe_code, reason = "move_pages has no safe wrapper")]

use std::io;

use crate::hold_up::{Call, timed};

/// Of `linux/mempolicy.h`: pages that nobody else has mapped, and all.
pub(super) const MPOL_MF_MOVE: libc::c_int = 1 << 1;
const MPOL_MF_MOVE_ALL: libc::c_int = 1 << 2;

/// A pid that stands for the process that calls.
pub(super) const OURSELVES: i32 = 0;

/// What stands in a place of the answer that the kernel has not come to: no errno and no node.
pub(crate) const UNTOLD: i32 = i32::MIN;

/// Has the kernel move these pages of a process (by address) to a node; `is_shared`: those that others have mapped, too. Of
/// pages that it tells of the answer has the node or a negative errno; whether a page moved in the end only [`nodes_of`] tells.
///
/// # Errors
/// The process may have no memory there (`EACCES`), who asks may not move what others map (`EPERM`), the node is not there (`ENODEV`), or the process is gone (`ESRCH`).
pub(crate) fn move_pages(
    pid: i32,
    addresses: &[u64],
    node: u32,
    is_shared: bool,
) -> io::Result<Vec<i32>> {
    let nodes = vec![node as libc::c_int; addresses.len()];
    let flags = match is_shared {
        true => MPOL_MF_MOVE_ALL,
        false => MPOL_MF_MOVE,
    };
    call(pid, addresses, Some(&nodes), flags)
}

/// The node of each of these pages of a process; a negative errno where there is none.
///
/// # Errors
/// The process is gone.
pub(crate) fn nodes_of(pid: i32, addresses: &[u64]) -> io::Result<Vec<i32>> {
    call(pid, addresses, None, MPOL_MF_MOVE)
}

fn call(
    pid: i32,
    addresses: &[u64],
    nodes: Option<&[libc::c_int]>,
    flags: libc::c_int,
) -> io::Result<Vec<i32>> {
    timed(Call::Move, || ask(pid, addresses, nodes, flags)).0
}

/// The call, which nobody has to wait for where the process is our own.
pub(super) fn ask(
    pid: i32,
    addresses: &[u64],
    nodes: Option<&[libc::c_int]>,
    flags: libc::c_int,
) -> io::Result<Vec<i32>> {
    let pages: Vec<*const libc::c_void> = addresses
        .iter()
        .map(|address| std::ptr::without_provenance(*address as usize))
        .collect();
    let mut status = vec![UNTOLD; pages.len()];
    let nodes = nodes.map_or(std::ptr::null(), <[libc::c_int]>::as_ptr);
    // SAFETY: all arrays have as many entries as are said, and live for the call; the addresses are of the other process
    // and only named. Moving changes nothing of a page's content.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            libc::c_long::from(pid),
            pages.len() as libc::c_ulong,
            pages.as_ptr(),
            nodes,
            status.as_mut_ptr(),
            flags,
        )
    };
    // Above 0: so many pages were not moved.
    match answer < 0 {
        true => Err(io::Error::last_os_error()),
        false => Ok(status),
    }
}
