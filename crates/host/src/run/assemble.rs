//! Putting a managed group together from a configuration.
//!
//! **Owns** which parts a run gets and why. **Does not own** any of them.

use crate::pages::members::Members;
use crate::pages::tracker::Tracker;
use crate::pages::walk::Walker;
use crate::run::ActuatorChoice;
use crate::run::actuators::Threads;
use crate::run::arena::Arena;
use crate::run::config::RunConfig;
use crate::run::error::{RunError, io_error};
use crate::run::event::Event;
use crate::run::group::Group;
use crate::run::priority::Priority;
use crate::run::program::Program;
use crate::run::reclaim_loop::ReclaimLoop;
use crate::run::trace::Recorder;
use crate::run::would_evict::WouldEvict;
use std::sync::Arc;
use strata_control::{Abilities, Lever, Setup};
use strata_linux::access::{self, AccessChoice, AccessSource, Ager, ListsSource};
use strata_linux::actuator::{Activate, CacheThread, Deactivate, Pageout, Recall, ShrinkThread};
use strata_linux::cgroup::{GroupReader, Version};
use strata_linux::process::{MemoryDevices, ProcessTree};
use strata_lru::{EnginePolicy, TimeMs};

/// What one request may reclaim on cgroup v1 at most, in dips.
const DIP_RUN_BYTES: u64 = 32 << 20;

/// Who sees the accesses: for walks, and for the pageout thread, which needs one of its own.
#[derive(Debug)]
pub(super) struct Sources {
    walk: Box<dyn AccessSource>,
    pageout: Box<dyn AccessSource>,
    /// `None` where the kernel's lists can't be looked at without changing what it does, or nobody would.
    lists: Option<ListsSource>,
    /// What a dry run plays.
    would_evict: Option<WouldEvict>,
}

impl Sources {
    /// Opens them; to be done before anything is changed or started, because it may be impossible.
    pub(super) fn open(config: &RunConfig) -> Result<Sources, RunError> {
        engine(config)?;
        let is_classic = !access::is_multi_gen_on();
        let wants_lists = is_classic && can_steer(config) && config.access != AccessChoice::Smaps;
        let lists = wants_lists.then(ListsSource::open).and_then(|lists| {
            let log = |error: &_| tracing::debug!(%error, "the kernel moves pages between its lists by itself");
            lists.inspect_err(log).ok()
        });
        let would_evict = WouldEvict::of_dry_run(config);
        let walk = access::open(config.access)?;
        Ok(Sources {
            walk: match would_evict.clone() {
                Some(would_evict) => would_evict.played(walk),
                None => walk,
            },
            pageout: access::open(config.access)?,
            lists,
            would_evict,
        })
    }
}

/// Builds everything that works on the group.
pub(super) fn reclaim_loop(
    config: &RunConfig,
    arena: &Arena,
    program: &Program,
    (sources, hints): (Sources, Hints),
    recorder: Recorder,
) -> Result<ReclaimLoop, RunError> {
    let engine = engine(config)?;
    let has_bpf = sources.walk.info().name == "bpf";
    let tracker = Tracker::new(engine.told()?, &arena.name(program.pid()), TimeMs(0))?;
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
                Version::V1 if config.cpu_percent_max.is_none() => DIP_RUN_BYTES,
                Version::V1 | Version::V2 => 0,
            };
            let shrink = move |bytes: u64| group.reclaim(bytes.max(least_bytes));
            Some(ShrinkThread::start(shrink).map_err(io_error("starting the reclaim thread"))?)
        }
        _ => None,
    };
    let has_heat = config.policy.has_heat();
    let Hints { lever, seeing, .. } = hints;
    let lever = lever.filter(|_| shrink.is_some());
    let activate = match lever {
        Some(lever) => {
            let thread = Activate::start(lever);
            Some((
                thread.map_err(io_error("starting the touching thread"))?,
                lever,
            ))
        }
        None => None,
    };
    // Which are the coldest of the active pages only heat can tell.
    let deactivate = match sources.lists.filter(|_| activate.is_some() && has_heat) {
        Some(lists) => {
            let thread = Deactivate::start();
            Some((
                lists,
                thread.map_err(io_error("starting the thread that names cold pages"))?,
            ))
        }
        None => None,
    };
    let can_recall =
        config.prefetch && actuator == ActuatorChoice::Auto && has_heat && !config.dry_run;
    let recall = match arena.gauge().group().filter(|_| can_recall) {
        Some(group) => {
            let group = Arc::clone(group);
            let recall = Recall::start(move || group.usage_bytes().ok());
            Some(recall.map_err(io_error("starting the thread that reads ahead"))?)
        }
        None => None,
    };
    let can_drop_cache = config.drop_cache && has_bpf;
    let cache = match arena.gauge().group().filter(|_| can_drop_cache) {
        Some(group) => {
            let cache = CacheThread::start(
                group.path(),
                config.control.drop_cache,
                config.control.admit_cache,
                config.dry_run,
            );
            Some(cache.map_err(io_error("starting the thread that looks at page cache"))?)
        }
        None => None,
    };
    let mut walker = Walker::new(sources.walk, devices);
    walker
        .clear_in_background()
        .map_err(io_error("starting the thread that clears accessed bits"))?;
    if let Some((ager, spared_flags)) = seeing.filter(|_| lever.is_some()) {
        walker.source().know_spared(spared_flags);
        walker.clear_by_ageing(ager);
    }
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
        cpu_percent_max: config.cpu_percent_max,
        nr_processors: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let threads = Threads {
        pageout,
        kernel: shrink,
        marker: activate,
        deactivator: deactivate,
        prefetcher: recall,
        cache,
        would_evict: sources.would_evict,
    };
    let group = Group::new(tracker, Members::new(tree), walker, recorder.clone());
    Ok(ReclaimLoop::new(
        setup,
        config.control,
        group,
        threads,
        Priority::new(),
        recorder,
    ))
}

