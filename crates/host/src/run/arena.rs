//! What a run changes outside the program, and undoes: session, swap, group and limit, keeper.
//!
//! **Owns** the order in which these are made and undone. **Does not own** how each works (`keeper`,
//! `swap`, `cgroup`).
//!
//! **Invariants**
//! - I1: nothing is changed before the keeper lives, so that no moment of death leaves a trace.
//! - I2: a dry run changes nothing but that it has a place in the run directory while it lasts.

use crate::keeper::{self, KeeperEnd, KeeperReport, KeeperWatch, Outcome, Session, UndoError};
use crate::run::config::{PolicyChoice, RunConfig, Target};
use crate::run::error::{RunError, io_error};
use crate::run::event::Event;
use crate::run::gauge::Gauge;
use crate::run::overhead;
use crate::run::thresholds::Thresholds;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use strata_control::{FreeSwap, GroupStats};
use strata_linux::cgroup::{BudgetGroup, CgroupError, OomWatch};
use strata_linux::swap::{SwapDevice, SwapSpec};
use strata_linux::undo::Journal;

/// From setting the limit to the first turn of the loop a program is started, or a group's processes are listed, milliseconds.
const FIRST_BEAT_MS: u64 = 2000;

/// What the run is called in the run directory, and its group.
fn id_of(config: &RunConfig) -> String {
    match &config.name {
        Some(name) => name.to_string(),
        None => keeper::fresh_id(),
    }
}

/// Everything of a run that has to be undone.
#[derive(Debug)]
pub(super) struct Arena<'a> {
    config: &'a RunConfig,
    /// Where usage is read.
    pub(super) gauge: Gauge,
    oom: Option<OomWatch>,
    thresholds: Option<Thresholds>,
    swap: Option<SwapDevice>,
    session: Option<(Session, KeeperWatch)>,
    /// How the keeper fared; known once everything is undone, if there was one.
    pub(super) keeper_report: Option<KeeperReport>,
    /// As it stands.
    budget_bytes: u64,
    nr_oom_kills: u64,
    /// How often the keeper had lifted the limits when that was last looked at.
    nr_missed_beats: u64,
}

impl<'a> Arena<'a> {
    /// Makes what `config` asks for; takes back what was begun on failure.
    pub(super) fn prepare(
        config: &'a RunConfig,
        events: &mut dyn FnMut(Event<'_>),
    ) -> Result<Arena<'a>, RunError> {
        if !config.dry_run {
            recover(events);
        }
        let session = match Session::create(&id_of(config)) {
            Ok(session) => match KeeperWatch::start(&session) {
                Ok(keeper) => Some((session, keeper)),
                Err(error) => {
                    session.finish(None);
                    return Err(io_error("starting the keeper")(error));
                }
            },
            Err(error) => match config.name.clone().filter(|_| error.is_taken()) {
                Some(name) => {
                    let directory = error.path;
                    return Err(RunError::NameTaken { name, directory });
                }
                None if changes_anything(config) => return Err(error.into()),
                None => {
                    tracing::debug!("no control socket: {error}");
                    None
                }
            },
        };
        let mut arena = Arena {
            config,
            gauge: Gauge::Tree,
            oom: None,
            thresholds: None,
            swap: None,
            session,
            keeper_report: None,
            budget_bytes: config.budget_bytes,
            nr_oom_kills: 0,
            nr_missed_beats: 0,
        };
        match arena.furnish() {
            Ok(()) => Ok(arena),
            Err(error) => {
                for warning in arena.undo() {
                    events(Event::Warning(&warning));
                }
                Err(error)
            }
        }
    }

