//! The beginning of a run: what is opened before the program starts (the trace, the doors for clients, the limit behind
//! the budget), and the program.
//!
//! **Owns** the order in which all that is opened, and what is wrong where something can't be. **Does not own** what becomes
//! of it (`session`).

use super::{BUDGET_BYTES_MIN, Session};
use crate::remote::{Doors, RemoteServer};
use crate::run::arena::Arena;
use crate::run::assemble::{self, Sources};
use crate::run::charges::Charges;
use crate::run::config::{RunConfig, Target};
use crate::run::error::{RunError, io_error};
use crate::run::event::Event;
use crate::run::program::Program;
use crate::run::reclaim_loop::ReclaimLoop;
use crate::run::report::Report;
use crate::run::savings::Savings;
use crate::run::strays::Strays;
use crate::run::trace::{Recorder, Trace};
use crate::run::usage::UsageMeter;
use std::time::Instant;
use strata_control::Watermarks;
use strata_control::limit::{Limit, Standing};
use strata_linux::cgroup::Version;
use strata_linux::process::Process;
use strata_linux::process::job::Job;
use strata_linux::process::launch::InheritedSignals;
use strata_linux::process::signals::Signals;

/// Manages the target until it ends (or, attached, until we are told to stop), and reports.
///
/// # Errors
/// [`RunError`] when nothing was managed; the target is left as it was.
pub fn run(config: &RunConfig, events: &mut dyn FnMut(Event<'_>)) -> Result<Report, RunError> {
    if config.budget_bytes < BUDGET_BYTES_MIN {
        return Err(RunError::BudgetTooSmall {
            budget_bytes: config.budget_bytes,
            least_bytes: BUDGET_BYTES_MIN,
        });
    }
    let inherited = InheritedSignals::read().map_err(io_error("reading our signal settings"))?;
    // Before anything is changed.
    let trace = open_trace(config)?;
    let owns_program = matches!(config.target, Target::Command { .. });
    let signals = Signals::install(owns_program).map_err(io_error("installing signal handlers"))?;
    // What can be known to be impossible is found out before anything is changed or started.
    if let Target::Pid(pid) = config.target {
        Process::open(pid)?;
    }
    let engine = config.policy.engine();
    let sources = engine.map(|_| Sources::open(config)).transpose()?;
    let mut arena = Arena::prepare(config, events)?;
    let now = Instant::now();
    let started = open_doors(config, &arena, events)
        .and_then(|doors| start(config, &arena, inherited, sources, doors, trace.recorder()));
    let started = match started {
        Ok(started) => started,
        Err(error) => {
            for warning in arena.undo() {
                events(Event::Warning(&warning));
            }
            return Err(error);
        }
    };
    let Started {
        program,
        managed,
        remote,
    } = started;
    let recorder = trace.recorder();
    arena.note_program(program.pid());
    let meter = UsageMeter::new(config.budget_bytes, arena.gauge.name());
    let session = Session {
        config,
        events,
        marks: Watermarks::new(config.budget_bytes, &config.control.watermarks),
        stats_at_start: arena.kernel_counters(),
        savings: Savings::default(),
        charges: Charges::default(),
        strays: Strays::default(),
        limit: limit_of(config, &arena),
        standing: Standing::Fine,
        arena,
        program,
        managed,
        signals,
        job: Job::default(),
        meter,
        started: now,
        remote,
        is_paused: false,
        is_dry_run: config.dry_run,
        warnings: Vec::new(),
        last_savings: None,
        is_floor_told: false,
        has_ended: false,
        trace,
        recorder,
    };
    session.hold()
}

struct Started {
    program: Program,
    managed: Option<ReclaimLoop>,
    remote: Option<RemoteServer>,
}

fn start(
    config: &RunConfig,
    arena: &Arena<'_>,
    inherited: InheritedSignals,
    sources: Option<Sources>,
    doors: Doors,
    recorder: Recorder,
) -> Result<Started, RunError> {
    let program = Program::start(&config.target, || arena.join_file(), inherited)?;
    let remote = match RemoteServer::start(doors) {
        Ok(remote) => Some(remote),
        Err(error) => {
            tracing::warn!("nobody can be talked to: {error}");
            None
        }
    };
    let managed = sources.map(|of| assemble::reclaim_loop(config, arena, &program, of, recorder));
    let managed = match managed.transpose() {
        Ok(managed) => managed,
        Err(error) => {
            program.abandon();
            return Err(error);
        }
    };
    Ok(Started {
        program,
        managed,
        remote,
    })
}

/// The limit behind the budget; without a group there is none, and nothing is asked of it.
fn limit_of(config: &RunConfig, arena: &Arena<'_>) -> Limit {
    let group = arena.gauge.group();
    let version = group.map_or(Version::V2, |group| group.version());
    let control = &config.control;
    let marks = Watermarks::new(config.budget_bytes, &control.watermarks);
    Limit::new(version, &marks, control.limit)
}

/// Begins the trace, where one was asked for.
fn open_trace(config: &RunConfig) -> Result<Trace, RunError> {
    let Some(path) = &config.trace else {
        return Ok(Trace::default());
    };
    Trace::begin(path).map_err(|source| RunError::Trace {
        path: path.clone(),
        source,
    })
}

/// Opens what others may ask through. Without a socket a run is as good as with one; metrics were
/// asked for.
fn open_doors(
    config: &RunConfig,
    arena: &Arena<'_>,
    events: &mut dyn FnMut(Event<'_>),
) -> Result<Doors, RunError> {
    let mut doors = Doors::open(&config.metrics).map_err(|source| RunError::Metrics {
        address: config
            .metrics
            .address
            .unwrap_or_else(|| ([127, 0, 0, 1], 0).into()),
        source,
    })?;
    if let Some((_, directory)) = arena.place()
        && let Err(error) = doors.open_socket(directory)
    {
        let path = directory.display();
        events(Event::Warning(&format!(
            "no control socket in {path}: {error}"
        )));
    }
    if let Some(address) = doors.metrics_address() {
        events(Event::Note(&format!("metrics: http://{address}/metrics")));
    }
    Ok(doors)
}
