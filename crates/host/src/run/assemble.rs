//! Putting a managed group together from a configuration.
//!
//! **Owns** which parts a run gets and why, and with which priority they run. **Does not own** any of them.

use crate::access::{self, AccessChoice, AccessSource, ListsSource};
use crate::actuator::{Activate, Deactivate, Pageout, Recall, ShrinkThread};
use crate::cgroup::{ReclaimError, Version};
use crate::pages::members::Members;
use crate::pages::tracker::Tracker;
use crate::pages::walk::Walker;
use crate::process::{MemoryDevices, ProcessTree, processors_of_thread};
use crate::run::ActuatorChoice;
use crate::run::actuators::Threads;
use crate::run::arena::Arena;
use crate::run::config::{PolicyChoice, RunConfig, SwappinessChoice, Target};
use crate::run::error::{RunError, io_error};
use crate::run::group::Group;
use crate::run::program::Program;
use crate::run::reclaim_loop::ReclaimLoop;
use crate::run::trace::Recorder;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use strata_control::swappiness::SwappinessBias;
use strata_control::{Abilities, Setup};
use strata_lru::{ByHeat, Config, MinTtl, MultiGen, TimeMs};

/// What one request may reclaim on cgroup v1 at most, in dips.
const DIP_RUN_BYTES: u64 = 32 << 20;
/// Nice value of the threads that reclaim: what they do not do in time the program does in its own faults.
const RECLAIM_NICE: i32 = -10;
/// Nice value of the threads that look and touch: behind the others on the same processor they are late, and what they
/// came to keep has been taken.
const LOOK_NICE: i32 = -16;

/// Who sees the accesses: for walks, and for the pageout thread, which needs one of its own.
#[derive(Debug)]
pub(super) struct Sources {
    walk: Box<dyn AccessSource>,
    pageout: Box<dyn AccessSource>,
    /// `None` where the kernel's lists can't be looked at without changing what it does, or nobody would.
    lists: Option<ListsSource>,
}

impl Sources {
    /// Opens them; to be done before anything is changed or started, because it may be impossible.
    pub(super) fn open(config: &RunConfig) -> Result<Sources, RunError> {
        let wants_lists = can_steer(config) && config.access != AccessChoice::Smaps;
        let lists = wants_lists.then(ListsSource::open).and_then(|lists| {
            let log = |error: &_| tracing::debug!(%error, "the kernel moves pages between its lists by itself");
            lists.inspect_err(log).ok()
        });
        Ok(Sources {
            walk: access::open(config.access)?,
            pageout: access::open(config.access)?,
            lists,
        })
    }
}

/// Builds everything that works on the group.
pub(super) fn reclaim_loop(
    config: &RunConfig,
    arena: &Arena,
    program: &Program,
    sources: Sources,
    recorder: Recorder,
) -> Result<ReclaimLoop, RunError> {
    let engine = MultiGen::new(Config {
        min_ttl_ms: config.min_ttl_ms,
        // What is asked for is that nothing younger goes, not when to kill.
        min_ttl: MinTtl::EachByItself,
        ..Config::default()
    })?;
    let tracker = Tracker::new(
        Box::new(ByHeat::when_told(engine)),
        &arena.name(program.pid()),
        TimeMs(0),
    )?;
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
    let activate = match can_steer(config) && shrink.is_some() {
        true => Some(Activate::start().map_err(io_error("starting the touching thread"))?),
        false => None,
    };
    let deactivate = match sources.lists.filter(|_| activate.is_some()) {
        Some(lists) => {
            let thread = Deactivate::start();
            Some((
                lists,
                thread.map_err(io_error("starting the thread that names cold pages"))?,
            ))
        }
        None => None,
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
    let mut walker = Walker::new(sources.walk, devices);
    walker
        .clear_in_background()
        .map_err(io_error("starting the thread that clears accessed bits"))?;
    let setup = Setup {
        budget_bytes: config.budget_bytes,
        actuator,
        swappiness: config.swappiness.base(),
        min_ttl_ms: config.min_ttl_ms,
        is_dry_run: config.dry_run,
        has_heat,
        has_pageout: false,
        has_kernel: false,
        abilities: Abilities::default(),
        nr_processors: std::thread::available_parallelism().map_or(1, usize::from),
        processors: processors_of_thread(0).ok(),
    };
    let threads = Threads {
        pageout,
        kernel: shrink,
        marker: activate,
        deactivator: deactivate,
        prefetcher: recall,
    };
    let group = Group::new(tracker, Members::new(tree), walker, recorder.clone());
    Ok(ReclaimLoop::new(
        setup,
        config.control,
        group,
        threads,
        recorder,
    ))
}

/// Whether the kernel may be told which pages are warm and which are cold: to touch and to name pages moves them on the
/// lists of the classic LRU only.
fn can_steer(config: &RunConfig) -> bool {
    let has_heat = config.policy == PolicyChoice::MglruHeat;
    let is_auto = config.actuator == ActuatorChoice::Auto;
    is_auto && has_heat && !access::is_multi_gen_on()
}

/// The kernel's swappiness of the group, which is free to change where the user has not said, the group is ours, and the
/// kernel is asked to reclaim by the classic LRU.
pub(super) fn swappiness_bias(config: &RunConfig) -> SwappinessBias {
    let asks_kernel = config.policy != PolicyChoice::None
        && config.actuator != ActuatorChoice::Pageout
        && !config.dry_run;
    let is_ours = matches!(config.target, Target::Command { .. });
    let is_free = is_ours && asks_kernel && config.swappiness == SwappinessChoice::Auto;
    SwappinessBias::new(
        config.swappiness.base().get(),
        is_free && !access::is_multi_gen_on(),
        config.control.swappiness,
    )
}

/// Of this thread and of those it starts from here on; never of the program, which has begun before.
fn set_nice(nice: i32) {
    if let Err(errno) = rustix::process::setpriority_process(None, nice) {
        tracing::debug!("no higher priority for our threads: {errno}");
    }
}

/// Why the report names this actuator.
pub(super) fn actuator_reason(
    actuator: ActuatorChoice,
    has_group: bool,
    is_kernel_told: bool,
) -> String {
    match (actuator, has_group) {
        (ActuatorChoice::Auto, true) if is_kernel_told => {
            "the kernel's reclaim, ahead of the limit, told which pages are warm; pageout of the \
             engine's choice where that finds none; programs that fill all processors by themselves \
             reclaim in their own faults"
        }
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
