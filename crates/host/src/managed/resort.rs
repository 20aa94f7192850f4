//! Groups that are slowed, stopped or ended because the host stays short of memory, as their rules allow.
//!
//! **Owns** who is held back, and what is told of it. **Does not own** the decision (`strata_control::last_resort`), nor how
//! a group is slowed, frozen, let go on or killed (`strata_linux::cgroup`).
//!
//! **Invariants**
//! - I1: what lets a group go on is in the journal before it is held back: the next guard lets go on what a dead one has left.
//!   Nobody waits for that: the group is held back at a later look, if that is still to be done.
//! - I2: that a group is slowed, frozen or killed is told before it is done.
//! - I3: a group goes on as soon as no rule for it says "slow", "freeze" or "freeze-newest", and at the end in any case.

use super::group::Group;
use super::kinds::Turns;
use super::rules::Candidate;
use super::writer::ToWrite;
use crate::news::News;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;
use strata_control::last_resort::{Exposed, LastResort, Moment, Step, WhenShort};
use strata_linux::cgroup::{self, Brake, GroupReader, HaltError};
use strata_linux::undo::Undo;
use strata_linux::units::Bytes;
use strata_lru::GroupId;

/// What is slowed by turns stands still for so long, and runs for as long: the kernel needs less to stop many threads, and who
/// waits for the group hardly takes that for its end.
const TURN: Duration = Duration::from_millis(500);

/// What lets a group go on is recorded in a few milliseconds.
const RECORD_WAIT: Duration = Duration::from_millis(20);
/// A container's runtime executes the command after a fraction of a second.
const STARTING_FOR: Duration = Duration::from_millis(500);
/// Why somebody goes on.
const MEMORY_AGAIN: &str = "there is memory again";
/// A look for groups that have come takes a twentieth of the time at most.
const NEWCOMERS_PAUSE: u32 = 20;

/// See the module.
#[derive(Debug)]
pub(super) struct Resort {
    decision: LastResort,
    to_write: ToWrite,
    /// To be held back as soon as it is recorded what lets it go on.
    to_hold: Option<ToHold>,
    held: BTreeMap<GroupId, Brake>,
    turned_at: Option<Duration>,
    /// Whose growth is looked at.
    pub(super) growth_turns: Turns,
    /// Groups that have come are looked for then.
    newcomers_at: Duration,
    /// Groups that are to go on, where that failed.
    to_end: BTreeSet<GroupId>,
    /// Groups that were being made when they were to be held back, and when each may be chosen again.
    starting: BTreeMap<GroupId, Duration>,
    /// Groups that can't be held back, or not let go on, of which that was told.
    told: BTreeSet<String>,
    tell: fn(News),
}

/// A group that is to be held back.
#[derive(Debug)]
struct ToHold {
    id: GroupId,
    brake: Brake,
    why: &'static str,
    recorded: Receiver<io::Result<()>>,
}

impl Resort {
    pub(super) fn new(to_write: ToWrite, tell: fn(News)) -> Resort {
        Resort {
            decision: LastResort::default(),
            to_write,
            to_hold: None,
            held: BTreeMap::new(),
            turned_at: None,
            growth_turns: Turns::default(),
            newcomers_at: Duration::ZERO,
            to_end: BTreeSet::new(),
            starting: BTreeMap::new(),
            told: BTreeSet::new(),
            tell,
        }
    }

    /// Whether groups that have come are to be looked for: while others wait, behind whom they may have to.
    pub(super) fn is_time_for_newcomers(&self, at: Duration) -> bool {
        !self.held.is_empty() && at >= self.newcomers_at
    }

    /// Groups that have come were looked for, which took so long.
    pub(super) fn looked_for_newcomers(&mut self, at: Duration, took: Duration) {
        self.newcomers_at = at + took * NEWCOMERS_PAUSE;
    }

    /// Who is held back, or is to be.
    pub(super) fn held(&self) -> impl Iterator<Item = GroupId> {
        let to_hold = self.to_hold.iter().map(|of| of.id);
        self.held.keys().copied().chain(to_hold)
    }