    fn furnish(&mut self) -> Result<(), RunError> {
        let config = self.config;
        let journal = match &self.session {
            Some((session, _)) if !config.dry_run => session.journal(),
            // Who only looks is in nobody's way.
            _ => Journal::none(),
        };
        if !config.dry_run {
            self.swap = Some(SwapDevice::create(&config.swap, &journal)?);
        }
        let Some(group) = self.find_group(&journal)? else {
            return Ok(());
        };
        let group = Arc::new(group);
        self.gauge = Gauge::Group(Arc::clone(&group));
        if config.dry_run {
            return Ok(());
        }
        match &config.policy {
            PolicyChoice::None => group.lower_limit_bytes(config.budget_bytes)?,
            PolicyChoice::Engine(_) => self.take_hold()?,
        }
        group.set_swappiness(config.swappiness.base().get().min(200))?;
        if config.policy != PolicyChoice::None {
            // A command may grow as fast as it can before our first look at it. Last, because it may reclaim,
            // and only where nobody is killed for it.
            group.hold_line()?;
        }
        Ok(())
    }

    fn find_group(&self, journal: &Journal) -> Result<Option<BudgetGroup>, RunError> {
        let config = self.config;
        if config.no_cgroup {
            return Ok(None);
        }
        let mut group = match &config.target {
            Target::Command { .. } if config.dry_run => None,
            Target::Command { .. } => {
                let id = match &self.session {
                    Some((session, _)) => session.id().to_owned(),
                    None => id_of(config),
                };
                Some(BudgetGroup::create(&id, journal)?)
            }
            Target::Pid(pid) => BudgetGroup::of_process(*pid, journal)?,
            Target::Cgroup(path) => Some(BudgetGroup::attach(path, journal)?),
        };
        if let Some(group) = &mut group {
            group.set_distances(config.control.watermarks.distances());
        }
        if let (Some((session, _)), Some(group), Target::Cgroup(_)) =
            (&self.session, &group, &config.target)
            && changes_anything(config)
        {
            session
                .set_group(group.path())
                .map_err(io_error("recording the group"))?;
        }
        Ok(group)
    }

    /// Sets the limit behind the budget, and has us told when somebody meets it.
    pub(super) fn take_hold(&mut self) -> Result<(), CgroupError> {
        self.tell_sleep(false);
        let Some(group) = self.watched_group().cloned() else {
            return Ok(());
        };
        self.beat(FIRST_BEAT_MS);
        group.set_budget_bytes(self.budget_bytes)?;
        self.oom = Some(group.watch_oom()?);
        let watermarks = &self.config.control.watermarks;
        self.thresholds = Some(Thresholds::new(&group, self.budget_bytes, watermarks)?);
        Ok(())
    }

    /// Lifts the limit and leaves the group to the kernel, until [`Arena::take_hold`]. A limit that the kernel
    /// alone is to hold stays.
    pub(super) fn let_go(&mut self) -> Result<(), CgroupError> {
        if let Some(group) = self.watched_group().cloned() {
            group.release_high()?;
            group.set_limit_bytes(None)?;
            group.hand_back_oom()?;
            (self.oom, self.thresholds) = (None, None);
        }
        if let Some((session, _)) = &self.session {
            session.heartbeat().rest();
        }
        self.tell_sleep(true);
        Ok(())
    }

    /// Tells the keeper that the control loop is heard of again within so many milliseconds. Where no limit needs us awake it
    /// need not be.
    pub(super) fn beat(&self, within_ms: u64) {
        if let Some((session, _)) = &self.session
            && self.watched_group().is_some()
        {
            session.heartbeat().beat(within_ms);
        }
    }

    /// Sets limits again that the keeper has lifted because the control loop was not heard of; whether it had.
    ///
    /// # Errors
    /// The limits stay lifted.
    pub(super) fn heed_keeper(&mut self) -> Result<bool, CgroupError> {
        let Some((session, _)) = &self.session else {
            return Ok(false);
        };
        let nr_missed_beats = session.heartbeat().nr_missed();
        if self.nr_missed_beats == nr_missed_beats {
            return Ok(false);
        }
        // First as if we had lifted them: what stands there is nobody else's.
        self.let_go()?;
        self.take_hold()?;
        // Only now: what failed is tried again.
        self.nr_missed_beats = nr_missed_beats;
        Ok(true)
    }

    /// Puts the limits back at once: nobody gives way at them from here on. [`Arena::undo`] does so once more, when no thread is
    /// left that may be in the middle of changing one.
    pub(super) fn put_limits_back(&self) {
        if let Some((session, _)) = &self.session {
            for error in session.put_limits_back() {
                tracing::debug!("{error}");
            }
            session.heartbeat().rest();
        }
    }

