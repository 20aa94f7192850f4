//! Busy loops beside the command: how much of the processors is left to others.
//!
//! A loop is a thread of the comparing process at its priority, and counts its iterations. That needs no privilege, and
//! nothing is left behind when the process dies.
//!
//! **Owns** the loops and their counts. **Does not own** over which time the counts are taken.

use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

/// Steps of arithmetic in an iteration: about a microsecond.
const ITERATION_STEPS: u64 = 1024;

/// A counter on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Count(AtomicU64);

/// The loops; they end when this is dropped.
#[derive(Debug)]
pub(super) struct Neighbours {
    counts: Arc<[Count]>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Neighbours {
    /// Starts so many.
    pub(super) fn start(nr_loops: usize) -> io::Result<Neighbours> {
        let mut neighbours = Neighbours {
            counts: (0..nr_loops).map(|_| Count::default()).collect(),
            is_over: Arc::default(),
            threads: Vec::new(),
        };
        for number in 0..nr_loops {
            let counts = Arc::clone(&neighbours.counts);
            let is_over = Arc::clone(&neighbours.is_over);
            let thread = thread::Builder::new()
                .name(format!("neighbour-{number}"))
                .spawn(move || {
                    let mut value = number as u64;
                    while !is_over.load(Ordering::Relaxed) {
                        for step in 0..ITERATION_STEPS {
                            value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ step);
                        }
                        counts[number].0.fetch_add(1, Ordering::Relaxed);
                    }
                })?;
            neighbours.threads.push(thread);
        }
        Ok(neighbours)
    }

    /// Iterations of all so far; `None` where there are no loops.
    pub(super) fn nr_iterations(&self) -> Option<u64> {
        let counts = self.counts.iter();
        (!self.counts.is_empty()).then(|| counts.map(|of| of.0.load(Ordering::Relaxed)).sum())
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A loop has nothing to say at its end.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn loops_count_until_they_are_dropped() {
        let neighbours = Neighbours::start(2).expect("threads");
        let counts = Arc::clone(&neighbours.counts);
        while counts.iter().any(|of| of.0.load(Ordering::Relaxed) == 0) {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(neighbours.nr_iterations() >= Some(2));
        drop(neighbours);
        let sum = || {
            counts
                .iter()
                .map(|of| of.0.load(Ordering::Relaxed))
                .sum::<u64>()
        };
        let then = sum();
        thread::sleep(Duration::from_millis(20));
        assert_eq!(sum(), then);
        let none = Neighbours::start(0).expect("no threads");
        assert_eq!(none.nr_iterations(), None);
    }
}
