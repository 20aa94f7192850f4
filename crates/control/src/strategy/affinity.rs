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
//! **Owns** which processors these threads are to use. **Does not own** having them run there, nor where the
//! programs run (that is theirs, and stays so), nor which of their threads are busy (`cpu`).
//!
//! **Invariants** I1: the threads run on no processor that they might not run on when this began. I2: they always
//! have one.

use crate::sample::Processors;

/// Where these threads may run.
#[derive(Debug)]
pub struct Affinity {
    /// All they might at the beginning; `None` where that can't be told or changed.
    own: Option<Processors>,
    current: Processors,
}

impl Affinity {
    /// Where the threads may run at the beginning, if that is known.
    pub fn new(own: Option<Processors>) -> Affinity {
        Affinity {
            own,
            current: own.unwrap_or_default(),
        }
    }

    /// Where the threads are to run now.
    pub fn current(&self) -> Processors {
        self.current
    }

    /// Keeps the threads off processors that are taken, as long as one is left. Returns where they are to run from now
    /// on, if that changes.
    pub fn avoid(&mut self, taken: Processors) -> Option<Processors> {
        let own = self.own?;
        self.change(left_of(own, taken))
    }

    /// Gives all back that the threads might use. Returns that, if it is a change.
    pub fn widen(&mut self) -> Option<Processors> {
        self.change(self.own?)
    }

    /// The threads could not be moved: they stay where they are.
    pub fn give_up(&mut self) {
        self.own = None;
    }

    fn change(&mut self, to: Processors) -> Option<Processors> {
        let is_change = to != self.current;
        self.current = to;
        is_change.then_some(to)
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
    fn only_changes_are_told_and_widening_gives_all_back() {
        let mut affinity = Affinity::new(Some(set(&[0, 1])));
        assert_eq!(affinity.widen(), None, "nothing was narrowed");
        assert_eq!(affinity.avoid(set(&[1])), Some(set(&[0])));
        assert_eq!(affinity.avoid(set(&[1])), None);
        assert_eq!(affinity.current(), set(&[0]));
        assert_eq!(affinity.widen(), Some(set(&[0, 1])));
    }

    #[test]
    fn where_nothing_is_known_or_nothing_could_be_moved_nothing_changes() {
        let mut affinity = Affinity::new(None);
        assert_eq!(affinity.avoid(set(&[1])), None);
        let mut affinity = Affinity::new(Some(set(&[0, 1])));
        affinity.give_up();
        assert_eq!((affinity.avoid(set(&[1])), affinity.widen()), (None, None));
    }
}
