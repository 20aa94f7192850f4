//! The user database, through the C library so that every configured source is asked.
//!
//! **Owns** getpwnam_r, getpwuid_r and getgrouplist. **Does not own** changing to a user (`spawn`).
//!
//! **Invariants** I1: a static program loads no source of the machine into itself: that was made for another C library. It reads
//! `/etc/passwd` and `/etc/group`, and has `getent` and `id` ask the others.
#![expect(unsafe_code, reason = "the user database is reached through libc")]

use std::ffi::{CStr, CString};
use std::io;
use std::process::{Command, Stdio};
use std::sync::Once;

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

/// Whether the C library is inside this program. Those of its sources that are libraries of the machine can't be asked then.
const IS_STATIC: bool = cfg!(feature = "static");

/// Keeps the C library to `/etc/passwd` and `/etc/group`.
#[cfg(target_env = "gnu")]
fn keep_to_files() {
    unsafe extern "C" {
        fn __nss_configure_lookup(
            database: *const libc::c_char,
            sources: *const libc::c_char,
        ) -> libc::c_int;
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for database in [c"passwd", c"group", c"initgroups"] {
            // SAFETY: both texts are C strings that live for ever.
            let _known = unsafe { __nss_configure_lookup(database.as_ptr(), c"files".as_ptr()) };
        }
    });
}

#[cfg(not(target_env = "gnu"))]
fn keep_to_files() {}

/// What a program of the machine prints; `None` where there is no such program, or it fails.
fn printed_by(program: &str, args: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    let output = command.args(args).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}

/// Asks every source that the machine has, by the machine's own program.
fn ask_machine(key: Key<'_>) -> Option<Entry> {
    let text = match key {
        Key::Name(name) => name.to_str().ok()?.to_owned(),
        Key::Uid(uid) => uid.to_string(),
    };
    let entry = entry_of(&printed_by("getent", &["passwd", "--", &text])?)?;
    match key {
        // A name of digits was taken for a number.
        Key::Name(name) => (entry.name.as_c_str() == name).then_some(entry),
        Key::Uid(_) => Some(entry),
    }
}

/// Reads a line as `/etc/passwd` has it.
fn entry_of(line: &str) -> Option<Entry> {
    let fields: Vec<&str> = line.trim_end().split(':').collect();
    Some(Entry {
        name: CString::new(*fields.first()?).ok()?,
        uid: fields.get(2)?.parse().ok()?,
        gid: fields.get(3)?.parse().ok()?,
    })
}

/// Looks up a user; `None` if there is no such user.
pub fn find(key: Key<'_>) -> io::Result<Option<Entry>> {
    if IS_STATIC {
        keep_to_files();
    }
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
                0 | libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM if IS_STATIC => {
                    Ok(ask_machine(key))
                }
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
    if IS_STATIC {
        keep_to_files();
        let told = name
            .to_str()
            .ok()
            .and_then(|name| printed_by("id", &["-G", "--", name]));
        if let Some(text) = told {
            return Ok(text.split_whitespace().flat_map(str::parse).collect());
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_own_program_tells_the_same_user_as_the_c_library() {
        let ours = find(Key::Uid(0)).expect("asked").expect("root");
        let Some(told) = ask_machine(Key::Uid(0)) else {
            eprintln!("skipped: there is no getent");
            return;
        };
        assert_eq!((told.name, told.uid, told.gid), (ours.name, 0, ours.gid));
        assert!(
            ask_machine(Key::Name(c"0")).is_none(),
            "a number is no name"
        );
        assert!(ask_machine(Key::Name(c"nobody at all")).is_none());
    }

    #[test]
    fn a_line_of_a_user_is_read_and_half_a_line_is_not() {
        let entry = entry_of("web:x:1001:33:Web,,,:/srv:/bin/sh\n").expect("an entry");
        assert_eq!(
            (entry.name.as_c_str(), entry.uid, entry.gid),
            (c"web", 1001, 33)
        );
        for line in ["", "web", "web:x:1001", "web:x:many:33:"] {
            assert!(entry_of(line).is_none(), "{line}");
        }
    }
}