    /// Returns whether something was decided that changes what can go.
    pub(super) fn look(&mut self, now: Moment, groups: &mut BTreeMap<GroupId, Group>) -> bool {
        let held = self.held.iter();
        let stray = held.filter(|(id, brake)| !may_be_held(groups, **id, brake));
        let stray: Vec<GroupId> = stray.map(|(id, _)| *id).collect();
        self.end(stray, groups, "no rule has it held back any more");
        self.end(self.to_end.iter().copied().collect(), groups, MEMORY_AGAIN);
        // A group that comes anew under the name may be another.
        self.told
            .retain(|name| groups.values().any(|group| group.name() == name));
        let is_short = now.available_bytes < now.wanted_bytes;
        let may_be = self
            .to_hold
            .as_ref()
            .is_some_and(|to_hold| is_short && may_be_held(groups, to_hold.id, &to_hold.brake));
        let waits = !self.hold_recorded(groups, may_be);
        self.starting.retain(|_, until| now.at < *until);
        // Whatever the disk does, those who are held back go on when there is memory again.
        let can_halt = |group: &Exposed| {
            // Where an earlier attempt to hold back or kill one failed, the next group is chosen instead.
            let has_failed = |of: &Group| self.told.contains(of.name());
            let is_to_end = self.to_end.contains(&group.group);
            let waits = waits || self.starting.contains_key(&group.group);
            group.is_held && !is_to_end
                || !waits && !groups.get(&group.group).is_some_and(has_failed)
        };
        let exposed = groups.iter().map(|(id, group)| group.exposed(*id));
        let exposed: Vec<Exposed> = exposed.filter(can_halt).collect();
        let step = self.decision.look(now, &exposed);
        let grows =
            |id| (groups.get(&id)).is_some_and(|of| of.exposed(id).steady_growth_bytes_per_s > 0);
        let why = |id| match now.is_exhausted {
            true => "nothing idle is left to take",
            false if grows(id) => "the group grows faster than idle memory goes",
            false => "what is in use does not fit",
        };
        match step {
            None => {}
            Some(Step::Slow(id)) => self.hold(now.at, id, groups, why(id), Brake::to_slow),
            Some(Step::Freeze(id)) => self.hold(now.at, id, groups, why(id), Brake::to_freeze),
            Some(Step::Kill(id)) => self.kill(id, groups, why(id)),
            Some(Step::Queue(id)) => {
                self.hold(
                    now.at,
                    id,
                    groups,
                    "others wait for memory",
                    Brake::to_freeze,
                );
            }
            Some(Step::GoOn(id)) => self.end(vec![id], groups, MEMORY_AGAIN),
        }
        // Who waits behind others has nothing to give that they need.
        !matches!(step, None | Some(Step::Queue(_)))
    }

    /// Has it recorded what lets the group go on.
    fn hold(
        &mut self,
        at: Duration,
        id: GroupId,
        groups: &BTreeMap<GroupId, Group>,
        why: &'static str,
        brake_of: fn(&GroupReader) -> Result<Brake, HaltError>,
    ) {
        let Some(group) = groups.get(&id) else {
            return;
        };
        let pids = group.reader.own_processes().unwrap_or_default();
        if Candidate::new(group.name(), &pids).is_starting() {
            self.starting.insert(id, at + STARTING_FOR);
            return;
        }
        match brake_of(&group.reader) {
            Ok(brake) => {
                let recorded = self.to_write.record(brake.undo());
                self.to_hold = recorded.map(|recorded| ToHold {
                    id,
                    brake,
                    why,
                    recorded,
                });
            }
            Err(error) => self.tell_once(group.name(), &error),
        }
    }

