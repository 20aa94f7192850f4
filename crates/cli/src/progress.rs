//! How far long work is, on stderr: a bar on a terminal, elsewhere a line every ten seconds.
//!
//! **Owns** what a bar and a line look like and how often they are drawn. **Does not own** the work.
//!
//! **Invariants** I1: work that takes less than ten seconds says nothing where stderr is no terminal.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use strata_sim::Progress;

use crate::print;

/// Time between two looks at how far a file has been read.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two lines where stderr is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// What is counted, and how a count of it is written.
type Unit = (&'static str, fn(u64) -> String);
/// A file that is read.
const READ: Unit = ("read", |bytes| HumanBytes(bytes).to_string());

/// A bar for one piece of work.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
    teller: Option<Teller>,
}

/// A thread that looks from time to time, until it is told to end.
#[derive(Debug)]
struct Teller {
    end: Sender<()>,
    thread: JoinHandle<()>,
}

impl Teller {
    fn start(interval: Duration, mut look: impl FnMut() + Send + 'static) -> Teller {
        let (end, ended) = mpsc::channel();
        let thread = thread::spawn(move || {
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                look();
            }
        });
        Teller { end, thread }
    }

    fn end(self) {
        drop(self.end);
        // A thread that panicked has nothing left to say.
        let _ = self.thread.join();
    }
}

impl Bar {
    /// For requests that are replayed or made.
    pub(crate) fn requests(name: &str, nr_requests: u64) -> Bar {
        Bar::counted(name, nr_requests, "requests")
    }

    /// For runs of a command.
    pub(crate) fn runs(name: &str, nr_runs: u64) -> Bar {
        Bar::counted(name, nr_runs, "runs")
    }

    fn counted(name: &str, nr: u64, what: &'static str) -> Bar {
        let bar = styled(name, nr, &format!("{{human_pos}}/{{human_len}} {what}"));
        let told = || lines(name, &bar, (what, |nr| HumanCount(nr).to_string()), || None);
        let teller = bar.is_hidden().then(told);
        Bar { bar, teller }
    }

    /// For a file that is read.
    pub(crate) fn bytes(name: &str, progress: &strata_trace::Progress) -> Bar {
        let total_bytes = progress.total_bytes().unwrap_or_default();
        let bar = styled(name, total_bytes, "{bytes}/{total_bytes} read");
        let (shown, seen) = (bar.clone(), progress.clone());
        let teller = match bar.is_hidden() {
            true => lines(name, &bar, READ, move || Some(seen.read_bytes())),
            false => Teller::start(LOOK_INTERVAL, move || shown.set_position(seen.read_bytes())),
        };
        Bar {
            bar,
            teller: Some(teller),
        }
    }

    /// For a watch of so long: lines only, as nothing is counted.
    pub(crate) fn watch(name: &str, length: Duration) -> Bar {
        let bar = styled(name, length.as_secs(), "{pos}/{len} s");
        let teller = bar.is_hidden().then(|| {
            let (name, all_s) = (name.to_owned(), length.as_secs());
            let mut elapsed = Duration::ZERO;
            Teller::start(LINE_INTERVAL, move || {
                elapsed += LINE_INTERVAL;
                let done_s = elapsed.as_secs().min(all_s);
                print::note(&format!("{name}: {done_s} of {all_s} s"));
            })
        });
        Bar { bar, teller }
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
        if let Some(teller) = self.teller.take() {
            teller.end();
        }
        self.bar.finish_and_clear();
    }
}

impl Progress for Bar {
    fn advance(&self, nr_requests: u64) {
        self.bar.inc(nr_requests);
    }
}

/// A line every ten seconds; `position` tells how far it is where the bar itself is not kept up.
fn lines(
    name: &str,
    bar: &ProgressBar,
    unit: Unit,
    position: impl Fn() -> Option<u64> + Send + 'static,
) -> Teller {
    let (name, bar) = (name.to_owned(), bar.clone());
    let mut elapsed = Duration::ZERO;
    Teller::start(LINE_INTERVAL, move || {
        elapsed += LINE_INTERVAL;
        let done = position().unwrap_or_else(|| bar.position());
        let all = bar.length().filter(|all| *all > 0);
        print::note(&line(&name, unit, done, all, elapsed));
    })
}

/// How far it is, and how long it will take at this speed.
fn line(name: &str, unit: Unit, done: u64, all: Option<u64>, elapsed: Duration) -> String {
    let (what, number) = unit;
    let elapsed_s = elapsed.as_secs();
    let Some(all) = all else {
        return format!("{name}: {} {what}, after {elapsed_s} s", number(done));
    };
    // A file may grow while it is read.
    let (done, all) = (u128::from(done), u128::from(all.max(done)));
    let percent = done * 100 / all.max(1);
    let left = (all - done) * u128::from(elapsed_s);
    let left = match left.checked_div(done) {
        Some(left_s) => format!(", about {left_s} s left"),
        None => String::new(),
    };
    let [done, all] = [done, all].map(|of| number(u64::try_from(of).unwrap_or(u64::MAX)));
    format!("{name}: {percent} % ({done} of {all} {what}), after {elapsed_s} s{left}")
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_line_says_how_far_it_is_and_how_long_it_will_take() {
        let line = |unit, done, all, s| line("t", unit, done, all, Duration::from_secs(s));
        let count: fn(u64) -> String = |nr| HumanCount(nr).to_string();
        let (requests, runs) = (("requests", count), ("runs", count));
        assert_eq!(
            line(requests, 25_000_000, Some(100_000_000), 10),
            "t: 25 % (25,000,000 of 100,000,000 requests), after 10 s, about 30 s left"
        );
        assert_eq!(
            line(READ, 3 << 20, Some(4 << 20), 30),
            "t: 75 % (3.00 MiB of 4.00 MiB read), after 30 s, about 10 s left"
        );
        assert_eq!(
            line(READ, 1 << 20, None, 20),
            "t: 1.00 MiB read, after 20 s"
        );
        assert_eq!(
            line(requests, 0, Some(7), 10),
            "t: 0 % (0 of 7 requests), after 10 s"
        );
        assert_eq!(
            line(runs, 2, Some(10), 20),
            "t: 20 % (2 of 10 runs), after 20 s, about 80 s left"
        );
        // More than there was to be, and numbers as large as they get.
        assert!(line(READ, 5 << 20, Some(4 << 20), 10).starts_with("t: 100 %"));
        assert!(line(requests, u64::MAX, Some(u64::MAX), u64::MAX).starts_with("t: 100 %"));
    }

    #[test]
    fn a_teller_looks_until_it_is_ended() {
        let nr_looks = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&nr_looks);
        let teller = Teller::start(Duration::from_millis(1), move || {
            seen.fetch_add(1, Ordering::Relaxed);
        });
        while nr_looks.load(Ordering::Relaxed) < 3 {
            thread::sleep(Duration::from_millis(1));
        }
        teller.end();
        let nr_then = nr_looks.load(Ordering::Relaxed);
        thread::sleep(Duration::from_millis(20));
        assert_eq!(nr_looks.load(Ordering::Relaxed), nr_then);
    }
}
