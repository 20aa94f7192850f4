//! Pages on their way back: what was taken last of a group that broke its promise twice in a row.
//!
//! **Owns** the request and the room there has to be. **Does not own** when (`strata_control::promise`), nor the
//! thread's work (`strata_linux::actuator`).
//!
//! **Invariants** I1: nothing is read back that the group's limits or the machine have no room for.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use strata_linux::actuator::{Recall, Wanted};
use strata_linux::addr::{AddrRange, PAGE_BYTES};
use strata_linux::cgroup::GroupReader;
use strata_linux::process::{MachineMemory, Process};
use strata_lru::SpaceNo;
use strata_lru::ages::Run;

/// Memory that stays free of what is read back: one part in ten.
const ROOM_PART: u64 = 10;

/// The thread that reads back.
#[derive(Debug)]
pub(super) struct Recalls {
    thread: Recall,
}

impl Recalls {
    pub(super) fn start() -> io::Result<Recalls> {
        let room_bytes = || {
            let memory = MachineMemory::read();
            memory.map_or(0, |memory| {
                let spared_bytes = memory.total_bytes / ROOM_PART;
                memory.available_bytes.saturating_sub(spared_bytes)
            })
        };
        Ok(Recalls {
            thread: Recall::start(room_bytes)?,
        })
    }

    /// Has pages of a group read back, as far as there is room. Returns how many were asked for.
    pub(super) fn read_back(
        &mut self,
        group: &GroupReader,
        runs: &[Run],
        processes: &BTreeMap<SpaceNo, Arc<Process>>,
    ) -> u64 {
        let nr_pages: u64 = runs.iter().map(|run| run.nr_pages).sum();
        let room_bytes = group.room_bytes().unwrap_or(u64::MAX);
        if nr_pages == 0 || nr_pages * PAGE_BYTES > room_bytes {
            return 0;
        }
        let wanted = runs.iter().filter_map(|run| {
            let (first, end) = (run.first_page, run.first_page + run.nr_pages);
            Some(Wanted {
                process: Arc::clone(processes.get(&run.space)?),
                range: AddrRange::new(first * PAGE_BYTES, end * PAGE_BYTES),
            })
        });
        match self.thread.try_submit(wanted.collect()) {
            true => nr_pages,
            false => 0,
        }
    }
}
