//! Ctrl-C as a wish to end with what there is so far.
//!
//! **Owns** the handlers of INT, TERM and HUP for verbs that watch. **Does not own** what is done
//! about it. `run` has its own: it passes signals on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

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
