//! The kernel's counts of a group and the free swap of the machine: each is read once a tick, however many look at it.
//!
//! Reading `memory.stat` brings the kernel's counts up to date, and reclaim goes by those: a second reading would change
//! what the first one was for.
//!
//! **Owns** what this tick has read. **Does not own** whether something is read (`strata_control`: `limit`, `cpu`).

use strata_control::{FreeSwap, GroupStats};
use strata_linux::cgroup::BudgetGroup;
use strata_linux::swap;

/// What was read so far.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    /// `Some(None)`: it failed.
    counters: Option<Option<GroupStats>>,
    free_swap: Option<FreeSwap>,
}

impl Readings {
    /// Nothing read yet but the free swap, which is played.
    pub(crate) fn with_free_swap(free_swap: FreeSwap) -> Readings {
        Readings {
            counters: None,
            free_swap: Some(free_swap),
        }
    }

    /// The counts of the group, read now unless they were; `None`: they can't be read.
    pub(crate) fn counters(&mut self, group: &BudgetGroup) -> Option<GroupStats> {
        *self.counters.get_or_insert_with(|| group.stats().ok())
    }

    /// The free swap, read now unless it was.
    pub(crate) fn free_swap(&mut self) -> FreeSwap {
        let read = || match swap::known_free_swap_bytes() {
            Some(bytes) => FreeSwap::Bytes(bytes),
            None => FreeSwap::NotKnown,
        };
        *self.free_swap.get_or_insert_with(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_swap_is_the_same_for_all_who_look_in_one_tick() {
        let mut readings = Readings::with_free_swap(FreeSwap::Bytes(7));
        assert_eq!(readings.free_swap(), FreeSwap::Bytes(7));
        let read = Readings::default().free_swap();
        assert_ne!(read, FreeSwap::Bytes(7), "a new tick reads anew");
    }
}
