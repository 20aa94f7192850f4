//! Whether a thread of Strata stands still: it waits in the kernel, and has done nothing for a while.
//!
//! A call that takes a lock of another program may wait for as long as that program pleases, and can't be broken off. Whoever
//! gave the work to the thread finds out here, and goes on without it.
//!
//! **Owns** the count of steps and how it is judged. **Does not own** the thread, nor what follows.
//!
//! **Invariants**
//! - I1: a thread that waits for a processor does not stand still, however busy the machine is.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::process::read_stat;

/// The thread's side; clones count the same steps.
#[derive(Clone, Debug, Default)]
pub struct Steps(Arc<Counted>);

#[derive(Debug, Default)]
struct Counted {
    nr_steps: AtomicU64,
    tid: AtomicI32,
}

impl Steps {
    /// The thread that calls is the one.
    pub fn begin(&self) {
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        self.0.tid.store(tid, Ordering::Relaxed);
    }

    /// Something was done.
    pub fn note(&self) {
        self.0.nr_steps.fetch_add(1, Ordering::Relaxed);
    }
}

/// The other side.
#[derive(Debug)]
pub struct Standstill {
    steps: Steps,
    seen: u64,
    since: Instant,
    /// Whether a thread waits in the kernel.
    waits_in_kernel: fn(i32) -> bool,
}

impl Standstill {
    /// Watches a thread.
    pub fn new(steps: Steps) -> Standstill {
        Standstill {
            steps,
            seen: 0,
            since: Instant::now(),
            waits_in_kernel,
        }
    }

    /// As [`Standstill::new`], where a thread counts as waiting whatever it does: for tests, in which no file system is frozen.
    pub fn of_any_wait(steps: Steps) -> Standstill {
        Standstill {
            waits_in_kernel: |_| true,
            ..Standstill::new(steps)
        }
    }

    /// The thread is at work from here on.
    pub fn work_begins(&mut self) {
        self.since = Instant::now();
    }

    /// Whether the thread has done nothing for so long and waits in the kernel.
    pub fn has_lasted(&mut self, deadline: Duration) -> bool {
        let nr_steps = self.steps.0.nr_steps.load(Ordering::Relaxed);
        if nr_steps != self.seen {
            (self.seen, self.since) = (nr_steps, Instant::now());
        }
        let tid = self.steps.0.tid.load(Ordering::Relaxed);
        self.since.elapsed() >= deadline && (self.waits_in_kernel)(tid)
    }
}

fn waits_in_kernel(tid: i32) -> bool {
    read_stat(tid).is_ok_and(|stat| stat.state == 'D')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stands_still_only_if_it_does_nothing_and_waits_in_the_kernel() {
        let steps = Steps::default();
        steps.begin();
        let (at_once, never) = (Duration::ZERO, Duration::from_secs(3600));
        let mut waiting = Standstill::of_any_wait(steps.clone());
        assert!(waiting.has_lasted(at_once) && !waiting.has_lasted(never));
        let mut running = Standstill::new(steps.clone());
        assert!(!running.has_lasted(at_once), "this thread runs");
        std::thread::sleep(Duration::from_millis(2));
        steps.note();
        assert!(
            !waiting.has_lasted(Duration::from_millis(1)),
            "it has just done something"
        );
    }
}
