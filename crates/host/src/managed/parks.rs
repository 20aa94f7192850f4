//! Groups that are to be parked, and those that are.
//!
//! **Owns** who is a candidate, who rests, and of whom the next walk reads all. **Does not own** how long a group was idle (`group`), nor parking (`park`).

use super::Managed;
use super::group::Group;
use crate::observe::Observer;
use crate::park::Candidate;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;
use strata_lru::{GroupId, SpaceNo};

impl Managed {
    /// Groups that were idle for as long as their rules say, as of the last walk, the one that was so for longest first. One with
    /// processes in groups below it is none: what these do was not looked at, and they would be parked with it.
    pub fn to_park(&self) -> Vec<Candidate> {
        let candidate = |group: &Group| {
            let pids = group.reader.own_processes().ok()?;
            (group.reader.processes().ok()? == pids).then_some(Candidate {
                name: group.name().to_owned(),
                path: group.reader.path().to_owned(),
                pids,
                keep: group.rule.park_keep,
                lately: group.rule.park_after?,
            })
        };
        let idle = longest_idle_first(self.groups.values());
        idle.into_iter().filter_map(candidate).collect()
    }

    /// These are parked now, with so much in swap, bytes. What they hold is read anew by the next walk, though they sleep.
    pub fn parked(&mut self, observer: &mut Observer, of: impl Fn(&str) -> Option<u64>) {
        let mut changed = Vec::new();
        for (id, group) in &mut self.groups {
            let was_parked = group.parked_bytes.is_some();
            group.parked_bytes = of(group.name());
            if group.parked_bytes.is_some() != was_parked {
                changed.push(*id);
            }
        }
        self.read_again(observer, &changed);
    }

    /// The next walk tells what went of these groups, even of processes that sleep.
    pub(super) fn read_again(&self, observer: &mut Observer, groups: &[GroupId]) {
        if groups.is_empty() {
            return;
        }
        let spaces = self.pages.ledger().spaces();
        let of_groups = spaces.filter(|(_, group)| groups.contains(group));
        let of_groups: Vec<SpaceNo> = of_groups.map(|(space, _)| space).collect();
        observer.read_again(|space| of_groups.contains(&space));
    }

    /// After a walk: which group each space is of, and for how long none of a group has run.
    pub(super) fn note_rests(&mut self, of_process: &BTreeMap<i32, GroupId>, observer: &Observer) {
        let mut rests: BTreeMap<GroupId, Duration> = BTreeMap::new();
        for (space, pid, rest) in observer.rests() {
            if let Some(group) = of_process.get(&pid) {
                self.pages.set_group(space, *group);
                let least = rests.entry(*group).or_insert(rest);
                *least = rest.min(*least);
            }
        }
        for (id, group) in &mut self.groups {
            group.rests_for = rests.remove(id).unwrap_or_default();
        }
    }

    /// Whether a group is looked after.
    pub fn looks_after(&self, name: &str) -> bool {
        self.groups.values().any(|group| group.name() == name)
    }
}

/// Those of these groups that are to be parked.
fn longest_idle_first<'a>(groups: impl Iterator<Item = &'a Group>) -> Vec<&'a Group> {
    let mut idle: Vec<&Group> = groups.filter(|group| group.is_to_be_parked()).collect();
    idle.sort_by_key(|group| Reverse(group.idle_for));
    idle
}

#[cfg(test)]
mod tests {
    use super::super::choice::Chosen;
    use super::super::rules::Rule;
    use super::*;
    use strata_linux::cgroup::{GroupReader, mount_point};

    #[test]
    fn of_groups_that_are_to_be_parked_the_one_that_was_idle_for_longest_is_first() {
        let rule = Rule {
            park_after: Some(Duration::from_secs(60)),
            ..Rule::default()
        };
        let group = |idle_s| {
            let reader = GroupReader::open(&mount_point().expect("cgroups")).expect("a group");
            let pids = Vec::new();
            let rule = &rule;
            let mut group = Group::new(&Chosen {
                reader,
                pids,
                rule,
                came: 0,
            });
            group.idle_for = Duration::from_secs(idle_s);
            group
        };
        let groups = [70, 90, 10, 80].map(group);
        let order = longest_idle_first(groups.iter()).into_iter();
        let order: Vec<u64> = order.map(|group| group.idle_for.as_secs()).collect();
        assert_eq!(order, [90, 80, 70]);
    }
}
