//! Many targets at once: counters of all, ages of those that are watched.
//!
//! ```text
//!   open(AllGroups)      every cgroup by its counters, and the programs of each that holds several
//!   watch_everybody      (of all groups) walks of everybody, within a share of a processor
//!   open(Chosen)         these, walked from the first look on
//!   look                 counters of all, a walk of each that is watched -> Snapshot
//!   guarded              what a guard that runs says of groups
//!   cache                (thread) censuses of the page cache of all cgroups, by file of those that are watched
//! ```
//!
//! **Owns** who is looked at and who is walked. **Does not own** when (the caller), counters
//! (`figures`), page cache by file (`cache`), or what a screen makes of it.
//!
//! **Invariants**
//! - I1: a cgroup that nobody asked to watch is never walked, unless everybody is.
//! - I2: at most [`WATCHED_MAX`] targets of an overview of all groups are watched one by one. Where everybody is walked,
//!   those that are watched are told by mapping, and nobody is walked twice.
//! - I3: one target's failure spoils only that target.
//! - I4: a target that is large is walked less often than it is looked at, so that it is not held up
//!   (`Observer::rest`).

mod cache;
mod everybody;
mod figures;
mod guarded;
mod snapshot;

pub use snapshot::{
    AGE_STARTS_S, AgesView, Budget, GuardView, HostView, IDLE_AFTER_S, MAPPINGS_MAX, MappingView,
    NR_AGES, Snapshot, TargetKind, TargetView, WINDOWS_S, WhoView, WindowView,
};

use super::cache::CacheReport;
use super::files::FilesReport;
use super::programs::{Program, Programs};
use super::{Subject, SubjectError};
use crate::park;
use cache::Censuses;
use everybody::{Asked, Everybody, TargetWatch};
use figures::{Figures, Rate};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strata_linux::access::{AccessChoice, SourceInfo};
use strata_linux::cgroup::{CgroupError, GroupReader};
use strata_linux::hold_up::HoldUps;

/// Targets of an overview of all groups that are watched at a time.
pub const WATCHED_MAX: usize = 8;

/// Who is looked at.
#[derive(Clone, Debug)]
pub enum Scope {
    /// Every cgroup that has processes in itself, and the programs of each that holds several, as they come and go.
    AllGroups,
    /// Chosen targets, all of them watched.
    Chosen(Vec<Subject>),
}

/// Why a target can't be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The target went meanwhile.
    #[error("{0} is gone")]
    Gone(String),
    /// Each one that is watched costs a walk an interval.
    #[error("{WATCHED_MAX} targets are watched already; let go of one first")]
    TooMany,
    /// The target can't be walked.
    #[error(transparent)]
    Subject(#[from] SubjectError),
}

#[derive(Debug)]
struct Target {
    kind: TargetKind,
    who: WhoView,
    /// The group itself, or the one the processes are in.
    group: Option<GroupReader>,
    /// The processes, of a program among several of a group.
    part: Option<Vec<i32>>,
    rate: Rate,
    watch: Option<TargetWatch>,
    /// Somebody wants to see it in detail.
    is_watched: bool,
    /// Ages, where everybody is walked.
    ages: Option<AgesView>,
    /// Page cache by file, as a census told it.
    files: Option<Arc<FilesReport>>,
    /// What was last told of the target, for when it has ended.
    last: Option<TargetView>,
}

impl Target {
    fn new(kind: TargetKind, who: WhoView, group: Option<GroupReader>) -> Target {
        Target {
            kind,
            who,
            group,
            part: None,
            rate: Rate::default(),
            watch: None,
            is_watched: false,
            ages: None,
            files: None,
            last: None,
        }
    }

    /// A group; `only` is the program it holds if that is one.
    fn of_group(group: GroupReader, only: Option<&Program>) -> Target {
        let who = WhoView::new(Some(group.name()), only.map(|program| &program.root));
        Target::new(TargetKind::Cgroup, who, Some(group))
    }

