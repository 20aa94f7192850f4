//! Watching a process without managing it: walk, age, print; nothing is evicted.
//!
//! **Owns** a tracker without actuators. **Does not own** the text format (engine).
//!
//! Watching clears accessed bits, which the kernel's own reclaim uses too: with a walk a second it
//! sees less of what was accessed.

use super::error::{RunError, io_error};
use super::members::Members;
use super::tracker::Tracker;
use super::walk::{Thoroughness, Walker};
use crate::access::{self, AccessChoice, ClearIntent, SourceInfo};
use crate::cgroup::BudgetGroup;
use crate::keeper::Journal;
use crate::process::{MemoryDevices, Process, ProcessTree};
use std::sync::Arc;
use std::time::Instant;
use strata_lru::{Config, GroupView, MultiGen, Swappiness, TimeMs};

/// The generations of one live process.
#[derive(Debug)]
pub struct Watcher {
    tracker: Tracker,
    members: Members,
    walker: Walker,
    process: Arc<Process>,
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
        let devices = MemoryDevices::of_process(pid).map_err(io_error("reading the mounts"))?;
        let engine = MultiGen::new(Config::default())?;
        Ok(Watcher {
            tracker: Tracker::new(Box::new(engine), &path, TimeMs(0))?,
            members: Members::new(ProcessTree::of_list()),
            walker: Walker::new(access::open(access)?, devices),
            process,
            started: Instant::now(),
        })
    }

    /// Walks once: a generation is born.
    ///
    /// # Errors
    /// When the process has ended or can't be read any more.
    pub fn walk(&mut self) -> Result<(), RunError> {
        let pid = self.process.pid();
        if !self.process.is_alive() {
            return Err(access::AccessError::ProcessGone(pid).into());
        }
        self.members.refresh(Some(&[pid]), &mut self.tracker);
        let failures = self.walker.visit(
            &mut self.tracker,
            ClearIntent::Watch,
            Thoroughness::SkipIdle,
        );
        if let Some(failure) = failures.into_iter().next() {
            return Err(failure.into());
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

    /// Who sees the accesses.
    pub fn info(&mut self) -> SourceInfo {
        self.walker.source().info()
    }

    fn now(&self) -> TimeMs {
        TimeMs(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}
