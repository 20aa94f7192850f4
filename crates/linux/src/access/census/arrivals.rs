//! Page cache of the watched groups as it comes to memory, in order.
//!
//! A census finds what is in memory. It does not tell a page that stayed from one that went and came back between two
//! censuses, which is what tells a load that memory is too small for. The kernel calls a program of ours for each folio
//! that it adds to page cache: on a read that had to go to the disk, for readahead, and on a first write.
//!
//! **Owns** what is told of an arrival. **Does not own** the hook (`sys::bpf_arrivals`), nor what follows from arrivals
//! .
//!
//! **Invariants**
//! - I1: what was not told is counted.

use std::io;

use strata_lru::machine::{Arrival, FileId, FileKey};

use super::{Census, device_number, device_of};
use crate::sys::bpf_arrivals::{ArrivalLog, ArrivalWords};

/// Tells of page cache that comes to memory.
#[derive(Debug)]
pub struct Arrivals {
    log: ArrivalLog,
}

impl Arrivals {
    /// Begins to watch the groups that the census watches; `None`: this census was not opened for that.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(super) fn watch(census: &Census) -> io::Result<Option<Arrivals>> {
        let log = census.program.watch_arrivals()?;
        Ok(log.map(|log| Arrivals { log }))
    }

    /// What has come since the last time, in the order in which it came.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn take(&self) -> io::Result<Vec<Arrival>> {
        Ok(self.log.take()?.into_iter().map(arrival_of).collect())
    }

    /// Folios that came and were not told, since the start: more came between two looks than there is room for.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn nr_lost(&self) -> io::Result<u64> {
        self.log.nr_lost()
    }
}

fn arrival_of([mapping, inode, device, generation, index, nr_pages]: ArrivalWords) -> Arrival {
    Arrival {
        file: FileId {
            device: device_number(device_of(device)),
            inode,
            generation,
            key: FileKey(mapping),
            is_in_memory_only: false,
        },
        index,
        nr_pages,
    }
}
