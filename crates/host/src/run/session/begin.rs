//! What a session opens before the program starts: the trace, the doors for clients, the limit behind the budget.
//!
//! **Owns** opening them, and what is wrong where one can't be opened. **Does not own** what becomes of them (`session`).

use crate::remote::Doors;
use crate::run::arena::Arena;
use crate::run::config::RunConfig;
use crate::run::error::RunError;
use crate::run::event::Event;
use crate::run::trace::Trace;
use strata_control::Watermarks;
use strata_control::limit::Limit;
use strata_linux::cgroup::Version;

/// The limit behind the budget; without a group there is none, and nothing is asked of it.
pub(super) fn limit_of(config: &RunConfig, arena: &Arena) -> Limit {
    let group = arena.gauge().group();
    let version = group.map_or(Version::V2, |group| group.version());
    let control = &config.control;
    let marks = Watermarks::new(config.budget_bytes, &control.watermarks);
    Limit::new(version, &marks, control.limit)
}

/// Begins the trace, where one was asked for.
pub(super) fn open_trace(config: &RunConfig) -> Result<Trace, RunError> {
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
pub(super) fn open_doors(
    config: &RunConfig,
    arena: &Arena,
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
