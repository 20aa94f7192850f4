//! Putting a managed group together from a configuration.
//!
//! **Owns** which parts a run gets and why. **Does not own** any of them.

use crate::engine::census::cache;
use crate::observe::{Observer, OpenSource};
use crate::pages::tracker::Tracker;
use crate::run::ActuatorChoice;
use crate::run::actuators::Threads;
use crate::run::arena::Arena;
use crate::run::config::RunConfig;
use crate::run::error::{RunError, io_error};
use crate::run::group::Group;
use crate::run::program::Program;
use crate::run::reclaim_loop::ReclaimLoop;
use crate::run::trace::Recorder;
use crate::run::would_evict::WouldEvict;
use std::sync::Arc;
use strata_control::Setup;
use strata_linux::access::{self, AccessSource};
use strata_linux::actuator::{CpuBound, start_pageout, start_shrink};
use strata_linux::cgroup::Version;
use strata_lru::{EnginePolicy, TimeMs};

/// What one request may reclaim on cgroup v1 at most, in dips.
const DIP_RUN_BYTES: u64 = 32 << 20;

/// Who sees the accesses: for walks, and for the pageout thread, which needs one of its own.
#[derive(Debug)]
pub(super) struct Sources {
    walk: Box<dyn AccessSource>,
    /// How `walk` is opened once more.
    open: OpenSource,
    pageout: Box<dyn AccessSource>,
    /// What a dry run plays.
    would_evict: Option<WouldEvict>,
}

impl Sources {
    /// Opens them; to be done before anything is changed or started, because it may be impossible.
    pub(super) fn open(config: &RunConfig) -> Result<Sources, RunError> {
        engine(config)?;
        let would_evict = WouldEvict::of_dry_run(config);
        let played = would_evict.clone();
        let open = OpenSource::new(config.access, move |walk| match played.clone() {
            Some(would_evict) => would_evict.played(walk),
            None => walk,
        });
        Ok(Sources {
            walk: open.open()?,
            open,
            pageout: access::open(config.access)?,
            would_evict,
        })
    }
}

/// Builds everything that works on the group.
pub(super) fn reclaim_loop(
    config: &RunConfig,
    arena: &Arena<'_>,
    program: &Program,
    sources: Sources,
    recorder: Recorder,
) -> Result<ReclaimLoop, RunError> {
    let engine = engine(config)?;
    let has_bpf = sources.walk.info().name == "bpf";
    let tracker = Tracker::new(engine.build()?, &arena.name(program.pid()), TimeMs(0))?;
    let observer = Observer::follow(
        program.root().cloned(),
        arena.gauge.group().is_some(),
        program.pid().unwrap_or(1),
        sources.open,
        sources.walk,
    )?;
    // Without a group there is nothing the kernel could be asked to reclaim from.
    let actuator = match arena.gauge.group() {
        Some(_) => config.actuator,
        None => ActuatorChoice::Pageout,
    };
    let uses_pageout = actuator != ActuatorChoice::Reclaim;
    let pageout_bound = CpuBound::default();
    let pageout = match uses_pageout && !config.dry_run {
        true => {
            let started = start_pageout(sources.pageout, usize::MAX, pageout_bound.clone());
            Some(started.map_err(io_error("starting the pageout thread"))?)
        }
        false => None,
    };
    let shrink = match arena.gauge.group() {
        Some(group) if actuator != ActuatorChoice::Pageout && !config.dry_run => {
            let group = Arc::clone(group);
            let least_bytes = match group.version() {
                // A dip stops one step below the budget by itself; while the program grows as fast
                // as it is reclaimed, going on there beats coming back.
                Version::V1 if config.cpu_percent_max.is_none() => DIP_RUN_BYTES,
                Version::V1 | Version::V2 => 0,
            };
            let shrink = move |bytes: u64| group.reclaim(bytes.max(least_bytes));
            Some(start_shrink(1, shrink).map_err(io_error("starting the reclaim thread"))?)
        }
        _ => None,
    };
    let can_drop_cache = config.drop_cache && has_bpf;
    let cache = match arena.gauge.group().filter(|_| can_drop_cache) {
        Some(group) => {
            let cache = cache::start(cache::Subject::Whole {
                group: group.path().to_owned(),
                idle: config.control.drop_cache,
                newcomers: config.control.admit_cache,
                is_dry_run: config.dry_run,
            });
            Some(cache.map_err(io_error("starting the thread that looks at page cache"))?)
        }
        None => None,
    };
    let setup = Setup {
        budget_bytes: config.budget_bytes,
        actuator,
        swappiness: config.swappiness.base(),
        min_ttl_ms: config.min_ttl_ms,
        is_dry_run: config.dry_run,
        is_exact: config.is_exact,
        has_pageout: false,
        has_kernel: false,
        cpu_percent_max: config.cpu_percent_max,
        nr_processors: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let threads = Threads {
        pageout,
        pageout_bound,
        kernel: shrink,
        cache,
        would_evict: sources.would_evict,
    };
    let group = Group::new(tracker, observer);
    Ok(ReclaimLoop::new(
        setup,
        config.control,
        group,
        threads,
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
