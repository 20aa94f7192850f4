//! Watching a process or a group without managing it: walk, age, print; nothing is evicted.
//!
//! **Owns** a tracker without actuators. **Does not own** the text format (engine).
//!
//! Watching clears accessed bits, which the kernel's own reclaim uses too: with a walk a second it
//! sees less of what was accessed.

use crate::pages::members::Members;
use crate::pages::tracker::Tracker;
use crate::pages::walk::{Thoroughness, Walker};
use crate::run::error::{RunError, io_error};
use std::sync::Arc;
use std::time::Instant;
use strata_linux::access::{self, AccessChoice, ClearIntent, SourceInfo};
use strata_linux::cgroup::{BudgetGroup, GroupReader};
use strata_linux::process::{MemoryDevices, Process, ProcessTree};
use strata_linux::undo::Journal;
use strata_lru::{Config, GroupView, MultiGen, Swappiness, TimeMs};

/// Who is watched.
#[derive(Debug)]
enum Whom {
    Process(Arc<Process>),
    Group(GroupReader),
}

/// The generations of one live process, or of all processes of a group.
#[derive(Debug)]
pub struct Watcher {
    tracker: Tracker,
    members: Members,
    walker: Walker,
    whom: Whom,
    started: Instant,
}

impl Watcher {
    /// Starts to watch one process (not its children).
    pub fn open(pid: i32, access: AccessChoice) -> Result<Watcher, RunError> {
        let process = Arc::new(Process::open(pid)?);
        let group = BudgetGroup::of_process(pid, &Journal::none())
            .ok()
            .flatten();
        let path = group.map_or_else(|| format!("/pid/{pid}"), |group| group.name());
        Watcher::of(Whom::Process(process), &path, pid, access)
    }

    /// Starts to watch every process in a group and in the groups below.
    pub fn open_group(group: GroupReader, access: AccessChoice) -> Result<Watcher, RunError> {
        let example = group.processes()?.first().copied();
        let pid = example.unwrap_or_else(|| std::process::id() as i32);
        let path = group.name().to_owned();
        Watcher::of(Whom::Group(group), &path, pid, access)
    }

    /// `pid` is one of those watched, for its view of the mounts.
    fn of(whom: Whom, path: &str, pid: i32, access: AccessChoice) -> Result<Watcher, RunError> {
        let devices = MemoryDevices::of_process(pid).map_err(io_error("reading the mounts"))?;
        let engine = MultiGen::new(Config::default())?;
        Ok(Watcher {
            tracker: Tracker::new(Box::new(engine), path, TimeMs(0))?,
            members: Members::new(ProcessTree::of_list()),
            walker: Walker::new(access::open(access)?, devices),
            whom,
            started: Instant::now(),
        })
    }

    /// Walks once: a generation is born.
    ///
    /// # Errors
    /// When the process has ended or can't be read any more, or the group is gone.
    pub fn walk(&mut self) -> Result<(), RunError> {
        let listed = match &self.whom {
            Whom::Process(process) if process.is_alive() => vec![process.pid()],
            Whom::Process(process) => {
                return Err(access::AccessError::ProcessGone(process.pid()).into());
            }
            Whom::Group(group) => group.processes()?,
        };
        self.members.refresh(Some(&listed), &mut self.tracker);
        let failures = self.walker.visit(
            &mut self.tracker,
            ClearIntent::Watch,
            Thoroughness::SkipIdle,
        );
        for failure in failures {
            match self.whom {
                Whom::Process(_) => return Err(failure.into()),
                Whom::Group(_) => tracing::warn!("{failure}"),
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
        self.walker.source().info()
    }

    fn now(&self) -> TimeMs {
        TimeMs(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}
