//! Putting a managed group together from a configuration.
//!
//! **Owns** which parts a run gets and why, and with which priority they run. **Does not own** any of them.

use super::arena::Arena;
use super::config::{ActuatorChoice, PolicyChoice, RunConfig};
use super::error::{RunError, io_error};
use super::gauge::Gauge;
use super::governor::Governor;
use super::managed::{Managed, Parts};
use super::members::Members;
use super::program::Program;
use super::tracker::Tracker;
use super::walk::Walker;
use crate::access::{self, AccessChoice, AccessSource, ListsSource};
use crate::actuator::{Activate, Deactivate, Pageout, Recall, ShrinkThread};
use crate::cgroup::{ReclaimError, Version};
use crate::process::{MemoryDevices, ProcessTree};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use strata_lru::{Config, MultiGen, TimeMs};

/// What one request may reclaim on cgroup v1 at most, in dips.
const DIP_RUN_BYTES: u64 = 32 << 20;
/// Nice value of the threads that reclaim: what they do not do in time the program does in its own faults.
const RECLAIM_NICE: i32 = -10;
/// ... and of those that look and touch: behind the others on the same processor they are late, and what they
/// came to keep has been taken.
const LOOK_NICE: i32 = -16;

/// Who sees the accesses: for walks, and for the pageout thread, which needs one of its own.
#[derive(Debug)]
pub(super) struct Sources {
    walk: Box<dyn AccessSource>,
    pageout: Box<dyn AccessSource>,
}

impl Sources {
    /// Opens them; to be done before anything is changed or started, because it may be impossible.
    pub(super) fn open(choice: AccessChoice) -> Result<Sources, RunError> {
        Ok(Sources {
            walk: access::open(choice)?,
            pageout: access::open(choice)?,
        })
    }
}

/// Builds everything that works on the group.
pub(super) fn managed(
    config: &RunConfig,
    arena: &Arena,
    program: &Program,
    sources: Sources,
) -> Result<Managed, RunError> {
    let engine = MultiGen::new(Config {
        min_ttl_ms: config.min_ttl_ms,
        ..Config::default()
    })?;
    let tracker = Tracker::new(Box::new(engine), &arena.name(program), TimeMs(0))?;
    let tree = match program.root() {
        Some(root) => ProcessTree::new(Arc::clone(root)),
        None => ProcessTree::of_list(),
    };
    let devices = MemoryDevices::of_process(program.pid().unwrap_or(1)).or_else(|_| {
        // It may have ended already; our own view of the mounts will do.
        MemoryDevices::of_process(std::process::id() as i32)
    });
    let devices = devices.map_err(io_error("reading the mounts"))?;
    // Without a group there is nothing the kernel could be asked to reclaim from.
    let actuator = match arena.gauge().group() {
        Some(_) => config.actuator,
        None => ActuatorChoice::Pageout,
    };
    set_nice(RECLAIM_NICE);
    let uses_pageout = actuator != ActuatorChoice::Reclaim;
    let pageout = match uses_pageout && !config.dry_run {
        true => {
            Some(Pageout::start(sources.pageout).map_err(io_error("starting the pageout thread"))?)
        }
        false => None,
    };
    let shrink = match arena.gauge().group() {
        Some(group) if actuator != ActuatorChoice::Pageout && !config.dry_run => {
            let group = Arc::clone(group);
            let least_bytes = match group.version() {
                // A dip stops one step below the budget by itself; while the program grows as fast
                // as it is reclaimed, going on there beats coming back.
                Version::V1 => DIP_RUN_BYTES,
                Version::V2 => 0,
            };
            let shrink = move |bytes: u64| {
                group
                    .reclaim(bytes.max(least_bytes))
                    .map_err(|error| match error {
                        ReclaimError::Outpaced(_) | ReclaimError::AtFloor(_) => {
                            io::Error::new(ErrorKind::WouldBlock, error)
                        }
                        error => io::Error::other(error),
                    })
            };
            Some(ShrinkThread::start(shrink).map_err(io_error("starting the reclaim thread"))?)
        }
        _ => None,
    };
    set_nice(LOOK_NICE);
    let has_heat = config.policy == PolicyChoice::MglruHeat;
    // A touch moves pages on the lists of the classic LRU only.
    let can_activate = actuator == ActuatorChoice::Auto && has_heat && shrink.is_some();
    let activate = match can_activate && !access::is_multi_gen_on() {
        true => Some(Activate::start().map_err(io_error("starting the touching thread"))?),
        false => None,
    };
    let deactivate = match activate.is_some() && !config.dry_run {
        true => start_deactivating()?,
        false => None,
    };
    let can_recall = actuator == ActuatorChoice::Auto && has_heat && !config.dry_run;
    let recall = match arena.gauge().group().filter(|_| can_recall) {
        Some(group) => {
            let group = Arc::clone(group);
            let recall = Recall::start(move || group.usage_bytes().ok());
            Some(recall.map_err(io_error("starting the thread that reads ahead"))?)
        }
        None => None,
    };
    Ok(Managed::new(Parts {
        tracker,
        members: Members::new(tree),
        walker: Walker::new(sources.walk, devices),
        // With nobody to ask the kernel through, urgency must not take the work from pageout.
        governor: Governor::new(
            config.budget_bytes,
            match (actuator, &shrink) {
                (ActuatorChoice::Auto, None) => ActuatorChoice::Pageout,
                (actuator, _) => actuator,
            },
        ),
        pageout,
        shrink,
        actuator,
        swappiness: config.swappiness,
        min_ttl_ms: config.min_ttl_ms,
        is_dry_run: config.dry_run,
        has_heat,
        activate,
        deactivate,
        recall,
    }))
}

/// `None` where the kernel's lists can't be looked at without changing what it does.
fn start_deactivating() -> Result<Option<(ListsSource, Deactivate)>, RunError> {
    let lists = match ListsSource::open() {
        Ok(lists) => lists,
        Err(error) => {
            tracing::debug!(%error, "the kernel moves pages between its lists by itself");
            return Ok(None);
        }
    };
    let thread =
        Deactivate::start().map_err(io_error("starting the thread that names cold pages"))?;
    Ok(Some((lists, thread)))
}

/// Of this thread and of those it starts from here on; never of the program, which has begun before.
fn set_nice(nice: i32) {
    if let Err(errno) = rustix::process::setpriority_process(None, nice) {
        tracing::debug!("no higher priority for our threads: {errno}");
    }
}

/// Why the report names this actuator.
pub(super) fn actuator_reason(config: &RunConfig, gauge: &Gauge) -> String {
    match (config.actuator, gauge.group().is_some()) {
        (ActuatorChoice::Auto, true) => {
            "pageout of the engine's choice; for what that can't keep up with the kernel's reclaim, \
             ahead of the limit, but not while programs wait for a processor; programs that fill all \
             processors by themselves reclaim in their own faults"
        }
        (ActuatorChoice::Auto | ActuatorChoice::Pageout, false) => {
            "pageout: without a cgroup the kernel can't be asked to reclaim for this program"
        }
        (ActuatorChoice::Pageout, true) => "pageout was asked for",
        (ActuatorChoice::Reclaim, true) => "the kernel's reclaim was asked for",
        (ActuatorChoice::Reclaim, false) => {
            "pageout: the kernel's reclaim was asked for, but there is no cgroup to reclaim from"
        }
    }
    .to_owned()
}
