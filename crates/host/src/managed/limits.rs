//! Limits that watched groups live under: their own, and those of groups above.
//!
//! **Owns** which limits there are, who lives under each, and what is known of it from walk to walk. **Does not own** when usage is too
//! near (`strata_control::shortage`), the pace that follows (`need`), nor what goes then (`oldest`).
//!
//! **Invariants** I1: a limit counts once, however many groups live under it.

use super::group::Group;
use super::need::{Budget, LOOK_FAR};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use strata_control::shortage::Reading;
use strata_linux::cgroup::GroupReader;
use strata_lru::GroupId;

/// A limit, and the watched groups under it.
#[derive(Debug)]
pub(super) struct Limited {
    pub(super) reader: GroupReader,
    pub(super) members: Vec<GroupId>,
    pub(super) budget: Budget,
    /// When it is looked at next: a host may have thousands, of which few are near.
    pub(super) next_look: Duration,
    /// It was looked at since something went below it.
    pub(super) is_read: bool,
}

impl Limited {
    /// How near usage is, where a look is due. Returns whether it is near where it was not.
    pub(super) fn look(&mut self, at: Duration) -> bool {
        if at < self.next_look {
            return false;
        }
        let reader = &self.reader;
        let read = || {
            let total_bytes = reader.budget_bytes()?;
            Some(Reading {
                total_bytes,
                available_bytes: total_bytes.saturating_sub(reader.usage_bytes()?),
                waiting_percent: None,
            })
        };
        let has_come_near = self.budget.look(at, read);
        self.is_read = true;
        self.look_again(at);
        has_come_near
    }

    /// The next look comes as what is known by now asks for.
    pub(super) fn look_again(&mut self, at: Duration) {
        let wait = match self.budget.need().is_near {
            true => self.budget.next_look(),
            false => LOOK_FAR,
        };
        self.next_look = at + wait;
    }
}

/// The limits that these groups live under, by path; each is looked for as often as there is a walk, and what was `known` of it stays.
pub(super) fn of_groups(
    groups: &BTreeMap<GroupId, Group>,
    mut known: BTreeMap<PathBuf, Limited>,
) -> BTreeMap<PathBuf, Limited> {
    let mut limits: BTreeMap<PathBuf, Limited> = BTreeMap::new();
    for (id, group) in groups {
        for (reader, _) in group.reader.limited() {
            let path = reader.path();
            let limited = limits.entry(path.to_owned()).or_insert_with(|| {
                let (budget, next_look) = match known.remove(path) {
                    Some(before) => (before.budget, before.next_look),
                    None => Default::default(),
                };
                Limited {
                    reader: reader.clone(),
                    members: Vec::new(),
                    budget,
                    next_look,
                    is_read: false,
                }
            });
            limited.members.push(*id);
        }
    }
    limits
}