    /// One program of a group that holds several.
    fn of_program(group: GroupReader, program: Program) -> Target {
        let who = WhoView::new(Some(group.name()), Some(&program.root));
        Target {
            part: Some(program.pids),
            ..Target::new(TargetKind::Tree, who, Some(group))
        }
    }

    /// Takes over who is there now; what was seen of it stays.
    fn follow(&mut self, now: Target) {
        self.who = now.who;
        self.part = now.part;
    }

    /// The directory of the cgroup that the target is, if it is watched.
    fn watched_group(&self) -> Option<&Path> {
        let is_group = self.kind == TargetKind::Cgroup && self.is_watched;
        self.group
            .as_ref()
            .filter(|_| is_group)
            .map(GroupReader::path)
    }

    /// Notes that nobody of the target is left.
    fn empty(&mut self) {
        if let Some(part) = &mut self.part {
            part.clear();
        }
    }

    /// Opens a subject and its walks; also says its name.
    fn of_subject(
        subject: &Subject,
        access: AccessChoice,
    ) -> Result<(String, Target), SubjectError> {
        let watch = TargetWatch::open(subject, access)?;
        let (kind, name, group, pids) = match subject {
            Subject::Cgroup(path) => {
                let group = GroupReader::open(path)?;
                let pids = group.processes().unwrap_or_default();
                (
                    TargetKind::Cgroup,
                    group.name().to_owned(),
                    Some(group),
                    pids,
                )
            }
            Subject::Process(pid) => (
                TargetKind::Process,
                process_name(*pid)?,
                own_group(*pid),
                vec![*pid],
            ),
            Subject::Tree(pid) => (
                TargetKind::Tree,
                format!("{} and below", process_name(*pid)?),
                own_group(*pid),
                vec![*pid],
            ),
            Subject::Processes(pids) => {
                let first = pids.first().copied().unwrap_or_default();
                let name = process_name(first)?;
                (TargetKind::Tree, name, own_group(first), pids.clone())
            }
        };
        let programs = Programs::new().find(&pids);
        let root = match programs.as_slice() {
            [only] => Some(&only.root),
            _ => None,
        };
        let who = WhoView::new(group.as_ref().map(GroupReader::name), root);
        let target = Target {
            watch: Some(watch),
            is_watched: true,
            ..Target::new(kind, who, group)
        };
        Ok((name, target))
    }

    /// Looks at the target; `None` when it is gone and was never seen.
    fn look(
        &mut self,
        name: &str,
        idle_after: Duration,
        snapshot: &mut Snapshot,
    ) -> Option<TargetView> {
        if let (Some(watch), Some(part)) = (&mut self.watch, &self.part) {
            watch.observer.set_processes(part);
        }
        let ages = match &mut self.watch {
            Some(watch) if !watch.observer.is_over() => Some(watch.walk(idle_after, snapshot)),
            _ => self.ages.clone(),
        };
        let is_over = self.watch.as_ref().is_some_and(|w| w.observer.is_over());
        let figures = match is_over {
            true => None,
            false => self.figures().unwrap_or_else(|error| {
                if !matches!(error, CgroupError::Gone(_)) {
                    snapshot.troubles.push(error.to_string());
                }
                None
            }),
        };
        let Some(figures) = figures else {
            let mut last = self.last.clone()?;
            last.is_over = true;
            last.refaults_per_s = None;
            return Some(last);
        };
        let nr_watched = self
            .watch
            .as_ref()
            .map(|watch| watch.observer.processes().count() as u64);
        let nr_processes = match &self.part {
            Some(part) => Some(part.len() as u64),
            None => nr_watched,
        };
        let view = TargetView {
            name: name.to_owned(),
            kind: self.kind,
            who: self.who.clone(),
            is_watched: self.is_watched,
            nr_processes,
            refaults_per_s: self.rate.next(Instant::now(), figures.refaults),
            ages,
            files: self.files.clone(),
            ..figures.view
        };
        if self.is_watched {
            self.last = Some(view.clone());
        }
        Some(view)
    }

