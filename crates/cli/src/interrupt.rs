//! Ctrl-C as a wish to end with what there is so far.
//!
//! **Owns** the handlers of INT, TERM and HUP for verbs that watch, and the thread that counts them. **Does not own** what is done
//! about it. `run` has its own: it passes signals on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use strata_host::compare::Wanted;

/// How long a sleep may keep Ctrl-C waiting.
const NAP: Duration = Duration::from_millis(50);

/// How often somebody wanted an end.
#[derive(Debug)]
pub(crate) struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Installs the handlers, for the rest of the process. The second wish ends the process at once.
    ///
    /// # Errors
    /// Where the system refuses a handler or a thread.
    pub(crate) fn install() -> anyhow::Result<Interrupt> {
        Interrupt::bearing(1)
    }

    /// For a verb that has something under way, which the second wish ends at once; the third ends the process.
    ///
    /// # Errors
    /// Where the system refuses a handler or a thread.
    pub(crate) fn with_something_under_way() -> anyhow::Result<Interrupt> {
        Interrupt::bearing(2)
    }

    /// So many wishes are counted; one more ends the process.
    fn bearing(nr_wishes: usize) -> anyhow::Result<Interrupt> {
        let count = Arc::new(AtomicUsize::new(0));
        let mut signals =
            Signals::new([SIGINT, SIGTERM, SIGHUP]).context("installing signal handlers failed")?;
        let counted = Arc::clone(&count);
        thread::Builder::new()
            .name("strata-signals".to_owned())
            .spawn(move || {
                for signal in signals.forever() {
                    if counted.fetch_add(1, Ordering::Relaxed) >= nr_wishes {
                        // It ends us; where it can't there is nothing more to try.
                        let _ = emulate_default_handler(signal);
                    }
                }
            })
            .context("starting a thread for signals failed")?;
        Ok(Interrupt(count))
    }

    /// Whether a wish has come.
    pub(crate) fn has_come(&self) -> bool {
        self.wanted() != Wanted::All
    }

    /// What is wanted by now.
    pub(crate) fn wanted(&self) -> Wanted {
        match self.0.load(Ordering::Relaxed) {
            0 => Wanted::All,
            1 => Wanted::End,
            _ => Wanted::EndAtOnce,
        }
    }

    /// Sleeps until then, or until a wish has come or `is_over` says so.
    pub(crate) fn nap_until(&self, at: Instant, is_over: impl Fn() -> bool) {
        loop {
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() || self.has_come() || is_over() {
                return;
            }
            thread::sleep(left.min(NAP));
        }
    }
}