    /// Holds the group back whose undo is recorded by now. Returns whether none waits for that.
    fn hold_recorded(&mut self, groups: &mut BTreeMap<GroupId, Group>, is_to_be: bool) -> bool {
        let Some(to_hold) = self.to_hold.take() else {
            return true;
        };
        let recorded = match to_hold.recorded.try_recv() {
            Err(TryRecvError::Empty) => {
                self.to_hold = Some(to_hold);
                return false;
            }
            Err(TryRecvError::Disconnected) => return true,
            Ok(recorded) => recorded,
        };
        let ToHold {
            id, mut brake, why, ..
        } = to_hold;
        let Some(group) = groups.get_mut(&id).filter(|_| is_to_be) else {
            self.to_write.forget(vec![brake.undo()]);
            return true;
        };
        let path = brake.file().to_owned();
        let recorded = recorded.map_err(|source| HaltError::Journal { path, source });
        let begun = recorded.and_then(|()| {
            let how = match brake.is_to_freeze() {
                true => "frozen",
                false => "slowed",
            };
            let name = group.name();
            (self.tell)(News::Note(format!(
                "{name} is {how}: the host is short of memory, and {why}"
            )));
            brake.begin()
        });
        match begun {
            Ok(()) => {
                mark(group, Some(&brake));
                self.held.insert(id, brake);
            }
            Err(error) => {
                if brake.end().is_ok() {
                    self.to_write.forget(vec![brake.undo()]);
                }
                self.tell_once(group.name(), &error);
            }
        }
        true
    }

    /// To be called at each look: what is slowed by turns stops, or goes on.
    pub(super) fn turn(&mut self, at: Duration, groups: &BTreeMap<GroupId, Group>) {
        if self.turned_at.is_some_and(|last| at < last + TURN) {
            return;
        }
        self.turned_at = Some(at);
        for (id, brake) in &mut self.held {
            let group = groups.get(id);
            if let Some(Err(error)) = group.map(|group| brake.turn(&group.reader)) {
                // It is tried again at the next turn.
                tracing::debug!("{error}");
            }
        }
    }

    /// How soon the next look is to come, where somebody is held back or is to be: no turn is late by more than half of one, and who comes is
    /// held back before it has grown.
    pub(super) fn next_turn(&self) -> Option<Duration> {
        let is_held = !self.held.is_empty();
        let turn = is_held.then_some(TURN / 2);
        self.to_hold.as_ref().map(|_| RECORD_WAIT).or(turn)
    }

    fn kill(&mut self, id: GroupId, groups: &mut BTreeMap<GroupId, Group>, why: &str) {
        let Some(group) = groups.get(&id) else {
            return;
        };
        let killed = cgroup::kill(&group.reader, |nr_processes| {
            (self.tell)(News::Warning(format!(
                "{} IS KILLED, as its rule asks for: the host is short of memory, and {why}; \
                 {nr_processes} processes, {} in memory",
                group.name(),
                Bytes(group.exposed(id).resident_bytes),
            )));
        });
        if let Err(error) = killed {
            self.tell_once(group.name(), &error);
        }
    }

    fn tell_once(&mut self, name: &str, error: &dyn std::fmt::Display) {
        if self.told.insert(name.to_owned()) {
            (self.tell)(News::Warning(error.to_string()));
        }
    }

    /// Lets these go on as before. Where that fails it is tried again at each look, and others go on meanwhile.
    fn end(&mut self, ids: Vec<GroupId>, groups: &mut BTreeMap<GroupId, Group>, why: &str) {
        let mut done: Vec<Undo> = Vec::new();
        for id in ids {
            let Some(brake) = self.held.get(&id) else {
                self.to_end.remove(&id);
                continue;
            };
            let mut group = groups.get_mut(&id);
            let name = group.as_ref().map_or("a group", |group| group.name());
            let name = name.to_owned();
            match brake.end() {
                Ok(told) => {
                    done.push(brake.undo());
                    self.held.remove(&id);
                    self.to_end.remove(&id);
                    group.iter_mut().for_each(|group| mark(group, None));
                    let goes_on = format!("{name} goes on: {why}");
                    let news = [Some(goes_on), told].into_iter().flatten();
                    news.map(News::Note).for_each(self.tell);
                }
                Err(error) => {
                    self.to_end.insert(id);
                    self.tell_once(&name, &error);
                }
            }
        }
        self.to_write.forget(done);
    }