    /// Tells the keeper, which has a Strata go on that somebody has stopped.
    fn tell_sleep(&mut self, is_asleep: bool) {
        if let Some((_, keeper)) = &mut self.session {
            keeper.tell_sleep(is_asleep);
        }
    }

    /// The group, where a limit of ours needs us awake.
    pub(super) fn watched_group(&self) -> Option<&Arc<BudgetGroup>> {
        let is_watched = !self.config.dry_run && self.config.policy != PolicyChoice::None;
        self.gauge.group().filter(|_| is_watched)
    }

    /// Records who is under the budget.
    pub(super) fn note_program(&self, pid: Option<i32>) {
        if let (Some((session, _)), Some(pid)) = (&self.session, pid)
            && changes_anything(self.config)
            && let Err(error) = session.set_program(pid)
        {
            tracing::warn!("the program can't be recorded for the keeper: {error}");
        }
    }

    /// Name and directory of the run below the run directory, where it has one.
    pub(super) fn place(&self) -> Option<(&str, &Path)> {
        let (session, _) = self.session.as_ref()?;
        Some((session.id(), session.directory()))
    }

    /// From now on another budget holds: limits follow, usage is measured against it.
    ///
    /// # Errors
    /// When the kernel refuses; then nothing has changed.
    pub(super) fn set_budget(&mut self, budget_bytes: u64) -> Result<(), CgroupError> {
        let group = self.gauge.group().filter(|_| !self.config.dry_run);
        if let Some(group) = group {
            match self.config.policy {
                PolicyChoice::None => group.set_limit_bytes(Some(budget_bytes))?,
                PolicyChoice::Engine(_) => {
                    group.set_budget_bytes(budget_bytes)?;
                    // The budget holds without; looks only come later.
                    let watermarks = &self.config.control.watermarks;
                    self.thresholds = Thresholds::new(group, budget_bytes, watermarks)
                        .inspect_err(|error| tracing::debug!("{error}"))
                        .ok();
                }
            }
        }
        self.budget_bytes = budget_bytes;
        Ok(())
    }

    /// The kernel's hard limit on the group as it stands.
    pub(super) fn limit_bytes(&self) -> Option<u64> {
        let group = self.gauge.group()?;
        group.limit_bytes().ok().flatten()
    }

    /// For a command to enter the group between fork and exec.
    pub(super) fn join_file(&self) -> Result<Option<OwnedFd>, RunError> {
        Ok(self
            .gauge
            .group()
            .map(|group| group.join_file())
            .transpose()?)
    }

    /// What the generations are listed under: the group's path, or `/pid/N`.
    pub(super) fn name(&self, pid: Option<i32>) -> String {
        match (self.gauge.group(), pid) {
            (Some(group), _) => group.name(),
            (None, Some(pid)) => format!("/pid/{pid}"),
            (None, None) => "/".to_owned(),
        }
    }

