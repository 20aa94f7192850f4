//! How much memory a verb that reads traces may take.
//!
//! **Owns** `--max-memory`: its default, and how many replays at a time fit into it. **Does not own**
//! what a trace or a replay takes (`strata-sim`, `strata-trace`), nor the memory that is simulated.
//!
//! **Invariants**
//! - I1: what is printed never depends on the bound; whether something is refused does.

use anyhow::Context;
use strata_linux::process::MachineMemory;
use strata_linux::units::Bytes;
use strata_sim::{IntervalOrder, Jobs, Workload, run_bytes_max};

/// The part of the machine's memory that may be taken if nothing else is said.
const DEFAULT_PART: u64 = 4;

/// A trace, or what is to be done with it, that needs more than there may be.
#[derive(Debug, thiserror::Error)]
#[error(
    "{what} takes up to {}, more than the {} of --max-memory: allow more ({needed_bytes} bytes), or use a \
     part of the trace", Bytes(*needed_bytes), Bytes(*bytes_max)
)]
pub(crate) struct TooLarge {
    what: String,
    needed_bytes: u64,
    bytes_max: u64,
}

/// How much may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryBound(pub(crate) u64);

impl MemoryBound {
    /// What was asked for, or a quarter of the machine's memory.
    ///
    /// # Errors
    /// The size of the machine can't be told.
    pub(crate) fn new(asked_bytes: Option<u64>) -> anyhow::Result<MemoryBound> {
        let bytes = match asked_bytes {
            Some(bytes) => bytes,
            None => {
                let machine = MachineMemory::read().context(
                    "can't tell how much memory this machine has (/proc/meminfo): say how much may be \
                     taken with --max-memory",
                )?;
                machine.total_bytes / DEFAULT_PART
            }
        };
        Ok(MemoryBound(bytes))
    }

    /// Refuses what takes more; `what` begins the sentence.
    pub(crate) fn check(self, what: &str, needed_bytes: u64) -> Result<(), TooLarge> {
        if needed_bytes <= self.0 {
            return Ok(());
        }
        Err(TooLarge {
            what: what.to_owned(),
            needed_bytes,
            bytes_max: self.0,
        })
    }

    /// Refuses a workload that can't be replayed beside itself.
    pub(crate) fn check_replay(self, workload: &Workload) -> Result<(), TooLarge> {
        let needed = workload.memory_bytes() + run_bytes_max(workload);
        self.check(&format!("{}: a replay", workload.name()), needed)
    }

    /// The workload with its intervals in another order, if there is room for both.
    pub(crate) fn reorder(
        self,
        workload: &Workload,
        order: IntervalOrder,
    ) -> Result<Workload, TooLarge> {
        let needed = workload.memory_bytes() + workload.reorder_bytes();
        let what = format!("{}: putting it in another order", workload.name());
        self.check(&what, needed)?;
        Ok(workload.in_order(order))
    }

    /// Threads for replays of the workload beside so many bytes: as many as were asked for (0 is one a
    /// processor) or fewer, as they fit. How many run at a time changes nothing that comes out.
    pub(crate) fn jobs(
        self,
        workload: &Workload,
        held_bytes: u64,
        nr_asked: usize,
    ) -> anyhow::Result<Jobs> {
        let of_one = run_bytes_max(workload);
        let what = format!("{}: a replay", workload.name());
        self.check(&what, held_bytes + of_one)?;
        let nr_asked = match nr_asked {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            asked => asked,
        };
        let nr_fitting = (self.0 - held_bytes) / of_one.max(1);
        let nr_fitting = usize::try_from(nr_fitting).unwrap_or(usize::MAX);
        Ok(Jobs::try_new(nr_asked.min(nr_fitting.max(1)))?)
    }
}
