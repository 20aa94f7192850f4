//! What a dry run would have evicted: every page once, and where it lies.
//!
//! A dry run takes nothing, so the same pages stay the oldest and are decided on again and again. The pages decided on are
//! remembered here. They count once, and the loop is shown the usage that would be left without them, so it stops when
//! the budget would be met.
//!
//! **Owns** the pages decided on and their names. **Does not own** the decision (the engine), nor that nothing is taken
//! (`actuators`).
//!
//! **Invariants** W1: a page of a program counts once, however often it is decided on. W2: what a program that has ended
//! used is not taken off usage any more.

use crate::actuator::PageoutRequest;
use crate::addr::PAGE_BYTES;
use crate::process::{Mapping, MappingClass, MemoryDevices, Process, classify};
use crate::run::report::{WouldEvictReport, WouldEvictShare};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The pages of one program.
#[derive(Debug)]
struct Program {
    process: Arc<Process>,
    /// Page numbers: address over page size.
    pages: BTreeSet<u64>,
}

/// The pages that were decided on.
#[derive(Debug, Default)]
pub(super) struct WouldEvict {
    programs: BTreeMap<u32, Program>,
    shares: BTreeMap<&'static str, u64>,
}

impl WouldEvict {
    /// Counts the pages of a request that nobody carries out.
    pub(super) fn add(&mut self, request: &PageoutRequest) {
        if request.pages.is_empty() {
            return;
        }
        let mappings = mappings(&request.process);
        // After an exec the same process has another space, and the pages of the old one are gone.
        let pid = request.process.pid();
        let is_current =
            |space: u32, of: &Program| space == request.space || of.process.pid() != pid;
        self.programs.retain(|space, of| is_current(*space, of));
        let of = self
            .programs
            .entry(request.space)
            .or_insert_with(|| Program {
                process: Arc::clone(&request.process),
                pages: BTreeSet::new(),
            });
        if !Arc::ptr_eq(&of.process, &request.process) {
            // The number of a space is given again once its program has ended.
            of.process = Arc::clone(&request.process);
            of.pages.clear();
        }
        for target in &request.pages {
            let first = target.addr / PAGE_BYTES;
            let pages = first..first + (1 << target.order);
            let nr_new = pages.filter(|page| of.pages.insert(*page)).count() as u64;
            if nr_new > 0 {
                *self
                    .shares
                    .entry(name_at(&mappings, target.addr))
                    .or_default() += nr_new;
            }
        }
    }

    /// Bytes by which usage would be lower now.
    pub(super) fn bytes(&self) -> u64 {
        let alive = self.programs.values().filter(|of| of.process.is_alive());
        alive.map(|of| of.pages.len() as u64 * PAGE_BYTES).sum()
    }

    /// All that was decided on, largest share first.
    pub(super) fn report(&self) -> WouldEvictReport {
        let shares = self.shares.iter().map(|(name, nr_pages)| WouldEvictShare {
            name: (*name).to_owned(),
            nr_pages: *nr_pages,
        });
        let mut shares: Vec<WouldEvictShare> = shares.collect();
        shares.sort_by_key(|share| std::cmp::Reverse(share.nr_pages));
        WouldEvictReport {
            nr_pages: shares.iter().map(|share| share.nr_pages).sum(),
            shares,
        }
    }
}

/// The mappings of a process as they are now; none where it has just ended.
fn mappings(process: &Process) -> Vec<Mapping> {
    let raw = process.read_maps().unwrap_or_default();
    let devices = MemoryDevices::of_process(process.pid()).unwrap_or_default();
    classify(&raw, &[], &devices)
}

/// What the mapping at an address is called in a sum over mappings.
fn name_at(mappings: &[Mapping], addr: u64) -> &'static str {
    let at = mappings.partition_point(|mapping| mapping.range.end <= addr);
    match mappings
        .get(at)
        .filter(|mapping| mapping.range.contains(addr))
    {
        None => "unmapped since",
        Some(mapping) => match mapping.class {
            MappingClass::Anon => "[anon]",
            MappingClass::Heap => "[heap]",
            MappingClass::Stack => "[stack]",
            MappingClass::Shmem => "shared memory",
            MappingClass::FilePrivate | MappingClass::FileShared => "files",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actuator::PageTarget;

    fn request(process: &Arc<Process>, space: u32, pages: &[(u64, u8)]) -> PageoutRequest {
        let target = |&(addr, order): &(u64, u8)| PageTarget {
            token: 0,
            addr,
            order,
        };
        PageoutRequest {
            space,
            process: Arc::clone(process),
            pages: pages.iter().map(target).collect(),
            splits: Vec::new(),
        }
    }

    #[test]
    fn a_page_that_is_decided_on_again_counts_once() {
        let process = Arc::new(Process::open(std::process::id() as i32).expect("ourselves"));
        let on_stack = 0_u8;
        let stack = std::ptr::from_ref(&on_stack).addr() as u64 / PAGE_BYTES * PAGE_BYTES;
        // Mapped by nobody: the first page.
        let mut would = WouldEvict::default();
        would.add(&request(&process, 1, &[(0, 0), (stack, 0)]));
        would.add(&request(&process, 1, &[(0, 0), (stack, 0), (0, 1)]));
        assert_eq!(
            would.bytes(),
            3 * PAGE_BYTES,
            "the second page of order 1 is new"
        );
        // The same addresses of another space are other pages; the first space is gone by exec.
        would.add(&request(&process, 2, &[(0, 0)]));
        assert_eq!(would.bytes(), PAGE_BYTES);
        let report = would.report();
        assert_eq!(report.nr_pages, 4, "what was decided stays counted");
        assert_eq!(report.shares[0].name, "unmapped since");
        assert_eq!(report.shares.iter().map(|of| of.nr_pages).sum::<u64>(), 4);
    }

    #[test]
    fn a_page_is_named_by_the_mapping_it_lies_in() {
        let process = Process::open(std::process::id() as i32).expect("ourselves");
        let mappings = mappings(&process);
        let one = |class| mappings.iter().find(|mapping| mapping.class == class);
        let text = one(MappingClass::FilePrivate)
            .expect("the program itself")
            .range;
        assert_eq!(name_at(&mappings, text.start), "files");
        assert_eq!(name_at(&mappings, text.end - 1), "files");
        let heap = one(MappingClass::Heap).expect("a heap").range;
        assert_eq!(name_at(&mappings, heap.start), "[heap]");
        assert_eq!(name_at(&mappings, 0), "unmapped since");
        assert_eq!(name_at(&mappings, u64::MAX), "unmapped since");
    }
}
