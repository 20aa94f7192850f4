//! Leaving a program that goes on: what of it is still in swap, and reading that back in.
//!
//! **Owns** how much is read back and for how long. **Does not own** the reading (`actuator`), nor undoing limits and
//! swap (`arena`), which comes first: a limit that is still on would have the kernel take as much again.
//!
//! **Invariants**
//! - I1: what is read fits into the memory that is available, with the margin of a `swapoff`, and below every limit of
//!   the group and of those above it.
//! - I2: it ends after [`BRING_BACK_MAX`], and at once when it is asked to end.

use crate::run::config::AtDetach;
use crate::run::gauge::Gauge;
use crate::run::report::LetGoReport;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use strata_linux::actuator::bring_back;
use strata_linux::cgroup::GroupReader;
use strata_linux::process::{MachineMemory, Process, ProcessTree};
use strata_linux::swap::SWAPOFF_MARGIN_BYTES;

/// From a slow disk it may take long.
const BRING_BACK_MAX: Duration = Duration::from_secs(60);

/// Who is left behind; gathered before anything is undone.
#[derive(Debug)]
pub(super) struct Departure {
    group: Option<GroupReader>,
    processes: Vec<Arc<Process>>,
}

impl Departure {
    /// Remembers the target.
    pub(super) fn from(
        gauge: &Gauge,
        tree: Option<&ProcessTree>,
        root: Option<&Arc<Process>>,
    ) -> Departure {
        let group = gauge.group();
        let listed = gauge.processes().map(|pids| {
            let opened = pids.into_iter().filter_map(|pid| Process::open(pid).ok());
            opened.map(Arc::new).collect()
        });
        let followed = || Some(tree?.processes().cloned().collect());
        Departure {
            group: group.and_then(|group| GroupReader::open(group.path()).ok()),
            processes: listed
                .or_else(followed)
                .unwrap_or_else(|| root.cloned().into_iter().collect()),
        }
    }

    fn room_bytes(&self) -> u64 {
        let available_bytes = MachineMemory::read().map_or(0, |machine| machine.available_bytes);
        let below_limits_bytes = self.group.as_ref().and_then(GroupReader::room_bytes);
        room_bytes(available_bytes, below_limits_bytes)
    }

    /// What the target has in swap; of a group shared memory, too.
    fn swapped_bytes(&self) -> Option<u64> {
        let of_group = self.group.as_ref().and_then(|group| group.stats().ok());
        of_group
            .and_then(|stats| stats.swapped_out_bytes())
            .or_else(|| swapped_bytes(self.processes.iter()))
    }

    /// Once everything is undone: reads back what is to be read back, until `is_over`, and tells what is left.
    pub(super) fn leave(
        &self,
        at_detach: AtDetach,
        is_over: &mut (dyn FnMut() -> bool + Send),
    ) -> LetGoReport {
        let brought_back_bytes = match at_detach {
            AtDetach::Leave => None,
            AtDetach::BringBack => {
                let until = Instant::now() + BRING_BACK_MAX;
                let is_over = Mutex::new(is_over);
                let is_over = || is_over.lock().is_ok_and(|mut is_over| is_over());
                let may_read = |bytes| {
                    Instant::now() < until
                        && !is_over()
                        && (bytes == 0 || bytes <= self.room_bytes())
                };
                Some(bring_back(&self.processes, &may_read))
            }
        };
        LetGoReport {
            swapped_bytes: self.swapped_bytes(),
            brought_back_bytes,
        }
    }
}

/// What processes have in swap, shared memory not counted; `None` if nobody can be read.
pub(super) fn swapped_bytes<'a>(processes: impl Iterator<Item = &'a Arc<Process>>) -> Option<u64> {
    processes.fold(None, |sum, process| match process.swapped_bytes() {
        Ok(bytes) => Some(sum.unwrap_or(0) + bytes),
        Err(_) => sum,
    })
}

fn room_bytes(available_bytes: u64, below_limits_bytes: Option<u64>) -> u64 {
    available_bytes
        .saturating_sub(SWAPOFF_MARGIN_BYTES)
        .min(below_limits_bytes.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_fits_into_memory_and_below_the_limits_is_read_back() {
        const MIB: u64 = 1 << 20;
        assert_eq!(room_bytes(SWAPOFF_MARGIN_BYTES, None), 0);
        assert_eq!(room_bytes(SWAPOFF_MARGIN_BYTES + MIB, None), MIB);
        assert_eq!(room_bytes(SWAPOFF_MARGIN_BYTES + MIB, Some(4096)), 4096);
        assert_eq!(room_bytes(u64::MAX, Some(0)), 0);
        assert_eq!(room_bytes(0, Some(MIB)), 0);
    }
}
