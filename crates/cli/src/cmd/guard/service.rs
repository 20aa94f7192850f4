//! What other programs are told of a guard: the service manager that started it, and Prometheus.
//!
//! **Owns** when either is told. **Does not own** the metrics (`strata_host::metrics`), how they are fetched
//! (`strata_host::remote`), nor the way to the service manager (`sd_notify`).
//!
//! **Invariants** I1: neither can hold a guard up, or end it: without a service manager nothing is said.

use std::time::Duration;

use anyhow::Context as _;
use sd_notify::NotifyState;
use strata_host::managed::Status;
use strata_host::metrics::render_guard;
use strata_host::remote::{MetricsConfig, Served};
use strata_linux::units::Bytes;

use crate::print;

/// Scrapes are answered for so long at each turn.
const ANSWER_SPAN: Duration = Duration::from_millis(1);

/// Those who are told.
pub(super) struct Service {
    served: Option<Served>,
    metrics: String,
    is_ready: bool,
}

impl Service {
    /// Opens the port of the metrics.
    pub(super) fn start(metrics: &MetricsConfig) -> anyhow::Result<Service> {
        let mut served = None;
        if *metrics != MetricsConfig::default() {
            let opened = Served::open(metrics);
            let opened =
                opened.context("metrics can't be answered; choose another port (0: any)")?;
            if let Some(address) = opened.address() {
                print::note(&format!("metrics at http://{address}/metrics"));
            }
            served = Some(opened);
        }
        Ok(Service {
            served,
            metrics: String::new(),
            is_ready: false,
        })
    }

    /// A walk has ended.
    pub(super) fn walked(&mut self, status: &Status) {
        if self.served.is_some() {
            self.metrics = render_guard(status);
        }
        say(&[NotifyState::Status(&one_line(status))]);
    }

    /// A turn of the loop has ended: it goes on.
    pub(super) fn turn(&mut self) {
        if !self.is_ready {
            self.is_ready = true;
            say(&[NotifyState::Ready]);
        }
        say(&[NotifyState::Watchdog]);
        for served in &mut self.served {
            for trouble in served.answer(&|| self.metrics.clone(), ANSWER_SPAN) {
                print::warning(&trouble);
            }
        }
    }

    /// The guard ends.
    pub(super) fn end(self) {
        say(&[NotifyState::Stopping]);
    }
}

fn one_line(status: &Status) -> String {
    let nr_groups = status.groups.len();
    let plural = if nr_groups == 1 { "" } else { "s" };
    let could_give_bytes = status.groups.iter().map(|group| group.could_give_bytes);
    let amount = match status.is_acting {
        true => format!("given back {} net", Bytes(status.given_back_bytes)),
        false => format!("{} could be given back", Bytes(could_give_bytes.sum())),
    };
    format!("{amount}; {nr_groups} group{plural}")
}

fn say(what: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(what) {
        tracing::debug!("the service manager is not told: {error}");
    }
}
