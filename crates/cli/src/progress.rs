//! Progress bars on stderr, only where that is a terminal.
//!
//! **Owns** what a bar looks like and how often it is drawn. **Does not own** the work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use strata_sim::Progress;

/// Time between two looks at how far a file has been read.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// A bar for one piece of work.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
    watcher: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

impl Bar {
    /// For requests that are replayed or made.
    pub(crate) fn requests(name: &str, nr_requests: u64) -> Bar {
        Bar {
            bar: styled(name, nr_requests, "{human_pos}/{human_len} requests"),
            watcher: None,
        }
    }

    /// For a file that is read.
    pub(crate) fn bytes(name: &str, progress: &strata_trace::Progress) -> Bar {
        let total_bytes = progress.total_bytes().unwrap_or_default();
        let bar = styled(name, total_bytes, "{bytes}/{total_bytes} read");
        if bar.is_hidden() {
            return Bar { bar, watcher: None };
        }
        let is_done = Arc::new(AtomicBool::new(false));
        let (shown, seen, done) = (bar.clone(), progress.clone(), Arc::clone(&is_done));
        let look = move || {
            while !done.load(Ordering::Relaxed) {
                shown.set_position(seen.read_bytes());
                thread::sleep(LOOK_INTERVAL);
            }
        };
        Bar {
            bar,
            watcher: Some((is_done, thread::spawn(look))),
        }
    }

    /// The bar itself, for who counts on another path.
    pub(crate) fn clone_handle(&self) -> ProgressBar {
        self.bar.clone()
    }

    /// Takes the bar away.
    pub(crate) fn finish(self) {}
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some((is_done, watcher)) = self.watcher.take() {
            is_done.store(true, Ordering::Relaxed);
            // A watcher that panicked has nothing left to say.
            let _ = watcher.join();
        }
        self.bar.finish_and_clear();
    }
}

impl Progress for Bar {
    fn advance(&self, nr_requests: u64) {
        self.bar.inc(nr_requests);
    }
}

/// Draws to stderr; hidden by indicatif where that is no terminal.
fn styled(name: &str, len: u64, unit: &str) -> ProgressBar {
    let template = format!("{{prefix}} {{bar:30}} {unit}, {{eta}} left");
    let style = ProgressStyle::with_template(&template);
    let bar = ProgressBar::new(len).with_prefix(name.to_owned());
    match style {
        Ok(style) => bar.with_style(style),
        // The template is ours; without it the bar is only plainer.
        Err(_) => bar,
    }
}
