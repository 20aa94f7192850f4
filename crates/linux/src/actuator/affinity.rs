//! Where our threads that reclaim run.
//!
//! **Owns** having them run there. **Does not own** where that is to be (`strata_control::affinity`).
//!
//! **Invariants** I1: no other thread is touched.

use crate::process::confine;
use std::io;
use strata_control::Processors;

/// Threads that are confined to some processors, while any are. Whoever confines them gives all processors back before
/// they end: later their ids may be somebody else's.
#[derive(Debug, Default)]
pub struct Confined {
    threads: Vec<i32>,
}

impl Confined {
    /// From now on these threads are meant.
    pub fn take(&mut self, threads: impl Iterator<Item = i32>) {
        self.threads = threads.collect();
    }

    /// Has them run on these processors only.
    ///
    /// # Errors
    /// When one of them has ended, or may not run there; the others run there all the same.
    pub fn run_on(&self, to: &Processors) -> io::Result<()> {
        let results: Vec<_> = self.threads.iter().map(|tid| confine(*tid, to)).collect();
        results.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::processors_of_thread;
    use rustix::thread::gettid;

    #[test]
    fn our_threads_go_where_they_are_sent_and_back_again_and_no_other() {
        let own = processors_of_thread(0).unwrap();
        let numbers = own.numbers().unwrap_or_default();
        let one: Processors = numbers[..1].iter().copied().collect();
        let (tell, told) = std::sync::mpsc::channel();
        let (wake, woken) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                tell.send(gettid().as_raw_nonzero().get()).unwrap();
                woken.recv().unwrap_err();
            });
            let other = told.recv().unwrap();
            let mut confined = Confined::default();
            confined.take([other].into_iter());
            confined.run_on(&one).unwrap();
            assert_eq!(processors_of_thread(other).unwrap(), one);
            assert_eq!(processors_of_thread(0).unwrap(), own, "not asked for");
            confined.run_on(&own).unwrap();
            assert_eq!(processors_of_thread(other).unwrap(), own);
            drop(wake);
        });
    }
}