/// The engine's policy, which takes nothing younger than `min_ttl`: that is what is asked for, not when to kill.
fn engine(config: &RunConfig) -> Result<EnginePolicy, RunError> {
    let asked = config.policy.engine();
    let policy = asked.ok_or_else(|| RunError::NoEngine(config.policy.to_string()))?;
    let ages = match config.min_ttl_ms {
        own_ms if own_ms == policy.config().min_ttl_ms => Some(policy.clone()),
        min_ttl_ms => policy.with_min_ttl(min_ttl_ms),
    };
    ages.ok_or_else(|| RunError::NoAges(config.policy.to_string()))
}

/// Whether the kernel may be told which pages are warm, if it can be.
fn can_steer(config: &RunConfig) -> bool {
    let decides = config.policy.engine().is_some();
    let is_auto = config.actuator == ActuatorChoice::Auto;
    is_auto && decides && !config.dry_run
}

/// What the kernel can be told here.
#[derive(Debug, Default)]
pub(super) struct Hints {
    /// What touching a warm page does.
    lever: Option<Lever>,
    /// Where the lever is [`Lever::FiveTouches`]: who clears accessed bits, and the flags of pages that are passed over.
    seeing: Option<(Ager, u64)>,
}

impl Hints {
    /// Finds out what works here, by a trial where that depends on the kernel. To be done when swap is there and before the
    /// program is.
    pub(super) fn find(
        config: &RunConfig,
        arena: &Arena,
        events: &mut dyn FnMut(Event<'_>),
    ) -> Hints {
        let Some(group) = arena.gauge().group().filter(|_| can_steer(config)) else {
            return Hints::default();
        };
        if !access::is_multi_gen_on() {
            return Hints {
                lever: Some(Lever::Activation),
                ..Hints::default()
            };
        }
        // Sums of mappings tell neither which pages are idle nor which are spared already.
        if config.access == AccessChoice::Smaps {
            return Hints::default();
        }
        let tried = arena.try_five_touches().and_then(|spared_flags| {
            let reader = GroupReader::open(group.path())?;
            Ok((Ager::open(&reader)?, spared_flags))
        });
        match tried {
            Ok(seeing) => Hints {
                lever: Some(Lever::FiveTouches),
                seeing: Some(seeing),
            },
            Err(error) => {
                events(Event::Note(&format!(
                    "the kernel is not told which pages are warm: {error}"
                )));
                Hints::default()
            }
        }
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
             engine's choice where that finds none; while no processor is free, the programs in their \
             own faults"
        }
        (ActuatorChoice::Auto, true) => {
            "pageout of the engine's choice; for what that can't keep up with the kernel's reclaim, \
             ahead of the limit; while no processor is free, the programs in their own faults"
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
