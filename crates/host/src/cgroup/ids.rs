//! The name of every group, by the number that the kernel knows it by: the inode of its directory.
//!
//! **Owns** the walk through the hierarchy. **Does not own** who is charged for what.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use super::CgroupError;
use super::mounts::Mount;

/// Every group there is, with processes or without, by its number: its path below the mount, as `/proc/PID/cgroup`
/// prints it. A group that goes meanwhile is left out.
///
/// # Errors
/// [`CgroupError::NoMemoryController`] where none is mounted.
pub(crate) fn names_by_id() -> Result<HashMap<u64, String>, CgroupError> {
    let mount = Mount::find()?;
    let mut names = HashMap::new();
    let mut to_visit = vec![mount.point.clone()];
    while let Some(directory) = to_visit.pop() {
        let Ok(found) = fs::metadata(&directory) else {
            continue;
        };
        let inside = directory.strip_prefix(&mount.point).unwrap_or(&directory);
        names.insert(found.ino(), format!("/{}", inside.display()));
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        to_visit.extend(directories.map(|entry| entry.path()));
    }
    Ok(names)
}
