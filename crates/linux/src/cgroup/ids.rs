//! What groups are called, by the number that the kernel knows them by: the inode of the directory.
//!
//! **Owns** the names, and the walk through the hierarchy. **Does not own** who is charged for what.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::mounts::Mount;
use super::{CgroupError, GroupReader, name};

/// The name of each group there is.
#[derive(Debug)]
pub struct GroupNames(HashMap<u64, String>);

impl GroupNames {
    /// Looks through the hierarchy: every group, with processes or without. A group that goes meanwhile is left out, and so is what
    /// lies below a directory that may not be listed.
    ///
    /// # Errors
    /// [`CgroupError::NoMemoryController`] where none is mounted. Those of the system, as where no more files can be opened.
    pub fn read() -> Result<GroupNames, CgroupError> {
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
            let directories =
                entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            to_visit.extend(directories.map(|entry| entry.path()));
        }
        Ok(GroupNames(names))
    }

    /// The name, as `/proc/PID/cgroup` has it; `None`: the group has been removed, or lies outside of what is mounted.
    pub fn get(&self, id: u64) -> Option<&str> {
        self.0.get(&id).map(String::as_str)
    }

    /// The number of the group with this name.
    pub fn id_of(&self, group: &GroupReader) -> Option<u64> {
        let mut found = self.0.iter().filter(|(_, name)| *name == group.name());
        found.next().map(|(id, _)| *id)
    }

    /// The numbers of the group and those below it.
    pub fn ids_within(&self, group: &GroupReader) -> Vec<u64> {
        let ids = self.0.keys().copied();
        ids.filter(|id| self.is_within(*id, group)).collect()
    }

    /// Whether the group is `within` or below it.
    pub fn is_within(&self, id: u64, within: &GroupReader) -> bool {
        let top = within.name().trim_end_matches('/');
        self.get(id)
            .and_then(|name| name.strip_prefix(top))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
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
