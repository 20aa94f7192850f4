//! Which processors the threads that reclaim use while programs are under pressure: not those that busy threads
//! of the programs run on, while others are left.
//!
//! The scheduler may leave two threads that sleep and wake often on one processor although another is idle: a
//! server that waits for requests and the thread that reclaims for it took turns there. A memcached without
//! housekeeping, at 0.89 of its memory, serves 1.4 times as much when they are kept apart (six runs of 5 s, 159
//! for 115 thousand a second); a program that never sleeps gains and loses nothing. The control loop and the
//! thread that touches warm pages stay free: behind the one that reclaims they come too late (zipf 0.99: 2 % more
//! faults).
//!
//! **Owns** where our threads may run, and what they might before. **Does not own** where the programs run
//! (that is theirs, and stays so), nor which of their threads are busy (`demand`).
//!
//! **Invariants**
//! - I1: our threads run on no processor that they might not run on when this began.
//! - I2: what was narrowed is widened again when nobody asks for it any more, and before the threads end: later
//!   their ids may be somebody else's.

use crate::process::Processors;

/// Where these threads may run.
#[derive(Debug)]
pub(super) struct Apart {
    /// All they might at the beginning; `None` where that can't be told or changed.
    own: Option<Processors>,
    /// Where they may now.
    current: Processors,
    /// Those that are confined, while any are.
    threads: Vec<i32>,
}

impl Apart {
    /// Where the calling thread may run all may run.
    pub(super) fn new() -> Apart {
        let own = Processors::of_thread(0).ok();
        Apart {
            own,
            current: own.unwrap_or_default(),
            threads: Vec::new(),
        }
    }

    /// Where our threads may run now.
    pub(super) fn current(&self) -> Processors {
        self.current
    }

    /// Keeps these threads off the processors that are taken, as long as one is left.
    pub(super) fn keep(&mut self, taken: Processors, threads: impl Iterator<Item = i32>) {
        let Some(own) = self.own else { return };
        let left = left_of(own, taken);
        if left == self.current {
            return;
        }
        self.threads = threads.collect();
        if let Err(error) = self.confine(left) {
            tracing::debug!("our threads stay where they are: {error}");
            self.widen();
            self.own = None;
        }
    }

    /// Gives all back that our threads might use.
    pub(super) fn widen(&mut self) {
        let Some(own) = self.own.filter(|own| *own != self.current) else {
            return;
        };
        if let Err(error) = self.confine(own) {
            tracing::debug!("our threads can't go back to where they were: {error}");
        }
    }

    fn confine(&mut self, to: Processors) -> std::io::Result<()> {
        self.current = to;
        let threads = self.threads.iter();
        // All of them, whatever becomes of one: a thread may have ended.
        let results: Vec<_> = threads.map(|tid| to.confine(*tid)).collect();
        results.into_iter().collect()
    }
}

fn left_of(own: Processors, taken: Processors) -> Processors {
    let left = own - taken;
    match left.count() {
        0 => own,
        _ => left,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::gettid;

    fn set(numbers: &[usize]) -> Processors {
        numbers.iter().copied().collect()
    }

    #[test]
    fn what_is_taken_is_left_out_as_long_as_something_is_left() {
        assert_eq!(left_of(set(&[0, 1, 2]), set(&[1])), set(&[0, 2]));
        assert_eq!(left_of(set(&[0, 1]), set(&[0, 1])), set(&[0, 1]));
        assert_eq!(left_of(set(&[3]), set(&[3])), set(&[3]));
        assert_eq!(left_of(set(&[2, 3]), set(&[0])), set(&[2, 3]));
    }

    #[test]
    fn our_threads_go_where_the_programs_do_not_run_and_back_again() {
        let own = Processors::of_thread(0).unwrap();
        let Some(taken) = (0..1024).find(|number| own.contains(*number)) else {
            panic!("nowhere to run");
        };
        // A processor that is the only one stays ours.
        let expected = left_of(own, set(&[taken]));
        let (tell, told) = std::sync::mpsc::channel();
        let (wake, woken) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                tell.send(gettid().as_raw_nonzero().get()).unwrap();
                woken.recv().unwrap_err();
            });
            let other = told.recv().unwrap();
            let mut apart = Apart::new();
            apart.keep(set(&[taken]), [other].into_iter());
            assert_eq!(Processors::of_thread(other).unwrap(), expected);
            assert_eq!(Processors::of_thread(0).unwrap(), own, "not asked for");
            apart.keep(set(&[]), [other].into_iter());
            assert_eq!(Processors::of_thread(other).unwrap(), own);
            apart.keep(set(&[taken]), [other].into_iter());
            apart.widen();
            assert_eq!(Processors::of_thread(other).unwrap(), own);
            drop(wake);
        });
    }
}
