//! The name of every group, by the number that the kernel knows it by: the inode of its directory.
//!
//! **Owns** the walk through the hierarchy. **Does not own** who is charged for what.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::CgroupError;
use super::mounts::Mount;
use super::name;

/// Every group there is, with processes or without, by its number: its path below the mount, as `/proc/PID/cgroup`
/// prints it. A group that goes meanwhile is left out, and so is what lies below a directory that may not be listed.
///
/// # Errors
/// [`CgroupError::NoMemoryController`] where none is mounted. Those of the system, as where no more files can be opened.
pub(crate) fn names_by_id() -> Result<HashMap<u64, String>, CgroupError> {
    let mount = Mount::find()?;
    let mut names = HashMap::new();
    let mut to_visit = vec![mount.point.clone()];
    while let Some(directory) = to_visit.pop() {
        let Some(found) = unless_left_out(&directory, fs::metadata(&directory))? else {
            continue;
        };
        let inside = directory.strip_prefix(&mount.point).unwrap_or(&directory);
        names.insert(found.ino(), name::shown(inside));
        let entries = unless_left_out(&directory, fs::read_dir(&directory))?;
        let entries = entries.into_iter().flatten().flatten();
        let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        to_visit.extend(directories.map(|entry| entry.path()));
    }
    Ok(names)
}

/// `None`: the directory is gone, or may not be looked at.
fn unless_left_out<T>(directory: &Path, found: io::Result<T>) -> Result<Option<T>, CgroupError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::EACCES) => Ok(None),
            _ => Err(CgroupError::io("reading", directory, error)),
        },
    }
}
