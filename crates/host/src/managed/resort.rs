//! Groups that are stopped or ended because the host stays short of memory, as their rules allow.
//!
//! **Owns** who is frozen, and what is told of it. **Does not own** the decision (`strata_control::last_resort`), nor how
//! a group is frozen, thawed or killed (`strata_linux::cgroup`).
//!
//! **Invariants**
//! - I1: a thaw is in the journal before a group is frozen: the next guard lets go on what a dead one has left. Nobody waits
//!   for that: the group is frozen at a later look, if that is still to be done.
//! - I2: a group goes on as soon as no rule for it says "freeze", and at the end in any case.

use super::group::Group;
use super::writer::ToWrite;
use crate::news::News;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::mpsc::{Receiver, TryRecvError};
use strata_control::last_resort::{Exposed, LastResort, Moment, Step, WhenShort};
use strata_linux::cgroup::{self, Freezer, HaltError};
use strata_linux::units::Bytes;
use strata_lru::GroupId;

/// See the module.
#[derive(Debug)]
pub(super) struct Resort {
    decision: LastResort,
    to_write: ToWrite,
    /// To be frozen as soon as it is recorded that it is to go on.
    to_freeze: Option<ToFreeze>,
    frozen: BTreeMap<GroupId, Freezer>,
    /// Groups that can't be frozen, or not let go on, of which that was told.
    told: BTreeSet<String>,
    news: Vec<News>,
}

/// A group that is to be frozen.
#[derive(Debug)]
struct ToFreeze {
    id: GroupId,
    freezer: Freezer,
    recorded: Receiver<io::Result<()>>,
}

impl Resort {
    pub(super) fn new(to_write: ToWrite) -> Resort {
        Resort {
            decision: LastResort::default(),
            to_write,
            to_freeze: None,
            frozen: BTreeMap::new(),
            told: BTreeSet::new(),
            news: Vec::new(),
        }
    }

    /// Returns whether something was decided.
    pub(super) fn look(&mut self, now: Moment, groups: &mut BTreeMap<GroupId, Group>) -> bool {
        let stray: Vec<GroupId> = self
            .frozen
            .keys()
            .copied()
            .filter(|id| !may_be_frozen(groups, *id))
            .collect();
        for id in stray {
            self.thaw(id, groups, "no rule has it stopped any more");
        }
        // A group that comes anew under the name may be another.
        self.told
            .retain(|name| groups.values().any(|group| group.name() == name));
        let is_short = now.available_bytes < now.wanted_bytes;
        let may_be = self
            .to_freeze
            .as_ref()
            .is_some_and(|to_freeze| is_short && may_be_frozen(groups, to_freeze.id));
        let waits = !self.freeze_recorded(groups, may_be);
        // Whatever the disk does, those who are frozen go on when there is memory again.
        let can_halt =
            |group: &Exposed| group.is_frozen || !waits && !self.cant_halt(groups, group.group);
        let exposed = groups.iter().map(|(id, group)| group.exposed(*id));
        let exposed: Vec<Exposed> = exposed.filter(can_halt).collect();
        let step = self.decision.look(now, &exposed);
        match step {
            None => {}
            Some(Step::Freeze(id)) => self.freeze(id, groups),
            Some(Step::Kill(id)) => self.kill(id, groups),
            Some(Step::ThawAll) => self.thaw_all(groups, "there is memory again"),
        }
        step.is_some()
    }

    /// An earlier attempt to freeze or kill this group failed: the next group is chosen instead.
    fn cant_halt(&self, groups: &BTreeMap<GroupId, Group>, id: GroupId) -> bool {
        let group = groups.get(&id);
        group.is_some_and(|group| self.told.contains(group.name()))
    }

    /// Has it recorded that the group is to go on.
    fn freeze(&mut self, id: GroupId, groups: &BTreeMap<GroupId, Group>) {
        let Some(group) = groups.get(&id) else {
            return;
        };
        match Freezer::of(group.reader()) {
            Ok(freezer) => {
                let recorded = self.to_write.record(&freezer);
                self.to_freeze = recorded.map(|recorded| ToFreeze {
                    id,
                    freezer,
                    recorded,
                });
            }
            Err(error) => self.tell_once(group, &error),
        }
    }