    /// The processes of a program, or of a group and the groups below; `own_pids` has those of each group itself.
    fn pids(&self, own_pids: &BTreeMap<String, Vec<i32>>) -> Vec<i32> {
        if let Some(part) = &self.part {
            return part.clone();
        }
        let Some(group) = self.group.as_ref().map(|group| Path::new(group.name())) else {
            return Vec::new();
        };
        let below = own_pids
            .iter()
            .filter(|(name, _)| Path::new(name).starts_with(group));
        below.flat_map(|(_, pids)| pids).copied().collect()
    }

    /// What counters say; `None` if nobody is there.
    fn figures(&self) -> Result<Option<Figures>, CgroupError> {
        if let Some(part) = &self.part {
            let is_there = !part.is_empty();
            return Ok(is_there.then(|| figures::of_pids(part, self.group.as_ref())));
        }
        match (self.kind, &self.watch) {
            (TargetKind::Cgroup, _) => match &self.group {
                Some(group) => figures::of_group(group).map(Some),
                None => Ok(None),
            },
            (_, Some(watch)) => {
                let processes = watch.observer.processes().map(|(_, process)| process);
                Ok(Some(figures::of_processes(processes, self.group.as_ref())))
            }
            (_, None) => Ok(None),
        }
    }
}

/// Targets and what is known of them.
#[derive(Debug)]
pub struct Overview {
    opened: Instant,
    access: AccessChoice,
    idle_after: Duration,
    follows_groups: bool,
    programs: Programs,
    /// Walks everybody; of all groups only.
    everybody: Option<Everybody>,
    /// Processes of each group itself, of all groups only.
    own_pids: BTreeMap<String, Vec<i32>>,
    /// Takes censuses; `None` before the first is wanted, and where none can be taken.
    censuses: Option<Censuses>,
    are_censuses_refused: bool,
    /// Page cache of cgroups by name, as the last census told it.
    caches: BTreeMap<String, CacheReport>,
    targets: BTreeMap<String, Target>,
}

impl Overview {
    /// Finds the targets; those chosen are opened for walks. Nothing is walked yet.
    ///
    /// # Errors
    /// [`SubjectError`]: one of those chosen is not there or can't be walked; no cgroup hierarchy.
    pub fn open(scope: &Scope, access: AccessChoice) -> Result<Overview, SubjectError> {
        let mut overview = Overview {
            opened: Instant::now(),
            access,
            idle_after: Duration::from_secs(IDLE_AFTER_S),
            follows_groups: matches!(scope, Scope::AllGroups),
            programs: Programs::new(),
            everybody: None,
            own_pids: BTreeMap::new(),
            censuses: None,
            are_censuses_refused: false,
            caches: BTreeMap::new(),
            targets: BTreeMap::new(),
        };
        match scope {
            Scope::AllGroups => overview.refresh_groups()?,
            Scope::Chosen(subjects) => {
                for subject in subjects {
                    let (name, target) = Target::of_subject(subject, access)?;
                    overview.targets.insert(name, target);
                }
            }
        }
        Ok(overview)
    }

    /// From now on everybody is walked, for at most this share of a processor, if the overview is of all groups.
    ///
    /// # Errors
    /// [`SubjectError`]: nobody can be walked here.
    pub fn watch_everybody(&mut self, cpu_share: f64) -> Result<(), SubjectError> {
        if self.follows_groups {
            self.everybody = Some(Everybody::open(self.access, cpu_share)?);
        }
        Ok(())
    }

    /// Walks everybody, where it is time to.
    fn look_at_everybody(&mut self, snapshot: &mut Snapshot) {
        let Some(everybody) = &mut self.everybody else {
            return;
        };
        snapshot.source = Some(everybody.watch.observer.info().name);
        let targets: Vec<(&String, &Target, Vec<i32>)> = self
            .targets
            .iter()
            .map(|(name, target)| (name, target, target.pids(&self.own_pids)))
            .collect();
        let asked: Vec<Asked<'_>> = targets
            .iter()
            .map(|(name, target, pids)| Asked {
                name,
                pids,
                is_detailed: target.is_watched,
            })
            .collect();
        if let Some(mut views) = everybody.look(&asked, self.idle_after, snapshot) {
            for (name, target) in &mut self.targets {
                target.ages = views.remove(name);
            }
        }
    }

