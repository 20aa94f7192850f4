//! What other programs are told of a guard: the service manager that started it, and Prometheus.
//!
//! **Owns** when either is told. **Does not own** the metrics (`strata_host::metrics`), how they are fetched
//! (`strata_host::remote`), nor the way to the service manager (`sd_notify`).
//!
//! **Invariants** I1: neither can hold a guard up, or end it: a thread of its own waits for a service manager that does not
//! listen, and without one nothing is said.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use anyhow::Context as _;
use sd_notify::NotifyState;
use strata_host::managed::Status;
use strata_host::metrics::render_guard;
use strata_host::remote::{MetricsConfig, Served};
use strata_linux::units::Bytes;

use super::aside::Talker;
use crate::print;

/// Scrapes are answered for so long at each turn.
const ANSWER_SPAN: Duration = Duration::from_millis(1);
/// Words to the service manager that wait at most; it hears the next ones as well.
const WAITING_MAX: usize = 8;
/// The last word is waited for so long.
const LAST_WORD_MAX: Duration = Duration::from_millis(200);

/// Those who are told.
pub(super) struct Service {
    served: Option<Served>,
    metrics: String,
    is_ready: bool,
    manager: Option<Talker<Word, ()>>,
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
            manager: manager(),
        })
    }

    /// A walk has ended.
    pub(super) fn walked(&mut self, status: &Status) {
        if self.served.is_some() {
            self.metrics = render_guard(status);
        }
        self.say(Word::Status(one_line(status)));
    }

    /// A turn of the loop has ended: it goes on.
    pub(super) fn turn(&mut self) {
        if !self.is_ready {
            self.is_ready = true;
            self.say(Word::Ready);
        }
        self.say(Word::Watchdog);
        if let Some(served) = &mut self.served {
            for trouble in served.answer(&|| self.metrics.clone(), ANSWER_SPAN) {
                print::warning(&trouble);
            }
        }
    }

    /// The guard ends.
    pub(super) fn end(self) {
        self.say(Word::Stopping);
        // No longer than the last word may take.
        self.manager.and_then(|manager| manager.end(LAST_WORD_MAX));
    }

    fn say(&self, word: Word) {
        if let Some(manager) = &self.manager {
            // One that does not listen misses it.
            let _is_there = manager.say(word);
        }
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

/// What the service manager is told.
#[derive(Debug)]
enum Word {
    Ready,
    Status(String),
    Watchdog,
    Stopping,
}

/// The way to the service manager; `None` where none has started this process.
fn manager() -> Option<Talker<Word, ()>> {
    std::env::var_os("NOTIFY_SOCKET")?;
    let talk = |heard: Receiver<Word>| {
        for word in heard {
            let said = match &word {
                Word::Ready => sd_notify::notify(&[NotifyState::Ready]),
                Word::Status(line) => sd_notify::notify(&[NotifyState::Status(line)]),
                Word::Watchdog => sd_notify::notify(&[NotifyState::Watchdog]),
                Word::Stopping => sd_notify::notify(&[NotifyState::Stopping]),
            };
            if let Err(error) = said {
                tracing::debug!("the service manager is not told: {error}");
            }
        }
    };
    let told = |error: &std::io::Error| {
        print::warning(&format_args!("the service manager is not told: {error}"));
    };
    let started = Talker::start("strata-notify", WAITING_MAX, talk);
    started.inspect_err(told).ok()
}
