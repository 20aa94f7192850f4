//! Watching a process or a group without managing it: walk, age, print; nothing is evicted.
//!
//! **Owns** a tracker without actuators. **Does not own** the walk (`observe`), nor the text format (engine).
//!
//! Watching clears accessed bits, which the kernel's own reclaim uses too: with a walk a second it
//! sees less of what was accessed.

use super::{Observer, Subject, SubjectError};
use crate::pages::tracker::Tracker;
use crate::run::error::RunError;
use std::path::Path;
use strata_linux::access::{AccessChoice, AccessError, SourceInfo};
use strata_linux::cgroup::{BudgetGroup, GroupReader};
use strata_linux::undo::Journal;
use strata_lru::{Config, GroupView, MultiGen, Swappiness, TimeMs};

/// The generations of one live process, or of all processes of a group.
#[derive(Debug)]
pub struct Watcher {
    tracker: Tracker,
    observer: Observer,
    /// The process, where it is one.
    pid: Option<i32>,
}

impl Watcher {
    /// Starts to watch one process (not its children).
    pub fn open(pid: i32, access: AccessChoice) -> Result<Watcher, RunError> {
        let group = BudgetGroup::of_process(pid, &Journal::none())
            .ok()
            .flatten();
        let path = group.map_or_else(|| format!("/pid/{pid}"), |group| group.name());
        Watcher::of(&Subject::Process(pid), &path, Some(pid), access)
    }

    /// Starts to watch every process in a group and in the groups below.
    pub fn open_group(path: &Path, access: AccessChoice) -> Result<Watcher, RunError> {
        let group = GroupReader::open(path).map_err(SubjectError::from)?;
        Watcher::of(
            &Subject::Cgroup(path.to_owned()),
            group.name(),
            None,
            access,
        )
    }

    fn of(
        subject: &Subject,
        path: &str,
        pid: Option<i32>,
        access: AccessChoice,
    ) -> Result<Watcher, RunError> {
        let observer = Observer::open(subject, access)?;
        let engine = MultiGen::new(Config::default())?;
        Ok(Watcher {
            tracker: Tracker::new(Box::new(engine), path, TimeMs(0))?,
            observer,
            pid,
        })
    }

    /// Walks once: a generation is born.
    ///
    /// # Errors
    /// When the process has ended or can't be read any more, or the group is gone.
    pub fn walk(&mut self) -> Result<(), RunError> {
        if let Some(pid) = self.pid.filter(|_| self.observer.is_over()) {
            return Err(AccessError::ProcessGone(pid).into());
        }
        let walked = self.observer.walk(&mut self.tracker);
        let left_out = walked.left_out.iter().map(ToString::to_string);
        for trouble in walked.troubles.into_iter().chain(left_out) {
            match self.pid {
                Some(_) => return Err(RunError::Unseen(trouble)),
                None => tracing::warn!("{trouble}"),
            }
        }
        let now = self.now();
        Ok(self.tracker.finish_walk(Swappiness::DEFAULT, now)?)
    }

    /// The generations, oldest first.
    pub fn view(&self) -> Result<Vec<GroupView>, RunError> {
        Ok(self.tracker.view(self.now())?)
    }

    /// The generations in the kernel's text.
    pub fn text(&self) -> Result<String, RunError> {
        Ok(strata_lru::lru_gen::format_plain(&self.view()?))
    }

    /// The generations and their figures in the kernel's full text.
    pub fn full_text(&mut self) -> Result<String, RunError> {
        let now = self.now();
        Ok(self.tracker.full_text(now)?)
    }

    /// Who sees the accesses.
    pub fn info(&mut self) -> SourceInfo {
        self.observer.info()
    }

    fn now(&self) -> TimeMs {
        TimeMs(u64::try_from(self.observer.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}