    /// Who sees accesses and what they can't see, of the first target that is watched.
    pub fn source(&self) -> Option<SourceInfo> {
        let mut watches = self
            .targets
            .values()
            .filter_map(|target| target.watch.as_ref());
        watches.next().map(|watch| watch.observer.info())
    }

    /// From now on memory counts as idle when it was not used for so long: what is watched for less than
    /// [`IDLE_AFTER_S`] would never know of any.
    pub fn set_idle_after(&mut self, idle_after: Duration) {
        self.idle_after = idle_after;
    }

    /// The next look is the last: its walks clear nothing.
    pub fn set_last(&mut self) {
        if let Some(everybody) = &mut self.everybody {
            everybody.watch.observer.set_last();
        }
        let watches = self.targets.values_mut().filter_map(|of| of.watch.as_mut());
        watches.for_each(|watch| watch.observer.set_last());
    }

    /// Whether everybody chosen has ended. Groups may always come.
    pub fn is_over(&self) -> bool {
        let is_over = |target: &Target| {
            let watch = target.watch.as_ref();
            watch.is_some_and(|watch| watch.observer.is_over())
        };
        !self.follows_groups && self.targets.values().all(is_over)
    }

    /// Has a target walked at every look from the next one on; where everybody is walked, has it told in detail. Of one that is watched already nothing
    /// changes.
    ///
    /// # Errors
    /// [`WatchError`].
    pub fn watch(&mut self, name: &str) -> Result<(), WatchError> {
        let nr_watched = self.targets.values().filter(|t| t.is_watched).count();
        let is_walked = self.everybody.is_some();
        let target = self.targets.get_mut(name);
        let Some(target) = target else {
            return Err(WatchError::Gone(name.to_owned()));
        };
        let Some(group) = target.group.as_ref().filter(|_| !target.is_watched) else {
            return Ok(());
        };
        if nr_watched >= WATCHED_MAX {
            return Err(WatchError::TooMany);
        }
        if is_walked {
            target.is_watched = true;
            return Ok(());
        }
        let subject = match &target.part {
            Some(part) => Subject::Processes(part.clone()),
            None => Subject::Cgroup(group.path().to_owned()),
        };
        target.watch = Some(TargetWatch::open(&subject, self.access)?);
        target.is_watched = true;
        Ok(())
    }

    /// Ends the walks of a target; what they found is forgotten. Those chosen stay watched.
    pub fn unwatch(&mut self, name: &str) {
        if !self.follows_groups {
            return;
        }
        if let Some(target) = self.targets.get_mut(name) {
            target.watch = None;
            target.is_watched = false;
            target.files = None;
            target.last = None;
        }
    }

