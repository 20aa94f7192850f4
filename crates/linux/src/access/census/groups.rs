//! What groups are called, by the number that the kernel knows them by.
//!
//! **Owns** the names. **Does not own** the hierarchy (`cgroup`).

use std::collections::HashMap;

use crate::cgroup::{self, CgroupError, GroupReader};

/// The name of each group there is.
#[derive(Debug)]
pub struct GroupNames {
    names: HashMap<u64, String>,
}

impl GroupNames {
    /// Looks through the hierarchy.
    ///
    /// # Errors
    /// [`CgroupError::NoMemoryController`] where none is mounted. Those of the system, as where no more files can be opened.
    pub fn read() -> Result<GroupNames, CgroupError> {
        Ok(GroupNames {
            names: cgroup::names_by_id()?,
        })
    }

    /// The name, as `/proc/PID/cgroup` has it; `None`: the group has been removed, or lies outside of what is mounted.
    pub fn get(&self, id: u64) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    /// The number of the group with this name.
    pub fn id_of(&self, group: &GroupReader) -> Option<u64> {
        let mut found = self.names.iter().filter(|(_, name)| *name == group.name());
        found.next().map(|(id, _)| *id)
    }

    /// The numbers of the group and those below it.
    pub fn ids_within(&self, group: &GroupReader) -> Vec<u64> {
        let ids = self.names.keys().copied();
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
