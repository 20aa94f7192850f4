//! Why memory of a parked program stayed.
//!
//! **Owns** the reasons and the reckoning. **Does not own** taking.
//!
//! **Invariants** I1: what stayed adds up to what is resident: of a page that several processes map, these have their share.

use crate::observe::ledger::AgedPages;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use strata_linux::access::AccessSource;
use strata_linux::addr::{AddrRange, PAGE_BYTES};
use strata_linux::process::{
    Mapping, MappingClass, MemoryDevices, PagemapEntry, Process, Unreclaimable, classify,
    mapping_at,
};
use strata_linux::swap;
use strata_lru::SpaceNo;

/// Less free swap than this is none.
const FREE_SWAP_MIN: u64 = 1 << 20;
/// Entries of a page table that are read at once: 64 MiB of addresses.
const LOOK_BYTES: u64 = 64 << 20;

strata_lru::named! {
    /// Why a page stayed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum WhyKept {
        /// `mlock`ed.
        Mlocked = "mlocked",
        /// A huge page of hugetlbfs.
        Hugetlb = "hugetlb",
        /// It was asked for (`--keep`).
        Asked = "kept as asked",
        /// Several processes map it, and the kernel takes such a page of nobody alone.
        Shared = "shared with others",
        /// Anonymous, and there is no room in swap.
        NoSwap = "no swap",
        /// Accessed again since.
        InUse = "in use again",
        /// A page of a file that has to be written first.
        Unwritten = "not yet written to its file",
        /// The kernel held it for another reason: it is under I/O, pinned or on its way.
        Busy = "busy",
    }
}

/// What stayed for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Kept {
    /// The reason.
    pub reason: WhyKept,
    /// How much.
    pub bytes: u64,
}

/// What is asked to stay: ranges of a space, by address.
pub(super) type Asked = BTreeMap<SpaceNo, Vec<AddrRange>>;

/// Reckons what `processes` have in memory as of the last walk: `resident_bytes`, each page by its share. `taking` is the time
/// since they began to be taken.
pub(super) fn reckon(
    processes: &[(SpaceNo, Arc<Process>)],
    pages: &AgedPages,
    source: &mut dyn AccessSource,
    asked: &Asked,
    taking: Duration,
    resident_bytes: u64,
) -> Vec<Kept> {
    let free_swap_bytes = swap::free_swap_bytes().unwrap_or(0);
    let mut reckoning = Reckoning {
        has_swap: free_swap_bytes >= FREE_SWAP_MIN,
        has_shared: false,
        bytes: BTreeMap::new(),
    };
    for (space, process) in processes {
        let Some(mappings) = mappings(process, source) else {
            continue;
        };
        let none = Vec::new();
        let asked = asked.get(space).unwrap_or(&none);
        let held = pages.ledger().held(*space);
        for run in held.iter().flat_map(|generation| &generation.runs) {
            let range = AddrRange::of_pages(run.first_page, run.nr_pages);
            reckoning.add(process, range, &mappings, asked, run.idle < taking);
        }
        let huge = |mapping: &&Mapping| mapping.unreclaimable == Some(Unreclaimable::Hugetlb);
        for mapping in mappings.iter().filter(huge) {
            reckoning.add(process, mapping.range, &mappings, asked, false);
        }
    }
    if reckoning.has_shared {
        let own = reckoning.bytes.iter();
        let own = own.filter(|(reason, _)| **reason != WhyKept::Hugetlb);
        let own_bytes: u64 = own.map(|(_, bytes)| bytes).sum();
        let shared_bytes = resident_bytes.saturating_sub(own_bytes);
        reckoning.bytes.insert(WhyKept::Shared, shared_bytes);
    }
    let kept = reckoning.bytes.into_iter();
    let mut kept: Vec<Kept> = kept.map(|(reason, bytes)| Kept { reason, bytes }).collect();
    kept.sort_by_key(|kept| std::cmp::Reverse(kept.bytes));
    kept
}

fn mappings(process: &Process, source: &mut dyn AccessSource) -> Option<Vec<Mapping>> {
    let flags = source.vm_flags(process).ok()?;
    let raw = process.read_maps().ok()?;
    let devices = MemoryDevices::of_process(process.pid()).unwrap_or_default();
    Some(classify(&raw, &flags, &devices))
}

struct Reckoning {
    has_swap: bool,
    /// Whether several map any of them; how many do, and so the share, no table says.
    has_shared: bool,
    bytes: BTreeMap<WhyKept, u64>,
}

impl Reckoning {
    /// `range` lies in one run of pages of one age, perhaps of several mappings.
    fn add(
        &mut self,
        process: &Process,
        range: AddrRange,
        mappings: &[Mapping],
        asked: &[AddrRange],
        is_used: bool,
    ) {
        let mut entries = Vec::new();
        for start in (range.start..range.end).step_by(LOOK_BYTES as usize) {
            let look = AddrRange::new(start, range.end.min(start + LOOK_BYTES));
            if process.read_pagemap(look, &mut entries).is_err() {
                return;
            }
            for (index, entry) in entries.iter().enumerate() {
                let addr = start + index as u64 * PAGE_BYTES;
                if let Some(mapping) = mapping_at(mappings, addr).filter(|_| entry.is_present()) {
                    let is_asked = covers(asked, addr);
                    self.page(*entry, mapping, is_asked, is_used);
                }
            }
        }
    }

    fn page(&mut self, entry: PagemapEntry, mapping: &Mapping, is_asked: bool, is_used: bool) {
        let is_shared = !entry.is_exclusive();
        let is_anon = match entry.is_file_or_shmem() {
            true => mapping.class == MappingClass::Shmem,
            false => true,
        };
        let reason = match mapping.unreclaimable {
            Some(Unreclaimable::Locked) => WhyKept::Mlocked,
            Some(Unreclaimable::Hugetlb) => WhyKept::Hugetlb,
            _ if is_asked => WhyKept::Asked,
            _ if is_shared => WhyKept::Shared,
            _ if is_anon && !self.has_swap => WhyKept::NoSwap,
            _ if is_used => WhyKept::InUse,
            _ if mapping.class == MappingClass::FileShared => WhyKept::Unwritten,
            _ => WhyKept::Busy,
        };
        match reason {
            WhyKept::Shared => self.has_shared = true,
            reason => *self.bytes.entry(reason).or_default() += PAGE_BYTES,
        }
    }
}

fn covers(ranges: &[AddrRange], addr: u64) -> bool {
    let next = ranges.partition_point(|range| range.end <= addr);
    ranges.get(next).is_some_and(|range| range.start <= addr)
}