    /// Reads everybody's counters and walks those who are watched.
    pub fn look(&mut self) -> Snapshot {
        let mut snapshot = Snapshot {
            at_ms: u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX),
            host: HostView::read(),
            ..Snapshot::default()
        };
        let refreshed = match self.follows_groups {
            true => self.refresh_groups(),
            false => Ok(()),
        };
        if let Err(error) = refreshed {
            snapshot.troubles.push(error.to_string());
        }
        self.look_at_cache(&mut snapshot);
        self.look_at_everybody(&mut snapshot);
        let guarded = guarded::of_running();
        let parked = park::parked().into_iter().flatten();
        let parked: BTreeSet<i32> = parked.flat_map(|note| note.running()).collect();
        for (name, target) in &mut self.targets {
            let Some(mut view) = target.look(name, self.idle_after, &mut snapshot) else {
                continue;
            };
            if target.kind == TargetKind::Cgroup {
                let group = target.group.as_ref().map(GroupReader::name);
                view.cache = group.and_then(|group| self.caches.get(group)).cloned();
                view.guard = group.and_then(|group| guarded.get(group)).copied();
            }
            view.who.is_parked = view.who.pid.is_some_and(|pid| parked.contains(&pid));
            snapshot.targets.push(view);
        }
        snapshot.hold_up = HoldUps::so_far().report(self.opened.elapsed());
        snapshot
    }

    /// Takes in what a census has found of page cache.
    fn look_at_cache(&mut self, snapshot: &mut Snapshot) {
        let is_group = |target: &Target| target.kind == TargetKind::Cgroup;
        if self.are_censuses_refused || !self.targets.values().any(is_group) {
            return;
        }
        if self.censuses.is_none() {
            self.censuses = cache::start().ok();
        }
        let watched = self.targets.values().filter_map(Target::watched_group);
        let watched = watched.map(Path::to_owned).collect();
        let found = self.censuses.as_ref().and_then(|censuses| {
            censuses.ask(watched);
            censuses.take()
        });
        match found {
            None => {}
            Some(Ok(Err(error))) => snapshot.troubles.push(error.to_string()),
            Some(Ok(Ok(found))) => {
                self.caches = found.groups;
                for (path, report) in found.files {
                    let mut groups = self.targets.values_mut();
                    let of_it = groups.find(|t| t.watched_group() == Some(path.as_path()));
                    if let Some(target) = of_it {
                        target.files = Some(Arc::new(report));
                    }
                }
            }
            Some(Err(error)) => {
                snapshot.troubles.push(error.to_string());
                self.are_censuses_refused = true;
                self.censuses = None;
                self.caches.clear();
                for target in self.targets.values_mut() {
                    target.files = None;
                }
            }
        }
    }

    /// Takes in groups that are new and lets go of those that went, unless they are watched: those stay
    /// with their last figures until they are let go.
    fn refresh_groups(&mut self) -> Result<(), CgroupError> {
        let mut here = BTreeMap::new();
        let mut everybody = BTreeSet::new();
        let groups = GroupReader::all()?;
        self.own_pids.clear();
        let with_others_below = above(groups.iter().map(GroupReader::name));
        for group in &groups {
            // A group that went meanwhile is left out at the next look.
            let pids = group.own_processes().unwrap_or_default();
            let mut programs = self.programs.find(&pids);
            everybody.extend(pids.iter().copied());
            self.own_pids.insert(group.name().to_owned(), pids);
            // A program is not all of a group that has groups below. And one that stood beside others is not gone because
            // the others are.
            let is_apart = |program: &Program| {
                with_others_below.contains(group.name())
                    || self.targets.contains_key(&part_name(program))
            };
            let only = match programs.as_slice() {
                [only] if !is_apart(only) => programs.pop(),
                _ => None,
            };
            for program in programs {
                let name = part_name(&program);
                here.insert(name, Target::of_program(group.clone(), program));
            }
            let name = group.name().to_owned();
            here.insert(name, Target::of_group(group.clone(), only.as_ref()));
        }
        self.programs.keep(|pid| everybody.contains(&pid));
        self.targets
            .retain(|name, target| here.contains_key(name) || target.is_watched);
        for (name, target) in &mut self.targets {
            match here.remove(name) {
                Some(now) => target.follow(now),
                None => target.empty(),
            }
        }
        self.targets.extend(here);
        Ok(())
    }
}

/// The groups that have one of these below them.
fn above<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let above = names.flat_map(|name| Path::new(name).ancestors().skip(1));
    above
        .map(|path| path.to_string_lossy().into_owned())
        .collect()
}

fn part_name(program: &Program) -> String {
    format!("{} {}", program.root.pid, program.root.name)
}

fn process_name(pid: i32) -> Result<String, SubjectError> {
    let process = strata_linux::process::Process::open(pid)?;
    Ok(format!("{pid} {}", process.comm()))
}

/// The group whose limit holds a process; only counters that tell of a budget are lost without it.
fn own_group(pid: i32) -> Option<GroupReader> {
    GroupReader::of_process(pid).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_with_groups_below_is_told_from_one_without() {
        let above = above(["/", "/a", "/a/b/c", "/a-b"].into_iter());
        let has_below = ["/", "/a", "/a/b", "/a/b/c", "/a-b"].map(|name| above.contains(name));
        assert_eq!(has_below, [true, true, true, false, false]);
    }
}
