//! `bring_back`: reads what programs have in swap back into memory before Strata leaves them.
//!
//! Where pages of a process are in swap its page tables say. Swapped-out shared memory stands in no page table: all of it
//! that is not mapped is asked for.
//!
//! **Owns** finding them, process by process. **Does not own** the reading (`read_back`), nor how much may be read, nor for
//! how long (the caller).

use std::sync::Arc;

use super::read_back::{Wanted, cut, read_back, runs};
use crate::addr::PAGE_BYTES;
use crate::process::{MappingClass, MemoryDevices, Process, classify};

/// Page tables are read for so many pages at a time; most of a large mapping may be empty.
const LOOK_PAGES: u64 = 4096;

/// Reads everything that `processes` have in swap, until `is_over`, or `may_read` forbids so many bytes more. Returns the
/// bytes that were read and are mapped.
pub fn bring_back(
    processes: &[Arc<Process>],
    may_read: &(dyn Fn(u64) -> bool + Sync),
    is_over: &mut dyn FnMut() -> bool,
) -> u64 {
    let read = |process| read_all(process, may_read, is_over);
    processes.iter().map(read).sum()
}

fn read_all(
    process: &Arc<Process>,
    may_read: &(dyn Fn(u64) -> bool + Sync),
    is_over: &mut dyn FnMut() -> bool,
) -> u64 {
    // A process that ends meanwhile has nothing to be read.
    let raw = process.read_maps().unwrap_or_default();
    let devices = MemoryDevices::of_process(process.pid()).unwrap_or_default();
    let mut entries = Vec::new();
    let mut bytes = 0;
    for mapping in classify(&raw, &[], &devices) {
        for look in cut(mapping.range, LOOK_PAGES) {
            if is_over() || !process.is_space_current() {
                return bytes;
            }
            let ranges = if mapping.class == MappingClass::Shmem {
                vec![look]
            } else if process.read_pagemap(look, &mut entries).is_ok() {
                let swapped = entries.iter().enumerate();
                let swapped = swapped.filter(|(_, entry)| entry.is_swapped());
                let pages = swapped.map(|(index, _)| look.start + index as u64 * PAGE_BYTES);
                runs(&pages.collect::<Vec<u64>>())
            } else {
                return bytes;
            };
            let of_process = |range| Wanted {
                process: Arc::clone(process),
                range,
            };
            let wanted: Vec<Wanted> = ranges.into_iter().map(of_process).collect();
            let read = read_back(&wanted, 1, may_read);
            bytes += read.mapped_bytes;
            if read.is_cut_short {
                return bytes;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_where_nothing_is_allowed() {
        let own = std::process::id().try_into().expect("a pid");
        let own = Arc::new(Process::open(own).expect("opens"));
        assert_eq!(bring_back(&[own], &|_| false, &mut || false), 0);
    }
}