    /// What may wake the loop.
    pub(super) fn event_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let oom = self.oom.as_ref().map(AsFd::as_fd);
        oom.into_iter()
            .chain(self.thresholds.iter().flat_map(Thresholds::fds))
    }

    /// Takes in what usage has crossed; before usage is read, or a crossing in between would be lost.
    pub(super) fn take_thresholds(&mut self) {
        if let Some(thresholds) = &mut self.thresholds {
            thresholds.take();
        }
    }

    /// Has the loop woken again when usage comes near the budget, once it was far from it.
    pub(super) fn expect_growth(&mut self, usage_bytes: u64) {
        if let (Some(thresholds), Some(group)) = (&mut self.thresholds, self.gauge.group())
            && let Err(error) = thresholds.follow(group, usage_bytes)
        {
            // The next look comes within a second all the same.
            tracing::debug!("{error}");
        }
    }

    /// Takes in the events; whether tasks of the group are waiting for memory.
    pub(super) fn take_oom_event(&mut self) -> bool {
        let Some(Ok(events)) = self.oom.as_mut().map(OomWatch::take) else {
            return false;
        };
        self.nr_oom_kills = events.nr_oom_kills;
        events.is_under_oom
    }

    /// Kills for want of memory in the group since we began.
    pub(super) fn nr_oom_kills(&mut self) -> u64 {
        self.take_oom_event();
        let counted = self
            .gauge
            .group()
            .and_then(|group| group.oom_kills().ok().flatten());
        self.nr_oom_kills.max(counted.unwrap_or(0))
    }

    /// The kernel's counters of the group, empty without one.
    pub(super) fn kernel_counters(&self) -> GroupStats {
        self.gauge
            .group()
            .and_then(|group| group.stats().ok())
            .unwrap_or_default()
    }

    /// Whether anon pages have somewhere to go, where so much swap is free. Full swap is never quite full: what comes back
    /// frees a little all the time. So a step of the limit counts. Where the free swap is not known nobody may take it for
    /// none.
    pub(super) fn is_enough_swap(&self, free_swap: FreeSwap) -> bool {
        let distances = self.config.control.watermarks.distances();
        let step_bytes = distances.backstop_bytes(self.budget_bytes) - self.budget_bytes;
        match free_swap {
            FreeSwap::Bytes(bytes) => bytes > step_bytes,
            FreeSwap::NotKnown => true,
        }
    }

    /// The keeper's process id.
    pub(super) fn keeper_pid(&self) -> Option<i32> {
        self.session.as_ref().and_then(|(_, keeper)| keeper.pid())
    }

    /// The keeper's CPU time, nanoseconds.
    pub(super) fn keeper_cpu_ns(&self) -> u64 {
        self.keeper_pid().map_or(0, overhead::cpu_ns_of)
    }

    /// Looks after the keeper; returns what the user should know.
    pub(super) fn tend_keeper(&mut self) -> Option<String> {
        let (session, keeper) = self.session.as_mut()?;
        keeper.tend(session, Instant::now())
    }

    /// Undoes everything; what can't be undone now is left to the keeper, and said.
    pub(super) fn undo(&mut self) -> Vec<String> {
        self.oom = None;
        self.thresholds = None;
        let mut warnings = Vec::new();
        let gauge = std::mem::replace(&mut self.gauge, Gauge::Tree);
        if let Gauge::Group(group) = gauge {
            // What fails here the session does once more.
            if let Err(error) = group.restore() {
                tracing::debug!("{error}");
            }
            warnings.extend(group.take_news());
            // The reclaim thread has ended, so this is the last handle; if not, the session undoes it.
            if let Ok(mut group) = Arc::try_unwrap(group)
                && let Err(error) = group.remove()
            {
                tracing::debug!("{error}");
            }
        }
        self.swap = None;
        if let Some((session, keeper)) = self.session.take() {
            let (left, report) = keeper.finish(session);
            self.keeper_report = Some(report);
            warnings.extend(left.iter().map(|error| match (error, report.end) {
                (UndoError::Keeper { .. }, _) => error.to_string(),
                (_, KeeperEnd::Missing) => format!("left to the next start of Strata: {error}"),
                _ => format!("left to the keeper: {error}"),
            }));
        }
        warnings
    }
}

/// Whether anything has to stay as long as the program runs: with `existing` swap alone and no group of ours to limit there is
/// nothing to undo.
fn changes_anything(config: &RunConfig) -> bool {
    !config.dry_run && (!config.no_cgroup || config.swap != SwapSpec::Existing)
}

fn recover(events: &mut dyn FnMut(Event<'_>)) {
    match keeper::recover() {
        Ok(recovered) => {
            for session in recovered {
                match session.outcome {
                    Outcome::Cleaned => events(Event::OtherRun(&format!(
                        "cleaned up after the run {}, which had died",
                        session.id
                    ))),
                    Outcome::ProgramRunning => events(Event::OtherRun(&format!(
                        "the run {} has died but its program goes on: its limits are lifted",
                        session.id
                    ))),
                    Outcome::Left(reasons) => events(Event::Warning(&format!(
                        "the run {} has died and can't be cleaned up yet: {}",
                        session.id,
                        reasons.join("; ")
                    ))),
                }
            }
        }
        Err(error) => tracing::debug!("nothing recovered: {error}"),
    }
}
