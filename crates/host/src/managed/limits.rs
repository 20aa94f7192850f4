//! Limits that watched groups live under: their own, and those of groups above.
//!
//! **Owns** which limits there are, and who lives under each. **Does not own** when usage is too near
//! (`strata_control::shortage`), nor what goes then (`acts`).
//!
//! **Invariants** I1: a limit counts once, however many groups live under it.

use super::group::Group;
use std::collections::BTreeMap;
use std::path::PathBuf;
use strata_control::shortage::LimitReading;
use strata_linux::cgroup::GroupReader;
use strata_lru::GroupId;

/// A limit, and the watched groups under it.
#[derive(Debug)]
pub(super) struct Limited {
    reader: GroupReader,
    pub(super) members: Vec<GroupId>,
}

impl Limited {
    /// How near usage is; a limit that is gone is far.
    pub(super) fn read(&self) -> LimitReading {
        LimitReading {
            limit_bytes: self.reader.budget_bytes().unwrap_or(u64::MAX),
            usage_bytes: self.reader.usage_bytes().unwrap_or(0),
        }
    }
}

/// The limits that these groups live under; each is looked for as often as there is a walk.
pub(super) fn of_groups(groups: &BTreeMap<GroupId, Group>) -> Vec<Limited> {
    let mut limits: BTreeMap<PathBuf, Limited> = BTreeMap::new();
    for (id, group) in groups {
        for (reader, _) in group.reader().limited() {
            let limited = limits
                .entry(reader.path().to_owned())
                .or_insert_with(|| Limited {
                    reader,
                    members: Vec::new(),
                });
            limited.members.push(*id);
        }
    }
    limits.into_values().collect()
}