    /// Lets all go on that were held back.
    pub(super) fn end_all(&mut self, groups: &mut BTreeMap<GroupId, Group>, why: &str) {
        if let Some(to_hold) = self.to_hold.take() {
            self.to_write.forget(vec![to_hold.brake.undo()]);
        }
        self.end(self.held.keys().copied().collect(), groups, why);
    }
}

/// What is said of a group that this holds back, or nothing.
fn mark(group: &mut Group, brake: Option<&Brake>) {
    group.is_frozen = brake.is_some_and(Brake::is_to_freeze);
    group.is_slowed = brake.is_some_and(|brake| !brake.is_to_freeze());
}

/// A rule for the group asks for what this does.
fn may_be_held(groups: &BTreeMap<GroupId, Group>, id: GroupId, brake: &Brake) -> bool {
    groups.get(&id).is_some_and(|group| {
        let asked = group.exposed(id).when_short;
        match brake.is_to_freeze() {
            true => asked.freezes(),
            false => asked == WhenShort::Slow,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::choice::Chosen;
    use super::super::rules::Rule;
    use super::*;
    use std::cell::RefCell;
    use strata_linux::cgroup::mount_point;

    thread_local! {
        static TOLD: RefCell<Vec<News>> = const { RefCell::new(Vec::new()) };
    }

    fn note(news: News) {
        TOLD.with_borrow_mut(|told| told.push(news));
    }

    /// One that pid 1 or this process is in or below.
    fn groups(rule: &Rule) -> BTreeMap<GroupId, Group> {
        let group = Group::new(&Chosen {
            reader: GroupReader::open(&mount_point().expect("cgroups")).expect("a group"),
            pids: Vec::new(),
            rule,
            came: 0,
        });
        BTreeMap::from([(GroupId(1), group)])
    }

    #[test]
    fn a_group_that_cannot_be_held_back_is_told_once_and_left_alone() {
        for when_short in [WhenShort::Slow, WhenShort::Freeze] {
            let rule = Rule {
                when_short,
                ..Rule::default()
            };
            let mut groups = groups(&rule);
            TOLD.take();
            let mut resort = Resort::new(ToWrite::nowhere(), note);
            for at_s in 0..30 {
                let now = Moment {
                    at: Duration::from_secs(at_s),
                    available_bytes: 1,
                    wanted_bytes: 2,
                    ample_bytes: 3,
                    is_exhausted: true,
                    waiting_percent: None,
                };
                assert_eq!(resort.look(now, &mut groups), at_s == 5, "{at_s}");
            }
            assert!(!groups[&GroupId(1)].exposed(GroupId(1)).is_held);
            let told = TOLD.take();
            assert!(
                matches!(&told[..], [News::Warning(told)] if told.contains("left alone")),
                "{told:?}"
            );
        }
    }

    #[test]
    fn that_a_group_is_slowed_is_told_before_it_is_tried() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("memory.high");
        std::fs::write(&file, "max").expect("written");
        std::fs::write(file.with_file_name("memory.current"), "0").expect("written");
        let (sender, recorded) = std::sync::mpsc::channel();
        sender.send(Ok(())).expect("heard");
        let mut resort = Resort::new(ToWrite::nowhere(), note);
        resort.to_hold = Some(ToHold {
            id: GroupId(1),
            brake: Brake::High {
                file,
                found: "max".to_owned(),
                set_bytes: 0,
            },
            why: "nothing idle is left to take",
            recorded,
        });
        assert!(resort.hold_recorded(&mut groups(&Rule::default()), true));
        // It fails, as the file is no control file.
        let told = TOLD.take();
        assert!(
            matches!(&told[..], [News::Note(told), News::Warning(_)] if told.contains("is slowed: ")),
            "{told:?}"
        );
    }
}