    /// Freezes the group whose thaw is recorded by now. Returns whether none waits for that.
    fn freeze_recorded(&mut self, groups: &mut BTreeMap<GroupId, Group>, is_to_be: bool) -> bool {
        let Some(to_freeze) = self.to_freeze.take() else {
            return true;
        };
        let recorded = match to_freeze.recorded.try_recv() {
            Err(TryRecvError::Empty) => {
                self.to_freeze = Some(to_freeze);
                return false;
            }
            Err(TryRecvError::Disconnected) => return true,
            Ok(recorded) => recorded,
        };
        let ToFreeze { id, freezer, .. } = to_freeze;
        let Some(group) = groups.get_mut(&id).filter(|_| is_to_be) else {
            self.to_write.forget(&freezer);
            return true;
        };
        let path = freezer.file().to_owned();
        let stopped = recorded
            .map_err(|source| HaltError::Journal { path, source })
            .and_then(|()| Ok(freezer.stop()?));
        match stopped {
            Ok(()) => {
                self.frozen.insert(id, freezer);
                group.is_frozen = true;
                self.news.push(News::Note(format!(
                    "{} is frozen: the host is short of memory, and nothing idle is left to take",
                    group.name()
                )));
            }
            Err(error) => {
                if cgroup::thaw(freezer.file()).is_ok() {
                    self.to_write.forget(&freezer);
                }
                self.tell_once(group, &error);
            }
        }
        true
    }

    fn kill(&mut self, id: GroupId, groups: &mut BTreeMap<GroupId, Group>) {
        let Some(group) = groups.get(&id) else {
            return;
        };
        match cgroup::kill(group.reader()) {
            Ok(nr_processes) => self.news.push(News::Warning(format!(
                "{} IS KILLED, as its rule asks for: the host is short of memory and nothing else is left to do; \
                 {nr_processes} processes, {} in memory",
                group.name(),
                Bytes(group.exposed(id).resident_bytes),
            ))),
            Err(error) => self.tell_once(group, &error),
        }
    }

    /// What was done since it was asked last.
    pub(super) fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    fn tell_once(&mut self, group: &Group, error: &HaltError) {
        if self.told.insert(group.name().to_owned()) {
            self.news.push(News::Warning(error.to_string()));
        }
    }

    fn thaw(&mut self, id: GroupId, groups: &mut BTreeMap<GroupId, Group>, why: &str) {
        let Some(freezer) = self.frozen.get(&id) else {
            return;
        };
        let group = groups.get_mut(&id);
        let name = group
            .as_ref()
            .map_or("a group", |group| group.name())
            .to_owned();
        match cgroup::thaw(freezer.file()) {
            Ok(()) => {
                self.to_write.forget(freezer);
                self.frozen.remove(&id);
                if let Some(group) = group {
                    group.is_frozen = false;
                }
                self.news.push(News::Note(format!("{name} goes on: {why}")));
            }
            // It is tried again at each look.
            Err(error) if self.told.insert(name) => {
                self.news.push(News::Warning(error.to_string()));
            }
            Err(_) => {}
        }
    }

    /// Lets all go on that were stopped.
    pub(super) fn thaw_all(&mut self, groups: &mut BTreeMap<GroupId, Group>, why: &str) {
        if let Some(to_freeze) = self.to_freeze.take() {
            self.to_write.forget(&to_freeze.freezer);
        }
        let all: Vec<GroupId> = self.frozen.keys().copied().collect();
        for id in all {
            self.thaw(id, groups, why);
        }
    }
}

/// A rule for the group says "freeze".
fn may_be_frozen(groups: &BTreeMap<GroupId, Group>, id: GroupId) -> bool {
    let group = groups.get(&id);
    group.is_some_and(|group| group.exposed(id).when_short == WhenShort::Freeze)
}

#[cfg(test)]
mod tests {
    use super::super::choice::Chosen;
    use super::super::rules::Rule;
    use super::*;
    use std::time::Duration;
    use strata_linux::cgroup::{GroupReader, mount_point};

    #[test]
    fn a_group_that_cannot_be_stopped_is_told_once_and_left_alone() {
        let rule = Rule {
            when_short: WhenShort::Freeze,
            ..Rule::default()
        };
        // Pid 1 or this process is in it or below it.
        let reader = GroupReader::open(&mount_point().expect("cgroups")).expect("a group");
        let group = Group::new(&Chosen {
            reader,
            pids: Vec::new(),
            rule: &rule,
        });
        let mut groups = BTreeMap::from([(GroupId(1), group)]);
        let mut resort = Resort::new(ToWrite::nowhere());
        for at_s in 0..30 {
            let now = Moment {
                at: Duration::from_secs(at_s),
                available_bytes: 1,
                wanted_bytes: 2,
                is_exhausted: true,
            };
            assert_eq!(resort.look(now, &mut groups), at_s == 5, "{at_s}");
        }
        assert!(!groups[&GroupId(1)].is_frozen);
        let [News::Warning(told)] = &resort.news[..] else {
            panic!("{:?}", resort.news);
        };
        assert!(told.contains("left alone"), "{told}");
    }
}
