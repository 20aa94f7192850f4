//! Ctrl-C as a wish to end with what there is so far.
//!
//! **Owns** the handlers of INT, TERM and HUP for verbs that watch. **Does not own** what is done
//! about it. `run` has its own: it passes signals on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use strata_host::compare::Wanted;

/// Whether somebody wants an end. The second wish ends the process at once.
#[derive(Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs the handlers, for the rest of the process.
    ///
    /// # Errors
    /// Where the system refuses a handler.
    pub(crate) fn install() -> anyhow::Result<Interrupt> {
        let has_come = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // This one first: it looks at the flag as it was before this signal.
            flag::register_conditional_default(signal, Arc::clone(&has_come))
                .and_then(|_| flag::register(signal, Arc::clone(&has_come)))
                .context("installing signal handlers failed")?;
        }
        Ok(Interrupt(has_come))
    }

    /// Whether the wish has come.
    pub(crate) fn has_come(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Wishes to end a verb that has something under way: the second one ends that at once, the third the process.
#[derive(Debug)]
pub(crate) struct Interrupts(Arc<AtomicUsize>);

impl Interrupts {
    /// Installs the handlers and the thread that counts, for the rest of the process.
    ///
    /// # Errors
    /// Where the system refuses either.
    pub(crate) fn install() -> anyhow::Result<Interrupts> {
        let count = Arc::new(AtomicUsize::new(0));
        let mut signals =
            Signals::new([SIGINT, SIGTERM, SIGHUP]).context("installing signal handlers failed")?;
        let counted = Arc::clone(&count);
        thread::Builder::new()
            .name("strata-signals".to_owned())
            .spawn(move || {
                for signal in signals.forever() {
                    if counted.fetch_add(1, Ordering::Relaxed) >= 2 {
                        // It ends us; where it can't there is nothing more to try.
                        let _ = emulate_default_handler(signal);
                    }
                }
            })
            .context("starting a thread for signals failed")?;
        Ok(Interrupts(count))
    }

    /// What is wanted by now.
    pub(crate) fn wanted(&self) -> Wanted {
        match self.0.load(Ordering::Relaxed) {
            0 => Wanted::All,
            1 => Wanted::End,
            _ => Wanted::EndAtOnce,
        }
    }
}
