//! The user database, through the C library so that every configured source is asked.
//!
//! **Owns** getpwnam_r, getpwuid_r and getgrouplist. **Does not own** changing to a user (`spawn`).
#![expect(unsafe_code, reason = "the user database is reached through libc")]

use std::ffi::{CStr, CString};
use std::io;

/// Largest buffer offered for one entry, bytes.
const BUFFER_BYTES_MAX: usize = 1 << 20;
/// Largest number of groups asked for; the kernel's limit (`NGROUPS_MAX`).
const GROUPS_MAX: usize = 65_536;

/// What the database says of a user.
#[derive(Debug)]
pub struct Entry {
    /// Name of the user.
    pub name: CString,
    /// Number of the user.
    pub uid: u32,
    /// Number of the user's first group.
    pub gid: u32,
}

/// Whom to look up.
#[derive(Clone, Copy, Debug)]
pub enum Key<'a> {
    /// The user of this name.
    Name(&'a CStr),
    /// The user of this number.
    Uid(u32),
}

/// Looks up a user; `None` if there is no such user.
pub fn find(key: Key<'_>) -> io::Result<Option<Entry>> {
    let mut buffer: Vec<libc::c_char> = vec![0; 4096];
    loop {
        let mut entry = std::mem::MaybeUninit::<libc::passwd>::uninit();
        let mut found = std::ptr::null_mut();
        let errno = match key {
            Key::Name(name) => {
                // SAFETY: every pointer is valid for the call, the buffer has the length given.
                unsafe {
                    libc::getpwnam_r(
                        name.as_ptr(),
                        entry.as_mut_ptr(),
                        buffer.as_mut_ptr(),
                        buffer.len(),
                        &raw mut found,
                    )
                }
            }
            Key::Uid(uid) => {
                // SAFETY: every pointer is valid for the call, the buffer has the length given.
                unsafe {
                    libc::getpwuid_r(
                        uid,
                        entry.as_mut_ptr(),
                        buffer.as_mut_ptr(),
                        buffer.len(),
                        &raw mut found,
                    )
                }
            }
        };
        if errno == libc::ERANGE && buffer.len() < BUFFER_BYTES_MAX {
            buffer.resize(buffer.len() * 4, 0);
            continue;
        }
        if found.is_null() {
            // These errno values mean "not found" for some sources (getpwnam(3)).
            return match errno {
                0 | libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => Ok(None),
                _ => Err(io::Error::from_raw_os_error(errno)),
            };
        }
        // SAFETY: `found` is not null, so the entry was filled in.
        let entry = unsafe { entry.assume_init() };
        // SAFETY: the name points to a C string in `buffer`, which still lives.
        let name = unsafe { CStr::from_ptr(entry.pw_name) };
        return Ok(Some(Entry {
            name: name.to_owned(),
            uid: entry.pw_uid,
            gid: entry.pw_gid,
        }));
    }
}

/// The groups a user is in, `gid` included.
pub(crate) fn groups_of(name: &CStr, gid: u32) -> io::Result<Vec<u32>> {
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut nr_groups = libc::c_int::try_from(groups.len()).unwrap_or(libc::c_int::MAX);
        // SAFETY: the array has `nr_groups` places, both pointers are valid for the call.
        let result = unsafe {
            libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut nr_groups)
        };
        let nr_groups = usize::try_from(nr_groups).unwrap_or(0);
        if result >= 0 {
            groups.truncate(nr_groups);
            return Ok(groups);
        }
        if groups.len() >= GROUPS_MAX {
            return Err(io::Error::other(
                "a user in more groups than the kernel knows",
            ));
        }
        groups.resize((groups.len() * 2).max(nr_groups).min(GROUPS_MAX), 0);
    }
}
